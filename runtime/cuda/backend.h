#pragma once
/// GPUs through the CUDA driver.

#include "runtime/allocator/fault_slabs.h"
#include "runtime/api/backend.h"
#include "runtime/cuda/clock.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/library/kernels.h"
#include "runtime/cuda/library/matmul.h"
#include "runtime/cuda/module.h"
#include "runtime/cuda/pinned/blocks.h"
#include "runtime/cuda/pinned/staging.h"
#include "runtime/cuda/replay/call_capture.h"
#include "runtime/cuda/segments.h"
#include "runtime/cuda/stream.h"

#include <array>
#include <atomic>
#include <bitset>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lz::runtime::cuda {

struct CudaOptions {
    bool graphs = true;              ///< runs that come again are launched as graphs
    bool expandable_segments = true; ///< segments grow where the device has virtual memory management
    /// Of pinned memory for tables and for operands of functions on the host, how much is kept for the next
    /// ones: page-locking is a system call that touches every page.
    size_t unused_pinned_bytes = size_t{256} << 20;
    SourceLoader load_source = {};    ///< of the library's kernels
    PersistentStore *store = nullptr; ///< null: what a search found is found again by each process
};

class CudaBackend final : public Backend {
public:
    /// Asks what the device is. Its context is made by what needs one first, so that a process takes memory
    /// of those GPUs that it uses.
    CudaBackend(const Driver &driver, int ordinal, int index, CudaOptions options = {});
    /// What is on its streams is done first.
    ~CudaBackend() override;

    Device device() const override { return {ir::DeviceKind::Cuda, static_cast<uint8_t>(device_.index())}; }
    std::string name() const override { return device_.name(); }
    DeviceProperties properties() const override { return properties_; }

    void *allocate(size_t bytes) override;
    /// The driver waits for what is on the device.
    void free(void *memory, size_t bytes) noexcept override;
    bool free_waits() const override { return true; }
    size_t total_memory() const override { return static_cast<size_t>(properties_.total_memory); }
    size_t free_memory() const override;
    ExpandableMemory *expandable() override;
    void *allocate_pinned(size_t bytes) override;
    void free_pinned(void *memory, size_t bytes) noexcept override;
    /// Pinned memory, which the device writes over the link.
    ir::Fault *allocate_faults(size_t count) override;
    void free_faults(ir::Fault *faults, size_t count) noexcept override;

    bool can_access_peer(const Backend &other) const override;
    void set_peer_access(Backend &other, bool enable) override;

    /// Memory that is not pinned goes through pinned pieces, filled or emptied by a thread of the stream.
    void copy(void *to, const void *from, size_t bytes, StreamId stream, OnDone done = {}) override;

    StreamId create_stream(int priority) override;
    void destroy_stream(StreamId stream) noexcept override;
    uint64_t record(StreamId stream) override { return at(stream).record(); }
    std::shared_ptr<Timestamp> record_time(StreamId stream) override;
    void wait(StreamId stream, Backend &other, StreamId of, uint64_t tick) override;
    void wait_foreign(StreamId stream, void *foreign) override;
    void foreign_waits(void *foreign, StreamId stream, uint64_t tick) override;
    bool reached(StreamId stream, uint64_t tick) override;
    void synchronize(StreamId stream, uint64_t tick) override;
    /// Callbacks run on a thread of the stream, never on the driver's.
    void call_host(StreamId stream, std::function<void()> callback) override;

    std::unique_ptr<Module> load(const CompiledKernel &kernel) override;
    std::string module_key() const override;
    const ir::LibraryRules &library() const override;
    LibraryFn find_library(std::string_view symbol) const override;

    void launch(const Launch &launch, StreamId stream, OnDone done = {}) override;
    void call(const Call &call, StreamId stream, OnDone done = {}) override;
    /// Graphs (graph.h), from a Program's second run on; not with copies of pageable memory, functions of the
    /// host or the user's own.
    void replay(const Replay &replay, std::unique_ptr<ReplayMemory> &memory, size_t &done) override;

private:
    class Moment;
    CudaStream &at(StreamId stream);
    CudaStream &make(StreamId stream);
    Multiplier &multiplier() const;
    void timed(CudaStream &stream, OnDone done, const std::function<void()> &put);
    void put_launch(const Launch &launch, CudaStream &stream);
    void put_copy(void *to, const void *from, size_t bytes, CudaStream &stream);
    bool is_pageable(const void *memory) const;
    void stage_in(std::byte *to, const std::byte *from, size_t bytes, CudaStream &stream);
    void stage_out(std::byte *to, const std::byte *from, size_t bytes, CudaStream &stream);
    Staging &staging(StreamId stream);
    void call_on_host(const Call &call, CudaStream &stream);
    void finish_streams() noexcept;

    const CudaOptions options_;
    CudaDevice device_;
    DeviceProperties properties_;
    Segments segments_;
    FaultSlabs faults_;
    EventClock clock_;
    PinnedBlocks pinned_; ///< gone after the streams, whose threads may have some of it
    mutable std::mutex multiplier_mutex_;
    mutable std::unique_ptr<Multiplier> multiplier_; ///< made with the first product
    const LibraryKernels kernels_;
    CallCapture capture_;

    std::mutex streams_mutex_;
    std::array<std::unique_ptr<CudaStream>, ir::kMaxStreams> owners_;
    std::array<std::atomic<CudaStream *>, ir::kMaxStreams> streams_{};
    std::array<std::unique_ptr<Staging>, ir::kMaxStreams> stagings_;
    std::bitset<ir::kMaxStreams> taken_; ///< of the user's

    std::mutex cpu_words_mutex_;
    std::array<uint64_t, ir::kMaxStreams> cpu_values_{}; ///< that each CPU stream's word will have
};

/// Which of the driver's devices there are, in this order; all that Lazuli can use (compute capability 8.0
/// and newer), or (`none` says why, a sentence) none.
std::vector<std::unique_ptr<Backend>> make_cuda_gpus(const Driver &driver, CudaOptions options,
                                                     std::string &none);

} // namespace lz::runtime::cuda
