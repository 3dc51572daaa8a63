#pragma once
/// Elements of each dtype as the library reads, computes with and writes them, and tables over dtypes.

#include "ir/types/dtype.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lz::runtime {

template <ir::DType D>
struct StorageOf;
#define LZ_DTYPE(E, text, storage, bytes, kind, compute, acc)                                                \
    template <>                                                                                              \
    struct StorageOf<ir::DType::E> {                                                                         \
        using type = storage;                                                                                \
    };
#include "ir/types/dtypes.def"

/// Storage and accumulation type of a dtype, and the way from one to the other. Integers accumulate as
/// unsigned 64-bit numbers, so that overflow wraps.
template <ir::DType D>
struct Element {
    using Storage = typename StorageOf<D>::type;
    static constexpr ir::DType kAccumulate = ir::info(D).accumulate;
    using Accumulator =
        std::conditional_t<kAccumulate == ir::DType::I64, uint64_t, typename StorageOf<kAccumulate>::type>;

    static Accumulator load(Storage value) {
        if constexpr (D == ir::DType::F16)
            return ir::half_to_float(value);
        else if constexpr (D == ir::DType::BF16)
            return ir::bfloat_to_float(value);
        else
            return static_cast<Accumulator>(value);
    }
    static Storage store(Accumulator value) {
        if constexpr (D == ir::DType::F16)
            return ir::float_to_half(value);
        else if constexpr (D == ir::DType::BF16)
            return ir::float_to_bfloat(value);
        else if constexpr (D == ir::DType::Bool)
            return value != 0;
        else
            return static_cast<Storage>(value);
    }
};

/// The unsigned integer of so many bytes.
template <size_t kBytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
    using type = uint8_t;
};
template <>
struct UnsignedOf<2> {
    using type = uint16_t;
};
template <>
struct UnsignedOf<4> {
    using type = uint32_t;
};
template <>
struct UnsignedOf<8> {
    using type = uint64_t;
};

/// One function a dtype: Table<F>::at(dtype) is F<D>::run.
template <template <ir::DType> class F>
struct DTypeTable {
    using Fn = std::add_pointer_t<std::remove_pointer_t<decltype(&F<ir::DType::F32>::run)>>;
    static Fn at(int64_t dtype) {
        static constexpr Fn kTable[] = {
#define LZ_DTYPE(E, text, storage, bytes, kind, compute, acc) &F<ir::DType::E>::run,
#include "ir/types/dtypes.def"
        };
        return kTable[static_cast<size_t>(dtype)];
    }
};

} // namespace lz::runtime
