// Type rules: dispatch, elementwise ops, makers, transfers, calls and effects. The path of an elementwise op
// with equal shapes is walked once for every operation that a user records.
#include "ir/graph/infer/infer.h"

#include "ir/graph/infer/rules.h"
#include "ir/stream.h"

#include <algorithm>

namespace lz::ir {

void fail_shape(Op op, const std::string &what) {
    throw Failure(ErrorKind::Shape, std::string(name(op)) + ": " + what);
}
void fail_dtype(Op op, const std::string &what) {
    throw Failure(ErrorKind::DType, std::string(name(op)) + ": " + what);
}
void fail_index(Op op, const std::string &what) {
    throw Failure(ErrorKind::Index, std::string(name(op)) + ": " + what);
}

std::string shaped(const TensorType &type) {
    return std::string(name(type.dtype)) + to_string(type.shape);
}

namespace {

std::string list(std::span<const int64_t> values) {
    std::string text = "[";
    for (size_t i = 0; i < values.size(); ++i)
        text += (i ? "," : "") + std::to_string(values[i]);
    return text += ']';
}

using DTypeSet = uint32_t;
constexpr DTypeSet bit(DType t) {
    return DTypeSet{1} << static_cast<int>(t);
}
template <class Pred>
constexpr DTypeSet set_of(Pred pred) {
    DTypeSet set = 0;
    for (int i = 0; i < kNumDTypes; ++i)
        if (pred(static_cast<DType>(i)))
            set |= bit(static_cast<DType>(i));
    return set;
}

struct RuleInfo {
    DTypeSet allowed;
    bool gives_bool;
    const char *wants;
};
constexpr DTypeSet kAnyDType = set_of([](DType) { return true; });
constexpr DTypeSet kFloats = set_of([](DType t) { return is_float(t); });
constexpr DTypeSet kIntegers = set_of([](DType t) { return is_integer(t); });
// In the order of ElementwiseRule.
constexpr RuleInfo kRules[] = {
    {kAnyDType, false, "any dtype"},
    {kFloats | kIntegers, false, "integers or floats"},
    {kFloats, false, "floats"},
    {kIntegers, false, "integers"},
    {kIntegers | bit(DType::Bool), false, "bool or integers"},
    {kAnyDType, true, "any dtype"},
    {kFloats, true, "floats"},
    {kAnyDType, false, "any dtype"},
};
static_assert(std::size(kRules) == static_cast<size_t>(ElementwiseRule::None));

// Failing is apart and never inlined, so that the path that succeeds stays small.
[[gnu::noinline, noreturn, gnu::cold]] void
fail_elementwise_dtypes(Op op, std::span<const TensorType *const> data, const RuleInfo &rule) {
    std::string found;
    for (const TensorType *t : data)
        found += (found.empty() ? "" : " and ") + std::string(name(t->dtype));
    for (const TensorType *t : data)
        if (t->dtype != data[0]->dtype)
            fail_dtype(op, "operands have the dtypes " + found + "; cast them to one dtype first");
    fail_dtype(op, "takes " + std::string(rule.wants) + ", not " + found);
}

[[gnu::noinline, noreturn, gnu::cold]] void fail_broadcast(Op op, const Shape &a, const Shape &b, int axis) {
    const int rank = std::max(a.rank(), b.rank());
    fail_shape(op, "shapes " + to_string(a) + " and " + to_string(b) + " do not broadcast (axis " +
                       std::to_string(axis) + ": " + std::to_string(a[axis - (rank - a.rank())]) +
                       " against " + std::to_string(b[axis - (rank - b.rank())]) + ")");
}

[[gnu::noinline]] void broadcast_into(Op op, DType dtype, const Shape &b, Shape &shape) {
    int axis = 0;
    Shape out;
    if (!broadcast_shapes(shape, b, out, axis))
        fail_broadcast(op, shape, b, axis);
    check_extents(op, dtype, out.extents());
    shape = out;
}

void infer_elementwise(Op op, const OpInfo &row, std::span<const TensorType *const> operands,
                       TensorType &out) {
    const RuleInfo &rule = kRules[static_cast<size_t>(row.rule)];
    auto data = operands;
    if (row.rule == ElementwiseRule::Select) {
        if (operands[0]->dtype != DType::Bool) [[unlikely]]
            fail_dtype(op, "the condition has dtype " + std::string(name(operands[0]->dtype)) +
                               "; it must be bool");
        data = operands.subspan(1);
    }
    const DType dtype = data[0]->dtype;
    bool same = (rule.allowed & bit(dtype)) != 0;
    for (size_t i = 1; i < data.size(); ++i)
        same &= data[i]->dtype == dtype;
    if (!same) [[unlikely]]
        fail_elementwise_dtypes(op, data, rule);
    out.dtype = rule.gives_bool ? DType::Bool : dtype;
    out.shape = operands[0]->shape;
    out.device = result_device(operands);
    for (size_t i = 1; i < operands.size(); ++i)
        if (!(operands[i]->shape == out.shape)) [[unlikely]]
            broadcast_into(op, out.dtype, operands[i]->shape, out.shape);
}

using InferRule = void (*)(const InferCall &);
constexpr InferRule kInfer[] = {
#define LZ_OP(E, ...) infer_##E,
#include "ir/ops.def"
};

} // namespace

void check_extents(Op op, DType dtype, std::span<const int64_t> extents) {
    if (extents.size() > kMaxRank)
        fail_shape(op, "the shape " + list(extents) + " has " + std::to_string(extents.size()) +
                           " axes; at most " + std::to_string(kMaxRank) + " are possible");
    int64_t bytes = size_of(dtype);
    for (int64_t e : extents) {
        if (e < 0)
            fail_shape(op, "the shape " + list(extents) + " has the negative extent " + std::to_string(e));
        if (__builtin_mul_overflow(bytes, std::max<int64_t>(e, 1), &bytes))
            fail_shape(op, "a tensor of dtype " + std::string(name(dtype)) + " and shape " + list(extents) +
                               " has more bytes than fit a 64-bit number");
    }
}

Shape checked_shape(Op op, DType dtype, std::span<const int64_t> extents) {
    check_extents(op, dtype, extents);
    return Shape(extents);
}

void check_axis(Op op, int64_t axis, const TensorType &type) {
    if (axis < 0 || axis >= type.shape.rank())
        fail_index(op, "axis " + std::to_string(axis) + " is out of range for " + shaped(type) + " (rank " +
                           std::to_string(type.shape.rank()) + ")");
}

uint32_t check_axes(Op op, std::span<const int64_t> axes, const TensorType &type) {
    uint32_t set = 0;
    for (int64_t axis : axes) {
        check_axis(op, axis, type);
        const uint32_t bit = 1u << static_cast<uint32_t>(axis);
        if (set & bit)
            fail_index(op, "axis " + std::to_string(axis) + " stands twice in " + list(axes));
        set |= bit;
    }
    return set;
}

void check_same_dtype(Op op, const TensorType &a, const TensorType &b) {
    if (a.dtype != b.dtype)
        fail_dtype(op, "operands have the dtypes " + std::string(name(a.dtype)) + " and " +
                           std::string(name(b.dtype)) + "; cast them to one dtype first");
}

void infer_types(const AttrView &attrs, std::span<const TensorType *const> operands,
                 std::span<TensorType> results) {
    const OpInfo &row = info(attrs.op);
    LZ_CHECK(static_cast<int>(operands.size()) >= row.min_operands &&
                 (row.max_operands < 0 || static_cast<int>(operands.size()) <= row.max_operands),
             std::string(row.name) + " has " + std::to_string(operands.size()) + " operands");
    if (is_elementwise_row(attrs.op))
        infer_elementwise(attrs.op, row, operands, results[0]);
    else
        kInfer[static_cast<int>(attrs.op) - static_cast<int>(Op::Cast)]({attrs, operands, results});
}

void infer_Cast(const InferCall &call) {
    const DType dtype = call.attrs.dtype(attr::kCastDType);
    if (size_of(dtype) > size_of(call.in().dtype))
        check_extents(Op::Cast, dtype, call.in().shape.extents());
    call.out() = {dtype, call.in().shape, call.in().device};
}

void infer_Constant(const InferCall &call) {
    const DType dtype = call.attrs.dtype(attr::kMakerDType);
    call.out() = {dtype, checked_shape(call.attrs.op, dtype, call.attrs.ints(attr::kMakerShape)),
                  call.attrs.device(attr::kMakerDevice)};
}

void infer_Literal(const InferCall &call) {
    infer_Constant(call);
}

void infer_Iota(const InferCall &call) {
    infer_Constant(call);
    if (call.out().dtype == DType::Bool)
        fail_dtype(Op::Iota, "takes integers or floats, not bool");
    check_axis(Op::Iota, call.attrs.integer(attr::kIotaAxis), call.out());
}

void infer_Philox(const InferCall &call) {
    call.out() = {DType::I32, checked_shape(Op::Philox, DType::I32, call.attrs.ints(attr::kPhiloxShape)),
                  call.attrs.device(attr::kPhiloxDevice)};
}

void infer_Transfer(const InferCall &call) {
    call.out() = call.in();
    call.out().device = call.attrs.device(attr::kTransferTo);
}

void infer_Call(const InferCall &call) {
    if (call.attrs.ints(attr::kCallResults).empty())
        fail_index(Op::Call, "it has no result; a call has at least one");
    size_t k = 0;
    for (CallResults r(call.attrs.ints(attr::kCallResults)); !r.done(); r.next()) {
        check_extents(Op::Call, r.type().dtype, r.type().shape.extents());
        call.out(k++) = r.type();
    }
}

void infer_RecordEvent(const InferCall &) {}
void infer_WaitEvent(const InferCall &) {}
void infer_WaitStream(const InferCall &call) {
    const int64_t stream = call.attrs.integer(attr::kWaitStreamStream);
    if (stream < 0 || stream >= kMaxStreams)
        fail_index(Op::WaitStream, "there is no stream " + std::to_string(stream) +
                                       "; streams are numbered 0 to " + std::to_string(kMaxStreams - 1));
}
void infer_HostCallback(const InferCall &) {}

} // namespace lz::ir
