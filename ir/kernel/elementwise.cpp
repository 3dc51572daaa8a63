/// What the elementwise rows are made of: the composite words of KernelBuilder, and `build_elementwise`.

#include "ir/diagnostic.h"
#include "ir/kernel/kernel.h"
#include "ir/op.h"

#include <limits>

namespace lz::ir {

namespace {

/// (r != 0) and the signs of r and y differ: where a truncated quotient is one more than the floored one.
KValue rounds_toward_zero(KernelBuilder &b, KValue r, KValue y) {
    const DType dtype = b.dtype(y);
    const KValue zero = b.constant(dtype, 0);
    const KValue differ = b.bit_xor(b.lt(r, zero), b.lt(y, zero));
    return b.bit_and(b.ne(r, zero), differ);
}

/// x's magnitude with the sign of y.
KValue copy_sign(KernelBuilder &b, KValue x, KValue y) {
    const DType dtype = b.dtype(x);
    const DType bits = dtype == DType::F64 ? DType::I64 : DType::I32;
    const KValue sign = b.constant_int(bits, dtype == DType::F64 ? std::numeric_limits<int64_t>::min()
                                                                 : std::numeric_limits<int32_t>::min());
    const KValue magnitude = b.bitcast(b.abs(x), bits);
    return b.bitcast(b.bit_or(magnitude, b.bit_and(b.bitcast(y, bits), sign)), dtype);
}

} // namespace

KValue KernelBuilder::div(KValue x, KValue y) {
    return arith(KOp::Div, x, is_float(dtype(y)) ? y : check_nonzero(y));
}

KValue KernelBuilder::rem(KValue x, KValue y) {
    return arith(KOp::Rem, x, check_nonzero(y));
}

KValue KernelBuilder::fmod(KValue x, KValue y) {
    return is_float(dtype(x)) ? arith(KOp::Fmod, x, y) : rem(x, y);
}

KValue KernelBuilder::remainder(KValue x, KValue y) {
    if (is_float(dtype(x))) {
        const KValue r = arith(KOp::Fmod, x, y);
        return select(rounds_toward_zero(*this, r, y), add(r, y), r);
    }
    const KValue divisor = check_nonzero(y);
    const KValue r = arith(KOp::Rem, x, divisor);
    if (!is_signed(dtype(x)))
        return r;
    return select(rounds_toward_zero(*this, r, divisor), add(r, divisor), r);
}

KValue KernelBuilder::floor_div(KValue x, KValue y) {
    const DType type = dtype(x);
    if (is_float(type)) {
        // As c10::div_floor_floating: from the exact remainder, so that no rounding of x / y can cross an
        // integer.
        const KValue r = arith(KOp::Fmod, x, y);
        const KValue zero = constant(type, 0);
        const KValue one = constant(type, 1);
        const KValue exact = arith(KOp::Div, sub(x, r), y);
        const KValue quotient = select(rounds_toward_zero(*this, r, y), sub(exact, one), exact);
        const KValue down = floor(quotient);
        const KValue nearest = select(gt(sub(quotient, down), constant(type, 0.5)), add(down, one), down);
        const KValue ratio = arith(KOp::Div, x, y);
        const KValue result = select(ne(quotient, zero), nearest, copy_sign(*this, zero, ratio));
        return select(eq(y, zero), ratio, result);
    }
    const KValue divisor = check_nonzero(y);
    const KValue quotient = arith(KOp::Div, x, divisor);
    if (!is_signed(type))
        return quotient;
    const KValue r = arith(KOp::Rem, x, divisor);
    return select(rounds_toward_zero(*this, r, divisor), sub(quotient, constant_int(type, 1)), quotient);
}

KValue KernelBuilder::pow(KValue x, KValue y) {
    return arith(is_float(dtype(x)) ? KOp::Pow : KOp::IntPow, x, y);
}

KValue KernelBuilder::abs(KValue x) {
    return is_signed(dtype(x)) ? arith(KOp::Abs, x) : x;
}

// As torch.sign: 0 for NaN and for both zeros.
KValue KernelBuilder::sign(KValue x) {
    const DType type = dtype(x);
    const KValue zero = constant(type, 0);
    const KValue positive = select(gt(x, zero), constant(type, 1), zero);
    return is_signed(type) ? select(lt(x, zero), constant(type, -1), positive) : positive;
}

KValue KernelBuilder::minimum(KValue x, KValue y) {
    return arith(dtype(x) == DType::Bool ? KOp::And : KOp::Minimum, x, y);
}

KValue KernelBuilder::maximum(KValue x, KValue y) {
    return arith(dtype(x) == DType::Bool ? KOp::Or : KOp::Maximum, x, y);
}

KValue KernelBuilder::isinf(KValue x) {
    return eq(abs(x), constant(dtype(x), std::numeric_limits<double>::infinity()));
}

KValue KernelBuilder::isfinite(KValue x) {
    return lt(abs(x), constant(dtype(x), std::numeric_limits<double>::infinity()));
}

KValue KernelBuilder::cast(KValue x, DType to) {
    return dtype(x) == to ? x : emit(KOp::Cast, to, x);
}

KValue build_elementwise(KernelBuilder &b, Op op, std::span<const KValue> operands) {
    const auto operand = [&](size_t i) { return i < operands.size() ? operands[i] : kNoValue; };
    [[maybe_unused]] const KValue x = operand(0), y = operand(1), z = operand(2);
    switch (op) {
#define LZ_ELEMENTWISE(E, text, arity, rule, cost, kernel, fref, iref)                                       \
    case Op::E:                                                                                              \
        return kernel;
#include "ir/elementwise.def"
    default:
        internal_failure(__FILE__, __LINE__,
                         "build_elementwise was asked for an op that is not an elementwise row");
    }
}

} // namespace lz::ir
