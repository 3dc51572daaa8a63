#pragma once
/// Memory of the host as the system gives it.

#include <cstddef>

namespace lz::runtime {

inline constexpr size_t kHugePage = size_t{2} << 20;
/// Blocks past this are compared with what the system says it has: overcommit would grant and then kill us.
inline constexpr size_t kAskSystem = size_t{256} << 20;

constexpr size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/// What the machine or the container has.
size_t physical_memory();
/// What can be had without swapping.
size_t available_memory();
/// Maps a multiple of the huge page at a multiple of it; nullptr when the system refuses. Its pages are
/// ordinary ones.
void *map_aligned(size_t bytes);
/// Lets such memory, or a part that begins and ends at multiples of the huge page, have huge pages at first
/// touch where the system gives them.
void allow_huge_pages(void *memory, size_t bytes);
/// Moves what is there in ordinary pages to huge ones, too; other threads may use it meanwhile.
void move_to_huge_pages(void *memory, size_t bytes);

} // namespace lz::runtime
