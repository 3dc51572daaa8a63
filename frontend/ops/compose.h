#pragma once
/// What the functions of the public API are made of: the primitives with checked operands, and the numbers
/// that they need. Dtypes and shapes here are the IR's.

#include "frontend/ops/promotion.h"
#include "frontend/record/access.h"
#include "frontend/record/record.h"
#include "frontend/record/recorder.h"
#include "frontend/tensor/copies.h"
#include "frontend/tensor/defaults.h"
#include "ir/op.h"
#include "lazuli/core/options.h"

#include <algorithm>
#include <array>
#include <string>

namespace lz::detail {

using ir::Op;
using ir::Shape;

/// The type of a defined tensor.
inline const ir::TensorType &type(const Tensor &x) {
    return Access::node(x)->type;
}
/// The same, but an empty tensor throws StateError naming `function`.
inline const ir::TensorType &checked_type(const Tensor &x, const char *function, Location loc) {
    return node_of(x, function, loc)->type;
}

/// A function's name as a template argument.
template <size_t N>
struct FunctionName {
    char text[N];
    consteval FunctionName(const char (&name)[N]) { std::copy_n(name, N, text); } // NOLINT: converts
};
template <FunctionName name>
inline const uint16_t kFunction = ir::intern_function({name.text, sizeof(name.text) - 1});

/// `loc` for all that a public function records, so that errors name it and its operands, and not
/// the primitives that it is made of (S06). Within another function's call `loc` stays that function's.
inline Location in(uint16_t function, Location loc) {
    if (loc.function == 0) {
        loc.function = function;
        loc.call = static_cast<uint16_t>(Recorder::current().recorded());
    }
    return loc;
}
template <FunctionName name>
Location in(Location loc) {
    return in(kFunction<name>, loc);
}

/// Structural words of an operation, without the heap. Appends in the order of the op's attributes.
class Words {
public:
    Words() {} // NOLINT(modernize-use-equals-default): `= default` would have Words() clear the array
    Words &word(int64_t value) {
        room(1);
        words_[count_++] = value;
        return *this;
    }
    Words &ints(std::span<const int64_t> values) {
        room(values.size() + 1);
        words_[count_++] = static_cast<int64_t>(values.size());
        for (const int64_t v : values)
            words_[count_++] = v;
        return *this;
    }
    operator std::span<const int64_t>() const { return {words_, count_}; } // NOLINT: converts

private:
    void room(size_t more) const {
        LZ_CHECK(count_ + more <= std::size(words_), "an operation has too many attribute words");
    }
    int64_t words_[48];
    size_t count_ = 0;
};

/// Records with a variable number of words.
inline Tensor record(Op op, std::initializer_list<const Tensor *> operands, const Words &structural,
                     Location loc, std::span<const int64_t> runtime = {}) {
    return record(op, std::span(operands.begin(), operands.size()), structural, runtime, loc);
}

/// The number as a kernel rounds it, whatever the caller's rounding mode: an i64 may be no f64.
double double_of(const Scalar &value);

inline Tensor unary(Op op, const Tensor &x, Location loc) {
    return record_elementwise(op, x, loc);
}
/// Operands of one dtype.
inline Tensor binary(Op op, const Tensor &a, const Tensor &b, Location loc) {
    return record_elementwise(op, a, b, loc);
}
inline Tensor select(const Tensor &condition, const Tensor &a, const Tensor &b, Location loc) {
    const Tensor *operands[] = {&condition, &a, &b};
    return record(Op::Select, operands, {}, {}, loc);
}
/// x itself where it has the dtype already.
Tensor cast(const Tensor &x, ir::DType dtype, Location loc);
/// A 0-dim number of ours with x's dtype, visible to `simplify`.
Tensor literal(const Tensor &x, double value, Location loc);
/// A 0-dim number that depends on the user's (values, sizes): never part of a program's structure.
Tensor constant(const Tensor &x, double value, Location loc);
Tensor constant(const Scalar &value, ir::DType dtype, ir::Device device, Location loc);
/// A filled tensor of a user's number.
Tensor filled(const Scalar &value, const ir::TensorType &like, Location loc);

Tensor reduce(Op op, const Tensor &x, std::span<const int64_t> axes, bool keepdim, Location loc);
Tensor reshape_to(const Tensor &x, const Shape &shape, Location loc);
Tensor broadcast_to(const Tensor &x, const Shape &shape, Location loc);
/// Cast and broadcast to the type.
Tensor fitted(const Tensor &x, const ir::TensorType &type, Location loc);
Tensor permute_to(const Tensor &x, std::span<const int64_t> axes, Location loc);
/// One axis cut to [start, start + size) in steps of `step` > 0, which the caller has checked.
Tensor cut(const Tensor &x, int axis, int64_t start, int64_t size, int64_t step, Location loc);
/// start + step * index along `axis`.
Tensor iota(const ir::TensorType &type, int axis, const Scalar &start, const Scalar &step, Location loc);

/// As PyTorch, functions that keep a 0-dim tensor's shape take 0 or -1 for its axis.
constexpr bool is_axis_of_number(int64_t axis, int rank) {
    return rank == 0 && (axis == 0 || axis == -1);
}
/// The axis, counted from 0. Throws IndexError.
int normal_axis(int64_t axis, int rank, const char *function, const ir::TensorType &type, Location loc);
/// Distinct axes, sorted; all of them when none is named.
struct Axes {
    int64_t axis[ir::kMaxRank];
    size_t count = 0;
    std::span<const int64_t> span() const { return {axis, count}; }
    bool has(int a) const {
        for (size_t i = 0; i < count; ++i)
            if (axis[i] == a)
                return true;
        return false;
    }
};
/// Python's start:stop:step of an axis, clipped to it: `size` positions from `start` in steps of `step` > 0,
/// to be flipped when `backwards`. Throws IndexError for a step of 0.
struct Range {
    int64_t start = 0, size = 0, step = 1;
    bool backwards = false;
};
Range clip(int64_t extent, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step,
           const char *function, Location loc);
Axes normal_axes(const Sizes &axes, const char *function, const ir::TensorType &type, Location loc);
/// Product of the extents of these axes.
int64_t count_of(const Shape &shape, const Axes &axes);

/// The shape that the user gave. Throws ShapeError for negative extents, more than eight axes, or a product
/// that overflows, in bytes of the dtype or of `element_bytes` that a step on the way takes.
Shape checked_shape(const Sizes &sizes, ir::DType dtype, const char *function, Location loc,
                    int64_t element_bytes = 0);

/// `[2,3]`.
std::string text(std::span<const int64_t> values);
/// `f32[2,3]`.
std::string text(const ir::TensorType &type);

/// The last step of a factory: pinned, and a leaf of gradients, where the options ask for it.
inline Tensor placed(const Tensor &made, const ResolvedOptions &resolved, Location loc) {
    Tensor out = resolved.pinned ? in_pinned_memory(made, loc) : made;
    if (resolved.requires_grad)
        out.requires_grad_(true, loc);
    return out;
}
/// Where a call of these operands runs (S05): on the device of the first that is not a 0-dim CPU tensor.
ir::Device home_of(std::span<const Tensor> operands);
/// Brings a call's operands, in the order in which the user passed them, to `home`. Those that are elsewhere
/// become transfers which the compiler rejects, naming all of these operands, unless they are numbers on the
/// CPU, have peer access, or are to be moved automatically (S06, S07). Undefined tensors stay so.
void bring_together(std::span<Tensor> operands, ir::Device home, Location loc);
/// The operands where the call runs. A function begins with it where the first primitive that mixes would not
/// decide the device as S05 does, would not see all that the user passed, or would give axes to a number.
template <class... T>
std::array<Tensor, sizeof...(T)> together(Location loc, const T &...operands) {
    std::array<Tensor, sizeof...(T)> all = {operands...};
    bring_together(all, home_of(all), loc);
    return all;
}
/// The same for what changes the first operand in place, which stays where it is.
template <class... T>
std::array<Tensor, 1 + sizeof...(T)> together_with(const Tensor &x, Location loc, const T &...operands) {
    std::array<Tensor, 1 + sizeof...(T)> all = {x, operands...};
    bring_together(all, type(x).device, loc);
    return all;
}
/// An operand's tensor; undefined for a number.
inline Tensor tensor_or_none(const Operand &x) {
    return x.is_tensor() ? x.tensor() : Tensor();
}
/// A tensor from `together` in the place of the operand that it came from.
inline Operand replaced(const Operand &x, const Tensor &now) {
    return x.is_tensor() ? Operand(now, x.loc()) : x;
}

/// A temporary gives up its handle when what it was for has been recorded (S23), not where that failed.
inline void let_go(Tensor &x) noexcept {
    x = Tensor();
}
inline void let_go(const Operand &x) noexcept {
    if (Tensor *const temporary = Access::temporary(x))
        let_go(*temporary);
}
/// What was made of these, which let go.
template <class R, class... T>
R consumed(R made, T &...operands) {
    (let_go(operands), ...);
    return made;
}

/// The operand as a tensor of this dtype: cast, or a constant on the device of `like`.
Tensor as_tensor(const Operand &x, ir::DType dtype, const Tensor &like, Location loc);

/// Whether the dtype has this number; bool and floats take every one.
bool holds(ir::DType dtype, const Scalar &value);
/// The nearest number that an integer dtype has.
Scalar saturated(const Scalar &value, ir::DType dtype);
/// Throws DTypeError for a number that cannot be stored as an integer dtype; u8 takes -255 to -1 as well,
/// which wrap, as in PyTorch.
void check_fits(const Scalar &value, ir::DType dtype, const char *function, Location loc);
/// As `as_tensor`, of what is stored in a tensor of this dtype: a number has to fit.
Tensor stored(const Operand &x, ir::DType dtype, const Tensor &like, const char *function, Location loc);

/// f16 and bf16 work in f32 inside a composition.
inline ir::DType working_dtype(ir::DType t) {
    return ir::is_half(t) ? ir::DType::F32 : t;
}
/// f(x) computed in f32 and rounded back for half types. Integers become the default dtype.
template <class F>
Tensor in_working_dtype(const Tensor &x, const char *function, Location loc, F &&f) {
    ir::DType dtype = checked_type(x, function, loc).dtype;
    if (!ir::is_float(dtype))
        dtype = default_dtype();
    return cast(f(cast(x, working_dtype(dtype), loc)), dtype, loc);
}

/// The last step of every in-place form: `value`, broadcast to and cast to what x is, becomes x's. Throws
/// (and changes nothing) when the shapes do not fit, when a float would become an integer, or an integer a
/// bool. A value on another device is one of S06 and S07: x never leaves its own.
Tensor &assign(Tensor &x, const Tensor &value, const char *function, Location loc);

} // namespace lz::detail
