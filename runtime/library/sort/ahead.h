#pragma once
/// Which elements of a row may be among its first ones.

#include <cstdint>

namespace lz::runtime {

/// Elements that are compared together.
inline constexpr int64_t kTogether = 64;

/// Of kTogether elements from `begin` on those that may come before a bound: one bit each.
struct Ahead {
    int64_t begin;
    uint64_t places;
};

/// Looks through the elements of a row from `from` on, kTogether at a time, until some of them may come
/// before `bound`; the last ones are looked at together with some before them, which have no bits. Where none
/// may, `places` is 0, and all have been looked at. Elements of which it is not known, as where NaNs are, are
/// among `places`. The row has at least kTogether elements.
template <class Storage>
using FindAhead = Ahead (*)(const Storage *row, int64_t from, int64_t extent, Storage bound);

/// For elements of these types: int8_t to int64_t, uint8_t, float and double.
template <class Storage>
FindAhead<Storage> find_ahead(bool descending);
/// For the bits of f16 (`infinity` 0x7C00) or bf16 (0x7F80) elements; null where each of them has to be
/// looked at.
FindAhead<uint16_t> find_half_ahead(uint16_t infinity, bool descending);

} // namespace lz::runtime
