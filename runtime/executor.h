#pragma once
/// Runs Programs. A Program is loaded once (kernels resolved, constant arguments evaluated, every launch laid
/// out) and then run any number of times, from several threads at once; a run binds pointers and runtime
/// words, and allocates nothing but its arenas.

#include "ir/diagnostic.h"
#include "ir/program.h"
#include "runtime/api/backend.h"
#include "runtime/caching_allocator.h"

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
};

/// What went wrong while a Program ran. Results that are not named are right.
struct RunReport {
    struct Failed {
        ir::Failure failure;           ///< node() is the recorded index, where one is known
        std::vector<uint32_t> results; ///< graph results that could not be computed because of it, ascending
    };
    std::vector<Failed> failures; ///< in the order of the steps that failed
    bool ok() const { return failures.empty(); }
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
};

class LoadedProgram {
public:
    /// `kernels` as Program::kernels; `devices` as Program::arena_bytes (cpu, cuda:0, ...), they outlive this
    /// object. Throws Failure(Internal) for a Program that does not fit them or names a library symbol that
    /// is not there.
    LoadedProgram(ir::Program program, std::vector<LoadedKernel> kernels, std::vector<DeviceSlot> devices);
    ~LoadedProgram();
    LoadedProgram(const LoadedProgram &) = delete;
    LoadedProgram &operator=(const LoadedProgram &) = delete;

    const ir::Program &program() const { return program_; }

    /// What `run` launches: kernel phases and library calls.
    int64_t launches() const { return launches_; }

private:
    friend RunReport run(const LoadedProgram &, const Bindings &);
    struct Layout;
    struct State;
    struct StatePool;
    class Run;

    RunReport run(const Bindings &bindings) const;

    ir::Program program_;
    std::vector<LoadedKernel> kernels_;
    std::vector<DeviceSlot> devices_;
    int64_t launches_ = 0;
    std::unique_ptr<const Layout> layout_;
    std::unique_ptr<StatePool> states_;
};

/// Runs to the end on the CPU; on other devices returns when everything is in their streams. A step that
/// fails (an index out of range, a division by zero, a launch that the device refuses) takes down the steps
/// that read what it should have written, and no other: the report says which results are lost. Throws
/// Failure(OutOfMemory) before the first launch when an arena cannot be had, and Failure(State) in a forked
/// child (S65); nothing has run then.
RunReport run(const LoadedProgram &program, const Bindings &bindings);

} // namespace lz::runtime
