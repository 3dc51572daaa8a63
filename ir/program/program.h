#pragma once
/// Program: what the executor runs. Buffers and steps with every size known; what may change between two runs
/// of one Program (pointers, runtime attribute words) is referred to by position. Passes make it in stages
/// (ir/program/draft.h).

#include "ir/graph/graph.h"
#include "ir/kernel/kernel.h"
#include "ir/program/draft.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lz::ir {

enum class BufferKind : uint8_t {
    Input,  ///< memory of graph parameter `index`
    Result, ///< a block of its own for graph result `index`; with `donor` it is that input's memory
    Arena,  ///< [offset, offset + bytes) of an arena of intermediates
    // Symbolic: before plan_memory
    Value,   ///< of the graph's value `value`
    Scratch, ///< of the one step that has it
    Staging, ///< pinned memory of the host, through which copies between two GPUs go
};

/// Whether it has no memory yet.
inline bool is_symbolic(BufferKind kind) {
    return kind > BufferKind::Arena;
}

/// Memory for intermediates: one block while the program runs.
struct ArenaDesc {
    Device device = kCpu; ///< kCpu for pinned memory
    bool pinned = false;  ///< page-locked host memory, for staged copies
    /// The stream (of `device`, for pinned memory of `home_device`) in whose order the block is taken and
    /// given back: work on it may use the arena at once, work on other streams waits for the moment of the
    /// start.
    int32_t home = kDefaultStream;
    Device home_device = kCpu; ///< `device`, unless pinned
    int64_t bytes = 0;
    friend bool operator==(const ArenaDesc &, const ArenaDesc &) = default;
};

struct BufferDesc {
    BufferKind kind;
    uint32_t index = 0; ///< Input, Result
    int64_t offset = 0; ///< Arena
    uint32_t arena = 0; ///< Arena: index in Program::arenas, unless the buffer is empty
    int64_t bytes = 0;
    Device device;
    int32_t donor = -1; ///< Result: the buffer (an Input) whose memory it takes over
    /// Result with a donor: the one segment that writes it is left out of a run in which something that it is
    /// computed from failed, so that the donor still holds what it held. It is lost with all else that the
    /// segment writes: all of it is computed from the same values of the Program.
    bool guarded = false;
    int32_t storage = -1;  ///< Input: those with the same non-negative number share memory
    ValueId value = kNone; ///< of the graph it holds, kNone for scratch
};

/// An integer argument: constant + sum of coefficient * runtime word.
struct ArgSpec {
    int64_t constant = 0;
    struct Term {
        uint32_t word;
        int64_t coefficient;
    };
    std::vector<Term> terms;
};

/// A scalar argument: a runtime word, read as double or int64 by the dtype of the value it was written for,
/// rounded to that dtype, and put in the kernel's slot.
struct ScalarSpec {
    uint32_t word;
    DType dtype;
};

/// One instance of a kernel's operands: several share a launch when clusters were merged sideways.
struct Segment {
    std::vector<uint32_t> buffers; ///< Program buffer of each kernel buffer (kNone for Worker)
    std::vector<ArgSpec> args;
    std::vector<ScalarSpec> scalars;
    std::vector<int64_t> items; ///< work items of each phase
    /// Recorded index (Node::recorded) of each instruction of class Check of the kernel, in the order of
    /// Kernel::instrs: what a fault is blamed on. Kernels are shared, so in a Program the Instr::source of
    /// their checks is a number in this order (0, 1, ...: `build_program`), and so is Fault::source. Empty:
    /// the last of Step::recorded is blamed.
    std::vector<uint32_t> checks;
};

enum class StepKind : uint8_t { Launch, Library, Copy, RecordEvent, WaitEvent, HostCallback };

/// Bytes [begin, end) of a buffer that a step touches.
struct ByteRange {
    uint32_t buffer;
    int64_t begin, end;
    bool write;
};

/// Bytes that a copy moves.
struct CopyRange {
    int64_t from_begin = 0, to_begin = 0, bytes = 0;
};

/// Units of Step::cost that a core does in a nanosecond, about.
inline constexpr int64_t kCostOfNanosecond = 300;
/// And of launches with scratch, which are taken for products, so many times as much.
inline constexpr int64_t kProductRate = 3;
/// To begin with several threads, and to wait for the last of them, takes a third of a microsecond where they
/// are awake: a launch that costs less than this is faster on the calling thread, or nearly so.
inline constexpr int64_t kAloneCost = 1 << 20;

