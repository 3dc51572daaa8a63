// Type rules of views, update_slice, gather and scatter.
#include "ir/graph/infer/rules.h"

#include <vector>

namespace lz::ir {

namespace {

std::string number(int64_t n) {
    return std::to_string(n);
}

void check_count(Op op, const char *what, std::span<const int64_t> values, const TensorType &type) {
    if (static_cast<int>(values.size()) != type.shape.rank())
        fail_shape(op, std::string(what) + " has " + number(static_cast<int64_t>(values.size())) +
                           " entries; " + shaped(type) + " has rank " + number(type.shape.rank()));
}

/// Whether the elements start, start + step, ... (size of them) are inside [0, extent).
void check_range(Op op, int axis, int64_t start, int64_t size, int64_t step, const TensorType &type) {
    const int64_t extent = type.shape[axis];
    if (step < 1)
        fail_index(op, "the step on axis " + number(axis) + " is " + number(step) + "; it must be 1 or more");
    if (size < 0)
        fail_shape(op,
                   "the size on axis " + number(axis) + " is " + number(size) + "; it must not be negative");
    // Written with divisions, so that nothing overflows.
    const bool inside = start >= 0 && start <= extent &&
                        (size == 0 || (start < extent && size - 1 <= (extent - 1 - start) / step));
    if (!inside)
        fail_index(op, "the range of " + number(size) + " elements from " + number(start) + " in steps of " +
                           number(step) + " leaves axis " + number(axis) + " of " + shaped(type));
}

void check_index_operand(Op op, const TensorType &x, const TensorType &index, int64_t axis) {
    check_axis(op, axis, x);
    if (index.dtype != DType::I32 && index.dtype != DType::I64)
        fail_dtype(op, "the index has dtype " + std::string(name(index.dtype)) + "; it must be i32 or i64");
    bool fits = index.shape.rank() == x.shape.rank();
    for (int i = 0; fits && i < x.shape.rank(); ++i)
        fits = i == axis || index.shape[i] == x.shape[i];
    if (!fits)
        fail_shape(op, "the index has shape " + to_string(index.shape) + "; it must equal that of " +
                           shaped(x) + " but for axis " + number(axis));
}

} // namespace

void infer_Reshape(const InferCall &call) {
    const TensorType &x = call.in();
    call.out() = {x.dtype, checked_shape(Op::Reshape, x.dtype, call.attrs.ints(attr::kShape)), x.device};
    if (call.out().numel() != x.numel())
        fail_shape(Op::Reshape, "shape " + to_string(x.shape) + " has " + number(x.numel()) +
                                    " elements and " + to_string(call.out().shape) + " has " +
                                    number(call.out().numel()));
}

void infer_Permute(const InferCall &call) {
    const TensorType &x = call.in();
    const auto axes = call.attrs.ints(attr::kAxes);
    check_count(Op::Permute, "`axes`", axes, x);
    check_axes(Op::Permute, axes, x);
    TensorType &out = call.out();
    out = x;
    for (int i = 0; i < x.shape.rank(); ++i)
        out.shape[i] = x.shape[static_cast<int>(axes[static_cast<size_t>(i)])];
}

void infer_Broadcast(const InferCall &call) {
    const TensorType &x = call.in();
    const Shape to = checked_shape(Op::Broadcast, x.dtype, call.attrs.ints(attr::kShape));
    const int skip = to.rank() - x.shape.rank();
    bool fits = skip >= 0;
    for (int i = 0; fits && i < x.shape.rank(); ++i)
        fits = x.shape[i] == 1 || x.shape[i] == to[i + skip];
    if (!fits)
        fail_shape(Op::Broadcast, "shape " + to_string(x.shape) + " does not broadcast to " + to_string(to));
    call.out() = {x.dtype, to, x.device};
}

void infer_Slice(const InferCall &call) {
    const TensorType &x = call.in();
    const auto starts = call.attrs.ints(attr::kSliceStarts);
    const auto sizes = call.attrs.ints(attr::kSliceSizes);
    const auto steps = call.attrs.ints(attr::kSliceSteps);
    check_count(Op::Slice, "`starts`", starts, x);
    check_count(Op::Slice, "`sizes`", sizes, x);
    check_count(Op::Slice, "`steps`", steps, x);
    TensorType &out = call.out();
    out = x;
    for (int i = 0; i < x.shape.rank(); ++i) {
        const auto k = static_cast<size_t>(i);
        check_range(Op::Slice, i, starts[k], sizes[k], steps[k], x);
        out.shape[i] = sizes[k];
    }
}

void infer_Flip(const InferCall &call) {
    check_axes(Op::Flip, call.attrs.ints(attr::kAxes), call.in());
    call.out() = call.in();
}

void infer_Pad(const InferCall &call) {
    const TensorType &x = call.in(), &fill = call.in(1);
    const auto low = call.attrs.ints(attr::kPadLow), high = call.attrs.ints(attr::kPadHigh);
    check_same_dtype(Op::Pad, x, fill);
    if (fill.shape.rank() != 0)
        fail_shape(Op::Pad, "the fill value has shape " + to_string(fill.shape) + "; it must have rank 0");
    check_count(Op::Pad, "`low`", low, x);
    check_count(Op::Pad, "`high`", high, x);
    TensorType out = {x.dtype, x.shape, result_device(call.operands)};
    for (int i = 0; i < x.shape.rank(); ++i) {
        const auto k = static_cast<size_t>(i);
        if (low[k] < 0 || high[k] < 0)
            fail_shape(Op::Pad, "the padding of axis " + number(i) + " is " + number(low[k]) + " and " +
                                    number(high[k]) + "; it must not be negative");
        if (__builtin_add_overflow(out.shape[i], low[k], &out.shape[i]) ||
            __builtin_add_overflow(out.shape[i], high[k], &out.shape[i]))
            fail_shape(Op::Pad, "the padded extent of axis " + number(i) + " does not fit a 64-bit number");
    }
    check_extents(Op::Pad, out.dtype, out.shape.extents());
    call.out() = out;
}

void infer_Concat(const InferCall &call) {
    const int64_t axis = call.attrs.integer(attr::kAxis);
    check_axis(Op::Concat, axis, call.in());
    TensorType out = {call.in().dtype, call.in().shape, result_device(call.operands)};
    const int at = static_cast<int>(axis);
    for (size_t k = 1; k < call.operands.size(); ++k) {
        const TensorType &x = call.in(k);
        check_same_dtype(Op::Concat, call.in(), x);
        bool fits = x.shape.rank() == out.shape.rank();
        for (int i = 0; fits && i < out.shape.rank(); ++i)
            fits = i == at || x.shape[i] == out.shape[i];
        if (!fits)
            fail_shape(Op::Concat, "operand " + number(static_cast<int64_t>(k)) + " has shape " +
                                       to_string(x.shape) + "; it must equal " + to_string(call.in().shape) +
                                       " but for axis " + number(axis));
        if (__builtin_add_overflow(out.shape[at], x.shape[at], &out.shape[at]))
            fail_shape(Op::Concat, "the extent of axis " + number(axis) + " does not fit a 64-bit number");
    }
    check_extents(Op::Concat, out.dtype, out.shape.extents());
    call.out() = out;
}

void infer_Window(const InferCall &call) {
    const TensorType &x = call.in();
    const int64_t axis = call.attrs.integer(attr::kAxis), begin = call.attrs.integer(attr::kWindowBegin),
                  count = call.attrs.integer(attr::kWindowCount),
                  size = call.attrs.integer(attr::kWindowSize), step = call.attrs.integer(attr::kWindowStep);
    check_axis(Op::Window, axis, x);
    const int at = static_cast<int>(axis);
    check_range(Op::Window, at, begin, size, 1, x);
    if (count < 0)
        fail_shape(Op::Window, "the number of parts is " + number(count) + "; it must not be negative");
    if (step < 1)
        fail_index(Op::Window, "the step is " + number(step) + "; it must be 1 or more");
    if (count > 0 && size > 0 && count - 1 > (x.shape[at] - begin - size) / step)
        fail_index(Op::Window, number(count) + " parts of " + number(size) + " elements from " +
                                   number(begin) + " in steps of " + number(step) + " leave axis " +
                                   number(axis) + " of " + shaped(x));
    std::vector<int64_t> extents(x.shape.begin(), x.shape.end());
    extents[static_cast<size_t>(at)] = count;
    extents.push_back(size);
    call.out() = {x.dtype, checked_shape(Op::Window, x.dtype, extents), x.device};
}

void infer_UpdateSlice(const InferCall &call) {
    const TensorType &x = call.in(), &update = call.in(1);
    const auto starts = call.attrs.ints(attr::kUpdateStarts), steps = call.attrs.ints(attr::kUpdateSteps);
    check_same_dtype(Op::UpdateSlice, x, update);
    if (update.shape.rank() != x.shape.rank())
        fail_shape(Op::UpdateSlice, "the update " + shaped(update) + " has another rank than " + shaped(x));
    check_count(Op::UpdateSlice, "`starts`", starts, x);
    check_count(Op::UpdateSlice, "`steps`", steps, x);
    for (int i = 0; i < x.shape.rank(); ++i) {
        const auto k = static_cast<size_t>(i);
        check_range(Op::UpdateSlice, i, starts[k], update.shape[i], steps[k], x);
    }
    call.out() = {x.dtype, x.shape, result_device(call.operands)};
}

void infer_Gather(const InferCall &call) {
    const TensorType &x = call.in(), &index = call.in(1);
    check_index_operand(Op::Gather, x, index, call.attrs.integer(attr::kAxis));
    check_extents(Op::Gather, x.dtype, index.shape.extents());
    call.out() = {x.dtype, index.shape, result_device(call.operands)};
}

void infer_Scatter(const InferCall &call) {
    const TensorType &x = call.in(), &index = call.in(1), &source = call.in(2);
    check_index_operand(Op::Scatter, x, index, call.attrs.integer(attr::kAxis));
    check_same_dtype(Op::Scatter, x, source);
    if (!(source.shape == index.shape))
        fail_shape(Op::Scatter, "the source has shape " + to_string(source.shape) + " and the index " +
                                    to_string(index.shape) + "; they must be equal");
    const int64_t reduce = call.attrs.integer(attr::kScatterReduce);
    if (reduce != 0 && reduce != 1)
        fail_index(Op::Scatter, "`reduce` is " + number(reduce) + "; it must be 0 (put) or 1 (add)");
    if (reduce == 1 && x.dtype == DType::Bool)
        fail_dtype(Op::Scatter, "adding takes integers or floats, not bool");
    call.out() = {x.dtype, x.shape, result_device(call.operands)};
}

} // namespace lz::ir
