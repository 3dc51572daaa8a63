// Small Programs on the CPU run without a State from their second run on: with the same results, whatever is
// refused meanwhile, and on many threads at once.
#include "count_allocations.h"
#include "program_support.h"
#include "runtime/fault_injection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <thread>
#include <utility>

namespace lz::runtime {
namespace {

using namespace test;
using ir::BufferMode;
using testing::ElementsAre;

std::atomic<int> launches{0};
std::atomic<bool> has_no_memory{false};

void count_and_add_one(const ir::KernelFrame *frame, int64_t begin, int64_t end, void *worker) {
    ++launches;
    add_one(frame, begin, end, worker);
}

void add_one_or_throw(const ir::KernelFrame *frame, int64_t begin, int64_t end, void *worker) {
    if (has_no_memory)
        throw std::bad_alloc();
    count_and_add_one(frame, begin, end, worker);
}

/// x -> r0 -> r1, and x -> r2; the second kernel may throw.
class DirectRun : public testing::Test {
protected:
    void SetUp() override {
        const uint32_t x = b.input(2), r0 = b.result(2), r1 = b.result(2), r2 = b.result(2);
        const uint32_t plain = b.kernel({BufferMode::In, BufferMode::Out}, 0, {}, {count_and_add_one});
        const uint32_t other = b.kernel({BufferMode::In, BufferMode::Out}, 0, {}, {add_one_or_throw});
        b.launch(plain, {{.buffers = {x, r0}, .items = {2}}});
        b.launch(other, {{.buffers = {r0, r1}, .items = {2}}});
        b.launch(plain, {{.buffers = {x, r2}, .items = {2}}});
        has_no_memory = false;
    }
    RunReport run(const LoadedProgram &program) {
        launches = 0;
        results.assign(3, std::vector<double>(2, -1));
        void *in[] = {input.data()}, *out[] = {results[0].data(), results[1].data(), results[2].data()};
        return runtime::run(program, {in, out, {}}).report;
    }
    void expect_all() const {
        EXPECT_THAT(results[0], ElementsAre(2, 3));
        EXPECT_THAT(results[1], ElementsAre(3, 4));
        EXPECT_THAT(results[2], ElementsAre(2, 3));
    }

