#pragma once
/// A device that has addresses but no memory, and streams that are done when a test says so.

#include "ir/diagnostic.h"
#include "runtime/api/backend.h"

#include <map>
#include <vector>

namespace lz::runtime::test {

class FakeBackend final : public Backend {
public:
    explicit FakeBackend(size_t capacity, uint8_t index = 1) : capacity_(capacity), index_(index) {}

    Device device() const override { return {ir::DeviceKind::Cuda, index_}; }
    std::string name() const override { return ir::to_string(device()); }
    DeviceProperties properties() const override { return {}; }

    void *allocate(size_t bytes) override {
        if (used_ + bytes > capacity_)
            throw ir::Failure(ir::ErrorKind::OutOfMemory, "fake: full.");
        const uintptr_t address = next_;
        segments[address] = bytes;
        used_ += bytes;
        // A gap, so that segments never touch and merging across them shows.
        next_ += bytes + (size_t{1} << 21);
        return reinterpret_cast<void *>(address);
    }
    void free(void *memory, size_t bytes) noexcept override {
        auto it = segments.find(reinterpret_cast<uintptr_t>(memory));
        if (it == segments.end() || it->second != bytes) {
            ++wrong_frees;
            return;
        }
        used_ -= bytes;
        segments.erase(it);
    }
    size_t total_memory() const override { return capacity_; }
    size_t free_memory() const override { return capacity_ - used_; }
    void *allocate_pinned(size_t bytes) override { return allocate(bytes); }
    void free_pinned(void *memory, size_t bytes) noexcept override { free(memory, bytes); }
    ir::Fault *allocate_faults(size_t count) override { return new ir::Fault[count]; }
    void free_faults(ir::Fault *faults, size_t) noexcept override { delete[] faults; }
    bool can_access_peer(const Backend &) const override { return false; }
    void set_peer_access(Backend &, bool) override {}

    void copy(void *, const void *, size_t, StreamId stream, OnDone) override { ++streams_[stream].put; }
    StreamId create_stream(int) override { return ir::kFirstUserStream + created_++; }
    void destroy_stream(StreamId) noexcept override {}
    uint64_t record(StreamId stream) override { return streams_[stream].put; }
    std::shared_ptr<Timestamp> record_time(StreamId) override { return nullptr; }
    void wait(StreamId stream, Backend &, StreamId of, uint64_t tick) override {
        ++streams_[stream].put;
        ordered.push_back({stream, of, tick});
    }
    bool reached(StreamId stream, uint64_t tick) override { return streams_[stream].done >= tick; }
    void synchronize(StreamId stream, uint64_t tick) override {
        ++waits;
        streams_[stream].done = std::max(streams_[stream].done, tick);
    }
    void call_host(StreamId stream, std::function<void()>) override { ++streams_[stream].put; }
    std::unique_ptr<Module> load(const CompiledKernel &) override { return nullptr; }
    std::string module_key() const override { return "fake"; }
    const ir::LibraryRules &library() const override { return cpu_library(); }
    LibraryFn find_library(std::string_view) const override { return nullptr; }
    void launch(const Launch &, StreamId stream, OnDone) override { ++streams_[stream].put; }
    void call(const Call &, StreamId stream, OnDone) override { ++streams_[stream].put; }

    /// Something is put on the stream; the moment after it.
    uint64_t work(StreamId stream) { return ++streams_[stream].put; }
    /// Everything put on the stream so far is done.
    void finish(StreamId stream) { streams_[stream].done = streams_[stream].put; }

    size_t used() const { return used_; }
    std::map<uintptr_t, size_t> segments;
    int wrong_frees = 0;
    int waits = 0; ///< of the host
    struct Ordered {
        StreamId stream, of;
        uint64_t tick;
        friend bool operator==(const Ordered &, const Ordered &) = default;
    };
    std::vector<Ordered> ordered; ///< waits of streams for others

private:
    struct Stream {
        uint64_t put = 0, done = 0;
    };
    size_t capacity_, used_ = 0;
    uint8_t index_;
    uintptr_t next_ = uintptr_t{1} << 40;
    StreamId created_ = 0;
    std::map<StreamId, Stream> streams_;
};

} // namespace lz::runtime::test
