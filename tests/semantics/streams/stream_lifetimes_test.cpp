// S41: streams come and go; a loop that opens one in each turn finds its Program again.
#include "support.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

namespace {

using namespace lz::test;
using lz::Device;
using lz::Tensor;

TEST(Streams, PrioritiesThatTakeTurnsOnOneNumberDoNotHang) {
    LZ_NEEDS_GPUS(2);
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
    LZ_NEEDS_GPUS(2);
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
    LZ_NEEDS_GPUS(3);
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
    LZ_NEEDS_GPUS(3);
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
    LZ_NEEDS_GPUS(2);
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
    LZ_NEEDS_GPUS(2);
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
    LZ_NEEDS_GPUS(2);
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
    LZ_NEEDS_GPUS(3);
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
    LZ_NEEDS_GPUS(2);
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

} // namespace
