#include "tests/support/cuda/ptx/arithmetic.h"
#include "tests/support/cuda/ptx/floats.h"
#include "tests/support/cuda/ptx/warp.h"

#include <bit>
#include <cmath>
#include <concepts>
#include <limits>
#include <utility>

namespace lz::ptx {
namespace {

// --- conversions, on bits

template <Type T>
auto value_of(uint64_t bits) {
    if constexpr (T == Type::F64)
        return std::bit_cast<double>(bits);
    else if constexpr (T == Type::F32)
        return std::bit_cast<float>(static_cast<uint32_t>(bits));
    else if constexpr (T == Type::F16)
        return static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
    else if constexpr (T == Type::BF16)
        return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    else if constexpr (T == Type::S8)
        return static_cast<int8_t>(bits);
    else if constexpr (T == Type::S16)
        return static_cast<int16_t>(bits);
    else if constexpr (T == Type::S32)
        return static_cast<int32_t>(bits);
    else if constexpr (T == Type::S64)
        return static_cast<int64_t>(bits);
    else if constexpr (T == Type::U8)
        return static_cast<uint8_t>(bits);
    else if constexpr (T == Type::U16)
        return static_cast<uint16_t>(bits);
    else if constexpr (T == Type::U32)
        return static_cast<uint32_t>(bits);
    else
        return bits;
}
template <Type T>
using Value = decltype(value_of<T>(0));

template <Type To, class V>
uint64_t float_bits(V value) {
    if constexpr (To == Type::F64)
        return std::bit_cast<uint64_t>(static_cast<double>(value));
    else if constexpr (To == Type::F32)
        return std::bit_cast<uint32_t>(canonical(static_cast<float>(value)));
    else if constexpr (To == Type::F16) {
        if constexpr (std::integral<V>) // through f64, which is exact where f16 does not overflow anyway
            return to_f16(static_cast<double>(value));
        else
            return to_f16(value);
    } else if constexpr (std::same_as<V, float>)
        return to_bf16(value);
    else
        return value != value ? uint16_t{0x7fff} : to_bf16(to_odd(static_cast<long double>(value)));
}
template <Rounding R, class V>
V round_to(V v) {
    switch (R) {
    case Rounding::ToIntegerNearest:
        return std::nearbyint(v);
    case Rounding::ToIntegerZero:
        return std::trunc(v);
    case Rounding::ToIntegerDown:
        return std::floor(v);
    case Rounding::ToIntegerUp:
        return std::ceil(v);
    default:
        return v;
    }
}
template <Type To, Type From, Rounding R, bool Saturate>
uint64_t convert(uint64_t bits) {
    auto v = value_of<From>(bits);
    if constexpr (is_float(From) && is_float(To)) {
        return float_bits<To>(round_to<R>(v));
    } else if constexpr (is_float(To)) {
        return float_bits<To>(v);
    } else if constexpr (is_float(From)) {
        using I = Value<To>;
        if (v != v) // as the document says of each pair of types
            return From != Type::F64 && sizeof(I) < 8 ? 0 : uint64_t{1} << (sizeof(I) * 8 - 1);
        const double d = round_to<R>(static_cast<double>(v)),
                     low = static_cast<double>(std::numeric_limits<I>::min());
        const double high =
            std::ldexp(1.0, static_cast<int>(sizeof(I) * 8) - (std::signed_integral<I> ? 1 : 0));
        const I r = d < low     ? std::numeric_limits<I>::min()
                    : d >= high ? std::numeric_limits<I>::max()
                                : static_cast<I>(d);
        return static_cast<uint64_t>(static_cast<int64_t>(r));
    } else {
        using I = Value<To>;
        if constexpr (Saturate) {
            if (std::cmp_less(v, std::numeric_limits<I>::min()))
                return static_cast<uint64_t>(static_cast<int64_t>(std::numeric_limits<I>::min()));
            if (std::cmp_greater(v, std::numeric_limits<I>::max()))
                return static_cast<uint64_t>(std::numeric_limits<I>::max());
        }
        return static_cast<uint64_t>(static_cast<int64_t>(static_cast<I>(v)));
    }
}
using Conversion = uint64_t (*)(uint64_t);

void convert_lanes(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    const auto f = reinterpret_cast<Conversion>(x.constant);
    // A register wider than the type holds the value extended: by its sign, or by zeros.
    const uint64_t keep =
        is_signed(x.type) || size_of(x.type) == 8 ? ~uint64_t{0} : (uint64_t{1} << (size_of(x.type) * 8)) - 1;
    for_lanes(mask, [&](uint32_t i) { w.set_bits(x.dst[0], i, f(w.bits(x.src[0], i)) & keep); });
}

template <Type To, Type From>
Conversion conversion_of(Rounding rounding, bool saturate) {
    if constexpr (!is_float(From)) {
        if (!is_float(To) && saturate)
            return convert<To, From, Rounding::None, true>;
        return convert<To, From, Rounding::None, false>;
    } else {
        switch (rounding) {
        case Rounding::ToIntegerNearest:
            return convert<To, From, Rounding::ToIntegerNearest, false>;
        case Rounding::ToIntegerZero:
            return convert<To, From, Rounding::ToIntegerZero, false>;
        case Rounding::ToIntegerDown:
            return convert<To, From, Rounding::ToIntegerDown, false>;
        case Rounding::ToIntegerUp:
            return convert<To, From, Rounding::ToIntegerUp, false>;
        default:
            return is_float(To) ? convert<To, From, Rounding::None, false> : nullptr;
        }
    }
}
#define LZ_PTX_VALUE_TYPES(X)                                                                                \
    X(U8) X(U16) X(U32) X(U64) X(S8) X(S16) X(S32) X(S64) X(F16) X(BF16) X(F32) X(F64)

template <Type To>
Conversion conversion_to(Type from, Rounding rounding, bool saturate) {
    switch (from) {
#define LZ_PTX_CASE(name)                                                                                    \
    case Type::name:                                                                                         \
        return conversion_of<To, Type::name>(rounding, saturate);
        LZ_PTX_VALUE_TYPES(LZ_PTX_CASE)
#undef LZ_PTX_CASE
    default:
        return nullptr;
    }
}

template <Type To>
void convert_pair(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    uint32_t *const d = w.lanes<uint32_t>(x.dst[0]);
    const float *const high = w.lanes<float>(x.src[0]);
    const float *const low = w.lanes<float>(x.src[1]);
    for_lanes(mask, [&](uint32_t i) {
        if constexpr (To == Type::BF16x2)
            d[i] = uint32_t{to_bf16(high[i])} << 16 | to_bf16(low[i]);
        else
            d[i] = uint32_t{to_f16(high[i])} << 16 | to_f16(low[i]);
    });
}

} // namespace

Handler find_conversion(Type to, Type from, Rounding rounding, bool saturate, uint64_t &constant) {
    Conversion f = nullptr;
    switch (to) {
#define LZ_PTX_CASE(name)                                                                                    \
    case Type::name:                                                                                         \
        f = conversion_to<Type::name>(from, rounding, saturate);                                             \
        break;
        LZ_PTX_VALUE_TYPES(LZ_PTX_CASE)
#undef LZ_PTX_CASE
    default:
        break;
    }
    if (!f)
        return nullptr;
    constant = reinterpret_cast<uint64_t>(f);
    return convert_lanes;
}

Handler find_pair_conversion(Type to) {
    return to == Type::BF16x2  ? Handler{convert_pair<Type::BF16x2>}
           : to == Type::F16x2 ? Handler{convert_pair<Type::F16x2>}
                               : nullptr;
}

} // namespace lz::ptx
