#include "count_allocations.h"
#include "program_support.h"
#include "virtual_support.h"

#include "runtime/api/parallel.h"
#include "runtime/fault_injection.h"
#include "runtime/profiler/profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <bit>
#include <latch>
#include <numeric>

namespace lz::runtime {
namespace {

using namespace test;
using ir::BufferMode;
using testing::ElementsAre;
using testing::HasSubstr;

class Executor : public testing::Test {
protected:
    RunReport run(const LoadedProgram &program, std::span<const int64_t> words = {}) {
        std::vector<void *> in, out;
        for (auto &v : inputs)
            in.push_back(v.data());
        for (auto &v : results)
            out.push_back(v.data());
        return runtime::run(program, {in, out, words}).report;
    }

    CpuBackend backend;
    CachingAllocator allocator{backend};
    ProgramBuilder b;
    std::vector<std::vector<double>> inputs, results;
};

/// in + 1 -> arena, arena + 1 -> result
TEST_F(Executor, RunsStepsInOrderThroughAnArenaThatGoesBackToTheCache) {
    uint32_t in = b.input(4), middle = b.arena(4), out = b.result(4);
    uint32_t k = b.kernel({BufferMode::In, BufferMode::Out}, 0, {}, {add_one});
    b.launch(k, {{.buffers = {in, middle}, .items = {4}}});
    b.launch(k, {{.buffers = {middle, out}, .items = {4}}});
    inputs = {{1, 2, 3, 4}};
    results = {std::vector<double>(4)};
    auto program = b.load(backend, allocator);
    EXPECT_EQ(program->launches(), 2);
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(run(*program).ok());
        EXPECT_THAT(results[0], ElementsAre(3, 4, 5, 6));
        inputs[0] = {1, 2, 3, 4};
    }
    AllocatorStats stats = allocator.stats();
    EXPECT_EQ(stats.allocated_bytes[StatPool::All].current, 0) << "S55";
    EXPECT_EQ(stats.allocated_bytes[StatPool::All].peak, 512)
        << "S55: it is accounted while the program runs";
    EXPECT_EQ(stats.num_device_alloc, 1);
}

TEST_F(Executor, ASecondRunAllocatesNothing) {
    uint32_t in = b.input(4), middle = b.arena(4), out = b.result(4);
    uint32_t k = b.kernel({BufferMode::In, BufferMode::Out}, 1, {ir::DType::F64}, {add_one});
    for (int i = 0; i < 100; ++i)
        b.launch(k, {{.buffers = {i ? middle : in, i == 99 ? out : middle},
                      .args = {{0, {{0, 1}}}},
                      .scalars = {{0, ir::DType::F64}},
                      .items = {4}}});
    b.program.num_runtime_words = 1;
    auto program = b.load(backend, allocator);
    std::vector<double> x(4), y(4);
    void *in_memory = x.data(), *out_memory = y.data();
    int64_t word = 1;
    Bindings bindings{{&in_memory, 1}, {&out_memory, 1}, {&word, 1}};
    ASSERT_TRUE(runtime::run(*program, bindings).report.ok());
    int64_t before = allocations_of_this_thread();
    bool ok = runtime::run(*program, bindings).report.ok();
    EXPECT_EQ(allocations_of_this_thread(), before);
    EXPECT_TRUE(ok);
    EXPECT_EQ(y[0], 100);
}

TEST_F(Executor, ArgumentsAreConstantsAndSumsOfRuntimeWords) {
    uint32_t out = b.result(3);
    uint32_t k = b.kernel({BufferMode::Out}, 3, {}, {[](const ir::KernelFrame *f, int64_t, int64_t, void *) {
                              for (int i = 0; i < 3; ++i)
                                  doubles(f, 0)[i] = static_cast<double>(f->args[i]);
                          }});
    b.launch(k,
             {{.buffers = {out}, .args = {{7, {}}, {10, {{1, 2}}}, {-1, {{0, 1}, {1, -3}}}}, .items = {1}}});
    b.program.num_runtime_words = 2;
    results = {std::vector<double>(3)};
    auto program = b.load(backend, allocator);
    EXPECT_TRUE(run(*program, std::vector<int64_t>{5, 100}).ok());
    EXPECT_THAT(results[0], ElementsAre(7, 210, -296));
    EXPECT_TRUE(run(*program, std::vector<int64_t>{6, 1}).ok());
    EXPECT_THAT(results[0], ElementsAre(7, 12, 2));
}

TEST_F(Executor, ScalarsAreRoundedToTheirDtypeAndWidenedToTheirSlot) {
    using enum ir::DType;
    static std::vector<uint64_t> seen;
    std::vector<ir::DType> dtypes{Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64};
    std::vector<ir::ScalarSpec> specs;
    for (uint32_t i = 0; i < dtypes.size(); ++i)
        specs.push_back({i, dtypes[i]});
    uint32_t k = b.kernel({}, 0, dtypes, {[](const ir::KernelFrame *f, int64_t, int64_t, void *) {
                              seen.assign(f->scalars, f->scalars + 10);
                          }});
    b.launch(k, {{.scalars = specs, .items = {1}}});
    b.program.num_runtime_words = 10;
    auto program = b.load(backend, allocator);
    auto word = [](double v) { return std::bit_cast<int64_t>(v); };
    auto f32 = [](float v) -> uint64_t { return std::bit_cast<uint32_t>(v); };
    run(*program, std::vector<int64_t>{5, 257, 129, 32769, (int64_t{1} << 31) + 1, -4, word(1.0004),
                                       word(1.004), word(0.1), word(0.1)});
    EXPECT_THAT(seen, ElementsAre(1u, 1u, static_cast<uint64_t>(-127), static_cast<uint64_t>(-32767),
                                  static_cast<uint64_t>(-2147483647), static_cast<uint64_t>(-4), f32(1.0f),
                                  f32(1.0078125f), f32(0.1f), std::bit_cast<uint64_t>(0.1)));
}

TEST_F(Executor, SegmentsShareALaunchAndEachItemRunsOnceWithItsOwnFrame) {
    set_num_threads(4);
    const std::vector<int64_t> sizes{1, 1000, 0, 37, 5000, 1};
    uint32_t k = b.kernel({BufferMode::InOut}, 0, {},
                          {[](const ir::KernelFrame *f, int64_t begin, int64_t end, void *) {
                              for (int64_t i = begin; i < end; ++i)
                                  doubles(f, 0)[i] += static_cast<double>(i) + 1;
                          }});
    std::vector<Part> segments;
    for (int64_t size : sizes) {
        segments.push_back({.buffers = {b.result(size)}, .items = {size}});
        results.emplace_back(static_cast<size_t>(size) + 1); // one more, to see that it stays
    }
    b.launch(k, segments, int64_t{1} << 40);
    auto program = b.load(backend, allocator);
    EXPECT_EQ(program->launches(), 1);
    EXPECT_TRUE(run(*program).ok());
    for (size_t s = 0; s < sizes.size(); ++s) {
        std::vector<double> expected(static_cast<size_t>(sizes[s]) + 1);
        std::iota(expected.begin(), expected.end() - 1, 1);
        EXPECT_EQ(results[s], expected);
    }
}

TEST_F(Executor, PhasesRunOneAfterAnotherAndWorkersHaveScratch) {
    set_num_threads(4);
    uint32_t out = b.result(1000), temp = b.arena(1000);
    uint32_t k = b.kernel({BufferMode::Temp, BufferMode::Out, BufferMode::Worker}, 0, {},
                          {[](const ir::KernelFrame *f, int64_t begin, int64_t end, void *worker) {
                               for (int64_t i = begin; i < end; ++i) {
                                   static_cast<double *>(worker)[1] = static_cast<double>(i);
                                   doubles(f, 0)[i] = static_cast<double *>(worker)[1];
                               }
                           },
                           [](const ir::KernelFrame *f, int64_t begin, int64_t end, void *) {
                               for (int64_t i = begin; i < end; ++i)
                                   doubles(f, 1)[i] = doubles(f, 0)[999 - i];
                           }});
    b.launch(k, {{.buffers = {temp, out, ir::kNone}, .items = {1000, 1000}}}, int64_t{1} << 40).worker_bytes =
        64;
    results = {std::vector<double>(1000)};
    auto program = b.load(backend, allocator);
    EXPECT_TRUE(run(*program).ok());
    for (size_t i = 0; i < 1000; ++i)
        ASSERT_EQ(results[0][i], 999 - static_cast<double>(i));
}

// A run that waits for something, and so is over later; and one on the calling thread.
TEST_F(Executor, AWorkersScratchThatCannotBeHadFailsItsStepWhereverItRuns) {
    uint32_t x = b.input(2), r0 = b.result(2), r1 = b.result(2), r2 = b.result(2);
    uint32_t greedy = b.kernel({BufferMode::In, BufferMode::Out, BufferMode::Worker}, 0, {}, {add_one});
    uint32_t plain = b.kernel({BufferMode::In, BufferMode::Out}, 0, {}, {add_one});
    b.launch(greedy, {{.buffers = {x, r0, ir::kNone}, .items = {2}}}).worker_bytes = int64_t{1} << 60;
    b.launch(plain, {{.buffers = {r0, r1}, .items = {2}}});
    b.launch(plain, {{.buffers = {x, r2}, .items = {2}}});
    inputs = {{1, 2}};
    auto program = b.load(backend, allocator);
    for (const bool later : {false, true}) {
        results.assign(3, std::vector<double>(2));
        std::latch gate(later ? 1 : 0);
        ir::MemoryUse uses[4];
        backend.call_host(ir::kHostWorkerStream, [&gate] { gate.wait(); });
        uses[0].written({{ir::kCpu, ir::kHostWorkerStream}, backend.record(ir::kHostWorkerStream)});
        if (!later)
            backend.synchronize(ir::kHostWorkerStream, backend.record(ir::kHostWorkerStream));
        void *in[] = {inputs[0].data()}, *out[] = {results[0].data(), results[1].data(), results[2].data()};
        ir::MemoryUse *in_uses[] = {&uses[0]}, *out_uses[] = {&uses[1], &uses[2], &uses[3]};
        Launched launched = runtime::run(*program, {in, out, {}, {}, in_uses, out_uses});
        if (later) {
            EXPECT_TRUE(launched.report.ok());
            gate.count_down();
            ASSERT_TRUE(launched.flight) << "nobody will look at how it ended";
            launched.report = launched.flight->finish({});
        }
        ASSERT_EQ(launched.report.failures.size(), 1u);
        EXPECT_EQ(launched.report.failures[0].failure.kind(), ir::ErrorKind::OutOfMemory);
        EXPECT_EQ(launched.report.failures[0].failure.node(), 0u);
        EXPECT_THAT(launched.report.failures[0].results, ElementsAre(0, 1));
        EXPECT_THAT(results[2], ElementsAre(2, 3)) << "what does not depend on it ran";
    }
}

TEST_F(Executor, CopiesAndLibraryCallsAreSteps) {
    uint32_t in = b.input(4), middle = b.arena(4), out = b.result(4);
    ir::Step &copy = b.step(ir::StepKind::Copy);
    copy.operands = {in, middle};
    copy.copy = {0, 0, 32};
    ir::Step &scan = b.step(ir::StepKind::Library);
    scan.symbol = "cumsum";
    scan.operands = {middle, out};
    scan.ints = {{static_cast<int64_t>(ir::DType::F64), {}}, {1, {}}, {4, {}}, {1, {}}};
    inputs = {{1, 2, 3, 4}};
    results = {std::vector<double>(4)};
    auto program = b.load(backend, allocator);
    EXPECT_TRUE(run(*program).ok());
    EXPECT_THAT(results[0], ElementsAre(1, 3, 6, 10));
}

/// Results: 0 by the step that may fail, 1 depends on it, 2 does not, 3 depends on 1 and an input.
class Failing : public Executor {
protected:
    void SetUp() override {
        uint32_t x = b.input(2), y = b.input(2), unharmed = b.arena(2);
        uint32_t r0 = b.result(2), r1 = b.result(2), r2 = b.result(2), r3 = b.result(2);
        uint32_t checked = b.kernel({BufferMode::In, BufferMode::Out}, 1, {}, {add_one_checked}, 2);
        uint32_t plain = b.kernel({BufferMode::In, BufferMode::Out}, 0, {}, {add_one});
        uint32_t sum = b.kernel({BufferMode::In, BufferMode::In, BufferMode::Out}, 0, {}, {add});
        b.launch(plain, {{.buffers = {y, unharmed}, .items = {2}}});
        b.launch(checked, {{.buffers = {x, r0}, .args = {{10, {}}}, .items = {2}, .checks = {41, 42}}});
        b.launch(plain, {{.buffers = {r0, r1}, .items = {2}}});
        b.launch(plain, {{.buffers = {unharmed, r2}, .items = {2}}});
        b.launch(sum, {{.buffers = {y, r1, r3}, .items = {2}}});
        inputs = {{1, 2}, {5, 6}};
        results.assign(4, std::vector<double>(2));
    }
};

TEST_F(Failing, AnIndexOutOfRangeNamesItsOperationAndTakesDownWhatDependsOnItOnly) {
    auto program = b.load(backend, allocator);
    EXPECT_TRUE(run(*program).ok());
    EXPECT_THAT(results[3], ElementsAre(8, 10));
    results.assign(4, std::vector<double>(2));
    inputs[0] = {1, 77};
    RunReport report = run(*program);
    ASSERT_EQ(report.failures.size(), 1u);
    EXPECT_EQ(report.failures[0].failure.kind(), ir::ErrorKind::Index);
    EXPECT_EQ(report.failures[0].failure.message(), "index 77 is out of range for an axis of extent 10.");
    EXPECT_EQ(report.failures[0].failure.node(), 42u);
    EXPECT_THAT(report.failures[0].results, ElementsAre(0, 1, 3));
    EXPECT_THAT(results[2], ElementsAre(7, 8)) << "what does not depend on it ran";
    EXPECT_THAT(results[3], ElementsAre(0, 0)) << "what depends on it did not";
    EXPECT_EQ(allocator.stats().allocated_bytes[StatPool::All].current, 0);
    inputs[0] = {1, 2};
    EXPECT_TRUE(run(*program).ok()) << "nothing of the failure is left";
    EXPECT_THAT(results[3], ElementsAre(8, 10));
}

TEST_F(Failing, ALaunchThatTheDeviceRefusesIsBlamedOnItsStep) {
    for (int64_t n = 1; n <= 5; ++n) {
        FaultInjectingBackend faulty(backend);
        auto program = b.load(faulty, allocator);
        faulty.fail_at(n + 1, 2); // the first call is for the memory of faults; a launch is made again once
        RunReport report = run(*program);
        ASSERT_EQ(report.failures.size(), 1u) << n;
        EXPECT_EQ(report.failures[0].failure.kind(), ir::ErrorKind::Device);
        EXPECT_EQ(report.failures[0].failure.node(), static_cast<uint32_t>(n - 1));
        const std::vector<uint32_t> lost[] = {{2}, {0, 1, 3}, {1, 3}, {2}, {3}};
        EXPECT_EQ(report.failures[0].results, lost[n - 1]);
        EXPECT_TRUE(run(*program).ok());
    }
}

TEST_F(Failing, ALaunchThatTheDeviceRefusesOnceIsMadeAgain) {
    FaultInjectingBackend undisturbed(backend);
    auto program = b.load(undisturbed, allocator);
    ASSERT_TRUE(run(*program).ok());
    const auto right = results;
    for (int64_t n = 1; n <= 5; ++n) {
        FaultInjectingBackend faulty(backend);
        program = b.load(faulty, allocator);
        faulty.fail_at(n + 1);
        for (std::vector<double> &result : results)
            std::ranges::fill(result, -1);
        EXPECT_TRUE(run(*program).ok()) << n;
        EXPECT_EQ(results, right) << n;
        EXPECT_GT(faulty.calls(), n + 1) << "and it is shown that something was refused";
        program.reset(); // before the backend that it was loaded for
    }
}

/// Puts so many segments of the next launch that has more, and refuses the rest `times` times.
class HalfWay final : public FaultInjectingBackend {
public:
    using FaultInjectingBackend::FaultInjectingBackend;
    void launch(const Launch &launch, StreamId stream, OnDone done = {}) override {
        if (times == 0 || launch.segments <= segments)
            return FaultInjectingBackend::launch(launch, stream, std::move(done));
        --times;
        if (segments > 0) {
            Launch part = launch;
            part.segments = segments;
            FaultInjectingBackend::launch(part, stream);
        }
        *launch.put = segments;
        throw ir::Failure(ir::ErrorKind::Device, "the rest was refused.");
    }
    uint32_t segments = 1;
    int times = 0;
};

TEST_F(Executor, SegmentsThatWerePutBeforeTheRestWasRefusedAreNotPutAgainAndNotLost) {
    constexpr uint32_t kSegments = 5;
    const uint32_t add = b.kernel({BufferMode::In, BufferMode::Out}, 0, {}, {add_one});
    std::vector<Part> segments;
    for (uint32_t s = 0; s < kSegments; ++s) {
        const uint32_t x = b.input(2), y = b.result(2);
        segments.push_back({.buffers = {x, y}, .items = {2}});
        inputs.push_back({static_cast<double>(s), 10});
    }
    b.launch(add, segments);
    for (int times = 0; times < 8; ++times)
        for (uint32_t put = 0; put < kSegments; ++put) {
            SCOPED_TRACE(testing::Message() << put << " segments, refused " << times % 4 << " times");
            HalfWay half_way(backend);
            auto program = b.load(half_way, allocator);
            results.assign(kSegments, std::vector<double>(2, -1));
            if (times >= 4) { // later runs of a small Program do without a State
                ASSERT_TRUE(run(*program).ok());
            }
            half_way.segments = put;
            half_way.times = times % 4;
            results.assign(kSegments, std::vector<double>(2, -1));
            const RunReport report = run(*program);
            uint32_t lost = 0;
            for (uint32_t s = 0; s < kSegments; ++s)
                if (results[s][0] == -1)
                    ++lost;
                else
                    EXPECT_THAT(results[s], ElementsAre(static_cast<double>(s) + 1, 11));
            ASSERT_EQ(report.failures.size(), lost > 0 ? 1u : 0u);
            if (lost > 0) {
                EXPECT_EQ(report.failures[0].results.size(), lost);
                EXPECT_EQ(report.failures[0].results.front(), kSegments - lost);
            }
            EXPECT_EQ(lost > 0, times % 4 >= 2 && 2 * put < kSegments);
        }
}

TEST_F(Failing, TwoFailuresAreTwoReports) {
    FaultInjectingBackend faulty(backend);
    auto program = b.load(faulty, allocator);
    inputs[0] = {1, 77};
    faulty.fail_at(4, 2); // memory for faults; launches: y + 1, the checked one, unharmed + 1 (what depends
                          // on the checked one is left out)
    RunReport report = run(*program);
    ASSERT_EQ(report.failures.size(), 2u);
    EXPECT_THAT(report.failures[0].results, ElementsAre(0, 1, 3));
    EXPECT_THAT(report.failures[1].results, ElementsAre(2));
    EXPECT_EQ(report.failures[1].failure.kind(), ir::ErrorKind::Device);
}

TEST_F(Executor, OneSegmentsFaultLosesItsResultsOnlyAndMergedStepsGoOnWithTheRest) {
    uint32_t x = b.input(2), y = b.input(2), x1 = b.arena(2), y1 = b.arena(2), rx = b.result(2),
             ry = b.result(2);
    uint32_t checked = b.kernel({BufferMode::In, BufferMode::Out}, 1, {}, {add_one_checked}, 2);
    uint32_t plain = b.kernel({BufferMode::In, BufferMode::Out}, 0, {}, {add_one});
    b.launch(checked, {{.buffers = {x, x1}, .args = {{10, {}}}, .items = {2}, .checks = {1, 2}},
                       {.buffers = {y, y1}, .args = {{10, {}}}, .items = {2}, .checks = {3, 4}}});
    b.launch(plain, {{.buffers = {x1, rx}, .items = {2}}, {.buffers = {y1, ry}, .items = {2}}});
    inputs = {{1, 2}, {3, 10}};
    results.assign(2, std::vector<double>(2));
    auto program = b.load(backend, allocator);
    RunReport report = run(*program);
    ASSERT_EQ(report.failures.size(), 1u);
    EXPECT_EQ(report.failures[0].failure.node(), 4u);
    EXPECT_THAT(report.failures[0].results, ElementsAre(1));
    EXPECT_THAT(results[0], ElementsAre(3, 4));
}

TEST_F(Executor, BytesOfAnArenaThatHoldAnotherValueLaterAreNotLost) {
    uint32_t x = b.input(2), y = b.input(2), first = b.arena(2, 0), second = b.arena(2, 0), out = b.result(2);
    uint32_t checked = b.kernel({BufferMode::In, BufferMode::Out}, 1, {}, {add_one_checked}, 2);
    uint32_t plain = b.kernel({BufferMode::In, BufferMode::Out}, 0, {}, {add_one});
    b.launch(checked, {{.buffers = {x, first}, .args = {{10, {}}}, .items = {2}, .checks = {1, 2}}});
    b.launch(plain, {{.buffers = {y, second}, .items = {2}}});
    b.launch(plain, {{.buffers = {second, out}, .items = {2}}});
    inputs = {{99, 99}, {1, 2}};
    results = {std::vector<double>(2)};
    RunReport report = run(*b.load(backend, allocator));
    ASSERT_EQ(report.failures.size(), 1u);
    EXPECT_TRUE(report.failures[0].results.empty());
    EXPECT_THAT(results[0], ElementsAre(3, 4));
}

TEST_F(Executor, AScattersFaultIsBlamedOnItsStep) {
    uint32_t x = b.input(2), index = b.input(1), source = b.input(1), out = b.result(2);
    ir::Step &scatter = b.step(ir::StepKind::Library);
    scatter.symbol = "scatter";
    scatter.operands = {x, index, source, out};
    scatter.recorded = {3, 17};
    for (int64_t v :
         {static_cast<int64_t>(ir::DType::F64), static_cast<int64_t>(ir::DType::I64), int64_t{0}, int64_t{0},
          int64_t{5}, int64_t{1}, int64_t{1}, int64_t{1}, int64_t{1}, int64_t{2}, int64_t{1}})
        scatter.ints.push_back({v, {}});
    inputs = {{1, 2}, {std::bit_cast<double>(int64_t{-3})}, {9}};
    results = {std::vector<double>(2)};
    RunReport report = run(*b.load(backend, allocator));
    ASSERT_EQ(report.failures.size(), 1u);
    EXPECT_EQ(report.failures[0].failure.message(), "index -3 is out of range for an axis of extent 2.");
    EXPECT_EQ(report.failures[0].failure.node(), 17u);
    EXPECT_THAT(report.failures[0].results, ElementsAre(0));
}

TEST_F(Executor, WithoutMemoryForTheArenaNothingRuns) {
    static int ran = 0;
    ran = 0;
    uint32_t big = b.arena(int64_t{1} << 20);
    uint32_t k = b.kernel({BufferMode::Out}, 0, {},
                          {[](const ir::KernelFrame *, int64_t, int64_t, void *) { ++ran; }});
    b.launch(k, {{.buffers = {big}, .items = {1}}});
    CpuBackend little({}, size_t{1} << 20);
    CachingAllocator cache(little);
    auto program = b.load(little, cache);
    try {
        run(*program);
        FAIL();
    } catch (const ir::Failure &failure) {
        EXPECT_EQ(failure.kind(), ir::ErrorKind::OutOfMemory);
        EXPECT_THAT(failure.message(), HasSubstr("8.00 MiB were asked for"));
    }
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(cache.stats().allocated_bytes[StatPool::All].current, 0);
}

TEST_F(Executor, TensorsWithoutElementsLaunchNothing) {
    uint32_t in = b.input(0), out = b.result(0);
    uint32_t k = b.kernel({BufferMode::In, BufferMode::Out}, 0, {},
                          {[](const ir::KernelFrame *, int64_t, int64_t, void *) { FAIL(); }});
    b.launch(k, {{.buffers = {in, out}, .items = {0}}}, 1 << 30);
    inputs.resize(1);
    results.resize(1);
    auto program = b.load(backend, allocator);
    EXPECT_EQ(program->launches(), 0);
    EXPECT_TRUE(run(*program).ok());
}

// Appends its second argument behind a door: what is behind another one's does not hold it up.
struct Behind {
    Door door;
    std::atomic<bool> done{false};
};
void go_through(const ir::KernelFrame *frame, int64_t, int64_t, void *) {
    auto &behind = at_word<Behind>(frame, 0);
    behind.door.wait();
    for (int i = 0; i < 200; ++i)
        std::this_thread::yield();
    behind.done = true;
}

/// A kernel whose argument is a runtime word, on a stream of the user's.
class OnUserStreams : public Executor {
protected:
    OnUserStreams()
        : gpus(1), memory(gpus[0]), first(gpus[0].create_stream(0)), second(gpus[0].create_stream(0)) {
        const uint32_t k = b.kernel({}, 1, {}, {go_through});
        ir::Step &step = b.launch(k, {{.args = {{0, {{0, 1}}}}, .items = {1}}});
        step.device = gpu;
        step.stream = ir::kFirstUserStream;
        b.program.user_streams = {{gpu, ir::kFirstUserStream}};
        b.program.num_runtime_words = 1;
        program = std::make_unique<LoadedProgram>(
            b.program, b.code(b.program),
            std::vector<DeviceSlot>{{&backend, &allocator}, {&gpus[0], &memory}});
    }
    std::vector<ir::Point> run_on(StreamId stream, Behind &behind) {
        const int64_t argument = word(&behind);
        const ir::StreamRef real{gpu, stream};
        std::vector<ir::Point> ends;
        Bindings bindings{{}, {}, {&argument, 1}};
        bindings.streams = {&real, 1};
        bindings.ends = &ends;
        EXPECT_TRUE(runtime::run(*program, bindings).report.ok());
        return ends;
    }

