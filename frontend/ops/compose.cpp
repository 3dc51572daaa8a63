#include "frontend/ops/compose.h"

#include "frontend/autograd/attach.h"
#include "ir/host/float_environment.h"
#include "lazuli/core/defaults.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lz::detail {

Tensor cast(const Tensor &x, ir::DType dtype, Location loc) {
    if (type(x).dtype == dtype)
        return x;
    return record(Op::Cast, {&x}, {static_cast<int64_t>(dtype)}, {}, loc);
}

Tensor literal(const Tensor &x, double value, Location loc) {
    return record_literal(from_ir(type(x).dtype), value, {}, type(x).device, loc);
}

Tensor constant(const Tensor &x, double value, Location loc) {
    return constant(Scalar(value), type(x).dtype, type(x).device, loc);
}

namespace {

struct IntegerRange {
    int64_t low, high;
};

IntegerRange range_of(ir::DType dtype) {
    const int bits = 8 * ir::size_of(dtype);
    if (!ir::is_signed(dtype))
        return {0, (int64_t{1} << bits) - 1}; // u8
    const int64_t high = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
    return {-high - 1, high};
}

} // namespace

bool holds(ir::DType dtype, const Scalar &value) {
    if (dtype == ir::DType::Bool || ir::is_float(dtype))
        return true;
    const IntegerRange range = range_of(dtype);
    if (!value.is_float())
        return value.to_int() >= range.low && value.to_int() <= range.high;
    // 2^63 - 1 is 2^63 as a double, which does not fit.
    const double v = value.to_double(), high = static_cast<double>(range.high);
    return v >= static_cast<double>(range.low) && (dtype == ir::DType::I64 ? v < high : v <= high);
}

Scalar saturated(const Scalar &value, ir::DType dtype) {
    const IntegerRange range = range_of(dtype);
    return std::clamp(value.to_int(), range.low, range.high);
}

void check_fits(const Scalar &value, ir::DType dtype, const char *function, Location loc) {
    const bool wraps = dtype == ir::DType::U8 && !value.is_float() && value.to_int() >= -255;
    if (holds(dtype, value) || (wraps && value.to_int() < 0))
        return;
    const std::string number =
        value.is_float() ? std::to_string(value.to_double()) : std::to_string(value.to_int());
    throw DTypeError(std::string(function) + ": the number " + number + " does not fit dtype " +
                         std::string(ir::name(dtype)),
                     loc);
}

Tensor stored(const Operand &x, ir::DType dtype, const Tensor &like, const char *function, Location loc) {
    if (!x.is_tensor())
        check_fits(x.number(), dtype, function, loc);
    return as_tensor(x, dtype, like, loc);
}

namespace {

/// The value as an integer of this dtype: integers wrap, floats saturate, NaN is 0 (S66).
int64_t integer_of(const Scalar &value, ir::DType dtype) {
    if (value.is_float())
        note_on_host({value.to_double()});
    const int bits = 8 * ir::size_of(dtype);
    if (dtype == ir::DType::Bool) {
        if (!value.is_float())
            return value.to_int() != 0;
        return std::bit_cast<uint64_t>(value.to_double()) << 1 != 0; // a subnormal number is not 0
    }
    const bool is_signed = ir::is_signed(dtype);
    if (value.is_float()) {
        const double v = value.to_double();
        const double top = std::ldexp(1.0, is_signed ? bits - 1 : bits);
        const double low = is_signed ? -top : 0.0;
        if (v != v)
            return 0;
        if (v >= top)
            return bits == 64 ? INT64_MAX : static_cast<int64_t>(top - 1);
        return v <= low ? static_cast<int64_t>(low) : static_cast<int64_t>(v);
    }
    const auto word = static_cast<uint64_t>(value.to_int());
    if (bits == 64)
        return value.to_int();
    const uint64_t cut = word & ((uint64_t{1} << bits) - 1);
    const bool negative = is_signed && (cut >> (bits - 1)) != 0;
    return static_cast<int64_t>(negative ? cut | ~((uint64_t{1} << bits) - 1) : cut);
}

} // namespace

double double_of(const Scalar &value) {
    if (value.is_float())
        return value.to_double();
    const ir::FloatEnvironment environment;
    volatile int64_t integer = value.to_int(); // or the conversion might leave the environment's lines
    volatile double rounded = static_cast<double>(integer);
    return rounded;
}

Tensor filled(const Scalar &value, const ir::TensorType &like, Location loc) {
    const DType dtype = from_ir(like.dtype);
    if (ir::is_float(like.dtype))
        return record_constant(dtype, double_of(value), like.shape, like.device, loc);
    return record_constant_int(dtype, integer_of(value, like.dtype), like.shape, like.device, loc);
}

Tensor constant(const Scalar &value, ir::DType dtype, ir::Device device, Location loc) {
    return filled(value, {dtype, {}, device}, loc);
}

