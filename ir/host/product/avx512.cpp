// Products of f32 and f64.

#include "ir/host/product/parts.h"

#if defined(__x86_64__)

#define LZ_AVX512_TARGET "avx512f,avx512vl,fma"
#include "ir/host/product/avx512_tiles.h"
#define LZ_GATHERED LZ_AVX512
#define LZ_GATHERED_INLINE LZ_AVX512_INLINE
#include "ir/host/product/gathered.h"

#include <algorithm>
#include <unistd.h>

namespace lz::ir {
namespace {

struct DoubleLanes {
    using T = double;
    using Register = __m512d;
    using Mask = __mmask8;
    static constexpr int kCount = 8;

    LZ_AVX512_INLINE Register zero() { return _mm512_setzero_pd(); }
    LZ_AVX512_INLINE Register load(const double *from) { return _mm512_loadu_pd(from); }
    LZ_AVX512_INLINE Register load(const double *from, Mask mask) {
        return _mm512_maskz_loadu_pd(mask, from);
    }
    LZ_AVX512_INLINE Register join(Register x, const double *from, Mask mask) {
        return _mm512_mask_loadu_pd(x, mask, from);
    }
    LZ_AVX512_INLINE Register broadcast(const double *from) { return _mm512_set1_pd(*from); }
    LZ_AVX512_INLINE Register add_product(Register sum, Register x, Register y) {
        asm("vfmadd231pd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
        return sum;
    }
    LZ_AVX512_INLINE Register start(const ProductTile &, int) { return zero(); }
    LZ_AVX512_INLINE Register go_on(Register sum, Register) { return sum; }
    LZ_AVX512_INLINE void store(double *to, Register x) { _mm512_storeu_pd(to, x); }
    LZ_AVX512_INLINE void store(double *to, Register x, Mask mask) { _mm512_mask_storeu_pd(to, mask, x); }
    using Index = int64_t;
    LZ_AVX512_INLINE Register choose(Register x, Register y, const Index *from) {
        return _mm512_permutex2var_pd(x, _mm512_loadu_si512(from), y);
    }
};

/// Half a register, as the microkernel wants it.
struct HalfFloatLanes {
    using T = float;
    using Register = __m256;
    using Mask = __mmask8;
    static constexpr int kCount = 8;

    LZ_AVX512_INLINE Register zero() { return _mm256_setzero_ps(); }
    LZ_AVX512_INLINE Register load(const float *from) { return _mm256_loadu_ps(from); }
    LZ_AVX512_INLINE Register load(const float *from, Mask mask) { return _mm256_maskz_loadu_ps(mask, from); }
    LZ_AVX512_INLINE Register broadcast(const float *from) { return _mm256_set1_ps(*from); }
    LZ_AVX512_INLINE Register add_product(Register sum, Register x, Register y) {
        return _mm256_fmadd_ps(x, y, sum);
    }
    LZ_AVX512_INLINE Register start(const ProductTile &, int) { return zero(); }
    LZ_AVX512_INLINE Register go_on(Register sum, Register) { return sum; }
    LZ_AVX512_INLINE void store(float *to, Register x) { _mm256_storeu_ps(to, x); }
    LZ_AVX512_INLINE void store(float *to, Register x, Mask mask) { _mm256_mask_storeu_ps(to, mask, x); }
};
struct HalfDoubleLanes {
    using T = double;
    using Register = __m256d;
    using Mask = __mmask8;
    static constexpr int kCount = 4;

