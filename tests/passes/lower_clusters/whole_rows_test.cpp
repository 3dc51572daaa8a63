/// Sums of rows side by side whose matrix is read in the order of memory, and shared by threads row by row:
/// where that is done, and that it gives the bits of the kernel that does not.

#include "ir/graph/builder.h"
#include "ir/text/text.h"
#include "support/graph_inputs.h"
#include "support/run_lowered.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <random>
#include <string>

namespace lz {
namespace {

using namespace ir;
using test::finish;

/// Bytes of a second-level cache without room for lanes: kernels are others then.
constexpr int64_t kNoCache = 0;

Target target(int threads, int registers = 32, int64_t l2_bytes = 1 << 20) {
    Target t = test_target();
    for (DeviceInfo &device : t.devices)
        if (!device.runs_cuda()) {
            device.cpu().threads = threads;
            device.cpu().isa.vector_bytes = 64;
            device.cpu().isa.vector_registers = registers;
            device.cpu().l2_bytes = l2_bytes;
        }
    return t;
}

/// tanh(x times w + b) of each of `batch` rows and matrices, as `fuse` has products of a row: sums of
/// products, of each column of w.
Graph product(DType dtype, int64_t batch, int64_t k, int64_t n) {
    GraphBuilder b;
    const ValueId x = b.param({dtype, {batch, 1, k}, kCpu}, "x");
    const ValueId w = b.param({dtype, {batch, k, n}, kCpu}, "w");
    const ValueId bias = b.param({dtype, {n}, kCpu}, "b");
    const int64_t last = 2;
    const ValueId sums = b.reduce(
        Op::ReduceSum, b.binary(Op::Mul, b.permute(w, std::array<int64_t, 3>{0, 2, 1}), x), {&last, 1});
    return finish(b, {b.unary(Op::Tanh, b.binary(Op::Add, sums, bias))});
}

struct Lowered {
    Graph graph;
    Program program;
};
Lowered lower(const Graph &graph, const Target &target) {
    Graph fused = passes::fuse(graph, target);
    Program program = passes::lower_clusters(fused, target);
    verify(program);
    return {std::move(fused), std::move(program)};
}

/// Work items that share the rows of a matrix, or nothing where it is not read so.
std::optional<int64_t> shared(const Program &program) {
    for (const Kernel &kernel : program.kernels)
        for (const Phase &phase : kernel.phases)
            if (phase.cpu().whole_rows != 0)
                return kernel.loops[0].step / phase.cpu().whole_rows;
    return {};
}

void expect_same_results(const Graph &graph, const Lowered &whole, const Lowered &plain) {
    const std::vector<HostTensor> inputs = test::random_inputs(graph);
    const auto want = test::LoweredRun(plain.graph, plain.program, inputs).run();
    const auto have = test::LoweredRun(whole.graph, whole.program, inputs).run();
    for (size_t i = 0; i < want.size(); ++i)
        EXPECT_TRUE(have[i].bytes == want[i].bytes) << print(whole.program);
}

void expect_same_bits(const Graph &graph, int threads, int64_t items) {
    const Lowered whole = lower(graph, target(threads)), plain = lower(graph, target(threads, 32, kNoCache));
    EXPECT_EQ(shared(whole.program), items) << print(whole.program);
    EXPECT_EQ(shared(plain.program), std::nullopt);
    // Launches with scratch are taken to be faster, which decides whether sleeping threads are woken.
    EXPECT_EQ(whole.program.steps[0].cost, plain.program.steps[0].cost * kProductRate);
    expect_same_results(graph, whole, plain);
}

TEST(WholeRows, ThreadsShareTheRowsOfALargeMatrix) {
    // As many as a power of two divides, but no more than there are lanes beside the chunks.
    for (const auto &[threads, shared] :
         {std::pair{1, 1}, {2, 2}, {3, 1}, {4, 4}, {6, 2}, {16, 16}, {48, 16}, {64, 16}}) {
        SCOPED_TRACE(threads);
        expect_same_bits(product(DType::F32, 1, 512, 1088), threads, shared);
    }
    expect_same_bits(product(DType::F64, 1, 2050, 192), 16, 8);
    expect_same_bits(product(DType::BF16, 1, 1024, 1088), 2, 2);
}

TEST(WholeRows, LanesOfWideMatricesLeaveRoomInTheCache) {
    for (const auto &[threads, n] : {std::pair{1, 8192}, {2, 8192}, {1, 2048}})
        for (const auto &[l2_bytes, most] :
             {std::pair{1 << 18, 1 << 18}, {1 << 19, 1 << 19}, {1 << 20, 1 << 19}, {2 << 20, 384 << 10}}) {
            const Graph graph = product(DType::F32, 1, 1024, n);
            // With some bytes that are not the lanes'.
            const int64_t bytes = lower(graph, target(threads, 32, l2_bytes)).program.steps[0].worker_bytes;
            EXPECT_LE(bytes, most + 1024) << threads << " " << n << " " << l2_bytes;
            EXPECT_GT(bytes, most / 2) << threads << " " << n << " " << l2_bytes;
        }
}

TEST(WholeRows, ChunksWithoutElementsAddNothing) {
    for (const int64_t k : {1024, 1025, 2048, 3072, 4097, 5000})
        for (const int threads : {1, 2, 4})
            expect_same_bits(product(DType::F32, 1, k, 1000000 / k + 100), threads, threads);
}

TEST(WholeRows, ManyProductsAreSharedAsAWhole) {
    expect_same_bits(product(DType::F32, 4, 300, 640), 2, 1);
    expect_same_bits(product(DType::F32, 3, 300, 640), 2, 2);
}

/// Sums over k of x * w, of [batch, k, n], whose results stand in an order of axes.
Graph sums(DType dtype, int64_t batch, int64_t k, int64_t n, bool batch_last) {
    GraphBuilder b;
    const ValueId w = b.param({dtype, {batch, k, n}, kCpu}, "w");
    const ValueId x = b.param({dtype, {batch, k, 1}, kCpu}, "x");
    const int64_t last = 2;
    const auto turned = batch_last ? std::array<int64_t, 3>{2, 0, 1} : std::array<int64_t, 3>{0, 2, 1};
    return finish(b, {b.reduce(Op::ReduceSum, b.permute(b.binary(Op::Mul, w, x), turned), {&last, 1})});
}

/// The axis along which rows lie side by side is the first one of the grid.
TEST(WholeRows, BatchesMayBeTheInnerAxis) {
    expect_same_bits(sums(DType::F32, 3, 3000, 300, true), 2, 2);
    expect_same_bits(sums(DType::F32, 5, 1500, 400, true), 4, 4);
    expect_same_bits(sums(DType::F32, 2, 1500, 400, true), 2, 1);
}

TEST(WholeRows, RandomShapesHaveTheBitsOfOtherKernels) {
    std::mt19937 random(1);
    const auto between = [&](int64_t low, int64_t high) {
        return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    int found = 0;
    for (int i = 0; i < 40; ++i) {
        const DType dtype =
            std::array{DType::F32, DType::F64, DType::BF16}[static_cast<size_t>(between(0, 2))];
        const int64_t batch = between(1, 5), k = between(120, 3000);
        const int64_t least = (int64_t{4} << 20) / size_of(dtype) / batch / k;
        const Graph graph = sums(dtype, batch, k, between(least, least * 3 / 2 + 64), between(0, 1) == 1);
        const auto threads = static_cast<int>(between(1, 8));
        const Lowered whole = lower(graph, target(threads)),
                      plain = lower(graph, target(threads, 32, kNoCache));
        found += shared(whole.program) ? 1 : 0;
        SCOPED_TRACE(i);
        expect_same_results(graph, whole, plain);
    }
    EXPECT_GT(found, 15);
}

TEST(WholeRows, SmallShortAndLongOnesAreNotReadSo) {
    const auto shared_by = [](int64_t k, int64_t n, int registers = 32) {
        return shared(lower(product(DType::F32, 1, k, n), target(2, registers)).program);
    };
    EXPECT_EQ(shared_by(512, 512), std::nullopt);
    EXPECT_EQ(shared_by(1000, 1000), std::nullopt); // rows begin within cache lines
    EXPECT_NE(shared_by(1000, 1000, 16), std::nullopt);
    EXPECT_NE(shared_by(1024, 1024), std::nullopt);
    EXPECT_NE(shared_by(1024, 1024, 16), std::nullopt);
    EXPECT_NE(shared_by(1100, 1001), std::nullopt);
    EXPECT_EQ(shared_by(200, 20000), std::nullopt);
    EXPECT_EQ(shared_by(17000, 640), std::nullopt);
    EXPECT_EQ(shared_by(16384, 192), std::nullopt);
    EXPECT_NE(shared_by(16384, 256), std::nullopt);
}

} // namespace
} // namespace lz
