// Backend::replay of the CUDA backend: graphs from the second run on, and what is no graph.

#include "backend/gpus.h"

#include <cstring>

namespace lz::test {
namespace {

using runtime::Backend;
using runtime::StreamId;
using Kind = Backend::Replay::Kind;

uint64_t calls(const char *function) {
    return FAKE(lazuli_fake_cuda_calls)(function);
}

const char *const kSource = R"(
extern "C" __global__ void phase0(const unsigned *x, unsigned *y, unsigned n, unsigned by, long long items) {
    const unsigned i = blockIdx.x * 32 + threadIdx.x;
    if (i < n)
        y[i] = y[i] * 3 + x[i] + by;
}
)";
constexpr uint32_t kCount = 100;

/// On stream 0: y = 3 y + x + a; on stream 1, behind an event: z = 3 z + y + b; on stream 0, behind another:
/// x = z, y = 3 y + x + c.
class CudaReplay : public CudaGpus {
protected:
    void SetUp() override {
        LZ_NEEDS_NVRTC();
        make();
        using P = ir::LaunchParameter;
        ir::CompiledPhase p{"phase0"};
        p.parameters = {
            {P::Buffer, 8, 0}, {P::Buffer, 8, 1}, {P::Arg, 4, 0}, {P::Scalar, 4, 0}, {P::Items, 8, 0}};
        p.threads = 32;
        module_ = load(kSource, p);
        user_ = gpu().create_stream(0);
        streams_ = {ir::kDefaultStream, user_};
    }
    void TearDown() override {
        memory_.reset();
        module_.reset();
        if (!gpus_.empty())
            gpu().destroy_stream(user_);
        CudaGpus::TearDown();
    }

    struct Frame {
        void *buffers[2];
        int64_t args[1];
        uint64_t scalars[1];
        int64_t ends[1];
        ir::KernelFrame frame;
    };
    struct Set {
        uint32_t *x, *y, *z;
    };
    Set make_set(uint32_t seed) {
        Set set{allocate<uint32_t>(kCount), allocate<uint32_t>(kCount), allocate<uint32_t>(kCount)};
        for (uint32_t *p : {set.x, set.y, set.z}) {
            std::vector<uint32_t> values(kCount);
            for (uint32_t i = 0; i < kCount; ++i)
                values[i] = (seed += 77) * 2654435761u;
            write(p, values);
        }
        return set;
    }

    Backend::Launch launch(Frame &f, uint32_t *x, uint32_t *y, uint32_t by) {
        f = {{x, y}, {kCount}, {by}, {(kCount + 31) / 32}, {}};
        f.frame = {f.buffers, f.args, f.scalars, nullptr};
        Backend::Launch l{};
        l.entry = module_->entry("phase0");
        l.frames = &f.frame;
        l.ends = f.ends;
        l.segments = 1;
        l.buffers = 2;
        l.args = l.scalars = 1;
        return l;
    }

    static uint64_t address(const void *p) { return reinterpret_cast<uintptr_t>(p); }
    /// How many steps were replayed; the rest goes step by step here.
    size_t run(const Set &set, uint32_t by, const void *copied = nullptr) {
        Frame frames[3];
        const Backend::Launch launches[] = {launch(frames[0], set.x, set.y, by),
                                            launch(frames[1], set.y, set.z, by + 1),
                                            launch(frames[2], set.x, set.y, by + 2)};
        const Backend::Copy copies[] = {{set.x, copied ? copied : set.z, kCount * 4}};
        const Backend::Replay::Step steps[] = {
            {Kind::Launch, 0, 0}, {Kind::Record, 0, 0},  {Kind::Wait, 1, 0, 0}, {Kind::Launch, 1, 1},
            {Kind::Record, 1, 1}, {Kind::Wait, 0, 1, 1}, {Kind::Copy, 0, 0},    {Kind::Launch, 0, 2}};
        uint64_t ticks[2] = {};
        size_t done = 0;
        const uint64_t key[] = {address(set.x), address(set.y), address(set.z), address(copies[0].from), by};
        gpu().replay({steps, streams_, key, launches, {}, copies, ticks, [] {}}, memory_, done);
        const size_t replayed = done;
        for (; done < std::size(steps); ++done) {
            const Backend::Replay::Step &step = steps[done];
            const StreamId on = streams_[step.stream];
            if (step.kind == Kind::Launch)
                gpu().launch(launches[step.index], on);
            else if (step.kind == Kind::Copy)
                gpu().copy(copies[0].to, copies[0].from, copies[0].bytes, on);
            else if (step.kind == Kind::Record)
                ticks[step.index] = gpu().record(on);
            else
                gpu().wait(on, gpu(), streams_[step.from], ticks[step.index]);
        }
        return replayed;
    }
    /// The same on the host.
    struct Values {
        std::vector<uint32_t> x, y, z;
        void run(uint32_t by) {
            for (uint32_t i = 0; i < kCount; ++i) {
                y[i] = y[i] * 3 + x[i] + by;
                z[i] = z[i] * 3 + y[i] + by + 1;
                x[i] = z[i];
                y[i] = y[i] * 3 + x[i] + by + 2;
            }
        }
        bool operator==(const Values &) const = default;
    };
    Values values(const Set &set) { return {read(set.x, kCount), read(set.y, kCount), read(set.z, kCount)}; }

