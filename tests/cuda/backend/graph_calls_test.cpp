// Library calls in graphs: what is captured of products, sorts and scans runs in its place, with the
// addresses of its run.

#include "backend/gpus.h"

#include "runtime/cuda/library/matmul.h"

#include <algorithm>
#include <numeric>

namespace lz::test {
namespace {

using ir::DType;
using runtime::Backend;
using runtime::StreamId;
using Kind = Backend::Replay::Kind;

uint64_t calls(const char *function) {
    return FAKE(lazuli_fake_cuda_calls)(function);
}

const char *const kSource = R"(
extern "C" __global__ void phase0(const float *x, float *y, unsigned n, unsigned by, long long items) {
    const unsigned i = blockIdx.x * 32 + threadIdx.x;
    if (i < n)
        y[i] = x[i] + by;
}
)";
constexpr int64_t kSide = 8, kCount = kSide * kSide;

/// On stream 0: y = x + a; on stream 1, behind an event, a library call: z of y; on stream 0, behind another:
/// x = z + b.
class CudaReplayOfCalls : public CudaGpus {
protected:
    void SetUp() override {
        LZ_NEEDS_NVRTC();
        driver_library();
        runtime::cuda::Search search;
        search.driver = LAZULI_FAKE_CUDA;
        search.cublaslt = LAZULI_FAKE_CUBLASLT;
        const runtime::cuda::Library driver = runtime::cuda::open_driver(search);
        runtime::cuda::Library nvrtc; // of the same version: no product needs more of it
        nvrtc.version = driver.version;
        runtime::cuda::prepare_cublaslt(search, driver, nvrtc);
        make();
        use(0);
    }
    /// The graphs are of this GPU.
    void use(size_t i) {
        module_.reset();
        using P = ir::LaunchParameter;
        ir::CompiledPhase p{"phase0"};
        p.parameters = {
            {P::Buffer, 8, 0}, {P::Buffer, 8, 1}, {P::Arg, 4, 0}, {P::Scalar, 4, 0}, {P::Items, 8, 0}};
        p.threads = 32;
        module_ = load(kSource, p, i);
        user_ = gpu().create_stream(0);
        scratch_ = allocate<std::byte>(kScratch);
        ints_ = allocate<int64_t>(kCount);
        streams_ = {ir::kDefaultStream, user_};
    }
    void TearDown() override {
        memory_.reset();
        module_.reset();
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
        float *x, *y, *z, *w;
    };
    /// `past`: elements that the memory begins after a multiple of 16 bytes. w turns rows by one.
    Set make_set(int64_t seed, size_t past = 0) {
        Set set{};
        for (float **p : {&set.x, &set.y, &set.z, &set.w})
            *p = allocate<float>(kCount + past) + past;
        std::vector<float> x(kCount), w(kCount);
        for (int64_t i = 0; i < kCount; ++i)
            x[static_cast<size_t>(i)] = static_cast<float>((i * 37 + seed) % 50);
        for (int64_t i = 0; i < kSide; ++i)
            w[static_cast<size_t>(i * kSide + (i + 1) % kSide)] = 1;
        write(set.x, x);
        write(set.w, w);
        return set;
    }