Tensor reduce(Op op, const Tensor &x, std::span<const int64_t> axes, bool keepdim, Location loc) {
    const Shape shape = type(x).shape;
    Tensor reduced = record(op, {&x}, Words().ints(axes), loc);
    // A sum starts at -0, which changes no number that it is added to; over nothing it is 0 all the same.
    const auto empty = [&](int64_t axis) { return shape[static_cast<int>(axis)] == 0; };
    if (op == Op::ReduceSum && std::ranges::any_of(axes, empty)) {
        const ir::TensorType sum = type(reduced);
        Tensor zeros = record_literal(from_ir(sum.dtype), 0, sum.shape, sum.device, loc);
        share_history(zeros, reduced);
        reduced = std::move(zeros);
    }
    if (!keepdim)
        return reduced;
    Shape kept = shape;
    for (const int64_t axis : axes)
        kept[static_cast<int>(axis)] = 1;
    return reshape_to(reduced, kept, loc);
}

Tensor reshape_to(const Tensor &x, const Shape &shape, Location loc) {
    if (type(x).shape == shape)
        return x;
    return record(Op::Reshape, {&x}, Words().ints(shape.extents()), loc);
}

Tensor broadcast_to(const Tensor &x, const Shape &shape, Location loc) {
    if (type(x).shape == shape)
        return x;
    return record(Op::Broadcast, {&x}, Words().ints(shape.extents()), loc);
}

Tensor fitted(const Tensor &x, const ir::TensorType &type, Location loc) {
    const Tensor same_dtype = cast(x, type.dtype, loc);
    return broadcast_to(same_dtype, type.shape, loc);
}

Tensor permute_to(const Tensor &x, std::span<const int64_t> axes, Location loc) {
    return record(Op::Permute, {&x}, Words().ints(axes), loc);
}

Tensor cut(const Tensor &x, int axis, int64_t start, int64_t size, int64_t step, Location loc) {
    const Shape &shape = type(x).shape;
    int64_t starts[ir::kMaxRank] = {}, sizes[ir::kMaxRank], steps[ir::kMaxRank];
    const auto rank = static_cast<size_t>(shape.rank());
    std::ranges::copy(shape, sizes);
    std::fill_n(steps, rank, 1);
    const auto at = static_cast<size_t>(axis);
    starts[at] = start;
    sizes[at] = size;
    steps[at] = step;
    return record(Op::Slice, {&x}, Words().word(shape.rank()).ints({sizes, rank}).ints({steps, rank}), loc,
                  {starts, rank});
}

namespace {

Tensor record_iota(const ir::TensorType &type, int axis, int64_t start_word, int64_t step_word,
                   Location loc) {
    const int64_t runtime[] = {start_word, step_word};
    return record(Op::Iota, {},
                  Words()
                      .word(static_cast<int64_t>(type.dtype))
                      .ints(type.shape.extents())
                      .word(ir::device_word(type.device))
                      .word(axis),
                  loc, runtime);
}

int64_t word_of(const Scalar &value, ir::DType dtype) {
    return ir::is_float(dtype) ? ir::scalar_word(double_of(value)) : integer_of(value, dtype);
}

} // namespace

Tensor iota(const ir::TensorType &type, int axis, const Scalar &start, const Scalar &step, Location loc) {
    return record_iota(type, axis, word_of(start, type.dtype), word_of(step, type.dtype), loc);
}

std::string text(std::span<const int64_t> values) {
    std::string out = "[";
    for (size_t i = 0; i < values.size(); ++i)
        out += (i ? "," : "") + std::to_string(values[i]);
    return out += ']';
}

std::string text(const ir::TensorType &type) {
    return std::string(ir::name(type.dtype)) + ir::to_string(type.shape);
}

