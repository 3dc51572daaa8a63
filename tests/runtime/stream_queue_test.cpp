// Streams that are threads: order, waiting, priorities, backpressure, and their ends.
#include "count_allocations.h"
#include "runtime/allocator/caching_allocator.h"
#include "runtime/before_exit.h"
#include "runtime/cpu/backend.h"
#include "virtual_support.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <malloc.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace lz::runtime {
namespace {

using namespace test;
using testing::HasSubstr;

TEST(Streams, DoWhatIsPutOnThemInOrder) {
    Gpus gpus(1);
    void *value = gpus[0].allocate(8);
    write<int64_t>(gpus[0], value, 0);
    for (int64_t digit = 1; digit < 10; ++digit)
        launch(gpus[0], 1, append_digit, {value}, {digit});
    finish(gpus[0], 1);
    EXPECT_EQ(read<int64_t>(gpus[0], value), 123456789);
    gpus[0].free(value, 8);
}

#ifdef __GLIBC__ // the sanitizers' own heaps say 0
TEST(Streams, ARingDoesNotKeepTheArgumentsOfLargeItems) {
    Gpus gpus(1);
    const std::vector<int64_t> args(20000, 7);
    static std::atomic<int64_t> sum;
    const auto run = [&] {
        launch(
            gpus[0], 1, [](const ir::KernelFrame *f, int64_t, int64_t, void *) { sum += f->args[19999]; }, {},
            args);
        finish(gpus[0], 1);
    };
    const auto heap = [] {
        const struct mallinfo2 info = mallinfo2();
        return info.uordblks + info.hblkhd;
    };
    run();
    const size_t before = heap();
    for (int i = 0; i < 500; ++i) // 80 MB
        run();
    EXPECT_LT(heap(), before + (size_t{4} << 20));
    EXPECT_EQ(sum, 501 * 7);
}
#endif

TEST(Streams, APointIsReachedWhenSoManyItemsAreDone) {
    Gpus gpus(1);
    Door door;
    EXPECT_EQ(gpus[0].record(2), 0u);
    EXPECT_TRUE(gpus[0].reached(2, 0)) << "tick 0 is always past";
    launch(gpus[0], 2, wait_for_door, {}, {word(&door)});
    EXPECT_EQ(gpus[0].record(2), 1u);
    launch(gpus[0], 2, wait_for_door, {}, {word(&door)});
    EXPECT_EQ(gpus[0].record(2), 2u);
    EXPECT_FALSE(gpus[0].reached(2, 1));
    door.open();
    gpus[0].synchronize(2, 2);
    EXPECT_TRUE(gpus[0].reached(2, 1));
    EXPECT_TRUE(gpus[0].reached(2, 2));
}

TEST(Semantics, S42_streams_without_a_wait_run_at_the_same_time) {
    Gpus gpus(2);
    Door first, second, third;
    // Each of these can only end while the next one runs.
    launch(gpus[0], 0, wait_for_door, {}, {word(&first)});
    launch(gpus[0], 1, wait_for_door, {}, {word(&second)});
    launch(gpus[1], 0, wait_for_door, {}, {word(&third)});
    gpus[0].call_host(ir::kCopyInStream, [&] { third.open(); });
    finish(gpus[1], 0);
    launch(gpus[1], 1, open_door, {}, {word(&second)});
    finish(gpus[0], 1);
    launch(gpus[0], 3, open_door, {}, {word(&first)});
    finish(gpus[0], 0);
}

/// Whether a reader on another stream sees what a writer on stream 0 writes, both under this delay.
bool reader_sees_writer(uint64_t seed, bool wait, int rounds) {
    VirtualOptions options;
    options.delay_seed = seed;
    Gpus gpus(2, options);
    gpus[1].set_peer_access(gpus[0], true);
    void *value = gpus[0].allocate(8);
    bool all = true;
    for (int64_t round = 1; round <= rounds; ++round) {
        int64_t seen = 0;
        gpus[0].copy(value, &round, 8, 0);
        if (wait)
            gpus[1].wait(2, gpus[0], 0, gpus[0].record(0));
        gpus[1].copy(&seen, value, 8, 2);
        finish(gpus[1], 2);
        finish(gpus[0], 0);
        all &= seen == round;
    }
    gpus[0].free(value, 8);
    return all;
}

TEST(Streams, AWaitOrdersThemUnderAnyDelay) {
    for (uint64_t seed = 0; seed < 4; ++seed)
        EXPECT_TRUE(reader_sees_writer(seed, true, 25)) << seed;
}

// The race is wanted, so ThreadSanitizer is kept out of it: reader and writer are atomic.
TEST(Streams, AMissingWaitShowsUnderADelay) {
    bool seen = false;
    for (uint64_t seed = 0; seed < 50 && !seen; ++seed) {
        VirtualOptions options;
        options.delay_seed = seed;
        Gpus gpus(1, options);
        std::atomic<int64_t> value{0}, read{0};
        const auto store = [](const ir::KernelFrame *f, int64_t, int64_t, void *) {
            at_word<std::atomic<int64_t>>(f, 0) = 1;
        };
        const auto load = [](const ir::KernelFrame *f, int64_t, int64_t, void *) {
            at_word<std::atomic<int64_t>>(f, 1) = at_word<std::atomic<int64_t>>(f, 0).load();
        };
        for (int round = 0; round < 10; ++round) {
            value = 0;
            launch(gpus[0], 0, store, {}, {word(&value)});
            launch(gpus[0], 1, load, {}, {word(&value), word(&read)});
            finish(gpus[0], 0);
            finish(gpus[0], 1);
            seen |= read == 0;
        }
    }
    EXPECT_TRUE(seen);
}

TEST(Streams, OfTheUsersHaveTheLowestFreeNumber) {
    Gpus gpus(1);
    EXPECT_EQ(gpus[0].create_stream(0), 8);
    EXPECT_EQ(gpus[0].create_stream(-1), 9);
    gpus[0].destroy_stream(8);
    EXPECT_EQ(gpus[0].create_stream(0), 8);
    for (int i = 10; i < ir::kMaxStreams; ++i)
        EXPECT_EQ(gpus[0].create_stream(0), i);
    EXPECT_EQ(failure_of([&] { gpus[0].create_stream(0); }).kind(), ir::ErrorKind::Device);
    EXPECT_THAT(failure_of([&] { gpus[0].record(ir::kMaxStreams); }).message(), HasSubstr("no stream 72"));
    gpus[0].destroy_stream(11);
    Door door;
    EXPECT_EQ(gpus[0].create_stream(0), 11);
    launch(gpus[0], 11, wait_for_door, {}, {word(&door)});
    const uint64_t tick = gpus[0].record(11);
    gpus[0].destroy_stream(11); // nobody waits for what is on it
    EXPECT_FALSE(gpus[0].reached(11, tick));
    door.open();
    gpus[0].synchronize(11, tick);
}

TEST(Semantics, S41_a_kernel_gives_way_to_more_urgent_streams) {
    Gpus gpus(1);
    const StreamId urgent = gpus[0].create_stream(-1), normal = gpus[0].create_stream(0);
    Door begun, door;
    std::atomic<bool> urgent_done{false}, after{false};
    const auto hold = [](const ir::KernelFrame *f, int64_t, int64_t, void *) {
        at_word<Door>(f, 0).open();
        at_word<Door>(f, 1).wait();
        at_word<std::atomic<bool>>(f, 2) = true;
    };
    launch(gpus[0], urgent, hold, {}, {word(&begun), word(&door), word(&urgent_done)});
    begun.wait();
    launch(gpus[0], normal,
           [](const ir::KernelFrame *f, int64_t, int64_t, void *) {
               at_word<std::atomic<bool>>(f, 1) = at_word<std::atomic<bool>>(f, 0).load();
           },
           {}, {word(&urgent_done), word(&after)});
    // Copies are not held up.
    char from = 1, to = 0;
    gpus[0].copy(&to, &from, 1, ir::kCopyInStream);
    finish(gpus[0], ir::kCopyInStream);
    EXPECT_EQ(to, 1);
    door.open();
    finish(gpus[0], normal);
    EXPECT_TRUE(after) << "it began when the urgent one was over";
    finish(gpus[0], urgent);
}

TEST(Streams, ANumberThatIsGivenAgainKeepsNothingOfThePriorityThatItHad) {
    Gpus gpus(1);
    Door door;
    // Both ways, with work of the last owner still on it: neither waits for itself.
    for (int round = 0; round < 4; ++round) {
        const StreamId stream = gpus[0].create_stream(round % 2 ? 0 : -1);
        EXPECT_EQ(stream, ir::kFirstUserStream);
        launch(gpus[0], stream, wait_for_door, {}, {word(&door)});
        gpus[0].destroy_stream(stream);
    }
    door.open();
    finish(gpus[0], ir::kFirstUserStream);
    // The group counts it as urgent only while it is.
    const StreamId normal = gpus[0].create_stream(0), other = gpus[0].create_stream(0);
    Door begun, end;
    launch(gpus[0], normal,
           [](const ir::KernelFrame *f, int64_t, int64_t, void *) {
               at_word<Door>(f, 0).open();
               at_word<Door>(f, 1).wait();
           },
           {}, {word(&begun), word(&end)});
    begun.wait();
    launch(gpus[0], other, open_door, {}, {word(&end)}); // would wait behind an urgent one
    finish(gpus[0], normal);
    finish(gpus[0], other);
}

TEST(Semantics, S41_work_keeps_the_priority_of_the_stream_that_it_was_put_on) {
    Gpus gpus(1);
    const StreamId first = gpus[0].create_stream(-1), normal = gpus[0].create_stream(0);
    Door begun, door;
    std::atomic<bool> urgent_done{false}, after{false};
    launch(gpus[0], first,
           [](const ir::KernelFrame *f, int64_t, int64_t, void *) {
               at_word<Door>(f, 0).open();
               at_word<Door>(f, 1).wait();
               at_word<std::atomic<bool>>(f, 2) = true;
           },
           {}, {word(&begun), word(&door), word(&urgent_done)});
    begun.wait();
    gpus[0].destroy_stream(first);
    EXPECT_EQ(gpus[0].create_stream(0), first) << "its number goes to a stream that is not urgent";
    launch(gpus[0], normal,
           [](const ir::KernelFrame *f, int64_t, int64_t, void *) {
               at_word<std::atomic<bool>>(f, 1) = at_word<std::atomic<bool>>(f, 0).load();
           },
           {}, {word(&urgent_done), word(&after)});
    door.open();
    finish(gpus[0], normal);
    EXPECT_TRUE(after) << "what was put as urgent still is";
    finish(gpus[0], first);
}

TEST(Streams, AFullOneHoldsUpWhoPuts) {
    VirtualOptions options;
    options.max_queued = 4;
    Gpus gpus(1, options);
    struct Watch {
        VirtualBackend &gpu;
        uint64_t done = 0, most = 0;
    } watch{gpus[0]};
    for (int i = 0; i < 200; ++i)
        launch(gpus[0], 0,
               [](const ir::KernelFrame *f, int64_t, int64_t, void *) {
                   auto &w = at_word<Watch>(f, 0);
                   w.most = std::max(w.most, w.gpu.record(0) - w.done);
                   ++w.done;
               },
               {}, {word(&watch)});
    finish(gpus[0], 0);
    EXPECT_EQ(watch.done, 200u);
    EXPECT_LE(watch.most, 4u);
}

TEST(Streams, PuttingAnItemAllocatesNothingOnceTheRingIsWarm) {
    VirtualOptions options;
    options.max_queued = 8;
    Gpus gpus(1, options);
    void *value = gpus[0].allocate(16);
    const std::vector<void *> buffers = {value};
    const std::vector<int64_t> args = {1};
    const ir::KernelFrame frame{buffers.data(), args.data(), nullptr, nullptr};
    const int64_t end = 1;
    Backend::Launch l{};
    const ir::PhaseEntry nothing = [](const ir::KernelFrame *, int64_t, int64_t, void *) {};
    l.entry = reinterpret_cast<void *>(nothing);
    l.frames = &frame;
    l.ends = &end;
    l.segments = l.buffers = l.args = 1;
    const auto some = [&] {
        for (int i = 0; i < 20; ++i) {
            gpus[0].launch(l, 0);
            gpus[0].wait(1, gpus[0], 0, gpus[0].record(0));
            gpus[0].copy(static_cast<char *>(value) + 8, value, 8, 1);
        }
    };
    some();
    const int64_t before = allocations_of_this_thread();
    some();
    EXPECT_EQ(allocations_of_this_thread(), before);
    finish(gpus[0], 0);
    finish(gpus[0], 1);
}

TEST(Streams, TellWhenSomethingRanBeforeItsTickIsReached) {
    Gpus gpus(1);
    std::vector<TimeSpan> spans;
    for (int i = 0; i < 3; ++i)
        launch(
            gpus[0], 0, [](const ir::KernelFrame *, int64_t, int64_t, void *) {}, {}, {},
            [&](const TimeSpan &span) { spans.push_back(span); });
    finish(gpus[0], 0);
    ASSERT_EQ(spans.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
        EXPECT_LE(spans[i].begin, spans[i].end);
        EXPECT_LE(i ? spans[i - 1].end : 0, spans[i].begin);
    }
}

TEST(Semantics, S43_timestamps_are_of_the_moment_at_which_the_stream_comes_to_them) {
    Gpus gpus(1);
    Door door;
    const auto before = gpus[0].record_time(1);
    launch(gpus[0], 1, wait_for_door, {}, {word(&door)});
    const auto after = gpus[0].record_time(1);
    finish(gpus[0], 0);
    EXPECT_FALSE(after->reached());
    door.open();
    finish(gpus[0], 1);
    EXPECT_TRUE(before->reached() && after->reached());
    EXPECT_LE(before->time(), after->time());
}

TEST(Streams, OfTheCpuWaitForThoseOfAGpuAndTheOtherWayRound) {
    Gpus gpus(1);
    CpuBackend cpu;
    void *value = gpus[0].allocate(8);
    int64_t host = 4;
    Door door;
    launch(gpus[0], 0, wait_for_door, {}, {word(&door)});
    gpus[0].copy(value, &host, 8, 0);
    launch(gpus[0], 0, append_digit, {value}, {2});
    gpus[0].copy(&host, value, 8, 0);
    cpu.wait(ir::kHostWorkerStream, gpus[0], 0, gpus[0].record(0));
    cpu.call_host(ir::kHostWorkerStream, [&] { host += 1000; });
    gpus[0].wait(0, cpu, ir::kHostWorkerStream, cpu.record(ir::kHostWorkerStream));
    gpus[0].copy(value, &host, 8, 0);
    door.open();
    EXPECT_EQ(read<int64_t>(gpus[0], value), 1042);
    gpus[0].free(value, 8);
}

TEST(Streams, TheCallingThreadIsStream0OfTheCpu) {
    Gpus gpus(1);
    CpuBackend cpu;
    EXPECT_EQ(cpu.record(ir::kHostStream), 0u);
    int64_t value = 1;
    launch(cpu, ir::kHostStream, append_digit, {&value}, {2});
    EXPECT_EQ(value, 12) << "it has run when the call returns";
    launch(gpus[0], 0, [](const ir::KernelFrame *f, int64_t, int64_t, void *) { at_word<int64_t>(f, 0) = 7; },
           {}, {word(&value)});
    cpu.wait(ir::kHostStream, gpus[0], 0, gpus[0].record(0));
    EXPECT_EQ(value, 7) << "waiting waits here";
}

// --- many threads

/// 64 numbers, all of them args[0].
void fill(const ir::KernelFrame *frame, int64_t, int64_t, void *) {
    std::fill_n(static_cast<int64_t *>(frame->buffers[0]), 64, frame->args[0]);
}
/// Counts in args[1] those that are not args[0].
void check(const ir::KernelFrame *frame, int64_t, int64_t, void *) {
    for (int i = 0; i < 64; ++i)
        at_word<std::atomic<int64_t>>(frame, 1) +=
            static_cast<int64_t *>(frame->buffers[0])[i] != frame->args[0];
}

TEST(Semantics, S45_blocks_are_not_reused_while_any_stream_reads_them) {
    VirtualOptions options;
    options.delay_seed = 3;
    options.max_queued = 16;
    Gpus gpus(2, options);
    gpus[1].set_peer_access(gpus[0], true);
    CachingAllocator allocator(gpus[0]);
    std::atomic<int64_t> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
        threads.emplace_back([&, t] {
            for (int64_t i = 0; i < 120; ++i) {
                // Written on a stream of cuda:0, read on another and on one of cuda:1.
                const auto home = static_cast<StreamId>((i + t) % 3);
                const StreamId reader = (home + 1) % 3;
                void *block = allocator.allocate(512, home);
                const int64_t value = 1000 * t + i;
                launch(gpus[0], home, fill, {block}, {value});
                const uint64_t written = gpus[0].record(home);
                std::vector<Guard> guards;
                for (Backend *gpu : {gpus.all[0].get(), gpus.all[1].get()}) {
                    gpu->wait(reader, gpus[0], home, written);
                    launch(*gpu, reader, check, {block}, {value, word(&wrong)});
                    guards.push_back({gpu, reader, gpu->record(reader)});
                }
                allocator.free(block, guards);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    for (size_t g = 0; g < 2; ++g)
        for (StreamId s = 0; s < 3; ++s)
            finish(gpus[g], s);
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(allocator.stats().num_device_alloc, 3) << "a segment for each home; blocks were reused";
    EXPECT_EQ(allocator.check_invariants(), "");
}

// --- errors

TEST(Streams, ALostDeviceSaysSoAndOthersGoOn) {
    Gpus gpus(2);
    Door door;
    bool ran = false;
    launch(gpus[0], 0, wait_for_door, {}, {word(&door)});
    gpus[0].call_host(0, [&] { ran = true; });
    const uint64_t tick = gpus[0].record(0);
    gpus[1].wait(0, gpus[0], 0, tick);
    gpus[0].lose("a test took it away.");
    EXPECT_FALSE(gpus[0].reached(0, tick)) << "something still runs";
    door.open();
    for (const ir::Failure &failure :
         {failure_of([&] { gpus[0].synchronize(0, tick); }), failure_of([&] { gpus[0].reached(0, tick); }),
          failure_of([&] { gpus[0].allocate(8); }), failure_of([&] { gpus[0].call_host(0, [] {}); }),
          failure_of([&] { gpus[0].create_stream(0); })}) {
        EXPECT_EQ(failure.kind(), ir::ErrorKind::Cuda);
        EXPECT_THAT(failure.message(), testing::AllOf(HasSubstr("cuda:0 is lost: a test took it away."),
                                                      HasSubstr("other devices go on")));
    }
    EXPECT_FALSE(ran);
    void *value = gpus[1].allocate(8);
    write<int64_t>(gpus[1], value, 5);
    EXPECT_EQ(read<int64_t>(gpus[1], value), 5);
    gpus[1].free(value, 8);
}

TEST(Streams, WhatThrowsOnADeviceLosesIt) {
    Gpus gpus(1);
    gpus[0].call_host(3, [] { throw ir::Failure(ir::ErrorKind::State, "no more paper."); });
    EXPECT_THAT(failure_of([&] { finish(gpus[0], 3); }).message(),
                HasSubstr("something on its stream 3 threw: no more paper. Nothing more"));
}

TEST(Streams, WhatACallbackThrewEndsWithAFullStop) {
    Gpus gpus(1);
    gpus[0].call_host(3, [] { throw std::runtime_error("out of toner"); });
    EXPECT_THAT(failure_of([&] { finish(gpus[0], 3); }).message(),
                HasSubstr("something on its stream 3 threw: out of toner. Nothing more"));
}

TEST(Streams, MissingScratchIsAFaultAndNoLoss) {
    Gpus gpus(1);
    ir::Fault *const fault = gpus[0].allocate_faults(1);
    Backend::Call call{};
    call.function = [](const LibraryArgs &) { throw std::bad_alloc(); };
    call.args.fault = fault;
    gpus[0].call(call, 0);
    finish(gpus[0], 0);
    EXPECT_EQ(fault->code.load(), static_cast<int32_t>(ir::FaultCode::OutOfMemory));
    gpus[0].free_faults(fault, 1);
}

// --- processes

TEST(Semantics, S65_a_forked_child_is_told_that_it_has_no_gpu) {
    Gpus gpus(1);
    launch(gpus[0], 0, [](const ir::KernelFrame *, int64_t, int64_t, void *) {}, {});
    finish(gpus[0], 0);
    const pid_t child = fork();
    if (child == 0) {
        int code = 1;
        try {
            launch(gpus[0], 0, [](const ir::KernelFrame *, int64_t, int64_t, void *) {}, {});
        } catch (const ir::Failure &failure) {
            if (failure.kind() == ir::ErrorKind::State &&
                failure.message().find("forked") != std::string::npos)
                code = 0;
        }
        gpus.all.clear(); // nothing waits for threads that are not here
        _exit(code);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    finish(gpus[0], 0); // the parent goes on
}

using ProcessDeathTest = testing::Test;

/// A device that outlives main, with a value on it that is read when everything is over.
struct Late {
    Gpus gpus{2};
    void *value = gpus[0].allocate(8);
    int64_t zero = 0, wanted = 0;
    ~Late() {
        if (read<int64_t>(gpus[0], value) != wanted)
            _exit(9);
    }
};

TEST(ProcessDeathTest, S68_leaving_main_in_the_middle_of_work_is_safe) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            static Late late;
            for (int64_t i = 0; i < 500; ++i) {
                late.gpus[0].copy(late.value, &late.zero, 8, 0);
                late.gpus[1].wait(0, late.gpus[0], 0, late.gpus[0].record(0));
                launch(late.gpus[1], 0, [](const ir::KernelFrame *, int64_t, int64_t, void *) {}, {});
                late.gpus[0].wait(0, late.gpus[1], 0, late.gpus[1].record(0));
            }
            launch(late.gpus[0], 0, append_digit, {late.value}, {7});
            late.wanted = 7;
            std::exit(0);
        },
        testing::ExitedWithCode(0), "");
}

/// Ends main while a thread of it uses what exit destroys. It needs longer than exit waits for one that is
/// stuck, as a compilation does on a machine that is busy otherwise.
TEST(ProcessDeathTest, S68_leaving_main_waits_for_who_computes) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            static constinit std::atomic<bool> inside{false};
            static constinit std::atomic<bool> done{false};
            // Among static objects, whose destructors run when exit has waited.
            static const struct Used {
                ~Used() { _exit(done ? 0 : 9); }
            } used;
            std::thread([] {
                const BeforeExit before_exit;
                inside = true;
                const std::clock_t end = std::clock() + 6 * CLOCKS_PER_SEC; // of the process
                while (std::clock() < end)
                    ;
                done = true;
            }).detach();
            while (!inside)
                std::this_thread::yield();
            std::exit(0);
        },
        testing::ExitedWithCode(0), "");
}

