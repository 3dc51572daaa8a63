// The quick tier in the engine: which kernels are small, the thread beside, and when a Program has had
// enough.
#include "codegen/cache/kernel_cache.h"
#include "codegen/quick.h"
#include "frontend/engine/compile/quick_kernels.h"
#include "ir/diagnostic.h"
#include "ir/interpreter/kernel.h"
#include "ir/kernel/builder.h"
#include "runtime/before_exit.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using namespace lz;
using engine::Quick;

/// out = in + in
ir::Kernel twice() {
    ir::KernelBuilder b("twice");
    const ir::AxisId i = b.axis();
    const uint16_t out = b.buffer(ir::DType::F32, ir::BufferMode::Out);
    const uint16_t in = b.buffer(ir::DType::F32, ir::BufferMode::In);
    b.begin_phase({i}, true);
    const auto access = [&](uint16_t buffer) {
        return ir::Access{
            buffer, ir::kNoArg, {{i, ir::StrideClass::Contiguous, ir::kNoArg}}, {}, ir::kNoValue};
    };
    const ir::KValue x = b.load(access(in));
    b.store(access(out), b.add(x, x));
    b.end_phase();
    return b.take();
}

/// Compiled to what counts its calls.
struct Code final : runtime::Module {
    static void run(const ir::KernelFrame *, int64_t, int64_t, void *) { ++runs; }
    void *entry(const std::string &) const override { return reinterpret_cast<void *>(run); }
    static std::atomic<int> runs;
};
std::atomic<int> Code::runs{0};

runtime::ProgramKernel quick_kernel(bool has_code = true) {
    const auto kernel = std::make_shared<const codegen::QuickKernel>(
        twice(),
        [has_code]() -> runtime::LoadedKernel {
            if (!has_code)
                throw ir::Failure(ir::ErrorKind::Compile, "There is no code.");
            return {std::make_shared<const Code>(), {{"a phase"}}};
        },
        nullptr);
    return {0, ir::kCpu, {kernel, kernel->phases()}};
}

void launch(const runtime::ProgramKernel &kernel) {
    std::vector<float> in(1000, 1.5F), out(1000);
    void *const buffers[] = {out.data(), in.data()};
    const int64_t args[] = {1000};
    const ir::KernelFrame frame{buffers, args, nullptr, nullptr, kernel.code.module->code()};
    reinterpret_cast<ir::PhaseEntry>(kernel.code.module->entry("phase0"))(&frame, 0, 1, nullptr);
    EXPECT_TRUE(out[999] == 3 || Code::runs > 0);
}

ir::Program program_of(int64_t elements, int64_t cost) {
    ir::Program program;
    program.kernels.push_back(twice());
    ir::Step step;
    step.kernel = 0;
    step.cost = cost;
    step.segments.emplace_back().args = {{elements, {}}};
    program.steps.push_back(step);
    return program;
}

TEST(QuickKernels, AreThoseWhoseLaunchesAreAllSmallAndWhole) {
    EXPECT_TRUE(engine::small_kernels(program_of(1000, 32000), Quick::On)[0]);
    EXPECT_FALSE(engine::small_kernels(program_of(1000, 32000), Quick::Off)[0]);
    EXPECT_FALSE(engine::small_kernels(program_of(1000, ir::kAloneCost), Quick::Always)[0])
        << "threads share it";
    EXPECT_FALSE(engine::small_kernels(program_of(10'000'000, 32000), Quick::On)[0]) << "it takes too long";
    EXPECT_TRUE(engine::small_kernels(program_of(10'000'000, 32000), Quick::Always)[0]);
    ir::Program two = program_of(1000, 32000);
    two.steps.push_back(two.steps[0]);
    two.steps[1].cost = ir::kAloneCost;
    EXPECT_FALSE(engine::small_kernels(two, Quick::On)[0]) << "one launch of two";
    ir::Program turns = program_of(1000, 32000);
    turns.steps[0].rounds = 2;
    EXPECT_TRUE(engine::small_kernels(turns, Quick::On)[0]) << "one segment";
    turns.steps[0].segments.push_back(turns.steps[0].segments[0]);
    EXPECT_FALSE(engine::small_kernels(turns, Quick::On)[0]) << "segments take turns";
}

