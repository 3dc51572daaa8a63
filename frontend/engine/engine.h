#pragma once
/// The engine below the recorder: finds or compiles a Program for a recording and runs it. One per process.
///
/// The recorder linearises pending work into a *key* (64-bit words; equal keys mean equal structure) and
/// hands over an ir::Graph only when the key is unknown. All functions may be called from any thread.

#include "engine/options.h"
#include "ir/diagnostic.h"
#include "ir/graph.h"
#include "ir/target.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lz::runtime {
class CachingAllocator;
}

namespace lz::engine {

/// A Program with its kernels loaded, ready to run any number of times, from several threads at once.
class Executable;
using ExecutablePtr = std::shared_ptr<const Executable>;

/// Counts since the start or the last reset (S27).
struct CompileStats {
    int64_t programs_compiled = 0;   ///< misses of the Program cache: the passes ran
    int64_t programs_reused = 0;     ///< hits
    int64_t kernels_compiled = 0;    ///< LLVM ran
    int64_t kernels_from_memory = 0; ///< found in the kernel cache in memory while compiling a Program
    int64_t kernels_from_disk = 0;
    int64_t kernel_launches = 0;
    double pass_seconds = 0;
    double codegen_seconds = 0;
};

/// Where inputs are and where results go, in the order of the Graph's params and results.
struct Bindings {
    std::span<void *const> inputs;
    std::span<void *const> results; ///< for a donated result: the donor's memory
    std::span<const int64_t> words; ///< runtime words, as Graph::runtime_words
    /// The user's lines by recorded index, for profiles; needed only while `profiling()`.
    std::span<const ir::Location> lines = {};
};

/// What went wrong while a Program ran; results not named are right.
struct RunReport {
    struct Failed {
        ir::Failure failure;           ///< node() is the recorded index, where one is known
        std::vector<uint32_t> results; ///< results that could not be computed
    };
    std::vector<Failed> failures;
    bool ok() const { return failures.empty(); }
};

class Engine {
public:
    /// Made at first use with the options of the environment; never destroyed (S68).
    static Engine &get();

    const Options &options() const;
    /// The snapshot passes see: devices, ISA, threads, modes.
    const ir::Target &target() const;

    /// The Executable with this key, or null. `hash` is any hash of the key. Counts a reuse.
    ExecutablePtr find(std::span<const uint64_t> key, uint64_t hash);
    /// Runs the passes, makes or finds the kernels, loads them, stores the result under the key. Two threads
    /// with one key compile once. Dumps what LAZULI_DUMP asks for. Throws Failure(Device, Compile, Internal).
    ExecutablePtr compile(std::span<const uint64_t> key, uint64_t hash, ir::Graph graph);
    /// The result's donor (an input index whose memory it takes over) or -1, and its size.
    int donor(const Executable &executable, size_t result) const;
    /// Runs to the end on the CPU. Never throws for the user's mistakes: they are in the report.
    RunReport run(const Executable &executable, const Bindings &bindings);

    /// Whether a profile is on.
    static bool profiling();

    /// What the passes decided, as text (`explain`), and the Program's own text.
    std::string explain(const Executable &executable) const;
    /// Compiles (without caching the result under a key) and explains, for lz::explain.
    std::string explain(ir::Graph graph);

    /// Memory from the device's caching allocator; throws Failure(OutOfMemory). Freeing never waits (S54).
    void *allocate(int64_t bytes, ir::Device device);
    void free(void *memory, ir::Device device) noexcept;
    /// The allocator itself, for statistics (frontend/engine and tests only: its header belongs to the
    /// runtime).
    runtime::CachingAllocator &allocator(ir::Device device);

    int num_threads() const;
    /// Throws Failure(State) unless n is at least 1.
    void set_num_threads(int n);

    CompileStats stats() const;
    void reset_stats();
    /// Forgets compiled Programs and kernels in memory (tests; the disk cache stays).
    void clear_caches();
    /// Changes modes for tests and scopes (fusion off, threads, verify): Programs of other modes are not
    /// reused.
    void set_modes(const ir::Modes &modes);

private:
    Engine();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace lz::engine
