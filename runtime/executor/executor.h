#pragma once
/// Runs Programs. A Program is loaded once (kernels resolved, constant arguments evaluated, every launch laid
/// out) and then run any number of times, from several threads at once; a run binds pointers and runtime
/// words, and allocates nothing but its arenas.

#include "ir/diagnostic.h"
#include "ir/program/program.h"
#include "ir/program/run.h"
#include "runtime/allocator/caching_allocator.h"
#include "runtime/api/backend.h"

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lz::runtime {

using ir::Bindings;
using ir::Launched;
using ir::RunReport;

/// Code of a Program's kernel as one of its devices runs it.
struct ProgramKernel {
    uint32_t kernel = 0; ///< of Program::kernels
    ir::Device device = ir::kCpu;
    LoadedKernel code;
};
/// What has to be loaded: each kernel once for each device that runs it, in the order of the steps.
std::vector<ProgramKernel> kernels_of(const ir::Program &program);

/// A device as the executor uses it.
struct DeviceSlot {
    Backend *backend;
    CachingAllocator *allocator;
    CachingAllocator *pinned = nullptr; ///< of the host's memory that this device copies from and to
};

/// Held by a shared pointer, its flights keep it.
class LoadedProgram : public std::enable_shared_from_this<LoadedProgram> {
public:
    /// `kernels` as `kernels_of`, with their code; `devices` are cpu, cuda:0, ...; they outlive this object.
    /// Throws Failure(Internal) for a Program that does not fit them or names a library symbol that is not
    /// there.
    LoadedProgram(ir::Program program, std::vector<ProgramKernel> kernels, std::vector<DeviceSlot> devices);
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
    class Stopped;

    bool pending(const Bindings &bindings) const;
    template <class F>
    void for_each_use(const Bindings &bindings, F &&f) const;
    Launched run(const Bindings &bindings, bool watch) const;
    /// Where a run without a State was when a launch threw.
    struct Refused {
        size_t action;
        uint32_t put_segments; ///< of the action
        std::exception_ptr why;
    };
    Launched run_directly(const Bindings &bindings) const;
    Launched run_with_state(const Bindings &bindings, bool watch, const Refused *refused) const;

    ir::Program program_;
    std::vector<ProgramKernel> kernels_;
    std::vector<DeviceSlot> devices_;
    int64_t launches_ = 0;
    bool cpu_only_ = true;
    std::unique_ptr<const Layout> layout_;
    std::unique_ptr<StatePool> states_;
};

/// On the CPU alone, with nothing pending in the inputs, runs to the end on the calling thread; else puts
/// everything on streams, in the order of the Program, and returns. A step that fails (an index out of range,
/// a division by zero, a launch that the device refuses) takes down the steps that read what it should have
/// written, and no other: the report, or later the flight, says which results are lost. Where a device
/// refuses a call after results of a group (Bindings::failure_groups) were written over their donors, the run
/// stops instead (Launched::stopped). `watch` asks for a flight although the Program itself cannot fail,
/// because an input may turn out to be lost. Throws Failure(OutOfMemory) before the first launch when an
/// arena cannot be had, and Failure(State) in a forked child (S65); nothing has run then.
Launched run(const LoadedProgram &program, const Bindings &bindings, bool watch = false);

} // namespace lz::runtime