    std::shared_ptr<runtime::Module> module_;
    StreamId user_ = 0;
    std::vector<StreamId> streams_;
    std::unique_ptr<Backend::ReplayMemory> memory_;
};

TEST_F(CudaReplay, FromTheSecondRunOnItIsOneGraph) {
    const Set set = make_set(1);
    Values expected = values(set);
    const uint64_t launched = calls("cuGraphLaunch"), made = calls("cuGraphInstantiateWithFlags");
    for (uint32_t k = 0; k < 6; ++k) {
        EXPECT_EQ(run(set, 10), k == 0 ? 0u : 8u);
        expected.run(10);
    }
    EXPECT_EQ(values(set), expected);
    EXPECT_EQ(calls("cuGraphLaunch") - launched, 5u);
    EXPECT_EQ(calls("cuGraphInstantiateWithFlags") - made, 1u);
}

TEST_F(CudaReplay, FourSetsOfAddressesHaveAnInstanceEachAndMoreAreUpdates) {
    std::vector<Set> sets;
    std::vector<Values> expected;
    for (uint32_t s = 0; s < 6; ++s) {
        sets.push_back(make_set(s));
        expected.push_back(values(sets[s]));
    }
    const auto step = [&](size_t s, uint32_t by) {
        run(sets[s], by);
        expected[s].run(by);
    };
    step(0, 5);
    const uint64_t made = calls("cuGraphInstantiateWithFlags"),
                   updated = calls("cuGraphExecKernelNodeSetParams_v2");
    for (int round = 0; round < 3; ++round)
        for (size_t s = 0; s < 4; ++s)
            step(s, 5);
    EXPECT_EQ(calls("cuGraphInstantiateWithFlags") - made, 4u);
    EXPECT_EQ(calls("cuGraphExecKernelNodeSetParams_v2") - updated, 0u);
    for (size_t s = 0; s < 6; ++s)
        step(s, 100 + static_cast<uint32_t>(s)); // other numbers, too
    EXPECT_EQ(calls("cuGraphInstantiateWithFlags") - made, 4u);
    EXPECT_EQ(calls("cuGraphExecKernelNodeSetParams_v2") - updated, 18u);
    for (size_t s = 0; s < 6; ++s)
        EXPECT_EQ(values(sets[s]), expected[s]) << s;
}

/// What comes before on either stream is done before, and what comes after, after.
TEST_F(CudaReplay, AGraphStandsInTheOrderOfAllItsStreams) {
    const Set set = make_set(3);
    Values expected = values(set);
    for (uint32_t k = 0; k < 20; ++k) {
        run(set, k % 2);
        expected.run(k % 2);
        // y on the other stream than the one that wrote it last.
        Frame f;
        gpu().wait(user_, gpu(), 0, gpu().record(0));
        gpu().launch(launch(f, set.x, set.z, k), user_);
        for (uint32_t i = 0; i < kCount; ++i)
            expected.z[i] = expected.z[i] * 3 + expected.x[i] + k;
        gpu().wait(0, gpu(), user_, gpu().record(user_));
    }
    EXPECT_EQ(values(set), expected);
}

const char *const kTableSource = R"(
struct Segment { unsigned *y; long long by; long long end; };
extern "C" __global__ void phase0(const Segment *s, unsigned segments) {
    for (long long item = blockIdx.x; item < s[segments - 1].end; item += gridDim.x) {
        unsigned k = 0;
        while (s[k].end <= item)
            ++k;
        const unsigned i = (item - (k ? s[k - 1].end : 0)) * 32 + threadIdx.x;
        s[k].y[i] = s[k].y[i] * 3 + (unsigned)s[k].by;
    }
}
)";

