#include "bench/support/ceilings.h"
#include "bench/support/team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace lz::bench {
namespace {

#if defined(__x86_64__)
// Twelve chains, each in a register of its own: written out, because a loop over an array may stay in memory.
// They begin with different values: equal chains are one chain to a compiler.
#define LZ_CHAINS(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define LZ_BEGIN(k) auto c##k = LZ_SET(1.0f + k * 0.125f);
#define LZ_STEP(k) c##k = LZ_FMA(c##k, m, d);
#define LZ_ADD(k) all = LZ_SUM(all, c##k);
// The instructions themselves, which no compiler can merge or leave out.
#define LZ_ASM_STEP(k) asm volatile(LZ_ASM " %2, %1, %0" : "+v"(c##k) : "v"(m), "v"(d));
/// A function of twelve chains for a target.
#define LZ_CHAIN_FUNCTION(name, isa, step)                                                                   \
    [[gnu::target(isa)]] double name(int64_t rounds) {                                                       \
        LZ_CHAINS(LZ_BEGIN)                                                                                  \
        const auto m = LZ_SET(0.999f), d = LZ_SET(0.001f);                                                   \
        for (int64_t r = 0; r < rounds; ++r) {                                                               \
            LZ_CHAINS(step)                                                                                  \
        }                                                                                                    \
        auto all = LZ_SET(0.0f);                                                                             \
        LZ_CHAINS(LZ_ADD)                                                                                    \
        return static_cast<double>(LZ_FIRST(all));                                                           \
    }

#define LZ_SET _mm256_set1_ps
#define LZ_FMA _mm256_fmadd_ps
#define LZ_SUM _mm256_add_ps
#define LZ_FIRST _mm256_cvtss_f32
#define LZ_ASM "vfmadd213ps"
LZ_CHAIN_FUNCTION(f32_256, "avx2,fma", LZ_STEP)
LZ_CHAIN_FUNCTION(f32_256_again, "avx2,fma", LZ_ASM_STEP)
#undef LZ_SET
#undef LZ_FMA
#undef LZ_SUM
#undef LZ_FIRST
#define LZ_SET _mm512_set1_ps
#define LZ_FMA _mm512_fmadd_ps
#define LZ_SUM _mm512_add_ps
#define LZ_FIRST _mm512_cvtss_f32
LZ_CHAIN_FUNCTION(f32_512, "avx512f", LZ_STEP)
LZ_CHAIN_FUNCTION(f32_512_again, "avx512f", LZ_ASM_STEP)
#undef LZ_SET
#undef LZ_FMA
#undef LZ_SUM
#undef LZ_FIRST
#undef LZ_ASM
#define LZ_SET(x) _mm256_set1_pd(static_cast<double>(x))
#define LZ_FMA _mm256_fmadd_pd
#define LZ_SUM _mm256_add_pd
#define LZ_FIRST _mm256_cvtsd_f64
#define LZ_ASM "vfmadd213pd"
LZ_CHAIN_FUNCTION(f64_256, "avx2,fma", LZ_STEP)
LZ_CHAIN_FUNCTION(f64_256_again, "avx2,fma", LZ_ASM_STEP)
#undef LZ_SET
#undef LZ_FMA
#undef LZ_SUM
#undef LZ_FIRST
#define LZ_SET(x) _mm512_set1_pd(static_cast<double>(x))
#define LZ_FMA _mm512_fmadd_pd
#define LZ_SUM _mm512_add_pd
#define LZ_FIRST _mm512_cvtsd_f64
LZ_CHAIN_FUNCTION(f64_512, "avx512f", LZ_STEP)
LZ_CHAIN_FUNCTION(f64_512_again, "avx512f", LZ_ASM_STEP)
#undef LZ_SET
#undef LZ_FMA
#undef LZ_SUM
#undef LZ_FIRST
#undef LZ_ASM
// Pairs: c += l[2i] r[2i] + l[2i + 1] r[2i + 1]; every chain has a left operand of its own.
#define LZ_SET _mm512_set1_ps
#define LZ_SUM _mm512_add_ps
#define LZ_FIRST _mm512_cvtss_f32
#define LZ_FMA(c, m, d) _mm512_dpbf16_ps(c, (__m512bh)(m), (__m512bh)(d))
LZ_CHAIN_FUNCTION(bf16_pairs, "avx512f,avx512bf16", LZ_STEP)
#define LZ_ASM "vdpbf16ps"
LZ_CHAIN_FUNCTION(bf16_pairs_again, "avx512f,avx512bf16", LZ_ASM_STEP)
#undef LZ_SET
#undef LZ_FMA
#undef LZ_SUM
#undef LZ_FIRST
#undef LZ_ASM

/// All eight tiles of this thread have 16 rows of 64 bytes, and are zero.
struct alignas(64) TileConfiguration {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
[[gnu::target("amx-tile")]] void configure_tiles() {
    const TileConfiguration configuration;
    // GCC 12 takes eight bytes of it to be read, and would leave out what is stored into the others.
    asm volatile("" : : "r"(&configuration) : "memory");
    _tile_loadconfig(&configuration);
}
/// Four sums of two left and two right tiles, as a product has them.
[[gnu::target("amx-tile,amx-bf16")]] double bf16_tiles(int64_t rounds) {
    configure_tiles();
    for (int64_t r = 0; r < 3 * rounds; ++r) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    return 0;
}
/// Six sums of one pair.
[[gnu::target("amx-tile,amx-bf16")]] double bf16_tiles_again(int64_t rounds) {
    configure_tiles();
    for (int64_t r = 0; r < 2 * rounds; ++r)
        asm volatile("tdpbf16ps %tmm7, %tmm6, %tmm0\n\ttdpbf16ps %tmm7, %tmm6, %tmm1\n\t"
                     "tdpbf16ps %tmm7, %tmm6, %tmm2\n\ttdpbf16ps %tmm7, %tmm6, %tmm3\n\t"
                     "tdpbf16ps %tmm7, %tmm6, %tmm4\n\ttdpbf16ps %tmm7, %tmm6, %tmm5");
    _tile_release();
    return 0;
}

/// Two ways of one unit: each round has twelve steps of so many operations.
struct Ways {
    double (*first)(int64_t);
    double (*second)(int64_t);
    int64_t operations;
    int64_t rounds;
};
Ways ways_of(Unit unit) {
    const bool wide = __builtin_cpu_supports("avx512f");
    switch (unit) {
    case Unit::F64:
        return wide ? Ways{f64_512, f64_512_again, 16, 4'000'000}
                    : Ways{f64_256, f64_256_again, 8, 4'000'000};
    case Unit::Bf16Pairs:
        return {bf16_pairs, bf16_pairs_again, 64, 4'000'000};
    case Unit::Bf16Tiles:
        return {bf16_tiles, bf16_tiles_again, 16 * 16 * 32 * 2, 200'000};
    case Unit::F32:
        break;
    }
    return wide ? Ways{f32_512, f32_512_again, 32, 4'000'000} : Ways{f32_256, f32_256_again, 16, 4'000'000};
}
#else
template <class T, int chains>
double chain(int64_t rounds) {
    T c[chains];
    for (int k = 0; k < chains; ++k)
        c[k] = static_cast<T>(1 + k * 0.125);
    for (int64_t r = 0; r < rounds; ++r)
        for (T &x : c)
            x = x * static_cast<T>(0.999) + static_cast<T>(0.001);
    double all = 0;
    for (const T x : c)
        all += static_cast<double>(x);
    return all;
}
struct Ways {
    double (*first)(int64_t);
    double (*second)(int64_t);
    int64_t operations;
    int64_t rounds;
};
/// Twelve steps: 48 chains, and twice as many of half the length.
Ways ways_of(Unit unit) {
    if (unit == Unit::F64)
        return {chain<double, 48>, [](int64_t rounds) { return chain<double, 96>(rounds / 2); }, 8,
                4'000'000};
    return {chain<float, 48>, [](int64_t rounds) { return chain<float, 96>(rounds / 2); }, 8, 4'000'000};
}
#endif

} // namespace

bool has(Unit unit) {
#if defined(__x86_64__)
    if (unit == Unit::Bf16Pairs)
        return __builtin_cpu_supports("avx512bf16");
    if (unit == Unit::Bf16Tiles) {
        // CPUID leaf 7, EDX: bits 22 (AMX-BF16) and 24 (AMX-TILE); the system lends tiles on request.
        uint32_t a = 7, b = 0, c = 0, d = 0;
        asm("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
        constexpr long kRequest = 0x1023, kTileData = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
        return (d >> 22 & 1) != 0 && (d >> 24 & 1) != 0 && syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
    }
    return true;
#else
    return unit == Unit::F32 || unit == Unit::F64;
#endif
}

double measure_flops(int threads, Way way, Unit unit) {
    const Ways ways = ways_of(unit);
    std::atomic<double> sink = 0;
    Team team(threads);
    double best = std::numeric_limits<double>::infinity();
    for (int repeat = 0; repeat < 3; ++repeat) { // the first warms up
        const auto begin = std::chrono::steady_clock::now();
        team.run(64 * int64_t{threads}, [&](int64_t, int64_t) {
            sink = (way == Way::First ? ways.first : ways.second)(ways.rounds);
        });
        best =
            std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return 12.0 * static_cast<double>(ways.rounds * ways.operations) * threads / best;
}

} // namespace lz::bench
