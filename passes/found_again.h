#pragma once
/// What is a function of numbers alone, where a Program is made for many sizes: no comparison inside of it is
/// a condition of that Program, because it is called again for each size.

#include "passes/hashed.h"

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace lz::passes {

/// f(numbers), a list of numbers of which the first build makes nothing else. In the second build `f` is kept
/// and called with the numbers of other sizes: it may depend on nothing else that is not the same for all
/// sizes, and holds what it needs by value. How many numbers it gives has to be the same for all sizes; so do
/// those that are converted to another type (traced/int.h): a structure that was found so has to be found
/// again.
template <class T, class F>
std::vector<T> found_again(const std::vector<T> &numbers, F f) {
    if constexpr (std::integral<T>)
        return f(numbers);
    else
        return call_again(numbers, std::move(f));
}

/// A pointer to `x` that f may hold: to x itself in the first build, which calls f at once, to a copy in the
/// second.
template <class T>
auto pointer_for_again(const T &x) {
    if constexpr (std::integral<int64_t>)
        return &x;
    else
        return std::make_shared<const T>(x);
}

} // namespace lz::passes
