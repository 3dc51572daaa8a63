#pragma once
/// Operations that are library calls and not generated kernels. A step of kind Library names one by its
/// symbol.

#include "ir/dtype.h"
#include "ir/kernel/compiled_kernel.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace lz::runtime {

struct LibraryArgs {
    std::span<void *const> buffers;
    std::span<const int64_t> ints;
    ir::Fault *fault;
};

/// A function, or nothing.
class LibraryFn {
public:
    using Plain = void (*)(const LibraryArgs &);
    using Bound = void (*)(const void *self, const LibraryArgs &);
    LibraryFn(std::nullptr_t = nullptr) {} // NOLINT: stands for a pointer
    template <class F>
        requires(std::is_convertible_v<F, Plain> && !std::is_same_v<F, std::nullptr_t>)
    LibraryFn(F plain) : plain_(plain) {}                                    // NOLINT: likewise
    LibraryFn(Bound bound, const void *self) : bound_(bound), self_(self) {} ///< `self` stays

    explicit operator bool() const { return plain_ || bound_; }
    friend bool operator==(const LibraryFn &, const LibraryFn &) = default;
    void operator()(const LibraryArgs &args) const { plain_ ? plain_(args) : bound_(self_, args); }

private:
    Plain plain_ = nullptr;
    Bound bound_ = nullptr;
    const void *self_ = nullptr;
};

/// The cpu implementation of a symbol, or nothing. Symbols, with buffers and ints in order:
///
///   concat            parts.., out | bytes of an element, whether stores may bypass the caches, rows; for
///   each
///                     part its buffer, elements a row, strides from row to row and within a row, and the
///                     element that it begins with. A row of out is the parts' rows one after another
///   cumsum, cumprod   in, out | dtype, outer, extent, inner
///   sort              in, values, indices(i64) | dtype, outer, extent, inner, descending
///   scatter           x, index, source, out | dtype, index dtype, axis, reduce, source node, the index's
///   strides
///                     (outer, along, inner; 0 where it is repeated), rank, x extents.., extents of the index
///                     as repeated.. ; out may be x (in place)
///   call:<name>       operands.., results.. | number of operands, of results, and of each of both its dtype,
///                     rank, extents.. ; what is registered under that name (ir/host/calls.h)
///
/// Arrays are dense; (outer, extent, inner) is the shape folded around the axis. Results are deterministic.
LibraryFn find_library(std::string_view symbol);

} // namespace lz::runtime
