#include "lazuli/nn/module.h"

#include "frontend/nn/module/constructing.h"
#include "frontend/nn/module/hooks.h"
#include "frontend/nn/module/type_name.h"
#include "lazuli/compiled.h"

#include <ostream>
#include <sstream>
#include <unordered_set>
#include <utility>

namespace lz::nn {

Module::Module() = default;
Module::Module(std::string name) : name_(std::move(name)) {}
Module::~Module() = default;
Module::Module(const Module &) = default;
Module &Module::operator=(const Module &) = default;
Module::Module(Module &&) noexcept = default;
Module &Module::operator=(Module &&) noexcept = default;

void Module::check_name(const std::string &name, const char *function, Location loc) const {
    const std::string head = std::string(function) + ": the name \"" + name + "\" ";
    if (name.empty() || name.find('.') != std::string::npos)
        throw StateError(head + "of a part of " + this->name() +
                             (name.empty() ? " is empty" : " has a dot, which stands between names"),
                         loc);
    if (parameters_.contains(name) || buffers_.contains(name) || children_.contains(name))
        throw StateError(head + "is taken in " + this->name() + " by a " +
                             (parameters_.contains(name) ? "parameter"
                              : buffers_.contains(name)  ? "buffer"
                                                         : "module"),
                         loc);
}

Tensor Module::register_parameter(std::string name, Tensor tensor, bool requires_grad, Location loc) {
    check_name(name, "register_parameter", loc);
    if (tensor.defined()) {
        if (!tensor.is_leaf(loc))
            throw StateError("register_parameter: \"" + name + "\" of " + this->name() +
                                 " was computed from tensors that require grad; a parameter is none of "
                                 "these, detach() gives one",
                             loc);
        tensor.requires_grad_(requires_grad, detail::Constructing::line(loc));
    }
    parameters_.insert(std::move(name), tensor, loc);
    return tensor;
}

Tensor Module::register_buffer(std::string name, Tensor tensor, bool persistent, Location loc) {
    check_name(name, "register_buffer", loc);
    buffers_.insert(std::move(name), {tensor, persistent}, loc);
    return tensor;
}

namespace {

void check_child(const Module &parent, const std::string &name, const std::shared_ptr<Module> &module,
                 Location loc) {
    if (!module)
        throw StateError("register_module: \"" + name + "\" of " + parent.name() +
                             " is no module but an empty holder or pointer",
                         loc);
    for (const std::shared_ptr<Module> &part : module->modules())
        if (part.get() == &parent)
            throw StateError("register_module: \"" + name + "\" of " + parent.name() + " has this " +
                                 parent.name() + " among its own modules",
                             loc);
}

} // namespace

void Module::add_child(std::string name, std::shared_ptr<Module> module, Location loc) {
    check_name(name, "register_module", loc);
    check_child(*this, name, module, loc);
    children_.insert(std::move(name), std::move(module), loc);
}

void Module::replace_child(const std::string &name, std::shared_ptr<Module> module, Location loc) {
    if (!children_.contains(name))
        throw StateError("replace_module: " + this->name() + " has no module \"" + name + "\"", loc);
    check_child(*this, name, module, loc);
    *children_.find(name) = std::move(module);
}

void Module::unregister_module(const std::string &name, Location loc) {
    if (!children_.erase(name))
        throw StateError("unregister_module: " + this->name() + " has no module \"" + name + "\"", loc);
}

// --- what is in it

namespace {

std::string joined(const std::string &prefix, const std::string &name) {
    return prefix.empty() ? name : prefix + "." + name;
}

/// The modules that have been seen, and each with its name.
template <class F>
void walk(const Module &module, const std::string &prefix, std::unordered_set<const Module *> &seen,
          const OrderedDict<std::shared_ptr<Module>> &(*children)(const Module &), F &&f) {
    if (!seen.insert(&module).second)
        return;
    f(prefix, module);
    for (const auto &[name, child] : children(module))
        walk(*child, joined(prefix, name), seen, children, f);
}

} // namespace

/// f(name, module) for this one and all inside, once each.
template <class F>
void Module::each(const std::string &prefix, bool recurse, F &&f) const {
    if (!recurse)
        return f(prefix, *this);
    std::unordered_set<const Module *> seen;
    walk(*this, prefix, seen, +[](const Module &m) -> const auto & { return m.children_; }, f);
}

OrderedDict<Tensor> Module::named_parameters(bool recurse) const {
    OrderedDict<Tensor> all;
    std::unordered_set<const void *> seen;
    each("", recurse, [&](const std::string &prefix, const Module &module) {
        for (const auto &[name, tensor] : module.parameters_)
            if (tensor.defined() && seen.insert(tensor.id()).second)
                all.insert(joined(prefix, name), tensor);
    });
    return all;
}

OrderedDict<Tensor> Module::named_buffers(bool recurse) const {
    OrderedDict<Tensor> all;
    std::unordered_set<const void *> seen;
    each("", recurse, [&](const std::string &prefix, const Module &module) {
        for (const auto &[name, buffer] : module.buffers_)
            if (buffer.tensor.defined() && seen.insert(buffer.tensor.id()).second)
                all.insert(joined(prefix, name), buffer.tensor);
    });
    return all;
}

std::vector<Tensor> Module::parameters(bool recurse) const {
    std::vector<Tensor> all;
    std::unordered_set<const void *> seen;
    each("", recurse, [&](const std::string &, const Module &module) {
        for (const auto &[name, tensor] : module.parameters_)
            if (tensor.defined() && seen.insert(tensor.id()).second)
                all.push_back(tensor);
    });
    return all;
}

std::vector<Tensor> Module::buffers(bool recurse) const {
    return named_buffers(recurse).values();
}

std::shared_ptr<Module> Module::child(const std::string &name) const {
    const auto *const there = children_.find(name);
    return there ? *there : nullptr;
}

std::vector<std::shared_ptr<Module>> Module::children() const {
    return named_children().values();
}

OrderedDict<std::shared_ptr<Module>> Module::named_children() const {
    OrderedDict<std::shared_ptr<Module>> all;
    std::unordered_set<const Module *> seen;
    for (const auto &[name, child] : children_)
        if (seen.insert(child.get()).second)
            all.insert(name, child);
    return all;
}

OrderedDict<std::shared_ptr<Module>> Module::named_modules(const std::string &prefix, bool include_self) {
    OrderedDict<std::shared_ptr<Module>> all;
    each(prefix, true, [&](const std::string &name, const Module &module) {
        if (&module == this && !include_self)
            return;
        auto &here = const_cast<Module &>(module); // NOLINT: `this` is not const
        std::shared_ptr<Module> shared = here.weak_from_this().lock();
        if (!shared) // on the stack, or a member
            shared = std::shared_ptr<Module>(std::shared_ptr<void>(), &here);
        all.insert(name, std::move(shared));
    });
    return all;
}

std::vector<std::shared_ptr<Module>> Module::modules(bool include_self) {
    return named_modules("", include_self).values();
}

Module &Module::apply(const std::function<void(Module &)> &function) {
    return apply([&](const std::string &, Module &module) { function(module); });
}

Module &Module::apply(const std::function<void(const std::string &, Module &)> &function,
                      const std::string &prefix) {
    std::unordered_set<Module *> seen;
    const auto visit = [&](const auto &self, const std::string &name, Module &module) -> void {
        if (!seen.insert(&module).second)
            return;
        for (const auto &[inner, child] : module.children_)
            self(self, joined(name, inner), *child);
        function(name, module);
    };
    visit(visit, prefix, *this);
    return *this;
}

// --- moving and training

void Module::move(const std::optional<Device> &device, std::optional<DType> dtype, Location loc) {
    if (dtype && !is_floating_point(*dtype))
        throw DTypeError(
            "to: a module is converted to a dtype of floats, not to " + std::string(lz::name(*dtype)), loc);
    std::vector<std::pair<Tensor, Tensor>> moved; // all of them before the first one shows it
    const auto move_one = [&](const Tensor &tensor) {
        const Device to = device.value_or(tensor.device(loc));
        const bool converts = dtype && is_floating_point(tensor.dtype(loc));
        Tensor value = tensor.detach(loc).to(to, converts ? *dtype : tensor.dtype(loc), loc);
        moved.emplace_back(tensor, std::move(value));
    };
    for (const Tensor &parameter : parameters())
        move_one(parameter);
    for (const Tensor &buffer : buffers())
        move_one(buffer);
    for (auto &[tensor, value] : moved)
        tensor.set_data(value, loc);
}

Module &Module::to(const Device &device, Location loc) {
    move(device, std::nullopt, loc);
    return *this;
}
Module &Module::to(DType dtype, Location loc) {
    move(std::nullopt, dtype, loc);
    return *this;
}
Module &Module::to(const Device &device, DType dtype, Location loc) {
    move(device, dtype, loc);
    return *this;
}
Module &Module::cuda(int index, Location loc) {
    return to(Device::cuda(index), loc);
}
Module &Module::cuda(const Device &device, Location loc) {
    if (!device.is_cuda())
        throw DeviceError("cuda: " + device.str() + " is no GPU", loc);
    return to(device, loc);
}
Module &Module::cpu(Location loc) {
    return to(Device::cpu(), loc);
}

Module &Module::train(bool on) {
    if (std::exchange(training_, on) != on)
        host_state_changed();
    for (const auto &[name, child] : children_)
        child->train(on);
    return *this;
}

void Module::zero_grad(bool set_to_none, Location loc) {
    for (Tensor &parameter : parameters()) {
        if (!parameter.grad(loc).defined())
            continue;
        if (set_to_none)
            parameter.mutable_grad(loc) = Tensor();
        else
            parameter.mutable_grad(loc) = zeros_like(parameter, {}, loc);
    }
}

Module &Module::requires_grad_(bool requires_grad, Location loc) {
    for (Tensor &parameter : parameters())
        parameter.requires_grad_(requires_grad, loc);
    return *this;
}

// --- printing

std::string Module::name() const {
    return name_.empty() ? detail::type_name(typeid(*this)) : name_;
}

std::string Module::extra_repr() const {
    return {};
}

void Module::pretty_print(std::ostream &stream) const {
    stream << name() << '(' << extra_repr() << ')';
}

void Module::print(std::ostream &stream, const std::string &indent) const {
    if (children_.empty())
        return pretty_print(stream);
    std::ostringstream head;
    pretty_print(head);
    std::string text = head.str();
    const bool closes = text.ends_with(')');
    if (closes)
        text.pop_back();
    stream << text << (closes ? "\n" : "(\n");
    const std::string inner = indent + "  ";
    std::vector<std::string> texts;
    for (const auto &[name, child] : children_) {
        std::ostringstream text;
        child->print(text, inner);
        texts.push_back(text.str());
    }
    const auto &children = children_.items();
    for (size_t i = 0, next = 0; i < texts.size(); i = next) {
        for (next = i + 1; prints_equals_once() && next < texts.size() && texts[next] == texts[i];)
            ++next;
        stream << inner << '(' << children[i].first;
        if (next - i > 1)
            stream << '-' << children[next - 1].first << "): " << next - i << " x ";
        else
            stream << "): ";
        stream << texts[i] << '\n';
    }
    stream << indent << ')';
}

bool Module::prints_equals_once() const {
    return false;
}

std::string Module::str() const {
    std::ostringstream out;
    print(out, "");
    return out.str();
}

std::ostream &operator<<(std::ostream &out, const Module &module) {
    return out << module.str();
}

} // namespace lz::nn
