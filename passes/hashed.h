#pragma once
/// Numbers in keys, of which some may depend on the extents of the graph when the passes run with numbers
/// that remember how they were computed (traced/int.h). Such a number may be looked at in a comparison, which
/// is noted, and in no other way.

#include <concepts>
#include <cstdint>

namespace lz::passes {

/// Of a number, for a hash behind which comparisons stand. All numbers of the second build are alike.
template <class T>
constexpr uint64_t hashed(T number) {
    if constexpr (std::integral<T>)
        return static_cast<uint64_t>(number);
    else
        return 0;
}

/// Of a number, for keys of which nothing but speed depends. Equal only for numbers that are equal whatever
/// the extents are.
template <class T>
constexpr uint64_t identity(T number) {
    if constexpr (std::integral<T>)
        return static_cast<uint64_t>(number);
    else
        return number.identity();
}

} // namespace lz::passes
