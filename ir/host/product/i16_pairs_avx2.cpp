// As i16_pairs.cpp has them, in registers of 32 bytes.

#include "ir/host/product/parts.h"

#if defined(__x86_64__)

#define LZ_AVX_TARGET "avx2,fma"
#include "ir/host/product/avx_tiles.h"

namespace lz::ir {
namespace {

/// Pairs in memory and sums of 32 bits in registers, which are moved as if they were f32.
struct I16PairLanes : Lanes<float> {
    LZ_AVX_INLINE Register add_product(Register sum, Register x, Register y) {
        const __m256i pairs = _mm256_madd_epi16(_mm256_castps_si256(x), _mm256_castps_si256(y));
        return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(sum), pairs));
    }
};

constexpr ProductParts kParts = {"lz_multiply_tile_i16_pairs_avx2", nullptr, multiply_tile<I16PairLanes>,
                                 nullptr};

} // namespace

const ProductParts *const kI16PairAvx2Parts = &kParts;

} // namespace lz::ir

#else

namespace lz::ir {

const ProductParts *const kI16PairAvx2Parts = nullptr;

} // namespace lz::ir

#endif