TEST(QuickKernels, AreCompiledWhenTheyHaveBeenInterpretedForLongEnough) {
    const runtime::ProgramKernel kernels[] = {quick_kernel(), quick_kernel(), quick_kernel(false)};
    engine::QuickKernels program;
    program.watch(kernels);
    const auto quick = [&](int k) { return codegen::quick_kernel(kernels[k].code.module); };
    program.before_run();
    EXPECT_FALSE(quick(0)->is_settled());
    launch(kernels[0]);
    while (quick(0)->interpreted() < codegen::kEnoughNanoseconds)
        launch(kernels[0]);
    EXPECT_FALSE(quick(0)->is_settled()) << "not in the middle of a run";
    program.before_run();
    EXPECT_TRUE(quick(0)->is_compiled());
    EXPECT_TRUE(quick(1)->is_compiled()) << "the Program's others, too";
    EXPECT_TRUE(quick(2)->is_settled());
    EXPECT_FALSE(quick(2)->is_compiled());
    Code::runs = 0;
    launch(kernels[0]);
    EXPECT_EQ(Code::runs, 1);
    launch(kernels[2]); // goes on
    EXPECT_EQ(Code::runs, 1);
    program.before_run();
}

TEST(QuickKernels, AreCompiledBeforeALaunchThatIsNotSmall) {
    const runtime::ProgramKernel good[] = {quick_kernel()}, bad[] = {quick_kernel(false)};
    engine::compile_large(program_of(1000, 32000), good, Quick::On);
    EXPECT_FALSE(codegen::quick_kernel(good[0].code.module)->is_settled());
    engine::compile_large(program_of(1000, ir::kAloneCost), good, Quick::On);
    EXPECT_TRUE(codegen::quick_kernel(good[0].code.module)->is_compiled());
    engine::compile_large(program_of(1000, 32000), bad, Quick::On);
    try {
        engine::compile_large(program_of(1000, ir::kAloneCost), bad, Quick::On);
        FAIL() << "there is no code";
    } catch (const codegen::KernelFailure &failure) {
        EXPECT_EQ(failure.request(), 0U);
        EXPECT_EQ(failure.message(), "There is no code.");
    }
}

TEST(Beside, DoesOneThingAfterAnotherAndBeginsNoneInAPause) {
    // Its thread lives as long as the process.
    static engine::Beside &beside = *new engine::Beside([] { return std::chrono::milliseconds(0); });
    std::vector<int> done;
    std::atomic<size_t> count{0};
    const auto put = [&](int i) {
        beside.put([&, i] {
            done.push_back(i);
            count.fetch_add(1);
        });
    };
    const auto wait_for = [&](size_t n) {
        while (count.load() < n)
            std::this_thread::yield();
    };
    put(0);
    wait_for(1);
    {
        const engine::Beside::Pause pause(beside), another(beside);
        for (int i = 1; i < 20; ++i)
            put(i);
        for (int turn = 0; turn < 1000; ++turn)
            std::this_thread::yield();
        EXPECT_EQ(count.load(), 1U);
    }
    wait_for(20);
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(done[static_cast<size_t>(i)], i);
}

/// How many of five things are done by a process that leaves `main` while the first one is.
int done_at_exit(std::chrono::milliseconds at_exit) {
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    EXPECT_EXIT(
        {
            static engine::Beside &beside = *new engine::Beside([=] { return at_exit; });
            for (int i = 0; i < 5; ++i)
                beside.put([end = ends[1]] {
                    while (!runtime::BeforeExit::exit_has_begun())
                        std::this_thread::yield();
                    if (write(end, "x", 1) != 1)
                        _exit(1);
                });
            std::exit(0);
        },
        testing::ExitedWithCode(0), "");
    close(ends[1]);
    std::array<char, 16> done;
    const auto count = static_cast<int>(read(ends[0], done.data(), done.size()));
    close(ends[0]);
    return count;
}

TEST(BesideDeathTest, TheEndOfTheProcessIsPutOffForAWhile) {
    testing::FLAGS_gtest_death_test_style = "fast"; // the pipe is inherited
    EXPECT_EQ(done_at_exit({}), 1);
    EXPECT_EQ(done_at_exit(std::chrono::seconds(100)), 5);
}

} // namespace
