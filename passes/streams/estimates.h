#pragma once
/// How long steps take, by what the Target says of its devices. Estimates decide where work goes and what
/// memory is worth, never what is computed.
///
/// They are those of the virtual clock (runtime/virtual/clock.h), so that what `explain` promises is what its
/// timelines show. Kernels share their device: one needs all of it for the longer of its bytes at the
/// bandwidth and its operations at the rate, or, where that is less than DeviceInfo::wave_seconds, a part of
/// it for that long. So two kernels that each fill the device gain nothing by overlapping, and small ones do.

#include "ir/program/program.h"
#include "ir/target.h"

#include <span>
#include <vector>

namespace lz::passes {

/// What is known of a device; the defaults where the target does not have it.
const ir::DeviceInfo &info_of(const ir::Target &target, ir::Device device);

/// What does the work of a step.
enum class Resource : uint8_t {
    None,    ///< nothing does: an event, a callback
    Compute, ///< kernels, library calls, copies within the device
    CopyIn,
    CopyOut,
    CopyPeer,
};
inline constexpr size_t kResources = 5;

/// What a step needs: so long this part of an engine of its device, when it has been started.
struct StepCost {
    double seconds = 0;
    double part = 1;
    Resource resource = Resource::None;
};

/// Of a step on a stream of `device`. `from` and `to` are the two sides of a copy.
StepCost estimate(const ir::Step &step, const ir::DeviceInfo &device, ir::Device from = ir::kCpu,
                  ir::Device to = ir::kCpu);

/// When steps run that are given in the order of their moments: each as soon as its engine has room, and not
/// before the one that was given before it for the same engine.
class EngineTimes {
public:
    /// The moment at which it begins, `ready` or later.
    double begin(ir::Device device, const StepCost &cost, double ready);

private:
    struct Running {
        double end, part;
    };
    struct Times {
        std::vector<Running> running; ///< a heap, the first to end on top
        double used = 0;              ///< the parts of those
        double last = 0;              ///< when the latest began
    };
    std::vector<Times> times_; ///< by device and engine
};

} // namespace lz::passes
