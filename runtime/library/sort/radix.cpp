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

/// How many items have each value of each of the lowest digits.
using Counts = uint32_t[kMostDigits][kDigits];
template <int Digits>
void count(const Packed *items, int64_t n, Counts &counts) {
    // Where neighbours have the same digit, one count would wait for the other: every second one is kept
    // apart.
    Counts others = {};
    int64_t i = 0;
    for (; i + 1 < n; i += 2)
#pragma GCC unroll 4
        for (int d = 0; d < Digits; ++d) {
            ++counts[d][digit_of(items[i], d * kDigitBits)];
            ++others[d][digit_of(items[i + 1], d * kDigitBits)];
        }
    for (int d = 0; d < Digits; ++d) {
        for (int64_t k = 0; k < kDigits; ++k)
            counts[d][k] += others[d][k];
        if (i < n)
            ++counts[d][digit_of(items[i], d * kDigitBits)];
    }
}
void count(const Packed *items, int64_t n, int digits, Counts &counts) {
    constexpr decltype(&count<1>) kCount[kMostDigits] = {count<1>, count<2>, count<3>, count<4>};
    kCount[digits - 1](items, n, counts);
}

/// Items are told apart, nearly all, by digits that have so many times as many values as there are items.
constexpr int kSpread = 8;

/// The lowest digit that items have to be dealt by where those below are left to `finish_by_insertion`:
/// digits are taken for independent of each other, and where they are not, that gives up.
int lowest_of(const Counts &counts, int64_t n, int digits) {
    double values = 1; // of equal frequency that would tell two items apart as often as the digits from d on
    for (int d = digits; d-- > 1;) {
        uint64_t squares = 0;
        for (const uint64_t c : counts[d])
            squares += c * c;
        values *= static_cast<double>(n) * static_cast<double>(n) / static_cast<double>(squares);
        if (values >= static_cast<double>(kSpread * n))
            return d;
    }
    return 0;
}

/// Sorts items, by keys and places, of which nearly all are in order. False if it takes more steps than there
/// are items: some are where they were then, and equal keys still in the order of their places.
bool finish_by_insertion(Packed *items, int64_t n) {
    int64_t steps = 0;
    for (int64_t i = 1; i < n; ++i) {
        if (!(items[i] < items[i - 1])) [[likely]]
            continue;
        const Packed item = items[i];
        int64_t at = i;
        for (; at > 0 && item < items[at - 1]; --at)
            items[at] = items[at - 1];
        items[at] = item;
        steps += i - at;
        if (steps > n)
            return false;
    }
    return true;
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
    const int lowest = lowest_of(counts, n, digits);
    const auto sort_by = [&](int d) {
        uint32_t *const places = counts[d];
        if (places[digit_of(items[0], d * kDigitBits)] == n)
            return;
        uint32_t sum = 0;
        for (int64_t k = 0; k < kDigits; ++k)
            sum += std::exchange(places[k], sum);
        deal(items, 0, n, d * kDigitBits, places, other);
        std::swap(items, other);
    };
    for (int d = lowest; d < digits; ++d)
        sort_by(d);
    if (lowest > 0 && !finish_by_insertion(items, n)) {
        std::memset(counts, 0, sizeof(counts));
        count(items, n, digits, counts);
        for (int d = 0; d < digits; ++d)
            sort_by(d);
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
