// S40 and S41: unnamed work, which is spread over streams, and the default stream, which stands for all of
// it. S42 in time: what runs at the same time on user streams, by the clock of modelled hardware, and without
// one by work that meets other work on the way.
#include "support.h"

#include <lazuli/call.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <sstream>
#include <thread>

namespace {

using namespace lz::test;
using lz::Device;
using lz::Tensor;

/// Milliseconds of the model's clock until two streams have done what is given to them from the same moment
/// on.
template <class F, class G>
double both_ms(const lz::Stream &a, F &&work_of_a, const lz::Stream &b, G &&work_of_b) {
    lz::sync();
    const lz::Event begin({.timing = true}), end_a({.timing = true}), end_b({.timing = true});
    begin.record(lz::default_stream(kGpu0));
    lz::sync();
    Tensor x, y;
    {
        const lz::StreamGuard guard(a);
        x = work_of_a();
        end_a.record();
    }
    {
        const lz::StreamGuard guard(b);
        y = work_of_b();
        end_b.record();
    }
    return std::max(begin.elapsed_time(end_a), begin.elapsed_time(end_b));
}

Tensor nothing() {
    return {};
}

/// The model: 1 GB/s of memory and link, calls that cost nothing, and no kernel shorter than 8 ms.
TEST(Child, DISABLED_UserStreams) {
    const lz::Stream s(kGpu0), t(kGpu0);
    const Tensor small = lz::rand({1 << 17}, {.device = kGpu0}); // 512 KiB: a kernel fills 1/8 of the device
    const Tensor large = lz::rand({1 << 21}, {.device = kGpu0}); // 8 MiB: 17 ms of the whole device
    const Tensor pinned = lz::rand({1 << 22}, {.pinned = true}); // 17 ms of the link
    lz::sync();
    const auto half = [](const Tensor &x) { return [x] { return lz::cumsum(x, 0); }; };
    const auto copy = [&] { return pinned.to(kGpu0, {.non_blocking = true}); };

    const double one = both_ms(s, half(small), t, nothing);
    EXPECT_NEAR(one, 8, 0.1);
    EXPECT_NEAR(both_ms(s, half(small), t, half(small)), one, 0.1) << "beside each other";
    EXPECT_NEAR(both_ms(s, half(small), s, half(small)), 2 * one, 0.1) << "one stream is in order";

    const double whole = both_ms(s, half(large), t, nothing);
    EXPECT_NEAR(whole, 16.8, 0.2);
    EXPECT_NEAR(both_ms(s, half(large), t, half(large)), 2 * whole, 0.2) << "each fills the device";

    EXPECT_NEAR(both_ms(s, half(large), t, copy), whole, 0.2) << "copies have engines of their own";
    EXPECT_NEAR(both_ms(s, half(large), s, copy), 2 * whole, 0.2);

    // A dependence between them is kept, with no wait of the user's.
    lz::sync();
    const lz::Event begin({.timing = true}), end({.timing = true});
    begin.record(lz::default_stream(kGpu0));
    lz::sync();
    Tensor x;
    {
        const lz::StreamGuard guard(s);
        x = lz::cumsum(small, 0);
    }
    {
        const lz::StreamGuard guard(t);
        x = lz::cumsum(x, 0);
        end.record();
    }
    EXPECT_NEAR(begin.elapsed_time(end), 2 * one, 0.1);
}

std::string wide_model() {
    const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "lazuli_wide_model.json";
    std::ofstream(path) << R"({"name": "wide", "memory_bandwidth": 1e9, "flops": 1e12, "link_bandwidth": 1e9,
                               "submit_seconds": 0, "launch_seconds": 0, "copy_seconds": 0, "wave_seconds": 8e-3})";
    return path.string();
}

TEST(Semantics, S42_work_on_two_user_streams_takes_the_time_of_one_where_the_model_has_room) {
    run_child("LAZULI_VIRTUAL_MODEL=" + wide_model(), "UserStreams");
}

