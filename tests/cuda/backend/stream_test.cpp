// Streams of the CUDA backend on the fake driver: their moments, callbacks and priorities.

#include "backend/gpus.h"

#include "tests/support/failure_of.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace lz::test {
namespace {

using runtime::StreamId;
using testing::HasSubstr;

class CudaStreams : public CudaGpus {};

TEST_F(CudaStreams, TicksAreEventsInARing) {
    EXPECT_TRUE(gpu().reached(0, 0));
    EXPECT_EQ(gpu().record(0), gpu().record(0)) << "nothing was put";
    auto *const memory = allocate<uint32_t>(1);
    std::vector<uint64_t> ticks;
    std::vector<uint32_t> value = {5};
    for (int k = 0; k < 300; ++k) {
        gpu().copy(memory, memory, 4, 0);
        ticks.push_back(gpu().record(0));
        EXPECT_GT(ticks.back(), k > 0 ? ticks[static_cast<size_t>(k) - 1] : 0);
    }
    gpu().synchronize(0, ticks[10]);
    EXPECT_TRUE(gpu().reached(0, ticks[10]));
    gpu().synchronize(0, ticks.back());
    const uint64_t asked = FAKE(lazuli_fake_cuda_calls)("cuEventQuery");
    EXPECT_GT(asked, 0u);
    for (const uint64_t tick : ticks)
        EXPECT_TRUE(gpu().reached(0, tick));
    EXPECT_EQ(FAKE(lazuli_fake_cuda_calls)("cuEventQuery"), asked) << "what is known to be over is compared";
    const uint64_t made = FAKE(lazuli_fake_cuda_calls)("cuEventCreate");
    for (int k = 0; k < 1000; ++k) {
        gpu().copy(memory, memory, 4, 0);
        finish();
    }
    EXPECT_EQ(FAKE(lazuli_fake_cuda_calls)("cuEventCreate"), made) << "the ring has enough of them";
}

/// More moments than the ring began with, each waited for by the thread beside the stream, for which the
/// stream waits.
TEST_F(CudaStreams, CallbacksThatQueueUpBehindOneThatTakesLongAllRun) {
    std::atomic<bool> open{false};
    std::vector<int> order;
    gpu().call_host(0, [&] { open.wait(false); });
    for (int k = 0; k < 300; ++k)
        gpu().call_host(0, [&order, k] { order.push_back(k); });
    const uint64_t end = gpu().record(0);
    open = true;
    open.notify_all();
    gpu().synchronize(0, end);
    ASSERT_EQ(order.size(), 300u);
    EXPECT_TRUE(std::ranges::is_sorted(order));
}

/// The handle of the driver's on which work of a stream is put has its priority.
TEST_F(CudaStreams, TheDriverHasAStreamsPriority) {
    static int given = 1;
    runtime::cuda::Driver driver = driver_table();
    driver.cuMemcpyAsync = [](CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
        EXPECT_EQ(CU(cuStreamGetPriority)(stream, &given), CUDA_SUCCESS);
        return driver_table().cuMemcpyAsync(to, from, bytes, stream);
    };
    std::string none;
    gpus_ = runtime::cuda::make_cuda_gpus(driver, {.load_source = load_source}, none);
    ASSERT_FALSE(gpus_.empty()) << none;
    auto *const memory = allocate<uint32_t>(1);
    for (const int asked : {0, -1, -5, -3}) {
        const StreamId s = gpu().create_stream(asked);
        gpu().copy(memory, memory, 4, s);
        finish(s);
        EXPECT_EQ(given, asked);
        gpu().destroy_stream(s);
    }
    TearDown(); // before the table of functions
}

/// A number that is given again brings another priority; work of its last owner comes first.
TEST_F(CudaStreams, PrioritiesThatTakeTurnsOnOneNumberKeepTheOrder) {
    auto *const host = static_cast<int64_t *>(gpu().allocate_pinned(8));
    *host = 0;
    int64_t expected = 0;
    for (int64_t k = 0; k < 40; ++k) {
        const StreamId s = gpu().create_stream(k % 2 ? -1 : 0);
        EXPECT_EQ(s, ir::kFirstUserStream);
        gpu().call_host(s, [host, k] { *host = (*host * 5 + k) % 1000003; });
        expected = (expected * 5 + k) % 1000003;
        gpu().destroy_stream(s);
    }
    const StreamId s = gpu().create_stream(0);
    finish(s);
    EXPECT_EQ(*host, expected);
    gpu().destroy_stream(s);
    gpu().free_pinned(host, 8);
}

TEST_F(CudaStreams, StreamsThatAreNotThereAreRefused) {
    EXPECT_THAT(failure_of([&] { gpu().record(ir::kFirstUserStream + 3); }).message(),
                HasSubstr("cuda:0 has no stream"));
    std::vector<StreamId> all;
    for (int k = 0; k < ir::kMaxStreams - ir::kFirstUserStream; ++k)
        all.push_back(gpu().create_stream(0));
    EXPECT_THAT(failure_of([&] { gpu().create_stream(0); }).message(), HasSubstr("no more than that"));
    for (const StreamId s : all)
        gpu().destroy_stream(s);
}

} // namespace
} // namespace lz::test
