// Views, update_slice, gather and scatter: words are moved, not computed (but for scatter's sums).
#include "ir/diagnostic.h"
#include "ir/interpreter/ref.h"
#include "ir/interpreter/tensor.h"

#include <algorithm>

namespace lz::ir {

namespace {

/// out[i] = in[walk(i)] over the indices of the result.
void read_by(const RefNode &node, const Affine &walk) {
    const int rank = node.out().type.shape.rank();
    for_each_index(node.out().type.shape, [&](const Coordinates &i, size_t k) {
        node.out().words[k] = node.in().words[walk.at(i, rank)];
    });
}

/// out[walk(i)] = source[i] over the indices of the source.
void write_by(const RefTensor &source, const Affine &walk, RefTensor &out) {
    const int rank = source.type.shape.rank();
    for_each_index(source.type.shape,
                   [&](const Coordinates &i, size_t k) { out.words[walk.at(i, rank)] = source.words[k]; });
}

/// The place of an index operand's entry k along the axis of x, checked.
int64_t checked_index(const RefTensor &index, size_t k, const Shape &x, int axis) {
    const int64_t i = index.words[k];
    if (i < 0 || i >= x[axis])
        throw Failure(ErrorKind::Index, "index " + std::to_string(i) + " is out of range for axis " +
                                            std::to_string(axis) + " with " + std::to_string(x[axis]) +
                                            " elements");
    return i;
}

} // namespace

void interpret_Reshape(const RefNode &node) {
    node.out().words = node.in().words;
}

void interpret_Permute(const RefNode &node) {
    const auto strides = node.shape().dense_strides();
    const auto axes = node.attrs.ints(attr::kAxes);
    Affine walk;
    for (size_t i = 0; i < axes.size(); ++i)
        walk.strides[i] = strides[static_cast<size_t>(axes[i])];
    read_by(node, walk);
}

void interpret_Broadcast(const RefNode &node) {
    read_by(node, broadcast_walk(node.shape(), node.out().type.shape));
}

void interpret_Slice(const RefNode &node) {
    const auto starts = node.attrs.ints(attr::kSliceStarts), steps = node.attrs.ints(attr::kSliceSteps);
    const auto strides = node.shape().dense_strides();
    Affine walk;
    for (size_t i = 0; i < starts.size(); ++i) {
        walk.offset += starts[i] * strides[i];
        walk.strides[i] = steps[i] * strides[i];
    }
    read_by(node, walk);
}

void interpret_Flip(const RefNode &node) {
    Affine walk;
    walk.strides = node.shape().dense_strides();
    for (const int64_t axis : node.attrs.ints(attr::kAxes)) {
        int64_t &stride = walk.strides[static_cast<size_t>(axis)];
        walk.offset += (node.shape()[static_cast<int>(axis)] - 1) * stride;
        stride = -stride;
    }
    read_by(node, walk);
}

void interpret_Pad(const RefNode &node) {
    RefTensor &out = node.out();
    std::ranges::fill(out.words, node.in(1).words[0]);
    const auto low = node.attrs.ints(attr::kPadLow);
    Affine walk;
    walk.strides = out.type.shape.dense_strides();
    for (size_t i = 0; i < low.size(); ++i)
        walk.offset += low[i] * walk.strides[i];
    write_by(node.in(), walk, out);
}

void interpret_Concat(const RefNode &node) {
    RefTensor &out = node.out();
    const auto axis = static_cast<int>(node.attrs.integer(attr::kAxis));
    Affine walk;
    walk.strides = out.type.shape.dense_strides();
    for (const RefTensor *operand : node.operands) {
        write_by(*operand, walk, out);
        walk.offset += operand->type.shape[axis] * walk.strides[static_cast<size_t>(axis)];
    }
}

void interpret_Window(const RefNode &node) {
    const auto axis = static_cast<size_t>(node.attrs.integer(attr::kAxis));
    Affine walk{0, node.shape().dense_strides()};
    const int64_t stride = walk.strides[axis];
    walk.offset = node.attrs.integer(attr::kWindowBegin) * stride;
    walk.strides[axis] = node.attrs.integer(attr::kWindowStep) * stride;
    walk.strides[static_cast<size_t>(node.shape().rank())] = stride;
    read_by(node, walk);
}

void interpret_UpdateSlice(const RefNode &node) {
    RefTensor &out = node.out();
    out.words = node.in().words;
    const auto starts = node.attrs.ints(attr::kUpdateStarts), steps = node.attrs.ints(attr::kUpdateSteps);
    const auto strides = node.shape().dense_strides();
    Affine walk;
    for (size_t i = 0; i < starts.size(); ++i) {
        walk.offset += starts[i] * strides[i];
        walk.strides[i] = steps[i] * strides[i];
    }
    write_by(node.in(1), walk, out);
}

void interpret_Gather(const RefNode &node) {
    const auto axis = static_cast<int>(node.attrs.integer(attr::kAxis));
    const Affine walk{0, node.shape().dense_strides()};
    for_each_index(node.shape(1), [&](Coordinates i, size_t k) {
        i[static_cast<size_t>(axis)] = checked_index(node.in(1), k, node.shape(), axis);
        node.out().words[k] = node.in().words[walk.at(i, node.shape().rank())];
    });
}

void interpret_Scatter(const RefNode &node) {
    RefTensor &out = node.out();
    const DType dtype = out.type.dtype;
    const auto axis = static_cast<int>(node.attrs.integer(attr::kAxis));
    const bool adds = node.attrs.integer(attr::kScatterReduce) != 0;
    const Affine walk{0, node.shape().dense_strides()};
    out.words = node.in().words;
    for_each_index(node.shape(1), [&](Coordinates i, size_t k) {
        i[static_cast<size_t>(axis)] = checked_index(node.in(1), k, node.shape(), axis);
        int64_t &word = out.words[walk.at(i, node.shape().rank())];
        const int64_t source = node.in(2).words[k];
        if (!adds)
            word = source;
        else if (is_float(dtype))
            word = scalar_word(scalar_double(word) + scalar_double(source));
        else
            word = wrap_to(dtype, ref::wrap_add(word, source));
    });
    // Sums of floats were accumulated in double.
    if (adds && is_float(dtype))
        for (int64_t &word : out.words)
            word = scalar_word(round_to(dtype, scalar_double(word)));
}

} // namespace lz::ir
