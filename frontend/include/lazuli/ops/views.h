#pragma once
/// Other shapes and parts of tensors. All of them are values: a later change of `x` does not show in them
/// (S24). Negative axes and positions count from the end; one out of range throws IndexError.

#include "lazuli/core/options.h"
#include "lazuli/tensor.h"

#include <string_view>

namespace lz {

/// One extent may be -1: it is found from the number of elements.
LZ_FUNCTION(Tensor reshape, x, const Sizes &sizes, Location loc = Location::current());
/// As reshape: a value of its own (S24).
LZ_FUNCTION(Tensor view, x, const Sizes &sizes, Location loc = Location::current());
/// The axes from first to last, both included, as one.
LZ_FUNCTION(Tensor flatten, x, int64_t first_axis = 0, int64_t last_axis = -1,
            Location loc = Location::current());
/// One axis as several; one extent may be -1.
LZ_FUNCTION(Tensor unflatten, x, int64_t axis, const Sizes &sizes, Location loc = Location::current());
/// Swaps two axes.
LZ_FUNCTION(Tensor transpose, x, int64_t axis0, int64_t axis1, Location loc = Location::current());
/// Result axis i is axis axes[i] of x.
LZ_FUNCTION(Tensor permute, x, const Sizes &axes, Location loc = Location::current());
/// Moves an axis to another place; the others keep their order.
LZ_FUNCTION(Tensor movedim, x, int64_t from, int64_t to, Location loc = Location::current());
/// Axis from[i] goes to place to[i]; the others keep their order. Throws IndexError for lists of different
/// lengths and an axis that is named twice.
LZ_FUNCTION(Tensor movedim, x, const Sizes &from, const Sizes &to, Location loc = Location::current());
/// Transposes a matrix; a tensor of rank 0 or 1 is returned as it is.
LZ_FUNCTION(Tensor t, x, Location loc = Location::current());
/// Swaps the last two axes.
LZ_FUNCTION(Tensor mT, x, Location loc = Location::current());
/// Removes all axes of extent 1, or those among the given ones.
LZ_FUNCTION(Tensor squeeze, x, const Sizes &axes = {}, Location loc = Location::current());
/// A new axis of extent 1 before `axis`.
LZ_FUNCTION(Tensor unsqueeze, x, int64_t axis, Location loc = Location::current());
/// Broadcasts; -1 keeps an extent.
LZ_FUNCTION(Tensor expand, x, const Sizes &sizes, Location loc = Location::current());
/// Broadcasts to the shape of `like`.
LZ_FUNCTION(Tensor expand_as, x, const Tensor &like, Location loc = Location::current());
/// As expand.
LZ_FUNCTION(Tensor broadcast_to, x, const Sizes &sizes, Location loc = Location::current());
/// All in the shape to which they broadcast together.
LZ_API std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors,
                                             Location loc = Location::current());
/// The same.
LZ_API std::vector<Tensor> broadcast_tensors(std::initializer_list<Tensor> tensors,
                                             Location loc = Location::current());

/// Positions start, start + step, ... below stop; both are clipped to the axis. A negative step goes
/// backwards from `start`.
LZ_FUNCTION(Tensor slice, x, int64_t axis, std::optional<int64_t> start = std::nullopt,
            std::optional<int64_t> stop = std::nullopt, int64_t step = 1, Location loc = Location::current());
/// `length` positions of an axis from `start` on.
LZ_FUNCTION(Tensor narrow, x, int64_t axis, int64_t start, int64_t length,
            Location loc = Location::current());
/// One position of an axis, which goes away.
LZ_FUNCTION(Tensor select, x, int64_t axis, int64_t index, Location loc = Location::current());
/// Each of these axes backwards.
LZ_FUNCTION(Tensor flip, x, const Sizes &axes, Location loc = Location::current());
/// The diagonal of two axes as a new last axis; `offset` above (below) the main one.
LZ_FUNCTION(Tensor diagonal, x, int64_t offset = 0, int64_t axis0 = 0, int64_t axis1 = 1,
            Location loc = Location::current());

/// Joins along an axis; dtypes are promoted.
LZ_API Tensor cat(std::span<const Tensor> tensors, int64_t axis = 0, Location loc = Location::current());
LZ_API Tensor cat(std::initializer_list<Tensor> tensors, int64_t axis = 0,
                  Location loc = Location::current());
/// LibTorch's name of `cat`.
LZ_API Tensor concat(std::span<const Tensor> tensors, int64_t axis = 0, Location loc = Location::current());
/// The same.
LZ_API Tensor concat(std::initializer_list<Tensor> tensors, int64_t axis = 0,
                     Location loc = Location::current());
/// Joins along axis 1, or along axis 0 where the first one has one axis; numbers become [1] before. Throws as
/// `cat`.
LZ_API Tensor hstack(std::span<const Tensor> tensors, Location loc = Location::current());
LZ_API Tensor hstack(std::initializer_list<Tensor> tensors, Location loc = Location::current());
/// Joins along axis 0; numbers become [1, 1] and [n] becomes [1, n] before. Throws as `cat`.
LZ_API Tensor vstack(std::span<const Tensor> tensors, Location loc = Location::current());
LZ_API Tensor vstack(std::initializer_list<Tensor> tensors, Location loc = Location::current());
/// Of rows [n0], [n1], ... (or numbers) tensors that all have the shape [n0, n1, ...]: the k-th varies along
/// axis k alone. `indexing` is "ij", or "xy", which swaps the first two axes. Throws ShapeError for a tensor
/// of another rank, StateError for no tensor and another text.
LZ_API std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, std::string_view indexing = "ij",
                                    Location loc = Location::current());
