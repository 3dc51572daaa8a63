#pragma once
/// How what runs along an axis is shared among threads where its lines are neighbours in memory.

#include "runtime/api/parallel.h"

#include <algorithm>
#include <cstdint>

namespace lz::runtime {

/// Elements worth handing to another thread.
inline constexpr int64_t kScanRange = 16384;
/// Running values side by side across `inner`.
inline constexpr int64_t kScanColumns = 256;

/// Calls f(first, columns) for blocks of up to kScanColumns neighbouring columns of an array (outer, extent,
/// inner) that has elements; `first` is the number of the first element of the first of them.
template <class F>
void for_column_blocks(int64_t outer, int64_t extent, int64_t inner, const F &f) {
    const int64_t blocks = (inner + kScanColumns - 1) / kScanColumns, width = std::min(inner, kScanColumns);
    parallel_for(outer * blocks, kScanRange / (width * extent) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
            const int64_t column = b % blocks * kScanColumns;
            f(b / blocks * extent * inner + column, std::min(kScanColumns, inner - column));
        }
    });
}

} // namespace lz::runtime
