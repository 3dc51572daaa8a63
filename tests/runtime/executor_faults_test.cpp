// A Program on two virtual GPUs and the CPU in which every call of every backend is made to fail in turn,
// every device is lost at every call, and every allocation of the host's fails: whatever is not reported as
// lost is right, nothing leaks or hangs, and the next run is right again. With and without the cache of
// memory: without it what is given back too early is gone.
#include "count_allocations.h"
#include "program_support.h"
#include "runtime/fault_injection.h"
#include "virtual_support.h"

#include <gmock/gmock.h>

#include <optional>

namespace lz::runtime {
namespace {

using namespace test;
using ir::BufferKind;
using ir::BufferMode;
using ir::Device;
using ir::StepKind;

constexpr int64_t kElements = 300, kBytes = kElements * 8;
constexpr Device kGpu0{ir::DeviceKind::Cuda, 0}, kGpu1{ir::DeviceKind::Cuda, 1};

/// out[i] = in[i] + 1, slowly enough for others to overtake.
void add_one_slowly(const ir::KernelFrame *frame, int64_t begin, int64_t end, void *) {
    for (int64_t i = begin; i < end; ++i) {
        volatile double value = doubles(frame, 0)[i];
        for (int spin = 0; spin < 50; ++spin)
            value = value + 1;
        doubles(frame, 1)[i] = value - 49;
    }
}

/// x -> cuda:0, + 1, cumsum, -> cuda:1, + 1, -> first result. And: y -> cuda:1, + 1, -> second result, on
/// other streams, in an arena of its own.
struct Built {
    ProgramBuilder b;
    ir::Program &p = b.program;

    uint32_t buffer(BufferKind kind, uint32_t index, Device device, int64_t offset = 0, uint32_t arena = 0) {
        ir::BufferDesc desc{};
        desc.kind = kind;
        desc.index = index;
        desc.offset = offset;
        desc.arena = arena;
        desc.bytes = kBytes;
        desc.device = device;
        p.buffers.push_back(desc);
        return static_cast<uint32_t>(p.buffers.size() - 1);
    }
    uint32_t arena(Device device, int32_t home, int buffers) {
        ir::ArenaDesc desc;
        desc.device = desc.home_device = device;
        desc.home = home;
        desc.bytes = buffers * 4096;
        p.arenas.push_back(desc);
        return static_cast<uint32_t>(p.arenas.size() - 1);
    }
    ir::Step &step(StepKind kind, Device device, int32_t stream) {
        ir::Step &s = b.step(kind);
        s.device = device;
        s.stream = stream;
        return s;
    }
    void copy(Device device, int32_t stream, uint32_t from, uint32_t to) {
        ir::Step &s = step(StepKind::Copy, device, stream);
        s.operands = {from, to};
        s.copy = {0, 0, kBytes};
        s.accesses = {{from, 0, kBytes, false}, {to, 0, kBytes, true}};
    }
    void launch(Device device, int32_t stream, uint32_t kernel, uint32_t from, uint32_t to) {
        ir::Step &s = b.launch(kernel, {{.buffers = {from, to}, .items = {kElements}}});
        s.device = device;
        s.stream = stream;
        s.accesses = {{from, 0, kBytes, false}, {to, 0, kBytes, true}};
    }
    void cumsum(Device device, int32_t stream, uint32_t from, uint32_t to) {
        ir::Step &s = step(StepKind::Library, device, stream);
        s.symbol = "cumsum";
        s.operands = {from, to};
        for (const int64_t value : {static_cast<int64_t>(ir::DType::F64), int64_t{1}, kElements, int64_t{1}})
            s.ints.push_back({value, {}});
        s.accesses = {{from, 0, kBytes, false}, {to, 0, kBytes, true}};
    }
    void then(Device from, int32_t from_stream, Device to, int32_t to_stream) {
        step(StepKind::RecordEvent, from, from_stream).event = p.num_events;
        step(StepKind::WaitEvent, to, to_stream).event = p.num_events++;
    }

