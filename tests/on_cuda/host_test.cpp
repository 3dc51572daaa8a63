// The host beside a GPU: its steps in a program, and copies to it, on the driver without a GPU
// (faults_test.cpp sets it up).
#include "tests/support/cuda/driver/fake_cuda.h"
#include "tests/support/cuda/nvrtc.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <dlfcn.h>
#include <memory>
#include <semaphore>
#include <span>
#include <vector>

namespace {

using namespace lz;

const Device kGpu = Device::cuda(0);

uint64_t graphs_launched() {
    static void *const library = ::dlopen(LAZULI_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<decltype(&::lazuli_fake_cuda_calls)>(::dlsym(library, "lazuli_fake_cuda_calls"))(
        "cuGraphLaunch");
}

class OnCudaHost : public testing::Test {
protected:
    void SetUp() override {
        if (!test::why_no_nvrtc().empty())
            GTEST_SKIP() << test::why_no_nvrtc();
        ASSERT_TRUE(cuda::is_available());
    }
};

/// A function of the host between kernels is called in each run.
TEST_F(OnCudaHost, AProgramWithAStepOfTheHostIsNeverAGraph) {
    static std::atomic<int> called{0};
    register_call(
        "on_cuda_host.twice", [](std::span<const CallType> in) { return std::vector<CallType>{in[0]}; },
        [](std::span<const CallInput> in, std::span<const CallOutput> out) {
            ++called;
            for (size_t i = 0; i < out[0].values<float>().size(); ++i)
                out[0].values<float>()[i] = in[0].values<float>()[i] * 2;
        });
    const auto graphs_of = [](auto &&f) {
        lz::sync();
        const uint64_t before = graphs_launched();
        for (int run = 0; run < 5; ++run) {
            const Tensor here = arange(100).to(f32).reshape({10, 10}) + run, x = here.to(kGpu);
            x.eval();
            const Tensor y =
                f(x).eval(); // a copy to the host is another program: pageable memory is in no graph
            EXPECT_TRUE(equal(y.cpu(), f(here))) << run;
        }
        return graphs_launched() - before;
    };
    // A kernel, a scan of the library's, and another kernel.
    EXPECT_GT(graphs_of([](const Tensor &x) { return (x + 1).cumsum(1) * 2 + 1; }), 0u)
        << "others become one";
    EXPECT_EQ(
        graphs_of([](const Tensor &x) { return call("on_cuda_host.twice", {(x + 1).cumsum(1)})[0] * 2 + 1; }),
        0u);
    EXPECT_EQ(called, 10) << "in five runs on the GPU and five on the CPU";
}

/// While the GPU has not come to them, copies to pageable memory are put behind each other, and the program
/// goes on. (Some 16 programs ahead of the GPU it waits: S22.)
TEST_F(OnCudaHost, ALoopOfCopiesToTheHostDoesNotHoldTheCaller) {
    struct Gate { // which outlives a test that fails
        std::binary_semaphore all_put{0};
        std::atomic<bool> held{false};
    };
    const auto gate = std::make_shared<Gate>();
    Tensor y = zeros({1000}, {.dtype = f32, .device = kGpu});
    y.eval();
    cuda::synchronize(kGpu);
    default_stream(kGpu).add_callback(
        [gate] { gate->held = !gate->all_put.try_acquire_for(std::chrono::seconds(20)); });
    std::vector<Tensor> got;
    for (int step = 0; step < 12; ++step) {
        y = y + 1;
        got.push_back(y.cpu().eval());
    }
    EXPECT_FALSE(default_stream(kGpu).query());
    gate->all_put.release();
    for (size_t step = 0; step < got.size(); ++step)
        EXPECT_EQ(got[step].to_vector<float>(), std::vector<float>(1000, static_cast<float>(step) + 1));
    EXPECT_FALSE(gate->held) << "the loop waited for the GPU, which waited for its end";
}

} // namespace
