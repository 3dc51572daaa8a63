#pragma once
/// The engine below the recorder: finds or compiles a Program for a recording and runs it. One per process.
///
/// The recorder linearises pending work into a *key* (64-bit words; equal keys mean equal structure) and
/// hands over an ir::Graph only when the key is unknown. All functions may be called from any thread.

#include "frontend/engine/options.h"
#include "ir/diagnostic.h"
#include "ir/graph/graph.h"
#include "ir/program/run.h"
#include "ir/stream.h"
#include "ir/target.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lz::runtime {
class CachingAllocator;
} // namespace lz::runtime

namespace lz::engine {

/// A Program with its kernels loaded, ready to run any number of times, from several threads at once.
class Executable;
class Devices;
using ExecutablePtr = std::shared_ptr<const Executable>;

/// Counts since the start or the last reset (S27).
struct CompileStats {
    int64_t programs_compiled = 0;   ///< misses of the Program cache: the passes ran
    int64_t programs_resized = 0;    ///< misses without passes: a Program of other sizes was there
    int64_t programs_reused = 0;     ///< hits
    int64_t kernels_compiled = 0;    ///< LLVM ran
    int64_t kernels_from_memory = 0; ///< found in the kernel cache in memory while compiling a Program
    int64_t kernels_from_disk = 0;
    int64_t kernel_launches = 0;
    double pass_seconds = 0;
    double codegen_seconds = 0;
};

/// Memory of a value: where it is, in whose order it was taken, and what streams do with it.
struct ValueMemory {
    void *data = nullptr;
    ir::StreamRef home; ///< of the CPU for host memory
    bool pinned = false;
    /// Owned; null while no stream has touched it. Two threads may be the first to use it on streams.
    std::atomic<ir::MemoryUse *> use{nullptr};
};

class Engine {
public:
    /// Made at first use with the options of the environment; never destroyed (S68).
    static Engine &get();
    /// Whether anything has used it yet: from then on its options stand.
    static bool started();

    const Options &options() const;
    /// The snapshot passes see: devices, ISA, threads, modes.
    const ir::Target &target() const;

    /// The Executable with this key, or null. `hash` is any hash of the key. Counts a reuse.
    ExecutablePtr find(std::span<const uint64_t> key, uint64_t hash);
    /// Runs the passes, makes or finds the kernels, loads them, stores the result under the key. Two threads
    /// with one key compile once. Dumps what LAZULI_DUMP asks for, where it says what `streams` (as
    /// Bindings::streams) are. Throws Failure(Device, Compile, Internal).
    ExecutablePtr compile(std::span<const uint64_t> key, uint64_t hash, ir::Graph graph,
                          std::span<const ir::StreamRef> streams = {});
    /// The result's donor (an input index whose memory it takes over) or -1, and its size.
    int donor(const Executable &executable, size_t result) const;
    /// In whose order a result's memory has to be taken.
    ir::StreamRef result_home(const Executable &executable, size_t result,
                              std::span<const ir::StreamRef> streams = {}) const;
    /// Whether all of it runs on the CPU.
    bool cpu_only(const Executable &executable) const;
    /// As runtime::run. Never throws for the user's mistakes: they are in the report.
    ir::Launched run(const Executable &executable, const ir::Bindings &bindings, bool watch = false);

    /// Whether a profile is on.
    static bool profiling();

    /// What the passes decided, as text (`explain`), and the Program's own text.
    std::string explain(const Executable &executable) const;
    /// Compiles (without caching the result under a key) and explains, for lz::explain.
    std::string explain(const ir::Graph &graph);
    /// Likewise, with every check on; for lz::verify_schedule.
    std::string verify_schedule(const ir::Graph &graph);

    /// Memory from the home's caching allocator, or pinned memory of the host; throws Failure(OutOfMemory),
    /// and Failure(Device) for pinned memory where there is no GPU. Blocks of GPUs come with a `use`.
    void allocate(ValueMemory &block, int64_t bytes, ir::StreamRef home, bool pinned = false);
    /// Never waits (S54).
    void free(ValueMemory &block) noexcept;
    /// The block is used on streams from now on: gives it a `use`.
    static ir::MemoryUse *track(ValueMemory &block);
    /// Whether everything noted of it is over; for a reader, or a writer.
    bool is_idle(const ValueMemory &block, bool writer) const;
    /// Waits until it is.
    void wait(const ValueMemory &block, bool writer) const;
    /// Drops the notes of a block whose memory is not ours.
    static void forget(ValueMemory &block) noexcept;
    /// The allocator itself, for statistics (frontend/engine and tests only: its header belongs to the
    /// runtime).
    runtime::CachingAllocator &allocator(ir::Device device);
    /// Of pinned memory; null where there is no GPU.
    runtime::CachingAllocator *pinned_allocator();
    /// Why there is no GPU, as a whole sentence; empty when there is one.
    const std::string &why_no_gpu() const;
    /// What of CUDA was found, or why it is not used; empty where virtual GPUs stand in for it.
    std::string cuda_availability() const;
    ir::DeviceProperties properties(ir::Device device) const;
    /// Whether `from` could address memory of `to`, and whether it may now.
    bool can_access_peer(ir::Device from, ir::Device to) const;
    bool peer_access(ir::Device from, ir::Device to) const;
    /// Throws what the compiler would say of the devices in this graph (S06).
    void check_devices(const ir::Graph &graph) const;
    /// Throws Failure(Device) where there is no link. Programs that were compiled before are not found again.
    void set_peer_access(ir::Device from, ir::Device to, bool enable);

    /// Of the target that Programs are compiled for now: another one after modes, peers or threads changed.
    uint32_t target_number() const;

    int num_threads() const;
    /// Throws Failure(State) unless n is at least 1.
    void set_num_threads(int n);
    bool reproducible() const;
    /// Programs that were compiled otherwise are not found again, until it is as it was then.
    void set_reproducible(bool reproducible);
    ir::MatmulPrecision float32_matmul() const;
    /// Likewise.
    void set_float32_matmul(ir::MatmulPrecision precision);

    CompileStats stats() const;
    void reset_stats();
    /// Forgets compiled Programs and kernels in memory (tests; the disk cache stays).
    void clear_caches();
    /// Changes modes for tests and scopes (fusion off, threads, verify): Programs of other modes are not
    /// reused.
    void set_modes(const ir::Modes &modes);

    /// The backends, for streams.h.
    Devices &devices();

private:
    Engine();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace lz::engine