    explicit Built(bool can_fault = true) {
        p.arenas.clear();
        const uint32_t x = buffer(BufferKind::Input, 0, ir::kCpu), y = buffer(BufferKind::Input, 1, ir::kCpu);
        const uint32_t first = buffer(BufferKind::Result, 0, ir::kCpu),
                       second = buffer(BufferKind::Result, 1, ir::kCpu);
        p.results = {first, second};
        const uint32_t a = arena(kGpu0, ir::kCopyInStream, 3), c = arena(kGpu1, 0, 2),
                       d = arena(kGpu1, ir::kCopyInStream, 2);
        const auto in_arena = [&](uint32_t arena, int64_t place) {
            return buffer(BufferKind::Arena, 0, p.arenas[arena].device, place * 4096, arena);
        };
        const uint32_t x0 = in_arena(a, 0), plus = in_arena(a, 1), sums = in_arena(a, 2);
        const uint32_t there = in_arena(c, 0), more = in_arena(c, 1);
        const uint32_t y1 = in_arena(d, 0), y2 = in_arena(d, 1);
        const uint32_t k = b.kernel({BufferMode::In, BufferMode::Out}, 0, {}, {add_one_slowly}, can_fault);
        copy(kGpu0, ir::kCopyInStream, x, x0);
        copy(kGpu1, ir::kCopyInStream, y, y1);
        then(kGpu0, ir::kCopyInStream, kGpu0, 0);
        then(kGpu1, ir::kCopyInStream, kGpu1, 1);
        launch(kGpu0, 0, k, x0, plus);
        launch(kGpu1, 1, k, y1, y2);
        if (can_fault)
            cumsum(kGpu0, 0, plus, sums);
        else
            launch(kGpu0, 0, k, plus, sums);
        then(kGpu0, 0, kGpu0, ir::kCopyPeerStream);
        copy(kGpu0, ir::kCopyPeerStream, sums, there);
        then(kGpu0, ir::kCopyPeerStream, kGpu1, 0);
        launch(kGpu1, 0, k, there, more);
        then(kGpu1, 0, kGpu1, ir::kCopyOutStream);
        copy(kGpu1, ir::kCopyOutStream, more, first);
        then(kGpu1, 1, kGpu1, 2);
        copy(kGpu1, 2, y2, second);
    }
};

AllocatorOptions caching(bool on) {
    AllocatorOptions options;
    options.caching = on;
    return options;
}

class ExecutorFaults : public testing::TestWithParam<bool> {
protected:
    ExecutorFaults() {
        gpus[0].set_peer_access(gpus[1], true);
        for (int64_t i = 0; i < kElements; ++i) {
            x.push_back(static_cast<double>(i % 7));
            y.push_back(static_cast<double>(i));
            sum += x.back() + 1;
            want[0].push_back(sum + 1);
            want[1].push_back(y.back() + 1);
        }
    }
    static VirtualOptions delayed() {
        VirtualOptions options;
        options.delay_seed = 5;
        return options;
    }

