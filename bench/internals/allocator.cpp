// What a pair of allocation and free costs, how often memory is reused and how much of it lies in pieces: the
// caching allocator against a plain best fit and against malloc, on the trace of a training loop (per_call is
// the mean of all calls), and on one block.
//
//   bench_allocator --benchmark_repetitions=9
#include "runtime/allocator/caching_allocator.h"
#include "runtime/cpu/backend.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace {

using namespace lz;
using runtime::CachingAllocator;
using runtime::CpuBackend;
using runtime::Guard;
using runtime::StreamId;

constexpr size_t kMiB = size_t{1} << 20;

// --- the trace

/// Blocks are allocated and freed by number, on streams. `guarded`: another stream used the block in this
/// step.
struct Event {
    size_t block;
    size_t bytes; ///< 0: free
    StreamId stream = 0;
    bool guarded = false;
    bool step = false; ///< a step ends; nothing else
};
struct Trace {
    std::vector<Event> events;
    size_t blocks = 0;
    int64_t allocations = 0;
    size_t live_peak = 0;
};

/// Training a perceptron of six layers with Adam, 60 steps whose batch is one of five sizes: the forward pass
/// keeps activations, the backward pass frees them last first beside gradients that live to the optimizer's
/// step; weights and moments live for ever; batches come on the copy stream, two steps ahead.
class TrainingLoop {
public:
    static Trace make() {
        TrainingLoop loop;
        for (int step = 0; step < 60; ++step)
            loop.step();
        return std::move(loop.trace_);
    }

private:
    static constexpr size_t kWidths[] = {784, 2048, 2048, 1024, 512, 128, 10};
    static constexpr size_t kLayers = std::size(kWidths) - 1;
    static constexpr size_t kBatches[] = {32, 64, 96, 128, 256};

    TrainingLoop() {
        for (size_t l = 0; l < kLayers; ++l)
            for (int copy = 0; copy < 3; ++copy) { // weight and two moments, with their biases
                allocate(kWidths[l] * kWidths[l + 1]);
                allocate(kWidths[l + 1]);
            }
        for (int ahead = 0; ahead < 2; ++ahead)
            fetch();
    }

    size_t allocate(size_t elements, StreamId stream = 0) {
        trace_.events.push_back({trace_.blocks, elements * 4, stream});
        ++trace_.allocations;
        sizes_.push_back((elements * 4 + 511) / 512 * 512);
        live_ += sizes_.back();
        trace_.live_peak = std::max(trace_.live_peak, live_);
        return trace_.blocks++;
    }
    void free(size_t block, bool guarded = false) {
        live_ -= sizes_[block];
        trace_.events.push_back({block, 0, 0, guarded});
    }
    void fetch() {
        const size_t size = kBatches[random_() % std::size(kBatches)];
        fetched_.push_back(
            {size, allocate(size * kWidths[0], ir::kCopyInStream), allocate(size, ir::kCopyInStream)});
    }

    void step() {
        const Batch batch = fetched_.front();
        fetched_.erase(fetched_.begin());
        fetch();
        std::vector<std::pair<size_t, size_t>> kept; // before and after the activation
        for (size_t l = 0; l < kLayers; ++l) {
            const size_t before = allocate(batch.size * kWidths[l + 1]), scratch = allocate(batch.size);
            kept.emplace_back(before, allocate(batch.size * kWidths[l + 1]));
            free(scratch);
        }
        const size_t loss = allocate(1);
        size_t upstream = allocate(batch.size * kWidths[kLayers]);
        std::vector<size_t> gradients;
        for (size_t l = kLayers; l-- > 0;) {
            gradients.push_back(allocate(kWidths[l] * kWidths[l + 1]));
            gradients.push_back(allocate(kWidths[l + 1]));
            const size_t next = allocate(batch.size * kWidths[l]);
            free(upstream);
            upstream = next;
            free(kept[l].second);
            free(kept[l].first);
        }
        free(upstream);
        free(batch.inputs, true);
        free(batch.labels, true);
        const size_t norm = allocate(1);
        for (const size_t gradient : gradients)
            free(gradient);
        free(norm);
        free(loss);
        trace_.events.push_back({0, 0, 0, false, true});
    }

    struct Batch {
        size_t size, inputs, labels;
    };
    std::mt19937 random_{1};
    Trace trace_;
    std::vector<size_t> sizes_;
    size_t live_ = 0;
    std::vector<Batch> fetched_;
};

