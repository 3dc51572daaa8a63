#pragma once
/// Values while the interpreter works on them, and how ops walk them. Internal to `ir/interpreter*.cpp`.

#include "ir/graph/graph.h"
#include "ir/interpreter/interpreter.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace lz::ir {

/// Row-major elements, each one word: the bits of a double for floats, else an int64_t (as scalar attributes
/// are).
struct RefTensor {
    TensorType type;
    std::vector<int64_t> words;

    void allocate() { words.assign(static_cast<size_t>(type.numel()), 0); }
};

/// Rounds to a float dtype (halves by way of f32).
double round_to(DType dtype, double value);
/// Wraps to an integer dtype; bool is whether it is not zero.
int64_t wrap_to(DType dtype, int64_t value);
/// One element converted as by `cast` (S66).
int64_t cast_word(DType from, DType to, int64_t word);

RefTensor decode(const HostTensor &tensor);
HostTensor encode(const RefTensor &tensor);

/// One node at work. `out` tensors have their types and as many zero words.
struct RefNode {
    const AttrView &attrs;
    std::span<const RefTensor *const> operands;
    std::span<RefTensor> results;

    const RefTensor &in(size_t i = 0) const { return *operands[i]; }
    RefTensor &out(size_t i = 0) const { return results[i]; }
    const Shape &shape(size_t i = 0) const { return operands[i]->type.shape; }
};

void interpret_elementwise(const RefNode &node);
#define LZ_OP(E, ...) void interpret_##E(const RefNode &node);
#include "ir/ops.def"

using Coordinates = std::array<int64_t, kMaxRank>;

/// Calls `visit(coordinates, k)` for each index of the shape in row-major order; k counts them.
template <class Visit>
void for_each_index(const Shape &shape, Visit visit) {
    Coordinates at{};
    const int64_t n = shape.numel();
    for (int64_t k = 0; k < n; ++k) {
        visit(std::as_const(at), static_cast<size_t>(k));
        for (int axis = shape.rank() - 1; axis >= 0; --axis) {
            if (++at[static_cast<size_t>(axis)] < shape[axis])
                break;
            at[static_cast<size_t>(axis)] = 0;
        }
    }
}

/// An affine walk: element `i` of an index space lies at offset + sum of i[axis] * strides[axis].
struct Affine {
    int64_t offset = 0;
    std::array<int64_t, kMaxRank> strides{};

    size_t at(const Coordinates &i, int rank) const {
        int64_t place = offset;
        for (int axis = 0; axis < rank; ++axis)
            place += i[static_cast<size_t>(axis)] * strides[static_cast<size_t>(axis)];
        return static_cast<size_t>(place);
    }
};

/// How a tensor of shape `from` is read over the index space `to` that it broadcasts to.
Affine broadcast_walk(const Shape &from, const Shape &to);

} // namespace lz::ir
