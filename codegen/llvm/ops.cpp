#include "codegen/llvm/ops.h"

#include "ir/diagnostic.h"

#include <bit>
#include <cmath>
#include <limits>

namespace lz::codegen {

using namespace ir;

namespace {

int bits_of(DType t) {
    return t == DType::Bool ? 1 : 8 * size_of(t);
}

Value extreme(Builder &b, DType dtype, bool max, Value x, Value y) {
    if (is_float(dtype))
        return max ? b.fmaximum(x, y) : b.fminimum(x, y);
    if (dtype == DType::Bool)
        return max ? b.bit_or(x, y) : b.bit_and(x, y);
    if (is_signed(dtype))
        return max ? b.smax(x, y) : b.smin(x, y);
    return max ? b.umax(x, y) : b.umin(x, y);
}

/// x86 has no vector division of integers, but quotients of 32 bits are exact in double, of 16 in float: the
/// rounded quotient is never across an integer, which is at least 1/y away.
Value narrow_quotient(Builder &b, DType dtype, Value x, Value y) {
    const bool wide = size_of(dtype) == 4;
    const Elem as = wide ? Elem::F64 : Elem::F32;
    const Elem back = wide ? Elem::I64 : Elem::I32;
    const auto to_float = [&](Value v) {
        return is_signed(dtype) ? b.sitofp(v, as) : b.sitofp(b.zext(v, Elem::I32), as);
    };
    return b.truncate(b.fptosi(b.fdiv(to_float(x), to_float(y)), back), ssa_elem(dtype));
}

/// 64-bit quotients: an estimate in double, the remainder exactly (it wraps back), a second estimate for what
/// the first rounded away, and one step of correction.
Value wide_quotient(Builder &b, Value x, Value y) {
    const int n = b.lanes(x);
    Value zero = b.i64(0, n), one = b.i64(1, n);
    Value yf = b.sitofp(y, Elem::F64);
    const auto estimate = [&](Value v) { return b.fptosi(b.fdiv(b.sitofp(v, Elem::F64), yf), Elem::I64); };
    Value q = estimate(x);
    Value r = b.sub(x, b.mul(q, y));
    Value more = estimate(r);
    q = b.add(q, more);
    r = b.sub(r, b.mul(more, y));
    // Now |r| < 2 |y|; a truncated quotient's remainder has the sign of x and is smaller than y.
    Value y_sign = b.ashr(y, b.i64(63, n)), x_sign = b.ashr(x, b.i64(63, n));
    Value step = b.bit_or(b.bit_xor(x_sign, y_sign), one); // towards a larger quotient: +1 or -1
    Value y_abs = b.sub(b.bit_xor(y, y_sign), y_sign);
    Value r_along = b.sub(b.bit_xor(r, x_sign), x_sign); // r in the direction of x
    Value too_little = b.compare(Pred::Uge, r_along, y_abs);
    Value too_much = b.compare(Pred::Slt, r_along, zero);
    too_little = b.bit_and(too_little, b.bit_not(too_much));
    q = b.select(too_little, b.add(q, step), q);
    return b.select(too_much, b.sub(q, step), q);
}

Value integer_quotient(Builder &b, DType dtype, Value x, Value y) {
    const int n = b.lanes(x);
    if (n > 1 && size_of(dtype) < 8)
        return narrow_quotient(b, dtype, x, y);
    if (!is_signed(dtype))
        return b.udiv(x, y);
    const Elem e = ssa_elem(dtype);
    // The hardware traps on MIN / -1.
    Value negative = b.compare(Pred::Eq, y, b.constant(e, ~uint64_t{0}, n));
    Value divisor = b.select(negative, b.constant(e, 1, n), y);
    Value q = n > 1 ? wide_quotient(b, x, divisor) : b.sdiv(x, divisor);
    return b.select(negative, b.neg(x), q);
}

Value shift(Builder &b, KOp op, DType dtype, Value x, Value y) {
    const int n = b.lanes(x), width = bits_of(dtype);
    const Elem e = ssa_elem(dtype);
    const bool arithmetic = op == KOp::Shr && is_signed(dtype);
    Value last = b.constant(e, static_cast<uint64_t>(width - 1), n);
    if (arithmetic)
        return b.ashr(x, b.umin(y, last));
    const auto shifted = [&](Value amount) { return op == KOp::Shl ? b.shl(x, amount) : b.lshr(x, amount); };
    Value past = b.compare(Pred::Ugt, y, last);
    if (b.is_false(past)) // by a constant, as in exp
        return shifted(y);
    return b.select(past, b.zero(e, n), shifted(b.umin(y, last)));
}

Value mul_high(Builder &b, Value x, Value y) {
    Value product = b.mul(b.zext(x, Elem::I64), b.zext(y, Elem::I64));
    return b.truncate(b.lshr(product, b.i64(32, b.lanes(x))), Elem::I32);
}

Value compare(Builder &b, KOp op, DType from, Value x, Value y) {
    const int i = static_cast<int>(op) - static_cast<int>(KOp::Eq);
    static constexpr Pred floats[] = {Pred::Oeq, Pred::Une, Pred::Olt, Pred::Ole, Pred::Ogt, Pred::Oge};
    static constexpr Pred integers[] = {Pred::Eq, Pred::Ne, Pred::Slt, Pred::Sle, Pred::Sgt, Pred::Sge};
    static constexpr Pred naturals[] = {Pred::Eq, Pred::Ne, Pred::Ult, Pred::Ule, Pred::Ugt, Pred::Uge};
    return b.compare((is_float(from) ? floats : is_signed(from) ? integers : naturals)[i], x, y);
}

// --- half types

Value bfloat_to_f32(Builder &b, Value x) {
    return b.bitcast(b.shl(b.zext(x, Elem::I32), b.i32(16, b.lanes(x))), Elem::F32);
}

/// To nearest even in integers: the conversion instruction of AVX-512 flushes subnormals.
Value f32_to_bfloat(Builder &b, Value x) {
    const int n = b.lanes(x);
    Value bits = b.bitcast(x, Elem::I32), high = b.lshr(bits, b.i32(16, n));
    Value rounded = b.add(b.add(bits, b.i32(0x7fff, n)), b.bit_and(high, b.i32(1, n)));
    Value nan = b.bit_or(high, b.i32(0x40, n));
    Value out = b.select(b.compare(Pred::Uno, x, x), nan, b.lshr(rounded, b.i32(16, n)));
    return b.truncate(out, Elem::I16);
}

/// The float with half's exponent and fraction is 2^-112 of the value, subnormals included.
Value half_to_f32_by_integers(Builder &b, Value x) {
    const int n = b.lanes(x);
    Value bits = b.zext(x, Elem::I32);
    Value sign = b.shl(b.bit_and(bits, b.i32(0x8000, n)), b.i32(16, n));
    Value magnitude = b.shl(b.bit_and(bits, b.i32(0x7fff, n)), b.i32(13, n));
    Value scaled = b.bitcast(b.mul(b.bitcast(magnitude, Elem::F32), b.f32(0x1p112F, n)), Elem::I32);
    Value special = b.bit_or(magnitude, b.i32(0x7f800000, n));
    Value is_special = b.compare(Pred::Uge, magnitude, b.i32(0x0f800000, n));
    return b.bitcast(b.bit_or(sign, b.select(is_special, special, scaled)), Elem::F32);
}

/// As ir::float_to_half.
Value f32_to_half_by_integers(Builder &b, Value x) {
    const int n = b.lanes(x);
    const auto c = [&](int32_t v) { return b.i32(v, n); };
    Value bits = b.bitcast(x, Elem::I32);
    Value sign = b.bit_and(b.lshr(bits, c(16)), c(0x8000));
    Value m = b.bit_and(bits, c(0x7fffffff));
    Value odd = b.bit_and(b.lshr(m, c(13)), c(1));
    Value normal = b.lshr(b.add(b.add(m, c(0xfff - 0x38000000)), odd), c(13));
    Value shifted = b.bitcast(b.add(b.bitcast(m, Elem::F32), b.f32(0.5F, n)), Elem::I32);
    Value small = b.sub(shifted, c(0x3f000000));
    Value nan = b.bit_or(c(0x7e00), b.bit_and(b.lshr(m, c(13)), c(0x3ff)));
    Value out = b.select(b.compare(Pred::Ult, m, c(0x38800000)), small, normal);
    out = b.select(b.compare(Pred::Uge, m, c(0x477ff000)), c(0x7c00), out);
    out = b.select(b.compare(Pred::Ugt, m, c(0x7f800000)), nan, out);
    return b.truncate(b.bit_or(sign, out), Elem::I16);
}

Value half_to_f32(Builder &b, const OpTarget &t, Value x, DType from) {
    if (from == DType::BF16)
        return bfloat_to_f32(b, x);
    return t.hardware_half ? b.half_to_f32(x) : half_to_f32_by_integers(b, x);
}

Value f32_to_half(Builder &b, const OpTarget &t, Value x, DType to) {
    if (to == DType::BF16)
        return f32_to_bfloat(b, x);
    return t.hardware_half ? b.f32_to_half(x) : f32_to_half_by_integers(b, x);
}

/// Saturating, NaN to 0. LLVM's saturating conversion falls apart into scalars on x86. Values below the range
/// are raised to its end, which is a float; those above it are replaced afterwards.
Value float_to_integer(Builder &b, Value x, DType from, DType to) {
    const int n = b.lanes(x);
    const auto number = [&](double v) {
        return from == DType::F64 ? b.f64(v, n) : b.f32(static_cast<float>(v), n);
    };
    const int width = bits_of(to) - (is_signed(to) ? 1 : 0); // without the sign
    const double end = std::ldexp(1.0, width);
    Value low = number(is_signed(to) ? -end : 0.0), high = number(end);
    Value raised = b.select(b.compare(Pred::Ogt, x, low), x, low);
    const Elem wide = size_of(to) == 8 ? Elem::I64 : Elem::I32;
    Value converted = b.fptosi(raised, wide);
    const Elem e = ssa_elem(to);
    converted = wide == e ? converted : b.truncate(converted, e);
    const uint64_t most = (uint64_t{1} << width) - 1; // NOLINT(clang-analyzer-core.BitwiseShift): below 64
    Value capped = b.select(b.compare(Pred::Oge, x, high), b.constant(e, most, n), converted);
    return b.select(b.compare(Pred::Uno, x, x), b.zero(e, n), capped);
}

/// Elsewhere by two powers, of half the exponent each: the first product is exact, so that the second rounds
/// alone.
Value scale(Builder &b, const OpTarget &t, DType dtype, Value x, Value y) {
    const int n = b.lanes(x), bytes = size_of(dtype);
    const int whole = 64 / bytes;
    if (t.scale_512 && n % whole == 0) {
        Value all = nullptr;
        for (int at = 0; at < n; at += whole) {
            Value part =
                n == whole ? b.scale_512(x, y) : b.scale_512(b.slice(x, at, whole), b.slice(y, at, whole));
            all = all ? b.concat(all, part) : part;
        }
        return all;
    }
    const bool wide = bytes == 8;
    const Elem e = wide ? Elem::I64 : Elem::I32;
    const auto number = [&](int64_t v) { return b.constant(e, static_cast<uint64_t>(v), n); };
    // The low bits of y + 1.5 * 2^mantissa hold y. Shifted up to where it is never negative.
    const int64_t bias = wide ? 2048 : 256, one = wide ? 1023 : 127;
    const int64_t magic = wide ? 0x4338000000000000 : 0x4b400000;
    Value held = b.add(y, wide ? b.f64(0x1.8p52, n) : b.f32(0x1.8p23F, n));
    Value raised = b.sub(b.bitcast(held, e), number(magic - bias));
    Value half = b.lshr(raised, number(1));
    const auto power = [&](Value of) {
        Value exponent = b.add(of, number(one - bias / 2));
        return b.bitcast(b.shl(exponent, number(wide ? 52 : 23)), ssa_elem(dtype));
    };
    return b.mul(b.mul(x, power(half)), power(b.sub(raised, half)));
}

/// Nothing computes in a half type, but a kernel may still say so: through f32 and back.
Value half_op(Builder &b, const OpTarget &t, KOp op, DType dtype, DType from, Value x, Value y, Value z) {
    const auto widen = [&](Value v) { return v ? half_to_f32(b, t, v, from) : nullptr; };
    Value wide =
        emit_op(b, t, op, dtype == from ? DType::F32 : dtype, DType::F32, widen(x), widen(y), widen(z));
    return dtype == from ? f32_to_half(b, t, wide, dtype) : wide;
}

} // namespace

OpTarget op_target(const CpuIsa &isa) {
    const auto has = [&](const char *name) { return isa.features.find(name) != std::string::npos; };
    OpTarget t;
    t.hardware_half = has("+f16c") || has("+fullfp16");
    t.vector_i64_to_float = has("+avx512dq");
    t.scale_512 = isa.scales();
    return t;
}

Value emit_cast(Builder &b, const OpTarget &t, Value x, DType from, DType to) {
    const int n = b.lanes(x);
    if (from == to)
        return x;
    if (is_half(from))
        return emit_cast(b, t, half_to_f32(b, t, x, from), DType::F32, to);
    if (is_half(to))
        return f32_to_half(b, t, emit_cast(b, t, x, from, DType::F32), to);
    const Elem e = ssa_elem(to);
    if (to == DType::Bool)
        return b.compare(is_float(from) ? Pred::Une : Pred::Ne, x, b.zero(ssa_elem(from), n));
    if (is_float(from) && is_float(to))
        return b.fpcast(x, e);
    if (is_float(from))
        return float_to_integer(b, x, from, to);
    if (from == DType::Bool && is_float(to))
        return b.select(x, emit_identity(b, ReduceOp::Mul, to, n), b.zero(e, n));
    if (is_float(to))
        return is_signed(from) ? b.sitofp(x, e) : b.sitofp(b.zext(x, Elem::I32), e);
    if (from == DType::Bool)
        return b.zext(x, e);
    if (size_of(to) < size_of(from))
        return b.truncate(x, e);
    if (size_of(to) == size_of(from))
        return x;
    return is_signed(from) ? b.sext(x, e) : b.zext(x, e);
}

Value emit_op(Builder &b, const OpTarget &t, KOp op, DType dtype, DType from, Value x, Value y, Value z) {
    if (is_choice(op))
        return b.select(x, y, z);
    if (op == KOp::Cast)
        return emit_cast(b, t, x, from, dtype);
    if (op == KOp::Bitcast)
        return dtype == DType::Bool || from == DType::Bool ? emit_cast(b, t, x, from, dtype)
                                                           : b.bitcast(x, ssa_elem(dtype));
    if (is_half(from))
        return half_op(b, t, op, dtype, from, x, y, z);
    const bool flt = is_float(dtype);
    switch (op) {
    case KOp::Add:
        return b.add(x, y);
    case KOp::Sub:
        return b.sub(x, y);
    case KOp::Mul:
        return b.mul(x, y);
    case KOp::Div:
        return flt ? b.fdiv(x, y) : integer_quotient(b, dtype, x, y);
    case KOp::Rem:
        return b.sub(x, b.mul(integer_quotient(b, dtype, x, y), y));
    case KOp::Fma:
        return flt ? b.fma(x, y, z) : b.add(b.mul(x, y), z);
    case KOp::Neg:
        return b.neg(x);
    case KOp::Abs:
        return flt || is_signed(dtype) ? b.abs(x) : x;
    case KOp::Minimum:
        return extreme(b, dtype, false, x, y);
    case KOp::Maximum:
        return extreme(b, dtype, true, x, y);
    case KOp::Sqrt:
        return b.sqrt(x);
    case KOp::Floor:
        return b.floor(x);
    case KOp::Ceil:
        return b.ceil(x);
    case KOp::Trunc:
        return b.trunc(x);
    case KOp::Rint:
        return b.rint(x);
    case KOp::Scalb:
        return scale(b, t, dtype, x, y);
    case KOp::And:
        return b.bit_and(x, y);
    case KOp::Or:
        return b.bit_or(x, y);
    case KOp::Xor:
        return b.bit_xor(x, y);
    case KOp::Not:
        return b.bit_not(x);
    case KOp::Shl:
    case KOp::Shr:
    case KOp::LShr:
        return shift(b, op, dtype, x, y);
    case KOp::MulHiU:
        return mul_high(b, x, y);
    case KOp::Eq:
    case KOp::Ne:
    case KOp::Lt:
    case KOp::Le:
    case KOp::Gt:
    case KOp::Ge:
        return compare(b, op, from, x, y);
    default:
        internal_failure(__FILE__, __LINE__,
                         std::string(info(op).name) + " cannot be emitted; expand_math has to run before.");
    }
}

Value emit_combine(Builder &b, const OpTarget &t, ReduceOp op, DType dtype, Value a, Value x) {
    static constexpr KOp ops[] = {KOp::Add, KOp::Mul, KOp::Maximum, KOp::Minimum};
    KOp kop = ops[static_cast<int>(op)];
    if (dtype == DType::Bool)
        kop = op == ReduceOp::Add || op == ReduceOp::Max ? KOp::Or : KOp::And;
    return emit_op(b, t, kop, dtype, dtype, a, x, nullptr);
}

Value emit_better(Builder &b, ReduceOp op, DType dtype, Value value, Value index, Value best,
                  Value best_index) {
    const bool max = op == ReduceOp::ArgMax;
    Value earlier = b.compare(Pred::Slt, index, best_index);
    const KOp order = max ? KOp::Gt : KOp::Lt;
    Value better = b.bit_or(compare(b, order, dtype, value, best),
                            b.bit_and(compare(b, KOp::Eq, dtype, value, best), earlier));
    if (!is_float(dtype))
        return better;
    Value nan = b.compare(Pred::Uno, value, value), best_nan = b.compare(Pred::Uno, best, best);
    Value nan_wins = b.bit_and(nan, b.bit_or(b.bit_not(best_nan), earlier));
    return b.bit_or(better, nan_wins);
}

Value emit_better_later(Builder &b, ReduceOp op, DType dtype, Value value, Value best) {
    const bool max = op == ReduceOp::ArgMax;
    if (!is_float(dtype))
        return compare(b, max ? KOp::Gt : KOp::Lt, dtype, value, best);
    // NaN is the extreme, and the first NaN stays.
    Value not_worse = b.bit_not(compare(b, max ? KOp::Le : KOp::Ge, dtype, value, best));
    return b.bit_and(not_worse, b.compare(Pred::Ord, best, best));
}

Value emit_identity(Builder &b, ReduceOp op, DType dtype, int lanes) {
    const bool low = op == ReduceOp::Max || op == ReduceOp::ArgMax;
    const auto bits = [&]() -> uint64_t {
        using F = std::numeric_limits<float>;
        using D = std::numeric_limits<double>;
        if (dtype == DType::F32) {
            const float v = op == ReduceOp::Add   ? -0.0F
                            : op == ReduceOp::Mul ? 1.0F
                            : low                 ? -F::infinity()
                                                  : F::infinity();
            return std::bit_cast<uint32_t>(v);
        }
        if (dtype == DType::F64) {
            const double v = op == ReduceOp::Add   ? -0.0
                             : op == ReduceOp::Mul ? 1.0
                             : low                 ? -D::infinity()
                                                   : D::infinity();
            return std::bit_cast<uint64_t>(v);
        }
        LZ_CHECK(!is_half(dtype), "partial results of half types are f32");
        if (op == ReduceOp::Add || op == ReduceOp::Mul)
            return op == ReduceOp::Mul;
        const int width = bits_of(dtype);
        const uint64_t all = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
        const uint64_t lowest = is_signed(dtype) ? uint64_t{1} << (width - 1) : 0;
        return low ? lowest : all ^ lowest;
    };
    return b.constant(ssa_elem(dtype), bits(), lanes);
}

} // namespace lz::codegen
