// S41, S42, S45, S46: the user's streams and the order of work.
#include "support.h"

#include <atomic>
#include <cstdlib>
#include <future>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace {

using namespace lz::test;
using lz::Device;
using lz::Tensor;

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
    LZ_NEEDS_GPUS(3);
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
    LZ_NEEDS_GPUS(2);
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
    LZ_NEEDS_GPUS(4);
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
    LZ_NEEDS_GPUS(4);
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
    LZ_NEEDS_GPUS(4);
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
    LZ_NEEDS_GPUS(2);
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
    LZ_NEEDS_GPUS(2);
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
    LZ_NEEDS_GPUS(2);
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
    LZ_NEEDS_GPUS(2);
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
    LZ_NEEDS_GPUS(2);
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
    LZ_NEEDS_GPUS(2);
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
    LZ_NEEDS_GPUS(2);
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

TEST(Semantics, S45_memory_used_on_several_streams_is_not_reused_too_early) {
    const lz::Stream s(kGpu0);
    const int64_t length =
        std::getenv("LAZULI_TEST_CUDA") ? 1 << 13 : 1 << 16; // a driver without a GPU interprets them
    std::vector<Tensor> sums;
    for (int i = 0; i < 30; ++i) {
        Tensor x = lz::full({length}, i, {.dtype = lz::f32, .device = kGpu0});
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
        EXPECT_EQ(sums[i].item<double>(), static_cast<double>(i) * static_cast<double>(length));
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
    LZ_NEEDS_GPUS(2);
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
    LZ_NEEDS_GPUS(2);
    run_child("LAZULI_VERIFY=1", "ManyDevices");
    run_child("LAZULI_VERIFY=1 LAZULI_VIRTUAL_PEERS=0", "ManyDevices");
    for (const char *seed : {"1", "2", "3"})
        run_child(std::string("LAZULI_VERIFY=1 LAZULI_VIRTUAL_DELAY=") + seed, "ManyDevices");
}

} // namespace
