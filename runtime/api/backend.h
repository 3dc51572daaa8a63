#pragma once
/// The seam between compiled programs and a device. Three stand behind it: cpu, virtual GPUs and CUDA.

#include "ir/diagnostic.h"
#include "ir/kernel/compiled_kernel.h"
#include "ir/stream.h"
#include "ir/target.h"
#include "ir/types/type.h"
#include "runtime/api/expandable_memory.h"
#include "runtime/api/library.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace lz::runtime {

using ir::CompiledKernel;
using ir::Device;
using ir::DeviceProperties;
using ir::Point;

/// Loaded code; unloads when destroyed. Immutable, usable from any thread.
class Module {
public:
    virtual ~Module() = default;
    /// Address of a phase's entry point; throws Failure(Internal) for a symbol it does not have.
    virtual void *entry(const std::string &symbol) const = 0;
    /// What entry points find in their frame (KernelFrame::code); null where they need nothing.
    virtual const void *code() const { return nullptr; }
};

class UnalignedKernel; // unaligned_kernel.h

/// A loaded kernel, ready to be launched on devices that share its module.
struct LoadedKernel {
    std::shared_ptr<const Module> module;
    std::vector<ir::CompiledPhase> phases; ///< as Kernel::phases
    /// For launches that the phases are not for (ir::is_aligned); null where these are for all.
    std::shared_ptr<const UnalignedKernel> unaligned = nullptr;
};

/// Turns bytes into code. Injected into the cpu and virtual backends by the engine (LLVM lives in codegen).
using ModuleLoader = std::function<std::unique_ptr<Module>(const CompiledKernel &)>;

/// Streams are numbered as in ir/stream.h. Those below kFirstUserStream are always there.
using StreamId = int32_t;

/// Where a caching allocator gets its memory: a device's own, or page-locked memory of the host.
class MemorySource {
public:
    virtual ~MemorySource() = default;
    virtual Device device() const = 0;    ///< kCpu for pinned memory
    virtual std::string name() const = 0; ///< for people: `cuda:0`, `pinned`

    virtual void *allocate(size_t bytes) = 0; ///< aligned to 512; throws Failure(OutOfMemory)
    virtual void free(void *memory, size_t bytes) noexcept = 0;
    /// Whether `free`, and `expandable()->unmap`, wait for what is on the device's streams: then nobody calls
    /// them who holds a lock that a function on a stream may want, and no thread that a stream may wait for.
    virtual bool free_waits() const { return false; }
    virtual size_t total_memory() const = 0;
    virtual size_t free_memory() const = 0;
    /// The same memory, to be put behind addresses; null where the source has no such thing. Lives as long.
    virtual ExpandableMemory *expandable() { return nullptr; }
};

/// When something on a stream ran: nanoseconds of the device's clock, which is the profiler's clock, or the
/// virtual one where a model is switched on.
struct TimeSpan {
    int64_t begin = 0, end = 0;
};

/// Called once, from any thread, when the work that it was given with has run (not when it failed). Empty,
/// and one pointer, where nobody asks.
class OnDone {
public:
    OnDone() = default;
    template <class F>
        requires(std::is_invocable_v<F &, const TimeSpan &> && !std::is_same_v<F, OnDone>)
    OnDone(F f) : call_(std::make_unique<std::function<void(const TimeSpan &)>>(std::move(f))) {} // NOLINT

    explicit operator bool() const { return call_ != nullptr; }
    void operator()(const TimeSpan &span) const { (*call_)(span); }

private:
    std::unique_ptr<std::function<void(const TimeSpan &)>> call_;
};

/// A moment on a stream with its time, for Event::elapsed_time.
class Timestamp {
public:
    virtual ~Timestamp() = default;
    virtual bool reached() const = 0;
    /// Nanoseconds of the device's clock; only when reached.
    virtual int64_t time() const = 0;
};

/// Memory, copies, streams, modules and launches of one device. All functions may be called from any thread.
/// What is put on a stream is done in order, by threads of the device; the calls return at once. Nothing but
/// `wait` orders two streams. Failures are Failure(OutOfMemory, Cuda, Device), thrown at once, or, where only
/// running shows them (an address that is not the device's, a lost device), by every later call that waits
/// for or uses the device.
class Backend : public MemorySource {
public:
    virtual DeviceProperties properties() const = 0;

