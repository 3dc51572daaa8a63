#pragma once
/// check_devices: every operation's operands share a device, or one of the exceptions holds.
///
/// Property: every value lives on a device of the Target; of each node's operands all live on one device, but
/// for 0-dim CPU tensors beside GPU operands, and operands on GPUs whose memory the GPU that runs the node
/// may access by the Target (both S07; access has a direction). `transfer` and host callbacks take operands
/// from anywhere; but a `transfer` that has the operands of an operation behind its own was not asked for,
/// and may move it only where these may meet. With TransferMode::Automatic operands may be anywhere.
///
/// Without it a kernel would be handed a pointer into another device's memory. It stands first: what it
/// reports is the user's mistake, named by the operation that the user wrote, before any pass has changed it;
/// nothing has been computed yet, and no tensor has changed (S06).

#include "ir/graph/graph.h"
#include "ir/target.h"

namespace lz::passes {

/// Throws Failure(Device) at the first operation that mixes devices. The message names what the user called,
/// each tensor that went into the call with its dtype, shape, device and origin, and the call that would fix
/// it. Its location and node are those of the operation.
void check_devices(const ir::Graph &graph, const ir::Target &target);

} // namespace lz::passes
