// The runtime from many threads at once; also run under ThreadSanitizer.
#include "runtime/allocator/caching_allocator.h"
#include "runtime/api/parallel.h"
#include "runtime/cpu/backend.h"
#include "runtime/executor/executor.h"
#include "runtime/profiler/profiler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace lz::runtime {
namespace {

template <class F>
void on_threads(int n, F f) {
    std::vector<std::thread> threads;
    for (int t = 0; t < n; ++t)
        threads.emplace_back([&f, t] { f(t); });
    for (std::thread &thread : threads)
        thread.join();
}

/// Gives the same memory out again as soon as it is back, while whoever brings it back is still there.
class OneSegment : public MemorySource {
public:
    Device device() const override { return ir::kCpu; }
    std::string name() const override { return "one segment"; }
    void *allocate(size_t bytes) override { return bytes <= memory_.size() ? memory_.data() : nullptr; }
    void free(void *, size_t) noexcept override {
        if (const auto now = std::exchange(meanwhile, {}))
            std::thread(now).join();
    }
    size_t total_memory() const override { return memory_.size(); }
    size_t free_memory() const override { return memory_.size(); }

    std::function<void()> meanwhile;

private:
    struct alignas(512) Page {
        char bytes[512];
    };
    std::vector<Page> pages_ = std::vector<Page>((size_t{64} << 20) / sizeof(Page));
    std::span<char> memory_{pages_.front().bytes, pages_.size() * sizeof(Page)};
};

/// Loops of several callers, short ones (which wake nobody) and long ones, nested and failing ones, on pools
/// of any size, one directly after the other and with pauses in which the pool's threads go to sleep.
TEST(PoolThreads, EachLoopOfEachCallerIsDoneWholeBeforeItReturns) {
    const int threads_before = num_threads();
    on_threads(4, [](int t) {
        std::mt19937 random(static_cast<unsigned>(t));
        std::vector<int> seen;
        for (int i = 0; i < 400; ++i) {
            if (t == 0 && i % 50 == 0)
                set_num_threads(1 + i / 50 % 5);
            if (random() % 64 == 0)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            const auto n = static_cast<int64_t>(random() % 300);
            const int64_t time = random() % 2 ? 1000 : INT64_MAX;
            const bool nests = random() % 16 == 0, fails = n > 0 && random() % 16 == 0;
            seen.assign(static_cast<size_t>(n), 0);
            const auto count = [&](int64_t begin, int64_t end) {
                for (int64_t k = begin; k < end; ++k)
                    ++seen[static_cast<size_t>(k)];
            };
            const auto piece = [&](int64_t begin, int64_t end) {
                if (nests)
                    parallel_for(
                        end - begin, 1, [&](int64_t b, int64_t e) { count(begin + b, begin + e); }, time);
                else
                    count(begin, end);
                if (fails && end == n)
                    throw std::runtime_error("the last piece");
            };
            if (fails)
                EXPECT_THROW(parallel_for(n, 1, piece, time), std::runtime_error);
            else
                parallel_for(n, 1, piece, time);
            // Where one failed, others may have been left out, but none is done after the return.
            for (const int times : seen)
                ASSERT_TRUE(times == 1 || (fails && times == 0)) << times;
        }
    });
    set_num_threads(threads_before);
}

TEST(AllocatorThreads, ASegmentIsFoundWhereOneThatIsGivenBackWas) {
    OneSegment source;
    CachingAllocator allocator(source);
    allocator.free(allocator.allocate(size_t{3} << 20, 0));
    void *again = nullptr;
    source.meanwhile = [&] { again = allocator.allocate(size_t{3} << 20, 0); };
    allocator.empty_cache();
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(allocator.segments().size(), 1U);
    EXPECT_EQ(allocator.check_invariants(), "");
    allocator.free(again);
    EXPECT_EQ(allocator.check_invariants(), "");
}

TEST(AllocatorThreads, BlocksOfThreadsNeverOverlapAndAllComeBack) {
    CpuBackend backend;
    CachingAllocator allocator(backend);
    std::atomic<int> damaged{0};
    on_threads(4, [&](int t) {
        std::mt19937 random(static_cast<unsigned>(t));
        struct Live {
            char *memory;
            size_t bytes;
        };
        std::vector<Live> live;
        for (int i = 0; i < 2000; ++i) {
            if (live.size() < 20 && random() % 2) {
                size_t bytes = 1 + random() % (random() % 8 ? 4096 : 3 << 20);
                auto *memory =
                    static_cast<char *>(allocator.allocate(bytes, static_cast<StreamId>(random() % 2)));
                memory[0] = memory[bytes - 1] = static_cast<char>(t);
                live.push_back({memory, bytes});
            } else if (!live.empty()) {
                Live last = live.back();
                live.pop_back();
                if (last.memory[0] != t || last.memory[last.bytes - 1] != t)
                    ++damaged;
                allocator.free(last.memory);
            }
            if (i % 500 == 499)
                allocator.empty_cache();
        }
        for (const Live &l : live)
            allocator.free(l.memory);
    });
    EXPECT_EQ(damaged, 0);
    EXPECT_EQ(allocator.stats().allocated_bytes[StatPool::All].current, 0);
    EXPECT_EQ(allocator.check_invariants(), "");
}

TEST(AllocatorThreads, AThreadMayFreeWhatAnotherAllocated) {
    CpuBackend backend;
    CachingAllocator allocator(backend);
    std::atomic<void *> slot{nullptr};
    on_threads(2, [&](int t) {
        for (int i = 0; i < 2000; ++i) {
            if (t == 0) {
                void *memory = allocator.allocate(1000);
                if (void *unfetched = slot.exchange(memory))
                    allocator.free(unfetched);
            } else if (void *memory = slot.exchange(nullptr)) {
                allocator.free(memory);
            }
        }
    });
    allocator.free(slot.load());
    EXPECT_EQ(allocator.stats().allocated_bytes[StatPool::All].current, 0);
    EXPECT_EQ(allocator.check_invariants(), "");
}

TEST(ParallelThreads, LoopsOfManyThreadsShareThePool) {
    set_num_threads(3);
    std::atomic<int64_t> wrong{0};
    on_threads(4, [&](int t) {
        for (int i = 0; i < 100; ++i) {
            std::vector<int64_t> out(1000, 0); // written by workers, read here
            parallel_for(1000, 10, [&](int64_t begin, int64_t end) {
                for (int64_t k = begin; k < end; ++k)
                    out[static_cast<size_t>(k)] = k + t;
            });
            for (int64_t k = 0; k < 1000; ++k)
                wrong += out[static_cast<size_t>(k)] != k + t;
        }
    });
    EXPECT_EQ(wrong, 0);
}

TEST(ParallelThreads, TheNumberOfThreadsMayChangeMeanwhile) {
    std::atomic<int64_t> sum{0};
    on_threads(3, [&](int t) {
        for (int i = 0; i < 100; ++i) {
            if (t == 0)
                set_num_threads(1 + i % 4);
            parallel_for(100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
        }
    });
    EXPECT_EQ(sum, 3 * 100 * 100);
}

class AddWordModule final : public Module {
public:
    void *entry(const std::string &) const override {
        ir::PhaseEntry entry = [](const ir::KernelFrame *f, int64_t begin, int64_t end, void *) {
            auto *in = static_cast<int64_t *>(f->buffers[0]), *out = static_cast<int64_t *>(f->buffers[1]);
            for (int64_t i = begin; i < end; ++i)
                out[i] = in[i] + f->args[0];
        };
        return reinterpret_cast<void *>(entry);
    }
};

TEST(ExecutorThreads, OneProgramRunsInManyThreadsAtOnceWithItsOwnBindingsInEach) {
    set_num_threads(3);
    CpuBackend backend;
    CachingAllocator allocator(backend);
    constexpr int64_t kElements = 500;
    ir::Program program;
    ir::Kernel kernel;
    kernel.buffers = {{ir::DType::I64, ir::BufferMode::In}, {ir::DType::I64, ir::BufferMode::Out}};
    kernel.args.resize(1);
    kernel.phases.resize(1);
    program.kernels = {kernel};
    auto buffer = [&](ir::BufferKind kind) {
        ir::BufferDesc desc{};
        desc.kind = kind;
        desc.bytes = kElements * 8;
        program.buffers.push_back(desc);
    };
    buffer(ir::BufferKind::Input);
    buffer(ir::BufferKind::Arena);
    buffer(ir::BufferKind::Result);
    program.results = {2};
    program.arenas.resize(1);
    program.arenas[0].bytes = kElements * 8;
    program.num_runtime_words = 1;
    for (uint32_t s = 0; s < 2; ++s) {
        ir::Step &step = program.steps.emplace_back();
        step.kernel = 0;
        step.cost = int64_t{1} << 40; // shared between threads however small
        ir::Segment &segment = step.segments.emplace_back();
        segment.buffers = {s, s + 1};
        segment.args = {{0, {{0, 1}}}};
        segment.items = {kElements};
    }
    LoadedProgram loaded(program, {{0, ir::kCpu, {std::make_shared<AddWordModule>(), {{"phase0"}}}}},
                         {{&backend, &allocator}});
    std::atomic<int64_t> wrong{0};
    on_threads(4, [&](int t) {
        std::vector<int64_t> in(kElements, t), out(kElements);
        void *in_memory = in.data(), *out_memory = out.data();
        for (int64_t word = 0; word < 50; ++word) {
            RunReport report = run(loaded, {{&in_memory, 1}, {&out_memory, 1}, {&word, 1}}).report;
            wrong += !report.ok();
            for (int64_t v : out)
                wrong += v != t + 2 * word;
        }
    });
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(allocator.stats().allocated_bytes[StatPool::All].current, 0);
}

TEST(ProfilerThreads, EventsOfAllThreadsAreCollected) {
    start_profile();
    on_threads(4, [&](int) {
        for (int i = 0; i < 100; ++i) {
            ProfileEvent event;
            event.host = true;
            event.track = profile_thread();
            event.begin = profile_clock();
            event.end = event.begin + 1;
            record_event(std::move(event));
        }
    });
    EXPECT_EQ(stop_profile().size(), 400u);
}

} // namespace
} // namespace lz::runtime