    /// Page-locked memory of the host that this device copies from and to without the host's help.
    virtual void *allocate_pinned(size_t bytes) = 0; ///< aligned to 512; throws Failure(OutOfMemory)
    virtual void free_pinned(void *memory, size_t bytes) noexcept = 0;

    /// Memory for so many faults, all clear: launches and calls on the device's streams write them, and the
    /// host reads them, at the same addresses, when a moment after these has been reached. Throws
    /// Failure(OutOfMemory).
    virtual ir::Fault *allocate_faults(size_t count) = 0;
    /// Nothing that may write them is on a stream any more.
    virtual void free_faults(ir::Fault *faults, size_t count) noexcept = 0;

    /// Whether the device can address the memory of `other`, a GPU of the same kind.
    virtual bool can_access_peer(const Backend &other) const = 0;
    /// Throws Failure(Device) where it cannot.
    virtual void set_peer_access(Backend &other, bool enable) = 0;

    /// Between any two of the host, this device and its peers. Host memory must stay until the copy is done.
    virtual void copy(void *to, const void *from, size_t bytes, StreamId stream, OnDone done = {}) = 0;

    /// A new stream of the user's, numbered from kFirstUserStream: the lowest number that is free. Lower
    /// priorities are more urgent, as in CUDA: -1 is high, 0 is normal.
    virtual StreamId create_stream(int priority) = 0;
    /// What is on it is done first; nobody waits for that.
    virtual void destroy_stream(StreamId stream) noexcept = 0;
    /// The moment after everything put on the stream so far. Does not fail for a stream that there is, not
    /// even when the device is lost.
    virtual uint64_t record(StreamId stream) = 0;
    /// The same with its time.
    virtual std::shared_ptr<Timestamp> record_time(StreamId stream) = 0;
    /// `stream` goes on when `tick` of `other`'s stream `of` has been reached; `other` may be this backend.
    virtual void wait(StreamId stream, Backend &other, StreamId of, uint64_t tick) = 0;
    /// `stream` goes on when what other libraries have put so far on a stream of theirs is over: `foreign` is
    /// a CUstream of this device. Throws Failure(Device) where there is none but the backend's own.
    virtual void wait_foreign(StreamId stream, void *foreign) {
        static_cast<void>(stream), static_cast<void>(foreign), refuse_foreign();
    }
    /// The other library's stream goes on when `tick` of `stream` has been reached.
    virtual void foreign_waits(void *foreign, StreamId stream, uint64_t tick) {
        static_cast<void>(foreign), static_cast<void>(stream), static_cast<void>(tick), refuse_foreign();
    }
    /// Fails only when the device is lost, and not before `tick` has passed: then nothing that was put on the
    /// stream up to it runs any more, and memory that it used is free.
    virtual bool reached(StreamId stream, uint64_t tick) = 0;
    /// Whether the host would have to wait for `tick`, for decisions of the engine's: the contrary of
    /// `reached`, but by the clock of a model where one is on, so that they depend on the program alone. What
    /// is over by that clock may still take the host a real moment to wait for.
    virtual bool pending(StreamId stream, uint64_t tick) { return !reached(stream, tick); }
    /// The caller waits until it is; fails likewise.
    virtual void synchronize(StreamId stream, uint64_t tick) = 0;
    /// Calls `callback` in the stream's order, on a thread that must not use the stream.
    virtual void call_host(StreamId stream, std::function<void()> callback) = 0;

    /// Code for this device. Throws Failure(Compile) for bytes that cannot be loaded.
    virtual std::unique_ptr<Module> load(const CompiledKernel &kernel) = 0;
    /// Backends with equal keys run each other's modules.
    virtual std::string module_key() const = 0;
    /// The library of this device's kind (runtime/api/library.h): what passes know of it, and its
    /// implementation of a symbol, or nullptr.
    virtual const ir::LibraryRules &library() const = 0;
    virtual LibraryFn find_library(std::string_view symbol) const = 0;