TEST(Semantics, S42_two_user_streams_are_under_way_at_the_same_time) {
    const lz::Stream s(kGpu0), t(kGpu0);
    const Tensor x = lz::arange(1000, {.dtype = lz::f32, .device = kGpu0});
    // Each stream comes to its callback after work of its own, and goes on when the other has come, too: if
    // one waited for the other's end, neither would.
    std::latch both(2);
    std::array<Tensor, 2> results;
    for (size_t i = 0; i < 2; ++i) {
        const lz::StreamGuard guard(i ? t : s);
        results[i] = lz::cumsum(x, 0) + static_cast<double>(i);
        (i ? t : s).add_callback([&both] { both.arrive_and_wait(); });
        results[i] = results[i] * 2;
    }
    lz::sync();
    EXPECT_TRUE(both.try_wait());
    for (size_t i = 0; i < 2; ++i)
        EXPECT_EQ(results[i][999].item<double>(), 2.0 * (499500 + static_cast<double>(i)));
}

/// Two kernels that meet, one on each stream: neither ends before the other has begun.
TEST(Semantics, S42_kernels_of_two_user_streams_run_at_the_same_time) {
    static std::latch both(2);
    lz::register_call(
        "overlap_test.meet", [](std::span<const lz::CallType> in) { return std::vector{in[0]}; },
        [](std::span<const lz::CallInput> in, std::span<const lz::CallOutput> out) {
            both.arrive_and_wait();
            std::ranges::copy(in[0].values<float>(), out[0].values<float>().begin());
        });
    const lz::Stream s(kGpu0), t(kGpu0);
    const Tensor x = lz::arange(10, {.dtype = lz::f32, .device = kGpu0});
    std::array<Tensor, 2> results;
    for (size_t i = 0; i < 2; ++i) {
        const lz::StreamGuard guard(i ? t : s);
        results[i] = lz::call("overlap_test.meet", {x * static_cast<double>(i + 1)})[0] + 1;
    }
    lz::sync();
    EXPECT_EQ(results[0][9].item<double>(), 10);
    EXPECT_EQ(results[1][9].item<double>(), 19);
}

/// By the model's clock, unnamed work that is recorded when the default stream has been told to wait for 32
/// ms of work comes after that, on each compute stream and on the one for copies.
template <class F>
void expect_unnamed_work_is_held_back(F &&tell_default_stream_to_wait) {
    const lz::Stream s(kGpu0);
    const std::array readers = {lz::Stream(kGpu0), lz::Stream(kGpu0), lz::Stream(kGpu0)};
    const Tensor a = lz::rand({1 << 17}, {.device = kGpu0}), b = lz::rand({1 << 17}, {.device = kGpu0});
    const Tensor pinned = lz::rand({1 << 17}, {.pinned = true}); // half a millisecond of the link
    Tensor x = a;
    lz::sync();
    const lz::Event begin({.timing = true});
    begin.record(s);
    {
        const lz::StreamGuard guard(s);
        for (int i = 0; i < 4; ++i)
            x = lz::cumsum(x, 0); // 8 ms and an eighth of the device
    }
    tell_default_stream_to_wait(s);
    (void)s.query(); // launches it, in a program of its own

    std::array results = {lz::cumsum(a, 0), lz::cumsum(b, 0), pinned.to(kGpu0, {.non_blocking = true})};
    const std::string schedule = lz::verify_schedule();
    EXPECT_NE(schedule.find(" on 3 streams, "), std::string::npos) << schedule;
    lz::eval(results);
    std::array ends = {lz::Event({.timing = true}), lz::Event({.timing = true}), lz::Event({.timing = true})};
    for (size_t i = 0; i < results.size(); ++i) { // on streams that wait only for what they read
        const lz::StreamGuard guard(readers[i]);
        results[i] = lz::cumsum(results[i], 0);
        ends[i].record();
    }
    EXPECT_NEAR(begin.elapsed_time(ends[0]), 48, 1);
    EXPECT_NEAR(begin.elapsed_time(ends[1]), 48, 1) << "unnamed work on another compute stream did not wait";
    EXPECT_NEAR(begin.elapsed_time(ends[2]), 40.5, 1) << "an unnamed copy did not wait";
}

