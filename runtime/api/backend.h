#pragma once
/// The seam between compiled programs and a device. Three stand behind it: cpu, virtual GPUs and CUDA.

#include "ir/compiled_kernel.h"
#include "ir/type.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace lz::runtime {

using ir::CompiledKernel;
using ir::Device;

/// Loaded code; unloads when destroyed. Immutable, usable from any thread.
class Module {
public:
    virtual ~Module() = default;
    /// Address of a phase's entry point; throws Failure(Internal) for a symbol it does not have.
    virtual void *entry(const std::string &symbol) const = 0;
};

/// Turns bytes into code. Injected into the cpu and virtual backends by the engine (LLVM lives in codegen).
using ModuleLoader = std::function<std::unique_ptr<Module>(const CompiledKernel &)>;

/// Opaque ids: 0 is the device's default stream.
using StreamId = int32_t;
using EventId = uint64_t;

/// Memory, copies, streams, events, modules and launches of one device. All functions may be called from any
/// thread. Asynchronous functions return at once and are ordered on their stream; failures are
/// Failure(OutOfMemory, Cuda, Device).
class Backend {
public:
    virtual ~Backend() = default;
    virtual Device device() const = 0;
    virtual std::string name() const = 0;

    // Memory as the driver gives it; the caching allocator is above.
    virtual void *allocate(size_t bytes) = 0; ///< aligned to 512; throws Failure(OutOfMemory)
    virtual void free(void *memory, size_t bytes) noexcept = 0;
    virtual size_t total_memory() const = 0;
    virtual size_t free_memory() const = 0;

    virtual void copy(void *to, const void *from, size_t bytes, StreamId stream) = 0;

    virtual StreamId create_stream(int priority) = 0;
    virtual void destroy_stream(StreamId stream) noexcept = 0;
    virtual EventId record_event(StreamId stream) = 0;
    virtual void wait_event(StreamId stream, EventId event) = 0;
    virtual bool query_event(EventId event) = 0;
    virtual void synchronize_event(EventId event) = 0;
    virtual void synchronize_stream(StreamId stream) = 0;

    virtual std::unique_ptr<Module> load(const CompiledKernel &kernel) = 0;

    /// One phase over the work items of all segments, in order on `stream`. Segment s has the items
    /// [ends[s - 1], ends[s]) of the launch, numbered from 0 for its own frame. What is pointed to lives
    /// until the launch has run.
    struct Launch {
        void *entry;
        const ir::KernelFrame *frames; ///< one a segment
        const int64_t *ends;           ///< items of segments 0..s together, one a segment
        uint32_t segments;
        int64_t cost;        ///< Step::cost: small launches stay on the calling thread
        size_t worker_bytes; ///< scratch each worker needs

        int64_t items() const { return ends[segments - 1]; }
    };
    virtual void launch(const Launch &launch, StreamId stream) = 0;
};

} // namespace lz::runtime
