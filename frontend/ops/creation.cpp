#include "lazuli/ops/creation.h"
#include "frontend/autograd/attach.h"
#include "frontend/record/sync/sync.h"

#include "frontend/ops/compose.h"
#include "ir/host/float_environment.h"
#include "lazuli/core/defaults.h"
#include "lazuli/ops/views.h"

#include <cmath>
#include <cstring>

namespace lz {

using detail::Op;
using detail::ResolvedOptions;

namespace {

/// Storage of this type on the CPU, filled by `fill(void *)`, then cast and moved to where the options say.
template <class F>
Tensor from_host(const ir::TensorType &type, const ResolvedOptions &resolved, Location loc, F &&fill) {
    detail::Storage *const storage = detail::allocate_on_host(type.bytes(), resolved.pinned, loc);
    if (type.numel() > 0)
        fill(storage->data());
    const Tensor made = detail::make_ready(type, storage, loc);
    return detail::placed(to(detail::cast(made, resolved.dtype, loc), detail::from_ir(resolved.device), loc),
                          resolved, loc);
}

struct Leaves {
    std::vector<int64_t> sizes;
    bool any_float = false, all_bool = true;
    std::vector<Scalar> values;
};

/// Walks the braces row by row; the first path down tells the shape.
void collect(const Nested &nested, size_t depth, Leaves &out, Location loc) {
    if (nested.is_number()) {
        if (depth != out.sizes.size())
            throw ShapeError("tensor: a number stands where a row of " + std::to_string(out.sizes[depth]) +
                                 " is expected (depth " + std::to_string(depth) + ")",
                             loc);
        out.any_float |= nested.number().is_float();
        out.all_bool &= nested.number().category() == Scalar::Category::Bool;
        out.values.push_back(nested.number());
        return;
    }
    const auto length = static_cast<int64_t>(nested.rows().size());
    if (depth >= out.sizes.size())
        throw ShapeError("tensor: a row of " + std::to_string(length) +
                             " stands where a number is expected (depth " + std::to_string(depth) + ")",
                         loc);
    if (length != out.sizes[depth])
        throw ShapeError("tensor: a row at depth " + std::to_string(depth) + " has " +
                             std::to_string(length) + " entries and the first one " +
                             std::to_string(out.sizes[depth]),
                         loc);
    for (const Nested &row : nested.rows())
        collect(row, depth + 1, out, loc);
}

template <class T>
void store(void *to, const std::vector<Scalar> &values) {
    auto *out = static_cast<T *>(to);
    for (size_t i = 0; i < values.size(); ++i)
        out[i] = std::is_floating_point_v<T> ? static_cast<T>(detail::double_of(values[i]))
                                             : static_cast<T>(values[i].to_int());
}

Tensor filled(const Sizes &sizes, const Scalar &value, const ResolvedOptions &resolved, const char *function,
              Location loc) {
    detail::check_fits(value, resolved.dtype, function, loc);
    const ir::TensorType type = {resolved.dtype, detail::checked_shape(sizes, resolved.dtype, function, loc),
                                 resolved.device};
    return detail::placed(detail::filled(value, type, loc), resolved, loc);
}
/// The same for a number of ours.
Tensor literally(const Sizes &sizes, double value, const ResolvedOptions &resolved, const char *function,
                 Location loc) {
    const detail::Shape shape = detail::checked_shape(sizes, resolved.dtype, function, loc);
    return detail::placed(
        detail::record_literal(detail::from_ir(resolved.dtype), value, shape, resolved.device, loc), resolved,
        loc);
}

} // namespace

Nested::Nested(std::initializer_list<Nested> rows) : rows_(rows) {}

std::span<const Nested> Nested::rows() const {
    return rows_;
}

Tensor tensor(const Nested &values, const TensorOptions &options, Location loc) {
    loc = detail::in<"tensor">(loc);
    ResolvedOptions resolved = detail::resolve(options, "tensor", loc);
    Leaves leaves;
    for (const Nested *at = &values; !at->is_number(); at = at->rows().data()) {
        leaves.sizes.push_back(static_cast<int64_t>(at->rows().size()));
        if (at->rows().empty())
            break;
    }
    collect(values, 0, leaves, loc);
    const bool none = leaves.values.empty();
    const ir::DType natural = leaves.any_float || none ? detail::default_dtype()
                              : leaves.all_bool        ? ir::DType::Bool
                                                       : ir::DType::I64;
    if (!options.dtype)
        resolved.dtype = natural;
    for (const Scalar &value : leaves.values)
        detail::check_fits(value, resolved.dtype, "tensor", loc);
    const detail::Shape shape = detail::checked_shape(leaves.sizes, resolved.dtype, "tensor", loc);
    if (shape.rank() == 0)
        return detail::placed(detail::constant(leaves.values[0], resolved.dtype, resolved.device, loc),
                              resolved, loc);
    if (leaves.any_float)
        return from_host({ir::DType::F64, shape, ir::kCpu}, resolved, loc,
                         [&](void *to) { store<double>(to, leaves.values); });
    if (leaves.all_bool)
        return from_host({ir::DType::Bool, shape, ir::kCpu}, resolved, loc,
                         [&](void *to) { store<uint8_t>(to, leaves.values); });
    return from_host({ir::DType::I64, shape, ir::kCpu}, resolved, loc,
                     [&](void *to) { store<int64_t>(to, leaves.values); });
}

namespace detail {

namespace {

void check_address(const void *data, const ir::TensorType &type, const char *function, Location loc) {
    if (!data && type.numel() > 0)
        throw StateError(std::string(function) + ": the address of the elements of " + text(type) +
                             " is a null pointer",
                         loc);
}

} // namespace

Tensor tensor_from_memory(const void *data, int64_t count, DType dtype, const Sizes &sizes,
                          const TensorOptions &options, const char *function, Location loc) {
    loc = in(ir::intern_function(function), loc);
    ResolvedOptions resolved = resolve(options, function, loc);
    if (!options.dtype)
        resolved.dtype = to_ir(dtype);
    const ir::TensorType type = {to_ir(dtype), checked_shape(sizes, to_ir(dtype), function, loc), ir::kCpu};
    checked_shape(sizes, resolved.dtype, function, loc);
    if (count >= 0 && type.numel() != count)
        throw ShapeError(std::string(function) + ": " + std::to_string(count) +
                             " elements were given for the shape " + ir::to_string(type.shape) +
                             ", which has " + std::to_string(type.numel()),
                         loc);
    check_address(data, type, function, loc);
    return from_host(type, resolved, loc, [&](void *to) {
        if (type.bytes() > 0)
            std::memcpy(to, data, static_cast<size_t>(type.bytes()));
    });
}

Tensor tensor_adopting(void *data, DType dtype, const Sizes &sizes, void (*deleter)(void *, void *),
                       void *context, Location loc) {
    loc = in<"from_blob">(loc);
    const ir::TensorType type = {to_ir(dtype), checked_shape(sizes, to_ir(dtype), "from_blob", loc),
                                 ir::kCpu};
    check_address(data, type, "from_blob", loc);
    Storage *const storage = Storage::adopt(data, type.bytes(), {});
    Tensor result = make_ready(type, storage, loc);
    // Whatever was thrown until now, the memory is still the caller's.
    storage->deleter = [deleter, context](void *memory) { deleter(memory, context); };
    return result;
}

} // namespace detail

Tensor from_blob(const void *data, const Sizes &sizes, const TensorOptions &options, Location loc) {
    loc = detail::in<"from_blob">(loc);
    const DType dtype = options.dtype ? *options.dtype : get_default_dtype();
    return detail::tensor_from_memory(data, -1, dtype, sizes, options, "from_blob", loc);
}

Tensor full(const Sizes &sizes, const Scalar &value, const TensorOptions &options, Location loc) {
    loc = detail::in<"full">(loc);
    ResolvedOptions resolved = detail::resolve(options, "full", loc);
    if (!options.dtype && !value.is_float())
        resolved.dtype = value.category() == Scalar::Category::Bool ? ir::DType::Bool : ir::DType::I64;
    return filled(sizes, value, resolved, "full", loc);
}
Tensor zeros(const Sizes &sizes, const TensorOptions &options, Location loc) {
    loc = detail::in<"zeros">(loc);
    return literally(sizes, 0, detail::resolve(options, "zeros", loc), "zeros", loc);
}
Tensor ones(const Sizes &sizes, const TensorOptions &options, Location loc) {
    loc = detail::in<"ones">(loc);
    return literally(sizes, 1, detail::resolve(options, "ones", loc), "ones", loc);
}
// Zeros on demand: memory that is never read costs nothing, and what is read by mistake is the same every
// time.
Tensor empty(const Sizes &sizes, const TensorOptions &options, Location loc) {
    loc = detail::in<"empty">(loc);
    return literally(sizes, 0, detail::resolve(options, "empty", loc), "empty", loc);
}

Tensor arange(const Scalar &start, const Scalar &end, const Scalar &step, const TensorOptions &options,
              Location loc) {
    const ir::FloatEnvironment environment;
    loc = detail::in<"arange">(loc);
    ResolvedOptions resolved = detail::resolve(options, "arange", loc);
    const bool integers = !start.is_float() && !end.is_float() && !step.is_float();
    if (!options.dtype && integers)
        resolved.dtype = ir::DType::I64;
    const auto fail = [&](const std::string &what) {
        const auto shown = [](const Scalar &s) {
            return s.is_float() ? std::to_string(s.to_double()) : std::to_string(s.to_int());
        };
        throw ShapeError("arange: from " + shown(start) + " to " + shown(end) + " in steps of " +
                             shown(step) + " " + what,
                         loc);
    };
    const double first = start.to_double(), stop = end.to_double(), by = step.to_double();
    for (const Scalar &number : {start, end, step}) // they say how many there are
        if (number.is_float())
            detail::note_on_host({number.to_double()});
    if (by == 0 || !std::isfinite(first) || !std::isfinite(stop) || !std::isfinite(by))
        fail("has no last number; the bounds must be finite and the step must not be 0");
    if (stop != first && (stop > first) != (by > 0))
        fail("goes the wrong way");
    int64_t count = 0;
    if (integers) {
        const __int128 span = static_cast<__int128>(end.to_int()) - start.to_int(), s = step.to_int();
        const __int128 exact = (span + s - (s > 0 ? 1 : -1)) / s;
        if (exact > INT64_MAX)
            fail("has more numbers than fit a 64-bit count");
        count = static_cast<int64_t>(exact);
    } else {
        const double exact = std::ceil((stop - first) / by);
        if (exact >= 9.2e18)
            fail("has more numbers than fit a 64-bit count");
        count = static_cast<int64_t>(exact);
    }
    const ir::TensorType type = {resolved.dtype, detail::checked_shape(count, resolved.dtype, "arange", loc),
                                 resolved.device};
    // Fractions in integers: computed as floats, then cut, as PyTorch does.
    if (!ir::is_float(resolved.dtype) && !integers)
        return detail::placed(
            detail::cast(detail::iota({ir::DType::F64, type.shape, type.device}, 0, first, by, loc),
                         resolved.dtype, loc),
            resolved, loc);
    return detail::placed(detail::iota(type, 0, start, step, loc), resolved, loc);
}
Tensor arange(const Scalar &start, const Scalar &end, const TensorOptions &options, Location loc) {
    return arange(start, end, 1, options, loc);
}
Tensor arange(const Scalar &end, const TensorOptions &options, Location loc) {
    return arange(0, end, 1, options, loc);
}

Tensor linspace(const Scalar &start, const Scalar &end, int64_t steps, const TensorOptions &options,
                Location loc) {
    const ir::FloatEnvironment environment; // steps are rounded as kernels round
    loc = detail::in<"linspace">(loc);
    const ResolvedOptions resolved = detail::resolve(options, "linspace", loc);
    if (steps < 0)
        throw ShapeError(
            "linspace: the number of steps is " + std::to_string(steps) + "; it must not be negative", loc);
    const ir::DType work =
        ir::is_float(resolved.dtype) ? detail::working_dtype(resolved.dtype) : ir::DType::F64;
    const ir::TensorType type = {work, detail::checked_shape(steps, work, "linspace", loc), resolved.device};
    const double first = start.to_double(), last = end.to_double();
    if (start.is_float() || end.is_float())
        detail::note_on_host({first, last}); // they make the step
    const double by = steps > 1 ? (last - first) / static_cast<double>(steps - 1) : 0;
    // Counted from the nearer end, so that both ends are met exactly.
    const Tensor up = detail::iota(type, 0, first, by, loc);
    const Tensor back = detail::iota(type, 0, steps - 1, -1, loc);
    const Tensor down =
        detail::binary(Op::Sub, detail::constant(up, last, loc),
                       detail::binary(Op::Mul, back, detail::constant(up, by, loc), loc), loc);
    const Tensor upper_half = detail::binary(
        Op::Lt, back, detail::constant(up, std::ceil(static_cast<double>(steps) / 2), loc), loc);
    const Tensor exact = steps > 1 ? detail::select(upper_half, down, up, loc) : up;
    return detail::placed(detail::cast(exact, resolved.dtype, loc), resolved, loc);
}

Tensor eye(int64_t rows, int64_t columns, const TensorOptions &options, Location loc) {
    loc = detail::in<"eye">(loc);
    const ResolvedOptions resolved = detail::resolve(options, "eye", loc);
    if (rows < 0 || columns < 0)
        throw ShapeError(
            "eye: the number of " +
                (rows < 0 ? "rows is " + std::to_string(rows) : "columns is " + std::to_string(columns)) +
                "; it must not be negative",
            loc);
    detail::checked_shape({rows, columns}, resolved.dtype, "eye", loc);
    const Tensor row =
        detail::iota({ir::DType::I64, detail::Shape({rows, 1}), resolved.device}, 0, 0, 1, loc);
    const Tensor column =
        detail::iota({ir::DType::I64, detail::Shape({1, columns}), resolved.device}, 1, 0, 1, loc);
    return detail::placed(detail::cast(detail::binary(Op::Eq, row, column, loc), resolved.dtype, loc),
                          resolved, loc);
}
Tensor eye(int64_t rows, const TensorOptions &options, Location loc) {
    return eye(rows, rows, options, loc);
}

Tensor full_like(const Tensor &x, const Scalar &value, const TensorOptions &options, Location loc) {
    loc = detail::in<"full_like">(loc);
    const ResolvedOptions resolved = detail::resolve_like(x, options, "full_like", loc);
    return filled(x.sizes(), value, resolved, "full_like", loc);
}
Tensor zeros_like(const Tensor &x, const TensorOptions &options, Location loc) {
    loc = detail::in<"zeros_like">(loc);
    const ResolvedOptions resolved = detail::resolve_like(x, options, "zeros_like", loc);
    return literally(x.sizes(), 0, resolved, "zeros_like", loc);
}
Tensor ones_like(const Tensor &x, const TensorOptions &options, Location loc) {
    loc = detail::in<"ones_like">(loc);
    const ResolvedOptions resolved = detail::resolve_like(x, options, "ones_like", loc);
    return literally(x.sizes(), 1, resolved, "ones_like", loc);
}
Tensor empty_like(const Tensor &x, const TensorOptions &options, Location loc) {
    loc = detail::in<"empty_like">(loc);
    const ResolvedOptions resolved = detail::resolve_like(x, options, "empty_like", loc);
    return literally(x.sizes(), 0, resolved, "empty_like", loc);
}

namespace {

/// Options that name what x has where they name nothing.
TensorOptions of(const Tensor &x, TensorOptions options, const char *function, Location loc) {
    const ResolvedOptions resolved = detail::resolve_like(x, options, function, loc);
    options.dtype = detail::from_ir(resolved.dtype);
    options.device = detail::from_ir(resolved.device);
    return options;
}

} // namespace

Tensor Tensor::new_tensor(const Nested &values, const TensorOptions &options, Location loc) const {
    loc = detail::in<"new_tensor">(loc);
    return tensor(values, of(*this, options, "new_tensor", loc), loc);
}
Tensor Tensor::new_full(const Sizes &sizes, const Scalar &value, const TensorOptions &options,
                        Location loc) const {
    loc = detail::in<"new_full">(loc);
    return full(sizes, value, of(*this, options, "new_full", loc), loc);
}
Tensor Tensor::new_zeros(const Sizes &sizes, const TensorOptions &options, Location loc) const {
    loc = detail::in<"new_zeros">(loc);
    return zeros(sizes, of(*this, options, "new_zeros", loc), loc);
}
Tensor Tensor::new_ones(const Sizes &sizes, const TensorOptions &options, Location loc) const {
    loc = detail::in<"new_ones">(loc);
    return ones(sizes, of(*this, options, "new_ones", loc), loc);
}
Tensor Tensor::new_empty(const Sizes &sizes, const TensorOptions &options, Location loc) const {
    loc = detail::in<"new_empty">(loc);
    return empty(sizes, of(*this, options, "new_empty", loc), loc);
}

Tensor &Tensor::fill_diagonal_(const Scalar &value, bool wrap, Location loc) & {
    loc = detail::in<"fill_diagonal_">(loc);
    const ir::TensorType type = detail::checked_type(*this, "fill_diagonal_", loc);
    const int rank = type.shape.rank();
    bool is_cube = true;
    for (int a = 1; a < rank; ++a)
        is_cube &= type.shape[a] == type.shape[0];
    if (rank < 2 || (rank > 2 && !is_cube))
        throw ShapeError("fill_diagonal_: " + detail::text(type) +
                             " has no diagonal; it is a matrix, or has more axes of one extent",
                         loc);
    detail::check_fits(value, type.dtype, "fill_diagonal_", loc);
    const auto position = [&](int axis, int64_t step) {
        detail::Shape along;
        for (int a = 0; a < rank; ++a)
            along.push_back(a == axis ? type.shape[a] : 1);
        return detail::iota({ir::DType::I64, along, type.device}, axis, 0, step, loc);
    };
    Tensor on_diagonal;
    if (wrap && rank == 2 && type.shape[0] > type.shape[1]) {
        // Below a square of the width the diagonal begins anew, one row further down.
        const Tensor place = detail::binary(Op::Add, position(0, type.shape[1]), position(1, 1), loc);
        const Tensor period = detail::constant(Scalar(type.shape[1] + 1), ir::DType::I64, type.device, loc);
        on_diagonal = detail::binary(Op::Eq, detail::binary(Op::Remainder, place, period, loc),
                                     detail::literal(place, 0, loc), loc);
    } else {
        on_diagonal = detail::binary(Op::Eq, position(0, 1), position(1, 1), loc);
        for (int a = 2; a < rank; ++a)
            on_diagonal = detail::binary(
                Op::And, on_diagonal, detail::binary(Op::Eq, position(a - 1, 1), position(a, 1), loc), loc);
    }
    const Tensor number = detail::constant(value, type.dtype, type.device, loc);
    return detail::assign(*this, detail::select(on_diagonal, number, *this, loc), "fill_diagonal_", loc);
}

Tensor &Tensor::fill_(Operand value, Location loc) & {
    loc = detail::in<"fill_">(loc);
    const ir::TensorType type = detail::checked_type(*this, "fill_", loc);
    if (!value.is_tensor()) {
        detail::check_fits(value.number(), type.dtype, "fill_", loc);
        detail::Overwriting form(loc);
        detail::replace(*this, detail::filled(value.number(), type, loc));
        form.launch();
        return *this;
    }
    if (detail::checked_type(value.tensor(), "fill_", loc).shape.rank() != 0)
        throw ShapeError("fill_: the value is " + detail::text(detail::type(value.tensor())) +
                             "; it must be one number",
                         loc);
    return copy_(value.tensor(), loc);
}
Tensor &Tensor::zero_(Location loc) & {
    loc = detail::in<"zero_">(loc);
    const ir::TensorType type = detail::checked_type(*this, "zero_", loc);
    detail::Overwriting form(loc);
    detail::replace(*this,
                    detail::record_literal(detail::from_ir(type.dtype), 0, type.shape, type.device, loc));
    form.launch();
    return *this;
}
Tensor &Tensor::copy_(const Tensor &source, Location loc) & {
    loc = detail::in<"copy_">(loc);
    const ir::TensorType type = detail::checked_type(*this, "copy_", loc);
    const ir::TensorType from = detail::checked_type(source, "copy_", loc);
    detail::Shape joined;
    int axis = 0;
    if (!ir::broadcast_shapes(type.shape, from.shape, joined, axis) || !(joined == type.shape))
        throw ShapeError("copy_: shape " + ir::to_string(from.shape) + " does not broadcast to " +
                             ir::to_string(type.shape),
                         loc);
    detail::Overwriting form(loc);
    {
        Tensor value = detail::fitted(lz::to(source, detail::from_ir(type.device), loc), type, loc);
        // Pinned memory stays pinned, so the value cannot be shared with a source that is not.
        if (is_pinned() && !value.is_pinned())
            value =
                detail::in_pinned_memory(value.same_tensor(source) ? detail::fresh(value, loc) : value, loc);
        detail::attach_overwriting(*this, value, loc);
        detail::replace(*this, value);
    }
    form.launch();
    return *this;
}
// Nothing waits for a copy in any case (S33), and where the values go is there already.
Tensor &Tensor::copy_(const Tensor &source, const CopyOptions &, Location loc) & {
    return copy_(source, loc);
}

} // namespace lz