LZ_API std::vector<Tensor> meshgrid(std::initializer_list<Tensor> tensors, std::string_view indexing = "ij",
                                    Location loc = Location::current());
/// Joins along a new axis.
LZ_API Tensor stack(std::span<const Tensor> tensors, int64_t axis = 0, Location loc = Location::current());
LZ_API Tensor stack(std::initializer_list<Tensor> tensors, int64_t axis = 0,
                    Location loc = Location::current());
/// Parts of `size` positions (the last may be smaller), or of the sizes given, which must add up to the
/// extent.
LZ_FUNCTION(std::vector<Tensor> split, x, int64_t size, int64_t axis = 0, Location loc = Location::current());
LZ_FUNCTION(std::vector<Tensor> split, x, std::initializer_list<int64_t> sizes, int64_t axis = 0,
            Location loc = Location::current());
/// As split with sizes.
LZ_FUNCTION(std::vector<Tensor> split_with_sizes, x, const Sizes &sizes, int64_t axis = 0,
            Location loc = Location::current());
/// `chunks` parts of equal size (the last may be smaller, and there may be fewer).
LZ_FUNCTION(std::vector<Tensor> chunk, x, int64_t chunks, int64_t axis = 0,
            Location loc = Location::current());
/// All positions of an axis, which goes away.
LZ_FUNCTION(std::vector<Tensor> unbind, x, int64_t axis = 0, Location loc = Location::current());
/// Pairs (before, after), the last axis first; a negative number cuts.
LZ_FUNCTION(Tensor pad, x, const Sizes &pairs, const Scalar &value = 0, Location loc = Location::current());
/// The same with other things than a number around (PaddingMode), axis by axis. Throws ShapeError where there
/// is not enough to put: mirrored less than the axis has, of the other end not more, and of the outermost
/// elements one.
LZ_FUNCTION(Tensor pad, x, const Sizes &pairs, PaddingMode mode, const Scalar &value = 0,
            Location loc = Location::current());
/// What leaves an axis at its end comes in at its start. Without axes the elements are rolled as one row.
LZ_FUNCTION(Tensor roll, x, const Sizes &shifts, const Sizes &axes = {}, Location loc = Location::current());
/// The elements on and below (above) the diagonal, else 0.
LZ_FUNCTION(Tensor tril, x, int64_t diagonal = 0, Location loc = Location::current());
/// The elements on and above the diagonal, else 0.
LZ_FUNCTION(Tensor triu, x, int64_t diagonal = 0, Location loc = Location::current());
/// Copies beside each other along each axis.
LZ_FUNCTION(Tensor repeat, x, const Sizes &repeats, Location loc = Location::current());
/// As `repeat`; where x has more axes than are named, the first ones are not repeated.
LZ_FUNCTION(Tensor tile, x, const Sizes &repeats, Location loc = Location::current());
/// Each position of the axis `repeats` times, one behind the other; without an axis, of the elements as one
/// row. Throws ShapeError for a negative number.
LZ_FUNCTION(Tensor repeat_interleave, x, int64_t repeats, std::optional<int64_t> axis = std::nullopt,
            Location loc = Location::current());
/// The same, each position as often as the integers [n] or [] of `repeats` say. Sync point: their sum is not
/// known before. Throws ShapeError for another number of them and for a negative one, DTypeError unless they
/// are i32 or i64.
LZ_FUNCTION(Tensor repeat_interleave, x, const Tensor &repeats, std::optional<int64_t> axis = std::nullopt,
            Location loc = Location::current());
/// Of [n] the square matrix that has it on a diagonal, else 0; of a matrix that diagonal. Throws ShapeError
/// for other ranks.
LZ_FUNCTION(Tensor diag, x, int64_t offset = 0, Location loc = Location::current());
/// All windows of `size` positions of an axis, each `step` behind the one before, along a new last axis: [..,
/// n,
/// ..] gives [.., (n - size) / step + 1, .., size]. A value, as all of these; where windows overlap it is
/// larger than x. Throws IndexError for a size that is negative or larger than the axis, and a step below 1.
LZ_FUNCTION(Tensor unfold, x, int64_t axis, int64_t size, int64_t step, Location loc = Location::current());

/// A new tensor of the same value.
LZ_FUNCTION(Tensor clone, x, Location loc = Location::current());
/// The tensor itself where nothing would change, else a converted or moved copy. Floats become integers by
/// saturation.
LZ_FUNCTION(Tensor to, x, DType dtype, Location loc = Location::current());
LZ_FUNCTION(Tensor to, x, const Device &device, Location loc = Location::current());
LZ_FUNCTION(Tensor to, x, const Device &device, DType dtype, Location loc = Location::current());
LZ_FUNCTION(Tensor to, x, const Device &device, const CopyOptions &options,
            Location loc = Location::current());
LZ_FUNCTION(Tensor to, x, const Device &device, DType dtype, const CopyOptions &options,
            Location loc = Location::current());
/// The same values in page-locked memory of the host (Tensor::pin_memory).
LZ_FUNCTION(Tensor pin_memory, x, Location loc = Location::current());

} // namespace lz
