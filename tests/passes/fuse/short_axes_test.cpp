/// Reductions beside short axes keep their bits: each dtype, each reduction, axes in each place, special
/// values.

#include "ir/graph/builder.h"
#include "ir/text/text.h"
#include "passes/fuse/short_axes.h"
#include "support/graph_inputs.h"
#include "support/run_lowered.h"
#include "tests/support/random/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

namespace lz {
namespace {

using namespace ir;
using test::finish;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Values that many folds of are sensitive to their order; some of them special.
std::vector<HostTensor> sensitive_inputs(const Graph &graph, bool special) {
    std::vector<HostTensor> inputs;
    uint64_t state = 1;
    for (const Param &p : graph.params) {
        const TensorType &type = graph.type(p.value);
        std::vector<double> values;
        for (int64_t k = 0; k < type.numel(); ++k) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            const auto bits = static_cast<int>(state >> 40);
            double value = static_cast<double>(bits % 4093 - 2046) / (is_float(type.dtype) ? 37.0 : 16.0);
            if (special && bits % 5 == 0)
                value =
                    std::array{0.0,  -0.0, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(),
                               1e-40}[static_cast<size_t>(bits / 5 % 6)];
            if (!is_float(type.dtype))
                value = static_cast<double>(bits % 100) - (is_signed(type.dtype) ? 50 : 0);
            values.push_back(type.dtype == DType::Bool ? static_cast<double>(bits % 2) : value);
        }
        inputs.push_back(from_doubles(type, values));
    }
    return inputs;
}

/// Fused and each operation alone: equal bits. Returns the launches of the fused one.
int launches(const Graph &graph, bool special = false) {
    verify(graph);
    const auto inputs = sensitive_inputs(graph, special);
    int fused_launches = 0;
    const auto fused = test::run_lowered(graph, inputs, true, &fused_launches);
    const auto single = test::run_lowered(graph, inputs, false);
    for (size_t i = 0; i < fused.size(); ++i)
        EXPECT_EQ(fused[i].bytes, single[i].bytes) << "result " << i << " of\n" << print(graph);
    return fused_launches;
}

size_t count(const Graph &graph, Op op) {
    const Graph fused = passes::fuse(graph, test_target());
    return static_cast<size_t>(std::ranges::count(fused.nodes(), op, &Node::op));
}

constexpr Op kFolds[] = {Op::ReduceSum, Op::ReduceProd, Op::ReduceMax, Op::ReduceMin};

/// The vectors of 40 points beside those of 30, of `size` elements along `axis`, and their products.
struct Pairs {
    Pairs(DType dtype, int64_t size, int axis) {
        const auto shape = [&](int64_t a, int64_t b) {
            Shape s;
            for (int d = 0, k = 0; d < 3; ++d)
                s.push_back(d == axis ? size : k++ == 0 ? a : b);
            return s;
        };
        x = b.param({dtype, shape(40, 1), kCpu}, "x");
        y = b.param({dtype, shape(1, 30), kCpu}, "y");
        products = b.binary(dtype == DType::Bool ? Op::And : Op::Mul, x, y);
    }
    GraphBuilder b;
    ValueId x, y, products;
};

TEST(ShortAxes, AreFoldedInTheOrderOfReductions) {
    for (const DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8, DType::I32,
                              DType::U8, DType::I64, DType::Bool})
        for (int axis = 0; axis < 3; ++axis)
            for (const int64_t size : {2, 3, 4, 5, 6, 7, 8}) {
                if (size != 3 && size != 7 && dtype != DType::F32)
                    continue;
                for (const Op op : kFolds) {
                    if (dtype == DType::Bool && (op == Op::ReduceSum || op == Op::ReduceProd))
                        continue;
                    Pairs pairs(dtype, size, axis);
                    const Graph graph =
                        finish(pairs.b, {pairs.b.reduce(op, pairs.products, std::array{int64_t{axis}})});
                    EXPECT_EQ(count(graph, op), 0u) << print(graph);
                    EXPECT_EQ(launches(graph), 1);
                    if (is_float(dtype))
                        launches(graph, true);
                }
            }
}

TEST(ShortAxes, ThatAreKeptAreReductionsSideBySide) {
    for (const DType dtype : {DType::F32, DType::F16, DType::I32})
        for (const int64_t axis : {0, 1})
            for (const int64_t size : {2, 3, 5})
                for (const Op op : kFolds) {
                    Pairs pairs(dtype, size, 2);
                    GraphBuilder &b = pairs.b;
                    const ValueId lengths = b.reduce(Op::ReduceMax, pairs.products, std::array{int64_t{2}});
                    const ValueId beside = b.reshape(lengths, {40, 30, 1});
                    const ValueId terms = b.binary(Op::Mul, pairs.products, beside);
                    const Graph graph = finish(b, {b.reduce(op, terms, std::array{axis})});
                    EXPECT_EQ(count(graph, op), static_cast<size_t>(size)) << print(graph);
                    EXPECT_EQ(launches(graph), 2);
                    if (is_float(dtype))
                        launches(graph, true);
                }
}

