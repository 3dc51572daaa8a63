#pragma once
/// insert_transfers: every change of device is an explicit `transfer`, and as few bytes cross as can be.
///
/// Property: the operands of every node are on the device that runs it (but for `transfer`, calls that were
/// recorded over devices, and host callbacks), and a value crosses to a device at most once, on each of the
/// user's streams at most once more. What need not
/// cross does not:
///   - makers are made where they are needed, their runtime words with them;
///   - a value that came from a device, or was brought there before, is taken from there;
///   - of views (but slices and paddings) the operand crosses, and the view is made again on the other side,
///     where that is not the slower device;
///   - of a value that is only sliced on the other side the slices cross, if they are at most half of it;
///   - a few elementwise operations over makers and over values already there are done again, if by the
///     Target's estimates that is faster than moving their result. Elementwise results are equal to the bit
///     on all devices (S29).
/// A transfer that the pass inserts carries the operation that needed it: its location, its recorded index,
/// and the cause. With TransferMode::Automatic an operation whose operands are apart runs where the fewest
/// seconds of transfer are, and its result goes back to the device that it was recorded with (S05).
/// A `transfer` that was recorded for an operation, with its operands, is one of the pass's own: it loses
/// them.
///
/// What the user put on a stream is done there (S41): such a transfer is shared with no copy that another
/// stream made, is not left out, and copies to the host from the GPU that the stream belongs to.
///
/// Without it kernels would read other devices' memory. It stands after check_devices, which says that every
/// change of device is legal, and before simplify and eliminate_common, which find what came together.

#include "ir/graph/graph.h"
#include "ir/target.h"

namespace lz::passes {

/// Takes a graph that passes check_devices. Gives it back as it is when everything is on one device. Linear
/// in the size of the graph.
ir::Graph insert_transfers(ir::Graph graph, const ir::Target &target);

} // namespace lz::passes