    const ir::Device gpu{ir::DeviceKind::Cuda, 0};
    Gpus gpus;
    CachingAllocator memory;
    const StreamId first, second;
    std::unique_ptr<LoadedProgram> program;
};

TEST_F(OnUserStreams, EachRunIsOnThoseThatItIsBoundTo) {
    Behind closed, open;
    open.door.open();
    const std::vector<ir::Point> of_first = run_on(first, closed), of_second = run_on(second, open);
    ASSERT_EQ(of_first.size(), 1u);
    ASSERT_EQ(of_second.size(), 1u);
    EXPECT_EQ(of_first[0].stream, (ir::StreamRef{gpu, first}));
    EXPECT_EQ(of_second[0].stream, (ir::StreamRef{gpu, second}));
    gpus[0].synchronize(second, of_second[0].tick);
    EXPECT_TRUE(open.done);
    EXPECT_FALSE(gpus[0].reached(first, of_first[0].tick));
    closed.door.open();
    gpus[0].synchronize(first, of_first[0].tick);
    EXPECT_TRUE(closed.done);
}

TEST_F(OnUserStreams, CodeIsKeptForRunsOnAllThatItWasEverBoundTo) {
    Behind closed, open;
    open.door.open();
    run_on(first, closed);
    run_on(second, open);
    closed.door.open();
    program.reset();
    EXPECT_TRUE(open.done);
    EXPECT_TRUE(closed.done);
}

TEST_F(OnUserStreams, AsManyAreBoundAsTheProgramNames) {
    Behind open;
    open.door.open();
    const int64_t argument = word(&open);
    const ir::StreamRef two[] = {{gpu, first}, {gpu, second}};
    Bindings bindings{{}, {}, {&argument, 1}};
    bindings.streams = two;
    EXPECT_THAT(failure_of([&] { runtime::run(*program, bindings); }).message(),
                HasSubstr("binds 2 streams of the user's, and its Program names 1"));
}

TEST_F(Executor, AProgramThatDoesNotFitIsRefusedWhenItIsLoaded) {
    uint32_t in = b.input(2), out = b.result(2);
    uint32_t k = b.kernel({BufferMode::In, BufferMode::Out}, 0, {}, {add_one});
    b.launch(k, {{.buffers = {in}, .items = {2}}});
    EXPECT_THROW(b.load(backend, allocator), ir::Failure);
    b.program.steps.clear();
    b.step(ir::StepKind::Library).symbol = "no such call";
    EXPECT_THROW(b.load(backend, allocator), ir::Failure);
    (void)out;
}

TEST_F(Failing, AProfileShowsEachStepWithTheUsersLines) {
    auto program = b.load(backend, allocator);
    std::vector<void *> in, out;
    for (auto &v : inputs)
        in.push_back(v.data());
    for (auto &v : results)
        out.push_back(v.data());
    std::vector<ir::Location> lines{{"a/train.cpp", 10}, {"a/train.cpp", 11}};
    start_profile();
    EXPECT_THROW(start_profile(), ir::Failure);
    EXPECT_TRUE(runtime::run(*program, {in, out, {}, lines}).report.ok());
    std::vector<ProfileEvent> events = stop_profile();
    EXPECT_TRUE(runtime::run(*program, {in, out, {}, lines}).report.ok());
    EXPECT_TRUE(stop_profile().empty()) << "nothing is collected when it is off";
    ASSERT_EQ(events.size(), 5u);
    EXPECT_EQ(events[1].name, "step 1");
    EXPECT_LE(events[0].end, events[1].begin);
    events[0].arrows_out = events[4].arrows_in = {profile_arrow()};
    events[2].name = "\xff not UTF-8";
    auto trace = nlohmann::json::parse(trace_json(events));
    int complete = 0, metadata = 0, arrows = 0;
    for (const auto &event : trace["traceEvents"]) {
        complete += event["ph"] == "X";
        metadata += event["ph"] == "M";
        arrows += event["ph"] == "s" || event["ph"] == "f";
        if (event["name"] == "step 1") {
            EXPECT_EQ(event["args"]["lines"], "train.cpp:11");
            EXPECT_GE(event["ts"].get<double>(), 0);
        }
    }
    EXPECT_EQ(complete, 5);
    EXPECT_EQ(metadata, 2);
    EXPECT_EQ(arrows, 2);
}

} // namespace
} // namespace lz::runtime
