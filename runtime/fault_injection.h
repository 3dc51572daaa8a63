#pragma once
/// A Backend that fails on demand, for tests of what happens then.

#include "ir/diagnostic.h"
#include "runtime/api/backend.h"

#include <atomic>

namespace lz::runtime {

/// Passes every call on to another Backend, which outlives it, but for one that fails: the `fail_at`-th from
/// now, of those that may fail. Calls that are noexcept are passed on uncounted. Failures are those the
/// call's contract names: OutOfMemory from `allocate`, Compile from `load`, and Device from the rest.
class FaultInjectingBackend final : public Backend {
public:
    explicit FaultInjectingBackend(Backend &backend) : backend_(backend) {}

    /// The n-th call from now fails (1: the next one), and the `times` - 1 after it; 0: none does.
    void fail_at(int64_t n, int64_t times = 1);
    /// Calls counted since the last fail_at.
    int64_t calls() const { return calls_.load(); }

    Device device() const override { return backend_.device(); }
    std::string name() const override { return backend_.name(); }
    void *allocate(size_t bytes) override;
    void free(void *memory, size_t bytes) noexcept override { backend_.free(memory, bytes); }
    size_t total_memory() const override { return backend_.total_memory(); }
    size_t free_memory() const override { return backend_.free_memory(); }
    void copy(void *to, const void *from, size_t bytes, StreamId stream) override;
    StreamId create_stream(int priority) override;
    void destroy_stream(StreamId stream) noexcept override { backend_.destroy_stream(stream); }
    EventId record_event(StreamId stream) override;
    void wait_event(StreamId stream, EventId event) override;
    bool query_event(EventId event) override;
    void synchronize_event(EventId event) override;
    void synchronize_stream(StreamId stream) override;
    std::unique_ptr<Module> load(const CompiledKernel &kernel) override;
    void launch(const Launch &launch, StreamId stream) override;

private:
    void count(const char *call, ir::ErrorKind kind);

    Backend &backend_;
    std::atomic<int64_t> calls_{0}, first_{0}, last_{-1};
};

} // namespace lz::runtime
