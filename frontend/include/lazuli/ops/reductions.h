#pragma once
/// Reductions, scans, sorting. Without axes (or with none named) all axes are reduced; `keepdim` leaves them
/// with extent 1. Sums and products of integers and bool are i64; half types accumulate in f32.

#include "lazuli/tensor.h"

#include <concepts>
#include <string_view>
#include <tuple>

namespace lz {

/// What `max(x, axis)`, `sort`, `topk` and `median` give: `auto [values, indices] = x.max(1)`. It is a tuple,
/// as in LibTorch: `std::get<0>(x.max(1))`, `std::tie(values, indices) = x.max(1)`.
class ValuesIndices : public std::tuple<Tensor, Tensor> {
public:
    /// Two empty tensors.
    ValuesIndices() = default;
    /// Of these.
    ValuesIndices(Tensor values, Tensor indices) : tuple(std::move(values), std::move(indices)) {}
    /// The same tensors.
    ValuesIndices(const ValuesIndices &other) : tuple(other) {}
    /// Takes over the tensors.
    ValuesIndices(ValuesIndices &&other) noexcept : tuple(std::move(other)) {}
    /// From now on the other's tensors.
    ValuesIndices &operator=(const ValuesIndices &other) {
        tuple::operator=(other);
        return *this;
    }
    /// The same.
    ValuesIndices &operator=(ValuesIndices &&other) noexcept {
        tuple::operator=(std::move(other));
        return *this;
    }

