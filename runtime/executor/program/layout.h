#pragma once
/// A Program flattened for the executor: all frames, arguments and launches of one run lie in a few arrays,
/// with lists of what a run has to fill in.

#include "runtime/api/library.h"
#include "runtime/executor/executor.h"

#include <optional>
#include <span>
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

    /// Fills in what runtime words decide: of `to`, as large as `args`, the patched ones.
    void patch_args(std::span<const int64_t> words, int64_t *to) const;
    void fill_scalars(std::span<const int64_t> words, uint64_t *to) const;

    /// Offsets of a frame's arrays. A frame that has faults has its own, as KernelFrame::fault says.
    struct Frame {
        uint32_t pointers, args, scalars;
        uint32_t faults = ir::kNone; ///< of the device's; kNone: it has none
        uint32_t slot = 0;           ///< of the device
        const void *code = nullptr;
        uint32_t guards = ir::kNone; ///< in `guards`: the first of the frame's; kNone: it has none
    };
    std::vector<Frame> frames;
    /// Faults after which a frame is left out. An entry without a fault ends the list of each frame.
    struct FrameGuard {
        uint32_t slot = ir::kNone, fault = 0; ///< of the device's
        bool only_out_of_memory = false;
    };
    std::vector<FrameGuard> guards;

    std::vector<int64_t> ends; ///< Backend::Launch::ends of all launches
    struct Launch {
        void *entry;
        uint32_t frames, ends, segments;
        uint32_t buffers, args, scalars; ///< of each frame
        int64_t cost;
        size_t worker_bytes;
        int64_t rounds;
        int64_t bytes, flops;
        const UnalignedKernel *unaligned; ///< the LoadedKernel's
        uint32_t phase;
    };
    std::vector<Launch> launches;
    /// As a backend takes it.
    Backend::Launch launch(const Launch &l, const ir::KernelFrame *frames, uint32_t *put) const {
        return {l.entry,    frames,      ends.data() + l.ends,
                l.segments, l.buffers,   l.args,
                l.scalars,  l.cost,      l.worker_bytes,
                l.rounds,   l.bytes,     l.flops,
                put,        l.unaligned, l.phase};
    }

    struct Call {
        LibraryFn function;
        uint32_t pointers, num_pointers, args, num_args;
        uint32_t scratch; ///< a pointer
        size_t scratch_bytes;
        uint32_t fault;
        int64_t bytes, flops;
        uint32_t uses; ///< one a pointer
    };
    std::vector<Call> calls;
    std::vector<Backend::Call::Use> uses;

    /// Where a run may find earlier uses: memory of a parameter, or of a result that has no donor.
    struct Touch {
        uint32_t memory; ///< parameters first, then results
        bool write;
    };

    /// What a run walks through, in order.
    struct Action {
        ir::StepKind kind;
        uint32_t step;
        Backend *backend;
        uint32_t
            index; ///< of launches, calls, or the event; Copy: of the first of two pointers; effects: of args
        uint32_t slot;                       ///< of the device
        uint32_t track;                      ///< index in `tracks`: the stream of runs on streams
        uint32_t skip = ir::kNone;           ///< Copy of a part: of args, the bytes before it
        bool settles = false;                ///< the last of its step: what was lost is known after it
        uint32_t faults = 0, end_faults = 0; ///< the device's, of all segments, to look at when it has run
        // Runs on streams: before the action, its stream waits for earlier runs' uses of this memory, and for
        // the moments of the start of these homes.
        uint32_t touches = 0, end_touches = 0;
        uint32_t waits = 0, end_waits = 0;
    };
    std::vector<Action> actions;
    /// The actions for Backend::replay, where all are work of one GPU and moments of the Program's: nobody
    /// else sees when one of them is done. Else empty.
    std::vector<Backend::Replay::Step> replay;
    size_t replay_copies = 0;      ///< of them
    std::vector<uint32_t> waiting; ///< the actions that wait for something outside of the run

    /// The streams that are used, as the Program names them.
    struct Track {
        Backend *backend;
        ir::StreamRef stream;
        std::vector<Touch> uses; ///< memory that its steps use, noted when the run has been issued
    };
    std::vector<Track> tracks;
    std::vector<uint32_t> event_tracks; ///< by event of the Program: the track that records it
    std::vector<Touch> touches;
    std::vector<uint32_t> home_waits; ///< indices of homes
    /// Streams in whose order arenas and results are taken, and on which somebody else waits for the start.
    struct Home {
        Backend *backend;
        ir::StreamRef stream;
    };
    std::vector<Home> homes;
    /// What a run binds to other streams (Bindings::streams): a track, home or arena that names entry `user`
    /// of Program::user_streams.
    struct NamedByUser {
        uint32_t index, user;
    };
    std::vector<NamedByUser> user_tracks, user_homes, user_arenas;
    std::vector<std::vector<uint32_t>> arena_tracks; ///< by arena: the tracks whose steps use it
    std::vector<ir::StreamRef> result_homes;
    std::vector<bool> written; ///< by parameter: its memory is taken over
    uint32_t num_params = 0;
    bool cpu_only = true;
    bool can_fault = false;
    bool has_checks = false; ///< a kernel has; else only scratch that cannot be had is a fault
    /// By device: how many faults its steps write.
    struct Faults {
        Backend *backend = nullptr;
        uint32_t count = 0;
    };
    std::vector<Faults> faults;

    /// A Program whose runs need no State (run_directly): launches on the CPU without checks and arenas,
    /// whose frames fit on the stack. Scratch that cannot be had is thrown there.
    struct Direct {
        static constexpr size_t kMostPointers = 32, kMostArgs = 128, kMostScalars = 16, kMostFrames = 8;
        /// Where the memory of a pointer comes from.
        struct Source {
            enum class Of : uint8_t { Nothing, Input, Result } of;
            uint32_t index;
        };
        std::vector<Source> sources;           ///< by pointer
        std::vector<Backend::Launch> launches; ///< by action, with no frames
        std::vector<uint32_t> frames;          ///< by action: the first
    };
    std::optional<Direct> direct;

    Layout(const ir::Program &program, const std::vector<ProgramKernel> &kernels,
           const std::vector<DeviceSlot> &devices);