/// Each run has other numbers, and a table of its own: one that a run still reads is not written again.
TEST_F(CudaReplay, TablesInMemoryAreAPartOfTheGraph) {
    using P = ir::LaunchParameter;
    ir::CompiledPhase p{"phase0"};
    p.parameters = {{P::Buffer, 8, 0, 0}, {P::Arg, 8, 0, 8}, {P::Items, 8, 0, 16}};
    p.record_bytes = 24;
    p.threads = 32;
    const auto module = load(kTableSource, p);
    constexpr size_t kSegments = 9, kElements = 64;
    std::vector<uint32_t> expected(kSegments, 1);
    std::vector<void *> y;
    for (size_t s = 0; s < kSegments; ++s) {
        y.push_back(allocate<uint32_t>(kElements));
        write(static_cast<uint32_t *>(y[s]), std::vector<uint32_t>(kElements, 1));
    }
    const uint64_t launched = calls("cuGraphLaunch"), made = calls("cuGraphInstantiateWithFlags");
    std::unique_ptr<Backend::ReplayMemory> memory;
    for (uint32_t run = 0; run < 12; ++run) {
        const bool other_stream = run % 5 == 4;
        std::vector<int64_t> by(kSegments), ends(kSegments);
        std::vector<ir::KernelFrame> frames(kSegments);
        for (size_t s = 0; s < kSegments; ++s) {
            by[s] = static_cast<int64_t>(run * 100 + s);
            ends[s] = static_cast<int64_t>(2 * (s + 1));
            frames[s] = {&y[s], &by[s], nullptr, nullptr};
            expected[s] = expected[s] * 3 + static_cast<uint32_t>(by[s]);
        }
        Backend::Launch l{};
        l.entry = module->entry("phase0");
        l.frames = frames.data();
        l.ends = ends.data();
        l.segments = kSegments;
        l.buffers = l.args = 1;
        const Backend::Launch launches[] = {l};
        const Backend::Replay::Step steps[] = {{Kind::Launch, 0, 0}};
        const StreamId on[] = {other_stream ? user_ : ir::kDefaultStream};
        if (other_stream)
            gpu().wait(user_, gpu(), 0, gpu().record(0));
        size_t done = 0;
        const uint64_t key[] = {run};
        gpu().replay({steps, on, key, launches, {}, {}, {}, [] {}}, memory, done);
        EXPECT_EQ(done, run == 0 ? 0U : 1U);
        if (done == 0)
            gpu().launch(l, on[0]);
        if (other_stream)
            gpu().wait(0, gpu(), user_, gpu().record(user_));
    }
    for (size_t s = 0; s < kSegments; ++s)
        EXPECT_EQ(read(static_cast<uint32_t *>(y[s]), kElements),
                  std::vector<uint32_t>(kElements, expected[s]))
            << s;
    EXPECT_EQ(calls("cuGraphLaunch") - launched, 11U);
    EXPECT_EQ(calls("cuGraphInstantiateWithFlags") - made, 4U) << "then they are updated";
    memory.reset();
}

TEST_F(CudaReplay, CopiesOfPageableMemoryAreNoGraph) {
    const Set set = make_set(4);
    const std::vector<uint32_t> host(kCount, 7);
    for (int k = 0; k < 3; ++k)
        EXPECT_EQ(run(set, 1, host.data()), 0u);
    EXPECT_EQ(values(set).x, host);
}

/// Each call that makes, updates or launches a graph fails in turn: then the run goes step by step, or says
/// so, and nothing is done twice.
TEST_F(CudaReplay, EveryCallForAGraphMayFail) {
    for (const char *function : {"cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphAddMemcpyNode",
                                 "cuGraphInstantiateWithFlags"}) {
        memory_.reset();
        const Set set = make_set(5);
        Values expected = values(set);
        run(set, 1);
        expected.run(1);
        FAKE(lazuli_fake_cuda_fail)(function, 1, CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(run(set, 1), 0u) << function;
        expected.run(1);
        EXPECT_EQ(run(set, 1), 0u) << "and is not tried again";
        expected.run(1);
        EXPECT_EQ(values(set), expected) << function;
    }
    memory_.reset();
    const Set set = make_set(6);
    Values expected = values(set);
    run(set, 1);
    expected.run(1);
    FAKE(lazuli_fake_cuda_fail)("cuGraphLaunch", 1, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_THROW(run(set, 1), ir::Failure);
    EXPECT_EQ(values(set), expected) << "nothing was put";
    EXPECT_EQ(run(set, 1), 8u);
    expected.run(1);
    EXPECT_EQ(values(set), expected);
}

} // namespace
} // namespace lz::test
