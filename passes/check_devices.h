#pragma once
/// check_devices: every operation's operands share a device, or one of the exceptions holds.
///
/// Property: every value lives on a device of the Target; of each node's operands all live on one device, but
/// for 0-dim CPU tensors beside GPU operands, and GPU operands whose devices are peers in the Target (both
/// S07). `transfer` and host callbacks take operands from anywhere. With TransferMode::Automatic operands may
/// be anywhere; only what a call writes may not, because it would change a copy.
///
/// Without it a kernel would be handed a pointer into another device's memory. It stands first: what it
/// reports is the user's mistake, named by the operation that the user wrote, before any pass has changed it;
/// nothing has been computed yet, and no tensor has changed (S06).

#include "ir/diagnostic.h"
#include "ir/graph.h"
#include "ir/target.h"

#include <optional>
#include <span>

namespace lz::passes {

/// Throws Failure(Device) at the first operation that mixes devices: the operation, each operand's dtype,
/// shape, device and origin, and the call that would fix it. Its location and node are those of the
/// operation.
void check_devices(const ir::Graph &graph, const ir::Target &target);

/// An operand as the message names it.
struct DeviceOperand {
    const ir::TensorType *type = nullptr;
    std::string_view made_by; ///< name of the operation; empty for an input
    std::string_view input;   ///< name of the input; may be empty
    ir::Location loc;         ///< of where it was recorded, if known
};

/// The same rule for one operation that is about to be recorded, with the same message: what is wrong with
/// its operands' devices, or nothing. `writes` are the operands that a call changes. The Failure's location
/// is `loc` and its node `node`.
std::optional<ir::Failure> device_error(ir::Op op, std::span<const DeviceOperand> operands,
                                        const ir::Target &target, const ir::Location &loc = {},
                                        uint32_t node = ir::Failure::kNoNode,
                                        std::span<const int64_t> writes = {});

} // namespace lz::passes