/// Reductions that share nothing would be as many kernels.
TEST(ShortAxes, ThatAreKeptBesideNothingStay) {
    Pairs pairs(DType::F32, 3, 2);
    const Graph graph =
        finish(pairs.b, {pairs.b.reduce(Op::ReduceSum, pairs.products, std::array{int64_t{1}})});
    EXPECT_EQ(count(graph, Op::ReduceSum), 1u);
    EXPECT_EQ(launches(graph), 1);
}

TEST(ShortAxes, OfWhatIsLargeStay) {
    GraphBuilder b;
    const ValueId x = b.param({DType::F32, {40, 30, 3}, kCpu}, "x");
    const ValueId y = b.unary(Op::Exp, x);
    const Graph graph = finish(b, {b.reduce(Op::ReduceSum, y, std::array{int64_t{2}})});
    EXPECT_EQ(count(graph, Op::ReduceSum), 1u);
    EXPECT_EQ(launches(graph), 1);
}

TEST(ShortAxes, OfWhatOthersReadAreNoReasonToComputeItAgain) {
    Pairs pairs(DType::F32, 3, 2);
    GraphBuilder &b = pairs.b;
    const ValueId dear = b.unary(Op::Exp, pairs.products);
    const ValueId sum = b.reduce(Op::ReduceSum, dear, std::array{int64_t{2}}),
                  other = b.reduce(Op::ReduceMax, dear, std::array<int64_t, 2>{0, 1});
    const Graph graph = finish(b, {sum, other});
    EXPECT_EQ(count(graph, Op::Exp), 1u);
    launches(graph);
}

/// What the user can hold is stored: it is read, and not made again.
TEST(ShortAxes, OfAResultStay) {
    Pairs pairs(DType::F32, 3, 2);
    const Graph graph = finish(
        pairs.b, {pairs.b.reduce(Op::ReduceSum, pairs.products, std::array{int64_t{2}}), pairs.products});
    EXPECT_EQ(count(graph, Op::ReduceSum), 1u);
    launches(graph);
}

TEST(ShortAxes, NearestCentersAreFoundDownColumns) {
    for (const DType dtype : {DType::F32, DType::F64, DType::F16})
        for (const int64_t terms : {2, 8, 64, 65})
            for (const Op op : {Op::ArgMin, Op::ArgMax}) {
                GraphBuilder b;
                const ValueId x = b.param({dtype, {1024, terms}, kCpu}, "x"),
                              centers = b.param({dtype, {16, terms}, kCpu}, "centers"),
                              lengths = b.param({dtype, {16}, kCpu}, "lengths");
                const ValueId product = b.matmul(x, b.permute(centers, std::array<int64_t, 2>{1, 0}));
                const ValueId distance = b.binary(Op::Sub, lengths, product);
                const Graph graph = finish(b, {b.add(op, {distance}, {1})});
                const bool exchanged = dtype != DType::F16 && terms <= 64;
                const Graph fused = passes::fuse(graph, test_target());
                for (const Node &node : fused.nodes())
                    if (node.op == op) {
                        EXPECT_EQ(fused.attrs(node).integer(attr::kAxis), exchanged ? 0 : 1) << print(fused);
                    }
                EXPECT_EQ(launches(graph), 2);
                launches(graph, true);
            }
}

TEST(ShortAxes, RandomPairsKeepTheirBits) {
    int written_out = 0;
    for (uint64_t seed = 1; seed <= 60; ++seed) {
        test::RandomGraphOptions options;
        options.pairs = 40;
        options.special_values = seed % 4 == 0;
        const Graph graph = test::random_graph(seed, options).graph;
        written_out += passes::unroll_short_axes(graph, test_target()).has_value();
        const auto inputs = test::inputs_of(graph);
        const auto fused = test::run_lowered(graph, inputs, true),
                   single = test::run_lowered(graph, inputs, false);
        for (size_t i = 0; i < fused.size(); ++i)
            ASSERT_EQ(fused[i].bytes, single[i].bytes) << "seed " << seed << ", result " << i << "\n"
                                                       << print(graph);
    }
    EXPECT_GE(written_out, 20);
}

} // namespace
} // namespace lz
