#pragma once
/// recompute: what is cheap to compute again is not kept in memory while nobody reads it.
///
/// Property: where the most bytes are alive at once, no value is among them that is read much later only, and
/// that a kernel of little cost could make again from what is there at that later time. Such a value is made
/// twice: before its first readers, and in a kernel of its own before those that come later. The kernels that
/// this adds cost at most kMostRecomputed of the whole Program by the Target's estimates, each bit is what it
/// was, and the graph is left alone where less than kWorthwhileSaving of the memory would be saved, or fewer
/// bytes than least_alive (live_order.h) are alive.
///
/// Without it a training step keeps what forward and backward share: normalised rows and activations, which
/// backward could make of their inputs, that it needs anyway; and the weights of attention, which are quick
/// to make of queries and keys.
///
/// It stands after `fuse`, which decides what is stored at all, and joins computations that read the same
/// values: it would join again what is done twice here. `lower_clusters` comes next. Operations with checks,
/// calls, and all that reaches beyond a device or the user's streams are left alone.

#include "ir/graph/graph.h"
#include "ir/target.h"
#include "passes/fuse/fuse.h"

#include <cstdint>

namespace lz::passes {

/// Smaller values are not worth a kernel.
inline constexpr int64_t kLeastRecomputed = int64_t{256} << 10;
/// The most time for computing values again, as a part of the time that the Program takes.
inline constexpr double kMostRecomputed = 0.1;
/// The most time for one value, in times that its bytes take to or from memory once.
inline constexpr double kMostPrice = 10;
/// The least bytes that must be saved, as a part of the bytes that are alive at the worst moment.
inline constexpr double kWorthwhileSaving = 1.0 / 32;

/// Takes a graph as `fuse` left it. `notes` name its nodes, and afterwards those of the new one.
ir::Graph recompute(ir::Graph graph, const ir::Target &target, FusionNotes *notes = nullptr);

} // namespace lz::passes
