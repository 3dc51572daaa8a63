#pragma once
/// Reductions, scans, sorting. Without axes (or with none named) all axes are reduced; `keepdim` leaves them
/// with extent 1. Sums and products of integers and bool are i64; half types accumulate in f32.

#include "lazuli/tensor.h"

namespace lz {

/// What `max(x, axis)`, `sort` and `topk` give: `auto [values, indices] = ...`.
struct ValuesIndices {
    Tensor values;
    Tensor indices; ///< i64
};

LZ_API Tensor sum(const Tensor &x, const Sizes &axes = {}, bool keepdim = false,
                  std::optional<DType> dtype = std::nullopt, Location loc = Location::current());
LZ_API Tensor prod(const Tensor &x, const Sizes &axes = {}, bool keepdim = false,
                   std::optional<DType> dtype = std::nullopt, Location loc = Location::current());
/// Throws DTypeError for integers: name a floating dtype.
LZ_API Tensor mean(const Tensor &x, const Sizes &axes = {}, bool keepdim = false,
                   std::optional<DType> dtype = std::nullopt, Location loc = Location::current());
/// Divided by the number of elements less `correction` (0 or `false`: of the population).
LZ_API Tensor var(const Tensor &x, const Sizes &axes = {}, int64_t correction = 1, bool keepdim = false,
                  Location loc = Location::current());
LZ_API Tensor std(const Tensor &x, const Sizes &axes = {}, int64_t correction = 1, bool keepdim = false,
                  Location loc = Location::current());
/// NaN is the extreme where there is one.
LZ_API Tensor amax(const Tensor &x, const Sizes &axes = {}, bool keepdim = false,
                   Location loc = Location::current());
LZ_API Tensor amin(const Tensor &x, const Sizes &axes = {}, bool keepdim = false,
                   Location loc = Location::current());
LZ_API Tensor max(const Tensor &x, Location loc = Location::current());
LZ_API Tensor min(const Tensor &x, Location loc = Location::current());
LZ_API ValuesIndices max(const Tensor &x, int64_t axis, bool keepdim = false,
                         Location loc = Location::current());
LZ_API ValuesIndices min(const Tensor &x, int64_t axis, bool keepdim = false,
                         Location loc = Location::current());
LZ_API Tensor max(const Tensor &a, const Tensor &b, Location loc = Location::current()); ///< maximum
LZ_API Tensor min(const Tensor &a, const Tensor &b, Location loc = Location::current()); ///< minimum
/// i64; the first of equals. Without an axis: the position in row-major order.
LZ_API Tensor argmax(const Tensor &x, std::optional<int64_t> axis = std::nullopt, bool keepdim = false,
                     Location loc = Location::current());
LZ_API Tensor argmin(const Tensor &x, std::optional<int64_t> axis = std::nullopt, bool keepdim = false,
                     Location loc = Location::current());
LZ_API Tensor any(const Tensor &x, const Sizes &axes = {}, bool keepdim = false,
                  Location loc = Location::current());
LZ_API Tensor all(const Tensor &x, const Sizes &axes = {}, bool keepdim = false,
                  Location loc = Location::current());
LZ_API Tensor logsumexp(const Tensor &x, const Sizes &axes, bool keepdim = false,
                        Location loc = Location::current());
/// (sum |x|^p)^(1/p); p may be infinite or 0.
LZ_API Tensor norm(const Tensor &x, double p = 2, const Sizes &axes = {}, bool keepdim = false,
                   Location loc = Location::current());
LZ_API Tensor cumsum(const Tensor &x, int64_t axis, std::optional<DType> dtype = std::nullopt,
                     Location loc = Location::current());
LZ_API Tensor cumprod(const Tensor &x, int64_t axis, std::optional<DType> dtype = std::nullopt,
                      Location loc = Location::current());

/// Stable. NaN counts as the largest.
LZ_API ValuesIndices sort(const Tensor &x, int64_t axis = -1, bool descending = false,
                          Location loc = Location::current());
LZ_API Tensor argsort(const Tensor &x, int64_t axis = -1, bool descending = false,
                      Location loc = Location::current());
/// The k largest (smallest) in order.
LZ_API ValuesIndices topk(const Tensor &x, int64_t k, int64_t axis = -1, bool largest = true,
                          Location loc = Location::current());

} // namespace lz
