#pragma once
/// Boxes of elements that lie at any strides in memory, made dense: runs are copied, planes whose rows are
/// another axis in memory are transposed in registers, elements a step apart are picked.

#include <cstddef>
#include <cstdint>
#include <span>

namespace lz::runtime {

struct BoxDim {
    int64_t extent;
    int64_t from, to; ///< bytes from one to the next
};
inline constexpr size_t kMostBoxDims = 12;

/// Copies a box of elements of `size` (1, 2, 4 or 8) bytes; dims from the outermost to the innermost in the
/// result, at most kMostBoxDims.
void copy_box(const std::byte *from, std::byte *to, std::span<const BoxDim> dims, int64_t size);
/// The same past the caches; false, and nothing done, unless the box is whole lines of the result and the
/// machine has a way.
bool copy_box_past_caches(const std::byte *from, std::byte *to, std::span<const BoxDim> dims, int64_t size);

/// Runs of `bytes` neighbouring bytes each: `rows` of them, `row` and `pitch` bytes apart.
void copy_runs(const std::byte *from, int64_t row, int64_t bytes, int64_t rows, std::byte *to, int64_t pitch);

/// `count` elements of `size` bytes, `step` bytes apart, as neighbours.
void copy_stepped(const std::byte *from, int64_t step, int64_t count, std::byte *to, int64_t size);

} // namespace lz::runtime
