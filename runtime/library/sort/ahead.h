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

/// Looks through elements from `begin` on, kTogether at a time while there are as many before `end`, until
/// some of them may come before `bound`. Where none may, `places` is 0, and `begin` is the first element that
/// was not looked at. Elements of which it is not known, as where NaNs are, are among `places`.
template <class Storage>
using FindAhead = Ahead (*)(const Storage *in, int64_t begin, int64_t end, Storage bound);

/// For elements of these types: int8_t to int64_t, uint8_t, float and double.
template <class Storage>
FindAhead<Storage> find_ahead(bool descending);
/// For the bits of f16 (`infinity` 0x7C00) or bf16 (0x7F80) elements; null where each of them has to be
/// looked at.
FindAhead<uint16_t> find_half_ahead(uint16_t infinity, bool descending);

} // namespace lz::runtime
