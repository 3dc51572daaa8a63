#include "lazuli/io/archive.h"

#include "frontend/io/source.h"
#include "lazuli/io.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace lz::serialize {

namespace {

/// The first names, for messages.
std::string listed(const std::vector<std::string> &names) {
    constexpr size_t kNamed = 4;
    if (names.empty())
        return "it is empty";
    std::string text = "it has ";
    for (size_t i = 0; i < std::min(names.size(), kNamed); ++i)
        text += (i ? ", " : "") + io::in_quotes(names[i]);
    if (names.size() > kNamed)
        text += fmt::format(" and {} more", names.size() - kNamed);
    return text;
}

[[noreturn]] void fail_missing(const InputArchive &archive, const std::string &key, const char *what,
                               Location loc) {
    throw StateError(fmt::format("InputArchive: there is no {} named {}; {}", what, io::in_quotes(key),
                                 listed(archive.keys())),
                     loc);
}

void check_new(const StateDict &tensors, const std::string &name, const Tensor &tensor, Location loc) {
    if (!tensor.defined())
        throw StateError(
            fmt::format("OutputArchive: the tensor to be written as {} is empty", io::in_quotes(name)), loc);
    if (tensors.contains(name))
        throw StateError(
            fmt::format("OutputArchive: a tensor named {} was written already", io::in_quotes(name)), loc);
}

} // namespace

void OutputArchive::write(const std::string &key, const Tensor &tensor, bool /*is_buffer*/, Location loc) {
    check_new(tensors_, key, tensor, loc);
    tensors_.insert(key, tensor.detach(loc), loc);
}

void OutputArchive::write(const std::string &key, const OutputArchive &nested, Location loc) {
    StateDict part;
    part.add_part(nested.tensors_, key, loc);
    write(part, loc);
}

void OutputArchive::write(const StateDict &tensors, Location loc) {
    for (const auto &[name, tensor] : tensors)
        check_new(tensors_, name, tensor, loc);
    for (const auto &[name, tensor] : tensors)
        tensors_.insert(name, tensor.detach(loc), loc);
}

void OutputArchive::save_to(const std::string &path, Location loc) const {
    save(tensors_, path, {}, loc);
}
void OutputArchive::save_to(std::ostream &stream, Location loc) const {
    save(tensors_, stream, {}, loc);
}

void InputArchive::load_from(const std::string &path, const OptionalDevice &device, Location loc) {
    tensors_ = load(path, LoadOptions{.device = device}, loc);
}
void InputArchive::load_from(std::istream &stream, const OptionalDevice &device, Location loc) {
    tensors_ = load(stream, LoadOptions{.device = device}, loc);
}
void InputArchive::load_from(const char *data, size_t size, const OptionalDevice &device, Location loc) {
    std::istringstream stream(std::string(data, size));
    load_from(stream, device, loc);
}

bool InputArchive::try_read(const std::string &key, Tensor &tensor, bool /*is_buffer*/, Location loc) const {
    const Tensor *const found = tensors_.find(key);
    if (!found)
        return false;
    if (tensor.defined())
        tensor.set_data(found->to(tensor.device(loc), loc), loc);
    else
        tensor = found->detach(loc);
    return true;
}
void InputArchive::read(const std::string &key, Tensor &tensor, bool is_buffer, Location loc) const {
    if (!try_read(key, tensor, is_buffer, loc))
        fail_missing(*this, key, "tensor", loc);
}

bool InputArchive::try_read(const std::string &key, InputArchive &archive, Location loc) const {
    const std::string begin = key + ".";
    if (std::ranges::none_of(tensors_, [&](const auto &item) { return item.first.starts_with(begin); }))
        return false;
    archive.tensors_ = tensors_.part(key, loc);
    return true;
}
void InputArchive::read(const std::string &key, InputArchive &archive, Location loc) const {
    if (!try_read(key, archive, loc))
        fail_missing(*this, key, "archive", loc);
}

std::vector<std::string> InputArchive::keys() const {
    std::vector<std::string> names;
    for (const auto &[name, tensor] : tensors_) {
        std::string first = name.substr(0, name.find('.'));
        if (std::ranges::find(names, first) == names.end())
            names.push_back(std::move(first));
    }
    return names;
}

} // namespace lz::serialize
