#include "bench/support/ceilings.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

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

/// Threads that stay: starting them would count as time of a pass.
class Team {
public:
    using Part = std::function<void(int64_t, int64_t)>;

    explicit Team(int threads) : threads_(threads) {
        for (int t = 1; t < threads; ++t)
            workers_.emplace_back([this, t] { work(t); });
    }
    ~Team() {
        part_ = nullptr;
        start();
        for (std::thread &worker : workers_)
            worker.join();
    }
    Team(const Team &) = delete;
    Team &operator=(const Team &) = delete;

    /// Runs f(begin, end) on equal parts of [0, n), multiples of 64 elements, one a thread.
    void run(int64_t n, const Part &f) {
        part_ = &f;
        size_ = n;
        busy_.store(threads_ - 1, std::memory_order_relaxed);
        start();
        run_part(0);
        for (int left = busy_.load(); left != 0; left = busy_.load())
            busy_.wait(left);
    }

private:
    void start() {
        round_.fetch_add(1);
        round_.notify_all();
    }
    void run_part(int t) {
        const int64_t part = (size_ / threads_ + 63) / 64 * 64;
        (*part_)(std::min(size_, t * part), std::min(size_, (t + 1) * part));
    }
    void work(int t) {
        for (int seen = 0;; ++seen) {
            round_.wait(seen);
            if (!part_)
                return;
            run_part(t);
            busy_.fetch_sub(1);
            busy_.notify_all();
        }
    }

    const int threads_;
    const Part *part_ = nullptr;
    int64_t size_ = 0;
    std::atomic<int> round_ = 0, busy_ = 0;
    std::vector<std::thread> workers_;
};

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
// The same with 16-byte accesses, from the end to the begin.
void triad_again(float *a, const float *b, const float *c, float s, int64_t begin, int64_t i) {
    const __m128 scale = _mm_set1_ps(s);
    for (; i - 16 >= begin; i -= 16)
        for (int64_t k = i - 4; k >= i - 16; k -= 4)
            _mm_stream_ps(a + k, _mm_add_ps(_mm_mul_ps(scale, _mm_loadu_ps(c + k)), _mm_loadu_ps(b + k)));
    _mm_sfence();
}
void copy_again(float *a, const float *b, int64_t begin, int64_t i) {
    for (; i - 16 >= begin; i -= 16)
        for (int64_t k = i - 4; k >= i - 16; k -= 4)
            _mm_stream_ps(a + k, _mm_loadu_ps(b + k));
    _mm_sfence();
}
float sum_again(const float *a, int64_t begin, int64_t i) {
    __m128 s[8] = {};
    for (; i - 32 >= begin; i -= 32)
        for (int k = 0; k < 8; ++k)
            s[k] = _mm_add_ps(s[k], _mm_loadu_ps(a + i - 4 * (k + 1)));
    for (int k = 1; k < 8; ++k)
        s[0] = _mm_add_ps(s[0], s[k]);
    return _mm_cvtss_f32(s[0]);
}

// Twelve chains, each in a register of its own: written out, because a loop over an array may stay in memory.
// They begin with different values: equal chains are one chain to a compiler.
#define LZ_CHAINS(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define LZ_BEGIN_256(k) __m256 c##k = _mm256_set1_ps(1.0f + k * 0.125f);
#define LZ_STEP_256(k) c##k = _mm256_fmadd_ps(c##k, m, d);
#define LZ_ADD_256(k) all = _mm256_add_ps(all, c##k);
#define LZ_BEGIN_512(k) __m512 c##k = _mm512_set1_ps(1.0f + k * 0.125f);
#define LZ_STEP_512(k) c##k = _mm512_fmadd_ps(c##k, m, d);
#define LZ_ADD_512(k) all = _mm512_add_ps(all, c##k);
// The instructions themselves, which no compiler can merge or leave out.
#define LZ_ASM_STEP(k) asm volatile("vfmadd213ps %2, %1, %0" : "+v"(c##k) : "v"(m), "v"(d));