struct Step {
    StepKind kind = StepKind::Launch;
    Device device;           ///< whose stream runs it
    int32_t stream = 0;      ///< of `device`, as in ir/stream.h
    uint32_t kernel = kNone; ///< Launch: index in Program::kernels
    std::vector<Segment> segments;
    /// The segments take turns: each does a part of its items in each of so many rounds. Pieces of one row
    /// are then written one after another, while the row is in the cache.
    int64_t rounds = 1;
    int64_t worker_bytes = 0; ///< scratch of each worker
    /// Bytes touched plus 8 * scalar operations, estimated. Below kAloneCost it runs on the calling thread.
    int64_t cost = 0;
    int64_t bytes = 0;              ///< read and written in memory, estimated
    int64_t flops = 0;              ///< scalar operations, estimated
    std::string symbol;             ///< Library: name in the library table (runtime/api/library.h)
    std::vector<uint32_t> operands; ///< Library: buffers, in the symbol's order; Copy: from, to
    CopyRange copy;                 ///< Copy
    /// Library: integer arguments, in the symbol's order. Copy: nothing, or one number of bytes that come on
    /// top of copy.from_begin: where a slice begins.
    std::vector<ArgSpec> ints;
    uint32_t scratch = kNone; ///< Library: the buffer of the call's scratch, if it needs any
    uint32_t event = kNone;   ///< RecordEvent, WaitEvent: index of the event; kNone: the user's, `effect`
    /// HostCallback, and the user's RecordEvent and WaitEvent: the word that tells which
    /// (runtime/executor/user_event.h).
    ArgSpec effect;
    std::vector<ByteRange> accesses;
    NodeId node = kNone; ///< node of the graph it came from (the last of a cluster)
    std::vector<uint32_t>
        recorded;      ///< recorded indices of what is in it, ascending (for errors and profiles)
    std::string label; ///< for people: `softmax row: max, exp, sum, div`
};

/// Whether the step is an effect of the user's, which `effect` names.
inline bool has_effect(const Step &step) {
    return step.kind == StepKind::HostCallback ||
           ((step.kind == StepKind::RecordEvent || step.kind == StepKind::WaitEvent) && step.event == kNone);
}

struct Program {
    std::string name = "main";
    Stage stage = Stage::Final;
    std::vector<Kernel> kernels; ///< distinct ones
    std::vector<BufferDesc> buffers;
    std::vector<Step> steps;
    std::vector<ArenaDesc> arenas;
    std::vector<uint32_t> results; ///< buffer of each graph result
    uint32_t num_runtime_words = 0;
    uint32_t num_events = 0;
    /// The streams of the user's that the recording names, each once, in order: no step is on another one.
    std::vector<StreamRef> user_streams;
    /// What `explain` says, in order; whole sentences.
    std::vector<std::string> notes;
    Draft draft; ///< empty at Stage::Final
};

/// Calls f(mode, buffer) for what a step touches, but for workers' scratch: segment by segment, then
/// operands, then a call's scratch. Before Stage::Final.
template <class F>
void for_operands(const Program &program, uint32_t step, F &&f) {
    const Step &s = program.steps[step];
    for (const Segment &segment : s.segments) {
        const std::vector<KBuffer> &declared = program.kernels[s.kernel].buffers;
        for (size_t k = 0; k < segment.buffers.size(); ++k)
            if (declared[k].mode != BufferMode::Worker)
                f(declared[k].mode, segment.buffers[k]);
    }
    const std::vector<BufferMode> &modes = program.draft.steps[step].modes;
    for (size_t k = 0; k < s.operands.size(); ++k)
        f(s.kind != StepKind::Copy ? modes[k] : k == 0 ? BufferMode::In : BufferMode::Out, s.operands[k]);
    if (s.scratch != kNone)
        f(BufferMode::Temp, s.scratch);
}

/// The buffer whose contents a step reads where `buffer` is an operand: for updates in place that which is
/// replaced, else itself. kNone where it only writes.
inline uint32_t read_buffer(const Program &program, BufferMode mode, uint32_t buffer) {
    if (mode == BufferMode::InOut && program.draft.buffers[buffer].replaces != kNone)
        return program.draft.buffers[buffer].replaces;
    return mode == BufferMode::In || mode == BufferMode::InOut ? buffer : kNone;
}

} // namespace lz::ir
