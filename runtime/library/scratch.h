#pragma once
/// The scratch of a library call, and loops whose threads have parts of it.

#include "ir/diagnostic.h"
#include "runtime/api/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lz::runtime {

/// Arrays in scratch begin at multiples of this.
inline constexpr int64_t kScratchAlignment = 64;
/// Bytes that `n` elements of T take in scratch.
template <class T>
constexpr int64_t scratch_for(int64_t n) {
    return (n * static_cast<int64_t>(sizeof(T)) + kScratchAlignment - 1) / kScratchAlignment *
           kScratchAlignment;
}

/// Hands out arrays one after another; what is in them is not known.
class Scratch {
public:
    explicit Scratch(std::span<std::byte> bytes) : rest_(bytes) {}
    template <class T>
    T *take(int64_t n) {
        const auto bytes = static_cast<size_t>(scratch_for<T>(n));
        LZ_CHECK(bytes <= rest_.size(), "a library function has less scratch than its rule asks for");
        auto *const array = reinterpret_cast<T *>(rest_.data());
        rest_ = rest_.subspan(bytes);
        return array;
    }

private:
    std::span<std::byte> rest_;
};

/// Runs f(begin, end, scratch) over [0, n) in ranges of at least `grain`, where each thread at work has
/// `bytes` of scratch of its own: as many threads as there is scratch for.
template <class F>
void parallel_for_with_scratch(int64_t n, int64_t grain, std::span<std::byte> scratch, int64_t bytes,
                               const F &f) {
    const int64_t room = static_cast<int64_t>(scratch.size()) / std::max<int64_t>(bytes, 1);
    LZ_CHECK(room >= 1 || n <= 0, "a library function has less scratch than its rule asks for");
    constexpr int64_t kPiecesPerThread = 8;
    const int64_t threads = std::min<int64_t>({room, num_threads(), std::max<int64_t>(n / grain, 1)});
    const int64_t pieces = std::min(std::max<int64_t>(n / grain, 1), threads * kPiecesPerThread);
    std::atomic<int64_t> next = 0;
    parallel_for(threads, 1, [&](int64_t first, int64_t last) {
        for (int64_t t = first; t < last; ++t)
            for (int64_t p; (p = next.fetch_add(1, std::memory_order_relaxed)) < pieces;)
                f(n * p / pieces, n * (p + 1) / pieces,
                  scratch.subspan(static_cast<size_t>(t * bytes), static_cast<size_t>(bytes)));
    });
}

} // namespace lz::runtime
