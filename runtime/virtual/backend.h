#pragma once
/// Virtual GPUs: devices that threads of the host play, for programs that are to run where there is no GPU,
/// and for finding out what is wrong with them. They are as asynchronous and as separate as GPUs are: each
/// stream is a thread, nothing but waits orders two of them, and memory of a device is where neither the host
/// nor another device can read it (runtime/virtual/memory.h). Kernels and library functions are those of the
/// CPU.
///
/// A pointer that a launch, call or copy is given is looked up at once: Failure(Cuda) names the address, and
/// the device that it belongs to, when it is in no memory that is allocated, or in that of a device to which
/// this one has no peer access, or, for a launch or call, in that of the host.

#include "runtime/api/backend.h"
#include "runtime/streams/table.h"
#include "runtime/virtual/clock.h"
#include "runtime/virtual/model.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lz::runtime {

inline constexpr int kMaxVirtualGpus = 16;

struct VirtualOptions {
    int count = 1; ///< 0 to kMaxVirtualGpus
    /// Which of them there are, in this order (CUDA_VISIBLE_DEVICES): cuda:i is number visible[i]. Not set:
    /// all.
    std::optional<std::vector<int>> visible = {};
    size_t memory_bytes = 0; ///< of each; 0: an even share of the host's, which keeps one for itself
    bool peers = true;       ///< whether they can address each other's memory
    std::optional<uint64_t> delay_seed = {}; ///< items wait random moments, so that a missing sync shows
    std::optional<VirtualModel> model = {};  ///< times are those of this hardware
    int max_queued = 1024;                   ///< items on a stream; who puts more waits
};

/// What the GPUs of one machine share: where their memory is, who has access to whose, and the clock.
struct VirtualMachine;

class VirtualBackend final : public Backend {
public:
    VirtualBackend(std::shared_ptr<VirtualMachine> machine, size_t index, int physical);
    /// What is on its streams is done first.
    ~VirtualBackend() override;

    Device device() const override { return device_; }
    std::string name() const override { return ir::to_string(device_); }
    DeviceProperties properties() const override;

    void *allocate(size_t bytes) override;
    /// Never waits: the bytes stay until what is on the streams now has been done.
    void free(void *memory, size_t bytes) noexcept override;
    size_t total_memory() const override { return limit_; }
    size_t free_memory() const override;

    void *allocate_pinned(size_t bytes) override;
    void free_pinned(void *memory, size_t bytes) noexcept override;
    /// Whether an address is in memory that allocate_pinned of one of the machine's GPUs gave.
    bool is_pinned(const void *memory) const;

    /// Pinned memory; a launch or call that would write its faults elsewhere is refused.
    ir::Fault *allocate_faults(size_t count) override;
    void free_faults(ir::Fault *faults, size_t count) noexcept override;

    bool can_access_peer(const Backend &other) const override;
    void set_peer_access(Backend &other, bool enable) override;

    void copy(void *to, const void *from, size_t bytes, StreamId stream, OnDone done = {}) override;

    StreamId create_stream(int priority) override;
    void destroy_stream(StreamId stream) noexcept override { streams_.destroy(stream); }
    uint64_t record(StreamId stream) override;
    std::shared_ptr<Timestamp> record_time(StreamId stream) override;
    void wait(StreamId stream, Backend &other, StreamId of, uint64_t tick) override;
    bool reached(StreamId stream, uint64_t tick) override { return streams_.at(stream).reached(tick); }
    bool pending(StreamId stream, uint64_t tick) override;
    void synchronize(StreamId stream, uint64_t tick) override;
    void call_host(StreamId stream, std::function<void()> callback) override;

    std::unique_ptr<Module> load(const CompiledKernel &kernel) override;
    std::string module_key() const override { return "virtual"; }
    const ir::LibraryRules &library() const override { return cpu_library(); }
    LibraryFn find_library(std::string_view symbol) const override { return find_cpu_function(symbol); }
    void launch(const Launch &launch, StreamId stream, OnDone done = {}) override;
    void call(const Call &call, StreamId stream, OnDone done = {}) override;
    /// What follows one another on a stream is one item of it. Where a model is switched on every step has
    /// times of its own, and none is replayed.
    void replay(const Replay &replay, std::unique_ptr<ReplayMemory> &memory, size_t &done) override;

    /// From now on the device does nothing and every call throws Failure(Cuda) that says why; `cause` is a
    /// sentence. What is being done is finished.
    void lose(std::string cause) { streams_.group().lose(std::move(cause)); }
    /// The machine's clock where a model is switched on, else null.
    VirtualClock *clock() const;

private:
    enum class Side : uint8_t { Own, Peer, Host, Pinned };
    struct Place {
        void *bytes;
        Side side;
        Device device; ///< unless host memory
    };
    struct Retired {
        void *memory;
        size_t bytes;
        std::vector<std::pair<StreamQueue *, uint64_t>> until;
    };

    Place find(const char *what, const void *address, size_t bytes) const;
    void translate(const char *what, std::span<void *> pointers) const;
    void check_fault(const char *what, const ir::Fault *fault) const;
    StreamQueue &queue(StreamId stream);
    void put_sequence(const Replay &replay, size_t &done, size_t end);
    void pack_launch(const Launch &launch, void *packed) const;
    void pack_call(const Call &call, void *packed) const;
    void pack_step(const Replay &replay, const Replay::Step &step, void *packed) const;
    ir::StreamRef ref(StreamId stream) const { return {device_, stream}; }
    void release_retired(bool all) noexcept;

    const std::shared_ptr<VirtualMachine> machine_;
    const size_t index_;
    const int physical_;
    const Device device_;
    const size_t limit_;
    std::atomic<size_t> used_{0};
    std::mutex retired_mutex_;
    std::deque<Retired> retired_;
    StreamTable streams_;
};

/// One Backend for each visible device: cuda:0, cuda:1, ... `loader` makes modules of the CPU's code. Throws
/// Failure(Device) for options that make no sense.
std::vector<std::unique_ptr<Backend>> make_virtual_gpus(const VirtualOptions &options, ModuleLoader loader);

} // namespace lz::runtime