TEST(Child, DISABLED_DefaultStreamWaits) {
    expect_unnamed_work_is_held_back([](const lz::Stream &s) { lz::default_stream(kGpu0).wait_stream(s); });
    expect_unnamed_work_is_held_back(
        [](const lz::Stream &s) { lz::default_stream(kGpu0).wait_event(s.record_event()); });
    expect_unnamed_work_is_held_back([](const lz::Stream &s) {
        lz::default_stream(kGpu0).wait_stream(s);
        lz::default_stream(kGpu0).add_callback([] {});
    });
}

TEST(Semantics, S41_all_unnamed_work_of_later_runs_comes_after_what_the_default_stream_waited_for) {
    run_child("LAZULI_VIRTUAL_MODEL=" + wide_model(), "DefaultStreamWaits");
}

// --- the model's clock depends on the program alone

/// Work whose order in earnest differs from run to run: CPU programs on what a GPU has just made, numbers of
/// the CPU as operands on a GPU, indices that are checked while they are used, several streams and devices.
TEST(Child, DISABLED_Timeline) {
    const lz::Stream s(kGpu0), t(kGpu1);
    const lz::Event begin({.timing = true});
    begin.record(lz::default_stream(kGpu0));
    std::ostringstream times;
    Tensor x = lz::rand({1 << 14}, {.device = kGpu0}), y = lz::rand({1 << 14}, {.device = kGpu1});
    Tensor host = lz::ones({1 << 12}), number = lz::ones({});
    const Tensor index = lz::arange(1 << 14, {.dtype = lz::i64, .device = kGpu0});
    for (int i = 0; i < 40; ++i) {
        {
            const lz::StreamGuard guard(s);
            x = lz::gather(lz::cumsum(x, 0), 0, index) * 0.5;
            x.eval();
        }
        const Tensor copy = x.slice(0, 0, 1 << 12).to("cpu", {.non_blocking = true});
        copy.eval();
        host = host * 0.5 + copy; // a CPU program: inline, or where it waits for the copy
        host.eval();
        number = host.mean();
        number.eval();
        {
            const lz::StreamGuard guard(t);
            y = y * number + 1; // an argument where it is known, else a copy
            y.eval();
        }
        if (i % 8 == 7)
            (void)host.sum().item<double>();
        const lz::Event a({.timing = true}), b({.timing = true});
        a.record(s);
        b.record(t);
        lz::eval({x, y});
        times << begin.elapsed_time(a) << ' ' << begin.elapsed_time(b) << ' ';
    }
    std::printf("timeline: %s\n", times.str().c_str());
}

TEST(Semantics, S43_by_a_models_clock_a_program_has_the_same_times_however_fast_its_threads_are) {
    std::string first;
    for (const char *delay : {"", "1", "2", "3", "4"}) {
        std::string variables = "LAZULI_VIRTUAL_MODEL=h200x2 LAZULI_VIRTUAL_GPUS=2";
        if (*delay)
            variables += std::string(" LAZULI_VIRTUAL_DELAY=") + delay;
        const std::string output = run_child(variables, "Timeline");
        const size_t at = output.find("timeline: ");
        ASSERT_NE(at, std::string::npos) << output;
        const std::string times = output.substr(at, output.find('\n', at) - at);
        EXPECT_GT(times.size(), 200u) << times;
        if (first.empty())
            first = times;
        EXPECT_EQ(times, first) << "delays of seed " << delay;
    }
}

