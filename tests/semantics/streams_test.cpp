// S40 to S46: streams, events and the order of work.
#include "support.h"

#include <lazuli/call.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace {

using namespace lz::test;
using lz::Device;
using lz::Tensor;

TEST(Semantics, S40_independent_work_gives_what_serial_order_gives) {
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

TEST(Semantics, S42_the_compiler_waits_between_user_streams_only_for_what_is_needed) {
    const lz::Stream s(kGpu0), t(kGpu0);
    const Tensor x = lz::ones({64}, {.device = kGpu0});
    x.eval();
    const auto on = [](const lz::Stream &stream, const Tensor &operand) {
        const lz::StreamGuard guard(stream);
        return operand * 2;
    };
    const Tensor a = on(s, x), b = on(t, x);
    const std::string apart = lz::verify_schedule();
    EXPECT_NE(apart.find(" on 2 streams"), std::string::npos) << apart;
    EXPECT_NE(apart.find(" 0 waits"), std::string::npos) << apart;
    const Tensor c = on(t, a);
    const std::string together = lz::verify_schedule();
    EXPECT_NE(together.find(" 1 wait."), std::string::npos) << together;
    EXPECT_EQ(floats(c), std::vector<float>(64, 4));
}

TEST(Semantics, S41_guards_set_and_restore_the_current_stream_and_device) {
    const lz::Stream one(kGpu1), two(kGpu2);
    EXPECT_EQ(lz::current_stream(kGpu1), lz::default_stream(kGpu1));
    {
        const lz::StreamGuard guard(one);
        EXPECT_EQ(lz::current_stream(), one) << "of the current device, which is the stream's";
        EXPECT_EQ(lz::cuda::current_device(), 1);
        try {
            const lz::StreamGuard inner(two);
            EXPECT_EQ(lz::current_stream(), two);
            EXPECT_EQ(lz::current_stream(kGpu1), one);
            throw std::runtime_error("away");
        } catch (const std::runtime_error &) {
        }
        EXPECT_EQ(lz::cuda::current_device(), 1);
        EXPECT_EQ(lz::current_stream(kGpu2), lz::default_stream(kGpu2));
        std::thread([&] { EXPECT_EQ(lz::current_stream(kGpu1), lz::default_stream(kGpu1)); }).join();
    }
    EXPECT_EQ(lz::cuda::current_device(), 0);
    EXPECT_EQ(lz::current_stream(kGpu1), lz::default_stream(kGpu1));
    EXPECT_NE(one, two);
    EXPECT_NE(one, lz::Stream(kGpu1));
    EXPECT_EQ(one.device(), kGpu1);
    EXPECT_EQ(lz::Stream(kGpu1, -1).priority(), -1);
    EXPECT_EQ(lz::Stream(kGpu1, -99).priority(), -5);
    EXPECT_EQ(lz::Stream(kGpu1, 99).priority(), 0);
    EXPECT_EQ(lz::default_stream(kGpu2).id(), 0);
    std::ostringstream out;
    out << lz::default_stream(kGpu2);
    EXPECT_EQ(out.str(), "<stream 0 of cuda:2>");
    EXPECT_TRUE(caught<lz::DeviceError>([] { lz::Stream("cpu"); }).has("streams belong to GPUs"));
}

TEST(Streams, PrioritiesThatTakeTurnsOnOneNumberDoNotHang) {
    Tensor x = lz::zeros({100}).to(kGpu1);
    for (int i = 0; i < 300; ++i) {
        const lz::Stream s(kGpu1, i % 2 ? -1 : 0);
        const lz::StreamGuard guard(s);
        x = x + 1;
        x.eval();
    }
    EXPECT_EQ(floats(x), std::vector<float>(100, 300));
}

TEST(Streams, ALoopMayMakeOneInEachTurnAndNeverSync) {
    const lz::Stream kept(kGpu1);
    Tensor x = lz::zeros({16}, {.device = kGpu1}), pending = lz::ones({4});
    for (int i = 0; i < 300; ++i) {
        const lz::Stream s(kGpu1);
        EXPECT_NE(s, kept) << "what nobody has any more is shared first";
        const lz::StreamGuard guard(s);
        s.wait_stream(kept);
        x = x + 1;
    }
    EXPECT_EQ(floats(x), std::vector<float>(16, 300));
    EXPECT_EQ(floats(pending), std::vector<float>(4, 1));
    EXPECT_EQ(lz::Stream(kGpu1).id(), kept.id() + 1) << "they are all free again";
}

// What a turn may have of streams: waits, events and callbacks between its stream and the last one's, work
// and copies.
TEST(Streams, ALoopThatOpensOneInEachTurnCompilesOnce) {
    std::vector<lz::Stream> streams{lz::Stream(kGpu1, -1)};
    std::vector<lz::Event> events{streams[0].record_event()};
    Tensor x = lz::zeros({16}, {.device = kGpu1});
    lz::sync();
    std::vector<int> order;
    float expected = 0;
    int64_t compiled = 0;
    for (int i = 0; i < 30; ++i) {
        const lz::Stream last = streams.back();
        const lz::Stream s = streams.emplace_back(kGpu1, i % 3 ? -1 : 0);
        EXPECT_NE(s, last);
        Tensor host;
        {
            const lz::StreamGuard guard(s);
            s.wait_stream(last);
            s.wait_event(events.back());
            x = lz::where(x > 1000, x - 1000, x * 2 + 1);
            host = x.cuda(2).to(Device::cpu(), {.non_blocking = true});
            events.push_back(s.record_event());
        }
        s.add_callback([&order, i] { order.push_back(i); });
        lz::eval({x, host});
        expected = expected > 1000 ? expected - 1000 : expected * 2 + 1;
        s.synchronize();
        EXPECT_EQ(static_cast<int>(order.size()), i + 1);
        EXPECT_EQ(floats(host), std::vector<float>(16, expected));
        if (i == 0)
            compiled = lz::compile_stats().programs_compiled;
    }
    EXPECT_EQ(lz::compile_stats().programs_compiled, compiled);
    EXPECT_EQ(floats(x), std::vector<float>(16, expected));
    EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST(Streams, WhichOneComesFirstIsStructureAndWhatItsNumberIsIsNot) {
    const lz::Stream s(kGpu1), t(kGpu1), other(kGpu2);
    const Tensor x = lz::ones({16}, {.device = kGpu1}), y = lz::ones({16}, {.device = kGpu2});
    lz::eval({x, y});
    const auto compiles = [&](const lz::Stream &first, const lz::Stream &second) {
        const int64_t before = lz::compile_stats().programs_compiled;
        Tensor a, b;
        {
            const lz::StreamGuard guard(first);
            a = x * 5 - 2;
        }
        {
            const lz::StreamGuard guard(second);
            b = (second.device() == kGpu1 ? x : y) * 5 - 3;
        }
        lz::eval({a, b});
        const int64_t compiled = lz::compile_stats().programs_compiled - before;
        EXPECT_EQ(floats(a), std::vector<float>(16, 3));
        EXPECT_EQ(floats(b), std::vector<float>(16, 2));
        return compiled;
    };
    EXPECT_EQ(compiles(s, t), 1);
    EXPECT_EQ(compiles(t, s), 0);
    EXPECT_EQ(compiles(t, t), 1) << "one stream is not two";
    EXPECT_EQ(compiles(s, s), 0);
    EXPECT_EQ(compiles(t, other), 1) << "nor two of two devices";
    EXPECT_EQ(compiles(s, other), 0);
}

// Each turn's work stands behind what is on its own stream alone.
TEST(Streams, AProgramThatIsFoundAgainRunsOnTheStreamsOfItsTurn) {
    const lz::Stream s(kGpu1), t(kGpu1);
    const Tensor x = lz::ones({16}, {.device = kGpu1});
    x.eval();
    const auto on = [&](const lz::Stream &stream) {
        const lz::StreamGuard guard(stream);
        const Tensor y = x * 7 + 3;
        y.eval();
        return y;
    };
    on(t);
    std::promise<void> gate;
    s.add_callback([open = gate.get_future().share()] { open.wait(); });
    EXPECT_FALSE(s.query());
    const int64_t compiled = lz::compile_stats().programs_compiled;
    const Tensor held = on(s), free = on(t);
    EXPECT_EQ(lz::compile_stats().programs_compiled, compiled);
    t.synchronize();
    EXPECT_FALSE(s.query());
    EXPECT_EQ(floats(free), std::vector<float>(16, 10));
    EXPECT_FALSE(s.query());
    gate.set_value();
    EXPECT_EQ(floats(held), std::vector<float>(16, 10));
}

TEST(Streams, TextsSayTheUsersNumbers) {
    lz::sync();
    const lz::Stream unused(kGpu1), first(kGpu1), second(kGpu1);
    ASSERT_NE(unused.id(), first.id());
    const Tensor x = lz::ones({16});
    Tensor y;
    {
        const lz::StreamGuard guard(second);
        second.wait_stream(first);
        y = x.cuda(1) * 2;
    }
    const std::string on = "cuda:1 stream " + std::to_string(second.id());
    const std::string text = lz::dump(), explained = lz::explain();
    EXPECT_NE(text.find("stream(" + std::to_string(second.id()) + ")"), std::string::npos) << text;
    EXPECT_NE(text.find("stream=" + std::to_string(first.id())), std::string::npos) << text;
    EXPECT_NE(explained.find(on), std::string::npos) << explained;
    lz::Profiler profiler;
    EXPECT_EQ(floats(y), std::vector<float>(16, 2));
    const std::string trace = profiler.json(), name = "stream " + std::to_string(second.id());
    EXPECT_NE(trace.find('"' + name + '"'), std::string::npos) << trace;
}

TEST(Child, DISABLED_TheThirdStreamAlone) {
    const lz::Stream unused(kGpu1), also(kGpu1), s(kGpu1);
    const lz::StreamGuard guard(s);
    EXPECT_EQ(floats(lz::ones({16}).cuda(1) * 2), std::vector<float>(16, 2));
}

TEST(Streams, DumpsOfAProgramSayWhatItsStreamsStandFor) {
    const std::string output = run_child("LAZULI_DUMP=graph,program,explain", "TheThirdStreamAlone");
    const std::string says = "in the first run cuda:1 stream 8 is stream 10.\n";
    size_t found = 0;
    for (size_t at = output.find(says); at != std::string::npos; at = output.find(says, at + 1))
        ++found;
    EXPECT_GE(found, 3u) << output;
    EXPECT_EQ(run_child("LAZULI_DUMP=graph,program,explain", "ManyDevices").find("in the first run"),
              std::string::npos)
        << "its streams bear their own numbers";
}

TEST(Streams, MoreThanTheDeviceHasNumbersForShareThem) {
    std::vector<lz::Stream> streams;
    for (int i = 0; i < 150; ++i)
        streams.emplace_back(kGpu2, i % 3 == 0 ? -2 : 0);
    for (int i = 0; i < 150; ++i)
        EXPECT_EQ(streams[static_cast<size_t>(i)].priority(), i % 3 == 0 ? -2 : 0) << i;
    Tensor sum = lz::zeros({8}, {.device = kGpu2});
    std::vector<Tensor> parts;
    for (const lz::Stream &s : streams) {
        const lz::StreamGuard guard(s);
        parts.push_back(lz::ones({8}, {.device = kGpu2}) * 2);
    }
    for (const Tensor &part : parts)
        sum += part;
    EXPECT_EQ(floats(sum), std::vector<float>(8, 300));
    streams.clear();
    const lz::Stream one(kGpu2), two(kGpu2);
    EXPECT_NE(one, two);
}

TEST(Streams, SynchronizingADeviceWaitsForStreamsThatNobodyHasAnyMore) {
    std::promise<void> gate;
    std::shared_future<void> open(gate.get_future());
    std::atomic<bool> called{false};
    {
        const lz::Stream s(kGpu1);
        s.add_callback([&, open] {
            open.wait();
            called = true;
        });
        s.query(); // launches it
    }
    std::thread opener([&] { gate.set_value(); });
    lz::cuda::synchronize(kGpu1);
    EXPECT_TRUE(called);
    opener.join();
}

/// A door that work for which no stream is named waits for, from where it stands on.
class Gate {
public:
    explicit Gate(const Device &device) {
        lz::default_stream(device).add_callback([open = open_.get_future().share()] { open.wait(); });
    }
    ~Gate() { open(); }
    void open() {
        if (!std::exchange(is_open_, true))
            open_.set_value();
    }

private:
    std::promise<void> open_;
    bool is_open_ = false;
};

/// What a stream is told to do with x, made on the default stream, and what comes out.
struct OnStream {
    const char *name;
    Tensor (*record)(Tensor x);
    float result;
};
const OnStream kOnStream[] = {
    {"clone", [](Tensor x) { return x.clone(); }, 3},
    {"clone of a view", [](Tensor x) { return x.view({2, 32}).clone(); }, 3},
    {"copy_",
     [](Tensor x) {
         Tensor w = lz::empty_like(x);
         w.copy_(x);
         return w;
     },
     3},
    {"copy_ into what is there",
     [](Tensor x) {
         static Tensor w = lz::zeros({64}, {.device = kGpu1});
         w.copy_(x);
         return w;
     },
     3},
    {"times one", [](Tensor x) { return lz::add(x, lz::zeros_like(x)) * lz::ones_like(x); }, 3},
    {"a condition that is known", [](Tensor x) { return lz::where(lz::ones_like(x) > 0, x, x + 1); }, 3},
    {"a copy to the host", [](Tensor x) { return x.cpu(); }, 3},
    {"there and back", [](Tensor x) { return x.cpu().cuda(1); }, 3},
};

TEST(Semantics, S41_what_needs_no_work_of_its_own_still_counts_for_its_stream) {
    for (const bool launched : {false, true})
        for (const OnStream &form : kOnStream) {
            SCOPED_TRACE(std::string(form.name) + (launched ? ", of what is launched" : ""));
            const lz::Stream s(kGpu1);
            const Tensor base = lz::ones({64}, {.device = kGpu1});
            base.eval();
            Gate gate(kGpu1);
            const Tensor x = base + 2;                                       // waits at the gate
            const Tensor host = x.to(Device::cpu(), {.non_blocking = true}); // a copy that exists already
            if (launched)
                lz::eval({x, host});
            Tensor z;
            {
                const lz::StreamGuard guard(s);
                z = form.record(x);
            }
            const lz::Event event = s.record_event();
            std::atomic<bool> called{false};
            s.add_callback([&] { called = true; });
            EXPECT_FALSE(event.query());
            EXPECT_FALSE(s.query());
            EXPECT_FALSE(called);
            gate.open();
            s.synchronize();
            EXPECT_TRUE(called);
            EXPECT_TRUE(event.query());
            EXPECT_EQ(floats(z), std::vector<float>(64, form.result));
            EXPECT_EQ(floats(x), std::vector<float>(64, 3));
            EXPECT_EQ(floats(host), std::vector<float>(64, 3));
        }
}

// As in PyTorch, where the stream of the GPU that is read makes the copy. Whether an equal copy is there or
// not.
TEST(Semantics, S41_a_copy_to_another_gpu_counts_for_the_stream_of_the_one_that_is_read) {
    enum class There : uint8_t { No, Pending, Launched };
    for (const bool peers : {false, true})
        for (const There there : {There::No, There::Pending, There::Launched}) {
            SCOPED_TRACE(testing::Message() << "peers " << peers << ", there " << static_cast<int>(there));
            if (peers)
                lz::cuda::enable_peer_access(kGpu2, kGpu3);
            const lz::Stream s(kGpu2);
            const Tensor base = lz::ones({64}, {.device = kGpu2});
            base.eval();
            Gate gate(kGpu2);
            const Tensor x = lz::cumsum(base + 2, 0); // waits at the gate
            Tensor other;
            if (there != There::No)
                other = x.cuda(3);
            if (there == There::Launched)
                lz::eval({x, other});
            Tensor z;
            {
                const lz::StreamGuard guard(s);
                z = x.cuda(3);
            }
            const lz::Event event = s.record_event();
            std::atomic<bool> called{false};
            s.add_callback([&] { called = true; });
            EXPECT_FALSE(event.query());
            EXPECT_FALSE(s.query());
            EXPECT_FALSE(called);
            gate.open();
            s.synchronize();
            EXPECT_TRUE(called);
            EXPECT_TRUE(event.query());
            EXPECT_EQ(floats(z)[63], 192);
            if (peers)
                lz::cuda::disable_peer_access(kGpu2, kGpu3);
        }
}

TEST(Semantics, S41_a_copy_between_two_gpus_with_streams_counts_for_both) {
    const lz::Stream s(kGpu2), t(kGpu3);
    const Tensor x = lz::full({64}, 5.0, {.device = kGpu2});
    x.eval();
    std::promise<void> gate;
    t.add_callback([open = gate.get_future().share()] { open.wait(); });
    Tensor y, w = lz::zeros({64}, {.device = kGpu3});
    {
        const lz::StreamGuard read(s), written(t);
        y = x.cuda(3);
        w.copy_(x);
    }
    EXPECT_FALSE(s.query()) << "the copies stand behind what is on the stream of the GPU that is written";
    EXPECT_FALSE(t.query());
    gate.set_value();
    s.synchronize();
    EXPECT_EQ(floats(y), std::vector<float>(64, 5));
    EXPECT_EQ(floats(w), std::vector<float>(64, 5));
}

TEST(Semantics, S42_what_is_copied_to_another_gpu_does_not_wait_for_the_stream_that_waits_for_it) {
    const lz::Stream s(kGpu2);
    const Tensor x = lz::full({64}, 5.0, {.device = kGpu2});
    x.eval();
    std::promise<void> gate;
    s.add_callback([open = gate.get_future().share()] { open.wait(); });
    Tensor y;
    {
        const lz::StreamGuard guard(s);
        y = x.cuda(3);
    }
    y = y * 2 + 1; // in the memory of the copy, if that is what the plan says
    EXPECT_EQ(floats(y), std::vector<float>(64, 11));
    EXPECT_FALSE(s.query());
    gate.set_value();
    s.synchronize();
}

TEST(Streams, CopiesInAChainStayOnTheStreamOfTheirDevice) {
    const lz::Stream other(kGpu0), s(kGpu1); // the same numbers on two devices
    ASSERT_EQ(other.id(), s.id());
    std::promise<void> gate;
    other.add_callback([open = gate.get_future().share()] { open.wait(); });
    const Tensor x = lz::full({1000}, 5.0, {.device = kGpu0});
    x.eval();
    Tensor y, c, b = lz::zeros({1000}, {.device = kGpu1});
    {
        const lz::StreamGuard guard(s);
        y = x.cuda(1).cpu();
        b.copy_(x);
        c = b.cpu();
    }
    s.synchronize(); // whatever the stream of cuda:0 with its number does
    EXPECT_EQ(floats(y), std::vector<float>(1000, 5));
    EXPECT_EQ(floats(c), std::vector<float>(1000, 5));
    gate.set_value();
    other.synchronize();
}

TEST(Semantics, S41_a_copy_that_only_its_source_can_make_is_in_the_order_of_its_stream) {
    for (const bool peers : {false, true}) {
        SCOPED_TRACE(peers);
        if (peers)
            lz::cuda::enable_peer_access(kGpu0, kGpu1); // and cuda:1 may not read cuda:0
        const lz::Stream s(kGpu1);
        const Tensor x = lz::full({1000}, 5.0, {.device = kGpu0});
        x.eval();
        std::promise<void> gate;
        s.add_callback([open = gate.get_future().share()] { open.wait(); });
        Tensor y;
        {
            const lz::StreamGuard guard(s);
            y = x.cuda(1);
        }
        const lz::Event event = s.record_event();
        EXPECT_FALSE(event.query());
        EXPECT_FALSE(s.query());
        gate.set_value();
        s.synchronize();
        EXPECT_TRUE(event.query());
        EXPECT_EQ(floats(y), std::vector<float>(1000, 5));
        if (peers)
            lz::cuda::disable_peer_access(kGpu0, kGpu1);
    }
}

TEST(Semantics, S41_streams_and_events_that_were_moved_from_are_what_they_were) {
    lz::Stream stream(kGpu1);
    const lz::Stream moved(std::move(stream));
    EXPECT_EQ(stream, moved); // NOLINT(bugprone-use-after-move): this is about that
    stream.synchronize();
    lz::Event event;
    const lz::Event same(std::move(event));
    event.record(stream); // NOLINT(bugprone-use-after-move)
    same.synchronize();
    EXPECT_TRUE(event.query());
}

TEST(Semantics, S41_work_under_a_guard_runs_on_that_stream_in_order) {
    const lz::Stream stream(kGpu1, -1);
    Tensor x = lz::zeros({64}, {.device = kGpu1});
    lz::Profiler profiler;
    {
        const lz::StreamGuard guard(stream);
        for (int i = 0; i < 8; ++i)
            x = lz::cumsum(x, 0) + 1;
        EXPECT_FALSE(x.same_tensor(x * 1));
        stream.synchronize();
        EXPECT_TRUE(stream.query());
    }
    const std::string row = "cuda:1 stream " + std::to_string(stream.id());
    EXPECT_NE(profiler.svg().find(row), std::string::npos) << row;
    Tensor expected = lz::zeros({64});
    for (int i = 0; i < 8; ++i)
        expected = lz::cumsum(expected, 0) + 1;
    EXPECT_EQ(floats(x), floats(expected));
}

TEST(Semantics, S41_work_under_a_guard_is_in_the_order_of_its_recording_whatever_asks_for_it) {
    const Tensor x = lz::rand({64}, {.device = kGpu1});
    x.eval();
    const lz::Stream stream(kGpu1);
    Tensor sum;
    {
        const lz::StreamGuard guard(stream);
        const Tensor first = lz::cumsum(x, 0), second = lz::sort(x, 0).values;
        sum = second + first;
    }
    lz::Profiler profiler;
    lz::eval({sum});
    const std::string trace = profiler.json();
    const size_t first = trace.find("cumsum"), second = trace.find("sort");
    ASSERT_NE(first, std::string::npos);
    ASSERT_NE(second, std::string::npos);
    EXPECT_LT(first, second) << trace;
}

TEST(Semantics, S41_a_stream_may_go_before_its_work_has_run) {
    Tensor x;
    for (int i = 0; i < 200; ++i) { // more than there are at a time
        const lz::Stream stream(kGpu0);
        const lz::StreamGuard guard(stream);
        x = lz::ones({16}, {.device = "cuda"}) * i;
        if (i % 50 == 0)
            lz::eval({x});
        if (i % 40 == 0)
            lz::sync();
    }
    EXPECT_EQ(floats(x), std::vector<float>(16, 199));
}

TEST(Semantics, S41_the_users_own_waits_are_honoured) {
    const lz::Stream a(kGpu0), b(kGpu1);
    std::vector<int> order;
    Tensor x = lz::zeros({2048}, {.device = kGpu0});
    {
        const lz::StreamGuard guard(a);
        for (int i = 0; i < 20; ++i)
            x = lz::cumsum(x, 0) + 1;
        a.add_callback([&] { order.push_back(1); });
    }
    b.wait_stream(a);
    b.add_callback([&] { order.push_back(2); });
    const lz::Event reached = b.record_event();
    a.wait_event(reached);
    a.add_callback([&] { order.push_back(3); });
    a.synchronize();
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
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

TEST(Semantics, S42_user_streams_need_no_wait) {
    const lz::Stream s(kGpu0);
    for (const bool waits : {false, true}) {
        lz::manual_seed(11);
        const Tensor a = lz::empty({100, 100}, {.device = "cuda"}).normal_();
        Tensor b;
        {
            if (waits)
                s.wait_stream(lz::current_stream());
            const lz::StreamGuard guard(s);
            b = lz::sum(a);
        }
        lz::manual_seed(11);
        const Tensor expected = lz::sum(lz::empty({100, 100}, {.device = "cuda"}).normal_());
        EXPECT_EQ(b.item<float>(), expected.item<float>());
    }
}

TEST(Semantics, S42_dependences_between_two_streams_and_devices_are_synchronised) {
    const lz::Stream s(kGpu0), t(kGpu1);
    Tensor x = lz::ones({3000}, {.device = kGpu0});
    for (int i = 0; i < 10; ++i) {
        Tensor y;
        {
            const lz::StreamGuard guard(s);
            x = x + 1;
            y = x.cuda(1);
        }
        {
            const lz::StreamGuard guard(t);
            y *= 2;
        }
        x = y.cuda(0) - x;
        if (i % 4 == 0)
            lz::eval({x});
    }
    EXPECT_EQ(floats(x), std::vector<float>(3000, 11));
}

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

TEST(Semantics, S45_memory_used_on_several_streams_is_not_reused_too_early) {
    const lz::Stream s(kGpu0);
    std::vector<Tensor> sums;
    for (int i = 0; i < 30; ++i) {
        Tensor x = lz::full({1 << 16}, i, {.dtype = lz::f32, .device = kGpu0});
        lz::eval({x});
        {
            const lz::StreamGuard guard(s);
            Tensor y = x;
            for (int k = 0; k < 3; ++k)
                y = lz::cumsum(y, 0) * 0;
            sums.push_back((y + x).sum());
            lz::eval({sums.back()});
        }
        // x is dropped here while the stream may still read it; the next round takes memory again.
    }
    for (size_t i = 0; i < sums.size(); ++i)
        EXPECT_EQ(sums[i].item<double>(), static_cast<double>(i) * (1 << 16));
}

TEST(Child, DISABLED_ManyDevices) {
    Tensor x = lz::arange(1000, {.dtype = lz::f32, .device = kGpu0}) * 2;
    const lz::Stream s(kGpu1);
    Tensor y;
    {
        const lz::StreamGuard guard(s);
        y = lz::softmax(x.cuda(1), 0);
    }
    x += y.cuda(0);
    EXPECT_NEAR(x.sum().item<double>(), 999 * 1000 + 1, 1);
    {
        const lz::StreamGuard guard(s);
        x = (x.cuda(1) * 2).cuda(0).cpu().cuda(1);
    }
    EXPECT_NEAR(x.sum().item<double>(), 2 * (999 * 1000 + 1), 2);
}

TEST(Semantics, S46_what_is_pending_can_be_checked_before_it_runs) {
    lz::sync();
    const Tensor x = lz::rand({64, 64}, {.device = kGpu0});
    const Tensor y = (lz::matmul(x, x).to(kGpu1) + 1).cpu();
    const std::string checked = lz::verify_schedule(y);
    EXPECT_NE(checked.find("Every two conflicting accesses are ordered"), std::string::npos) << checked;
    EXPECT_EQ(checked.find(" 0 waits"), std::string::npos) << checked;
    EXPECT_EQ(lz::verify_schedule(), checked) << "nothing has been computed by it";
    EXPECT_EQ(y.dim(), 2);
}

TEST(Semantics, S46_every_program_can_be_checked_with_random_delays_too) {
    run_child("LAZULI_VERIFY=1", "ManyDevices");
    run_child("LAZULI_VERIFY=1 LAZULI_VIRTUAL_PEERS=0", "ManyDevices");
    for (const char *seed : {"1", "2", "3"})
        run_child(std::string("LAZULI_VERIFY=1 LAZULI_VIRTUAL_DELAY=") + seed, "ManyDevices");
}

} // namespace
