#include "tests/support/cuda/ptx/arithmetic.h"

#include "tests/support/cuda/ptx/floats.h"
#include "tests/support/cuda/ptx/warp.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>

namespace lz::ptx {
namespace {

// --- values

template <class T>
using Unsigned = std::make_unsigned_t<T>;

template <class T>
T add(T a, T b) {
    if constexpr (std::integral<T>)
        return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
    else
        return canonical(a + b);
}
template <class T>
T sub(T a, T b) {
    if constexpr (std::integral<T>)
        return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
    else
        return canonical(a - b);
}
template <class T>
T mul_lo(T a, T b) {
    if constexpr (std::integral<T>)
        return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
        return canonical(a * b);
}
template <class T>
T mul_hi(T a, T b) {
    using Wide = std::conditional_t<std::signed_integral<T>, __int128, unsigned __int128>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> (sizeof(T) * 8));
}
/// Division by zero gives what the hardware gives, all ones, and the operand as the remainder.
template <class T>
T div(T a, T b) {
    if constexpr (std::integral<T>) {
        if (b == 0)
            return static_cast<T>(~Unsigned<T>{0});
        if constexpr (std::signed_integral<T>)
            if (b == -1)
                return sub(T{0}, a);
        return static_cast<T>(a / b);
    } else {
        return canonical(a / b);
    }
}
template <class T>
T rem(T a, T b) {
    if (b == 0)
        return a;
    if constexpr (std::signed_integral<T>)
        if (b == -1)
            return 0;
    return static_cast<T>(a % b);
}
/// Of floats: a number before what is none, and -0 below +0.
template <class T>
T min(T a, T b) {
    if constexpr (std::floating_point<T>) {
        if (a != a || b != b)
            return canonical(a != a ? b : a);
        if (a == b)
            return std::signbit(a) ? a : b;
    }
    return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
    if constexpr (std::floating_point<T>) {
        if (a != a || b != b)
            return canonical(a != a ? b : a);
        if (a == b)
            return std::signbit(a) ? b : a;
    }
    return a < b ? b : a;
}
template <class T>
T min_nan(T a, T b) {
    return a != a || b != b ? canonical(a + b) : min(a, b);
}
template <class T>
T max_nan(T a, T b) {
    return a != a || b != b ? canonical(a + b) : max(a, b);
}
template <class T>
T bit_and(T a, T b) {
    return static_cast<T>(a & b);
}
template <class T>
T bit_or(T a, T b) {
    return static_cast<T>(a | b);
}
template <class T>
T bit_xor(T a, T b) {
    return static_cast<T>(a ^ b);
}
template <class T>
T bit_not(T a) {
    return static_cast<T>(~a);
}
template <class T>
T shl(T a, uint32_t n) {
    return n >= sizeof(T) * 8 ? T{0} : static_cast<T>(static_cast<uint64_t>(a) << n);
}
template <class T>
T shr(T a, uint32_t n) {
    constexpr uint32_t bits = sizeof(T) * 8;
    if constexpr (std::signed_integral<T>)
        return static_cast<T>(a >> std::min(n, bits - 1));
    else
        return n >= bits ? T{0} : static_cast<T>(a >> n);
}
template <class T>
T abs_of(T a) {
    if constexpr (std::integral<T>)
        return a < 0 ? sub(T{0}, a) : a;
    else
        return std::fabs(a);
}
template <class T>
T neg(T a) {
    if constexpr (std::integral<T>)
        return sub(T{0}, a);
    else
        return -a;
}
template <class T>
T sqrt_of(T a) {
    return canonical(std::sqrt(a));
}
template <class T>
T rcp(T a) {
    return canonical(T{1} / a);
}
template <class T>
uint32_t popc(T a) {
    return static_cast<uint32_t>(std::popcount(a));
}
template <class T>
uint32_t clz(T a) {
    return static_cast<uint32_t>(std::countl_zero(a));
}
template <class T>
T brev(T a) {
    T r = 0;
    for (size_t i = 0; i < sizeof(T) * 8; ++i)
        r = static_cast<T>(r << 1 | (a >> i & 1));
    return r;
}
/// The highest bit that is set (of a negative number: that is not); all ones if there is none.
template <class T>
uint32_t bfind(T a) {
    Unsigned<T> u = static_cast<Unsigned<T>>(a);
    if constexpr (std::signed_integral<T>)
        if (a < 0)
            u = static_cast<Unsigned<T>>(~u);
    return u == 0 ? ~0u
                  : static_cast<uint32_t>(sizeof(T) * 8 - 1) - static_cast<uint32_t>(std::countl_zero(u));
}
template <class T>
T identity(T a) {
    return a;
}
template <class T>
T fma_of(T a, T b, T c) {
    return canonical(std::fma(a, b, c));
}
template <class T>
T mad_lo(T a, T b, T c) {
    return add(mul_lo(a, b), c);
}
template <class T>
T mad_hi(T a, T b, T c) {
    return add(mul_hi(a, b), c);
}
template <class T>
T bfe(T a, uint32_t pos, uint32_t len) {
    constexpr uint32_t bits = sizeof(T) * 8;
    pos &= 255;
    len &= 255;
    if (len == 0)
        return 0;
    const uint64_t u = static_cast<uint64_t>(static_cast<Unsigned<T>>(a));
    const uint64_t fill =
        std::signed_integral<T> && (u >> std::min(pos + len - 1, bits - 1) & 1) ? ~uint64_t{0} : 0;
    const uint64_t field = pos >= bits ? fill : u >> pos;
    const uint64_t mask = len >= 64 ? ~uint64_t{0} : (uint64_t{1} << len) - 1;
    // Bits beyond the operand are its sign, too.
    const uint64_t beyond = pos >= bits || bits - pos >= 64 ? 0 : ~uint64_t{0} << (bits - pos);
    return static_cast<T>((((field & ~beyond) | (fill & beyond)) & mask) | (fill & ~mask));
}
template <class T>
T bfi(T field, T into, uint32_t pos, uint32_t len) {
    pos &= 255;
    len &= 255;
    const uint64_t ones = len >= 64 ? ~uint64_t{0} : (uint64_t{1} << len) - 1;
    const uint64_t mask = pos >= 64 ? 0 : ones << pos;
    const uint64_t shifted = pos >= 64 ? 0 : static_cast<uint64_t>(field) << pos;
    return static_cast<T>((static_cast<uint64_t>(into) & ~mask) | (shifted & mask));
}
uint32_t prmt(uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t bytes = uint64_t{b} << 32 | a;
    uint32_t r = 0;
    for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t which = selector >> (4 * i) & 15;
        uint32_t byte = static_cast<uint32_t>(bytes >> ((which & 7) * 8)) & 255;
        if (which & 8)
            byte = byte & 128 ? 255 : 0;
        r |= byte << (8 * i);
    }
    return r;
}
uint32_t shf_left(uint32_t a, uint32_t b, uint32_t n) { // n <= 32
    return n == 0 ? b : n == 32 ? a : b << n | a >> (32 - n);
}
uint32_t shf_right(uint32_t a, uint32_t b, uint32_t n) {
    return n == 0 ? a : n == 32 ? b : b << (32 - n) | a >> n;
}
uint32_t shf_left_wrap(uint32_t a, uint32_t b, uint32_t n) {
    return shf_left(a, b, n & 31);
}
uint32_t shf_right_wrap(uint32_t a, uint32_t b, uint32_t n) {
    return shf_right(a, b, n & 31);
}
uint32_t shf_left_clamp(uint32_t a, uint32_t b, uint32_t n) {
    return shf_left(a, b, std::min(n, 32u));
}
uint32_t shf_right_clamp(uint32_t a, uint32_t b, uint32_t n) {
    return shf_right(a, b, std::min(n, 32u));
}
/// PTX gives the sign of the first operand to the second.
template <class T>
T copy_sign(T sign, T magnitude) {
    return std::copysign(magnitude, sign);
}

