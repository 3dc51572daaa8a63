#include "runtime/library/sort/radix.h"

#include "runtime/api/parallel.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lz::runtime {

namespace {

constexpr int kDigitBits = 8, kMostDigits = 4;
static_assert(kDigits == 1 << kDigitBits);

size_t digit_of(Packed item, int shift) {
    return static_cast<size_t>(item.key() >> shift) & (kDigits - 1);
}

/// Each item to the next place of its digit.
void deal(const Packed *items, int64_t begin, int64_t end, int shift, uint32_t *places, Packed *to) {
    for (int64_t i = begin; i < end; ++i)
        to[places[digit_of(items[i], shift)]++] = items[i];
}

} // namespace

Packed *radix_sort(Packed *items, Packed *other, int64_t n, int bits) {
    if (n == 0)
        return items;
    uint32_t counts[kMostDigits][kDigits] = {};
    for (int64_t i = 0; i < n; ++i)
        for (int d = 0; d < kMostDigits; ++d)
            ++counts[d][digit_of(items[i], d * kDigitBits)];
    for (int d = 0; d * kDigitBits < bits; ++d) {
        uint32_t *const places = counts[d];
        if (places[digit_of(items[0], d * kDigitBits)] == n)
            continue;
        uint32_t sum = 0;
        for (int64_t k = 0; k < kDigits; ++k)
            sum += std::exchange(places[k], sum);
        deal(items, 0, n, d * kDigitBits, places, other);
        std::swap(items, other);
    }
    return items;
}

Packed *radix_sort_in_parts(Packed *items, Packed *other, int64_t n, int bits, int64_t parts,
                            uint32_t *counts) {
    if (num_threads() == 1)
        return radix_sort(items, other, n, bits);
    const auto begin_of = [&](int64_t part) { return n * part / parts; };
    for (int shift = 0; shift < bits; shift += kDigitBits) {
        parallel_for(parts, 1, [&](int64_t first, int64_t last) {
            for (int64_t p = first; p < last; ++p) {
                uint32_t mine[kDigits] = {};
                for (int64_t i = begin_of(p); i < begin_of(p + 1); ++i)
                    ++mine[digit_of(items[i], shift)];
                std::memcpy(counts + p * kDigits, mine, sizeof(mine));
            }
        });
        uint32_t sum = 0, most = 0;
        for (int64_t k = 0; k < kDigits; ++k) {
            const uint32_t before = sum;
            for (int64_t p = 0; p < parts; ++p)
                sum += std::exchange(counts[p * kDigits + k], sum);
            most = std::max(most, sum - before);
        }
        if (most == n)
            continue;
        parallel_for(parts, 1, [&](int64_t first, int64_t last) {
            for (int64_t p = first; p < last; ++p)
                deal(items, begin_of(p), begin_of(p + 1), shift, counts + p * kDigits, other);
        });
        std::swap(items, other);
    }
    return items;
}

} // namespace lz::runtime
