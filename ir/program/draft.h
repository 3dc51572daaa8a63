#pragma once
/// What passes know of a Program that they are making, and hand to each other. The Program that runs has none
/// of it.
///
/// A Program comes into being in stages. At each of them it is verified, printed and read back like any other
/// (`verify(Program)` says what holds at which), so that a pass can be run by itself:
///
///  - `lowered`, after lower_clusters: steps in order, kernels shared, nothing on a stream. Buffers but the
///    inputs are symbolic: they have no memory; they stand for a value of the graph, scratch, or staging.
///  - `streamed`, after assign_streams: each step has a device and a stream, and estimates of when it runs.
///  - `planned`, after plan_memory: no buffer is symbolic. Where a buffer gets bytes that another one had
///    before it, the pair is in `reuses`.
///  - `ordered`, after insert_syncs: events order the streams.
///  - final, after build_program: it runs. Steps say which bytes they touch, and the draft is gone.
///
/// No pass after lower_clusters reads the graph but explain, which names its operations.

#include "ir/kernel/kernel.h"
#include "ir/stream.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace lz::ir {

/// The last of these passes that a Program has been through.
enum class Stage : uint8_t { Lowered, Streamed, Planned, Ordered, Final };
std::string_view name(Stage stage);

struct StepDraft {
    int32_t user_stream = kNoStream; ///< as Node::stream: where the user put it
    std::vector<BufferMode> modes{}; ///< by operand: In, Out or InOut; empty for a Copy
    /// Earlier steps that come first because the user's effects are ordered. Empty from `ordered` on: events
    /// keep that order then.
    std::vector<uint32_t> after{};
    std::vector<NodeId> nodes{}; ///< the graph's nodes that are in it; none for a copy by plan_memory
    int64_t bytes_written = 0;   ///< of Step::bytes
    double begin = 0, end = 0;   ///< from `streamed` on: when it runs by the estimates, in seconds
    bool for_memory = false;     ///< WaitEvent: no value is waited for, only bytes that are used again
};

struct BufferDraft {
    // Value: the node that makes it, and that node's recorded index. Copies that plan_memory adds have them
    NodeId node = kNone;
    uint32_t recorded = kNone;
    bool donated = false;        ///< Input: as Param::donated
    uint32_t donated_to = kNone; ///< Input: as Param::donated_to
    bool kept = false;           ///< Input: as Param::kept
    /// The buffer whose contents this one has at first, because the step that writes it updates them in
    /// place. Its memory is the same from `planned` on, where plan_memory has added a copy if it could not
    /// be.
    uint32_t replaces = kNone;
};

/// All steps that touch `before` come before the first that touches `after`: it has some of the same bytes.
struct Reuse {
    uint32_t before, after; ///< buffers
    friend bool operator==(const Reuse &, const Reuse &) = default;
};

struct Draft {
    std::vector<StepDraft> steps;     ///< by step
    std::vector<BufferDraft> buffers; ///< by buffer
    /// Set by fit_memory where it has put work in sequence to fit memory: bytes that the work would need
    /// besides if it overlapped. 0 where it has not.
    int64_t bytes_saved = 0;
    // From `planned` on
    std::vector<Reuse> reuses;
    /// By arena: bytes of the intermediates that are alive at the worst moment. No plan of the arena is
    /// smaller.
    std::vector<int64_t> live_bytes;
    int64_t in_place_bytes = 0; ///< of outputs that are written over an operand that nothing reads later
};

} // namespace lz::ir
