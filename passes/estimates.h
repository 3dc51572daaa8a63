#pragma once
/// How long steps take, by what the Target says of its devices. Estimates decide where work goes and what
/// memory is worth, never what is computed.

#include "ir/target.h"
#include "passes/lower_clusters.h"

namespace lz::passes {

/// What is known of a device; the defaults where the target does not have it.
const ir::DeviceInfo &info_of(const ir::Target &target, ir::Device device);

/// Of a step on a stream of `device`, launch included. `from` and `to` are the two sides of a copy.
double estimate_seconds(const LoweredStep &step, const ir::DeviceInfo &device, ir::Device from = ir::kCpu,
                        ir::Device to = ir::kCpu);

} // namespace lz::passes
