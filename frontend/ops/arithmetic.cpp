// Functions of two operands and the operators: promotion, then one record.
#include "frontend/autograd/composites.h"
#include "frontend/ops/autocast/autocast.h"
#include "frontend/ops/compose.h"
#include "lazuli/ops/elementwise.h"

#include <cmath>
#include <limits>

namespace lz {

using detail::Op;

namespace {

/// What becomes of the operands before the op (see functions.def).
enum class Rule : uint8_t { Numeric, Any, Bits, Float, Sum, Difference, Product, Quotient, Power, Truth };

[[noreturn]] void fail_bool(const char *function, const char *instead, Location loc) {
    throw DTypeError(std::string(function) + ": two bool operands have no difference; use " + instead, loc);
}

/// A bool pair's op, and the dtype to compute in, by rule.
ir::DType adjust(Rule rule, Op &op, ir::DType dtype, const char *function, Location loc) {
    const bool is_bool = dtype == ir::DType::Bool;
    switch (rule) {
    case Rule::Sum:
        if (is_bool)
            op = Op::Or;
        break;
    case Rule::Product:
        if (is_bool)
            op = Op::And;
        break;
    case Rule::Difference:
        if (is_bool)
            fail_bool(function, "^ (logical_xor)", loc);
        break;
    case Rule::Float:
    case Rule::Quotient:
        if (!ir::is_float(dtype))
            return detail::default_dtype();
        break;
    case Rule::Truth:
        return ir::DType::Bool;
    case Rule::Numeric:
    case Rule::Any:
    case Rule::Bits:
    case Rule::Power:
        break;
    }
    return dtype;
}

/// Whether numbers beside f16 and bf16 enter in f32, and the result rounds once (S66). Not where one of the
/// operands is the result, or is only looked at: there, as in PyTorch, a number is what the tensor's dtype
/// makes of it, so that full({1}, 0.1, {.dtype = f16}) == 0.1. The exponent of `pow` is taken so as well.
constexpr bool computes(Rule rule) {
    return rule != Rule::Any && rule != Rule::Power && rule != Rule::Truth && rule != Rule::Bits;
}

/// Floats that a number beside them is converted to.
constexpr bool takes_numbers(Rule rule, ir::DType dtype) {
    static_assert(ir::DType::F16 < ir::DType::BF16 && ir::DType::BF16 < ir::DType::F32);
    return computes(rule) ? dtype >= ir::DType::F32 : ir::is_float(dtype);
}

/// The exponent is visible to `simplify`, which makes x * x of pow(x, 2).
Tensor exponent(const Scalar &e, ir::DType dtype, const Tensor &base, Location loc) {
    if (!ir::is_float(dtype) && e.to_int() < 0)
        throw DTypeError("pow: integers to the negative power " + std::to_string(e.to_int()) +
                             " are not integers; convert the base to a floating dtype",
                         loc);
    const DType in = detail::from_ir(dtype);
    const ir::Device device = detail::type(base).device;
    if (!ir::is_float(dtype) && e.to_int() > int64_t{1} << 53) // a literal is a double, which lacks it
        return detail::record_constant_int(in, e.to_int(), {}, device, loc);
    return detail::record_literal(in, detail::double_of(e), {}, device, loc);
}

/// Powers that are a few multiplications, a division or a root: pow itself takes twenty times as long. Within
/// 2 units of the last place like it, and as it at zeros and infinities. Undefined for other exponents.
Tensor power_in_few(const Tensor &x, double exponent, Location loc) {
    if (exponent != 3 && exponent != 4 && exponent != -1 && exponent != -2 && std::abs(exponent) != 0.5)
        return {};
    const auto compute = [&](const Tensor &v) {
        const auto binary = [&](Op op, const Tensor &a, const Tensor &b) {
            return detail::binary(op, a, b, loc);
        };
        const auto number = [&](double value) { return detail::literal(v, value, loc); };
        if (std::abs(exponent) == 0.5) { // sqrt(-0) is -0, and sqrt(-inf) NaN
            const Tensor root = binary(Op::Add, detail::unary(Op::Sqrt, v, loc), number(0));
            const Tensor power = exponent > 0 ? root : binary(Op::Div, number(1), root);
            constexpr double kInfinity = std::numeric_limits<double>::infinity();
            return detail::select(binary(Op::Eq, v, number(-kInfinity)), number(exponent > 0 ? kInfinity : 0),
                                  power, loc);
        }
        const Tensor base = exponent < 0 ? binary(Op::Div, number(1), v) : v;
        if (exponent == -1)
            return base;
        const Tensor square = binary(Op::Mul, base, base);
        return exponent == 3   ? binary(Op::Mul, square, base)
               : exponent == 4 ? binary(Op::Mul, square, square)
                               : square;
    };
    return detail::composite(detail::kPowerRule, {&x}, {ir::scalar_word(exponent)}, loc,
                             [&] { return detail::in_working_dtype(x, "pow", loc, compute); });
}

/// A number that the integer dtype of the other operand does not have. Sums, products and bits wrap like
/// everything (S66); elsewhere the number counts and not its low bits.
Tensor beside_large_number(Op op, const Operand &a, const Operand &b, ir::DType dtype, const char *function,
                           Location loc) {
    const Scalar &number = a.is_tensor() ? b.number() : a.number();
    const Tensor &x = a.is_tensor() ? a.tensor() : b.tensor();
    const auto meet = [&](const Scalar &value, ir::DType in) {
        const Tensor other = detail::constant(value, in, detail::type(x).device, loc);
        const Tensor self = detail::cast(x, in, loc);
        return a.is_tensor() ? detail::binary(op, self, other, loc) : detail::binary(op, other, self, loc);
    };
    switch (op) {
    case Op::Eq:
    case Op::Ne:
    case Op::Lt:
    case Op::Le:
    case Op::Gt:
    case Op::Ge:
        return meet(number, ir::DType::I64);
    case Op::Minimum:
    case Op::Maximum:
        return meet(detail::saturated(number, dtype), dtype);
    case Op::Shl:
    case Op::Shr: // past the width as before
        return meet(a.is_tensor() && number.to_int() > 0 ? detail::saturated(number, dtype) : number, dtype);
    case Op::FloorDiv:
    case Op::Remainder:
    case Op::Fmod:
        break;
    case Op::Pow:
        if (!a.is_tensor())
            return meet(number, dtype);
        break;
    default:
        return meet(number, dtype);
    }
    throw DTypeError(std::string(function) + ": the number " + std::to_string(number.to_int()) +
                         " does not fit dtype " + std::string(ir::name(dtype)) +
                         ", in which the result is; convert the tensor to a wider dtype",
                     loc);
}

[[gnu::noinline]] Tensor promoted(Rule rule, Op op, const Operand &a, const Operand &b, const char *function,
                                  uint16_t number, Location loc) {
    loc = detail::in(number, loc);
    if (!a.is_tensor() && !b.is_tensor())
        throw DTypeError(std::string(function) + ": one of the operands must be a tensor; both are numbers",
                         loc);
    const ir::DType dtype = adjust(rule, op, detail::result_type({&a, &b}, function, loc), function, loc);
    const Tensor &like = a.is_tensor() ? a.tensor() : b.tensor();
    if (computes(rule) && (detail::enters_wide(a, dtype) || detail::enters_wide(b, dtype)))
        return detail::cast(detail::binary(op, detail::entered(a, dtype, like, loc),
                                           detail::entered(b, dtype, like, loc), loc),
                            dtype, loc);
    if (a.is_tensor() != b.is_tensor() && !detail::holds(dtype, a.is_tensor() ? b.number() : a.number()) &&
        !(rule == Rule::Power && a.is_tensor() && b.number().to_int() < 0))
        return beside_large_number(op, a, b, dtype, function, loc);
    const Tensor x = detail::as_tensor(a, dtype, like, loc);
    if (rule == Rule::Power && !b.is_tensor()) {
        if (dtype == ir::DType::Bool) // true to the power of anything is true, and false to that of false
            return detail::binary(Op::Or, x, detail::literal(x, b.number().to_int() == 0, loc), loc);
        if (ir::is_float(dtype))
            if (Tensor power = power_in_few(x, detail::double_of(b.number()), loc); power.defined())
                return power;
        return detail::binary(op, x, exponent(b.number(), dtype, like, loc), loc);
    }
    return detail::binary(op, x, detail::as_tensor(b, dtype, like, loc), loc);
}

/// Two tensors of one floating dtype need nothing: this is the path that is counted in nanoseconds.
[[gnu::always_inline]] inline Tensor promoted_if_needed(Rule rule, Op op, const Operand &a, const Operand &b,
                                                        const char *function, uint16_t number, Location loc) {
    if (rule == Rule::Bits) // not of floats, which the error says by the function's name
        return promoted(rule, op, a, b, function, number, loc);
    if (op == Op::FloorDiv) // the operation bears another name
        loc = detail::in(number, loc);
    if (a.is_tensor() && b.is_tensor() && a.tensor().defined() && b.tensor().defined()) [[likely]] {
        const ir::DType dtype = detail::type(a.tensor()).dtype;
        if (dtype == detail::type(b.tensor()).dtype && ir::is_float(dtype) && rule != Rule::Truth) [[likely]]
            return detail::binary(op, a.tensor(), b.tensor(), loc);
    } else if (rule != Rule::Truth && rule != Rule::Power && a.is_tensor() != b.is_tensor()) {
        // Next to a float every number takes the float's dtype.
        const Tensor &x = a.is_tensor() ? a.tensor() : b.tensor();
        if (x.defined() && takes_numbers(rule, detail::type(x).dtype)) [[likely]] {
            const Scalar &number = a.is_tensor() ? b.number() : a.number();
            const Tensor other =
                detail::record_constant(detail::from_ir(detail::type(x).dtype), detail::double_of(number), {},
                                        detail::type(x).device, loc);
            return a.is_tensor() ? detail::binary(op, x, other, loc) : detail::binary(op, other, x, loc);
        }
    }
    return promoted(rule, op, a, b, function, number, loc);
}

[[gnu::always_inline]] inline Tensor record_binary(Rule rule, Op op, const Operand &a, const Operand &b,
                                                   const char *function, uint16_t number, Location loc) {
    Tensor made = promoted_if_needed(rule, op, a, b, function, number, loc);
    detail::let_go(a);
    detail::let_go(b);
    return made;
}

/// The same of operands that autocast has cast.
[[gnu::noinline]] Tensor autocast_binary(detail::CastPolicy policy, Rule rule, Op op, const Operand &a,
                                         const Operand &b, const char *function, uint16_t number,
                                         Location loc) {
    const Location named = detail::in(number, loc);
    Tensor cast[] = {detail::tensor_or_none(a), detail::tensor_or_none(b)};
    detail::autocast_operands(policy, cast, named);
    return record_binary(rule, op, detail::replaced(a, cast[0]), detail::replaced(b, cast[1]), function,
                         number, loc);
}

#define LZ_BINARY(name, op, rule)                                                                            \
    [[gnu::noinline]] Tensor record_##name(const Operand &a, const Operand &b, Location loc) {               \
        if constexpr (detail::cast_policy(#name) != detail::CastPolicy::None)                                \
            if (detail::autocasting()) [[unlikely]]                                                          \
                return autocast_binary(detail::cast_policy(#name), Rule::rule, Op::op, a, b, #name,          \
                                       detail::kFunction<#name>, loc);                                       \
        return record_binary(Rule::rule, Op::op, a, b, #name, detail::kFunction<#name>, loc);                \
    }
#define LZ_COMPARISON(name, op) LZ_BINARY(name, op, Any)
#include "lazuli/ops/functions.def"

/// An in-place form: computed, then stored in x's dtype and shape. Its name is looked for where it fails
/// only.
template <class F>
Tensor &in_place(Tensor &x, F function, const Operand &other, const char *name, Location loc) {
    const auto compute = [&](const Operand &y) {
        try {
            return function(Operand(x, loc), y, loc);
        } catch (const Error &error) {
            detail::throw_in_place(error, name, loc);
        }
    };
    if (x.defined() && other.is_tensor() && other.tensor().defined() &&
        detail::type(x).device != detail::type(other.tensor()).device) [[unlikely]] {
        // A number on the CPU does not decide where an operation runs, but it stays where it is.
        loc = detail::in(ir::intern_function(name), loc);
        const auto [_, here] = detail::together_with(x, loc, other.tensor());
        return detail::assign(x, compute({here, loc}), name, loc);
    }
    detail::assign(x, compute(other), name, loc);
    if (other.is_tensor() && &other.tensor() != &x)
        detail::let_go(other);
    return x;
}

using Binary = Tensor (*)(Operand, Operand, Location);

} // namespace

#define LZ_COMPARISON(name, op)                                                                              \
    Tensor name(Operand a, Operand b, Location loc) {                                                        \
        return record_##name(a, b, loc);                                                                     \
    }                                                                                                        \
    Tensor Tensor::name(Operand other, Location loc) const & {                                               \
        return record_##name({*this, loc}, other, loc);                                                      \
    }                                                                                                        \
    Tensor Tensor::name(Operand other, Location loc) && {                                                    \
        return record_##name({std::move(*this), loc}, other, loc);                                           \
    }
#define LZ_BINARY(name, op, rule)                                                                            \
    LZ_COMPARISON(name, op)                                                                                  \
    Tensor &Tensor::name##_(Operand other, Location loc) & {                                                 \
        return in_place(*this, static_cast<Binary>(lz::name), other, #name "_", loc);                        \
    }
#include "lazuli/ops/functions.def"

namespace {

/// What `alpha` may be beside a result of this dtype, as in PyTorch.
void check_alpha(const Scalar &alpha, ir::DType dtype, const char *function, Location loc) {
    const bool is_bool = alpha.category() == Scalar::Category::Bool;
    if ((is_bool && dtype != ir::DType::Bool) || (alpha.is_float() && !ir::is_float(dtype)))
        throw DTypeError(std::string(function) + ": alpha is a " + (is_bool ? "bool" : "floating number") +
                             " and the result has dtype " + std::string(ir::name(dtype)) +
                             (is_bool ? "; write 1 or 0" : "; convert an operand to a floating dtype"),
                         loc);
}

/// a + alpha * b or a - alpha * b. Both meet before anything is multiplied, and the result rounds once.
Tensor with_alpha(Rule rule, Op op, const Operand &given_a, const Operand &given_b, const Scalar &alpha,
                  const char *function, Location loc) {
    if (!given_a.is_tensor() && !given_b.is_tensor())
        throw DTypeError(std::string(function) + ": one of the operands must be a tensor; both are numbers",
                         loc);
    const ir::DType dtype =
        adjust(rule, op, detail::result_type({&given_a, &given_b}, function, loc), function, loc);
    check_alpha(alpha, dtype, function, loc);
    const auto [first, second] =
        detail::together(loc, detail::tensor_or_none(given_a), detail::tensor_or_none(given_b));
    const Operand a = detail::replaced(given_a, first), b = detail::replaced(given_b, second);
    const Tensor &like = a.is_tensor() ? a.tensor() : b.tensor();
    const Tensor x = detail::entered(a, dtype, like, loc);
    const Tensor scale = detail::entered({alpha, loc}, dtype, like, loc);
    const Tensor scaled = detail::binary(dtype == ir::DType::Bool ? Op::And : Op::Mul, scale,
                                         detail::entered(b, dtype, like, loc), loc);
    return detail::cast(detail::binary(op, x, scaled, loc), dtype, loc);
}

/// x + value * a op b, computed in this order, of operands that have met.
Tensor with_product(Op op, const Tensor &x, const Tensor &a, const Tensor &b, const Scalar &value,
                    const char *function, Location loc) {
    const Operand operands[] = {{x, loc}, {a, loc}, {b, loc}};
    const ir::DType dtype = detail::result_type({&operands[0], &operands[1], &operands[2]}, function, loc);
    if (dtype == ir::DType::Bool)
        throw DTypeError(std::string(function) + ": the operands are bool, of which there is no product with "
                                                 "a number; convert one of them",
                         loc);
    const auto all = detail::together(loc, x, a, b);
    const auto enter = [&](size_t i) { return detail::entered({all[i], loc}, dtype, all[0], loc); };
    const Tensor to = enter(0), scale = detail::entered({value, loc}, dtype, all[0], loc);
    const Tensor scaled = detail::binary(Op::Mul, scale, enter(1), loc);
    const Tensor term = detail::binary(op, scaled, enter(2), loc);
    return detail::cast(detail::binary(Op::Add, to, term, loc), dtype, loc);
}

} // namespace

Tensor add(Operand a, Operand b, const Scalar &alpha, Location loc) {
    loc = detail::in<"add">(loc);
    return detail::consumed(with_alpha(Rule::Sum, Op::Add, a, b, alpha, "add", loc), a, b);
}
Tensor sub(Operand a, Operand b, const Scalar &alpha, Location loc) {
    loc = detail::in<"sub">(loc);
    return detail::consumed(with_alpha(Rule::Difference, Op::Sub, a, b, alpha, "sub", loc), a, b);
}
Tensor addcmul(const Tensor &x, const Tensor &a, const Tensor &b, const Scalar &value, Location loc) {
    loc = detail::in<"addcmul">(loc);
    return with_product(Op::Mul, x, a, b, value, "addcmul", loc);
}
Tensor addcdiv(const Tensor &x, const Tensor &a, const Tensor &b, const Scalar &value, Location loc) {
    loc = detail::in<"addcdiv">(loc);
    for (const Tensor *t : {&a, &b})
        if (ir::is_float(detail::checked_type(*t, "addcdiv", loc).dtype))
            return with_product(Op::Div, x, a, b, value, "addcdiv", loc);
    throw DTypeError("addcdiv: " + detail::text(detail::type(a)) + " and " + detail::text(detail::type(b)) +
                         " are both integers; convert one of them to a floating dtype",
                     loc);
}

Tensor Tensor::add(Operand other, const Scalar &alpha, Location loc) const & {
    return lz::add({*this, loc}, std::move(other), alpha, loc);
}
Tensor Tensor::add(Operand other, const Scalar &alpha, Location loc) && {
    return lz::add({std::move(*this), loc}, std::move(other), alpha, loc);
}
Tensor Tensor::sub(Operand other, const Scalar &alpha, Location loc) const & {
    return lz::sub({*this, loc}, std::move(other), alpha, loc);
}
Tensor Tensor::sub(Operand other, const Scalar &alpha, Location loc) && {
    return lz::sub({std::move(*this), loc}, std::move(other), alpha, loc);
}
Tensor &Tensor::add_(Operand other, const Scalar &alpha, Location loc) & {
    loc = detail::in<"add_">(loc);
    return detail::assign(*this, lz::add({*this, loc}, other, alpha, loc), "add_", loc);
}
Tensor &Tensor::sub_(Operand other, const Scalar &alpha, Location loc) & {
    loc = detail::in<"sub_">(loc);
    return detail::assign(*this, lz::sub({*this, loc}, other, alpha, loc), "sub_", loc);
}
Tensor &Tensor::addcmul_(const Tensor &a, const Tensor &b, const Scalar &value, Location loc) & {
    loc = detail::in<"addcmul_">(loc);
    return detail::assign(*this, addcmul(*this, a, b, value, loc), "addcmul_", loc);
}
Tensor &Tensor::addcdiv_(const Tensor &a, const Tensor &b, const Scalar &value, Location loc) & {
    loc = detail::in<"addcdiv_">(loc);
    return detail::assign(*this, addcdiv(*this, a, b, value, loc), "addcdiv_", loc);
}

#define LZ_OPERATOR(symbol, function)                                                                        \
    Tensor operator symbol(Operand a, Operand b) {                                                           \
        return record_##function(a, b, a.loc());                                                             \
    }
LZ_OPERATOR(+, add)
LZ_OPERATOR(-, sub)
LZ_OPERATOR(*, mul)
LZ_OPERATOR(/, div)
LZ_OPERATOR(%, remainder)
LZ_OPERATOR(==, eq)
LZ_OPERATOR(!=, ne)
LZ_OPERATOR(<, lt)
LZ_OPERATOR(<=, le)
LZ_OPERATOR(>, gt)
LZ_OPERATOR(>=, ge)
LZ_OPERATOR(&, bitwise_and)
LZ_OPERATOR(|, bitwise_or)
LZ_OPERATOR(^, bitwise_xor)
LZ_OPERATOR(<<, bitwise_left_shift)
LZ_OPERATOR(>>, bitwise_right_shift)
#undef LZ_OPERATOR

#define LZ_COMPOUND(symbol, function)                                                                        \
    Tensor &operator symbol(Tensor &x, Operand y) {                                                          \
        const Location loc = y.loc();                                                                        \
        return x.function(std::move(y), loc);                                                                \
    }
LZ_COMPOUND(+=, add_)
LZ_COMPOUND(-=, sub_)
LZ_COMPOUND(*=, mul_)
LZ_COMPOUND(/=, div_)
LZ_COMPOUND(%=, remainder_)
LZ_COMPOUND(&=, bitwise_and_)
LZ_COMPOUND(|=, bitwise_or_)
LZ_COMPOUND(^=, bitwise_xor_)
LZ_COMPOUND(<<=, bitwise_left_shift_)
LZ_COMPOUND(>>=, bitwise_right_shift_)
#undef LZ_COMPOUND

} // namespace lz
