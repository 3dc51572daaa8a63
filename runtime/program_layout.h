#pragma once
/// A Program flattened for the executor: all frames, arguments and launches of one run lie in a few arrays,
/// with lists of what a run has to fill in.

#include "runtime/api/library.h"
#include "runtime/executor.h"

#include <vector>

namespace lz::runtime {

/// The arrays of a run that do not depend on its bindings, and where the rest goes.
struct LoadedProgram::Layout {
    /// pointers[i] is the memory of buffer pointer_buffers[i] (kNone: unused, stays null).
    std::vector<uint32_t> pointer_buffers;

    std::vector<int64_t> args; ///< constants; the patched ones hold their constant part
    struct Patch {
        uint32_t arg;
        uint32_t first_term, end_term;
    };
    std::vector<Patch> patches;
    std::vector<ir::ArgSpec::Term> terms;

    std::vector<ir::ScalarSpec> scalars; ///< one a slot

    /// Offsets of a frame's arrays. Each frame has a fault of its own.
    struct Frame {
        uint32_t pointers, args, scalars;
    };
    std::vector<Frame> frames;

    std::vector<int64_t> ends; ///< Backend::Launch::ends of all launches
    struct Launch {
        void *entry;
        uint32_t frames, ends, segments;
        int64_t cost;
        size_t worker_bytes;
    };
    std::vector<Launch> launches;

    struct Call {
        LibraryFn function;
        uint32_t pointers, num_pointers, args, num_args;
        uint32_t fault;
    };
    std::vector<Call> calls;

    /// What a run walks through, in order.
    struct Action {
        ir::StepKind kind;
        uint32_t step;
        Backend *backend;
        StreamId stream;
        uint32_t index; ///< of launches, calls, or the event; Copy: of the first of two pointers
        uint32_t faults = 0, end_faults = 0; ///< to look at when the action has run
    };
    std::vector<Action> actions;

    /// Streams besides 0 on which a device's arena is used, by device.
    std::vector<std::vector<StreamId>> arena_streams;
    uint32_t num_faults = 0; ///< frames first, then calls

    Layout(const ir::Program &program, const std::vector<LoadedKernel> &kernels,
           const std::vector<DeviceSlot> &devices);

private:
    void add_launch(const ir::Program &program, uint32_t step, const LoadedKernel &code, Backend *backend);
    void add_call(const ir::Program &program, uint32_t step, Backend *backend);
    uint32_t add_pointers(const std::vector<uint32_t> &buffers);
    uint32_t add_args(const std::vector<ir::ArgSpec> &specs);
};

/// Position of a device in Program::arena_bytes.
constexpr size_t device_slot(ir::Device device) {
    return device.kind == ir::DeviceKind::Cpu ? 0 : size_t{1} + device.index;
}

} // namespace lz::runtime