    LZ_AVX512_INLINE Register zero() { return _mm256_setzero_pd(); }
    LZ_AVX512_INLINE Register load(const double *from) { return _mm256_loadu_pd(from); }
    LZ_AVX512_INLINE Register load(const double *from, Mask mask) {
        return _mm256_maskz_loadu_pd(mask, from);
    }
    LZ_AVX512_INLINE Register broadcast(const double *from) { return _mm256_set1_pd(*from); }
    LZ_AVX512_INLINE Register add_product(Register sum, Register x, Register y) {
        return _mm256_fmadd_pd(x, y, sum);
    }
    LZ_AVX512_INLINE Register start(const ProductTile &, int) { return zero(); }
    LZ_AVX512_INLINE Register go_on(Register sum, Register) { return sum; }
    LZ_AVX512_INLINE void store(double *to, Register x) { _mm256_storeu_pd(to, x); }
    LZ_AVX512_INLINE void store(double *to, Register x, Mask mask) { _mm256_mask_storeu_pd(to, mask, x); }
};

/// Each row of the panel lies next to the others.
template <class L, int Width>
LZ_AVX512 void pack_rows(typename L::T *to, const typename L::T *from, int64_t count, int64_t depth,
                         int64_t stride) {
    constexpr bool kTwo = Width > L::kCount;
    const typename L::Mask low = first_lanes<L>(count), high = first_lanes<L>(count - L::kCount);
    for (int64_t k = 0; k < depth; ++k, to += Width, from += stride) {
        _mm_prefetch(reinterpret_cast<const char *>(from + Width), _MM_HINT_T1);
        store_part<L, Width, 0>(to, L::load(from, low));
        if constexpr (kTwo) {
            _mm_prefetch(reinterpret_cast<const char *>(from + Width + L::kCount), _MM_HINT_T1);
            store_part<L, Width, L::kCount>(to, L::load(from + L::kCount, high));
        }
    }
}

/// The rows of one register: at most `Width - Column` of them are packed, and `count` are there.
template <class L, int Width, int Column>
LZ_AVX512 void pack_square(typename L::T *to, const typename L::T *from, int64_t count, int64_t depth,
                           int64_t stride) {
    constexpr int kRows = Width - Column < L::kCount ? Width - Column : L::kCount;
    int64_t offsets[kRows];
    for (int i = 0; i < kRows; ++i)
        offsets[i] = (Column + i < count ? Column + i : count - 1) * stride;
    for (int64_t k = 0; k < depth; k += L::kCount, to += L::kCount * Width) {
        const typename L::Mask mask = first_lanes<L>(depth - k);
        typename L::Register square[L::kCount];
#pragma GCC unroll 16
        for (int i = 0; i < L::kCount; ++i) {
            const auto *const row = from + offsets[i < kRows ? i : kRows - 1] + k;
            if (i < kRows)
                _mm_prefetch(reinterpret_cast<const char *>(row + stride * Width), _MM_HINT_T1);
            square[i] = L::load(row, mask);
        }
        transpose<L>(square);
#pragma GCC unroll 16
        for (int l = 0; l < L::kCount; ++l)
            store_part<L, Width, Column>(to + l * Width, square[l]);
    }
}

template <class L, int Width>
void pack_width(typename L::T *to, const typename L::T *from, int64_t count, int64_t depth, int64_t stride_i,
                int64_t stride_k) {
    if (stride_i == 1) {
        pack_rows<L, Width>(to, from, count, depth, stride_k);
    } else if (stride_k == 1) {
        pack_square<L, Width, 0>(to, from, count, depth, stride_i);
        if constexpr (Width > L::kCount)
            pack_square<L, Width, L::kCount>(to, from, count, depth, stride_i);
    } else {
        for (int64_t k = 0; k < depth; ++k)
            for (int64_t i = 0; i < count; ++i)
                to[k * Width + i] = from[i * stride_i + k * stride_k];
    }
}

template <class L>
void pack(void *to, const void *from, int64_t count, int64_t depth, int64_t stride_i, int64_t stride_k,
          int64_t width) {
    using T = typename L::T;
    (width == kTileRows ? pack_width<L, kTileRows>
                        : pack_width<L, 2 * L::kCount>)(static_cast<T *>(to), static_cast<const T *>(from),
                                                        count, depth, stride_i, stride_k);
}

/// As gathered.h wants them.
template <class L>
struct Gathered : L {
    static constexpr bool kChooses = true;
    LZ_AVX512_INLINE typename L::Mask lanes(int begin, int end) {
        return static_cast<typename L::Mask>((1u << end) - (1u << begin));
    }
    LZ_AVX512_INLINE void transpose(typename L::Register (&square)[L::kCount]) { ir::transpose<L>(square); }
    template <int Width, int Column>
    LZ_AVX512_INLINE void store_part(typename L::T *to, typename L::Register x) {
        ir::store_part<L, Width, Column>(to, x);
    }
};

constexpr PartSet kParts = {
    kTileRows,
    int{kLine},
    {"lz_multiply_tile_f32", "lz_pack_panel_f32", multiply_tile<FloatLanes, HalfFloatLanes>, pack<FloatLanes>,
     "lz_pack_gathered_f32", pack_gathered<Gathered<FloatLanes>, kTileRows>, "lz_pack_panels_f32",
     pack_panels<Gathered<FloatLanes>>},
    {"lz_multiply_tile_f64", "lz_pack_panel_f64", multiply_tile<DoubleLanes, HalfDoubleLanes>,
     pack<DoubleLanes>, "lz_pack_gathered_f64", pack_gathered<Gathered<DoubleLanes>, kTileRows>,
     "lz_pack_panels_f64", pack_panels<Gathered<DoubleLanes>>},
};

} // namespace

const PartSet *const kAvx512Parts = &kParts;
const int64_t kNearBytes = std::max<long>(::sysconf(_SC_LEVEL2_CACHE_SIZE), 1 << 20) / 2;

} // namespace lz::ir

#else

namespace lz::ir {

const PartSet *const kAvx512Parts = nullptr;

} // namespace lz::ir

#endif