/// A first use makes the pool inside of a compilation; exit and the thread waited for each other.
TEST(ProcessDeathTest, S68_who_is_waited_for_gets_on) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            static constinit std::atomic<bool> inside{false};
            static constinit std::atomic<bool> done{false};
            static const struct Used {
                ~Used() { _exit(done ? 0 : 9); }
            } used;
            std::thread([] {
                const BeforeExit before_exit;
                inside = true;
                std::this_thread::sleep_for(std::chrono::milliseconds(500)); // exit has begun
                const BeforeExit within;
                done = true;
            }).detach();
            while (!inside)
                std::this_thread::yield();
            std::exit(0);
        },
        testing::ExitedWithCode(0), "");
}

/// Threads that wait for the process to end are no reason to think that somebody computes.
TEST(ProcessDeathTest, S68_leaving_main_gives_up_on_who_is_stuck) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            static constinit std::atomic<int> inside{0};
            for (int t = 0; t < 2; ++t)
                std::thread([t] {
                    if (t == 0) {
                        const BeforeExit stuck;
                        ++inside;
                        std::this_thread::sleep_for(std::chrono::hours(1));
                    }
                    ++inside;
                    std::this_thread::sleep_for(std::chrono::milliseconds(300)); // exit has begun
                    for (;;)
                        const BeforeExit late;
                }).detach();
            while (inside < 2)
                std::this_thread::yield();
            ::alarm(50); // more than ten times as long as it takes
            std::exit(0);
        },
        testing::ExitedWithCode(0), "");
}

} // namespace
} // namespace lz::runtime
