// Elementwise ops: the reference columns of elementwise.def, over every element.
#include "ir/interpreter/ref.h"
#include "ir/interpreter/tensor.h"

#include <algorithm>
#include <type_traits>

namespace lz::ir {

namespace {

/// Reads operand words over the index space of the result.
class Operand {
public:
    Operand(const RefTensor &tensor, const Shape &to)
        : words_(tensor.words), rank_(to.rank()), dense_(tensor.type.shape == to),
          walk_(broadcast_walk(tensor.type.shape, to)) {}
    int64_t at(const Coordinates &i, size_t k) const { return words_[dense_ ? k : walk_.at(i, rank_)]; }

private:
    std::span<const int64_t> words_;
    int rank_;
    bool dense_;
    Affine walk_;
};

/// A double, a bool or an integer as a word of the result's dtype.
template <class T>
int64_t result_word(DType dtype, T value) {
    if constexpr (std::is_same_v<T, double>)
        return scalar_word(round_to(dtype, value));
    else
        return wrap_to(dtype, static_cast<int64_t>(value));
}

template <class Word, class F>
void map(const RefNode &node, bool select, F f) {
    RefTensor &out = node.out();
    std::vector<Operand> operands;
    for (const RefTensor *t : node.operands)
        operands.emplace_back(*t, out.type.shape);
    const auto read = [&](size_t n, const Coordinates &i, size_t k) -> Word {
        if (n >= operands.size())
            return Word{};
        const int64_t word = operands[n].at(i, k);
        if constexpr (std::is_same_v<Word, double>)
            return select && n == 0 ? static_cast<double>(word) : scalar_double(word);
        else
            return word;
    };
    for_each_index(out.type.shape, [&](const Coordinates &i, size_t k) {
        out.words[k] = result_word(out.type.dtype, f(read(0, i, k), read(1, i, k), read(2, i, k)));
    });
}

} // namespace

void interpret_elementwise(const RefNode &node) {
    const bool select = node.attrs.op == Op::Select;
    const DType dtype = node.in(select ? 1 : 0).type.dtype;
    switch (node.attrs.op) {
#define LZ_ELEMENTWISE(E, text, arity, rule, cost, kernel, fref, iref)                                       \
    case Op::E:                                                                                              \
        if (is_float(dtype))                                                                                 \
            map<double>(node, select,                                                                        \
                        [=]([[maybe_unused]] double x, [[maybe_unused]] double y,                            \
                            [[maybe_unused]] double z) { return fref; });                                    \
        else                                                                                                 \
            map<int64_t>(node, select,                                                                       \
                         [=]([[maybe_unused]] int64_t x, [[maybe_unused]] int64_t y,                         \
                             [[maybe_unused]] int64_t z) { return iref; });                                  \
        break;
#include "ir/elementwise.def"
    default:
        internal_failure(__FILE__, __LINE__,
                         "interpret_elementwise was asked for " + std::string(name(node.attrs.op)));
    }
}

void interpret_Cast(const RefNode &node) {
    std::ranges::transform(node.in().words, node.out().words.begin(), [&](int64_t word) {
        return cast_word(node.in().type.dtype, node.out().type.dtype, word);
    });
}

} // namespace lz::ir
