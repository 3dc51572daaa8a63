#pragma once
/// Before clusters are chosen: reductions beside short axes, of what is made of much smaller values.
///
///     d = x[n, 1, 3] - x[1, n, 3]      the differences of all pairs
///     s = sum(d * d, 2)                3 elements each: d0*d0 + d2*d2 + d1*d1, in the order of a sum
///     f = sum(d * g(s), 1)             3 sums, of d0 * g(s), d1 * g(s) and d2 * g(s)
///
/// A kernel has one index space. `s` has another one than `d`, and `f` another one than `s`, so that without
/// this pass `d` and `s` are stored though all that they are made of fits a cache. Here a reduction along an
/// axis of a few elements becomes the operations between them, and one that keeps such an axis, along which
/// something is the same for all elements, becomes one reduction for each of them, joined at the end. Then
/// everything is over pairs, and one kernel.
///
/// Where each row of a product of few terms has few elements, of which one is picked (the nearest of some
/// centers), the product is made with its sides exchanged: then the rows are columns, and what is picked is
/// picked for as many points at once as there are lanes.

#include "ir/graph/graph.h"
#include "ir/target.h"

#include <optional>

namespace lz::passes {

/// The elements of an axis that are taken one by one.
inline constexpr int64_t kMostUnrolled = 8;

/// The graph with such reductions written out, without nodes that are dead then; nothing if there are none.
/// Every sum has the order that it had, and nothing dear is computed more often than before.
std::optional<ir::Graph> unroll_short_axes(const ir::Graph &graph, const ir::Target &target);

} // namespace lz::passes