[[gnu::target("avx2,fma")]] double fma_chain(int64_t rounds) {
    LZ_CHAINS(LZ_BEGIN_256)
    const __m256 m = _mm256_set1_ps(0.999f), d = _mm256_set1_ps(0.001f);
    for (int64_t r = 0; r < rounds; ++r) {
        LZ_CHAINS(LZ_STEP_256)
    }
    __m256 all = _mm256_setzero_ps();
    LZ_CHAINS(LZ_ADD_256)
    return static_cast<double>(_mm256_cvtss_f32(all));
}
[[gnu::target("avx2,fma")]] double fma_chain_again(int64_t rounds) {
    LZ_CHAINS(LZ_BEGIN_256)
    const __m256 m = _mm256_set1_ps(0.999f), d = _mm256_set1_ps(0.001f);
    for (int64_t r = 0; r < rounds; ++r) {
        LZ_CHAINS(LZ_ASM_STEP)
    }
    __m256 all = _mm256_setzero_ps();
    LZ_CHAINS(LZ_ADD_256)
    return static_cast<double>(_mm256_cvtss_f32(all));
}
[[gnu::target("avx512f")]] double fma_chain_512(int64_t rounds) {
    LZ_CHAINS(LZ_BEGIN_512)
    const __m512 m = _mm512_set1_ps(0.999f), d = _mm512_set1_ps(0.001f);
    for (int64_t r = 0; r < rounds; ++r) {
        LZ_CHAINS(LZ_STEP_512)
    }
    __m512 all = _mm512_setzero_ps();
    LZ_CHAINS(LZ_ADD_512)
    return static_cast<double>(_mm512_cvtss_f32(all));
}
[[gnu::target("avx512f")]] double fma_chain_512_again(int64_t rounds) {
    LZ_CHAINS(LZ_BEGIN_512)
    const __m512 m = _mm512_set1_ps(0.999f), d = _mm512_set1_ps(0.001f);
    for (int64_t r = 0; r < rounds; ++r) {
        LZ_CHAINS(LZ_ASM_STEP)
    }
    __m512 all = _mm512_setzero_ps();
    LZ_CHAINS(LZ_ADD_512)
    return static_cast<double>(_mm512_cvtss_f32(all));
}
/// Rounds of 12 fused multiply-adds of the widest vectors; gives the operations of one round.
int64_t run_fma_chain(int64_t rounds, double &sink, Way way) {
    const bool wide = __builtin_cpu_supports("avx512f");
    if (way == Way::First)
        sink = wide ? fma_chain_512(rounds) : fma_chain(rounds);
    else
        sink = wide ? fma_chain_512_again(rounds) : fma_chain_again(rounds);
    return 12 * 2 * (wide ? 16 : 8);
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
template <int chains>
double fma_chain(int64_t rounds) {
    float acc[chains];
    for (int k = 0; k < chains; ++k)
        acc[k] = 1.0f + static_cast<float>(k) * 0.125f;
    for (int64_t r = 0; r < rounds; ++r)
        for (float &a : acc)
            a = __builtin_fmaf(a, 0.999f, 0.001f);
    double all = 0;
    for (const float a : acc)
        all += static_cast<double>(a);
    return all;
}
int64_t run_fma_chain(int64_t rounds, double &sink, Way way) {
    sink = way == Way::First ? fma_chain<64>(rounds) : fma_chain<96>(rounds);
    return (way == Way::First ? 64 : 96) * 2;
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

double measure_flops(int threads, Way way) {
    constexpr int64_t kRounds = 4'000'000;
    std::atomic<double> sink = 0;
    std::atomic<int64_t> per_round = 0;
    Team team(threads);
    std::vector<double> times;
    for (int repeat = 0; repeat < 6; ++repeat) {
        const auto begin = Clock::now();
        team.run(64 * int64_t{threads}, [&](int64_t, int64_t) {
            double value = 0;
            per_round = run_fma_chain(kRounds, value, way);
            sink = value;
        });
        times.push_back(seconds_since(begin));
    }
    times.erase(times.begin()); // warms up
    std::ranges::sort(times);
    return static_cast<double>(kRounds * per_round) * threads / times[times.size() / 2];
}

} // namespace lz::bench
