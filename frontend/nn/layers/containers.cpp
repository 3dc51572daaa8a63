#include "lazuli/nn/containers.h"

#include <algorithm>
#include <unordered_map>

namespace lz::nn {

namespace {

[[noreturn]] void throw_out_of_range(const Module &module, size_t index, size_t size, Location loc) {
    throw IndexError("at: " + module.name() + " has " + std::to_string(size) + " entries, and none at " +
                         std::to_string(index),
                     loc);
}

/// Clones of modules; of one that comes twice one clone.
class Clones {
public:
    Clones(const OptionalDevice &device, Location loc) : device_(device), loc_(loc) {}
    std::shared_ptr<Module> of(const std::shared_ptr<Module> &module) {
        std::shared_ptr<Module> &clone = clones_[module.get()];
        if (!clone)
            clone = module->clone(device_, loc_);
        return clone;
    }

private:
    const OptionalDevice &device_;
    const Location loc_;
    std::unordered_map<const Module *, std::shared_ptr<Module>> clones_;
};

/// A parameter of its own with this one's value.
Tensor clone_of(const Tensor &parameter, const OptionalDevice &device, Location loc) {
    Tensor copy = parameter.detach(loc);
    if (device)
        copy = copy.to(*device, loc);
    return copy.requires_grad_(parameter.requires_grad(loc), loc);
}

} // namespace

// --- Sequential

SequentialImpl::SequentialImpl(std::initializer_list<NamedAnyModule> modules, Location loc) {
    for (const NamedAnyModule &one : modules)
        push_back(one.name(), one.module(), loc);
}

void SequentialImpl::push_back(AnyModule module, Location loc) {
    push_back(std::to_string(modules_.size()), std::move(module), loc);
}

void SequentialImpl::push_back(std::string name, AnyModule module, Location loc) {
    register_module(name, module.ptr(), loc);
    names_.push_back(std::move(name));
    modules_.push_back(std::move(module));
}

Tensor SequentialImpl::forward(Tensor x, Location loc) {
    for (const AnyModule &module : modules_)
        x = module.forward(x, loc);
    return x;
}

const std::shared_ptr<Module> &SequentialImpl::ptr(size_t index, Location loc) const {
    if (index >= modules_.size())
        throw_out_of_range(*this, index, modules_.size(), loc);
    return modules_[index].ptr();
}

std::shared_ptr<Module> SequentialImpl::clone(const OptionalDevice &device, Location loc) const {
    auto copy = std::make_shared<SequentialImpl>();
    Clones clones(device, loc);
    for (size_t i = 0; i < modules_.size(); ++i) {
        AnyModule module = modules_[i];
        module.module_ = clones.of(module.module_);
        copy->push_back(names_[i], std::move(module), loc);
    }
    copy->train_alone(is_training());
    return copy;
}

// --- Functional

FunctionalImpl::FunctionalImpl(Tensor (*function)(const Tensor &, Location)) : of_library_(function) {}

Tensor FunctionalImpl::forward(const Tensor &x, Location loc) {
    return of_library_ ? of_library_(x, loc) : function_(x);
}

std::shared_ptr<Module> FunctionalImpl::clone(const OptionalDevice &, Location) const {
    return std::make_shared<FunctionalImpl>(*this);
}

// --- ModuleList

void ModuleListImpl::add(std::shared_ptr<Module> module, Location loc) {
    register_module(std::to_string(modules_.size()), module, loc);
    modules_.push_back(std::move(module));
}

void ModuleListImpl::insert_at(size_t index, std::shared_ptr<Module> module, Location loc) {
    if (index > modules_.size())
        throw_out_of_range(*this, index, modules_.size(), loc);
    add(std::move(module), loc); // checked there
    std::rotate(modules_.begin() + static_cast<std::ptrdiff_t>(index), modules_.end() - 1, modules_.end());
    for (size_t i = index; i < modules_.size(); ++i)
        replace_module(std::to_string(i), modules_[i], loc);
}

const std::shared_ptr<Module> &ModuleListImpl::ptr(size_t index, Location loc) const {
    if (index >= modules_.size())
        throw_out_of_range(*this, index, modules_.size(), loc);
    return modules_[index];
}

std::shared_ptr<Module> ModuleListImpl::clone(const OptionalDevice &device, Location loc) const {
    auto copy = std::make_shared<ModuleListImpl>();
    Clones clones(device, loc);
    for (const auto &module : modules_)
        copy->add(clones.of(module), loc);
    copy->train_alone(is_training());
    return copy;
}

// --- ModuleDict

ModuleDictImpl::ModuleDictImpl(std::initializer_list<std::pair<std::string, std::shared_ptr<Module>>> modules,
                               Location loc) {
    for (const auto &[name, module] : modules)
        put(name, module, loc);
}

void ModuleDictImpl::put(const std::string &name, std::shared_ptr<Module> module, Location loc) {
    if (contains(name))
        replace_module(name, std::move(module), loc);
    else
        register_module(name, std::move(module), loc);
}

std::shared_ptr<Module> ModuleDictImpl::pop(const std::string &name, Location loc) {
    std::shared_ptr<Module> module = contains(name) ? at(name, loc) : nullptr;
    unregister_module(name, loc);
    return module;
}

bool ModuleDictImpl::contains(const std::string &name) const {
    return child(name) != nullptr;
}

size_t ModuleDictImpl::size() const {
    return named_children().size();
}

std::vector<std::string> ModuleDictImpl::keys() const {
    return named_children().keys();
}

std::vector<std::shared_ptr<Module>> ModuleDictImpl::values() const {
    return children();
}

std::vector<std::pair<std::string, std::shared_ptr<Module>>> ModuleDictImpl::items() const {
    return named_children().pairs();
}

std::shared_ptr<Module> ModuleDictImpl::at(const std::string &name, Location loc) const {
    std::shared_ptr<Module> module = child(name);
    if (!module)
        throw IndexError("at: " + this->name() + " has no module \"" + name + "\"", loc);
    return module;
}

std::shared_ptr<Module> ModuleDictImpl::clone(const OptionalDevice &device, Location loc) const {
    auto copy = std::make_shared<ModuleDictImpl>();
    Clones clones(device, loc);
    for (const std::string &name : keys())
        copy->put(name, clones.of(at(name, loc)), loc);
    copy->train_alone(is_training());
    return copy;
}

// --- lists and dictionaries of parameters

ParameterListImpl::ParameterListImpl(std::initializer_list<Tensor> parameters, Location loc) {
    for (const Tensor &parameter : parameters)
        append(parameter, true, loc);
}

void ParameterListImpl::append(const Tensor &parameter, bool requires_grad, Location loc) {
    list_.push_back(register_parameter(std::to_string(list_.size()), parameter, requires_grad, loc));
}

const Tensor &ParameterListImpl::at(size_t index, Location loc) const {
    if (index >= list_.size())
        throw_out_of_range(*this, index, list_.size(), loc);
    return list_[index];
}

std::shared_ptr<Module> ParameterListImpl::clone(const OptionalDevice &device, Location loc) const {
    auto copy = std::make_shared<ParameterListImpl>();
    for (const Tensor &parameter : list_)
        copy->append(clone_of(parameter, device, loc), parameter.requires_grad(loc), loc);
    return copy;
}

ParameterDictImpl::ParameterDictImpl(const OrderedDict<Tensor> &parameters, Location loc) {
    for (const auto &[name, parameter] : parameters)
        insert(name, parameter, loc);
}

Tensor ParameterDictImpl::insert(const std::string &name, const Tensor &parameter, Location loc) {
    return dict_.insert(name, register_parameter(name, parameter, true, loc), loc);
}

bool ParameterDictImpl::contains(const std::string &name) const {
    return dict_.contains(name);
}

size_t ParameterDictImpl::size() const noexcept {
    return dict_.size();
}

std::vector<std::string> ParameterDictImpl::keys() const {
    return dict_.keys();
}

const Tensor &ParameterDictImpl::at(const std::string &name, Location loc) const {
    return dict_.at(name, loc);
}

std::shared_ptr<Module> ParameterDictImpl::clone(const OptionalDevice &device, Location loc) const {
    auto copy = std::make_shared<ParameterDictImpl>();
    for (const auto &[name, parameter] : dict_) {
        Tensor own = copy->insert(name, clone_of(parameter, device, loc), loc);
        own.requires_grad_(parameter.requires_grad(loc), loc);
    }
    return copy;
}

Sequential::Sequential(std::initializer_list<NamedAnyModule> modules, Location loc)
    : ModuleHolder(std::make_shared<SequentialImpl>(modules, loc)) {}
Functional::Functional(Tensor (*function)(const Tensor &, Location))
    : ModuleHolder(std::make_shared<FunctionalImpl>(function)) {}

} // namespace lz::nn
