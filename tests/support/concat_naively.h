#pragma once
/// The library's `concat` (runtime/api/library.h) by plain loops.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace lz::test {

inline void concat_naively(std::span<std::byte *const> buffers, std::span<const int64_t> ints) {
    const int64_t size = ints[0], rows = ints[2];
    std::byte *to = buffers.back();
    for (int64_t r = 0; r < rows; ++r)
        for (auto part = ints.subspan(3); !part.empty(); part = part.subspan(5))
            for (int64_t i = 0; i < part[1]; ++i, to += size)
                std::memcpy(
                    to, buffers[static_cast<size_t>(part[0])] + (part[4] + r * part[2] + i * part[3]) * size,
                    static_cast<size_t>(size));
}

} // namespace lz::test
