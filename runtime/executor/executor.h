#pragma once
/// Runs Programs. A Program is loaded once (kernels resolved, constant arguments evaluated, every launch laid
/// out) and then run any number of times, from several threads at once; a run binds pointers and runtime
/// words, and allocates nothing but its arenas.

#include "ir/diagnostic.h"
#include "ir/program/program.h"
#include "runtime/allocator/caching_allocator.h"
#include "runtime/allocator/memory_use.h"
#include "runtime/api/backend.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lz::runtime {

/// Where inputs are and where results go.
struct Bindings {
    std::span<void *const> inputs;  ///< by graph parameter
    std::span<void *const> results; ///< by graph result; for a result with a donor, the donor's memory
    std::span<const int64_t> words; ///< the Program's runtime words
    /// The user's lines by recorded index, for profiles; may be empty.
    std::span<const ir::Location> lines = {};
    /// Earlier uses of the inputs' and results' memory, noted again by the run. Empty, or null for one:
    /// nothing is pending. Results of a Program that runs on streams need theirs.
    std::span<MemoryUse *const> input_uses = {};
    std::span<MemoryUse *const> result_uses = {};
    /// The moments after which everything that the run put on streams is over are appended here, if not null.
    std::vector<ir::Point> *ends = nullptr;
    /// What Program::user_streams stand for in this run, each another stream of the same device; empty:
    /// themselves.
    std::span<const ir::StreamRef> streams = {};
};

/// What went wrong while a Program ran. Results that are not named are right.
struct RunReport {
    struct Failed {
        ir::Failure failure;           ///< node() is the recorded index, where one is known
        std::vector<uint32_t> results; ///< graph results that could not be computed because of it, ascending
    };
    std::vector<Failed> failures; ///< in the order of the steps that failed
    /// A result that is lost because an input was.
    struct Inherited {
        uint32_t result, input;
    };
    std::vector<Inherited> inherited;
    bool ok() const { return failures.empty() && inherited.empty(); }
};

/// A run on streams in which something may still fail: it is looked at when it is over.
class InFlight {
public:
    virtual ~InFlight() = default;
    virtual bool done() = 0;
    virtual void wait() = 0;
    /// What went wrong; call once, when it is done. `lost_inputs` are parameters whose values turned out to
    /// be lost: what depends on them is lost too.
    virtual RunReport finish(std::span<const uint32_t> lost_inputs) = 0;
};

/// What a run left behind.
struct Launched {
    RunReport report; ///< what is known already
    /// Not null when something may still show: an index out of range on a device, a lost input.
    std::unique_ptr<InFlight> flight;
};

/// Code of one Program kernel: its module, and the symbol of each phase.
struct LoadedKernel {
    std::shared_ptr<const Module> module;
    std::vector<std::string> symbols;
};

/// A device as the executor uses it.
struct DeviceSlot {
    Backend *backend;
    CachingAllocator *allocator;
    CachingAllocator *pinned = nullptr; ///< of the host's memory that this device copies from and to
};

class LoadedProgram {
public:
    /// `kernels` as Program::kernels; `devices` are cpu, cuda:0, ...; they outlive this object. Throws
    /// Failure(Internal) for a Program that does not fit them or names a library symbol that is not there.
    LoadedProgram(ir::Program program, std::vector<LoadedKernel> kernels, std::vector<DeviceSlot> devices);
    /// Waits until what it has put on streams is over: its code may go with it.
    ~LoadedProgram();
    LoadedProgram(const LoadedProgram &) = delete;
    LoadedProgram &operator=(const LoadedProgram &) = delete;

    const ir::Program &program() const { return program_; }

    /// The stream in whose order the block of a result has to be taken: that of the first step that writes
    /// it. `streams` as Bindings::streams.
    ir::StreamRef result_home(size_t result, std::span<const ir::StreamRef> streams = {}) const;
    /// Whether all of it runs on the CPU: then a run with nothing pending is over when it returns.
    bool cpu_only() const { return cpu_only_; }

    /// What `run` launches: kernel phases and library calls.
    int64_t launches() const { return launches_; }

private:
    friend Launched run(const LoadedProgram &, const Bindings &, bool);
    struct Layout;
    struct State;
    struct StatePool;
    class Run;
    class Arenas;
    class Taken;
    class Flight;

    bool pending(const Bindings &bindings) const;
    template <class F>
    void for_each_use(const Bindings &bindings, F &&f) const;
    Launched run(const Bindings &bindings, bool watch) const;

    ir::Program program_;
    std::vector<LoadedKernel> kernels_;
    std::vector<DeviceSlot> devices_;
    int64_t launches_ = 0;
    bool cpu_only_ = true;
    std::unique_ptr<const Layout> layout_;
    std::unique_ptr<StatePool> states_;
};

/// On the CPU alone, with nothing pending in the inputs, runs to the end on the calling thread; else puts
/// everything on streams, in the order of the Program, and returns. A step that fails (an index out of range,
/// a division by zero, a launch that the device refuses) takes down the steps that read what it should have
/// written, and no other: the report, or later the flight, says which results are lost. `watch` asks for a
/// flight although the Program itself cannot fail, because an input may turn out to be lost. Throws
/// Failure(OutOfMemory) before the first launch when an arena cannot be had, and Failure(State) in a forked
/// child (S65); nothing has run then.
Launched run(const LoadedProgram &program, const Bindings &bindings, bool watch = false);

} // namespace lz::runtime