TEST(Semantics, S40_independent_work_gives_what_serial_order_gives) {
    LZ_NEEDS_GPUS(2);
    lz::manual_seed(3);
    const Tensor x = lz::randn({400, 400});
    const auto branches = [&](const Device &place) {
        const Tensor here = x.to(place);
        Tensor sum = lz::zeros({400}, {.device = place});
        for (int i = 0; i < 6; ++i) // independent of each other, large enough to spread
            sum = sum + lz::cumsum(lz::cumsum(here * (i + 1), 0) * 1e-3, 1).amax(1);
        return floats(sum.cpu());
    };
    const auto expected = branches(Device::cpu()), found = branches(kGpu1);
    ASSERT_EQ(expected.size(), found.size());
    for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_NEAR(expected[i], found[i], 1e-3 * (1 + std::abs(expected[i]))); // sums in other orders
}

Tensor chain(Tensor x, double factor) {
    for (int i = 0; i < 30; ++i)
        x = lz::cumsum(x * factor, 0);
    return x.sum();
}

// Compiled and not run: what the schedule is.
TEST(Semantics, S40_independent_work_is_spread_over_streams_where_it_leaves_room_and_a_chain_is_not) {
    LZ_NEEDS_GPUS(2);
    const Tensor small = lz::rand({1024}, {.device = kGpu1}), large = lz::rand({1 << 20}, {.device = kGpu1});
    const std::string alone = lz::verify_schedule(chain(small, 1));
    EXPECT_NE(alone.find(" on 1 stream,"), std::string::npos) << alone;
    const std::string both = lz::verify_schedule(chain(small, 1) + chain(small, 2));
    EXPECT_EQ(both.find(" on 1 stream,"), std::string::npos) << both;
    EXPECT_EQ(both.find(" 0 waits"), std::string::npos) << both;
    // Each of these kernels fills the device: they would only be slower together.
    const std::string filling = lz::verify_schedule(chain(large, 1) + chain(large, 2));
    EXPECT_NE(filling.find(" on 1 stream,"), std::string::npos) << filling;
}

TEST(Semantics, S41_waiting_for_the_default_stream_waits_for_all_unnamed_work) {
    const lz::Stream s(kGpu0);
    std::atomic<bool> first{false}, after{false};
    Tensor x = lz::zeros({4096}, {.device = kGpu0});
    for (int i = 0; i < 10; ++i)
        x = lz::cumsum(x, 0) + 1;
    lz::default_stream(kGpu0).add_callback([&] { first = true; });
    s.wait_stream(lz::default_stream(kGpu0));
    s.add_callback([&] { after = first.load(); });
    s.synchronize();
    EXPECT_TRUE(after);
}

/// Unnamed work on as many streams as there are, and on those for copies.
std::vector<Tensor> spread_work() {
    const Tensor x = lz::full({1024}, 1, {.device = kGpu0});
    x.eval();
    std::vector<Tensor> results;
    for (int i = 0; i < 4; ++i) {
        results.push_back(chain(x, 0.1 * i));
        results.push_back(results.back().to(Device::cpu(), {.non_blocking = true}));
    }
    const std::string schedule = lz::verify_schedule();
    EXPECT_NE(schedule.find(" on 5 streams,"), std::string::npos) << schedule;
    return results;
}

TEST(Child, DISABLED_WaitsForUnnamedWorkOfEarlierRuns) {
    const lz::Stream s(kGpu0);
    for (int i = 0; i < 20; ++i) {
        const std::vector<Tensor> results = spread_work();
        lz::eval(results);
        s.wait_stream(lz::default_stream(kGpu0));
        s.synchronize();
        EXPECT_TRUE(lz::default_stream(kGpu0).query()) << "unnamed work of an earlier run goes on";
    }
}
TEST(Semantics, S41_waiting_for_the_default_stream_waits_for_unnamed_work_of_earlier_runs) {
    for (const char *seed : {"1", "2", "3"})
        run_child(std::string("LAZULI_VIRTUAL_DELAY=") + seed, "WaitsForUnnamedWorkOfEarlierRuns");
}