// --- handlers: a function of values, on all lanes of a mask

template <auto F, class R, class A>
void map(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    R *const d = w.lanes<R>(x.dst[0]);
    const A *const a = w.lanes<A>(x.src[0]);
    for_values(mask, [&](uint32_t i) { d[i] = F(a[i]); });
}
template <auto F, class R, class A, class B>
void map(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    R *const d = w.lanes<R>(x.dst[0]);
    const A *const a = w.lanes<A>(x.src[0]);
    const B *const b = w.lanes<B>(x.src[1]);
    for_values(mask, [&](uint32_t i) { d[i] = F(a[i], b[i]); });
}
template <auto F, class R, class A, class B, class C>
void map(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    R *const d = w.lanes<R>(x.dst[0]);
    const A *const a = w.lanes<A>(x.src[0]);
    const B *const b = w.lanes<B>(x.src[1]);
    const C *const c = w.lanes<C>(x.src[2]);
    for_values(mask, [&](uint32_t i) { d[i] = F(a[i], b[i], c[i]); });
}
template <class T>
void map_bfi(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    T *const d = w.lanes<T>(x.dst[0]);
    const T *const a = w.lanes<T>(x.src[0]);
    const T *const b = w.lanes<T>(x.src[1]);
    const uint32_t *const pos = w.lanes<uint32_t>(x.src[2]);
    const uint32_t *const len = w.lanes<uint32_t>(x.src[3]);
    for_values(mask, [&](uint32_t i) { d[i] = bfi<T>(a[i], b[i], pos[i], len[i]); });
}
template <class T>
void select(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    T *const d = w.lanes<T>(x.dst[0]);
    const T *const a = w.lanes<T>(x.src[0]);
    const T *const b = w.lanes<T>(x.src[1]);
    const uint32_t which = w.predicate(x.src[2]);
    for_values(mask, [&](uint32_t i) { d[i] = which >> i & 1 ? a[i] : b[i]; });
}
void lop3(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    uint32_t *const d = w.lanes<uint32_t>(x.dst[0]);
    const uint32_t *const a = w.lanes<uint32_t>(x.src[0]);
    const uint32_t *const b = w.lanes<uint32_t>(x.src[1]);
    const uint32_t *const c = w.lanes<uint32_t>(x.src[2]);
    const auto table = static_cast<uint32_t>(x.constant);
    for_values(mask, [&](uint32_t i) {
        uint32_t r = 0;
        for (uint32_t k = 0; k < 8; ++k)
            if (table >> k & 1)
                r |= (k & 4 ? a[i] : ~a[i]) & (k & 2 ? b[i] : ~b[i]) & (k & 1 ? c[i] : ~c[i]);
        d[i] = r;
    });
}
// Predicates: a bit a lane.
template <Arith Op>
void predicates(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    const uint32_t a = w.predicate(x.src[0]);
    const uint32_t b = Op == Arith::Not || Op == Arith::Mov ? 0 : w.predicate(x.src[1]);
    const uint32_t r = Op == Arith::And   ? (a & b)
                       : Op == Arith::Or  ? (a | b)
                       : Op == Arith::Xor ? (a ^ b)
                       : Op == Arith::Not ? ~a
                                          : a;
    w.set_predicate(x.dst[0], r, mask);
}

