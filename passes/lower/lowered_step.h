#pragma once
/// A step while it is lowered and scheduled: its kernel is its own, and its buffers are named by values of
/// the graph. `lower_clusters` puts it into the Program when it is done.

#include "ir/graph/graph.h"
#include "ir/kernel/kernel.h"
#include "ir/program/program.h"

#include <string>
#include <string_view>
#include <vector>

namespace lz::passes {

/// Symbol of the Library step that the user's wait_stream becomes.
inline constexpr std::string_view kWaitStream = "wait_stream";
/// Symbol of a join of what is in memory; it cannot fail.
inline constexpr std::string_view kConcat = "concat";
/// Which of its integers says whether it stores past the caches, 0 or 1: the schedule's choice.
inline constexpr size_t kConcatBypasses = 1;

struct LoweredBuffer {
    ir::BufferMode mode = ir::BufferMode::In;
    /// In: the value that is read. Out: the value that is written. InOut: the value after the step; its
    /// memory must be that of `replaces`. kNone for Temp and Worker.
    ir::ValueId value = ir::kNone;
    ir::ValueId replaces =
        ir::kNone;     ///< InOut: the value whose memory is overwritten (nothing reads it later)
    int64_t bytes = 0; ///< of the whole buffer; Temp: bytes to be planned for the length of the step
};

struct LoweredSegment {
    std::vector<LoweredBuffer> buffers; ///< one a Kernel buffer
    std::vector<ir::ArgSpec> args;      ///< one a Kernel argument
    std::vector<ir::ScalarSpec> scalars;
    std::vector<int64_t> items; ///< work items of each phase
    std::vector<bool> absent;   ///< phases in which the segment has nothing to do; empty: none
    /// Of a step that was several: the nodes that the checks of the segment's kernel were written for.
    std::vector<ir::NodeId> checks;
};

struct LoweredStep {
    ir::StepKind kind = ir::StepKind::Launch;
    ir::Device device;
    int32_t stream = ir::kNoStream; ///< the user's, as Node::stream
    // Launch
    ir::Kernel kernel;
    std::vector<LoweredSegment> segments;
    int64_t rounds = 1; ///< as Step::rounds
    /// Of an index space in pieces: rows in which the segments alternate in memory, and bytes of a segment in
    /// a row, of all segments together on the average and of the narrowest.
    int64_t joined_rows = 1, joined_run = 0, shortest_run = 0;
    int64_t worker_bytes = 0;
    // Library and Copy: buffers in the symbol's order (Copy: from, to), and last the call's scratch (Temp)
    std::string symbol;
    std::vector<LoweredBuffer> operands;
    ir::CopyRange copy;            ///< Copy: as Step::copy
    std::vector<ir::ArgSpec> ints; ///< as Step::ints
    /// RecordEvent, WaitEvent, HostCallback: the event or callback; WaitStream: Library with symbol
    /// "wait_stream", and in `ints` the device word and the stream that are waited for
    ir::ArgSpec effect;

    int64_t cost = 0;       ///< as Step::cost
    int64_t bytes_read = 0; ///< of distinct operands, whole or as far as they are read
    int64_t bytes_written = 0;
    int64_t flops = 0;              ///< scalar operations, transcendental ones counted once
    ir::NodeId node = ir::kNone;    ///< the last node of the cluster
    std::vector<ir::NodeId> nodes;  ///< all of them, ascending
    std::vector<uint32_t> recorded; ///< as Step::recorded
    std::string label;              ///< as Step::label
};

} // namespace lz::passes
