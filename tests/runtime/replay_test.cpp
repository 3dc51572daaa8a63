/// Backend::replay on virtual GPUs: the same as step by step, in fewer items.

#include "runtime/fault_injection.h"
#include "virtual_support.h"

#include <gmock/gmock.h>

#include <deque>
#include <optional>
#include <random>

namespace lz::runtime::test {
namespace {

using testing::HasSubstr;
using Kind = Backend::Replay::Kind;

/// Steps written one after another, with everything that they point to.
class Steps {
public:
    explicit Steps(std::vector<StreamId> streams, uint32_t events = 0)
        : streams_(std::move(streams)), ticks_(events), recorded_on_(events) {}

    void launch(uint32_t stream, ir::PhaseEntry entry, std::vector<void *> buffers,
                std::vector<int64_t> args = {}) {
        Frame &f = frames_.emplace_back(Frame{std::move(buffers), std::move(args), {}, 1});
        f.frame = {f.buffers.data(), f.args.data(), nullptr, nullptr};
        Backend::Launch l{};
        l.entry = reinterpret_cast<void *>(entry);
        l.frames = &f.frame;
        l.ends = &f.items;
        l.segments = 1;
        l.buffers = static_cast<uint32_t>(f.buffers.size());
        l.args = static_cast<uint32_t>(f.args.size());
        steps_.push_back({Kind::Launch, stream, static_cast<uint32_t>(launches_.size())});
        launches_.push_back(l);
    }
    void copy(uint32_t stream, void *to, const void *from, size_t bytes) {
        steps_.push_back({Kind::Copy, stream, static_cast<uint32_t>(copies_.size())});
        copies_.push_back({to, from, bytes});
    }
    void call(uint32_t stream, LibraryFn function, std::vector<void *> buffers, ir::Fault *fault) {
        Frame &f = frames_.emplace_back(Frame{std::move(buffers), {}, {}, 0});
        Backend::Call c{};
        c.function = function;
        c.args.buffers = f.buffers;
        c.args.fault = fault;
        steps_.push_back({Kind::Call, stream, static_cast<uint32_t>(calls_.size())});
        calls_.push_back(c);
    }
    void record(uint32_t stream, uint32_t event) {
        recorded_on_[event] = stream;
        steps_.push_back({Kind::Record, stream, event});
    }
    void wait(uint32_t stream, uint32_t event) {
        steps_.push_back({Kind::Wait, stream, event, recorded_on_[event]});
    }

    /// How many were put.
    size_t replay(Backend &backend) {
        size_t done = 0;
        replay(backend, done);
        return done;
    }
    void replay(Backend &backend, size_t &done) {
        backend.replay({steps_, streams_, {}, launches_, calls_, copies_, ticks_, [] {}}, memory_, done);
    }
    size_t size() const { return steps_.size(); }

private:
    struct Frame {
        std::vector<void *> buffers;
        std::vector<int64_t> args;
        ir::KernelFrame frame;
        int64_t items;
    };
    std::deque<Frame> frames_;
    std::vector<Backend::Replay::Step> steps_;
    std::vector<StreamId> streams_;
    std::vector<Backend::Launch> launches_;
    std::vector<Backend::Call> calls_;
    std::vector<Backend::Copy> copies_;
    std::vector<uint64_t> ticks_;
    std::vector<uint32_t> recorded_on_;
    std::unique_ptr<Backend::ReplayMemory> memory_;
};

TEST(Replay, WhatFollowsOneAnotherOnAStreamIsOneItemOfIt) {
    Gpus gpus(1);
    void *const value = gpus[0].allocate(8);
    write(gpus[0], value, int64_t{0});
    Steps steps({0});
    for (int64_t digit = 1; digit <= 9; ++digit)
        steps.launch(0, append_digit, {value}, {digit});
    const uint64_t before = gpus[0].record(0);
    EXPECT_EQ(steps.replay(gpus[0]), 9u);
    EXPECT_EQ(gpus[0].record(0) - before, 1u);
    EXPECT_EQ(read<int64_t>(gpus[0], value), 123456789);
    write(gpus[0], value, int64_t{5});
    EXPECT_EQ(steps.replay(gpus[0]), 9u) << "and again";
    EXPECT_EQ(read<int64_t>(gpus[0], value), 5123456789);
    gpus[0].free(value, 8);
}

TEST(Replay, CallsAndCopiesAreAmongThem) {
    Gpus gpus(1);
    void *const a = gpus[0].allocate(8), *const b = gpus[0].allocate(8);
    ir::Fault *const fault = gpus[0].allocate_faults(1);
    int64_t in = 7, out = 0;
    Steps steps({0});
    steps.copy(0, a, &in, 8);
    steps.launch(0, append_digit, {a}, {1});
    steps.call(0, [](const LibraryArgs &args) { *static_cast<int64_t *>(args.buffers[0]) *= 2; }, {a}, fault);
    steps.copy(0, b, a, 8);
    steps.launch(0, append_digit, {b}, {3});
    steps.copy(0, &out, b, 8);
    EXPECT_EQ(steps.replay(gpus[0]), steps.size());
    finish(gpus[0], 0);
    EXPECT_EQ(out, 1423);
    gpus[0].free_faults(fault, 1);
    gpus[0].free(a, 8);
    gpus[0].free(b, 8);
}

/// Random work on three streams; whatever one stream reads of another's is behind an event.
TEST(Replay, EventsOrderStreamsAndStepByStepItIsTheSame) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
        Gpus gpus(1, {.delay_seed = seed});
        std::mt19937_64 random(seed);
        constexpr uint32_t kStreams = 3, kSteps = 40;
        const std::vector<StreamId> streams = {ir::kDefaultStream, gpus[0].create_stream(0),
                                               gpus[0].create_stream(-1)};
        std::vector<void *> values;
        std::vector<int64_t> expected = {1, 2, 3};
        for (uint32_t s = 0; s < kStreams; ++s) {
            values.push_back(gpus[0].allocate(8));
            write(gpus[0], values[s], expected[s]);
        }
        Steps steps(streams, 2 * kSteps);
        uint32_t events = 0;
        for (uint32_t k = 0; k < kSteps; ++k) {
            const auto s = static_cast<uint32_t>(random() % kStreams);
            if (random() % 3 != 0) {
                const auto digit = static_cast<int64_t>(random() % 10);
                steps.launch(s,
                             [](const ir::KernelFrame *f, int64_t, int64_t, void *) {
                                 auto *value = static_cast<int64_t *>(f->buffers[0]);
                                 *value = (*value * 10 + f->args[0]) % 1'000'000'007;
                             },
                             {values[s]}, {digit});
                expected[s] = (expected[s] * 10 + digit) % 1'000'000'007;
                continue;
            }
            const uint32_t other = (s + 1) % kStreams; // its value comes to s, and it may go on after that
            steps.record(other, events);
            steps.wait(s, events++);
            steps.copy(s, values[s], values[other], 8);
            expected[s] = expected[other];
            steps.record(s, events);
            steps.wait(other, events++);
        }
        EXPECT_EQ(steps.replay(gpus[0]), steps.size());
        for (uint32_t s = 0; s < kStreams; ++s) {
            EXPECT_EQ(read<int64_t>(gpus[0], values[s], streams[s]), expected[s]) << "seed " << seed;
            gpus[0].free(values[s], 8);
        }
    }
}