template <class T>
Handler integer(Arith op) {
    using U = Unsigned<T>;
    switch (op) {
    case Arith::Add:
        return map<add<T>, T, T, T>;
    case Arith::Sub:
        return map<sub<T>, T, T, T>;
    case Arith::MulLo:
        return map<mul_lo<T>, T, T, T>;
    case Arith::MulHi:
        return map<mul_hi<T>, T, T, T>;
    case Arith::Div:
        return map<div<T>, T, T, T>;
    case Arith::Rem:
        return map<rem<T>, T, T, T>;
    case Arith::Min:
        return map<min<T>, T, T, T>;
    case Arith::Max:
        return map<max<T>, T, T, T>;
    case Arith::And:
        return map<bit_and<T>, T, T, T>;
    case Arith::Or:
        return map<bit_or<T>, T, T, T>;
    case Arith::Xor:
        return map<bit_xor<T>, T, T, T>;
    case Arith::Not:
        return map<bit_not<T>, T, T>;
    case Arith::Shl:
        return map<shl<T>, T, T, uint32_t>;
    case Arith::Shr:
        return map<shr<T>, T, T, uint32_t>;
    case Arith::Mov:
        return map<identity<T>, T, T>;
    case Arith::Neg:
        return map<neg<T>, T, T>;
    case Arith::Selp:
        return select<T>;
    case Arith::MadLo:
        return map<mad_lo<T>, T, T, T, T>;
    case Arith::MadHi:
        return map<mad_hi<T>, T, T, T, T>;
    default:
        break;
    }
    if constexpr (std::signed_integral<T>)
        if (op == Arith::Abs)
            return map<abs_of<T>, T, T>;
    if constexpr (sizeof(T) >= 4) {
        switch (op) {
        case Arith::Popc:
            return map<popc<U>, uint32_t, U>;
        case Arith::Clz:
            return map<clz<U>, uint32_t, U>;
        case Arith::Brev:
            return map<brev<U>, U, U>;
        case Arith::Bfind:
            return map<bfind<T>, uint32_t, T>;
        case Arith::Bfe:
            return map<bfe<T>, T, T, uint32_t, uint32_t>;
        case Arith::Bfi:
            return map_bfi<U>;
        default:
            break;
        }
    }
    return nullptr;
}
template <class T, class Wide>
Wide mul_wide(T a, T b) {
    return static_cast<Wide>(a) * static_cast<Wide>(b);
}
template <class T, class Wide>
Wide mad_wide(T a, T b, Wide c) {
    return add<Wide>(mul_wide<T, Wide>(a, b), c);
}
template <class T, class Wide>
Handler widening(Arith op) {
    return op == Arith::MulWide ? Handler{map<mul_wide<T, Wide>, Wide, T, T>}
                                : Handler{map<mad_wide<T, Wide>, Wide, T, T, Wide>};
}
template <class T>
Handler floating(Arith op) {
    switch (op) {
    case Arith::Add:
        return map<add<T>, T, T, T>;
    case Arith::Sub:
        return map<sub<T>, T, T, T>;
    case Arith::MulLo:
        return map<mul_lo<T>, T, T, T>;
    case Arith::Div:
        return map<div<T>, T, T, T>;
    case Arith::Min:
        return map<min<T>, T, T, T>;
    case Arith::Max:
        return map<max<T>, T, T, T>;
    case Arith::MinNan:
        return map<min_nan<T>, T, T, T>;
    case Arith::MaxNan:
        return map<max_nan<T>, T, T, T>;
    case Arith::Abs:
        return map<abs_of<T>, T, T>;
    case Arith::Neg:
        return map<neg<T>, T, T>;
    case Arith::Sqrt:
        return map<sqrt_of<T>, T, T>;
    case Arith::Rcp:
        return map<rcp<T>, T, T>;
    case Arith::Mov:
        return map<identity<T>, T, T>;
    case Arith::Selp:
        return select<T>;
    case Arith::Fma:
        return map<fma_of<T>, T, T, T, T>;
    case Arith::CopySign:
        return map<copy_sign<T>, T, T, T>;
    default:
        return nullptr;
    }
}

