#include "count_allocations.h"
#include "fake_backend.h"
#include "runtime/allocator/caching_allocator.h"
#include "runtime/fault_injection.h"
#include "tests/support/failure_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lz::runtime {
namespace {

using lz::test::failure_of;
using test::FakeBackend;
using testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20, kGiB = size_t{1} << 30;

int64_t current(const StatSet &set) {
    return set[StatPool::All].current;
}

TEST(Allocator, NoBytesNeedNoMemory) {
    FakeBackend backend(kGiB);
    CachingAllocator allocator(backend);
    EXPECT_EQ(allocator.allocate(0), nullptr);
    allocator.free(nullptr);
    EXPECT_EQ(backend.used(), 0u);
}

TEST(Allocator, FreedMemoryComesBackAtOnceOnItsStreamAndNotOnAnother) {
    FakeBackend backend(kGiB);
    CachingAllocator allocator(backend);
    void *a = allocator.allocate(1000);
    allocator.free(a);
    EXPECT_NE(allocator.allocate(1000, 3), a);
    EXPECT_EQ(allocator.allocate(1000), a);
}

TEST(Allocator, NeighboursThatAreFreedOneAfterTheOtherAreMerged) {
    FakeBackend backend(kGiB);
    CachingAllocator allocator(backend);
    void *a = allocator.allocate(512), *b = allocator.allocate(512), *c = allocator.allocate(512);
    allocator.free(a);
    allocator.free(b);
    EXPECT_EQ(allocator.allocate(512), b) << "freed last, it is still as it was";
    EXPECT_EQ(allocator.allocate(512), a);
    allocator.free(b);
    allocator.free(a);
    EXPECT_EQ(allocator.allocate(1024), a);
    EXPECT_EQ(allocator.check_invariants(), "");
    allocator.free(c);
}

TEST(Allocator, ALoopAsksTheDriverOnce) {
    FakeBackend backend(kGiB);
    CachingAllocator allocator(backend);
    for (int i = 0; i < 1000; ++i) {
        void *a = allocator.allocate(3 * kMiB), *b = allocator.allocate(100),
             *c = allocator.allocate(3 * kMiB);
        allocator.free(a);
        allocator.free(c);
        allocator.free(b);
    }
    EXPECT_EQ(allocator.stats().num_device_alloc, 2) << "a small and a large segment";
}

TEST(Semantics, S45_memory_used_on_two_streams_is_reused_when_both_are_done) {
    FakeBackend backend(kGiB), other(kGiB, 2);
    CachingAllocator allocator(backend);
    void *a = allocator.allocate(4096);
    const Guard guards[] = {{&backend, 1, backend.work(1)},
                            {&other, 2, other.work(2)},
                            {&backend, 0, backend.work(0)}}; // its own: needs nothing
    allocator.free(a, guards);
    EXPECT_EQ(current(allocator.stats().allocated_bytes), 0);
    EXPECT_EQ(current(allocator.stats().active_bytes), 4096);
    void *b = allocator.allocate(4096);
    EXPECT_NE(b, a);
    backend.finish(1);
    void *c = allocator.allocate(4096);
    EXPECT_NE(c, a);
    allocator.free(b);
    allocator.free(c);
    other.finish(2);
    EXPECT_EQ(allocator.allocate(4096), a);
    EXPECT_EQ(backend.waits + other.waits, 0) << "S54: freeing never waits";
    EXPECT_EQ(allocator.check_invariants(), "");
}

TEST(Allocator, GuardsThatHavePassedHoldNothingBack) {
    FakeBackend backend(kGiB);
    CachingAllocator allocator(backend);
    void *a = allocator.allocate(4096);
    const Guard guard{&backend, 3, backend.work(3)};
    backend.finish(3);
    allocator.free(a, {&guard, 1});
    EXPECT_EQ(current(allocator.stats().active_bytes), 0);
    EXPECT_EQ(allocator.allocate(4096), a);
}

TEST(Semantics, S52_memory_that_streams_still_use_is_waited_for_before_the_cache_is_given_back) {
    FakeBackend backend(100 * kMiB);
    CachingAllocator allocator(backend);
    void *a = allocator.allocate(80 * kMiB);
    const Guard guard{&backend, 1, backend.work(1)};
    allocator.free(a, {&guard, 1});
    EXPECT_EQ(allocator.allocate(70 * kMiB), a) << "what came back is used, and the driver not asked again";
    EXPECT_EQ(backend.waits, 1);
    EXPECT_EQ(allocator.stats().num_device_free, 0);
    allocator.free(a, {});
    const Guard later{&backend, 2, backend.work(2)};
    void *b = allocator.allocate(75 * kMiB);
    allocator.free(b, {&later, 1});
    EXPECT_NE(allocator.allocate(90 * kMiB), nullptr);
    EXPECT_EQ(allocator.check_invariants(), "");
}

TEST(Allocator, AFullDeviceIsWaitedForUntilThereIsEnoughAndNoLonger) {
    FakeBackend backend(100 * kMiB);
    CachingAllocator allocator(backend);
    void *const a = allocator.allocate(30 * kMiB), *const b = allocator.allocate(30 * kMiB),
                *const c = allocator.allocate(30 * kMiB);
    const Guard first{&backend, 2, backend.work(2)}, second{&backend, 1, backend.work(1)},
        third{&backend, 2, backend.work(2)};
    allocator.free(a, {&first, 1});
    allocator.allocate(512); // time passes by requests
    allocator.free(b, {&second, 1});
    allocator.allocate(512);
    allocator.free(c, {&third, 1});
    EXPECT_EQ(allocator.allocate(30 * kMiB), a);
    EXPECT_TRUE(backend.reached(2, first.tick));
    EXPECT_FALSE(backend.reached(1, second.tick));
    EXPECT_FALSE(backend.reached(2, third.tick));
    EXPECT_EQ(allocator.allocate(30 * kMiB), b);
    EXPECT_FALSE(backend.reached(2, third.tick));
    EXPECT_EQ(allocator.check_invariants(), "");
}

TEST(Semantics, S51_empty_cache_waits_for_streams_that_use_freed_memory) {
    FakeBackend backend(kGiB);
    CachingAllocator allocator(backend);
    const Guard guard{&backend, 1, backend.work(1)};
    allocator.free(allocator.allocate(50 * kMiB), {&guard, 1});
    allocator.empty_cache();
    EXPECT_EQ(backend.used(), 0u);
    EXPECT_EQ(backend.waits, 1);
}

TEST(Semantics, S51_empty_cache_gives_back_what_is_unused_and_touches_nothing_live) {
    FakeBackend backend(kGiB);
    CachingAllocator allocator(backend);
    void *small = allocator.allocate(512), *large = allocator.allocate(50 * kMiB),
         *own = allocator.allocate(30 * kMiB);
    allocator.free(large);
    allocator.empty_cache();
    EXPECT_EQ(backend.used(), 32 * kMiB);
    EXPECT_EQ(current(allocator.stats().reserved_bytes), static_cast<int64_t>(32 * kMiB));
    allocator.free(small);
    allocator.free(own);
    allocator.empty_cache();
    EXPECT_EQ(backend.used(), 0u);
}

TEST(Semantics, S52_when_the_driver_has_no_more_the_cache_is_given_back_and_it_is_asked_again) {
    FakeBackend backend(100 * kMiB);
    CachingAllocator allocator(backend);
    void *a = allocator.allocate(60 * kMiB);
    allocator.free(a);
    void *b = allocator.allocate(80 * kMiB);
    EXPECT_NE(b, nullptr);
    EXPECT_EQ(allocator.stats().num_alloc_retries, 1);
    EXPECT_EQ(allocator.stats().num_ooms, 0);
    // A request that fits although its segment of 20 MiB does not.
    EXPECT_NE(allocator.allocate(5 * kMiB), nullptr);
    EXPECT_EQ(allocator.check_invariants(), "");
}

TEST(Semantics, S52_out_of_memory_says_what_was_asked_and_what_there_is_and_loses_nothing) {
    FakeBackend backend(100 * kMiB);
    CachingAllocator allocator(backend);
    void *a = allocator.allocate(70 * kMiB);
    ir::Failure failure = failure_of([&] { allocator.allocate(40 * kMiB); });
    EXPECT_EQ(failure.kind(), ir::ErrorKind::OutOfMemory);
    EXPECT_THAT(failure.message(),
                testing::AllOf(HasSubstr("cuda:1 is out of memory"), HasSubstr("40.00 MiB were asked for"),
                               HasSubstr("100.00 MiB in total, 30.00 MiB of them free"),
                               HasSubstr("70.00 MiB in live tensors and 70.00 MiB reserved"),
                               HasSubstr("Try to")));
    EXPECT_EQ(allocator.stats().num_ooms, 1);
    EXPECT_EQ(current(allocator.stats().allocated_bytes), static_cast<int64_t>(70 * kMiB));
    allocator.free(a);
    EXPECT_NE(allocator.allocate(40 * kMiB), nullptr);
    EXPECT_EQ(allocator.check_invariants(), "");
}

TEST(Semantics, S52_free_memory_of_another_stream_is_found_before_anybody_is_told_no) {
    FakeBackend backend(32 * kMiB);
    CachingAllocator allocator(backend);
    void *const whole = allocator.allocate(30 * kMiB, 0);
    allocator.free(whole);
    void *const a = allocator.allocate(10 * kMiB, 0); // a part of that segment, which so cannot be given back
    const uint64_t tick = backend.work(0);
    void *const b = allocator.allocate(16 * kMiB, 4);
    EXPECT_EQ(b, static_cast<char *>(a) + 10 * kMiB);
    EXPECT_THAT(backend.ordered, testing::ElementsAre(FakeBackend::Ordered{4, 0, tick}))
        << "stream 0 may still use what it freed";
    EXPECT_EQ(backend.waits, 0) << "the host does not wait";
    backend.work(4);
    allocator.free(b);
    EXPECT_EQ(allocator.check_invariants(), "");
    EXPECT_EQ(current(allocator.stats().active_bytes), static_cast<int64_t>(10 * kMiB + 16 * kMiB))
        << "stream 4 may still use what was lent to it";
    allocator.free(a);
    backend.finish(4);
    EXPECT_EQ(allocator.allocate(30 * kMiB, 0), whole) << "it is its own stream's again, in one piece";
    EXPECT_EQ(allocator.check_invariants(), "");
}

TEST(Semantics, S52_of_other_streams_one_that_is_idle_lends_first) {
    FakeBackend backend(32 * kMiB);
    CachingAllocator allocator(backend);
    void *const busy = allocator.allocate(15 * kMiB, 1), *const idle = allocator.allocate(15 * kMiB, 2);
    allocator.free(busy);
    allocator.free(idle);
    allocator.allocate(5 * kMiB, 1); // so that neither segment can be given back
    allocator.allocate(5 * kMiB, 2);
    backend.work(1);
    void *const c = allocator.allocate(8 * kMiB, 0);
    EXPECT_EQ(c, static_cast<char *>(idle) + 5 * kMiB);
}

TEST(Semantics, S52_small_tensors_find_room_in_large_segments) {
    FakeBackend backend(32 * kMiB);
    CachingAllocator allocator(backend);
    void *const a = allocator.allocate(30 * kMiB, 0);
    allocator.free(a);
    allocator.allocate(2 * kMiB, 0);
    std::vector<void *> small;
    for (int i = 0; i < 1000; ++i) // more than fit in the two MiB beside the segment
        small.push_back(allocator.allocate(4096, i % 3));
    EXPECT_EQ(allocator.check_invariants(), "");
    for (void *memory : small)
        allocator.free(memory);
    EXPECT_EQ(allocator.check_invariants(), "");
    EXPECT_EQ(current(allocator.stats().allocated_bytes), static_cast<int64_t>(2 * kMiB));
}

TEST(Semantics, S52_a_stream_that_cannot_wait_for_the_owner_gets_nothing) {
    FakeBackend fake(32 * kMiB);
    FaultInjectingBackend backend(fake);
    CachingAllocator allocator(backend);
    allocator.free(allocator.allocate(30 * kMiB, 0));
    void *const a = allocator.allocate(10 * kMiB, 0);
    fake.work(0);
    backend.fail_at(1);
    EXPECT_EQ(failure_of([&] { allocator.allocate(16 * kMiB, 4); }).kind(), ir::ErrorKind::Device);
    backend.fail_at(0);
    EXPECT_EQ(current(allocator.stats().allocated_bytes), static_cast<int64_t>(10 * kMiB));
    EXPECT_EQ(allocator.check_invariants(), "");
    fake.finish(4);
    EXPECT_NE(allocator.allocate(16 * kMiB, 4), nullptr);
    allocator.free(a);
}

TEST(Allocator, SegmentsOfASmallDeviceLeaveRoomForEveryStream) {
    FakeBackend backend(20 * kMiB);
    CachingAllocator allocator(backend);
    for (StreamId s = 0; s < ir::kFirstUserStream; ++s) {
        EXPECT_NE(allocator.allocate(100, s), nullptr);
        EXPECT_NE(allocator.allocate(2'000'000, s), nullptr) << s;
    }
    EXPECT_TRUE(backend.ordered.empty()) << "none lends to another";
    EXPECT_EQ(allocator.check_invariants(), "");
}

TEST(Semantics, S52_the_advice_is_true) {
    FakeBackend backend(64 * kMiB);
    CachingAllocator allocator(backend);
    const auto message = [&](size_t bytes) {
        return failure_of([&] { allocator.allocate(bytes); }).message();
    };
    EXPECT_THAT(message(65 * kMiB), testing::AllOf(HasSubstr("less than was asked for, whatever is freed"),
                                                   testing::Not(HasSubstr("drop tensors"))));
    // Four blocks of 15 MiB in one segment, every other one free: 30 MiB, in two pieces.
    allocator.free(allocator.allocate(60 * kMiB));
    std::vector<void *> quarters;
    for (int i = 0; i < 4; ++i)
        quarters.push_back(allocator.allocate(15 * kMiB));
    allocator.free(quarters[0]);
    allocator.free(quarters[2]);
    EXPECT_THAT(message(28 * kMiB),
                testing::AllOf(HasSubstr("30.00 MiB are cached, in pieces between live tensors, the largest "
                                         "of 15.00 MiB"),
                               HasSubstr("max_split_size_mb")));
    EXPECT_THAT(message(16 * kMiB), testing::Not(HasSubstr("max_split_size_mb")))
        << "no value of it keeps 20 MiB together";
    EXPECT_THAT(message(32 * kMiB), testing::Not(HasSubstr("pieces"))) << "there is less than that";
    allocator.free(quarters[1]); // what the advice says helps
    EXPECT_NE(allocator.allocate(28 * kMiB), nullptr);
}

TEST(Allocator, WithoutMemoryOfTheHostsNothingIsLost) {
    if (!test::FailingAllocation::possible())
        GTEST_SKIP() << "operator new is the sanitizer's own";
    for (int64_t n = 1;; ++n) {
        FakeBackend backend(64 * kMiB);
        bool failed = false;
        {
            CachingAllocator allocator(backend);
            std::vector<void *> live;
            live.reserve(4000);
            const test::FailingAllocation failing(n);
            for (int i = 0; i < 4000; ++i) {
                try {
                    live.push_back(allocator.allocate(i % 7 == 0 ? 2 * kMiB + 512 : 700, i % 5));
                    if (i % 7 == 0) {
                        allocator.free(live.back());
                        live.pop_back();
                    }
                } catch (const std::bad_alloc &) {
                    failed = true;
                }
            }
            EXPECT_EQ(allocator.check_invariants(), "") << n;
            EXPECT_EQ(current(allocator.stats().allocation), static_cast<int64_t>(live.size())) << n;
            for (void *memory : live)
                allocator.free(memory);
            EXPECT_EQ(current(allocator.stats().allocated_bytes), 0);
            EXPECT_EQ(allocator.check_invariants(), "");
        }
        EXPECT_EQ(backend.used(), 0u) << n;
        EXPECT_EQ(backend.wrong_frees, 0);
        if (!failed || HasFailure()) {
            EXPECT_GT(n, 20);
            break;
        }
    }
}

TEST(Allocator, SizesThatNoDeviceHasAreRefusedWithoutOverflow) {
    FakeBackend backend(kGiB);
    CachingAllocator allocator(backend);
    for (size_t bytes : {SIZE_MAX, SIZE_MAX - 100, SIZE_MAX / 2, size_t{1} << 60})
        EXPECT_EQ(failure_of([&] { allocator.allocate(bytes); }).kind(), ir::ErrorKind::OutOfMemory);
    EXPECT_EQ(allocator.check_invariants(), "");
}

TEST(Semantics, S53_a_fraction_caps_what_is_reserved) {
    FakeBackend backend(kGiB);
    CachingAllocator allocator(backend);
    allocator.set_memory_fraction(0.25);
    void *a = allocator.allocate(200 * kMiB);
    EXPECT_THAT(failure_of([&] { allocator.allocate(100 * kMiB); }).message(),
                HasSubstr("may reserve 256.00 MiB"));
    allocator.set_memory_fraction(1);
    EXPECT_NE(allocator.allocate(100 * kMiB), nullptr);
    allocator.free(a);
    for (double wrong : {0.0, -1.0, 1.5, std::numeric_limits<double>::quiet_NaN()})
        EXPECT_EQ(failure_of([&] { allocator.set_memory_fraction(wrong); }).kind(), ir::ErrorKind::State);
}

TEST(Semantics, S53_without_caching_every_request_is_the_drivers) {
    FakeBackend backend(kGiB);
    AllocatorOptions options;
    options.caching = false;
    CachingAllocator allocator(backend, options);
    void *a = allocator.allocate(1000), *b = allocator.allocate(5 * kMiB);
    EXPECT_EQ(backend.used(), 1024 + 5 * kMiB);
    allocator.free(a);
    allocator.free(b);
    EXPECT_EQ(backend.used(), 0u);
    EXPECT_EQ(current(allocator.stats().reserved_bytes), 0);
    EXPECT_EQ(allocator.check_invariants(), "");
}

TEST(Allocator, BlocksPastMaxSplitSizeAreKeptForRequestsThatLarge) {
    FakeBackend backend(kGiB);
    CachingAllocator allocator(backend, AllocatorOptions::parse("max_split_size_mb:32"));
    void *big = allocator.allocate(100 * kMiB);
    EXPECT_EQ(allocator.stats().oversize_allocations.current, 1);
    allocator.free(big);
    EXPECT_NE(allocator.allocate(8 * kMiB), big) << "a small request does not break it up";
    EXPECT_NE(allocator.allocate(60 * kMiB), big) << "nor one that would waste more than 20 MiB";
    EXPECT_EQ(allocator.allocate(90 * kMiB), big);
    EXPECT_EQ(allocator.usable_size(big), 100 * kMiB) << "it is not split";
}

TEST(Allocator, PastTheThresholdTheLongestUnusedSegmentsGoBack) {
    FakeBackend backend(kGiB);
    CachingAllocator allocator(backend, AllocatorOptions::parse("garbage_collection_threshold:0.5"));
    void *old = allocator.allocate(300 * kMiB);
    void *young = allocator.allocate(300 * kMiB);
    allocator.free(old);
    for (int i = 0; i < 10; ++i)
        allocator.free(allocator.allocate(100));
    allocator.free(young);
    allocator.allocate(310 * kMiB); // 600 MiB are reserved, more than half: the old one goes
    EXPECT_FALSE(backend.segments.contains(reinterpret_cast<uintptr_t>(old)));
    EXPECT_TRUE(backend.segments.contains(reinterpret_cast<uintptr_t>(young)));
    EXPECT_EQ(allocator.stats().num_alloc_retries, 0);
}

TEST(AllocatorOptions, AreReadByPyTorchsNames) {
    AllocatorOptions options = AllocatorOptions::parse(
        "max_split_size_mb:128, garbage_collection_threshold:0.8,roundup_power2_divisions:[1:2,4:4,>:1]");
    EXPECT_EQ(options.max_split_size, 128 * kMiB);
    EXPECT_DOUBLE_EQ(options.garbage_collection_threshold, 0.8);
    ASSERT_GE(options.roundup_divisions.size(), 4u);
    EXPECT_EQ(options.roundup_divisions[0], 2u);
    EXPECT_EQ(options.roundup_divisions[2], 4u);
    EXPECT_EQ(options.roundup_divisions[3], 1u);
    EXPECT_EQ(AllocatorOptions::parse("").max_split_size, SIZE_MAX);
}

TEST(AllocatorOptions, RoundUpToStepsBetweenPowersOfTwo) {
    // PyTorch's example: 1200 with 4 divisions becomes 1280.
    EXPECT_EQ(AllocatorOptions::parse("roundup_power2_divisions:4").round(1200 * kMiB), 1280 * kMiB);
    EXPECT_EQ(AllocatorOptions::parse("roundup_power2_divisions:4").round(1024 * kMiB), 1024 * kMiB);
    EXPECT_EQ(AllocatorOptions{}.round(1), 512u);
    EXPECT_EQ(AllocatorOptions{}.round(512), 512u);
    EXPECT_EQ(AllocatorOptions{}.round(513), 1024u);
}

TEST(AllocatorOptions, WhatCannotBeReadIsNamed) {
    for (auto [text, word] : {std::pair("max_split_sizes:1", "max_split_sizes"),
                              {"max_split_size_mb:x", "`x`"},
                              {"max_split_size_mb:1", "above 20"},
                              {"max_split_size_mb", "has no value; it is written max_split_size_mb:value"},
                              {"garbage_collection_threshold:1.5", "between 0 and 1"},
                              {"roundup_power2_divisions:3", "powers of two"},
                              {"roundup_power2_divisions:[1:2", "ends with ]"},
                              {"roundup_power2_divisions:[1]", "size:divisions"},
                              {"expandable_segments:True", "expandable_segments"}}) {
        ir::Failure failure = failure_of([&] { AllocatorOptions::parse(text); });
        EXPECT_EQ(failure.kind(), ir::ErrorKind::State);
        EXPECT_THAT(failure.message(), HasSubstr(word)) << text;
    }
}

TEST(Semantics, S50_statistics_have_pytorchs_names) {
    FakeBackend backend(kGiB);
    CachingAllocator allocator(backend);
    void *a = allocator.allocate(1000), *b = allocator.allocate(3 * kMiB);
    allocator.free(a);
    std::map<std::string, int64_t> stats;
    for (auto &[name, value] : allocator.stats().named())
        stats[name] = value;
    EXPECT_EQ(stats.at("allocated_bytes.all.current"), static_cast<int64_t>(3 * kMiB));
    EXPECT_EQ(stats.at("allocated_bytes.all.peak"), static_cast<int64_t>(3 * kMiB + 1024));
    EXPECT_EQ(stats.at("allocated_bytes.small_pool.allocated"), 1024);
    EXPECT_EQ(stats.at("allocated_bytes.small_pool.freed"), 1024);
    EXPECT_EQ(stats.at("requested_bytes.small_pool.allocated"), 1000);
    EXPECT_EQ(stats.at("reserved_bytes.all.current"), static_cast<int64_t>(22 * kMiB));
    EXPECT_EQ(stats.at("segment.large_pool.current"), 1);
    EXPECT_EQ(stats.at("inactive_split_bytes.all.current"), static_cast<int64_t>(17 * kMiB));
    EXPECT_EQ(stats.at("num_ooms"), 0);
    allocator.reset_peak_stats();
    EXPECT_EQ(allocator.stats().allocated_bytes[StatPool::All].peak, static_cast<int64_t>(3 * kMiB));
    allocator.reset_accumulated_stats();
    EXPECT_EQ(allocator.stats().allocated_bytes[StatPool::All].allocated, 0);
    allocator.free(b);
}

TEST(Allocator, TheSnapshotIsPyTorchsJson) {
    FakeBackend backend(kGiB);
    CachingAllocator allocator(backend);
    void *a = allocator.allocate(1000);
    auto json = nlohmann::json::parse(allocator.memory_snapshot());
    ASSERT_EQ(json.size(), 1u);
    EXPECT_EQ(json[0]["device"], 1);
    EXPECT_EQ(json[0]["source"], "cuda:1");
    EXPECT_EQ(json[0]["segment_type"], "small");
    EXPECT_EQ(json[0]["total_size"], 2 * kMiB);
    EXPECT_EQ(json[0]["allocated_size"], 1024);
    ASSERT_EQ(json[0]["blocks"].size(), 2u);
    EXPECT_EQ(json[0]["blocks"][0]["address"], reinterpret_cast<uintptr_t>(a));
    EXPECT_EQ(json[0]["blocks"][0]["state"], "active_allocated");
    EXPECT_EQ(json[0]["blocks"][0]["requested_size"], 1000);
    EXPECT_EQ(json[0]["blocks"][1]["state"], "inactive");
}

TEST(Allocator, TheSummaryIsATableWhoseLinesAreEquallyLong) {
    FakeBackend backend(kGiB);
    CachingAllocator allocator(backend);
    allocator.allocate(3 * kMiB);
    std::string summary = allocator.memory_summary();
    EXPECT_THAT(summary,
                testing::AllOf(HasSubstr("cuda:1"), HasSubstr("Reserved memory"), HasSubstr("20.00 MiB")));
    std::istringstream lines(summary);
    for (std::string line; std::getline(lines, line);)
        EXPECT_EQ(line.size(), 85u) << line;
}

TEST(Allocator, ADriverThatFailsAtAnyCallLeaksNothing) {
    for (int64_t n = 1;; ++n) {
        FakeBackend fake(kGiB);
        FaultInjectingBackend backend(fake);
        CachingAllocator allocator(backend);
        std::vector<void *> live;
        bool failed = false;
        backend.fail_at(n, 1);
        for (size_t bytes : {size_t{100}, 3 * kMiB, 700 * size_t{1024}, 12 * kMiB, size_t{5}}) {
            try {
                live.push_back(allocator.allocate(bytes));
            } catch (const ir::Failure &) {
                failed = true;
            }
            EXPECT_EQ(allocator.check_invariants(), "");
        }
        const Guard guard{&backend, 1, fake.work(1)};
        for (void *memory : live)
            allocator.free(memory, {&guard, 1});
        EXPECT_EQ(current(allocator.stats().allocated_bytes), 0);
        EXPECT_EQ(allocator.check_invariants(), "");
        fake.finish(1);
        const bool all = backend.calls() < n;
        allocator.free(allocator.allocate(100)); // asks the guards again
        allocator.free(allocator.allocate(100));
        EXPECT_EQ(current(allocator.stats().active_bytes), 0);
        allocator.empty_cache();
        EXPECT_EQ(fake.used(), 0u);
        EXPECT_EQ(fake.wrong_frees, 0);
        if (all) {
            EXPECT_FALSE(failed);
            EXPECT_GE(n, 3);
            break;
        }
    }
}

TEST(Allocator, ALostDeviceHoldsNoMemoryOfOthers) {
    FakeBackend lost(kGiB), other(kGiB, 2);
    FaultInjectingBackend backend(lost);
    CachingAllocator allocator(other);
    void *a = allocator.allocate(4096);
    const Guard guard{&backend, 1, lost.work(1)};
    allocator.free(a, {&guard, 1});
    backend.lose_at(1);
    EXPECT_NE(allocator.allocate(4096), a) << "what was put on it may still run";
    lost.finish(1);
    EXPECT_EQ(allocator.allocate(4096), a);
}

} // namespace
} // namespace lz::runtime
