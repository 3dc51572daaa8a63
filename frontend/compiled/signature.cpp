#include "frontend/compiled/signature.h"

#include "frontend/autograd/step.h"
#include "frontend/engine/engine.h"
#include "frontend/record/access.h"
#include "frontend/record/recorder.h"
#include "lazuli/core/defaults.h"

#include <algorithm>
#include <bit>
#include <ranges>
#include <string>
#include <unordered_map>

namespace lz::detail {
namespace {

bool wants_gradient(const Tensor &x) {
    const Cell *const cell = Access::cell(x);
    return cell->history && cell->history->wants_gradient();
}
bool is_leaf(const Tensor &x) {
    const Cell *const cell = Access::cell(x);
    return !cell->history || cell->history->is_leaf();
}

/// Of a few words, for which a call of the C library's takes longer.
template <class T>
bool same_words(std::span<const T> a, const std::vector<T> &b) {
    if (a.size() != b.size())
        return false;
    bool same = true;
    for (size_t i = 0; i < a.size(); ++i)
        same &= a[i] == b[i];
    return same;
}

/// Fewer are compared with one another.
constexpr size_t kFewArguments = 16;

/// The first argument that is the same tensor as argument i.
uint32_t first_of_few(std::span<const Tensor *const> tensors, uint32_t i) {
    const void *const id = tensors[i]->id();
    uint32_t first = id ? 0 : i;
    while (tensors[first]->id() != id)
        ++first;
    return first;
}

/// Calls f(i, first) with the first argument that is the same tensor, until it says no.
template <class F>
bool for_each_first(std::span<const Tensor *const> tensors, F &&f) {
    if (tensors.size() <= kFewArguments) {
        for (uint32_t i = 0; i < tensors.size(); ++i)
            if (!f(i, first_of_few(tensors, i)))
                return false;
        return true;
    }
    std::unordered_map<const void *, uint32_t> known;
    for (uint32_t i = 0; i < tensors.size(); ++i) {
        const void *const id = tensors[i]->id();
        if (!f(i, id ? known.try_emplace(id, i).first->second : i))
            return false;
    }
    return true;
}

} // namespace

RecordingModes modes_of_now() {
    const Recorder &recorder = Recorder::current();
    return {recorder.grad_mode(), Autocasting::mode(),    get_default_dtype(),
            get_default_device(), recorder.current_gpu(), engine::Engine::get().target_number()};
}

Signature::Signature(const CompiledArguments &arguments, const RecordingModes &modes)
    : integers_(arguments.integers.span().begin(), arguments.integers.span().end()),
      structure_(arguments.structure.span().begin(), arguments.structure.span().end()),
      types_(arguments.types), numbers_(arguments.numbers.size()), hash_(hash_of(arguments)), modes_(modes) {
    const std::span<const Tensor *const> tensors = arguments.tensors.span();
    for (const Tensor *const tensor : tensors) {
        Argument &added = arguments_.emplace_back();
        added.defined = tensor->defined();
        if (!added.defined)
            continue;
        added.wants_gradient = wants_gradient(*tensor);
        added.is_leaf = is_leaf(*tensor);
        added.type = Access::node(*tensor)->type;
    }
    for_each_first(tensors, [&](uint32_t i, uint32_t first) {
        arguments_[i].same_as = first;
        return true;
    });
}

bool Signature::matches(const Argument &expected, const Tensor &given) {
    if (expected.defined != given.defined())
        return false;
    return !expected.defined ||
           (same_type(Access::node(given)->type, expected.type) &&
            wants_gradient(given) == expected.wants_gradient && is_leaf(given) == expected.is_leaf);
}

bool Signature::matches(const CompiledArguments &arguments, const RecordingModes &modes) const {
    const std::span<const Tensor *const> tensors = arguments.tensors.span();
    if (tensors.size() != arguments_.size() || arguments.numbers.size() != numbers_ || !(modes == modes_) ||
        !same_words(arguments.integers.span(), integers_) ||
        !same_words(arguments.structure.span(), structure_))
        return false;
    for (size_t i = 0; i < tensors.size(); ++i)
        if (!matches(arguments_[i], *tensors[i]))
            return false;
    return tensors.size() < 2 ||
           for_each_first(
               tensors, [&](uint32_t i, uint32_t first) { return arguments_[i].same_as == first; });
}

bool Signature::operator==(const Signature &other) const {
    return hash_ == other.hash_ && numbers_ == other.numbers_ && modes_ == other.modes_ &&
           integers_ == other.integers_ && structure_ == other.structure_ && arguments_ == other.arguments_;
}

bool Signature::same_but_for_temporaries(const Signature &other) const {
    return numbers_ == other.numbers_ && integers_ == other.integers_ && types_ == other.types_ &&
           std::ranges::equal(structure_ | std::views::drop(1), other.structure_ | std::views::drop(1));
}

bool Signature::same_form(const Signature &other) const {
    return numbers_ == other.numbers_ && modes_ == other.modes_ &&
           integers_.size() == other.integers_.size() && structure_ == other.structure_ &&
           std::ranges::equal(arguments_, other.arguments_, &Argument::same_form);
}

uint64_t Signature::hash_of(const CompiledArguments &arguments) {
    uint64_t hash = arguments.numbers.size();
    const auto mix = [&](uint64_t word) { hash = (std::rotl(hash, 23) ^ word) * 0x9e3779b97f4a7c15u; };
    for (const uint64_t word : arguments.structure.span())
        mix(word);
    for (const int64_t integer : arguments.integers.span())
        mix(static_cast<uint64_t>(integer));
    for (const Tensor *const tensor : arguments.tensors.span()) {
        if (!tensor->defined()) {
            mix(0);
            continue;
        }
        const ir::TensorType &type = Access::node(*tensor)->type;
        mix(static_cast<uint64_t>(type.dtype) << 32 | static_cast<uint64_t>(type.shape.rank() + 1));
        for (const int64_t extent : type.shape)
            mix(static_cast<uint64_t>(extent));
    }
    return hash;
}

std::string Signature::text() const {
    std::string out;
    for (const Argument &argument : arguments_) {
        out += out.empty() ? "" : ", ";
        out += argument.defined ? ir::to_string(argument.type) : "empty";
        out += argument.wants_gradient ? " grad" : "";
    }
    for (const int64_t integer : integers_)
        out += (out.empty() ? "" : ", ") + std::to_string(integer);
    for (size_t i = 0; i < numbers_; ++i)
        out += out.empty() ? "number" : ", number";
    return out.empty() ? "no tensors" : out;
}

} // namespace lz::detail
