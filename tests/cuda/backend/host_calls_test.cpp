// Functions of the host on a GPU's stream, and the pinned memory that they and tables of segments go through.

#include "backend/gpus.h"

#include "tests/support/failure_of.h"

#include <atomic>
#include <cuda.h>
#include <future>
#include <numeric>
#include <thread>

namespace lz::test {
namespace {

using runtime::Backend;

class CudaHostCalls : public CudaGpus {
protected:
    /// Puts a function of the library on stream 0.
    void call(const char *symbol, const std::vector<int64_t> &ints, std::vector<void *> buffers,
              std::vector<Backend::Call::Use> uses) {
        const ir::LibraryRule *const rule = runtime::cpu_library().find(symbol);
        ASSERT_TRUE(rule) << symbol;
        ir::DeviceInfo info;
        info.limits = *gpu().properties().cuda;
        Backend::Call c{};
        c.function = runtime::find_cpu_function(symbol).on_host();
        c.args.buffers = buffers;
        c.args.ints = ints;
        if (rule->scratch_bytes)
            c.args.scratch = {static_cast<std::byte *>(nullptr),
                              static_cast<size_t>(rule->scratch_bytes(ints, info))};
        c.uses = uses;
        gpu().call(c, 0);
    }
    /// x becomes its sums, from the first element on.
    void cumsum(float *x, int64_t count) {
        call("cumsum", {static_cast<int64_t>(ir::DType::F32), 1, count, 1}, {x, x},
             {{4 * count, true, false}, {4 * count, false, true}});
    }
    static uint64_t live_bytes() {
        uint64_t handles = 0, bytes = 0;
        FAKE(lazuli_fake_cuda_live)(&handles, &bytes);
        return bytes;
    }
};

/// Operands come to pinned memory and results go back, in the order of the stream.
TEST_F(CudaHostCalls, RunOnCopies) {
    auto *const x = allocate<float>(6), *const values = allocate<float>(6);
    auto *const positions = allocate<int64_t>(6);
    write(x, {3, 1, 2, 9, 7, 8});
    const auto f32 = static_cast<int64_t>(ir::DType::F32);
    for (int k = 0; k < 3; ++k) { // in place, one after the other
        call("cumsum", {f32, 2, 3, 1}, {x, x}, {{24, true, false}, {24, false, true}});
        call("sort", {f32, 2, 3, 1, 0}, {x, values, positions},
             {{24, true, false}, {24, false, true}, {48, false, true}});
    }
    EXPECT_EQ(read(x, 6), (std::vector<float>{3, 10, 23, 9, 34, 83}));
    EXPECT_EQ(read(values, 6), (std::vector<float>{3, 10, 23, 9, 34, 83}));
    EXPECT_EQ(read(positions, 6), (std::vector<int64_t>{0, 1, 2, 0, 1, 2}));
    EXPECT_FALSE(static_cast<bool>(gpu().find_library("concat"))) << "joins are kernels";
    EXPECT_FALSE(static_cast<bool>(gpu().find_library("nothing")));
}

/// Each call of the driver's fails in turn, again and again: the next one has the same memory.
TEST_F(CudaHostCalls, ACallThatFailsGivesItsPinnedMemoryBack) {
    auto *const x = allocate<float>(1000);
    write(x, std::vector<float>(1000, 1));
    cumsum(x, 1000);
    finish();
    const uint64_t bytes = live_bytes();
    for (const char *function : {"cuMemcpyAsync", "cuStreamWaitValue64_v2"})
        for (const unsigned nth : {1u, 2u})
            for (int k = 0; k < 5; ++k) {
                FAKE(lazuli_fake_cuda_fail)(function, nth, CUDA_ERROR_OUT_OF_MEMORY);
                bool thrown = false;
                try {
                    cumsum(x, 1000);
                    cumsum(x, 1000); // where one makes fewer such calls
                } catch (const ir::Failure &failure) {
                    thrown = true;
                    EXPECT_EQ(failure.kind(), ir::ErrorKind::OutOfMemory);
                }
                EXPECT_TRUE(thrown) << function << ' ' << nth;
                finish();
                // Of the last calls, whose functions the thread may run still; twenty failed.
                EXPECT_LE(live_bytes(), bytes + 6 * 8064) << function << ' ' << nth;
            }
    write(x, std::vector<float>(1000, 1));
    cumsum(x, 1000);
    std::vector<float> expected(1000);
    std::iota(expected.begin(), expected.end(), 1.0f);
    EXPECT_EQ(read(x, 1000), expected);
}

TEST_F(CudaHostCalls, PinnedMemoryThatNobodyUsesIsBounded) {
    constexpr size_t kKept = 1 << 20;
    gpus_.clear();
    std::string none;
    gpus_ = runtime::cuda::make_cuda_gpus(driver_table(), {.unused_pinned_bytes = kKept}, none);
    ASSERT_EQ(gpus_.size(), 2u) << none;
    constexpr size_t kMost = 4 << 20;
    auto *const x = allocate<float>(kMost);
    write(x, std::vector<float>(1, 1));
    cumsum(x, 1);
    finish();
    const uint64_t bytes = live_bytes();
    for (size_t count = 1000; count <= kMost; count *= 3) {
        cumsum(x, static_cast<int64_t>(count));
        finish();
        EXPECT_LE(live_bytes(), bytes + kKept + 2 * 4 * count + 8192) << count;
    }
    cumsum(x, 10);
    finish();
    EXPECT_LE(live_bytes(), bytes + kKept);
}

/// The host's thread is in the middle of something (a copy from the user's memory, say) when the device is
/// found lost: nobody is told so, and frees that memory, before it has ended, and what comes after it never
/// begins.
TEST_F(CudaHostCalls, ADeviceIsLostWhenItsHostThreadHasEndedWhatItDoes) {
    std::promise<void> begun, go_on;
    std::atomic<bool> ended = false, second = false;
    gpu().call_host(0, [&, may = go_on.get_future().share()] {
        begun.set_value();
        may.wait();
        ended = true;
    });
    std::vector<uint32_t> values(3 << 20, 7); // pageable: copied by that thread, in pieces
    auto *const there = allocate<uint32_t>(values.size());
    gpu().copy(there, values.data(), values.size() * 4, 0);
    gpu().call_host(0, [&] { second = true; });
    const uint64_t tick = gpu().record(0);
    begun.get_future().wait();
    FAKE(lazuli_fake_cuda_lose)("cuMemAlloc_v2", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(failure_of([&] { gpu().allocate(64); }).kind(), ir::ErrorKind::Cuda);
    EXPECT_FALSE(gpu().reached(0, tick));
    std::promise<void> waits;
    std::thread waiter([&] {
        waits.set_value();
        EXPECT_EQ(failure_of([&] { gpu().synchronize(0, tick); }).kind(), ir::ErrorKind::Cuda);
        EXPECT_TRUE(ended);
        values = {}; // the sanitizers see who still reads it
    });
    waits.get_future().wait();
    go_on.set_value();
    waiter.join();
    EXPECT_FALSE(second);
    EXPECT_EQ(failure_of([&] { gpu().reached(0, tick); }).kind(), ir::ErrorKind::Cuda);
}

} // namespace
} // namespace lz::test
