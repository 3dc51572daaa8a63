#pragma once
/// A device that has addresses but no memory, and streams that are done when a test says so.

#include "ir/diagnostic.h"
#include "runtime/api/backend.h"

#include <map>
#include <set>

namespace lz::runtime::test {

class FakeBackend final : public Backend {
public:
    explicit FakeBackend(size_t capacity) : capacity_(capacity) {}

    Device device() const override { return {ir::DeviceKind::Cuda, 1}; }
    std::string name() const override { return "fake"; }

    void *allocate(size_t bytes) override {
        if (used_ + bytes > capacity_)
            throw ir::Failure(ir::ErrorKind::OutOfMemory, "fake: full.");
        used_ += bytes;
        // A gap, so that segments never touch and merging across them shows.
        uintptr_t address = next_;
        next_ += bytes + (size_t{1} << 21);
        segments[address] = bytes;
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
    void copy(void *, const void *, size_t, StreamId) override {}
    StreamId create_stream(int) override { return ++streams_; }
    void destroy_stream(StreamId) noexcept override {}
    EventId record_event(StreamId stream) override {
        events_[++event_] = stream;
        return event_;
    }
    void wait_event(StreamId, EventId) override {}
    bool query_event(EventId event) override { return !events_.contains(event); }
    void synchronize_event(EventId event) override {
        ++waits;
        events_.erase(event);
    }
    void synchronize_stream(StreamId) override {}
    std::unique_ptr<Module> load(const CompiledKernel &) override { return nullptr; }
    void launch(const Launch &, StreamId) override {}

    /// All events recorded on the stream so far have happened.
    void finish(StreamId stream) {
        std::erase_if(events_, [&](const auto &entry) { return entry.second == stream; });
    }

    size_t used() const { return used_; }
    std::map<uintptr_t, size_t> segments;
    int wrong_frees = 0;
    int waits = 0;

private:
    size_t capacity_, used_ = 0;
    uintptr_t next_ = uintptr_t{1} << 40;
    StreamId streams_ = 0;
    EventId event_ = 0;
    std::map<EventId, StreamId> events_;
};

} // namespace lz::runtime::test