TEST(Replay, BeforeAStepThatIsRefusedAllArePutAndNoneAfterIt) {
    Gpus gpus(1);
    int64_t of_the_host = 0;
    for (size_t bad = 0; bad < 6; ++bad) {
        void *const value = gpus[0].allocate(8);
        write(gpus[0], value, int64_t{0});
        Steps steps({0}, 1);
        for (size_t k = 0; k < 6; ++k) {
            if (k == 3)
                steps.record(0, 0);
            steps.launch(0, append_digit, {k == bad ? static_cast<void *>(&of_the_host) : value},
                         {static_cast<int64_t>(k + 1)});
        }
        size_t done = 0;
        EXPECT_THAT(failure_of([&] { steps.replay(gpus[0], done); }).message(), HasSubstr("of the host"));
        EXPECT_EQ(done, bad < 3 ? bad : bad + 1);
        int64_t expected = 0;
        for (size_t k = 0; k < bad; ++k)
            expected = expected * 10 + static_cast<int64_t>(k + 1);
        EXPECT_EQ(read<int64_t>(gpus[0], value), expected);
        gpus[0].free(value, 8);
    }
}

TEST(Replay, StepsCountForFaultInjectionAsByThemselves) {
    Gpus gpus(1);
    FaultInjectingBackend injecting(gpus[0]);
    void *const value = gpus[0].allocate(8);
    for (int64_t n = 1; n <= 4; ++n) {
        write(gpus[0], value, int64_t{0});
        Steps steps({0});
        for (int64_t digit = 1; digit <= 4; ++digit)
            steps.launch(0, append_digit, {value}, {digit});
        injecting.fail_at(n);
        size_t done = 0;
        EXPECT_THAT(failure_of([&] { steps.replay(injecting, done); }).message(),
                    HasSubstr("(launch) was made to fail"));
        EXPECT_EQ(done, static_cast<size_t>(n - 1));
        EXPECT_EQ(injecting.calls(), n);
        steps.replay(injecting, done); // the rest
        EXPECT_EQ(read<int64_t>(gpus[0], value), 1234);
    }
    gpus[0].free(value, 8);
}

TEST(Replay, UnderAModelEveryStepHasItsTimeAndNoneIsReplayed) {
    VirtualOptions options;
    options.model = VirtualModel::parse("h200");
    Gpus gpus(1, options);
    void *const value = gpus[0].allocate(8);
    Steps steps({0});
    steps.launch(0, append_digit, {value}, {1});
    steps.launch(0, append_digit, {value}, {2});
    EXPECT_EQ(steps.replay(gpus[0]), 0u);
    FaultInjectingBackend injecting(gpus[0]);
    injecting.fail_at(2);
    EXPECT_EQ(steps.replay(injecting), 0u);
    EXPECT_EQ(injecting.calls(), 0) << "they come one by one, and count then";
    gpus[0].free(value, 8);
}

} // namespace
} // namespace lz::runtime::test
