// Type rules of reductions, scans, products and sorts.
#include "ir/graph/infer/rules.h"

namespace lz::ir {

namespace {

void check_not_bool(const InferCall &call) {
    if (call.in().dtype == DType::Bool)
        fail_dtype(call.attrs.op, "takes integers or floats, not bool");
}

void check_not_empty(const InferCall &call, int64_t axis) {
    if (call.in().shape[static_cast<int>(axis)] == 0)
        fail_shape(call.attrs.op, "axis " + std::to_string(axis) + " of " + shaped(call.in()) +
                                      " has no elements, of which there is no extreme");
}

void reduce_axes(const InferCall &call, bool has_identity) {
    const TensorType &x = call.in();
    const auto axes = call.attrs.ints(attr::kAxes);
    const uint32_t reduced = check_axes(call.attrs.op, axes, x);
    for (size_t i = 1; i < axes.size(); ++i)
        if (axes[i - 1] > axes[i])
            fail_index(call.attrs.op, "axis " + std::to_string(axes[i]) + " stands after axis " +
                                          std::to_string(axes[i - 1]) + "; axes must be sorted");
    if (!has_identity)
        for (int64_t axis : axes)
            check_not_empty(call, axis);
    TensorType &out = call.out();
    out.dtype = x.dtype;
    out.device = x.device;
    out.shape = {};
    for (int i = 0; i < x.shape.rank(); ++i)
        if (!(reduced & (1u << i)))
            out.shape.push_back(x.shape[i]);
}

void reduce_arg(const InferCall &call) {
    const TensorType &x = call.in();
    const int64_t axis = call.attrs.integer(attr::kAxis);
    check_axis(call.attrs.op, axis, x);
    check_not_empty(call, axis);
    TensorType out = {DType::I64, {}, x.device};
    for (int i = 0; i < x.shape.rank(); ++i)
        if (i != axis)
            out.shape.push_back(x.shape[i]);
    check_extents(call.attrs.op, DType::I64, out.shape.extents());
    call.out() = out;
}

void scan(const InferCall &call) {
    check_not_bool(call);
    check_axis(call.attrs.op, call.attrs.integer(attr::kAxis), call.in());
    call.out() = call.in();
}

void running_extreme(const InferCall &call) {
    const TensorType &x = call.in();
    check_axis(call.attrs.op, call.attrs.integer(attr::kAxis), x);
    call.out(0) = x;
    call.out(1) = {DType::I64, x.shape, x.device};
}

} // namespace

void infer_ReduceSum(const InferCall &call) {
    check_not_bool(call);
    reduce_axes(call, true);
}
void infer_ReduceProd(const InferCall &call) {
    check_not_bool(call);
    reduce_axes(call, true);
}
void infer_ReduceMax(const InferCall &call) {
    reduce_axes(call, false);
}
void infer_ReduceMin(const InferCall &call) {
    reduce_axes(call, false);
}
void infer_ArgMax(const InferCall &call) {
    reduce_arg(call);
}
void infer_ArgMin(const InferCall &call) {
    reduce_arg(call);
}
void infer_CumSum(const InferCall &call) {
    scan(call);
}
void infer_CumProd(const InferCall &call) {
    scan(call);
}

void infer_CumMax(const InferCall &call) {
    running_extreme(call);
}
void infer_CumMin(const InferCall &call) {
    running_extreme(call);
}

void infer_Dot(const InferCall &call) {
    const TensorType &lhs = call.in(0), &rhs = call.in(1);
    // Its attributes are four lists and a dtype: read in one walk, because small products are recorded often.
    static_assert(attr::kDotLhsBatch == 0 && attr::kDotRhsBatch == 1 && attr::kDotLhsContract == 2 &&
                  attr::kDotRhsContract == 3 && attr::kDotDType == 4);
    std::span<const int64_t> words = call.attrs.structural;
    const auto next_list = [&words] {
        const auto list = words.subspan(1, static_cast<size_t>(words[0]));
        words = words.subspan(1 + list.size());
        return list;
    };
    const auto lhs_batch = next_list(), rhs_batch = next_list();
    const auto lhs_sum = next_list(), rhs_sum = next_list();
    const auto dtype = static_cast<DType>(words[0]);
    check_not_bool(call);
    check_same_dtype(Op::Dot, lhs, rhs);
    if (!can_hold_products(dtype, lhs.dtype))
        fail_dtype(Op::Dot,
                   "products of " + std::string(name(lhs.dtype)) + " cannot be summed into " +
                       std::string(name(dtype)) +
                       "; the result has the operands' dtype, a wider integer for integers, or f32 for "
                       "f16 and bf16");
    const uint32_t lb = check_axes(Op::Dot, lhs_batch, lhs), rb = check_axes(Op::Dot, rhs_batch, rhs);
    const uint32_t lc = check_axes(Op::Dot, lhs_sum, lhs), rc = check_axes(Op::Dot, rhs_sum, rhs);
    if ((lb & lc) != 0 || (rb & rc) != 0)
        fail_index(Op::Dot, "an axis is both a batch axis and a contracted one");
    const auto check_pairs = [&](const char *what, std::span<const int64_t> a, std::span<const int64_t> b) {
        if (a.size() != b.size())
            fail_shape(Op::Dot, "the left side has " + std::to_string(a.size()) + " " + what +
                                    " axes and the right side " + std::to_string(b.size()));
        for (size_t i = 0; i < a.size(); ++i) {
            const int x = static_cast<int>(a[i]), y = static_cast<int>(b[i]);
            if (lhs.shape[x] != rhs.shape[y])
                fail_shape(Op::Dot, "shapes " + to_string(lhs.shape) + " and " + to_string(rhs.shape) +
                                        " do not match (" + what + " axis " + std::to_string(x) + " has " +
                                        std::to_string(lhs.shape[x]) + " elements against " +
                                        std::to_string(rhs.shape[y]) + " of axis " + std::to_string(y) + ")");
        }
    };
    check_pairs("batch", lhs_batch, rhs_batch);
    check_pairs("contracted", lhs_sum, rhs_sum);
    const auto free_axes =
        static_cast<size_t>(lhs.shape.rank() + rhs.shape.rank()) - 2 * lhs_sum.size() - lhs_batch.size();
    if (free_axes > kMaxRank)
        fail_shape(Op::Dot, "the result would have " + std::to_string(free_axes) + " axes; at most " +
                                std::to_string(kMaxRank) + " are possible");
    TensorType out = {dtype, {}, result_device(call.operands)};
    for (int64_t axis : lhs_batch)
        out.shape.push_back(lhs.shape[static_cast<int>(axis)]);
    for (int i = 0; i < lhs.shape.rank(); ++i)
        if (!((lb | lc) & (1u << i)))
            out.shape.push_back(lhs.shape[i]);
    for (int i = 0; i < rhs.shape.rank(); ++i)
        if (!((rb | rc) & (1u << i)))
            out.shape.push_back(rhs.shape[i]);
    check_extents(Op::Dot, out.dtype, out.shape.extents());
    call.out() = out;
}

namespace {

void check_sort(Op op, const InferCall &call) {
    check_axis(op, call.attrs.integer(attr::kAxis), call.in());
    const int64_t descending = call.attrs.integer(attr::kSortDescending);
    if (descending != 0 && descending != 1)
        fail_index(op, "`descending` is " + std::to_string(descending) + "; it must be 0 or 1");
    check_extents(op, DType::I64, call.in().shape.extents());
}

} // namespace

void infer_Sort(const InferCall &call) {
    const TensorType &x = call.in();
    check_sort(Op::Sort, call);
    call.out(0) = x;
    call.out(1) = {DType::I64, x.shape, x.device};
}

void infer_TopK(const InferCall &call) {
    const TensorType &x = call.in();
    check_sort(Op::TopK, call);
    const auto axis = static_cast<int>(call.attrs.integer(attr::kAxis));
    const int64_t count = call.attrs.integer(attr::kTopKCount);
    if (count < 0 || count > x.shape[axis])
        fail_index(Op::TopK, "`count` is " + std::to_string(count) + "; axis " + std::to_string(axis) +
                                 " has " + std::to_string(x.shape[axis]) + " elements");
    Shape shape = x.shape;
    shape[axis] = count;
    call.out(0) = {x.dtype, shape, x.device};
    call.out(1) = {DType::I64, shape, x.device};
}

} // namespace lz::ir
