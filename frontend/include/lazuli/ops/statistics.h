#pragma once
/// What values there are, how many of each, and where they belong in an order. Nothing here has a gradient.

#include "lazuli/tensor.h"

#include <optional>
#include <string_view>
#include <tuple>

namespace lz {

/// The distinct values of x in ascending order (whether `sorted` or not), of all elements as one row; where
/// each element of x is among them, i64 in x's shape; and how often each one occurs, i64. What was not asked
/// for is i64[0]. With an axis the distinct slices of it, in the order of their first elements that differ.
/// NaN is distinct from everything. Sync point: their number is not known before. Throws IndexError for an
/// axis out of range, ShapeError for slices without elements.
LZ_API std::tuple<Tensor, Tensor, Tensor> unique(const Tensor &x, bool sorted = true,
                                                 bool return_inverse = false, bool return_counts = false,
                                                 std::optional<int64_t> axis = std::nullopt,
                                                 Location loc = Location::current());
/// The same, where only neighbours that are equal count as one, in their order.
LZ_API std::tuple<Tensor, Tensor, Tensor> unique_consecutive(const Tensor &x, bool return_inverse = false,
                                                             bool return_counts = false,
                                                             std::optional<int64_t> axis = std::nullopt,
                                                             Location loc = Location::current());
/// As `unique` of the slices of an axis.
inline std::tuple<Tensor, Tensor, Tensor> unique_dim(const Tensor &x, int64_t axis, bool sorted = true,
                                                     bool return_inverse = false, bool return_counts = false,
                                                     Location loc = Location::current()) {
    return unique(x, sorted, return_inverse, return_counts, axis, loc);
}
/// As `unique_consecutive` of the slices of an axis.
inline std::tuple<Tensor, Tensor, Tensor> unique_dim_consecutive(const Tensor &x, int64_t axis,
                                                                 bool return_inverse = false,
                                                                 bool return_counts = false,
                                                                 Location loc = Location::current()) {
    return unique_consecutive(x, return_inverse, return_counts, axis, loc);
}
/// LibTorch's name of `unique`.
inline std::tuple<Tensor, Tensor, Tensor> _unique2(const Tensor &x, bool sorted = true,
                                                   bool return_inverse = false, bool return_counts = false,
                                                   Location loc = Location::current()) {
    return unique(x, sorted, return_inverse, return_counts, std::nullopt, loc);
}
/// The same without counts.
inline std::tuple<Tensor, Tensor> _unique(const Tensor &x, bool sorted = true, bool return_inverse = false,
                                          Location loc = Location::current()) {
    std::tuple<Tensor, Tensor, Tensor> all = unique(x, sorted, return_inverse, false, std::nullopt, loc);
    return {std::move(std::get<0>(all)), std::move(std::get<1>(all))};
}

/// How often each number from 0 on occurs in the row x of integers that are not negative, i64; or the sum of
/// `weights` where it does, f32 for weights of f32 and else f64. At least `minlength` numbers. Sync point:
/// the largest number is not known before. Throws DTypeError for other dtypes, ShapeError for another rank
/// and for weights of another shape, IndexError for a negative number.
LZ_FUNCTION(Tensor bincount, x, const Tensor &weights = {}, int64_t minlength = 0,
            Location loc = Location::current());
/// How many elements of x are in each of `bins` parts of [min, max] of equal width, in x's dtype; an element
/// at an inner bound counts for the part above, and those out of [min, max], and NaN, for none. Where min and
/// max are equal they are the extremes of x, and one less and more where these are equal, too; extremes that
/// are not finite are a StateError when it runs. Throws DTypeError unless x is of floats, ShapeError for no
/// parts, IndexError for bounds that are not finite or not in order.
LZ_FUNCTION(Tensor histc, x, int64_t bins = 100, const Scalar &min = 0, const Scalar &max = 0,
            Location loc = Location::current());

/// Where each of `values` belongs in the ascending row `sorted`: the number of elements below it, or with
/// `right` (or `side` "right") not above it; i64, or i32 if told so, in the shape of `values`. Of [..., n]
/// and values [..., m] each row is searched in the row of its place. `sorter`: the i64 positions that put
/// `sorted` in order, in its shape, where it is not. NaN counts as the largest. Throws ShapeError, DTypeError
/// for two dtypes, and StateError for another side, or for "left" beside `right`.
LZ_API Tensor searchsorted(const Tensor &sorted, const Tensor &values, bool out_int32 = false,
                           bool right = false, std::optional<std::string_view> side = std::nullopt,
                           const Tensor &sorter = {}, Location loc = Location::current());
/// The same of one number, in the dtype of `sorted`, which is a row: a 0-dim tensor.
LZ_API Tensor searchsorted(const Tensor &sorted, const Scalar &value, bool out_int32 = false,
                           bool right = false, std::optional<std::string_view> side = std::nullopt,
                           const Tensor &sorter = {}, Location loc = Location::current());
/// As searchsorted of x in the row `boundaries`.
LZ_FUNCTION(Tensor bucketize, x, const Tensor &boundaries, bool out_int32 = false, bool right = false,
            Location loc = Location::current());
/// The same of one number.
LZ_API Tensor bucketize(const Scalar &value, const Tensor &boundaries, bool out_int32 = false,
                        bool right = false, Location loc = Location::current());

} // namespace lz
