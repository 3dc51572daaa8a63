#include "ir/interpreter/tensor.h"

#include "ir/diagnostic.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace lz::ir {

namespace {

template <class T, class Visit>
void for_each_stored(std::span<const std::byte> bytes, Visit visit) {
    for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
        T value;
        std::memcpy(&value, bytes.data() + at, sizeof(T));
        visit(value);
    }
}

/// Calls `f` with a value of the type in which the dtype is stored.
template <class F>
void with_storage(DType dtype, F f) {
    switch (dtype) {
#define LZ_DTYPE(E, text, storage, bytes, kind, compute, acc)                                                \
    case DType::E:                                                                                           \
        return f(storage{});
#include "ir/types/dtypes.def"
    }
}

int64_t word_of_half(DType dtype, uint16_t bits) {
    return scalar_word(
        static_cast<double>(dtype == DType::F16 ? half_to_float(bits) : bfloat_to_float(bits)));
}

uint16_t half_of_word(DType dtype, int64_t word) {
    const auto value = static_cast<float>(scalar_double(word));
    return dtype == DType::F16 ? float_to_half(value) : float_to_bfloat(value);
}

} // namespace

double round_to(DType dtype, double value) {
    switch (dtype) {
    case DType::F16:
        return static_cast<double>(half_to_float(float_to_half(static_cast<float>(value))));
    case DType::BF16:
        return static_cast<double>(bfloat_to_float(float_to_bfloat(static_cast<float>(value))));
    case DType::F32:
        return static_cast<double>(static_cast<float>(value));
    default:
        return value;
    }
}

int64_t wrap_to(DType dtype, int64_t value) {
    switch (dtype) {
    case DType::Bool:
        return value != 0;
    case DType::U8:
        return static_cast<uint8_t>(value);
    case DType::I8:
        return static_cast<int8_t>(value);
    case DType::I16:
        return static_cast<int16_t>(value);
    case DType::I32:
        return static_cast<int32_t>(value);
    default:
        return value;
    }
}

int64_t cast_word(DType from, DType to, int64_t word) {
    if (is_float(from)) {
        const double value = scalar_double(word);
        if (is_float(to))
            return scalar_word(round_to(to, value));
        if (to == DType::Bool)
            return value != 0; // NaN is not zero
        if (std::isnan(value))
            return 0;
        int64_t low = 0, high = 0;
        with_storage(to, [&]<class T>(T) {
            low = static_cast<int64_t>(std::numeric_limits<T>::min());
            high = static_cast<int64_t>(std::numeric_limits<T>::max());
        });
        // The greatest int64 is no double: 2^63 and above saturate before the conversion.
        if (value <= static_cast<double>(low))
            return low;
        return value >= static_cast<double>(high) ? high : static_cast<int64_t>(value);
    }
    if (!is_float(to))
        return wrap_to(to, word);
    // One rounding from int64 to f32, which goes through no double.
    return scalar_word(to == DType::F64 ? static_cast<double>(word)
                                        : round_to(to, static_cast<double>(static_cast<float>(word))));
}

RefTensor decode(const HostTensor &tensor) {
    RefTensor out{tensor.type, {}};
    out.words.reserve(static_cast<size_t>(tensor.type.numel()));
    const DType dtype = tensor.type.dtype;
    if (dtype == DType::Bool) // any byte, not only 0 and 1
        for_each_stored<uint8_t>(tensor.bytes, [&](uint8_t v) { out.words.push_back(v != 0); });
    else if (is_half(dtype))
        for_each_stored<uint16_t>(tensor.bytes,
                                  [&](uint16_t v) { out.words.push_back(word_of_half(dtype, v)); });
    else
        with_storage(dtype, [&]<class T>(T) {
            for_each_stored<T>(tensor.bytes, [&](T v) {
                if constexpr (std::is_floating_point_v<T>)
                    out.words.push_back(scalar_word(static_cast<double>(v)));
                else
                    out.words.push_back(static_cast<int64_t>(v));
            });
        });
    return out;
}

HostTensor encode(const RefTensor &tensor) {
    HostTensor out{tensor.type, std::vector<std::byte>(static_cast<size_t>(tensor.type.bytes()))};
    const DType dtype = tensor.type.dtype;
    with_storage(dtype, [&]<class T>(T) {
        for (size_t k = 0; k < tensor.words.size(); ++k) {
            T value;
            if constexpr (std::is_floating_point_v<T>)
                value = static_cast<T>(scalar_double(tensor.words[k]));
            else
                value = is_half(dtype) ? static_cast<T>(half_of_word(dtype, tensor.words[k]))
                                       : static_cast<T>(tensor.words[k]);
            std::memcpy(out.bytes.data() + k * sizeof(T), &value, sizeof(T));
        }
    });
    return out;
}

} // namespace lz::ir