    CpuBackend backend;
    CachingAllocator allocator{backend};
    ProgramBuilder b;
    std::vector<double> input{1, 2};
    std::vector<std::vector<double>> results;
};

TEST_F(DirectRun, HasTheResultsOfTheFirstRunAndAllocatesNothing) {
    const auto program = b.load(backend, allocator);
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(run(*program).ok());
        expect_all();
    }
    std::vector<double> y[3] = {std::vector<double>(2), std::vector<double>(2), std::vector<double>(2)};
    void *in[] = {input.data()}, *out[] = {y[0].data(), y[1].data(), y[2].data()};
    const int64_t before = allocations_of_this_thread();
    const bool ok = runtime::run(*program, {in, out, {}}).report.ok();
    EXPECT_EQ(allocations_of_this_thread(), before);
    EXPECT_TRUE(ok);
    EXPECT_THAT(y[1], ElementsAre(3, 4));
}

const LoadedProgram *again = nullptr;

/// add_one, and first a run of the same Program into memory of its own.
void run_again_and_add_one(const ir::KernelFrame *frame, int64_t begin, int64_t end, void *worker) {
    if (const LoadedProgram *const program = std::exchange(again, nullptr)) {
        double x[2] = {7, 8}, y[2] = {};
        void *in[] = {x}, *out[] = {y};
        if (!runtime::run(*program, {in, out, {}}).report.ok() || y[0] != 8 || y[1] != 9)
            return; // the result of the outer run says so
    }
    add_one(frame, begin, end, worker);
}

/// A State belongs to one run at a time: with one, the inner run would have to make another.
TEST_F(DirectRun, HasNoStateThatARunInsideItWouldLack) {
    ProgramBuilder nested;
    const uint32_t x = nested.input(2), y = nested.result(2);
    const uint32_t k = nested.kernel({BufferMode::In, BufferMode::Out}, 0, {}, {run_again_and_add_one});
    nested.launch(k, {{.buffers = {x, y}, .items = {2}}});
    const auto program = nested.load(backend, allocator);
    double found[2] = {};
    void *in[] = {input.data()}, *out[] = {found};
    ASSERT_TRUE(runtime::run(*program, {in, out, {}}).report.ok());
    found[0] = found[1] = 0;
    again = program.get();
    const int64_t before = allocations_of_this_thread();
    const bool ok = runtime::run(*program, {in, out, {}}).report.ok();
    EXPECT_EQ(allocations_of_this_thread(), before);
    EXPECT_TRUE(ok);
    EXPECT_THAT(found, ElementsAre(2, 3));
    EXPECT_EQ(again, nullptr);
}

TEST_F(DirectRun, ALaunchThatTheDeviceRefusesOnceIsMadeAgainAndNoOther) {
    for (int64_t n = 1; n <= 3; ++n) {
        FaultInjectingBackend faulty(backend);
        const auto program = b.load(faulty, allocator);
        ASSERT_TRUE(run(*program).ok());
        faulty.fail_at(n);
        EXPECT_TRUE(run(*program).ok()) << n;
        EXPECT_EQ(launches, 3) << "what had been done was done again";
        EXPECT_GT(faulty.calls(), 3) << "nothing was refused";
        expect_all();
    }
}

TEST_F(DirectRun, ALaunchThatTheDeviceRefusesIsBlamedOnItsStep) {
    const std::vector<uint32_t> lost[] = {{0, 1}, {1}, {2}};
    for (int64_t n = 1; n <= 3; ++n) {
        FaultInjectingBackend faulty(backend);
        const auto program = b.load(faulty, allocator);
        ASSERT_TRUE(run(*program).ok());
        faulty.fail_at(n, 2); // a launch is made again once
        const RunReport report = run(*program);
        ASSERT_EQ(report.failures.size(), 1u) << n;
        EXPECT_EQ(report.failures[0].failure.kind(), ir::ErrorKind::Device);
        EXPECT_EQ(report.failures[0].failure.node(), static_cast<uint32_t>(n - 1));
        EXPECT_EQ(report.failures[0].results, lost[n - 1]);
        EXPECT_EQ(launches, 3 - static_cast<int>(lost[n - 1].size()));
        EXPECT_TRUE(run(*program).ok()) << "nothing of the failure is left";
        expect_all();
    }
}

TEST_F(DirectRun, AKernelThatHasNoMemoryFailsItsStep) {
    const auto program = b.load(backend, allocator);
    ASSERT_TRUE(run(*program).ok());
    has_no_memory = true;
    const RunReport report = run(*program);
    ASSERT_EQ(report.failures.size(), 1u);
    EXPECT_EQ(report.failures[0].failure.kind(), ir::ErrorKind::OutOfMemory);
    EXPECT_EQ(report.failures[0].failure.node(), 1u);
    EXPECT_THAT(report.failures[0].results, ElementsAre(1));
    EXPECT_THAT(results[0], ElementsAre(2, 3));
    EXPECT_THAT(results[2], ElementsAre(2, 3)) << "what does not depend on it ran";
    EXPECT_EQ(launches, 2);
    has_no_memory = false;
    EXPECT_TRUE(run(*program).ok());
    expect_all();
}

TEST_F(DirectRun, WorkersHaveScratchAndWithoutItTheStepFails) {
    ProgramBuilder with_scratch;
    const uint32_t x = with_scratch.input(2), y = with_scratch.result(2);
    const uint32_t k =
        with_scratch.kernel({BufferMode::In, BufferMode::Out, BufferMode::Worker}, 0, {},
                            {[](const ir::KernelFrame *frame, int64_t begin, int64_t end, void *worker) {
                                auto *const scratch = static_cast<double *>(worker);
                                for (int64_t i = begin; i < end; ++i) {
                                    scratch[i] = doubles(frame, 0)[i];
                                    doubles(frame, 1)[i] = scratch[i] * 2;
                                }
                            }});
    with_scratch.launch(k, {{.buffers = {x, y, ir::kNone}, .items = {2}}}).worker_bytes = 64;
    for (const bool is_there : {true, false}) {
        if (!is_there)
            with_scratch.program.steps[0].worker_bytes = int64_t{1} << 60;
        const auto program = with_scratch.load(backend, allocator);
        for (int i = 0; i < 3; ++i) {
            std::vector<double> doubled(2, -1);
            void *in[] = {input.data()}, *out[] = {doubled.data()};
            const RunReport report = runtime::run(*program, {in, out, {}}).report;
            if (is_there) {
                EXPECT_TRUE(report.ok());
                EXPECT_THAT(doubled, ElementsAre(2, 4));
            } else {
                ASSERT_EQ(report.failures.size(), 1u);
                EXPECT_EQ(report.failures[0].failure.kind(), ir::ErrorKind::OutOfMemory);
                EXPECT_THAT(doubled, ElementsAre(-1, -1));
            }
        }
    }
}

TEST_F(DirectRun, ThreadsRunOneProgramAtOnceWithTheirOwnArguments) {
    constexpr int kThreads = 4, kRuns = 300;
    ProgramBuilder with_words;
    const uint32_t out = with_words.result(2);
    const uint32_t k = with_words.kernel({BufferMode::Out}, 1, {ir::DType::F64},
                                         {[](const ir::KernelFrame *frame, int64_t, int64_t, void *) {
                                             doubles(frame, 0)[0] = static_cast<double>(frame->args[0]);
                                             doubles(frame, 0)[1] = std::bit_cast<double>(frame->scalars[0]);
                                         }});
    with_words.launch(
        k, {{.buffers = {out}, .args = {{3, {{0, 2}}}}, .scalars = {{1, ir::DType::F64}}, .items = {1}}});
    with_words.program.num_runtime_words = 2;
    const auto program = with_words.load(backend, allocator);
    std::atomic<int> wrong{0};
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < kRuns; ++i) {
                double y[2] = {};
                void *results_of[] = {y};
                const int64_t words[] = {t * kRuns + i, std::bit_cast<int64_t>(0.5 * i)};
                const bool ok = runtime::run(*program, {{}, results_of, words}).report.ok();
                wrong += !ok || y[0] != 3 + 2 * (t * kRuns + i) || y[1] != 0.5 * i;
            }
        });
    threads.clear();
    EXPECT_EQ(wrong, 0);
}

} // namespace
} // namespace lz::runtime
