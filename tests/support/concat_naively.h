#pragma once
/// The library's `concat` (runtime/api/library.h) by plain loops.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace lz::test {

inline void concat_naively(std::span<std::byte *const> buffers, std::span<const int64_t> ints) {
    const int64_t size = ints[0];
    const auto slabs = ints.subspan(3, static_cast<size_t>(ints[2]));
    const int64_t rows = ints[3 + slabs.size()];
    const auto unrolled = ints.subspan(5 + slabs.size(), static_cast<size_t>(ints[4 + slabs.size()]));
    const auto parts = ints.subspan(5 + slabs.size() + unrolled.size());
    std::byte *to = buffers.back();
    const auto product = [](std::span<const int64_t> extents) {
        int64_t n = 1;
        for (const int64_t e : extents)
            n *= e;
        return n;
    };
    /// Where point number `n` of axes lies.
    const auto offset = [](int64_t n, std::span<const int64_t> extents, std::span<const int64_t> strides) {
        int64_t at = 0;
        for (size_t d = extents.size(); d-- > 0; n /= extents[d])
            at += n % extents[d] * strides[d];
        return at;
    };
    for (int64_t s = 0; s < product(slabs); ++s)
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t u = 0; u < product(unrolled); ++u)
                for (auto part = parts; !part.empty();) {
                    const std::byte *from = buffers[static_cast<size_t>(part[0])] + part[1] * size;
                    part = part.subspan(2);
                    int64_t at = offset(s, slabs, part) + r * part[slabs.size()];
                    part = part.subspan(slabs.size() + 1);
                    at += offset(u, unrolled, part);
                    part = part.subspan(unrolled.size());
                    const auto axes = static_cast<size_t>(part[0]);
                    int64_t extents[16], strides[16];
                    for (size_t d = 0; d < axes; ++d) {
                        extents[d] = part[1 + 2 * d];
                        strides[d] = part[2 + 2 * d];
                    }
                    const std::span<const int64_t> run(extents, axes);
                    for (int64_t e = 0; e < product(run); ++e, to += size)
                        std::memcpy(to, from + (at + offset(e, run, strides)) * size,
                                    static_cast<size_t>(size));
                    part = part.subspan(1 + 2 * axes);
                }
}

} // namespace lz::test