/// Four chains of unnamed work that may each be on a stream of its own; `function` is called at their ends.
std::vector<Tensor> chains_with_calls(const Tensor &x, const char *function) {
    std::vector<Tensor> results;
    for (int i = 0; i < 4; ++i)
        results.push_back(lz::call(function, {chain(x, 0.1 * i)})[0]);
    const std::string schedule = lz::verify_schedule();
    EXPECT_NE(schedule.find(" on 4 streams,"), std::string::npos) << schedule;
    return results;
}

TEST(Child, DISABLED_CallbacksStandBetweenUnnamedWorkOfTwoRuns) {
    static std::atomic<int> before = 0, after = 0;
    const auto counting = [](std::atomic<int> &count) {
        return [&count](std::span<const lz::CallInput>, std::span<const lz::CallOutput> out) {
            out[0].values<float>()[0] = 0;
            ++count;
        };
    };
    const auto same = [](std::span<const lz::CallType> in) { return std::vector{in[0]}; };
    lz::register_call("streams_test.before", same, counting(before));
    lz::register_call("streams_test.after", same, counting(after));
    const Tensor x = lz::full({1024}, 1, {.device = kGpu0});
    lz::sync();
    for (int i = 0; i < 20; ++i) {
        before = after = 0;
        int before_seen = -1, after_seen = -1;
        const std::vector<Tensor> first = chains_with_calls(x, "streams_test.before");
        lz::eval(first);
        lz::default_stream(kGpu0).add_callback([&] {
            before_seen = before;
            after_seen = after;
        });
        (void)lz::default_stream(kGpu0).query(); // launches it, in a program of its own
        const std::vector<Tensor> second = chains_with_calls(x, "streams_test.after");
        lz::eval(second);
        lz::default_stream(kGpu0).synchronize();
        EXPECT_EQ(before_seen, 4);
        EXPECT_EQ(after_seen, 0);
        EXPECT_EQ(after, 4);
    }
}
TEST(Semantics, S41_a_callback_on_the_default_stream_stands_between_unnamed_work_of_two_runs) {
    for (const char *seed : {"1", "2", "3"})
        run_child(std::string("LAZULI_VIRTUAL_DELAY=") + seed, "CallbacksStandBetweenUnnamedWorkOfTwoRuns");
}

TEST(Semantics, S41_an_unnamed_copy_between_gpus_is_work_of_both) {
    LZ_NEEDS_GPUS(2);
    lz::cuda::enable_peer_access(kGpu0, kGpu1);
    const Tensor x = lz::ones({64}, {.device = kGpu0});
    x.eval();
    const lz::Stream s(kGpu1);
    for (const bool launched_before : {false, true}) {
        std::promise<void> gate;
        std::atomic<bool> passed{false}, seen{false};
        lz::default_stream(kGpu0).add_callback([&, open = gate.get_future().share()] {
            open.wait();
            passed = true;
        });
        const Tensor y = x.to(kGpu1, {.non_blocking = true});
        if (launched_before)
            (void)lz::default_stream(kGpu0).query();
        const lz::Event event = lz::default_stream(kGpu1).record_event();
        s.wait_stream(lz::default_stream(kGpu1));
        s.add_callback([&] { seen = passed.load(); });
        EXPECT_FALSE(event.query());
        EXPECT_FALSE(s.query());
        EXPECT_FALSE(lz::default_stream(kGpu1).query());
        std::thread opens([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            gate.set_value();
        });
        lz::cuda::synchronize(kGpu1);
        EXPECT_TRUE(passed);
        EXPECT_TRUE(event.query());
        s.synchronize();
        EXPECT_TRUE(seen);
        opens.join();
    }
    lz::cuda::disable_peer_access(kGpu0, kGpu1);
}

} // namespace