    Backend::Launch launch(Frame &f, float *x, float *y, uint32_t by) {
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

    /// How many steps were replayed; the rest goes step by step here.
    size_t run(const Set &set, uint32_t by, const char *symbol = "dot") {
        const std::vector<int64_t> product = {
            static_cast<int64_t>(DType::F32), kSide, kSide, kSide, kSide, 1, kSide, 1, 0, 0, 0, 0, 0};
        const std::vector<int64_t> lines = {static_cast<int64_t>(DType::F32), kSide, kSide, 1, 0};
        const bool is_product = symbol == std::string_view("dot");
        std::vector<void *> buffers = {set.y};
        if (is_product)
            buffers.push_back(set.w);
        buffers.push_back(set.z);
        if (symbol == std::string_view("sort"))
            buffers.push_back(ints_);
        Backend::Call call{};
        call.function = gpu().find_library(symbol);
        call.args.buffers = buffers;
        call.args.ints = is_product ? product : lines;
        call.args.scratch = {scratch_, kScratch};
        const std::vector<Backend::Call::Use> uses(buffers.size(), {kCount * 4, true, true});
        call.uses = uses;
        Frame frames[2];
        const Backend::Launch launches[] = {launch(frames[0], set.x, set.y, by),
                                            launch(frames[1], set.z, set.x, by + 1)};
        const Backend::Replay::Step steps[] = {
            {Kind::Launch, 0, 0}, {Kind::Record, 0, 0},  {Kind::Wait, 1, 0, 0}, {Kind::Call, 1, 0},
            {Kind::Record, 1, 1}, {Kind::Wait, 0, 1, 1}, {Kind::Launch, 0, 1}};
        uint64_t ticks[2] = {};
        size_t done = 0;
        // Its calls and launches are there when they are asked for, and not before.
        Backend::Call filled_call{};
        Backend::Launch filled[2] = {};
        const auto fill = [&] {
            ++fills_;
            filled_call = call;
            std::ranges::copy(launches, filled);
        };
        const uint64_t key[] = {reinterpret_cast<uintptr_t>(set.x), reinterpret_cast<uintptr_t>(set.y),
                                reinterpret_cast<uintptr_t>(set.z), reinterpret_cast<uintptr_t>(set.w), by};
        gpu().replay({steps, streams_, key, filled, {&filled_call, 1}, {}, ticks, fill}, memory_, done);
        const size_t replayed = done;
        for (; done < std::size(steps); ++done) {
            const Backend::Replay::Step &step = steps[done];
            const StreamId on = streams_[step.stream];
            if (step.kind == Kind::Launch)
                gpu().launch(launches[step.index], on);
            else if (step.kind == Kind::Call)
                gpu().call(call, on);
            else if (step.kind == Kind::Record)
                ticks[step.index] = gpu().record(on);
            else
                gpu().wait(on, gpu(), streams_[step.from], ticks[step.index]);
        }
        return replayed;
    }
    /// The same on the host.
    struct Values {
        std::vector<float> x, y, z;
        void run(uint32_t by, std::string_view symbol = "dot") {
            for (size_t i = 0; i < kCount; ++i)
                y[i] = x[i] + static_cast<float>(by);
            for (size_t row = 0; row < kCount; row += kSide) {
                const auto from = y.begin() + static_cast<ptrdiff_t>(row);
                const auto to = z.begin() + static_cast<ptrdiff_t>(row);
                if (symbol == "dot")
                    std::rotate_copy(from, from + kSide - 1, from + kSide, to);
                else if (symbol == "cumsum")
                    std::partial_sum(from, from + kSide, to);
                else
                    std::partial_sort_copy(from, from + kSide, to, to + kSide);
            }
            for (size_t i = 0; i < kCount; ++i)
                x[i] = z[i] + static_cast<float>(by + 1);
        }
        bool operator==(const Values &) const = default;
    };
    Values values(const Set &set) { return {read(set.x, kCount), read(set.y, kCount), read(set.z, kCount)}; }

    static constexpr size_t kScratch = size_t{33} << 20;
    int fills_ = 0;
    std::byte *scratch_ = nullptr;
    int64_t *ints_ = nullptr;
    std::shared_ptr<runtime::Module> module_;
    StreamId user_ = 0;
    std::vector<StreamId> streams_;
    std::unique_ptr<Backend::ReplayMemory> memory_;
};

TEST_F(CudaReplayOfCalls, AProductIsAPartOfTheGraph) {
    const Set set = make_set(1);
    Values expected = values(set);
    const uint64_t launched = calls("cuGraphLaunch"), multiplied = calls("cublasLtMatmul");
    for (uint32_t k = 0; k < 12; ++k) {
        EXPECT_EQ(run(set, 3), k == 0 ? 0u : 7u);
        expected.run(3);
    }
    EXPECT_EQ(values(set), expected);
    EXPECT_EQ(calls("cuGraphLaunch") - launched, 11u);
    EXPECT_EQ(calls("cublasLtMatmul") - multiplied, 2u) << "the first run, and once for the graph";
    EXPECT_EQ(fills_, 1) << "what is known by its key is not looked at";
}

/// Kernels of the library, of one launch and of many.
TEST_F(CudaReplayOfCalls, SoAreScansAndSorts) {
    for (const char *const symbol : {"cumsum", "sort"}) {
        memory_.reset();
        const Set set = make_set(2);
        Values expected = values(set);
        for (uint32_t k = 0; k < 4; ++k) {
            EXPECT_EQ(run(set, 2, symbol), k == 0 ? 0u : 7u) << symbol;
            expected.run(2, symbol);
        }
        EXPECT_EQ(values(set), expected) << symbol;
    }
}

TEST_F(CudaReplayOfCalls, OtherAddressesAreCapturedAnew) {
    std::vector<Set> sets;
    std::vector<Values> expected;
    for (int64_t s = 0; s < 6; ++s) {
        sets.push_back(make_set(s, static_cast<size_t>(s) % 3)); // the algorithm depends on the alignment
        expected.push_back(values(sets.back()));
    }
    const auto step = [&](size_t s, uint32_t by) {
        const size_t replayed = run(sets[s], by);
        expected[s].run(by);
        return replayed;
    };
    step(0, 5);
    const uint64_t made = calls("cuGraphInstantiateWithFlags"),
                   updated = calls("cuGraphExecChildGraphNodeSetParams");
    for (int round = 0; round < 3; ++round)
        for (size_t s = 0; s < 6; ++s)
            EXPECT_EQ(step(s, static_cast<uint32_t>(s)), 7u);
    EXPECT_EQ(calls("cuGraphInstantiateWithFlags") - made, 4u);
    EXPECT_EQ(calls("cuGraphExecChildGraphNodeSetParams") - updated, 14u);
    for (size_t s = 0; s < 6; ++s)
        EXPECT_EQ(values(sets[s]), expected[s]) << s;
}

/// The driver refuses an update by a graph of another shape, as another algorithm may be.
TEST_F(CudaReplayOfCalls, AGraphThatCannotBeUpdatedIsMadeAnew) {
    std::vector<Set> sets;
    std::vector<Values> expected;
    for (int64_t s = 0; s < 5; ++s) {
        sets.push_back(make_set(s));
        expected.push_back(values(sets.back()));
    }
    for (const size_t s : {size_t{0}, size_t{0}, size_t{1}, size_t{2}, size_t{3}}) {
        run(sets[s], 1);
        expected[s].run(1);
    }
    const uint64_t made = calls("cuGraphInstantiateWithFlags");
    FAKE(lazuli_fake_cuda_fail)("cuGraphExecChildGraphNodeSetParams", 1, CUDA_ERROR_INVALID_VALUE);
    for (int round = 0; round < 2; ++round) {
        EXPECT_EQ(run(sets[4], 1), 7u);
        expected[4].run(1);
    }
    EXPECT_EQ(calls("cuGraphInstantiateWithFlags") - made, 1u);
    for (size_t s = 0; s < 5; ++s)
        EXPECT_EQ(values(sets[s]), expected[s]) << s;
}

TEST_F(CudaReplayOfCalls, WithoutGraphsAllGoesStepByStep) {
    std::string none;
    gpus_ =
        runtime::cuda::make_cuda_gpus(driver_table(), {.graphs = false, .load_source = load_source}, none);
    ASSERT_FALSE(gpus_.empty()) << none;
    use(0);
    const Set set = make_set(7);
    Values expected = values(set);
    const uint64_t launched = calls("cuGraphLaunch");
    for (int k = 0; k < 3; ++k) {
        EXPECT_EQ(run(set, 1), 0u);
        expected.run(1);
    }
    EXPECT_EQ(values(set), expected);
    EXPECT_EQ(calls("cuGraphLaunch"), launched);
}

/// What is not repeatable, as a function of the host, is called each time.
TEST_F(CudaReplayOfCalls, FunctionsOfTheHostAreNoGraph) {
    EXPECT_FALSE(runtime::find_cpu_function("cumsum").on_host().is_repeatable());
    EXPECT_TRUE(gpu().find_library("cumsum").is_repeatable());
    EXPECT_TRUE(gpu().find_library("dot").is_repeatable());
}

/// Each call that captures fails in turn: then the run goes step by step, and nothing is done twice.
TEST_F(CudaReplayOfCalls, EveryCallOfACaptureMayFail) {
    for (const char *function : {"cuStreamCreateWithPriority", "cuStreamBeginCapture_v2", "cublasLtMatmul",
                                 "cuStreamEndCapture", "cuGraphGetNodes", "cuGraphAddChildGraphNode"}) {
        memory_.reset();
        if (function == std::string_view("cuStreamCreateWithPriority")) { // once a device
            std::string none;
            module_.reset();
            gpus_ = runtime::cuda::make_cuda_gpus(driver_table(), {.load_source = load_source}, none);
            use(0);
        }
        const Set set = make_set(5);
        Values expected = values(set);
        run(set, 1);
        expected.run(1);
        FAKE(lazuli_fake_cuda_fail)(function, 1, function[2] == 'b' ? 14 : CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQ(run(set, 1), 0u) << function;
        expected.run(1);
        EXPECT_EQ(run(set, 1), 0u) << "and is not tried again";
        expected.run(1);
        EXPECT_EQ(values(set), expected) << function;
        memory_.reset();
        run(set, 1);
        expected.run(1);
        EXPECT_EQ(run(set, 1), 7u) << "but another program's are, after " << function;
        expected.run(1);
        EXPECT_EQ(values(set), expected) << function;
    }
}

} // namespace
} // namespace lz::test
