#pragma once
/// LibTorch's names of lists that a function is given.

#include "lazuli/tensor.h"

#include <initializer_list>
#include <span>
#include <vector>

namespace lz {

/// A view of values that lie one after the other, which somebody else owns for as long as it is used: to be
/// written as the type of a parameter, which then takes `{a, b}`, vectors, arrays and spans.
template <class T>
class ArrayRef : public std::span<const T> {
public:
    /// None.
    ArrayRef() = default;
    /// Those.
    ArrayRef(std::span<const T> values) : std::span<const T>(values) {} // NOLINT: converts
    /// Those of a vector.
    ArrayRef(const std::vector<T> &values) : std::span<const T>(values) {} // NOLINT: converts
    /// Those of braces, which live to the end of the expression.
    ArrayRef(std::initializer_list<T> values) // NOLINT: converts
        : std::span<const T>(values.begin(), values.size()) {}
    /// One.
    ArrayRef(const T &value) : std::span<const T>(&value, 1) {} // NOLINT: converts
    /// `size` of them.
    ArrayRef(const T *values, size_t size) : std::span<const T>(values, size) {}

    /// A copy.
    std::vector<T> vec() const { return {this->begin(), this->end()}; }
    /// `size` of them from `begin` on.
    ArrayRef slice(size_t begin, size_t size) const { return {this->data() + begin, size}; }
};

/// Of extents: has values of its own, so that `IntArrayRef sizes = x.sizes();` is right.
template <>
class ArrayRef<int64_t> : public Sizes {
public:
    using Sizes::Sizes;
    /// None.
    ArrayRef() = default;
    /// A copy.
    ArrayRef(const Sizes &sizes) : Sizes(sizes) {} // NOLINT: converts
    /// `size` of them.
    ArrayRef(const int64_t *values, size_t size) { assign(values, values + size); }
    /// `size` of them from `begin` on.
    ArrayRef slice(size_t begin, size_t size) const { return {data() + begin, size}; }
};

using IntArrayRef = ArrayRef<int64_t>; ///< LibTorch's name.
using TensorList = ArrayRef<Tensor>;   ///< LibTorch's name.

} // namespace lz
