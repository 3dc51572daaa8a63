#pragma once
/// The CPU as a Backend. Work runs to its end in the calling thread (with the pool's help): a stream is
/// always idle when a call returns, and an event has always happened.

#include "runtime/api/backend.h"

#include <atomic>

namespace lz::runtime {

class CpuBackend final : public Backend {
public:
    /// `loader` makes modules of compiled bytes; without one `load` throws Failure(Compile). `memory_limit`
    /// caps what `allocate` gives in total; 0: the machine's memory or the container's limit.
    explicit CpuBackend(ModuleLoader loader = {}, size_t memory_limit = 0);

    Device device() const override { return ir::kCpu; }
    std::string name() const override { return "cpu"; }

    /// Blocks of 2 MiB and more are mapped at 2 MiB boundaries with huge pages where the system gives them;
    /// their pages come at first touch. Fresh memory of that size is zero, but that is no promise.
    void *allocate(size_t bytes) override;
    void free(void *memory, size_t bytes) noexcept override;
    size_t total_memory() const override { return limit_; }
    size_t free_memory() const override;

    void copy(void *to, const void *from, size_t bytes, StreamId stream) override;

    StreamId create_stream(int priority) override;
    void destroy_stream(StreamId stream) noexcept override;
    EventId record_event(StreamId stream) override;
    void wait_event(StreamId stream, EventId event) override;
    bool query_event(EventId event) override;
    void synchronize_event(EventId event) override;
    void synchronize_stream(StreamId stream) override;

    std::unique_ptr<Module> load(const CompiledKernel &kernel) override;
    void launch(const Launch &launch, StreamId stream) override;

private:
    ModuleLoader loader_;
    size_t limit_;
    std::atomic<size_t> given_{0};
    std::atomic<StreamId> streams_{0};
    std::atomic<EventId> events_{0};
};

} // namespace lz::runtime
