#pragma once
/// Formulas over Kernel IR: an Expr is a scalar value of a kernel that is being built, with the operators
/// that a formula needs. Each operator is one instruction and rounds once; plain numbers become constants of
/// the dtype of the Expr beside them.

#include "ir/kernel/builder.h"

#include <concepts>
#include <initializer_list>
#include <span>

namespace lz::ir::math {

template <class T>
concept Whole = std::integral<T> || std::same_as<T, int64_t>;
template <class T>
concept Number = Whole<T> || std::floating_point<T> || std::same_as<T, double>;

struct Expr {
    KernelBuilder *b;
    KValue id;

    DType dtype() const { return b->dtype(id); }
    bool wide() const { return size_of(dtype()) == 8; }
    Expr with(KValue v) const { return {b, v}; }
    /// A constant of this dtype.
    template <class T>
        requires Number<T>
    Expr constant(T value) const {
        if constexpr (Whole<T>)
            return with(b->constant_int(dtype(), static_cast<int64_t>(value)));
        else
            return with(b->constant(dtype(), value));
    }
    /// The same bits as an integer of the width, or as a float of the width.
    Expr as_int() const { return with(b->bitcast(id, wide() ? DType::I64 : DType::I32)); }
    Expr as_float() const { return with(b->bitcast(id, wide() ? DType::F64 : DType::F32)); }
    Expr cast(DType to) const { return with(b->cast(id, to)); }
};

/// An Expr or a number that takes the dtype of the Expr beside it.
class Operand {
public:
    Operand(Expr e) : expr_(e), is_expr_(true) {} // NOLINT: meant to convert
    template <class T>
        requires Number<T>
    Operand(T v)
        : number_(static_cast<double>(v)),
          integer_(Whole<T> ? static_cast<int64_t>(v) : int64_t{0}), // NOLINT
          is_integer_(Whole<T>) {}

