// Segments by virtual memory management, as the caching allocator uses them, on the fake driver.

#include "backend/gpus.h"

#include "runtime/allocator/caching_allocator.h"
#include "tests/support/failure_of.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <numeric>
#include <thread>

namespace lz::test {
namespace {

using runtime::CachingAllocator;
using testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

uint64_t calls(const char *function) {
    return FAKE(lazuli_fake_cuda_calls)(function);
}

std::vector<uint32_t> numbers(size_t count, uint32_t first) {
    std::vector<uint32_t> values(count);
    std::iota(values.begin(), values.end(), first);
    return values;
}

class CudaSegments : public CudaGpus {
protected:
    /// Numbers over all of a block, and back.
    void expect_memory(void *memory, size_t bytes, uint32_t first, size_t i = 0) {
        auto *const words = static_cast<uint32_t *>(memory);
        const std::vector<uint32_t> values = numbers(bytes / 4, first);
        write(words, values, i);
        EXPECT_EQ(read(words, bytes / 4, i), values);
    }
};

TEST_F(CudaSegments, GrowInPlaceAndAreGivenBackInPieces) {
    finish(); // makes the context, which takes memory of its own
    const size_t before = gpu().free_memory();
    const uint64_t allocations = calls("cuMemAlloc_v2");
    {
        CachingAllocator allocator(gpu());
        auto *const a = static_cast<char *>(allocator.allocate(30 * kMiB));
        expect_memory(a, 30 * kMiB, 1); // more than one piece
        allocator.free(a);
        EXPECT_EQ(allocator.allocate(50 * kMiB), a);
        expect_memory(a, 50 * kMiB, 2);
        auto *const b = static_cast<char *>(allocator.allocate(40 * kMiB));
        EXPECT_EQ(b, a + 50 * kMiB);
        EXPECT_EQ(gpu().free_memory(), before - 90 * kMiB);
        expect_memory(b, 40 * kMiB, 3);
        allocator.free(a);
        allocator.empty_cache();
        EXPECT_EQ(gpu().free_memory(), before - 40 * kMiB);
        EXPECT_EQ(read(reinterpret_cast<uint32_t *>(b), 10 * kMiB), numbers(10 * kMiB, 3));
        allocator.free(b);
        allocator.empty_cache();
        EXPECT_EQ(gpu().free_memory(), before);
        EXPECT_EQ(allocator.check_invariants(), "");
        allocator.allocate(5 * kMiB); // and what is live at the end
    }
    EXPECT_EQ(gpu().free_memory(), before);
    EXPECT_EQ(calls("cuMemAlloc_v2"), allocations);
}

/// cuMemUnmap does not wait for the device; who calls it has to.
TEST_F(CudaSegments, MemoryIsGivenBackWhenTheDeviceIsDoneWithIt) {
    CachingAllocator allocator(gpu());
    const runtime::StreamId other = gpu().create_stream(0);
    for (int round = 0; round < 20; ++round)
        for (const runtime::StreamId stream : {runtime::StreamId{0}, other}) {
            auto *const a = static_cast<char *>(allocator.allocate(8 * kMiB, stream));
            for (int copy = 0; copy < 4; ++copy)
                gpu().copy(a + 4 * kMiB, a, 4 * kMiB, stream);
            allocator.free(a);
            allocator.empty_cache();
        }
    finish();
    finish(other);
    gpu().destroy_stream(other);
}

/// The driver waits for the device when it gets memory back; there a stream waits for a function of the
/// host's that frees memory, and asks for some. Neither waits for the other.
TEST_F(CudaSegments, AFunctionOfTheHostUsesTheAllocatorWhileMemoryIsGivenBack) {
    for (const bool expandable : {true, false})
        for (const bool caching : {true, false}) {
            SCOPED_TRACE(std::string(expandable ? "expandable" : "plain") + (caching ? "" : ", no cache"));
            gpus_.clear();
            std::string none;
            gpus_ = runtime::cuda::make_cuda_gpus(driver_table(), {.expandable_segments = expandable}, none);
            finish();
            const size_t before = gpu().free_memory();
            runtime::AllocatorOptions options;
            options.caching = caching;
            CachingAllocator allocator(gpu(), options);
            void *const freed = allocator.allocate(30 * kMiB), *const dropped = allocator.allocate(8 * kMiB);
            const auto waits = [] { return calls("cuEventSynchronize") + calls("cuMemFree_v2"); };
            std::promise<void> begun;
            std::atomic<bool> over = false;
            gpu().call_host(0, [&] {
                const uint64_t first = waits();
                begun.set_value();
                while (waits() == first)
                    std::this_thread::yield();
                allocator.free(dropped);
                void *const own = allocator.allocate(3 * kMiB);
                EXPECT_GT(allocator.stats().reserved_bytes[runtime::StatPool::All].current, 0);
                allocator.free(own);
                allocator.empty_cache();
                EXPECT_EQ(allocator.check_invariants(), "");
                over = true;
            });
            begun.get_future().wait();
            allocator.free(freed);
            allocator.empty_cache();
            EXPECT_TRUE(over);
            finish();
            allocator.empty_cache();
            EXPECT_EQ(allocator.stats().reserved_bytes[runtime::StatPool::All].current, 0);
            EXPECT_EQ(allocator.check_invariants(), "");
            EXPECT_EQ(gpu().free_memory(), before);
        }
}

/// What is on its way back to the driver is not there for a moment: who is refused because of that waits.
TEST_F(CudaSegments, MemoryThatIsBeingGivenBackIsNotMissing) {
    CachingAllocator allocator(gpu());
    allocator.free(allocator.allocate(300 * kMiB));
    std::promise<void> begun;
    gpu().call_host(0, [&] {
        begun.set_value();
        while (allocator.stats().num_alloc_retries == 0)
            std::this_thread::yield();
    });
    begun.get_future().wait();
    const uint64_t waits = calls("cuEventSynchronize");
    std::thread gives_back([&] { allocator.empty_cache(); });
    while (calls("cuEventSynchronize") == waits)
        std::this_thread::yield();
    void *const memory = allocator.allocate(400 * kMiB, 1); // 300 MiB of it are not yet the driver's
    EXPECT_NE(memory, nullptr);
    gives_back.join();
    allocator.free(memory);
    EXPECT_EQ(allocator.check_invariants(), "");
}

TEST_F(CudaSegments, PeersReachWhatIsThereAndWhatComesLater) {
    CachingAllocator allocator(gpu());
    auto *const a = static_cast<uint32_t *>(allocator.allocate(4 * kMiB));
    auto *const there = allocate<uint32_t>(kMiB, 1);
    const std::vector<uint32_t> values = numbers(kMiB, 5);
    write(a, values);
    const auto fetch = [&](const uint32_t *from) {
        gpu(1).copy(there, from, 4 * kMiB, 0);
        return read(there, kMiB, 1);
    };
    EXPECT_THROW(fetch(a), ir::Failure);
    gpu(1).set_peer_access(gpu(0), true);
    EXPECT_EQ(fetch(a), values);
    auto *const b = static_cast<uint32_t *>(allocator.allocate(30 * kMiB));
    write(b, values);
    EXPECT_EQ(fetch(b), values);
    gpu(1).set_peer_access(gpu(0), false);
    EXPECT_THROW(fetch(a), ir::Failure);
    EXPECT_THROW(fetch(b), ir::Failure);
    finish(0, 1);
}

TEST_F(CudaSegments, AreAllocationsOfTheDriversWhereItHasNothingElse) {
    std::string none;
    FAKE(lazuli_fake_cuda_fail)("cuMemGetAllocationGranularity", 1, CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(gpu().expandable(), nullptr);
    EXPECT_EQ(gpu().expandable(), nullptr) << "it is asked once";
    EXPECT_NE(gpu(1).expandable(), nullptr);
    auto plain = runtime::cuda::make_cuda_gpus(driver_table(), {.expandable_segments = false}, none);
    EXPECT_EQ(plain.at(0)->expandable(), nullptr);
    const uint64_t reserved = calls("cuMemAddressReserve");
    CachingAllocator allocator(gpu());
    expect_memory(allocator.allocate(30 * kMiB), 30 * kMiB, 7);
    EXPECT_EQ(calls("cuMemAddressReserve"), reserved);
}

/// Each call fails in turn: others serve the request, or an error says what failed; nothing is lost.
TEST_F(CudaSegments, EveryCallMayFail) {
    finish();
    const size_t before = gpu().free_memory();
    for (const char *const function : {"cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess"})
        for (const CUresult error : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE})
            for (unsigned nth = 1;; ++nth) {
                SCOPED_TRACE(std::string(function) + " " + std::to_string(nth));
                CachingAllocator allocator(gpu());
                const uint64_t first = calls(function);
                FAKE(lazuli_fake_cuda_fail)(function, nth, error);
                for (const size_t mib : {1U, 45U, 3U, 60U}) {
                    void *memory = nullptr;
                    try {
                        memory = allocator.allocate(mib * kMiB);
                    } catch (const ir::Failure &failure) {
                        EXPECT_EQ(failure.kind(), ir::ErrorKind::Cuda);
                        EXPECT_NE(error, CUDA_ERROR_OUT_OF_MEMORY) << "there is enough of it";
                        EXPECT_THAT(failure.message(), HasSubstr("CUDA_ERROR_INVALID_VALUE"));
                        memory = allocator.allocate(mib * kMiB);
                    }
                    ASSERT_NE(memory, nullptr);
                    expect_memory(memory, kMiB, static_cast<uint32_t>(mib));
                    EXPECT_EQ(allocator.check_invariants(), "");
                    allocator.free(memory);
                }
                const bool failed = calls(function) >= first + nth;
                FAKE(lazuli_fake_cuda_fail)(function, 0, CUDA_SUCCESS);
                allocator.empty_cache();
                EXPECT_EQ(gpu().free_memory(), before);
                if (!failed)
                    break;
            }
}

} // namespace
} // namespace lz::test
