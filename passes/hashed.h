#pragma once
/// Numbers in keys, of which some may depend on the extents of the graph when the passes run with numbers
/// that remember how they were computed (traced/int.h). Such a number may be looked at in a comparison, which
/// is noted, and in no other way.

#include <concepts>
#include <cstdint>

namespace lz::passes {

/// Whether this is the second build, whose Programs are for many sizes.
inline constexpr bool kManySizes = !std::integral<int64_t>;

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

/// Whether two numbers differ, if that is known whatever the extents are; else false, and a comparison has to
/// say. For what may be asked first, because it is cheap.
template <class T>
constexpr bool surely_differ(T a, T b) {
    if constexpr (std::integral<T>)
        return a != b;
    else
        return a.is_constant() && b.is_constant() && a.value() != b.value();
}

} // namespace lz::passes
