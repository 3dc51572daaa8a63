// Products of integers of up to 16 bits, in 32 bits: two neighbours along k, as i16, are multiplied at once
// (VPMADDWD), and their sum is added. It wraps as sums of 32 bits do: of the products of two pairs only that
// of four times -2^15 leaves 31 bits, and its sum is 2^31 either way.

#include "ir/host/product/parts.h"

#if defined(__x86_64__)

#define LZ_AVX512_TARGET "avx512f,avx512bw"
#include "ir/host/product/avx512_tiles.h"

namespace lz::ir {
namespace {

/// Pairs in memory and sums of 32 bits in registers, which are moved as if they were f32.
struct I16PairLanes : FloatLanes {
    LZ_AVX512_INLINE Register add_product(Register sum, Register x, Register y) {
        const __m512i pairs = _mm512_madd_epi16(_mm512_castps_si512(x), _mm512_castps_si512(y));
        return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(sum), pairs));
    }
};

constexpr ProductParts kParts = {"lz_multiply_tile_i16_pairs", nullptr, multiply_tile<I16PairLanes>, nullptr};

} // namespace

const ProductParts *const kI16PairParts = &kParts;

} // namespace lz::ir

#else

namespace lz::ir {

const ProductParts *const kI16PairParts = nullptr;

} // namespace lz::ir

#endif