    /// Runs once; what is not reported as lost is compared. Returns whether something failed.
    bool run_and_compare(const std::function<bool(ir::ErrorKind)> &expected) {
        std::vector<double> out[2] = {std::vector<double>(kElements, -1), std::vector<double>(kElements, -1)};
        void *in_memory[] = {x.data(), y.data()}, *out_memory[] = {out[0].data(), out[1].data()};
        ir::MemoryUse use[4];
        ir::MemoryUse *in_uses[] = {&use[0], &use[1]}, *out_uses[] = {&use[2], &use[3]};
        bool lost[2] = {};
        bool failed = false;
        const auto look = [&](const RunReport &report) {
            for (const RunReport::Failed &f : report.failures) {
                failed = true;
                EXPECT_TRUE(expected(f.failure.kind())) << f.failure.message();
                EXPECT_NE(f.failure.node(), ir::Failure::kNoNode) << f.failure.message();
                for (const uint32_t result : f.results)
                    lost[result] = true;
            }
        };
        try {
            std::optional<FailingAllocation> failing;
            if (fail_allocation > 0)
                failing.emplace(fail_allocation);
            const auto none_fails = [&] {
                allocation_failed = failing && failing->failed();
                failing.reset();
            };
            try {
                Launched launched = run(*program, {in_memory, out_memory, {}, {}, in_uses, out_uses}, true);
                const RunReport late = launched.flight ? launched.flight->finish({}) : RunReport{};
                none_fails();
                look(launched.report);
                look(late);
            } catch (...) {
                none_fails();
                throw;
            }
        } catch (const std::bad_alloc &) {
            failed = lost[0] = lost[1] = true;
            EXPECT_TRUE(allocation_failed);
        } catch (const ir::Failure &failure) {
            failed = lost[0] = lost[1] = true;
            EXPECT_TRUE(expected(failure.kind())) << failure.message();
        }
        drain();
        for (int r = 0; r < 2; ++r)
            if (!lost[r]) {
                EXPECT_EQ(out[r], want[r]) << "result " << r << " is not reported as lost";
            }
        return failed;
    }

    /// Nothing is on any stream.
    void drain() {
        for (size_t g = 0; g < 2; ++g)
            for (StreamId s = 0; s < ir::kFirstUserStream; ++s)
                gpus[g].synchronize(s, gpus[g].record(s));
        cpu.synchronize(1, cpu.record(1));
    }
    int64_t allocated() const {
        int64_t bytes = 0;
        for (const CachingAllocator *a : {&cpu_memory, &memory0, &memory1}) {
            bytes += a->stats().allocated_bytes[StatPool::All].current;
            EXPECT_EQ(a->check_invariants(), "");
        }
        return bytes;
    }

