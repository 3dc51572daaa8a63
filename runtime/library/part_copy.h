#pragma once
/// Rows of one part, wherever its elements lie in memory, as runs of a result.

#include "runtime/library/columns.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace lz::runtime {

/// Elements of a run: extent and stride of each of its axes.
int64_t elements_of(std::span<const int64_t> run);

/// Where rows go: to `to`, and to every `pitch` bytes from there.
struct RowsOut {
    std::byte *to;
    int64_t pitch;
    bool past_caches;
};

/// Runs from here on are stored past the caches one by one; shorter ones become whole lines first.
inline constexpr int64_t kLongRun = 1024;
/// Rows that are neighbours in memory are read so many at a time: some lines of each column.
inline constexpr int64_t kTurnedRows = 64;
/// What is put together before it is stored past the caches, where it cannot be stored at once.
inline constexpr int64_t kStage = 64 << 10;

/// Copies the bytes [skip, skip + bytes) of a part's runs in `rows` rows from `row` on; elements have `size`
/// bytes. `stage` has kStage bytes.
void copy_part(const Part &part, int64_t size, int64_t skip, int64_t bytes, int64_t row, int64_t rows,
               const RowsOut &out, std::byte *stage);

/// `bytes` to anywhere past the caches, but for what shares a line with others.
void store_run(std::byte *to, const std::byte *from, int64_t bytes);

} // namespace lz::runtime