int normal_axis(int64_t axis, int rank, const char *function, const ir::TensorType &type, Location loc) {
    if (rank == 0)
        throw IndexError(std::string(function) + ": axis " + std::to_string(axis) + " is out of range; " +
                             text(type) + " has no axes",
                         loc);
    if (axis < -rank || axis >= rank)
        throw IndexError(std::string(function) + ": axis " + std::to_string(axis) + " is out of range for " +
                             text(type) + "; it must be from " + std::to_string(-rank) + " to " +
                             std::to_string(rank - 1),
                         loc);
    return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Axes normal_axes(const Sizes &axes, const char *function, const ir::TensorType &type, Location loc) {
    Axes out;
    const int rank = type.shape.rank();
    if (axes.empty()) {
        for (int a = 0; a < rank; ++a)
            out.axis[out.count++] = a;
        return out;
    }
    for (const int64_t given : axes) {
        if (is_axis_of_number(given, rank))
            continue;
        const int a = normal_axis(given, rank, function, type, loc);
        if (out.has(a))
            throw IndexError(std::string(function) + ": axis " + std::to_string(a) + " stands twice in " +
                                 text(axes.span()),
                             loc);
        out.axis[out.count++] = a;
    }
    std::sort(out.axis, out.axis + out.count);
    return out;
}

Range clip(int64_t extent, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step,
           const char *function, Location loc) {
    if (step == 0 || step == INT64_MIN)
        throw IndexError(std::string(function) + ": the step of a slice must not be " + std::to_string(step),
                         loc);
    const auto position = [&](int64_t p, int64_t low, int64_t high) {
        return std::clamp(p < 0 ? p + extent : p, low, high);
    };
    Range r;
    if (step > 0) {
        const int64_t first = start ? position(*start, 0, extent) : 0;
        const int64_t end = stop ? position(*stop, 0, extent) : extent;
        r.step = step;
        r.size = end > first ? (end - first - 1) / step + 1 : 0;
        r.start = r.size > 0 ? first : 0;
        return r;
    }
    const int64_t first = start ? position(*start, -1, extent - 1) : extent - 1;
    const int64_t end = stop ? position(*stop, -1, extent - 1) : -1;
    r.step = -step;
    r.size = first > end ? (first - end - 1) / r.step + 1 : 0;
    r.start = r.size > 0 ? first - (r.size - 1) * r.step : 0;
    r.backwards = true;
    return r;
}

int64_t count_of(const Shape &shape, const Axes &axes) {
    int64_t count = 1;
    for (const int64_t axis : axes.span())
        count *= shape[static_cast<int>(axis)];
    return count;
}

Shape checked_shape(const Sizes &sizes, ir::DType dtype, const char *function, Location loc,
                    int64_t element_bytes) {
    const std::string where = std::string(function) + ": the shape " + text(sizes.span());
    if (sizes.size() > ir::kMaxRank)
        throw ShapeError(where + " has " + std::to_string(sizes.size()) + " axes; at most " +
                             std::to_string(ir::kMaxRank) + " are possible",
                         loc);
    int64_t bytes = std::max<int64_t>(ir::size_of(dtype), element_bytes);
    for (const int64_t extent : sizes) {
        if (extent < 0)
            throw ShapeError(where + " has the negative extent " + std::to_string(extent), loc);
        if (__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes))
            throw ShapeError(where + " has more bytes of dtype " + std::string(ir::name(dtype)) +
                                 " than fit a 64-bit number",
                             loc);
    }
    return Shape(sizes.span());
}

Tensor as_tensor(const Operand &x, ir::DType dtype, const Tensor &like, Location loc) {
    return x.is_tensor() ? cast(x.tensor(), dtype, loc) : constant(x.number(), dtype, type(like).device, loc);
}

ir::Device home_of(std::span<const Tensor> operands) {
    for (const Tensor &x : operands)
        if (x.defined() && (type(x).device != ir::kCpu || type(x).shape.rank() != 0))
            return type(x).device;
    return ir::kCpu;
}

void bring_together(std::span<Tensor> operands, ir::Device home, Location loc) {
    const auto is_away = [&](const Tensor &x) { return x.defined() && type(x).device != home; };
    if (std::ranges::none_of(operands, is_away)) [[likely]]
        return;
    const std::vector<Tensor> given(operands.begin(), operands.end());
    std::vector<const Tensor *> words = {nullptr};
    for (const Tensor &x : given)
        if (x.defined())
            words.push_back(&x);
    for (Tensor &x : operands) {
        if (!is_away(x))
            continue;
        words[0] = &given[static_cast<size_t>(&x - operands.data())];
        x = record(Op::Transfer, words, Words().word(ir::device_word(home)), {}, loc);
    }
}

namespace {

/// bool < integers < floats.
int category(ir::DType t) {
    return t == ir::DType::Bool ? 0 : ir::is_float(t) ? 2 : 1;
}

} // namespace

Tensor &assign(Tensor &x, const Tensor &value, const char *function, Location loc) {
    const ir::TensorType &to = checked_type(x, function, loc);
    const ir::TensorType &from = type(value);
    if (category(from.dtype) > category(to.dtype))
        throw DTypeError(std::string(function) + ": the result has dtype " +
                             std::string(ir::name(from.dtype)) +
                             " and cannot be stored in a tensor of dtype " + std::string(ir::name(to.dtype)),
                         loc);
    if (!(from.shape == to.shape)) {
        Shape joined;
        int axis = 0;
        if (!ir::broadcast_shapes(to.shape, from.shape, joined, axis) || !(joined == to.shape))
            throw ShapeError(std::string(function) + ": the result has shape " + ir::to_string(from.shape) +
                                 ", which does not fit the tensor of shape " + ir::to_string(to.shape) +
                                 " that is changed in place",
                             loc);
    }
    if (from == to) [[likely]] {
        replace(x, value);
        return x;
    }
    const Location named = in(ir::intern_function(function), loc);
    replace(x, fitted(from.device == to.device ? value : together_with(x, named, value)[1], to, named));
    return x;
}

} // namespace lz::detail
