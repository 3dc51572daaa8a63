#pragma once
/// The CPU as a Backend. Stream 0 is the calling thread: work on it runs to its end before the call returns
/// (with the pool's help), and waiting on it waits here. The other streams are threads of their own.

#include "runtime/api/backend.h"
#include "runtime/streams/table.h"
#include "runtime/virtual/clock.h"

#include <atomic>

namespace lz::runtime {

class CpuBackend final : public Backend {
public:
    /// `loader` makes modules of compiled bytes; without one `load` throws Failure(Compile). `memory_limit`
    /// caps what `allocate` gives in total; 0: the machine's memory or the container's limit.
    explicit CpuBackend(ModuleLoader loader = {}, size_t memory_limit = 0, StreamQueue::Options streams = {});
    /// What is on its streams is done first.
    ~CpuBackend() override;

    Device device() const override { return ir::kCpu; }
    std::string name() const override { return "cpu"; }
    DeviceProperties properties() const override;

    /// Blocks of 2 MiB and more are mapped at 2 MiB boundaries with huge pages where the system gives them
    /// (the first one when there is a second); their pages come at first touch. Fresh memory of that size is
    /// zero, but that is no promise.
    void *allocate(size_t bytes) override;
    void free(void *memory, size_t bytes) noexcept override;
    size_t total_memory() const override { return limit_; }
    size_t free_memory() const override;

    /// The CPU needs no locked pages: the same as allocate.
    void *allocate_pinned(size_t bytes) override { return allocate(bytes); }
    void free_pinned(void *memory, size_t bytes) noexcept override { free(memory, bytes); }

    ir::Fault *allocate_faults(size_t count) override { return new ir::Fault[count]; }
    void free_faults(ir::Fault *faults, size_t /*count*/) noexcept override { delete[] faults; }

    bool can_access_peer(const Backend &) const override { return false; }
    void set_peer_access(Backend &other, bool enable) override;

    void copy(void *to, const void *from, size_t bytes, StreamId stream, OnDone done = {}) override;

    StreamId create_stream(int priority) override { return streams_.create(priority); }
    void destroy_stream(StreamId stream) noexcept override { streams_.destroy(stream); }
    uint64_t record(StreamId stream) override;
    std::shared_ptr<Timestamp> record_time(StreamId stream) override;
    void wait(StreamId stream, Backend &other, StreamId of, uint64_t tick) override;
    bool reached(StreamId stream, uint64_t tick) override;
    bool pending(StreamId stream, uint64_t tick) override;
    void synchronize(StreamId stream, uint64_t tick) override;
    void call_host(StreamId stream, std::function<void()> callback) override;

    std::unique_ptr<Module> load(const CompiledKernel &kernel) override;
    std::string module_key() const override { return "cpu"; }
    const ir::LibraryRules &library() const override { return cpu_library(); }
    LibraryFn find_library(std::string_view symbol) const override { return find_cpu_function(symbol); }
    void launch(const Launch &launch, StreamId stream, OnDone done = {}) override;
    void call(const Call &call, StreamId stream, OnDone done = {}) override;

    /// From now on its work takes time of a virtual clock, too, which outlives it (VirtualBackend::clock).
    void set_clock(VirtualClock *clock) { clock_ = clock; }

private:
    void *map_large(size_t bytes);
    std::unique_lock<std::mutex> lock_clock() const;
    template <class Work, class RunNow>
    void perform(const Work &work, StreamId stream, OnDone done, StreamQueue::RunFn run_packed, RunNow run);
    ModuleLoader loader_;
    size_t limit_;
    std::atomic<size_t> given_{0};
    /// The block that has ordinary pages; `this`: none will have any more.
    std::atomic<void *> first_{nullptr};
    VirtualClock *clock_ = nullptr;
    StreamTable streams_;
};

} // namespace lz::runtime
