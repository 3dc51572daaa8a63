#include "bench/support/ceilings.h"

#include "bench/support/team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>

#include <sys/mman.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lz::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Free {
    void operator()(float *p) const { std::free(p); }
};
using Array = std::unique_ptr<float[], Free>;

constexpr size_t kHugePage = size_t{2} << 20;

/// In huge pages where the system gives them, as the engine's own memory is.
Array make_array(int64_t count) {
    const size_t bytes = (static_cast<size_t>(count) * sizeof(float) + kHugePage - 1) / kHugePage * kHugePage;
    Array a(static_cast<float *>(std::aligned_alloc(kHugePage, bytes)));
    madvise(a.get(), bytes, MADV_HUGEPAGE);
    std::fill_n(a.get(), count, 1.0f);
    return a;
}

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

} // namespace

namespace {

// Written with the compiler's vectors where streaming stores exist, plainly elsewhere.
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void triad(float *a, const float *b, const float *c, float s, int64_t i,
                                       int64_t end) {
    const __m256 scale = _mm256_set1_ps(s);
    for (; i + 8 <= end; i += 8)
        _mm256_stream_ps(a + i, _mm256_fmadd_ps(scale, _mm256_loadu_ps(c + i), _mm256_loadu_ps(b + i)));
    _mm_sfence();
}
[[gnu::target("avx2,fma")]] void copy(float *a, const float *b, int64_t i, int64_t end) {
    for (; i + 8 <= end; i += 8)
        _mm256_stream_ps(a + i, _mm256_loadu_ps(b + i));
    _mm_sfence();
}
[[gnu::target("avx2,fma")]] float sum(const float *a, int64_t i, int64_t end) {
    __m256 s0 = _mm256_setzero_ps(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (; i + 64 <= end; i += 64) {
        s0 = _mm256_add_ps(s0, _mm256_loadu_ps(a + i));
        s1 = _mm256_add_ps(s1, _mm256_loadu_ps(a + i + 8));
        s2 = _mm256_add_ps(s2, _mm256_loadu_ps(a + i + 16));
        s3 = _mm256_add_ps(s3, _mm256_loadu_ps(a + i + 24));
        s4 = _mm256_add_ps(s4, _mm256_loadu_ps(a + i + 32));
        s5 = _mm256_add_ps(s5, _mm256_loadu_ps(a + i + 40));
        s6 = _mm256_add_ps(s6, _mm256_loadu_ps(a + i + 48));
        s7 = _mm256_add_ps(s7, _mm256_loadu_ps(a + i + 56));
    }
    const __m256 low = _mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3));
    const __m256 high = _mm256_add_ps(_mm256_add_ps(s4, s5), _mm256_add_ps(s6, s7));
    return _mm256_cvtss_f32(_mm256_add_ps(low, high));
}
// The same from the end to the begin, without the fused operation and with other chains.
[[gnu::target("avx2")]] void triad_again(float *a, const float *b, const float *c, float s, int64_t begin,
                                         int64_t i) {
    const __m256 scale = _mm256_set1_ps(s);
    for (i -= 8; i >= begin; i -= 8)
        _mm256_stream_ps(a + i,
                         _mm256_add_ps(_mm256_mul_ps(scale, _mm256_loadu_ps(c + i)), _mm256_loadu_ps(b + i)));
    _mm_sfence();
}
[[gnu::target("avx2")]] void copy_again(float *a, const float *b, int64_t begin, int64_t i) {
    for (i -= 8; i >= begin; i -= 8)
        _mm256_stream_ps(a + i, _mm256_loadu_ps(b + i));
    _mm_sfence();
}
[[gnu::target("avx2")]] float sum_again(const float *a, int64_t begin, int64_t i) {
    __m256 s0 = _mm256_setzero_ps(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0;
    for (; i - 48 >= begin; i -= 48) {
        s0 = _mm256_add_ps(s0, _mm256_loadu_ps(a + i - 8));
        s1 = _mm256_add_ps(s1, _mm256_loadu_ps(a + i - 16));
        s2 = _mm256_add_ps(s2, _mm256_loadu_ps(a + i - 24));
        s3 = _mm256_add_ps(s3, _mm256_loadu_ps(a + i - 32));
        s4 = _mm256_add_ps(s4, _mm256_loadu_ps(a + i - 40));
        s5 = _mm256_add_ps(s5, _mm256_loadu_ps(a + i - 48));
    }
    return _mm256_cvtss_f32(
        _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(s0, s1), _mm256_add_ps(s2, s3)), _mm256_add_ps(s4, s5)));
}
#else
void triad(float *a, const float *b, const float *c, float s, int64_t i, int64_t end) {
    for (; i < end; ++i)
        a[i] = b[i] + s * c[i];
}
void copy(float *a, const float *b, int64_t i, int64_t end) {
    std::copy(b + i, b + end, a + i);
}
float sum(const float *a, int64_t i, int64_t end) {
    float s[16] = {};
    for (; i + 16 <= end; i += 16)
        for (int k = 0; k < 16; ++k)
            s[k] += a[i + k];
    float total = 0;
    for (const float k : s)
        total += k;
    return total;
}
void triad_again(float *a, const float *b, const float *c, float s, int64_t begin, int64_t i) {
    while (--i >= begin)
        a[i] = b[i] + s * c[i];
}
void copy_again(float *a, const float *b, int64_t begin, int64_t i) {
    while (--i >= begin)
        a[i] = b[i];
}
float sum_again(const float *a, int64_t begin, int64_t i) {
    float s[8] = {};
    for (; i - 8 >= begin; i -= 8)
        for (int k = 0; k < 8; ++k)
            s[k] += a[i - 1 - k];
    float total = 0;
    for (const float k : s)
        total += k;
    return total;
}
#endif

} // namespace

struct MemoryMeter::Arrays {
    Arrays(int64_t n, int threads)
        : size(n), a(make_array(n)), b(make_array(n)), c(make_array(n)), team(threads) {}
    int64_t size;
    Array a, b, c;
    std::atomic<float> sink = 0;
    Team team;
};

MemoryMeter::MemoryMeter(int64_t bytes, int threads)
    : arrays_(std::make_unique<Arrays>(bytes / 4 / 64 * 64, threads)) {}
MemoryMeter::~MemoryMeter() = default;

double MemoryMeter::pass(Traffic traffic, Way way) {
    Arrays &x = *arrays_;
    const auto seconds = [&](const Team::Part &f) {
        const auto begin = Clock::now();
        x.team.run(x.size, f);
        return seconds_since(begin);
    };
    const double size = static_cast<double>(x.size) * 4;
    const bool first = way == Way::First;
    float *const a = x.a.get();
    const float *const b = x.b.get(), *const c = x.c.get();
    switch (traffic) {
    case Traffic::Copy:
        return 2 * size /
               seconds([&](int64_t i, int64_t e) { first ? copy(a, b, i, e) : copy_again(a, b, i, e); });
    case Traffic::Triad:
        return 3 * size / seconds([&](int64_t i, int64_t e) {
                   first ? triad(a, b, c, 3.0f, i, e) : triad_again(a, b, c, 3.0f, i, e);
               });
    case Traffic::Read:
        break;
    }
    return size / seconds([&](int64_t i, int64_t e) { x.sink = first ? sum(a, i, e) : sum_again(a, i, e); });
}

} // namespace lz::bench