// --- comparisons

template <class T, Compare Op>
bool compare(T a, T b) {
    const bool unordered = a != a || b != b;
    switch (Op) {
    case Compare::Eq:
        return a == b;
    case Compare::Ne:
        return !unordered && a != b;
    case Compare::Lt:
        return a < b;
    case Compare::Le:
        return a <= b;
    case Compare::Gt:
        return a > b;
    case Compare::Ge:
        return a >= b;
    case Compare::Equ:
        return unordered || a == b;
    case Compare::Neu:
        return a != b;
    case Compare::Ltu:
        return unordered || a < b;
    case Compare::Leu:
        return unordered || a <= b;
    case Compare::Gtu:
        return unordered || a > b;
    case Compare::Geu:
        return unordered || a >= b;
    case Compare::Num:
        return !unordered;
    case Compare::Nan:
        return unordered;
    }
    return false;
}
template <class T, Compare Op>
void set_predicate(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    const T *const a = w.lanes<T>(x.src[0]);
    const T *const b = w.lanes<T>(x.src[1]);
    uint32_t r = 0;
    for_lanes(mask, [&](uint32_t i) { r |= uint32_t{compare<T, Op>(a[i], b[i])} << i; });
    uint32_t other = ~r;
    if (x.num_src == 3) {
        const uint32_t c = w.predicate(x.src[2]);
        const auto join = [&](uint32_t p) {
            switch (static_cast<Join>(x.sub)) {
            case Join::And:
                return p & c;
            case Join::Or:
                return p | c;
            default:
                return p ^ c;
            }
        };
        r = join(r);
        other = join(other);
    }
    w.set_predicate(x.dst[0], r, mask);
    if (x.num_dst == 2)
        w.set_predicate(x.dst[1], other, mask);
}
template <class T>
Handler comparison(Compare op) {
    switch (op) {
    case Compare::Eq:
        return set_predicate<T, Compare::Eq>;
    case Compare::Ne:
        return set_predicate<T, Compare::Ne>;
    case Compare::Lt:
        return set_predicate<T, Compare::Lt>;
    case Compare::Le:
        return set_predicate<T, Compare::Le>;
    case Compare::Gt:
        return set_predicate<T, Compare::Gt>;
    case Compare::Ge:
        return set_predicate<T, Compare::Ge>;
    default:
        break;
    }
    if constexpr (std::floating_point<T>) {
        switch (op) {
        case Compare::Equ:
            return set_predicate<T, Compare::Equ>;
        case Compare::Neu:
            return set_predicate<T, Compare::Neu>;
        case Compare::Ltu:
            return set_predicate<T, Compare::Ltu>;
        case Compare::Leu:
            return set_predicate<T, Compare::Leu>;
        case Compare::Gtu:
            return set_predicate<T, Compare::Gtu>;
        case Compare::Geu:
            return set_predicate<T, Compare::Geu>;
        case Compare::Num:
            return set_predicate<T, Compare::Num>;
        case Compare::Nan:
            return set_predicate<T, Compare::Nan>;
        default:
            break;
        }
    }
    return nullptr;
}

} // namespace