// --- peers

/// A device whose streams are two steps behind: what a step guards is over when the second after it ends.
class LaggingBackend final : public runtime::Backend {
public:
    ir::Device device() const override { return {ir::DeviceKind::Cuda, 0}; }
    std::string name() const override { return "cuda:0"; }
    void *allocate(size_t bytes) override {
        ++calls;
        return memory_.allocate(bytes);
    }
    void free(void *memory, size_t bytes) noexcept override { memory_.free(memory, bytes); }
    size_t total_memory() const override { return memory_.total_memory(); }
    size_t free_memory() const override { return memory_.free_memory(); }
    runtime::DeviceProperties properties() const override { return {}; }
    void *allocate_pinned(size_t bytes) override { return allocate(bytes); }
    void free_pinned(void *memory, size_t bytes) noexcept override { free(memory, bytes); }
    ir::Fault *allocate_faults(size_t count) override { return new ir::Fault[count]; }
    void free_faults(ir::Fault *faults, size_t) noexcept override { delete[] faults; }
    bool can_access_peer(const Backend &) const override { return false; }
    void set_peer_access(Backend &, bool) override {}
    void copy(void *, const void *, size_t, StreamId, runtime::OnDone) override {}
    StreamId create_stream(int) override { return ir::kFirstUserStream; }
    void destroy_stream(StreamId) noexcept override {}
    uint64_t record(StreamId) override { return step; }
    std::shared_ptr<runtime::Timestamp> record_time(StreamId) override { return nullptr; }
    void wait(StreamId, Backend &, StreamId, uint64_t) override {}
    bool reached(StreamId, uint64_t tick) override { return tick + 2 <= step; }
    void synchronize(StreamId, uint64_t) override {}
    void call_host(StreamId, std::function<void()>) override {}
    std::unique_ptr<runtime::Module> load(const runtime::CompiledKernel &) override { return nullptr; }
    std::string module_key() const override { return "fake"; }
    const ir::LibraryRules &library() const override { return runtime::cpu_library(); }
    runtime::LibraryFn find_library(std::string_view) const override { return nullptr; }
    void launch(const Launch &, StreamId, runtime::OnDone) override {}
    void call(const Call &, StreamId, runtime::OnDone) override {}

    uint64_t step = 2;
    int64_t calls = 0;

private:
    CpuBackend memory_;
};

/// The textbook: free blocks in a tree by size, all in a tree by address, neighbours merged; segments of at
/// least 20 MiB, one lock, no streams (so it may reuse what a stream still reads).
class PlainBestFit {
public:
    explicit PlainBestFit(runtime::MemorySource &source) : source_(source) {}
    ~PlainBestFit() {
        for (const auto &[memory, bytes] : segments_)
            source_.free(memory, bytes);
    }

    void *allocate(size_t bytes) {
        const std::lock_guard lock(mutex_);
        bytes = (bytes + 511) / 512 * 512;
        auto fit = free_.lower_bound({bytes, nullptr});
        if (fit == free_.end()) {
            const size_t segment = std::max(20 * kMiB, (bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB));
            auto *memory = static_cast<char *>(source_.allocate(segment));
            segments_.emplace_back(memory, segment);
            reserved += segment;
            blocks_[memory] = {segment, true, true};
            fit = free_.emplace(segment, memory).first;
        }
        const auto [size, memory] = *fit;
        free_.erase(fit);
        Block &block = blocks_[memory];
        block.free = false;
        if (size > bytes) {
            blocks_[memory + bytes] = {size - bytes, true, false};
            free_.emplace(size - bytes, memory + bytes);
            block.size = bytes;
        }
        return memory;
    }
    void free(void *memory) {
        const std::lock_guard lock(mutex_);
        auto block = blocks_.find(static_cast<char *>(memory));
        block->second.free = true;
        const auto absorb = [&](auto left, auto right) {
            left->second.size += right->second.size;
            blocks_.erase(right);
        };
        if (auto next = std::next(block); next != blocks_.end() && next->second.free && !next->second.first) {
            free_.erase({next->second.size, next->first});
            absorb(block, next);
        }
        if (block != blocks_.begin() && !block->second.first)
            if (auto before = std::prev(block); before->second.free) {
                free_.erase({before->second.size, before->first});
                absorb(before, block);
                block = before;
            }
        free_.emplace(block->second.size, block->first);
    }

