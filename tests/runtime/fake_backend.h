#pragma once
/// A device that has addresses but no memory, and streams that are done when a test says so.

#include "ir/diagnostic.h"
#include "runtime/api/backend.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

namespace lz::runtime::test {

class FakeBackend final : public Backend {
public:
    explicit FakeBackend(size_t capacity, uint8_t index = 1, bool expandable = false)
        : mapped(*this), capacity_(capacity), expandable_(expandable), index_(index) {}

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
    ExpandableMemory *expandable() override { return expandable_ ? &mapped : nullptr; }
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

    /// Units of 2 MiB, in pieces of at most two.
    class Mapped final : public ExpandableMemory {
    public:
        explicit Mapped(FakeBackend &backend) : backend_(backend) {}
        size_t unit() const override { return kUnit; }
        size_t addresses() const override { return (backend_.capacity_ + kUnit - 1) / kUnit * kUnit; }
        char *reserve() override {
            if (++calls == fail_at)
                return nullptr;
            const uintptr_t begin = (backend_.next_ + kUnit - 1) / kUnit * kUnit;
            backend_.next_ = begin + addresses() + kUnit;
            reserved[begin] = addresses();
            return reinterpret_cast<char *>(begin);
        }
        void release(char *begin) noexcept override {
            const auto at = reinterpret_cast<uintptr_t>(begin);
            backend_.wrong_frees += reserved.erase(at) != 1;
            take(at, at + addresses());
        }
        void map(char *begin, size_t bytes) override {
            if (++calls == fail_at || backend_.used_ + bytes > backend_.capacity_)
                throw ir::Failure(ir::ErrorKind::OutOfMemory, "fake: full.");
            const auto at = reinterpret_cast<uintptr_t>(begin);
            const auto segment = reserved.upper_bound(at);
            backend_.wrong_frees += bytes == 0 || bytes % kUnit != 0 || at % kUnit != 0 ||
                                    segment == reserved.begin() ||
                                    at + bytes > std::prev(segment)->first + std::prev(segment)->second;
            for (size_t done = 0; done < bytes; done += 2 * kUnit) {
                backend_.wrong_frees += held.contains(at + done);
                held[at + done] = std::min(2 * kUnit, bytes - done);
            }
            backend_.used_ += bytes;
        }
        Range pieces(char *begin, size_t bytes) noexcept override {
            const auto at = reinterpret_cast<uintptr_t>(begin);
            backend_.wrong_frees += !covers(at, bytes);
            return inside(at, at + bytes);
        }
        void unmap(char *begin, size_t bytes) noexcept override {
            const auto at = reinterpret_cast<uintptr_t>(begin);
            const Range range = inside(at, at + bytes);
            backend_.wrong_frees += range.begin != begin || range.bytes != bytes;
            take(at, at + bytes);
            for (auto &[stream, state] : backend_.streams_)
                state.done = state.put;
        }
        /// Whether all of them have memory.
        bool covers(uintptr_t begin, size_t bytes) const {
            auto piece = held.upper_bound(begin);
            if (piece == held.begin())
                return false;
            uintptr_t at = (--piece)->first;
            while (piece != held.end() && piece->first == at && at < begin + bytes)
                at += (piece++)->second;
            return at >= begin + bytes;
        }

        std::map<uintptr_t, size_t> reserved, held;
        int calls = 0, fail_at = 0; ///< of reserve and map

    private:
        static constexpr size_t kUnit = size_t{2} << 20;
        Range inside(uintptr_t begin, uintptr_t end) const {
            Range range;
            for (auto p = held.lower_bound(begin); p != held.end() && p->first + p->second <= end; ++p) {
                if (!range.begin)
                    range.begin = reinterpret_cast<char *>(p->first);
                range.bytes += p->second;
            }
            return range;
        }
        void take(uintptr_t begin, uintptr_t end) {
            for (auto p = held.lower_bound(begin); p != held.end() && p->first + p->second <= end;
                 p = held.erase(p))
                backend_.used_ -= p->second;
        }
        FakeBackend &backend_;
    };
    Mapped mapped; ///< where it is made with it

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
    bool expandable_;
    uint8_t index_;
    uintptr_t next_ = uintptr_t{1} << 40;
    StreamId created_ = 0;
    std::map<StreamId, Stream> streams_;
};

} // namespace lz::runtime::test
