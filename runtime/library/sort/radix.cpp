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

/// How many items have each value of each of the lowest digits. Unrolled, it takes half the time (Zen 5).
using Counts = uint32_t[kMostDigits][kDigits];
template <int Digits>
void count(const Packed *items, int64_t n, Counts &counts) {
    for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 4
        for (int d = 0; d < Digits; ++d)
            ++counts[d][digit_of(items[i], d * kDigitBits)];
}
void count(const Packed *items, int64_t n, int digits, Counts &counts) {
    constexpr decltype(&count<1>) kCount[kMostDigits] = {count<1>, count<2>, count<3>, count<4>};
    kCount[digits - 1](items, n, counts);
}

} // namespace

Packed *radix_sort(Packed *items, Packed *other, int64_t n, int bits) {
    if (n < kRadixLength) {
        std::sort(items, items + n);
        return items;
    }
    const int digits = (bits + kDigitBits - 1) / kDigitBits;
    if (digits == 0)
        return items;
    Counts counts = {};
    count(items, n, digits, counts);
    for (int d = 0; d < digits; ++d) {
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

namespace {

/// One pass over items that threads share in parts.
class Shared {
public:
    Shared(int64_t n, int64_t parts, uint32_t *counts) : n_(n), parts_(parts), counts_(counts) {}

    /// How many items have each digit, by part; returns how many have that which most have.
    uint32_t count(const Packed *items, int shift) {
        parallel_for(parts_, 1, [&](int64_t first, int64_t last) {
            for (int64_t p = first; p < last; ++p) {
                uint32_t mine[kDigits] = {};
                for (int64_t i = begin_of(p); i < begin_of(p + 1); ++i)
                    ++mine[digit_of(items[i], shift)];
                std::memcpy(counts_ + p * kDigits, mine, sizeof(mine));
            }
        });
        uint32_t most = 0;
        for (int64_t k = 0; k < kDigits; ++k) {
            uint32_t with_digit = 0;
            for (int64_t p = 0; p < parts_; ++p)
                with_digit += counts_[p * kDigits + k];
            most = std::max(most, with_digit);
        }
        return most;
    }
    /// What was counted, each item to the next place of its digit. `ends`: of digits, in the result.
    void deal(const Packed *items, int shift, Packed *to, uint32_t *ends) {
        uint32_t sum = 0;
        for (int64_t k = 0; k < kDigits; ++k) {
            for (int64_t p = 0; p < parts_; ++p)
                sum += std::exchange(counts_[p * kDigits + k], sum);
            ends[k] = sum;
        }
        parallel_for(parts_, 1, [&](int64_t first, int64_t last) {
            for (int64_t p = first; p < last; ++p)
                runtime::deal(items, begin_of(p), begin_of(p + 1), shift, counts_ + p * kDigits, to);
        });
    }

private:
    int64_t begin_of(int64_t part) const { return n_ * part / parts_; }

    int64_t n_, parts_;
    uint32_t *counts_;
};

} // namespace

Packed *radix_sort_in_parts(Packed *items, Packed *other, int64_t n, int bits, int64_t parts,
                            uint32_t *counts) {
    Shared shared(n, parts, counts);
    uint32_t ends[kDigits];
    const int highest = (bits - 1) / kDigitBits * kDigitBits;
    if (highest > 0 && int64_t{2} * num_threads() * shared.count(items, highest) <= n) {
        shared.deal(items, highest, other, ends);
        parallel_for(kDigits, 1, [&](int64_t first, int64_t last) {
            for (int64_t k = first; k < last; ++k) {
                const uint32_t begin = k > 0 ? ends[k - 1] : 0, size = ends[k] - begin;
                const Packed *const at = radix_sort(other + begin, items + begin, size, highest);
                if (at != other + begin)
                    std::memcpy(other + begin, at, size * sizeof(Packed));
            }
        });
        return other;
    }
    if (num_threads() == 1)
        return radix_sort(items, other, n, bits);
    for (int shift = 0; shift < bits; shift += kDigitBits) {
        if (shared.count(items, shift) == n)
            continue;
        shared.deal(items, shift, other, ends);
        std::swap(items, other);
    }
    return items;
}

} // namespace lz::runtime