    std::vector<double> x, y, want[2];
    double sum = 0;
    int64_t fail_allocation = 0; ///< of the next run, from 1
    bool allocation_failed = false;
    Gpus gpus{2, delayed()};
    CpuBackend cpu;
    FaultInjectingBackend cpu_calls{cpu}, calls0{gpus[0]}, calls1{gpus[1]};
    CachingAllocator cpu_memory{cpu_calls, caching(GetParam())}, memory0{calls0, caching(GetParam())},
        memory1{calls1, caching(GetParam())};
    Built built;
    std::unique_ptr<LoadedProgram> program = std::make_unique<LoadedProgram>(
        built.p, built.b.code(built.p),
        std::vector<DeviceSlot>{{&cpu_calls, &cpu_memory}, {&calls0, &memory0}, {&calls1, &memory1}});
};

TEST_P(ExecutorFaults, NoneHappensByItself) {
    const auto none = [](ir::ErrorKind) { return false; };
    for (int i = 0; i < 10; ++i)
        EXPECT_FALSE(run_and_compare(none));
    EXPECT_EQ(allocated(), 0);
}

TEST_P(ExecutorFaults, EveryCallMayFail) {
    const auto expected = [](ir::ErrorKind kind) {
        return kind == ir::ErrorKind::Device || kind == ir::ErrorKind::OutOfMemory;
    };
    for (FaultInjectingBackend *backend : {&calls0, &calls1, &cpu_calls})
        for (const int64_t times : {1, 2}) // a call that is refused is made once more
            for (int64_t n = 1;; ++n) {
                SCOPED_TRACE(testing::Message()
                             << backend->name() << " call " << n << ", " << times << " times");
                memory0.empty_cache();
                memory1.empty_cache();
                backend->fail_at(n, times);
                run_and_compare(expected);
                const int64_t calls = backend->calls();
                backend->fail_at(0);
                EXPECT_EQ(allocated(), 0);
                EXPECT_FALSE(run_and_compare(expected)) << "the next run is right";
                if (calls < n || HasFailure())
                    break;
            }
}

TEST_P(ExecutorFaults, EveryDeviceMayBeLostAtEveryCall) {
    const auto expected = [](ir::ErrorKind kind) { return kind == ir::ErrorKind::Cuda; };
    for (FaultInjectingBackend *backend : {&calls0, &calls1})
        for (int64_t n = 1;; ++n) {
            SCOPED_TRACE(testing::Message() << backend->name() << " lost at call " << n);
            backend->lose_at(n);
            const bool failed = run_and_compare(expected);
            const int64_t calls = backend->calls();
            if (failed) {
                EXPECT_TRUE(run_and_compare(expected)) << "it stays lost";
            }
            backend->lose_at(0); // found again, which no real device is
            EXPECT_EQ(allocated(), 0);
            EXPECT_FALSE(run_and_compare(expected));
            if (calls < n || HasFailure())
                break;
        }
}

TEST_P(ExecutorFaults, EveryAllocationMayFail) {
    if (!FailingAllocation::possible())
        GTEST_SKIP() << "operator new is the sanitizer's own";
    const auto expected = [](ir::ErrorKind kind) { return kind == ir::ErrorKind::OutOfMemory; };
    for (const bool warm : {false, true})
        for (int64_t n = 1;; ++n) {
            SCOPED_TRACE(testing::Message() << "allocation " << n << (warm ? " of a run that is not" : " of")
                                            << " the first run");
            program = std::make_unique<LoadedProgram>(
                built.p, built.b.code(built.p),
                std::vector<DeviceSlot>{{&cpu_calls, &cpu_memory}, {&calls0, &memory0}, {&calls1, &memory1}});
            if (warm) {
                EXPECT_FALSE(run_and_compare(expected));
            }
            fail_allocation = n;
            run_and_compare(expected);
            fail_allocation = 0;
            EXPECT_EQ(allocated(), 0);
            EXPECT_FALSE(run_and_compare(expected)) << "the next run is right";
            if (!allocation_failed || HasFailure())
                break;
        }
}

INSTANTIATE_TEST_SUITE_P(Memory, ExecutorFaults, testing::Bool(),
                         [](const auto &info) { return info.param ? "Cached" : "NotCached"; });

/// Memory of the CPU, of which nothing may be given back while a run on the worker stream uses it.
class WatchedCpu final : public FaultInjectingBackend {
public:
    explicit WatchedCpu(CpuBackend &cpu) : FaultInjectingBackend(cpu), cpu_(cpu) {}
    void free(void *memory, size_t bytes) noexcept override {
        frees_in_use += !cpu_.reached(ir::kHostWorkerStream, cpu_.record(ir::kHostWorkerStream));
        FaultInjectingBackend::free(memory, bytes);
    }
    int frees_in_use = 0;

private:
    CpuBackend &cpu_;
};

// What the user saw: LAZULI_NO_MEMORY_CACHING=1, a launch that ran out of the host's memory after its first
// step, and a crash in that step.
TEST(ExecutorOnStreams, ALaunchThatFailsHalfWayFreesNoMemoryThatLaunchedStepsUse) {
    if (!FailingAllocation::possible())
        GTEST_SKIP() << "operator new is the sanitizer's own";
    constexpr int64_t kMany = 20'000;
    ProgramBuilder b;
    const uint32_t x = b.input(kMany), first = b.arena(kMany), second = b.arena(kMany), y = b.result(kMany);
    const uint32_t k = b.kernel({BufferMode::In, BufferMode::Out}, 0, {}, {add_one_slowly}, true);
    for (const auto &[from, to] : {std::pair(x, first), {first, second}, {second, y}})
        b.launch(k, {{.buffers = {from, to}, .items = {kMany}}}).accesses = {{from, 0, kMany * 8, false},
                                                                             {to, 0, kMany * 8, true}};
    int launches_that_failed = 0;
    for (const bool cached : {false, true})
        for (const bool fails_in_call : {false, true})
            for (int64_t n = 1;; ++n) {
                SCOPED_TRACE(testing::Message() << (fails_in_call ? "call " : "allocation ") << n);
                CpuBackend real;
                WatchedCpu cpu(real);
                CachingAllocator memory(cpu, caching(cached));
                const auto program = b.load(cpu, memory);
                std::vector<double> in(kMany, 1);
                void *const in_memory[] = {in.data()}, *const out_memory[] = {memory.allocate(kMany * 8)};
                bool done = false, lost = false;
                {
                    ir::MemoryUse use[2];
                    ir::MemoryUse *in_uses[] = {&use[0]}, *out_uses[] = {&use[1]};
                    std::vector<Point> ends;
                    if (fails_in_call)
                        cpu.fail_at(n, 2);
                    const auto run_once = [&] {
                        const FailingAllocation failing(fails_in_call ? int64_t{1} << 40 : n);
                        try {
                            const Launched launched = run(
                                *program, {in_memory, out_memory, {}, {}, in_uses, out_uses, &ends}, true);
                            lost = !launched.report.ok();
                        } catch (const std::bad_alloc &) {
                            lost = true;
                        } catch (const ir::Failure &) {
                            lost = true;
                        }
                        done = fails_in_call ? cpu.calls() < n : !failing.failed();
                    };
                    run_once();
                    cpu.fail_at(0);
                    std::vector<Guard> guards; // as the engine frees a result
                    use[1].for_each(
                        true, [&](const Point &p) { guards.push_back({&cpu, p.stream.stream, p.tick}); });
                    memory.free(out_memory[0], guards);
                }
                real.synchronize(ir::kHostWorkerStream, real.record(ir::kHostWorkerStream));
                memory.free(memory.allocate(512)); // asks the guards again
                EXPECT_EQ(cpu.frees_in_use, 0);
                EXPECT_EQ(memory.stats().active_bytes[StatPool::All].current, 0);
                launches_that_failed += lost;
                if (done || HasFailure())
                    break;
            }
    EXPECT_GT(launches_that_failed, 8);
}

// A Program that is run again is put on its streams without a heap allocation.
TEST(ExecutorOnStreams, ASecondRunAllocatesNothing) {
    VirtualOptions options;
    options.max_queued = 16; // each place of a queue keeps the room that it once needed
    Gpus gpus(2, options);
    gpus[0].set_peer_access(gpus[1], true);
    CpuBackend cpu;
    CachingAllocator cpu_memory{cpu}, memory0{gpus[0]}, memory1{gpus[1]};
    Built built(false);
    const LoadedProgram program(
        built.p, built.b.code(built.p),
        std::vector<DeviceSlot>{{&cpu, &cpu_memory}, {&gpus[0], &memory0}, {&gpus[1], &memory1}});
    std::vector<double> x(kElements, 1), y(kElements, 2), first(kElements), second(kElements);
    void *in_memory[] = {x.data(), y.data()}, *out_memory[] = {first.data(), second.data()};
    ir::MemoryUse use[4];
    ir::MemoryUse *in_uses[] = {&use[0], &use[1]}, *out_uses[] = {&use[2], &use[3]};
    std::vector<Point> ends;
    const auto issue = [&] {
        ends.clear();
        const Launched launched = run(program, {in_memory, out_memory, {}, {}, in_uses, out_uses, &ends});
        EXPECT_TRUE(launched.report.ok());
        EXPECT_EQ(launched.flight, nullptr);
    };
    const auto finish_all = [&] {
        for (const Point &end : ends)
            gpus[end.stream.device.index].synchronize(end.stream.stream, end.tick);
    };
    for (int warm = 0; warm < 40; ++warm) {
        issue();
        finish_all();
    }
    const int64_t before = allocations_of_this_thread();
    issue();
    EXPECT_EQ(allocations_of_this_thread(), before);
    finish_all();
    EXPECT_EQ(first, std::vector<double>(kElements, 1 + 3));
    EXPECT_EQ(second, std::vector<double>(kElements, 2 + 1));
}

} // namespace
} // namespace lz::runtime