Handler find_arithmetic(Arith op, Type type) {
    switch (op) {
    case Arith::MulWide:
    case Arith::MadWide:
        switch (type) {
        case Type::U16:
            return widening<uint16_t, uint32_t>(op);
        case Type::S16:
            return widening<int16_t, int32_t>(op);
        case Type::U32:
            return widening<uint32_t, uint64_t>(op);
        case Type::S32:
            return widening<int32_t, int64_t>(op);
        default:
            return nullptr;
        }
    case Arith::Prmt:
        return type == Type::B32 ? Handler{map<prmt, uint32_t, uint32_t, uint32_t, uint32_t>} : nullptr;
    case Arith::Lop3:
        return type == Type::B32 ? Handler{lop3} : nullptr;
    case Arith::ShfLeftWrap:
        return map<shf_left_wrap, uint32_t, uint32_t, uint32_t, uint32_t>;
    case Arith::ShfRightWrap:
        return map<shf_right_wrap, uint32_t, uint32_t, uint32_t, uint32_t>;
    case Arith::ShfLeftClamp:
        return map<shf_left_clamp, uint32_t, uint32_t, uint32_t, uint32_t>;
    case Arith::ShfRightClamp:
        return map<shf_right_clamp, uint32_t, uint32_t, uint32_t, uint32_t>;
    default:
        break;
    }
    switch (type) {
    case Type::B16:
    case Type::U16:
        return integer<uint16_t>(op);
    case Type::B32:
    case Type::U32:
        return integer<uint32_t>(op);
    case Type::B64:
    case Type::U64:
        return integer<uint64_t>(op);
    case Type::S16:
        return integer<int16_t>(op);
    case Type::S32:
        return integer<int32_t>(op);
    case Type::S64:
        return integer<int64_t>(op);
    case Type::F32:
        return floating<float>(op);
    case Type::F64:
        return floating<double>(op);
    case Type::F16:
    case Type::BF16: // moved as bits; NVRTC is asked for f32 arithmetic
        return op == Arith::Mov || op == Arith::Selp ? integer<uint16_t>(op) : nullptr;
    case Type::Pred:
        switch (op) {
        case Arith::And:
            return predicates<Arith::And>;
        case Arith::Or:
            return predicates<Arith::Or>;
        case Arith::Xor:
            return predicates<Arith::Xor>;
        case Arith::Not:
            return predicates<Arith::Not>;
        case Arith::Mov:
            return predicates<Arith::Mov>;
        default:
            return nullptr;
        }
    default:
        return nullptr;
    }
}

Handler find_compare(Compare op, Type type) {
    switch (type) {
    case Type::B16:
    case Type::U16:
        return comparison<uint16_t>(op);
    case Type::B32:
    case Type::U32:
        return comparison<uint32_t>(op);
    case Type::B64:
    case Type::U64:
        return comparison<uint64_t>(op);
    case Type::S16:
        return comparison<int16_t>(op);
    case Type::S32:
        return comparison<int32_t>(op);
    case Type::S64:
        return comparison<int64_t>(op);
    case Type::F32:
        return comparison<float>(op);
    case Type::F64:
        return comparison<double>(op);
    default:
        return nullptr;
    }
}

} // namespace lz::ptx
