// S43: events.
#include "support.h"

#include <atomic>
#include <thread>

namespace {

using namespace lz::test;
using lz::Device;
using lz::Tensor;

TEST(Semantics, S43_events_are_recorded_waited_for_and_asked) {
    const lz::Event never;
    EXPECT_TRUE(never.query()) << "an event that was never recorded has happened, as in CUDA";
    EXPECT_NO_THROW(never.synchronize());

    const lz::Stream s(kGpu0);
    const lz::Event begin({.timing = true}), end({.timing = true});
    begin.record(s);
    Tensor x = lz::ones({20000}, {.device = kGpu0});
    {
        const lz::StreamGuard guard(s);
        for (int i = 0; i < 10; ++i)
            x = lz::cumsum(x, 0) * 0.5;
        end.record();
    }
    end.synchronize();
    EXPECT_TRUE(end.query());
    EXPECT_TRUE(begin.query());
    const double milliseconds = begin.elapsed_time(end);
    EXPECT_GT(milliseconds, 0);
    EXPECT_LT(milliseconds, 60000);
    EXPECT_LE(end.elapsed_time(begin), 0);
}

TEST(Semantics, S43_elapsed_time_is_of_one_device) {
    LZ_NEEDS_GPUS(2);
    const lz::Event here({.timing = true}), there({.timing = true});
    here.record(lz::default_stream(kGpu0));
    there.record(lz::default_stream(kGpu1));
    if (lz::cuda::get_device_properties(0).is_virtual) {
        EXPECT_NO_THROW((void)here.elapsed_time(there)) << "they share a clock";
    } else {
        const auto error = caught<lz::DeviceError>([&] { (void)here.elapsed_time(there); });
        EXPECT_TRUE(error.has("cuda:0"));
        EXPECT_TRUE(error.has("cuda:1"));
    }
    there.record(lz::default_stream(kGpu0));
    EXPECT_GE(here.elapsed_time(there), 0);
}

TEST(Semantics, S43_elapsed_time_needs_timed_and_recorded_events) {
    const lz::Event plain, timed({.timing = true}), other({.timing = true});
    EXPECT_TRUE(caught<lz::StateError>([&] { (void)plain.elapsed_time(timed); }).has("timing"));
    EXPECT_TRUE(caught<lz::StateError>([&] { (void)timed.elapsed_time(other); }).has("recorded"));
}

TEST(Semantics, S43_a_record_that_another_thread_has_yet_to_launch_is_not_reached) {
    const lz::Stream s(kGpu0), t(kGpu0);
    const lz::Event begin({.timing = true}), end({.timing = true});
    begin.record(s);
    begin.synchronize();
    std::atomic<int> phase = 0;
    std::atomic<bool> ran = false;
    const auto enter = [&](int next) {
        phase = next;
        phase.notify_all();
    };
    std::thread other([&] {
        s.add_callback([&] { ran = true; });
        end.record(s);
        enter(1);
        phase.wait(1);
        lz::sync();
    });
    phase.wait(0);
    EXPECT_FALSE(end.query());
    t.wait_event(end); // waits for what has been launched, as in CUDA
    t.synchronize();
    EXPECT_FALSE(ran);
    EXPECT_FALSE(end.query());
    enter(2);
    EXPECT_GE(begin.elapsed_time(end), 0) << "it waits for the record";
    EXPECT_TRUE(ran);
    end.synchronize();
    EXPECT_TRUE(end.query());
    other.join();
}

TEST(Semantics, S43_a_wait_sees_what_another_thread_has_launched) {
    const lz::Stream s(kGpu0), t(kGpu0);
    std::atomic<bool> open = false, ran = false, ran_before = false;
    const lz::Event event;
    std::thread([&] {
        s.add_callback([&] {
            open.wait(false);
            ran = true;
        });
        event.record(s);
        EXPECT_FALSE(event.query());
    }).join();
    t.wait_event(event);
    t.add_callback([&] { ran_before = ran.load(); });
    EXPECT_FALSE(t.query());
    open = true;
    open.notify_all();
    t.synchronize();
    EXPECT_TRUE(ran_before);
}

TEST(Semantics, S43_a_thread_that_ends_leaves_no_record_behind) {
    const lz::Stream s(kGpu0);
    const lz::Event event;
    std::atomic<bool> ran = false;
    std::thread([&] {
        s.add_callback([&] { ran = true; });
        event.record(s);
    }).join();
    event.synchronize();
    EXPECT_TRUE(ran);
    EXPECT_TRUE(event.query());
}

TEST(Semantics, S43_a_record_that_is_recorded_beside_a_failure_holds_nobody_up) {
    LZ_NEEDS_GPUS(2);
    const lz::Stream s(kGpu0);
    const lz::Event event;
    const Tensor here = lz::ones({3}, {.device = kGpu0}), there = lz::ones({3}, {.device = kGpu1});
    const Tensor wrong = here + there;
    event.record(s);
    EXPECT_THROW(event.synchronize(), lz::DeviceError);
    EXPECT_NO_THROW(event.synchronize());
    EXPECT_TRUE(event.query());
}

TEST(Semantics, S43_dumps_number_events_and_callbacks_in_the_order_in_which_they_come) {
    lz::sync();
    const lz::Stream s(kGpu0), t(kGpu0);
    const lz::Event first, second;
    first.record(s);
    second.record(s);
    t.wait_event(first);
    s.add_callback([] {});
    const std::string text = lz::dump();
    EXPECT_NE(text.find("!0 = record_event {device=cuda:0, event=0}"), std::string::npos) << text;
    EXPECT_NE(text.find("!1 = record_event {device=cuda:0, event=1}"), std::string::npos) << text;
    EXPECT_NE(text.find("!2 = wait_event {device=cuda:0, event=0}"), std::string::npos) << text;
    EXPECT_NE(text.find("!3 = host_callback {device=cuda:0, callback=0}"), std::string::npos) << text;
    lz::sync();
}

TEST(Semantics, S43_an_event_can_be_recorded_again_and_go_before_it_is_reached) {
    LZ_NEEDS_GPUS(3);
    const lz::Stream s(kGpu2);
    Tensor x = lz::zeros({64}, {.device = kGpu2});
    for (int i = 0; i < 50; ++i) {
        const lz::Event event = s.record_event();
        event.record(s);
        event.wait(lz::default_stream(kGpu2));
        x += 1;
    }
    EXPECT_EQ(floats(x), std::vector<float>(64, 50));
}

} // namespace