    size_t reserved = 0;

private:
    struct Block {
        size_t size = 0;
        bool free = false;
        bool first = false; ///< of its segment
    };
    runtime::MemorySource &source_;
    std::mutex mutex_;
    std::set<std::pair<size_t, char *>> free_;
    std::map<char *, Block> blocks_;
    std::vector<std::pair<char *, size_t>> segments_;
};

// --- measured

/// Plays the trace once for each iteration, after one that warms up; what lives to the end is freed
/// unmeasured.
template <class Allocate, class Free, class Step>
void play(benchmark::State &state, const Trace &trace, Allocate allocate, Free free, Step step) {
    std::vector<void *> blocks(trace.blocks);
    const auto once = [&] {
        for (const Event &event : trace.events)
            if (event.step)
                step();
            else if (event.bytes)
                blocks[event.block] = allocate(event.bytes, event.stream);
            else
                free(std::exchange(blocks[event.block], nullptr), event.guarded);
    };
    const auto rest = [&] {
        for (void *&block : blocks)
            if (block)
                free(std::exchange(block, nullptr), false);
    };
    once();
    rest();
    for (auto _ : state) {
        once();
        state.PauseTiming();
        rest();
        state.ResumeTiming();
    }
    state.counters["per_call"] =
        benchmark::Counter(static_cast<double>(trace.events.size()),
                           benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// Of the first time that the trace is played.
void report(benchmark::State &state, const Trace &trace, int64_t driver_calls, size_t reserved) {
    state.counters["reuse"] = 1 - static_cast<double>(driver_calls) / static_cast<double>(trace.allocations);
    state.counters["fragmentation"] =
        1 - static_cast<double>(trace.live_peak) / static_cast<double>(reserved);
    state.counters["live_MiB"] = static_cast<double>(trace.live_peak) / kMiB;
}

void training_loop_cached(benchmark::State &state) {
    const Trace trace = TrainingLoop::make();
    LaggingBackend backend;
    CachingAllocator allocator(backend);
    play(
        state, trace, [&](size_t bytes, StreamId stream) { return allocator.allocate(bytes, stream); },
        [&](void *memory, bool guarded) {
            const Guard guard{&backend, 0, backend.step};
            allocator.free(memory, {&guard, guarded ? size_t{1} : 0});
        },
        [&] { ++backend.step; });
    report(state, trace, backend.calls,
           static_cast<size_t>(allocator.stats().reserved_bytes[runtime::StatPool::All].peak));
}
BENCHMARK(training_loop_cached)->UseRealTime();

void training_loop_best_fit(benchmark::State &state) {
    const Trace trace = TrainingLoop::make();
    LaggingBackend backend;
    PlainBestFit allocator(backend);
    play(
        state, trace, [&](size_t bytes, StreamId) { return allocator.allocate(bytes); },
        [&](void *memory, bool) { allocator.free(memory); }, [] {});
    report(state, trace, backend.calls, allocator.reserved);
}
BENCHMARK(training_loop_best_fit)->UseRealTime();

void training_loop_malloc(benchmark::State &state) {
    const Trace trace = TrainingLoop::make();
    play(
        state, trace, [](size_t bytes, StreamId) { return std::malloc(bytes); },
        [](void *memory, bool) { std::free(memory); }, [] {});
}
BENCHMARK(training_loop_malloc)->UseRealTime();

void one_block_cached(benchmark::State &state) {
    CpuBackend backend;
    CachingAllocator allocator(backend);
    for (auto _ : state) {
        void *memory = allocator.allocate(static_cast<size_t>(state.range(0)));
        benchmark::DoNotOptimize(memory);
        allocator.free(memory);
    }
}
BENCHMARK(one_block_cached)->Arg(512)->Arg(1 << 16)->Arg(4 << 20)->Arg(64 << 20)->UseRealTime();

void one_block_malloc(benchmark::State &state) {
    for (auto _ : state) {
        void *memory = std::malloc(static_cast<size_t>(state.range(0)));
        benchmark::DoNotOptimize(memory);
        std::free(memory);
    }
}
BENCHMARK(one_block_malloc)->Arg(512)->Arg(1 << 16)->Arg(4 << 20)->Arg(64 << 20)->UseRealTime();

} // namespace

BENCHMARK_MAIN();
