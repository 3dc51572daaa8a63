// Saving, loading and cloning.
#include "lazuli/nn/module.h"

#include "lazuli/io/archive.h"

#include <algorithm>
#include <sstream>

namespace lz::nn {

namespace {

std::string joined(const std::string &prefix, const std::string &name) {
    return prefix.empty() ? name : prefix + "." + name;
}

} // namespace

/// f(name, tensor) for all that is saved, of a module that has two names under both.
template <class F>
void Module::each_entry(const std::string &prefix, F &&f) const {
    for (const auto &[name, tensor] : parameters_)
        if (tensor.defined())
            f(joined(prefix, name), tensor);
    for (const auto &[name, buffer] : buffers_)
        if (buffer.tensor.defined() && buffer.persistent)
            f(joined(prefix, name), buffer.tensor);
    for (const auto &[name, child] : children_)
        child->each_entry(joined(prefix, name), f);
}

StateDict Module::state_dict(const std::string &prefix) const {
    StateDict state;
    each_entry(prefix, [&](const std::string &name, const Tensor &tensor) {
        state.insert_or_assign(name, tensor.detach());
    });
    return state;
}

namespace {

std::string text(const Sizes &sizes) {
    std::ostringstream out;
    out << sizes;
    return out.str();
}

void list(std::string &message, const char *what, const std::vector<std::string> &names) {
    if (names.empty())
        return;
    message += std::string(message.ends_with(':') ? " " : "; ") + what + ": ";
    for (size_t i = 0; i < names.size(); ++i)
        message += (i ? ", " : "") + names[i];
}

std::vector<std::string> quoted(std::vector<std::string> names) {
    for (std::string &name : names)
        name = '"' + name + '"';
    return names;
}

} // namespace

IncompatibleKeys Module::load_state_dict(const StateDict &state, bool strict, Location loc) {
    IncompatibleKeys keys;
    std::vector<std::string> misshapen;
    std::vector<std::pair<Tensor, const Tensor *>> found;
    StateDict own = state_dict();
    each_entry("", [&](const std::string &name, const Tensor &tensor) {
        const Tensor *const value = state.find(name);
        if (!value) {
            keys.missing_keys.push_back(name);
            return;
        }
        if (!value->defined())
            misshapen.push_back('"' + name + "\" (is empty)");
        else if (value->sizes() != tensor.sizes())
            misshapen.push_back('"' + name + "\" (" + text(value->sizes()) + " where the module has " +
                                text(tensor.sizes()) + ")");
        else
            found.emplace_back(tensor, value);
    });
    for (const auto &[name, value] : state)
        if (!own.contains(name))
            keys.unexpected_keys.push_back(name);
    std::string message = "load_state_dict: the dictionary does not fit " + name() + ":";
    const size_t head = message.size();
    if (strict) {
        list(message, "missing", quoted(keys.missing_keys));
        list(message, "unexpected", quoted(keys.unexpected_keys));
    }
    list(message, "of other shapes", misshapen);
    if (message.size() != head)
        throw StateError(message + "; nothing was loaded", loc);
    std::vector<Tensor> values; // all of them before the first one shows it
    values.reserve(found.size());
    for (const auto &[tensor, value] : found)
        values.push_back(value->detach(loc).to(tensor.device(loc), tensor.dtype(loc), loc));
    for (size_t i = 0; i < found.size(); ++i)
        found[i].first.set_data(values[i], loc);
    return keys;
}

void Module::save(serialize::OutputArchive &archive, Location loc) const {
    archive.write(state_dict(), loc);
}

void Module::load(const serialize::InputArchive &archive, Location loc) {
    StateDict own;
    for (const auto &[name, tensor] : state_dict())
        if (const Tensor *const value = archive.tensors().find(name))
            own.insert(name, *value, loc);
    load_state_dict(own, true, loc);
}

// --- cloning

std::shared_ptr<Module> Module::clone(const OptionalDevice &, Location loc) const {
    throw StateError("clone: how a " + name() +
                         " is made is not known; derive the class from nn::Cloneable<" + name() +
                         "> instead of nn::Module",
                     loc);
}

void Module::start_clone() {
    parameters_ = {};
    buffers_ = {};
    children_ = {};
    hooks_.reset();
}

void Module::finish_clone(const Module &from, const OptionalDevice &device, Location loc) {
    const auto parts = [](const Module &module) {
        OrderedDict<Tensor> all = module.named_parameters();
        for (const auto &[name, buffer] : module.named_buffers())
            all.insert(name, buffer);
        return all;
    };
    const OrderedDict<Tensor> source = parts(from), target = parts(*this);
    if (source.keys() != target.keys())
        throw StateError("clone: the new " + name() + " has other parameters, buffers or modules than the " +
                             "one that is cloned; all that can differ has to be registered in reset()",
                         loc);
    for (const auto &[name, tensor] : source) {
        Tensor copy = target.at(name);
        Tensor value = tensor.detach(loc);
        copy.set_data(device ? value.to(*device, loc) : value, loc);
        if (copy.is_leaf(loc) && copy.requires_grad(loc) != tensor.requires_grad(loc))
            copy.requires_grad_(tensor.requires_grad(loc), loc);
    }
    const OrderedDict<std::shared_ptr<Module>> modules = const_cast<Module &>(from).named_modules(); // NOLINT
    for (const auto &[name, module] : named_modules())
        if (const auto *const other = modules.find(name))
            module->training_ = (*other)->training_;
}

} // namespace lz::nn
