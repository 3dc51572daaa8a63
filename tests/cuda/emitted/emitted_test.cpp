/// Kernels as CUDA devices do them, tier by tier, against the interpreter of Kernel IR; and what comes of
/// graphs.

#include "codegen/cuda/compiler.h"
#include "codegen/cuda/source.h"
#include "emitted/emitted.h"
#include "ir/kernel/builder.h"
#include "ir/kernel/facts/row_memory.h"
#include "ir/math/expand.h"
#include "ir/text/text.h"
#include "kernels.h"
#include "passes/pipeline.h"
#include "passes/schedule/cuda.h"
#include "tests/support/cuda/device_memory.h"
#include "tests/support/cuda/nvrtc.h"
#include "tests/support/cuda/ptx/issue_slots.h"
#include "tests/support/random/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <set>

namespace lz::test {
namespace {

using namespace ir;

class Emitted : public testing::Test {
protected:
    void SetUp() override {
        if (!why_not_run().empty())
            GTEST_SKIP() << why_not_run();
    }
};

/// A block has ten rounds of two wide products, and four words.
TEST_F(Emitted, FourWordsOfAThreadAreOneBlock) {
    const Launch words = scheduled(elementwise({DType::F32}, 4096, 64, [](KernelBuilder &b, auto &x) {
        const auto c = [&](int64_t v) { return b.constant_int(DType::I64, v); };
        const KValue at = b.axis_index(0), block = b.add(c(7), b.shr(at, c(2)));
        const KValue word = b.cast(b.bit_and(at, c(3)), DType::I32);
        return b.add(x[0], b.cast(b.emit(KOp::Philox, DType::I32, block, word, c(42)), DType::F32));
    }));
    expect_bits(words, "words");
    const std::string ptx = compile_to_ptx(cuda_text(words));
    const auto count = [&](std::string_view text) {
        int found = 0;
        for (size_t at = 0; (at = ptx.find(text, at)) != std::string::npos; ++at)
            ++found;
        return found;
    };
    const int entries = count(".entry "), products = count("mul.hi.u32") + count("mul.wide.u32");
    EXPECT_GT(products, 0);
    EXPECT_LE(products, 20 * entries) << ptx;
}

/// Instructions that are executed for an element of moderate size, beside those of a negation, as machine
/// code has them. (Code for sm_90 that was disassembled, with what addresses and packets cost: exp 15.5,
/// sigmoid 26.6, tanh 27.1, erf 25.8.)
TEST_F(Emitted, FunctionsAreShort) {
    constexpr int64_t kElements = 1 << 16;
    using Function = std::function<KValue(KernelBuilder &, KValue)>;
    const auto instructions = [&](const Function &f, DType dtype = DType::F32) {
        std::map<std::string, uint64_t> counts;
        const Launch l = scheduled(elementwise({dtype}, kElements, 64, [&](KernelBuilder &b, auto &x) {
            return b.cast(f(b, b.cast(x[0], DType::F32)), dtype);
        }));
        run_cuda(l, {.corners = false, .instructions = &counts});
        uint64_t sum = 0;
        for (const auto &[name, count] : counts)
            sum += count * static_cast<uint64_t>(ptx::issue_slots(name));
        return static_cast<double>(sum) / kElements;
    };
    if (instructions([](KernelBuilder &b, KValue x) { return b.neg(x); }) == 0)
        GTEST_SKIP() << "A device does not count what it executes: the interpreter of PTX does.";
    const auto expect = [&](const char *what, double bar, const Function &f, DType dtype = DType::F32) {
        const double found =
            instructions(f, dtype) - instructions([](KernelBuilder &b, KValue x) { return b.neg(x); }, dtype);
        std::printf("%s: %.2f of %.0f\n", what, found, bar);
        EXPECT_LE(found, bar) << what;
        EXPECT_GE(found, bar * 0.75) << what << ": is it computed?";
    };
    expect("exp", 16, [](KernelBuilder &b, KValue x) { return b.exp(x); });
    expect("sigmoid", 28, [](KernelBuilder &b, KValue x) { return b.sigmoid(x); });
    expect("tanh", 30, [](KernelBuilder &b, KValue x) { return b.tanh(x); });
    expect("erf", 26, [](KernelBuilder &b, KValue x) { return b.erf(x); });
    // With conversions, of which a negation has none.
    const struct {
        KOp op;
        DType half;
        double bar;
    } halves[] = {{KOp::ExpF16, DType::F16, 13},     {KOp::ExpBF16, DType::BF16, 12},
                  {KOp::SigmoidF16, DType::F16, 22}, {KOp::SigmoidBF16, DType::BF16, 21},
                  {KOp::TanhF16, DType::F16, 20},    {KOp::TanhBF16, DType::BF16, 15},
                  {KOp::ErfF16, DType::F16, 15},     {KOp::ErfBF16, DType::BF16, 11}};
    for (const auto &[op, half, bar] : halves)
        expect(
            std::string(info(op).name).c_str(), bar,
            [op](KernelBuilder &b, KValue x) { return b.emit(op, DType::F32, x); }, half);
}

TEST_F(Emitted, RowsAreKeptInRegistersInSharedMemoryAndInATemporary) {
    const CudaLimits registers, shared{.registers_per_sm = 0, .cluster_blocks = 1},
        memory{.registers_per_sm = 0, .shared_per_block = 17 << 10, .cluster_blocks = 1};
    std::set<RowTier> tiers;
    for (const CudaLimits &limits : {registers, shared, memory})
        for (const int64_t n : {9, 64, 100, 1000, 1024, 1028, 2500, 5000}) {
            const Launch l = scheduled(row_kernel(DType::F32, DType::F32, 9, n, (n + 3) / 4 * 4), limits);
            tiers.insert(l.kernel.phases[0].cuda().tier);
            expect_bits(l, "rows of " + std::to_string(n), {.most_blocks = 3});
        }
    EXPECT_EQ(tiers.size(), 3U);
}

/// In shared memory, and in a temporary, where blocks come in no clusters.
TEST_F(Emitted, RowsOfMoreElementsThanABlockHoldsGoThroughATemporary) {
    const auto tier = [](const Launch &l) { return l.kernel.phases[0].cuda().tier; };
    for (const auto &[n, t] : {std::pair{int64_t{45000}, DType::F32},
                               {60000, DType::F32},
                               {100000, DType::BF16},
                               {1000000, DType::F32}}) {
        const Launch l = scheduled(row_kernel(t, DType::F32, 2, n, n + 8), {.cluster_blocks = 1});
        EXPECT_EQ(tier(l), n > 49152 ? RowTier::Memory : RowTier::Shared) << n;
        expect_bits(l, "rows of " + std::to_string(n), {.most_blocks = 2, .corners = false});
    }
}

/// Rows of odd lengths have packets of one element; there are enough of them that a thread takes several.
TEST_F(Emitted, ThreadsTakeSeveralElementsOfOddRowsAndKnowWhereTheyAre) {
    CudaLimits few;
    few.multiprocessors = 1;
    few.threads_per_sm = 64;
    KernelBuilder b;
    const AxisId i = b.axis(), j = b.axis();
    const ArgId row = b.arg(ArgRole::Stride);
    const uint16_t in = b.buffer(DType::I32, BufferMode::In), out = b.buffer(DType::I32, BufferMode::Out);
    b.begin_phase({i, j}, true);
    const auto at = [&](uint16_t buffer) {
        return Access{buffer, kNoArg, {{i, StrideClass::Strided, row}, along(j)}, {}, kNoValue};
    };
    b.store(at(out), b.add(b.load(at(in)), b.cast(b.axis_index(j), DType::I32)));
    b.end_phase();
    const Launch l = scheduled({b.take(), {70, 33, 35}, {}, {70 * 35, 70 * 35}, 0}, few);
    EXPECT_EQ(l.kernel.phases[0].cuda().vector, 1);
    EXPECT_GT(l.kernel.phases[0].cuda().unroll, 1);
    expect_bits(l, "odd rows");
}

/// A thread has all of a row.
TEST_F(Emitted, ShortRowsAreOneThreadsEach) {
    for (const auto &[t, accumulate] : {std::pair{DType::F32, DType::F32},
                                        {DType::F16, DType::F32},
                                        {DType::BF16, DType::F32},
                                        {DType::F64, DType::F64},
                                        {DType::I32, DType::I64},
                                        {DType::U8, DType::I32}})
        for (const int64_t n : {0, 1, 2, 3, 4, 7, 8}) {
            const Launch l =
                scheduled(row_kernel(t, accumulate, 300, n, t == DType::U8 ? n + 1 : (n + 8) / 8 * 8));
            EXPECT_EQ(l.kernel.phases[0].cuda().row_threads, 1);
            expect_bits(l, std::string(name(t)) + " rows of " + std::to_string(n), {.most_blocks = 2});
        }
}

/// Longer ones are those of two to eight threads, which have 32 bytes of them each and neighbours of a
/// sector.
TEST_F(Emitted, RowsOfAWarpsPartHaveAsManyThreadsAsTheyFill) {
    struct Case {
        DType t, accumulate;
        int threads[4]; // of rows of 9 to 16, to 32, to 64, and of 65
    };
    for (const Case &c : {Case{DType::F32, DType::F32, {2, 4, 8, 16}},
                          {DType::F16, DType::F32, {4, 4, 8, 8}},
                          {DType::BF16, DType::F32, {4, 4, 8, 8}},
                          {DType::F64, DType::F64, {4, 8, 16, 16}},
                          {DType::F32, DType::F64, {2, 4, 8, 16}},
                          {DType::I32, DType::I64, {2, 4, 8, 16}},
                          {DType::U8, DType::I32, {8, 8, 8, 8}}})
        for (const auto &[n, length] :
             {std::pair{9, 0}, {15, 0}, {16, 0}, {17, 1}, {31, 1}, {32, 1}, {33, 2}, {64, 2}, {65, 3}}) {
            const Launch l =
                scheduled(row_kernel(c.t, c.accumulate, 70, n, c.t == DType::U8 ? n + 1 : (n + 8) / 8 * 8));
            EXPECT_EQ(l.kernel.phases[0].cuda().row_threads, c.threads[length]) << name(c.t) << " of " << n;
            expect_bits(l, std::string(name(c.t)) + " rows of " + std::to_string(n), {.most_blocks = 2});
        }
}

TEST_F(Emitted, RowsOfEveryTypeFoldInItsLanes) {
    for (const auto &[t, accumulate] : {std::pair{DType::F16, DType::F32},
                                        {DType::BF16, DType::F32},
                                        {DType::F64, DType::F64},
                                        {DType::F32, DType::F64},
                                        {DType::I32, DType::I64},
                                        {DType::I16, DType::I32}})
        for (const int64_t n : {40, 1100})
            expect_bits(scheduled(row_kernel(t, accumulate, 5, n, n + 4)),
                        std::string(name(t)) + " rows of " + std::to_string(n));
}

TEST_F(Emitted, LongRowsFoldResultsOfChunksOfChunks) {
    for (const int64_t n : {int64_t{70000}, int64_t{1} << 20, (int64_t{1} << 20) + 5000}) {
        KernelBuilder b;
        const AxisId r = b.axis(), i = b.axis();
        const ArgId step = b.arg(ArgRole::Stride);
        const uint16_t in = b.buffer(DType::F32, BufferMode::In), out = b.buffer(DType::F32, BufferMode::Out);
        b.begin_phase({r}, false);
        const uint32_t loop = b.begin_loop(i, LoopOrder::Lanes, kLaneChunk);
        b.reduce(ReduceOp::Add,
                 b.load({in, kNoArg, {{r, StrideClass::Strided, step}, along(i)}, {}, kNoValue}));
        b.end_loop();
        b.store(contiguous(out, r), b.loop_result(loop, 0));
        b.end_phase();
        Launch l = scheduled({b.kernel(), {1, n, n}, {}, {n, 1}, 0});
        ASSERT_EQ(l.kernel.phases.size(), 2U) << "a full reduction is split";
        expect_bits(l, "a sum of " + std::to_string(n), {.most_blocks = 64, .corners = false});
        // As rows that have a block each.
        CudaLimits few;
        few.multiprocessors = 1;
        const Launch whole = scheduled({b.kernel(), {2, n, n}, {}, {2 * n, 2}, 0}, few);
        ASSERT_EQ(whole.kernel.phases.size(), 1U);
        expect_bits(whole, "rows of " + std::to_string(n), {.corners = false});
    }
}

TEST_F(Emitted, ColumnsFoldInOrderOfTheirChunks) {
    for (const int64_t rows : {0, 1, 100, 129, 400, 20000})
        for (const DType t : {DType::F32, DType::F64, DType::I32}) {
            KernelBuilder b;
            const AxisId r = b.axis(), i = b.axis();
            const uint16_t in = b.buffer(t, BufferMode::In), out = b.buffer(t, BufferMode::Out);
            const ArgId step = b.arg(ArgRole::Stride);
            b.begin_phase({i}, true);
            const uint32_t loop = b.begin_loop(r, LoopOrder::Sequential, kSequentialChunk);
            b.reduce(ReduceOp::Add,
                     b.load({in, kNoArg, {{r, StrideClass::Strided, step}, along(i)}, {}, kNoValue}));
            b.end_loop();
            b.store(contiguous(out, i), b.loop_result(loop, 0));
            b.end_phase();
            expect_bits(scheduled({b.take(), {rows, 5, 5}, {}, {rows * 5, 5}, 0}),
                        std::to_string(rows) + " rows", {.corners = false});
        }
}

TEST_F(Emitted, ProductsOfIntegersAreTheInterpreters) {
    for (const DType t : {DType::I8, DType::U8, DType::I16, DType::I32, DType::I64})
        for (const bool turned : {false, true})
            expect_bits(scheduled(product(t, 33, 20, 19, turned)), std::string(name(t)));
}

template <class T>
void expect_product(DType t, int64_t m, int64_t n, int64_t k, bool turned) {
    const Launch l = scheduled(product(t, m, n, k, turned));
    Outcome o = prepare(l, 1, false);
    const auto read = [&](size_t buffer, int64_t i) {
        uint64_t bits = 0;
        std::memcpy(&bits, o.buffers[buffer].data() + i * size_of(t), static_cast<size_t>(size_of(t)));
        const uint64_t wide =
            evaluate(KOp::Cast, std::is_same_v<T, double> ? DType::F64 : DType::F32, t, &bits);
        if constexpr (std::is_same_v<T, double>)
            return std::bit_cast<double>(wide);
        else
            return std::bit_cast<float>(static_cast<uint32_t>(wide));
    };
    const Outcome found = run_cuda(l, {.corners = false});
    for (int64_t b = 0; b < 2; ++b)
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
                T sum = 0; // ascending, one multiply-add after the other
                for (int64_t d = 0; d < k; ++d)
                    sum =
                        std::fma(read(0, (b * m + i) * k + d), read(1, turned ? j * k + d : d * n + j), sum);
                sum += 1;
                uint64_t wide = 0;
                std::memcpy(&wide, &sum, sizeof sum);
                const uint64_t expected =
                    evaluate(KOp::Cast, t, std::is_same_v<T, double> ? DType::F64 : DType::F32, &wide);
                uint64_t got = 0;
                std::memcpy(&got, found.buffers[2].data() + ((b * m + i) * n + j) * size_of(t),
                            static_cast<size_t>(size_of(t)));
                ASSERT_EQ(got, expected) << name(t) << " at " << b << ", " << i << ", " << j;
            }
}

TEST_F(Emitted, ProductsOfFloatsAreFusedMultiplyAddsInAscendingOrder) {
    for (const bool turned : {false, true}) {
        expect_product<float>(DType::F32, 33, 20, 50, turned);
        expect_product<float>(DType::F16, 17, 3, 16, turned);
        expect_product<float>(DType::BF16, 5, 40, 33, turned);
        expect_product<double>(DType::F64, 20, 17, 40, turned);
        expect_product<float>(DType::F32, 3, 2, 0, turned);
    }
}

TEST_F(Emitted, SegmentsComeAsParametersAndTablesOfEverySize) {
    std::vector<Launch> segments;
    for (const int64_t n : {1000, 1, 0, 64, 5000})
        segments.push_back(
            scheduled(elementwise({DType::F32, DType::F32}, n, 64,
                                  [](KernelBuilder &b, auto &x) { return b.mul(b.add(x[0], x[1]), x[0]); })));
    for (const SegmentTier tier : {SegmentTier::Table, SegmentTier::Large, SegmentTier::Memory})
        for (const int shift : {0, 1}) {
            for (Launch &l : segments) {
                CudaSchedule &cuda = l.kernel.phases[0].on_cuda();
                cuda = segments[0].kernel.phases[0].cuda(); // steps with equal kernels become segments
                cuda.segments = tier;
                cuda.vector = 4;
            }
            const auto found = run_cuda(segments, {.shift = shift});
            for (size_t s = 0; s < segments.size(); ++s)
                EXPECT_EQ(cuda_difference(segments[s], run_interpreted(segments[s], 1 + s), found[s]), "")
                    << name(tier) << ", segment " << s << "\n"
                    << cuda_text(segments[s]);
        }
}

TEST_F(Emitted, TilesHaveNoBankConflicts) {
    for (const auto &[rows, columns] : {std::pair{128, 96}, {100, 90}})
        for (const int shift : {0, 1}) {
            uint64_t conflicts = 1;
            const Launch l = scheduled(transpose_kernel(rows, columns));
            run_cuda(l, {.shift = shift, .bank_conflicts = &conflicts});
            EXPECT_EQ(conflicts, 0u) << rows << " x " << columns << "\n" << cuda_text(l);
        }
}

/// Softmax of rows of 1001 f32, whose results are larger than the half of L2: their exponentials are kept in
/// shared memory, and no store past the cache goes there.
TEST_F(Emitted, KeptRowsStayWhereTheyAreWhereResultsGoPastTheCache) {
    const CudaLimits limits{.cluster_blocks = 8};
    for (const auto &[t, length] : {std::pair{DType::F32, 1001},
                                    {DType::BF16, 1001},
                                    {DType::F64, 30000},
                                    {DType::F32, 100000},
                                    {DType::F32, 300000}}) {
        Launch l = scheduled(row_kernel(t, t == DType::F64 ? t : DType::F32, 3, length, length), limits);
        for (Phase &phase : l.kernel.phases)
            phase.on_cuda().stores = StoreTier::Streaming;
        EXPECT_NE(cuda_text(l).find("store<true>"), std::string::npos);
        expect_bits(l, fmt::format("{} {}", length, name(t)), {.corners = false});
    }
}

TEST_F(Emitted, IndicesOf64BitsGiveTheSameBits) {
    std::vector<Launch> all = {
        scheduled(row_kernel(DType::F32, DType::F32, 5, 1500, 1600)),
        scheduled(product(DType::I32, 20, 20, 20, true)),
        scheduled(rows(DType::F32, 7, 64, 64, [](KernelBuilder &b, KValue x) { return b.exp(x); }))};
    for (Launch &l : all) {
        EXPECT_TRUE(l.kernel.phases[0].cuda().index32);
        for (Phase &phase : l.kernel.phases)
            phase.on_cuda().index32 = false;
        expect_bits(l, "64 bits");
    }
    // What is too large for 32 bits is not put into them.
    const Launch large =
        scheduled(rows(DType::U8, int64_t{1} << 20, 4096, 4096, [](KernelBuilder &, KValue x) { return x; }));
    EXPECT_FALSE(large.kernel.phases[0].cuda().index32);
    // As many rows as no 32 bits count.
    constexpr int64_t kRows = (int64_t{1} << 31) + 3;
    const Launch many = scheduled(rows(DType::U8, kRows, 1, 1, [](KernelBuilder &, KValue x) { return x; }));
    const Launch norms = scheduled(row_kernel(DType::U8, DType::I32, kRows, 1, 1));
    for (const Launch *const l : {&many, &norms})
        for (const Phase &phase : l->kernel.phases)
            EXPECT_FALSE(phase.cuda().index32);
}

// --- what comes of graphs

TEST_F(Emitted, RandomGraphsGiveTheInterpretersBitsKernelByKernel) {
    Target target = cuda_test_target(1);
    target.modes.verify = true;
    RandomGraphOptions options;
    options.devices = {{DeviceKind::Cuda, 0}};
    options.max_elements = 3000;
    options.max_extent = 40;
    options.max_nodes = 14;
    size_t kernels = 0;
    for (uint64_t seed = 0; seed < 80; ++seed) {
        if (seed == 40) { // as under autocast
            options.dtypes = {DType::F32, DType::F16, DType::BF16};
            options.casts = 40;
        }
        const RandomGraph random = random_graph(seed, options);
        const Program program = passes::compile(random.graph, target).program;
        kernels += program.kernels.size();
        expect_program(program, random.graph.runtime_words(), "seed " + std::to_string(seed),
                       {.most_blocks = 7, .seed = seed, .corners = false});
        if (HasFatalFailure())
            return;
    }
    EXPECT_GT(kernels, 120U);
}

/// Softmax of rows, what it keeps of them, and the sum of the logarithms of their sums, whose phases have
/// nothing to keep: cross entropy with its gradient.
TEST_F(Emitted, ASumOfWhatRowsGiveIsTheLastPhasesOfTheirKernel) {
    const Target target = cuda_test_target(1);
    for (const auto &[rows, length] : {std::pair{64, 10}, {40, 100}, {9, 1500}, {3, 40000}})
        for (const char *t : {"f32", "f64"}) {
            const std::string row = fmt::format("{}[{},{}] @cuda:0", t, rows, length),
                              column = fmt::format("{}[{},1] @cuda:0", t, rows),
                              list = fmt::format("{}[{}] @cuda:0", t, rows);
            const Graph graph = parse_graph(
                fmt::format("lazuli 1\ngraph @main(%x: {0} = random(1)) {{\n"
                            "  %0 = max %x {{axes=[1]}} : {2}\n  %1 = reshape %0 : {1}\n"
                            "  %2 = sub %x, %1 : {0}\n  %3 = exp %2 : {0}\n  %4 = sum %3 {{axes=[1]}} : {2}\n"
                            "  %5 = reshape %4 : {1}\n  %6 = div %3, %5 : {0}\n  %7 = log %4 : {2}\n"
                            "  %8 = sum %7 {{axes=[0]}} : {3}[] @cuda:0\n  return %6, %8\n}}\n",
                            row, column, list, t));
            const Program program = passes::compile(graph, target).program;
            const std::string what = fmt::format("{} rows of {} {}", rows, length, t);
            ASSERT_EQ(program.kernels.size(), 1U) << what;
            EXPECT_GE(program.kernels[0].phases.size(), 2U) << what;
            EXPECT_NE(std::ranges::find(program.kernels[0].buffers, BufferMode::Worker, &KBuffer::mode),
                      program.kernels[0].buffers.end())
                << what;
            expect_program(program, graph.runtime_words(), what,
                           {.most_blocks = 7, .seed = 3, .corners = false});
        }
}

/// The schedule counts what the emitter takes.
TEST_F(Emitted, RowsTakeNoMoreSharedMemoryThanTheDeviceHas) {
    for (const int64_t room : {99 << 10, 227 << 10})
        for (const DType t : {DType::F32, DType::F64})
            for (const int64_t length : {20, 3000, 20000, 70000}) {
                // Four sums of a row of parts.
                KernelBuilder b;
                const AxisId r = b.axis(), part = b.axis(), i = b.axis();
                const ArgId row = b.arg(ArgRole::Stride), step = b.arg(ArgRole::Stride);
                const uint16_t in = b.buffer(t, BufferMode::In);
                std::vector<uint16_t> out;
                for (int k = 0; k < 4; ++k)
                    out.push_back(b.buffer(t, BufferMode::Out));
                b.begin_phase({r}, false);
                const uint32_t outer = b.begin_loop(part, LoopOrder::Sequential, kSequentialChunk);
                const uint32_t inner = b.begin_loop(i, LoopOrder::Lanes, kLaneChunk);
                const KValue x =
                    b.load({in,
                            kNoArg,
                            {{r, StrideClass::Strided, row}, {part, StrideClass::Strided, step}, along(i)},
                            {},
                            kNoValue});
                for (int k = 0; k < 4; ++k)
                    b.reduce(ReduceOp::Add, b.add(x, b.constant(t, k)));
                b.end_loop();
                for (int k = 0; k < 4; ++k)
                    b.reduce(ReduceOp::Add, b.loop_result(inner, static_cast<uint32_t>(k)));
                b.end_loop();
                for (int k = 0; k < 4; ++k)
                    b.store(contiguous(out[static_cast<size_t>(k)], r),
                            b.loop_result(outer, static_cast<uint32_t>(k)));
                b.end_phase();
                const std::string what = fmt::format("{} {} in {} bytes", length, name(t), room);
                const CudaLimits limits{.shared_per_block = room};
                const Launch parts = scheduled(
                    {b.take(), {5, 2, length, 2 * length, length}, {}, {10 * length, 5, 5, 5, 5}, 0}, limits);
                for (const Launch &l : {parts, scheduled(row_kernel(t, t, 9, length, length), limits)}) {
                    for (const Kernel &kernel : {l.kernel, any_address(l.kernel)}) {
                        const auto source = codegen::cuda::make_source(kernel);
                        for (size_t p = 0; p < source.phases.size(); ++p) {
                            EXPECT_LE(source.phases[p].shared_bytes, room) << what << "\n" << print(kernel);
                            EXPECT_LE(source.phases[p].shared_bytes,
                                      row_shared_bytes(kernel, kernel.phases[p]))
                                << what << "\n"
                                << print(kernel);
                        }
                    }
                    if (length <= 3000)
                        expect_bits(l, what, {.corners = false});
                }
            }
}

/// What the compiler for devices makes; whether kernels of every kind compile is asked in cubins_test.cpp.
TEST_F(Emitted, KernelsBecomeCubinsForEveryArchitecture) {
    const auto corpus = [](int sm) {
        const CudaLimits limits{.sm = sm, .cluster_blocks = sm < 90 ? 1 : 8}; // 9.0 has clusters first
        EXPECT_EQ(scheduled(row_kernel(DType::F32, DType::F32, 9, 100000, 100000), limits)
                      .kernel.phases[0]
                      .cuda()
                      .cluster_blocks,
                  sm < 90 ? 1 : 4);
        return std::vector<Kernel>{scheduled(product(DType::F16, 100, 100, 100, false), limits).kernel,
                                   scheduled(elementwise({DType::BF16, DType::F32}, 4096, 64,
                                                         [](KernelBuilder &b, auto &x) {
                                                             return b.cast(
                                                                 b.exp(b.add(b.cast(x[0], DType::F32), x[1])),
                                                                 DType::BF16);
                                                         }),
                                             limits)
                                       .kernel};
    };
    const codegen::Nvrtc nvrtc = codegen::load_nvrtc(nvrtc_library());
    int count = 0;
    ASSERT_EQ(nvrtc.num_archs(&count), 0);
    std::vector<int> known(static_cast<size_t>(count));
    ASSERT_EQ(nvrtc.archs(known.data()), 0);
    for (const int sm : {80, 90, 100, 120}) {
        if (std::ranges::find(known, sm) == known.end()) {
            std::cout << "This NVRTC does not know sm_" << sm << ", which is left out.\n";
            continue;
        }
        const auto compiler = codegen::make_cuda_compiler(nvrtc, sm);
        for (const Kernel &kernel : corpus(sm)) {
            const CompiledKernel code = compiler->compile(kernel);
            EXPECT_EQ(code.format, CodeFormat::Cubin) << sm;
            ASSERT_GT(code.object.size(), 4U);
            EXPECT_EQ(std::memcmp(code.object.data(),
                                  "\x7f"
                                  "ELF",
                                  4),
                      0);
        }
    }
    // A device that is newer than NVRTC gets PTX of the newest architecture, one that is too old a sentence.
    const auto newer = codegen::make_cuda_compiler(nvrtc, 999);
    EXPECT_EQ(newer->compile(corpus(90)[1]).format, CodeFormat::Ptx);
    EXPECT_NE(newer->key(), codegen::make_cuda_compiler(nvrtc, 90)->key());
    EXPECT_THROW(codegen::make_cuda_compiler(nvrtc, 10), Failure);
}

} // namespace
} // namespace lz::test
