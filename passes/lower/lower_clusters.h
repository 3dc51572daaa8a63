#pragma once
/// lower_clusters: makes Kernel IR with its schedule out of every cluster, or names the library call it is.
///
/// Property: the returned steps, run one after another, compute the graph's results; everything that a kernel
/// needs is there as an argument, so that the Kernel itself holds no extent, stride, offset or scalar and is
/// shared by all programs of one class. It stands after `fuse` (one step a cluster, or a group of them) and
/// before memory is planned, because only here is it known which values are stored and how much scratch a
/// step needs.

#include "ir/graph/graph.h"
#include "ir/kernel/kernel.h"
#include "ir/program/program.h"
#include "ir/target.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lz::passes {

/// Symbol of the Library step that the user's wait_stream becomes.
inline constexpr std::string_view kWaitStream = "wait_stream";
/// Symbol of a join of what is in memory; it cannot fail.
inline constexpr std::string_view kConcat = "concat";

/// What a step's buffer is, before memory is planned.
struct LoweredBuffer {
    ir::BufferMode mode = ir::BufferMode::In;
    /// In: the value that is read. Out: the value that is written. InOut: the value after the step; its
    /// memory must be that of `replaces`. kNone for Temp and Worker.
    ir::ValueId value = ir::kNone;
    ir::ValueId replaces =
        ir::kNone;     ///< InOut: the value whose memory is overwritten (nothing reads it later)
    int64_t bytes = 0; ///< of the whole buffer; Temp: bytes to be planned for the length of the step
    /// In and Out, with no value: a block of pinned host memory, by its number (stage_copies).
    uint32_t staging = ir::kNone;
};

struct LoweredSegment {
    std::vector<LoweredBuffer> buffers; ///< one a Kernel buffer
    std::vector<ir::ArgSpec> args;      ///< one a Kernel argument
    std::vector<ir::ScalarSpec> scalars;
    std::vector<int64_t> items;   ///< work items of each phase, on devices that run CPU code
    std::vector<bool> absent;     ///< phases in which the segment has nothing to do; empty: none
    std::vector<uint32_t> checks; ///< as Segment::checks
};

/// A kernel that steps share: large graphs have few distinct ones, and many steps. Empty where a step
/// launches none.
class SharedKernel {
public:
    SharedKernel() = default;
    SharedKernel(ir::Kernel kernel) : held_(std::make_shared<const ir::Kernel>(std::move(kernel))) {}

    operator const ir::Kernel &() const { return *held_; } // NOLINT: it stands for the kernel
    const ir::Kernel *operator->() const { return held_.get(); }
    /// Whether it is the same object.
    bool operator==(const SharedKernel &other) const = default;

private:
    static std::shared_ptr<const ir::Kernel> none() {
        // Never destroyed: programs are compiled in destructors of statics too.
        static const auto &empty = *new auto(std::make_shared<const ir::Kernel>());
        return empty;
    }
    std::shared_ptr<const ir::Kernel> held_ = none();
};

/// One step of the Program to be, in order. Its buffers are named by values of the graph.
struct LoweredStep {
    ir::StepKind kind = ir::StepKind::Launch;
    ir::Device device;
    int32_t stream = ir::kNoStream; ///< the user's, as Node::stream
    // Launch
    SharedKernel kernel;
    std::vector<LoweredSegment> segments;
    int64_t rounds = 1; ///< as Step::rounds
    /// Of a join in pieces: rows in which the segments alternate in memory, and bytes of a segment in a row.
    int64_t joined_rows = 1, joined_run = 0;
    int64_t worker_bytes = 0;
    // Library and Copy: buffers in the symbol's order (Copy: from, to), and last the call's scratch (Temp)
    std::string symbol;
    std::vector<LoweredBuffer> operands;
    ir::CopyRange copy;            ///< Copy: as Step::copy
    std::vector<ir::ArgSpec> ints; ///< as Step::ints
    // RecordEvent, WaitEvent, HostCallback: the event or callback; WaitStream: Library with symbol
    // "wait_stream", and in `ints` the device word and the stream that are waited for
    ir::ArgSpec effect;

    int64_t cost = 0;       ///< as Step::cost
    int64_t bytes_read = 0; ///< of distinct operands, whole or as far as they are read
    int64_t bytes_written = 0;
    int64_t flops = 0;              ///< scalar operations, transcendental ones counted once
    ir::NodeId node = ir::kNone;    ///< the last node of the (last) cluster
    std::vector<ir::NodeId> nodes;  ///< all of them, ascending
    std::vector<uint32_t> recorded; ///< as Step::recorded
    std::string label;              ///< as Step::label
};

/// Calls f(LoweredBuffer) for everything that a step touches: segment by segment, then operands.
template <class F>
void for_operands(const LoweredStep &step, F &&f) {
    for (const LoweredSegment &segment : step.segments)
        for (const LoweredBuffer &buffer : segment.buffers)
            f(buffer);
    for (const LoweredBuffer &buffer : step.operands)
        f(buffer);
}

/// Takes the graph as `fuse` left it. Throws Failure(Internal) for a graph without clusters.
std::vector<LoweredStep> lower_clusters(const ir::Graph &graph, const ir::Target &target);

} // namespace lz::passes