    Expr beside(Expr e) const {
        return is_expr_ ? expr_ : is_integer_ ? e.constant(integer_) : e.constant(number_);
    }

private:
    Expr expr_{};
    double number_ = 0;
    int64_t integer_ = 0;
    bool is_expr_ = false, is_integer_ = false;
};

// One is an Expr, the other may be a number.
#define LZ_EXPR_BINARY(symbol, method)                                                                       \
    inline Expr operator symbol(Expr x, Operand y) {                                                         \
        return x.with(x.b->method(x.id, y.beside(x).id));                                                    \
    }                                                                                                        \
    template <class T>                                                                                       \
        requires Number<T>                                                                                   \
    Expr operator symbol(T x, Expr y) {                                                                      \
        return y.with(y.b->method(y.constant(x).id, y.id));                                                  \
    }
LZ_EXPR_BINARY(+, add)
LZ_EXPR_BINARY(-, sub)
LZ_EXPR_BINARY(*, mul)
LZ_EXPR_BINARY(/, div)
LZ_EXPR_BINARY(&, bit_and)
LZ_EXPR_BINARY(|, bit_or)
LZ_EXPR_BINARY(^, bit_xor)
LZ_EXPR_BINARY(<<, shl)
LZ_EXPR_BINARY(>>, shr)
LZ_EXPR_BINARY(<, lt)
LZ_EXPR_BINARY(<=, le)
LZ_EXPR_BINARY(>, gt)
LZ_EXPR_BINARY(>=, ge)
#undef LZ_EXPR_BINARY

// Not operators: C++20 would turn them around.
inline Expr equal(Expr x, Operand y) {
    return x.with(x.b->eq(x.id, y.beside(x).id));
}
inline Expr differ(Expr x, Operand y) {
    return x.with(x.b->ne(x.id, y.beside(x).id));
}
inline Expr operator-(Expr x) {
    return x.with(x.b->neg(x.id));
}
inline Expr operator!(Expr x) {
    return x.with(x.b->bit_not(x.id));
}
inline Expr abs(Expr x) {
    return x.with(x.b->abs(x.id));
}
inline Expr sqrt(Expr x) {
    return x.with(x.b->sqrt(x.id));
}
inline Expr rint(Expr x) {
    return x.with(x.b->rint(x.id));
}
inline Expr trunc(Expr x) {
    return x.with(x.b->trunc(x.id));
}
inline Expr lshr(Expr x, Operand y) {
    return x.with(x.b->lshr(x.id, y.beside(x).id));
}
inline Expr mulhiu(Expr x, Operand y) {
    return x.with(x.b->mulhiu(x.id, y.beside(x).id));
}
/// x * 2^k; see KOp::Scalb.
inline Expr scalb(Expr x, Expr k) {
    return x.with(x.b->scalb(x.id, k.id));
}
inline Expr fma(Expr x, Operand y, Operand z) {
    return x.with(x.b->fma(x.id, y.beside(x).id, z.beside(x).id));
}
inline Expr select(Expr c, Expr x, Operand y) {
    return x.with(x.b->select(c.id, x.id, y.beside(x).id));
}
/// A select whose condition holds for few arguments; what x alone needs is computed for those only.
inline Expr rarely(Expr c, Expr x, Expr y) {
    return x.with(x.b->rarely(c.id, x.id, y.id));
}
template <class T>
    requires Number<T>
Expr select(Expr c, T x, Expr y) {
    return y.with(y.b->select(c.id, y.constant(x).id, y.id));
}

/// min and max in the forms that are one instruction each, and where a NaN in x stays.
inline Expr at_most(Expr x, double limit) {
    const Expr c = x.constant(limit);
    return select(c < x, c, x);
}
inline Expr at_least(Expr x, double limit) {
    const Expr c = x.constant(limit);
    return select(c > x, c, x);
}

/// c[0] + c[1] x + c[2] x^2 ... in pairs of terms, by Horner's rule in x^2 = `square`: one product more than
/// by Horner's in x, and a chain half as long, which is what bounds long formulas.
inline Expr poly_in_pairs(Expr x, Expr square, std::span<const double> c) {
    const auto pair = [&](size_t i) { return i + 1 < c.size() ? fma(x, c[i + 1], c[i]) : x.constant(c[i]); };
    size_t i = (c.size() - 1) / 2 * 2;
    Expr r = pair(i);
    while (i >= 2)
        r = fma(r, square, pair(i -= 2));
    return r;
}

/// The same by Horner's rule: the fewest instructions, each with one constant.
inline Expr horner(Expr x, std::span<const double> c) {
    Expr r = x.constant(c.back());
    for (size_t i = c.size() - 1; i-- > 0;)
        r = fma(r, x, c[i]);
    return r;
}

/// The same, by Horner's rule where it is short.
inline Expr poly(Expr x, std::span<const double> c) {
    constexpr size_t kLong = 8;
    return c.size() >= kLong ? poly_in_pairs(x, x * x, c) : horner(x, c);
}

/// Facts of the two formats.
struct Format {
    explicit Format(Expr x) : wide(x.wide()) {}
    bool wide;
    int mantissa() const { return wide ? 52 : 23; }
    /// x + magic() - magic() is x rounded to an integer, which the low bits of x + magic() hold.
    double magic() const { return wide ? 0x1.8p52 : 0x1.8p23; }
    int64_t one() const { return wide ? 0x3ff0000000000000 : 0x3f800000; }
    int64_t sign() const { return wide ? INT64_MIN : int64_t{INT32_MIN}; }
    template <class T>
    T pick(T f32, T f64) const {
        return wide ? f64 : f32;
    }
};

/// x's magnitude with y's sign; sign_of keeps only the sign bit, as an integer.
inline Expr sign_of(Expr x) {
    return x.as_int() & Format(x).sign();
}
inline Expr copy_sign(Expr magnitude, Expr y) {
    return (magnitude.as_int() | sign_of(y)).as_float();
}

} // namespace lz::ir::math
