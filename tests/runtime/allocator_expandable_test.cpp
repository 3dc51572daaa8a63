// Segments that grow where they are: what is free in one place costs no memory in another.
#include "fake_backend.h"
#include "runtime/allocator/caching_allocator.h"
#include "tests/support/failure_of.h"

#include <gtest/gtest.h>

#include <random>

namespace lz::runtime {
namespace {

using lz::test::failure_of;
using test::FakeBackend;

constexpr size_t kMiB = size_t{1} << 20;

int64_t current(const StatSet &set) {
    return set[StatPool::All].current;
}
int64_t mib(size_t count) {
    return static_cast<int64_t>(count * kMiB);
}

struct TestDevice {
    explicit TestDevice(size_t bytes, const std::string &options = "")
        : backend(bytes, 1, true), allocator(backend, AllocatorOptions::parse(options)) {}
    FakeBackend backend;
    CachingAllocator allocator;

    int64_t reserved() const { return current(allocator.stats().reserved_bytes); }
    int64_t runs() const { return current(allocator.stats().segment); }
};

TEST(ExpandableSegments, GrowByWhatIsMissing) {
    TestDevice device(200 * kMiB);
    void *const a = device.allocator.allocate(30 * kMiB);
    EXPECT_EQ(device.reserved(), mib(30));
    device.allocator.free(a);
    EXPECT_EQ(device.allocator.allocate(40 * kMiB), a) << "30 MiB of it were free";
    EXPECT_EQ(device.reserved(), mib(40));
    EXPECT_EQ(device.backend.used(), 40 * kMiB);
    void *const b = device.allocator.allocate(20 * kMiB);
    EXPECT_EQ(b, static_cast<char *>(a) + 40 * kMiB) << "the same segment";
    EXPECT_EQ(device.runs(), 1);
    EXPECT_EQ(device.allocator.segments().size(), 1u);
    EXPECT_EQ(device.allocator.stats().num_device_alloc, 3);
    EXPECT_EQ(device.allocator.check_invariants(), "");
}

/// Tensors that become larger in each round, one of the other sizes between: plain segments would be 3 times
/// as much.
TEST(ExpandableSegments, TensorsThatGrowCostWhatTheyAre) {
    TestDevice device(400 * kMiB);
    std::vector<void *> kept;
    for (size_t round = 0; round < 12; ++round) {
        void *const grown = device.allocator.allocate((20 + 6 * round) * kMiB);
        device.allocator.free(grown);
        EXPECT_LE(device.reserved(), mib(20 + 6 * round));
    }
    EXPECT_EQ(device.allocator.check_invariants(), "");
}

/// What S52_the_advice_is_true says cannot be had from segments of the driver's.
TEST(ExpandableSegments, PiecesBetweenLiveTensorsServeOthersWhenMemoryIsShort) {
    TestDevice device(64 * kMiB);
    device.allocator.free(device.allocator.allocate(60 * kMiB));
    std::vector<char *> quarters;
    for (int i = 0; i < 4; ++i)
        quarters.push_back(static_cast<char *>(device.allocator.allocate(15 * kMiB)));
    device.allocator.free(quarters[0]);
    device.allocator.free(quarters[2]);
    auto *const large = static_cast<char *>(device.allocator.allocate(24 * kMiB));
    ASSERT_NE(large, nullptr);
    EXPECT_TRUE(device.backend.mapped.covers(reinterpret_cast<uintptr_t>(large), 24 * kMiB));
    for (const int live : {1, 3})
        EXPECT_TRUE(device.backend.mapped.covers(
            reinterpret_cast<uintptr_t>(quarters[static_cast<size_t>(live)]), 15 * kMiB));
    EXPECT_LE(device.backend.used(), 64 * kMiB);
    EXPECT_EQ(device.allocator.check_invariants(), "");
    // Runs of memory are segments, for who looks.
    const std::vector<SegmentInfo> segments = device.allocator.segments();
    EXPECT_EQ(static_cast<int64_t>(segments.size()), device.runs());
    int64_t bytes = 0;
    for (const SegmentInfo &segment : segments) {
        int64_t of_blocks = 0;
        for (const BlockInfo &block : segment.blocks)
            of_blocks += block.size;
        EXPECT_EQ(segment.size, of_blocks);
        bytes += segment.size;
    }
    EXPECT_EQ(bytes, device.reserved());
}

TEST(ExpandableSegments, MemoryOfOneStreamBecomesAnothers) {
    TestDevice device(64 * kMiB);
    auto *const a = static_cast<char *>(device.allocator.allocate(30 * kMiB, 1));
    device.allocator.allocate(4 * kMiB, 1);
    device.allocator.free(a);
    device.allocator.empty_cache();
    EXPECT_NE(device.allocator.allocate(56 * kMiB, 2), nullptr);
    EXPECT_TRUE(device.backend.ordered.empty()) << "nobody lent anything";
    EXPECT_EQ(device.allocator.check_invariants(), "");
}

TEST(ExpandableSegments, AHoleIsFilledBeforeTheSegmentGrows) {
    TestDevice device(200 * kMiB);
    auto *const a = static_cast<char *>(device.allocator.allocate(40 * kMiB)), *const b = static_cast<char *>(
                                                                                   device.allocator.allocate(
                                                                                       40 * kMiB));
    device.allocator.free(a);
    device.allocator.empty_cache();
    EXPECT_EQ(device.reserved(), mib(40));
    EXPECT_EQ(device.allocator.allocate(12 * kMiB), a);
    EXPECT_EQ(device.allocator.allocate(28 * kMiB), a + 12 * kMiB);
    EXPECT_EQ(device.runs(), 1) << "the hole is closed";
    EXPECT_EQ(device.allocator.allocate(12 * kMiB), b + 40 * kMiB);
    EXPECT_EQ(device.allocator.check_invariants(), "");
}

TEST(ExpandableSegments, EmptyCacheGivesBackEverythingThatIsFree) {
    TestDevice device(200 * kMiB);
    std::vector<void *> blocks;
    for (int i = 0; i < 9; ++i)
        blocks.push_back(device.allocator.allocate(16 * kMiB));
    for (const size_t i : {0U, 2U, 3U, 5U, 8U})
        device.allocator.free(blocks[i]);
    device.allocator.empty_cache();
    EXPECT_EQ(device.backend.used(), 4 * 16 * kMiB);
    EXPECT_EQ(device.reserved(), mib(4 * 16));
    EXPECT_EQ(device.runs(), 3); // 1, 4, 6 and 7
    for (const size_t i : {1U, 4U, 6U, 7U})
        device.allocator.free(blocks[i]);
    device.allocator.empty_cache();
    EXPECT_EQ(device.backend.used(), 0u);
    EXPECT_TRUE(device.backend.mapped.reserved.empty()) << "addresses go back, too";
    EXPECT_EQ(device.runs(), 0);
    EXPECT_EQ(device.allocator.check_invariants(), "");
}

TEST(ExpandableSegments, AreNotWhereBlocksAreNotToBeSplitOrKept) {
    TestDevice unsplit(200 * kMiB, "max_split_size_mb:32");
    unsplit.allocator.allocate(40 * kMiB);
    EXPECT_TRUE(unsplit.backend.mapped.reserved.empty());
    FakeBackend backend(200 * kMiB, 1, true);
    AllocatorOptions options;
    options.caching = false;
    CachingAllocator allocator(backend, options);
    allocator.free(allocator.allocate(1000));
    EXPECT_EQ(backend.used(), 0u);
    EXPECT_TRUE(backend.mapped.reserved.empty());
}

TEST(ExpandableSegments, PastTheThresholdWhatIsLongestUnusedGoesBack) {
    TestDevice device(1024 * kMiB, "garbage_collection_threshold:0.5");
    void *const old = device.allocator.allocate(300 * kMiB),
                *const between = device.allocator.allocate(1 * kMiB + 1),
                *const young = device.allocator.allocate(300 * kMiB);
    device.allocator.free(old);
    for (int i = 0; i < 10; ++i)
        device.allocator.free(device.allocator.allocate(100));
    device.allocator.free(young);
    device.allocator.allocate(400 * kMiB); // 600 MiB and more are reserved: the old ones go
    EXPECT_FALSE(device.backend.mapped.covers(reinterpret_cast<uintptr_t>(old), 300 * kMiB));
    EXPECT_TRUE(device.backend.mapped.covers(reinterpret_cast<uintptr_t>(between), 1 * kMiB));
    EXPECT_EQ(device.allocator.stats().num_alloc_retries, 0);
    EXPECT_EQ(device.allocator.check_invariants(), "");
}

TEST(ExpandableSegments, ADriverThatFailsAtAnyCallLeaksNothing) {
    for (int n = 1;; ++n) {
        TestDevice device(100 * kMiB);
        std::vector<void *> live;
        device.backend.mapped.fail_at = n;
        for (const size_t bytes :
             {size_t{100}, 3 * kMiB, 700 * size_t{1024}, 12 * kMiB, 30 * kMiB, size_t{5}}) {
            try {
                live.push_back(device.allocator.allocate(bytes, static_cast<StreamId>(bytes % 2)));
            } catch (const ir::Failure &failure) {
                EXPECT_EQ(failure.kind(), ir::ErrorKind::OutOfMemory);
            }
            EXPECT_EQ(device.allocator.check_invariants(), "");
        }
        EXPECT_EQ(live.size(), 6u) << "something else serves each of them";
        for (void *memory : live)
            device.allocator.free(memory);
        device.allocator.empty_cache();
        EXPECT_EQ(device.allocator.check_invariants(), "");
        EXPECT_EQ(device.backend.used(), 0u);
        EXPECT_TRUE(device.backend.mapped.reserved.empty());
        EXPECT_EQ(device.backend.wrong_frees, 0);
        if (device.backend.mapped.calls < n) {
            EXPECT_GE(n, 6);
            break;
        }
    }
}

class ExpandableTraces : public testing::TestWithParam<int> {};

/// Random requests on a device that is nearly full: live blocks are apart and have memory, and nothing is
/// refused that fits beside what is live but for the ends of pieces.
TEST_P(ExpandableTraces, LiveBlocksHaveMemoryOfTheirOwn) {
    constexpr size_t kDevice = 256 * kMiB;
    TestDevice device(kDevice);
    std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
    std::map<uintptr_t, size_t> live;
    size_t in_use = 0;
    for (int step = 0; step < 4000; ++step) {
        if (random() % 16 < (step / 400 % 2 ? 7u : 10u) || live.empty()) {
            const size_t bytes = random() % 3 ? 1 + random() % (2 * kMiB) : 1 + random() % (24 * kMiB);
            void *memory = nullptr;
            try {
                memory = device.allocator.allocate(bytes);
            } catch (const ir::Failure &failure) {
                ASSERT_EQ(failure.kind(), ir::ErrorKind::OutOfMemory);
                ASSERT_GT(in_use + bytes + (live.size() + 1) * 8 * kMiB, kDevice)
                    << "pieces are of 4 MiB: no more is lost at either end of a block";
                continue;
            }
            const auto begin = reinterpret_cast<uintptr_t>(memory);
            const size_t size = device.allocator.usable_size(memory);
            ASSERT_TRUE(device.backend.mapped.covers(begin, size));
            const auto after = live.lower_bound(begin);
            ASSERT_TRUE(after == live.end() || after->first >= begin + size);
            ASSERT_TRUE(after == live.begin() || std::prev(after)->first + std::prev(after)->second <= begin);
            live[begin] = size;
            in_use += size;
        } else {
            auto victim = std::next(live.begin(), static_cast<ptrdiff_t>(random() % live.size()));
            device.allocator.free(reinterpret_cast<void *>(victim->first));
            in_use -= victim->second;
            live.erase(victim);
        }
        if (random() % 100 == 0)
            device.allocator.empty_cache();
        if (step % 20 == 0) {
            ASSERT_EQ(device.allocator.check_invariants(), "") << step;
            for (const auto &[begin, size] : live)
                ASSERT_TRUE(device.backend.mapped.covers(begin, size));
        }
        ASSERT_EQ(device.reserved(), static_cast<int64_t>(device.backend.used()));
    }
    for (const auto &[begin, size] : live)
        device.allocator.free(reinterpret_cast<void *>(begin));
    device.allocator.empty_cache();
    EXPECT_EQ(device.backend.used(), 0u);
    EXPECT_EQ(device.backend.wrong_frees, 0);
}

INSTANTIATE_TEST_SUITE_P(Random, ExpandableTraces, testing::Range(0, 8));

} // namespace
} // namespace lz::runtime
