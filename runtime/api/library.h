#pragma once
/// Operations that are library calls and not generated kernels. A step of kind Library names one by its
/// symbol.

#include "ir/compiled_kernel.h"
#include "ir/dtype.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace lz::runtime {

struct LibraryArgs {
    std::span<void *const> buffers;
    std::span<const int64_t> ints;
    ir::Fault *fault;
};
using LibraryFn = void (*)(const LibraryArgs &);

/// The cpu implementation of a symbol, or nullptr. Symbols, with buffers and ints in order:
///
///   cumsum, cumprod   in, out | dtype, outer, extent, inner
///   sort              in, values, indices(i64) | dtype, outer, extent, inner, descending
///   scatter           x, index, source, out | dtype, index dtype, axis, reduce, source node, rank, x
///   extents..,
///                     index extents.. ; out may be x (in place)
///
/// Arrays are dense; (outer, extent, inner) is the shape folded around the axis. Results are deterministic.
LibraryFn find_library(std::string_view symbol);

} // namespace lz::runtime