    /// One phase over the work items of all segments, in order on `stream`. Segment s has the items
    /// [ends[s - 1], ends[s]) of the launch, numbered from 0 for its own frame. On a stream that runs later
    /// everything that is pointed to is copied before the call returns, but for what frames[].fault points
    /// to, which stays until the launch is done (it is the device's allocate_faults').
    struct Launch {
        void *entry;
        const ir::KernelFrame *frames; ///< one a segment
        const int64_t *ends;           ///< items of segments 0..s together, one a segment
        uint32_t segments;
        uint32_t buffers, args, scalars; ///< of each frame
        int64_t cost;                    ///< Step::cost: small launches stay on the calling thread
        size_t worker_bytes;             ///< scratch each worker needs
        int64_t rounds = 1;              ///< Step::rounds: a matter of speed only
        int64_t bytes = 0, flops = 0;    ///< as Step, for the cost model
        /// Where there is one: how many segments have been put, the first ones. A backend that puts them one
        /// after the other writes it from 0 on, so that it is right when the launch throws half-way; others
        /// put all or none, and leave it.
        uint32_t *put = nullptr;
        /// LoadedKernel::unaligned, and which of the kernel's phases this is.
        const UnalignedKernel *unaligned = nullptr;
        uint32_t phase = 0;

        int64_t items() const { return ends[segments - 1]; }
    };
    virtual void launch(const Launch &launch, StreamId stream, OnDone done = {}) = 0;

    /// A library call, in order on `stream`. What it points to is copied, but for the fault.
    struct Call {
        /// What the function does with a buffer.
        struct Use {
            int64_t bytes = 0;
            bool reads = false, writes = false;
        };
        LibraryFn function;
        LibraryArgs args;
        int64_t bytes = 0, flops = 0;
        std::span<const Use> uses = {}; ///< one a buffer, for functions that run on the host
    };
    virtual void call(const Call &call, StreamId stream, OnDone done = {}) = 0;

    struct Copy {
        void *to;
        const void *from;
        size_t bytes;
    };
    /// All the work of a run on this device. Runs of one Program have equal steps; their addresses, arguments
    /// and numbers differ, and so may their streams.
    struct Replay {
        enum class Kind : uint8_t { Launch, Call, Copy, Record, Wait };
        struct Step {
            Kind kind;
            uint32_t stream;   ///< index in `streams`: whose order it is in
            uint32_t index;    ///< in `launches`, `calls` or `copies`; Record and Wait: of the event
            uint32_t from = 0; ///< Wait: index in `streams` of the one that records the event
        };
        std::span<const Step> steps; ///< in an order in which they may be put on their streams
        std::span<const StreamId> streams;
        /// What the run was given: with the same ReplayMemory, steps of equal keys are equal in everything
        /// but their streams.
        std::span<const uint64_t> key;
        // Their number is known; what they are after `fill`, which who knows the key may save itself.
        std::span<const Launch> launches;
        std::span<const Call> calls;
        std::span<const Copy> copies;
        std::span<uint64_t> event_ticks; ///< by event: written when it is recorded
        std::function<void()> fill;      ///< may be called more than once
    };
    /// What a backend keeps between replays of one Program, which come one at a time.
    class ReplayMemory {
    public:
        virtual ~ReplayMemory() = default;
    };
    /// Puts steps on their streams, from number `done` on, and counts in `done` those that it has put. It may
    /// put none (it wants to see the run step by step first, or cannot replay such steps): the caller goes on
    /// with the first that was not put. What streams have to wait for has been put on them before. When it
    /// throws, step `done` failed, and all before it have been put.
    virtual void replay(const Replay &replay, std::unique_ptr<ReplayMemory> &memory, size_t &done) {
        static_cast<void>(replay), static_cast<void>(memory), static_cast<void>(done);
    }

private:
    [[noreturn]] void refuse_foreign() const {
        throw ir::Failure(ir::ErrorKind::Device, name() + " has no streams of other libraries.");
    }
};

} // namespace lz::runtime