private:
    class Order;
    class GuardFinder;
    void order(const ir::Program &program, const std::vector<DeviceSlot> &devices); // order.cpp
    void find_guards(const ir::Program &program);                                   // guards.cpp
    void find_user_streams(const ir::Program &program);
    void find_replay(const ir::Program &program);
    void find_direct(const ir::Program &program); // direct.cpp
    /// Code by device and kernel; null where nobody runs it.
    using CodeTable = std::vector<std::vector<const LoadedKernel *>>;
    void add_step(const ir::Program &program, uint32_t step, const CodeTable &code, Backend *backend);
    void add_launch(const ir::Program &program, uint32_t step, const LoadedKernel &code, Backend *backend);
    void add_call(const ir::Program &program, uint32_t step, Backend *backend);
    void add_action(const ir::Step &step, uint32_t index_of_step, Backend *backend, uint32_t index);
    uint32_t track_of(Backend *backend, ir::StreamRef stream);
    uint32_t add_pointers(const std::vector<uint32_t> &buffers);
    uint32_t add_args(const std::vector<ir::ArgSpec> &specs);
};

/// The index of a stream in Program::user_streams, or kNone.
uint32_t user_stream_index(const ir::Program &program, ir::StreamRef stream);

/// Position of a device in the list of devices: cpu, cuda:0, ...
constexpr size_t device_slot(ir::Device device) {
    return device.kind == ir::DeviceKind::Cpu ? 0 : size_t{1} + device.index;
}

} // namespace lz::runtime