    /// In the dtype of the operand.
    Tensor &values = std::get<0>(*this);
    Tensor &indices = std::get<1>(*this); ///< i64
};

/// The sum; in `dtype` if one is given.
LZ_FUNCTION(Tensor sum, x, const Sizes &axes = {}, bool keepdim = false,
            std::optional<DType> dtype = std::nullopt, Location loc = Location::current());
/// The product; in `dtype` if one is given.
LZ_FUNCTION(Tensor prod, x, const Sizes &axes = {}, bool keepdim = false,
            std::optional<DType> dtype = std::nullopt, Location loc = Location::current());
/// Throws DTypeError for integers: name a floating dtype.
LZ_FUNCTION(Tensor mean, x, const Sizes &axes = {}, bool keepdim = false,
            std::optional<DType> dtype = std::nullopt, Location loc = Location::current());
/// Divided by the number of elements less `correction` (0 or `false`: of the population).
LZ_FUNCTION(Tensor var, x, const Sizes &axes = {}, int64_t correction = 1, bool keepdim = false,
            Location loc = Location::current());
/// The square root of `var`.
LZ_FUNCTION(Tensor std, x, const Sizes &axes = {}, int64_t correction = 1, bool keepdim = false,
            Location loc = Location::current());
/// The same of all elements: of the sample, or unless `unbiased` of the population.
Tensor var(const Tensor &x, std::same_as<bool> auto unbiased, Location loc = Location::current()) {
    return var(x, Sizes(), unbiased ? 1 : 0, false, loc);
}
/// The same.
Tensor std(const Tensor &x, std::same_as<bool> auto unbiased, Location loc = Location::current()) {
    return std(x, Sizes(), unbiased ? 1 : 0, false, loc);
}
/// `var` and `mean`.
LZ_API std::tuple<Tensor, Tensor> var_mean(const Tensor &x, const Sizes &axes = {}, int64_t correction = 1,
                                           bool keepdim = false, Location loc = Location::current());
/// `std` and `mean`.
LZ_API std::tuple<Tensor, Tensor> std_mean(const Tensor &x, const Sizes &axes = {}, int64_t correction = 1,
                                           bool keepdim = false, Location loc = Location::current());
/// Of all elements: of the sample, or unless `unbiased` of the population.
std::tuple<Tensor, Tensor> var_mean(const Tensor &x, std::same_as<bool> auto unbiased,
                                    Location loc = Location::current()) {
    return var_mean(x, Sizes(), unbiased ? 1 : 0, false, loc);
}
/// The same.
std::tuple<Tensor, Tensor> std_mean(const Tensor &x, std::same_as<bool> auto unbiased,
                                    Location loc = Location::current()) {
    return std_mean(x, Sizes(), unbiased ? 1 : 0, false, loc);
}
/// NaN is the extreme where there is one.
LZ_FUNCTION(Tensor amax, x, const Sizes &axes = {}, bool keepdim = false, Location loc = Location::current());
/// The smallest; NaN is the extreme where there is one.
LZ_FUNCTION(Tensor amin, x, const Sizes &axes = {}, bool keepdim = false, Location loc = Location::current());
/// The largest of all.
LZ_FUNCTION(Tensor max, x, Location loc = Location::current());
/// The smallest of all.
LZ_FUNCTION(Tensor min, x, Location loc = Location::current());
/// The largest along an axis and where it is, the first of equals.
LZ_FUNCTION(ValuesIndices max, x, int64_t axis, bool keepdim = false, Location loc = Location::current());
/// The smallest along an axis and where it is, the first of equals.
LZ_FUNCTION(ValuesIndices min, x, int64_t axis, bool keepdim = false, Location loc = Location::current());
LZ_FUNCTION(Tensor max, a, const Tensor &b, Location loc = Location::current()); ///< maximum
LZ_FUNCTION(Tensor min, a, const Tensor &b, Location loc = Location::current()); ///< minimum
/// i64; the first of equals. Without an axis: the position in row-major order.
LZ_FUNCTION(Tensor argmax, x, std::optional<int64_t> axis = std::nullopt, bool keepdim = false,
            Location loc = Location::current());
/// As argmax, of the smallest.
LZ_FUNCTION(Tensor argmin, x, std::optional<int64_t> axis = std::nullopt, bool keepdim = false,
            Location loc = Location::current());
/// bool: whether one is not 0.
LZ_FUNCTION(Tensor any, x, const Sizes &axes = {}, bool keepdim = false, Location loc = Location::current());
/// bool: whether none is 0.
LZ_FUNCTION(Tensor all, x, const Sizes &axes = {}, bool keepdim = false, Location loc = Location::current());
/// log(sum(exp(x))), without overflow.
LZ_FUNCTION(Tensor logsumexp, x, const Sizes &axes, bool keepdim = false, Location loc = Location::current());
/// (sum |x|^p)^(1/p); p may be infinite or 0.
LZ_FUNCTION(Tensor norm, x, double p = 2, const Sizes &axes = {}, bool keepdim = false,
            Location loc = Location::current());
/// Sums of all elements up to each along an axis; of integers and bool i64.
LZ_FUNCTION(Tensor cumsum, x, int64_t axis, std::optional<DType> dtype = std::nullopt,
            Location loc = Location::current());
/// Products of all elements up to each along an axis; of integers and bool i64.
LZ_FUNCTION(Tensor cumprod, x, int64_t axis, std::optional<DType> dtype = std::nullopt,
            Location loc = Location::current());

/// The largest of all elements up to each along an axis, and where the last of these is. From the first NaN
/// on it is NaN.
LZ_FUNCTION(ValuesIndices cummax, x, int64_t axis, Location loc = Location::current());
/// The smallest, likewise.
LZ_FUNCTION(ValuesIndices cummin, x, int64_t axis, Location loc = Location::current());

/// Stable. NaN counts as the largest.
LZ_FUNCTION(ValuesIndices sort, x, int64_t axis = -1, bool descending = false,
            Location loc = Location::current());
/// The indices of `sort`.
LZ_FUNCTION(Tensor argsort, x, int64_t axis = -1, bool descending = false,
            Location loc = Location::current());
/// The k largest (smallest) in order.
LZ_FUNCTION(ValuesIndices topk, x, int64_t k, int64_t axis = -1, bool largest = true,
            Location loc = Location::current());
/// The same: they are sorted in any case.
LZ_FUNCTION(ValuesIndices topk, x, int64_t k, int64_t axis, bool largest, bool sorted,
            Location loc = Location::current());
/// How many elements are not 0, as i64; NaN counts.
LZ_FUNCTION(Tensor count_nonzero, x, const Sizes &axes = {}, Location loc = Location::current());
/// The middle one of a sorted row, the lower of two, and where it is: the first of equals. NaN where there is
/// one. Throws IndexError for an axis without elements.
LZ_FUNCTION(ValuesIndices median, x, int64_t axis, bool keepdim = false, Location loc = Location::current());
/// The same of all elements; NaN of none. All that are the median share the gradient.
LZ_FUNCTION(Tensor median, x, Location loc = Location::current());
/// The k-th smallest along an axis, from 1, and where it is. NaN counts as the largest. Throws IndexError.
LZ_FUNCTION(ValuesIndices kthvalue, x, int64_t k, int64_t axis = -1, bool keepdim = false,
            Location loc = Location::current());
/// What the part q of an axis's elements, or without an axis of all, is below: at place q (n - 1) of them in
/// order, NaN where one of them is. Between two places it is what `interpolation` says: "linear", "lower",
/// "higher", "midpoint" or "nearest". Several q, a row in x's dtype, stand along a new first axis. Throws
/// DTypeError unless x is of f32 or f64, ShapeError for no elements and for other ranks of q, IndexError for
/// a number q out of [0, 1] (of a tensor: StateError when it runs), StateError for another interpolation.
LZ_FUNCTION(Tensor quantile, x, double q, std::optional<int64_t> axis = std::nullopt, bool keepdim = false,
            std::string_view interpolation = "linear", Location loc = Location::current());
LZ_FUNCTION(Tensor quantile, x, const Tensor &q, std::optional<int64_t> axis = std::nullopt,
            bool keepdim = false, std::string_view interpolation = "linear",
            Location loc = Location::current());
/// The same of the elements that are not NaN; NaN where all are.
LZ_FUNCTION(Tensor nanquantile, x, double q, std::optional<int64_t> axis = std::nullopt, bool keepdim = false,
            std::string_view interpolation = "linear", Location loc = Location::current());
LZ_FUNCTION(Tensor nanquantile, x, const Tensor &q, std::optional<int64_t> axis = std::nullopt,
            bool keepdim = false, std::string_view interpolation = "linear",
            Location loc = Location::current());

} // namespace lz

/// For `auto [values, indices] = ...`.
template <>
struct std::tuple_size<lz::ValuesIndices> : std::integral_constant<size_t, 2> {};
template <size_t i>
struct std::tuple_element<i, lz::ValuesIndices> {
    /// Both.
    using type = lz::Tensor;
};
