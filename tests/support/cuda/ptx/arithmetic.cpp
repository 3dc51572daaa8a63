#include "tests/support/cuda/ptx/arithmetic.h"

#include "tests/support/cuda/ptx/scalars.h"
#include "tests/support/cuda/ptx/warp.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>

namespace lz::ptx {
namespace {

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
/// Four products of bytes and a sum.
template <class A, class B>
uint32_t dp4a(uint32_t a, uint32_t b, uint32_t sum) {
    for (int shift = 0; shift < 32; shift += 8)
        sum += static_cast<uint32_t>(static_cast<A>(a >> shift & 0xff) * static_cast<B>(b >> shift & 0xff));
    return sum;
}
template <class A, class B>
Handler dot_product() {
    return map<dp4a<A, B>, uint32_t, uint32_t, uint32_t, uint32_t>;
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
    case Arith::Dp4a: // bytes of both, signed as the type says
        return type == Type::S32   ? dot_product<int8_t, int8_t>()
               : type == Type::U32 ? dot_product<uint8_t, uint8_t>()
                                   : nullptr;
    case Arith::Dp4aMixed: // the type says it of the first, and not it of the second
        return type == Type::S32   ? dot_product<int8_t, uint8_t>()
               : type == Type::U32 ? dot_product<uint8_t, int8_t>()
                                   : nullptr;
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
    case Type::F16x2:
    case Type::BF16x2:
        return find_pair_arithmetic(op, type);
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

} // namespace lz::ptx
