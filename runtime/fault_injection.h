#pragma once
/// A Backend that fails on demand, for tests of what happens then.

#include "ir/diagnostic.h"
#include "runtime/api/backend.h"

#include <atomic>

namespace lz::runtime {

/// Passes every call on to another Backend, which outlives it, but for one that fails: the `fail_at`-th from
/// now, of those that may fail; or all from then on (`lose_at`), as if the device had gone. Calls that do not
/// fail (noexcept ones, `record`, questions that need no device) are passed on uncounted, and so are
/// `reached`, `pending` and `synchronize` until the device is lost. Failures are those the call's contract
/// names: OutOfMemory from what allocates, Compile from `load`, Cuda when the device is
/// lost, and Device from the rest.
class FaultInjectingBackend : public Backend {
public:
    explicit FaultInjectingBackend(Backend &backend) : backend_(backend) {}

    /// The n-th call from now fails (1: the next one), and the `times` - 1 after it; 0: none does.
    void fail_at(int64_t n, int64_t times = 1);
    /// From the n-th call on the device is lost: that call fails, and all that come. What was on its streams
    /// is done. 0: it is not, and is found again.
    void lose_at(int64_t n);
    /// Calls counted since the last fail_at or lose_at.
    int64_t calls() const { return calls_.load(); }

    Device device() const override { return backend_.device(); }
    std::string name() const override { return backend_.name(); }
    DeviceProperties properties() const override { return backend_.properties(); }
    void *allocate(size_t bytes) override;
    void free(void *memory, size_t bytes) noexcept override { backend_.free(memory, bytes); }
    bool free_waits() const override { return backend_.free_waits(); }
    size_t total_memory() const override { return backend_.total_memory(); }
    size_t free_memory() const override { return backend_.free_memory(); }
    void *allocate_pinned(size_t bytes) override;
    void free_pinned(void *memory, size_t bytes) noexcept override { backend_.free_pinned(memory, bytes); }
    ir::Fault *allocate_faults(size_t count) override;
    void free_faults(ir::Fault *faults, size_t count) noexcept override {
        backend_.free_faults(faults, count);
    }
    bool can_access_peer(const Backend &other) const override;
    void set_peer_access(Backend &other, bool enable) override;
    void copy(void *to, const void *from, size_t bytes, StreamId stream, OnDone done = {}) override;
    StreamId create_stream(int priority) override;
    void destroy_stream(StreamId stream) noexcept override { backend_.destroy_stream(stream); }
    uint64_t record(StreamId stream) override { return backend_.record(stream); }
    std::shared_ptr<Timestamp> record_time(StreamId stream) override;
    void wait(StreamId stream, Backend &other, StreamId of, uint64_t tick) override;
    void wait_foreign(StreamId stream, void *foreign) override;
    void foreign_waits(void *foreign, StreamId stream, uint64_t tick) override;
    bool reached(StreamId stream, uint64_t tick) override;
    bool pending(StreamId stream, uint64_t tick) override;
    void synchronize(StreamId stream, uint64_t tick) override;
    void call_host(StreamId stream, std::function<void()> callback) override;
    std::unique_ptr<Module> load(const CompiledKernel &kernel) override;
    std::string module_key() const override { return backend_.module_key(); }
    const ir::LibraryRules &library() const override { return backend_.library(); }
    LibraryFn find_library(std::string_view symbol) const override { return backend_.find_library(symbol); }
    void launch(const Launch &launch, StreamId stream, OnDone done = {}) override;
    void call(const Call &call, StreamId stream, OnDone done = {}) override;
    /// Counts as the steps that it puts count by themselves; before one that fails it ends.
    void replay(const Replay &replay, std::unique_ptr<ReplayMemory> &memory, size_t &done) override;

private:
    void count(const char *call, ir::ErrorKind kind);
    [[noreturn]] void throw_lost() const;
    static Backend &inside(Backend &backend);
    static const Backend &inside(const Backend &backend);

    Backend &backend_;
    std::atomic<int64_t> calls_{0}, first_{0}, last_{-1};
    std::atomic<int64_t> lose_{0};
    std::atomic<bool> lost_{false};
};

} // namespace lz::runtime
