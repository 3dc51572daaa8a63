/// Kernel counts are contracts: what these programs cost must not grow.

#include "ir/graph/builder.h"
#include "ir/graph/verify.h"
#include "support/graph_inputs.h"
#include "support/run_lowered.h"
#include "tests/support/random/graph.h"

#include "ir/diagnostic.h"
#include "ir/text/text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lz {
namespace {

using namespace ir;
using test::finish, test::random_inputs;

ValueId mean_over(GraphBuilder &b, ValueId x, std::initializer_list<int64_t> axes) {
    const std::vector<int64_t> list(axes);
    const ValueId sum = b.reduce(Op::ReduceSum, x, list);
    const double n =
        static_cast<double>(b.graph().type(x).numel()) / static_cast<double>(b.graph().type(sum).numel());
    return b.binary(Op::Div, sum, b.literal(DType::F32, n));
}

/// Keeps the reduced last axis as an extent of 1 and repeats it.
ValueId over_rows(GraphBuilder &b, ValueId row, ValueId like) {
    const Shape shape = b.graph().type(like).shape;
    Shape keep = shape;
    keep[keep.rank() - 1] = 1;
    return b.broadcast(b.reshape(row, keep), shape);
}

ValueId last_axis(GraphBuilder &b, Op op, ValueId x) {
    const int64_t axis[] = {b.graph().type(x).shape.rank() - 1};
    return b.reduce(op, x, axis);
}

ValueId softmax(GraphBuilder &b, ValueId x) {
    const ValueId e = b.unary(Op::Exp, b.binary(Op::Sub, x, over_rows(b, last_axis(b, Op::ReduceMax, x), x)));
    return b.binary(Op::Div, e, over_rows(b, last_axis(b, Op::ReduceSum, e), e));
}

ValueId log_softmax(GraphBuilder &b, ValueId x) {
    const ValueId shifted = b.binary(Op::Sub, x, over_rows(b, last_axis(b, Op::ReduceMax, x), x));
    const ValueId sum = last_axis(b, Op::ReduceSum, b.unary(Op::Exp, shifted));
    return b.binary(Op::Sub, shifted, over_rows(b, b.unary(Op::Log, sum), x));
}

ValueId gelu(GraphBuilder &b, ValueId x) {
    const ValueId inner = b.unary(Op::Erf, b.binary(Op::Mul, x, b.literal(DType::F32, 0.70710678118654752)));
    const ValueId half = b.binary(Op::Mul, x, b.literal(DType::F32, 0.5));
    return b.binary(Op::Mul, half, b.binary(Op::Add, inner, b.literal(DType::F32, 1)));
}

/// x [m, k] times the transpose of w [n, k], and bias [n].
ValueId linear(GraphBuilder &b, ValueId x, ValueId w, ValueId bias) {
    const ValueId y = b.matmul(x, b.permute(w, std::array<int64_t, 2>{1, 0}));
    return b.binary(Op::Add, y, b.broadcast(bias, Shape(b.graph().type(y).shape)));
}

TensorType f32(std::initializer_list<int64_t> shape) {
    return {DType::F32, Shape(shape), kCpu};
}

/// Runs fused and each operation alone: equal bits, near the reference; says how many launches the fused one
/// has.
int launches(const Graph &graph, double tolerance = 1e-5) {
    verify(graph);
    const auto inputs = random_inputs(graph);
    int fused_launches = 0;
    const auto expected = interpret(graph, inputs);
    const auto fused = test::run_lowered(graph, inputs, true, &fused_launches);
    const auto single = test::run_lowered(graph, inputs, false);
    for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(fused[i].bytes, single[i].bytes) << "fusion changed bits of result " << i;
        const auto want = to_doubles(expected[i]), got = to_doubles(fused[i]);
        for (size_t k = 0; k < want.size(); ++k)
            EXPECT_NEAR(got[k], want[k], tolerance * (1 + std::fabs(want[k])))
                << "result " << i << " at " << k;
    }
    return fused_launches;
}

TEST(Fuse, AnElementwiseExpressionIsOneKernel) {
    GraphBuilder b;
    const ValueId x = b.param(f32({40, 30}), "a"), y = b.param(f32({40, 30}), "b"),
                  z = b.param(f32({40, 30}), "c");
    const ValueId t = b.unary(Op::Tanh, b.binary(Op::Add, b.binary(Op::Mul, x, y), z));
    const ValueId r = b.binary(Op::Add, b.binary(Op::Mul, t, b.constant(DType::F32, 0.5)), y);
    EXPECT_EQ(launches(finish(b, {r})), 1);
}

TEST(Fuse, SoftmaxIsOneKernel) {
    GraphBuilder b;
    EXPECT_EQ(launches(finish(b, {softmax(b, b.param(f32({17, 100}), "x"))})), 1);
}

TEST(Fuse, SoftmaxOfHigherRankIsOneKernel) {
    GraphBuilder b;
    EXPECT_EQ(launches(finish(b, {softmax(b, b.param(f32({3, 5, 7, 33}), "x"))})), 1);
}

TEST(Fuse, LogSoftmaxIsOneKernel) {
    GraphBuilder b;
    EXPECT_EQ(launches(finish(b, {log_softmax(b, b.param(f32({17, 100}), "x"))})), 1);
}

TEST(Fuse, LayerNormWithAffineIsOneKernel) {
    GraphBuilder b;
    const ValueId x = b.param(f32({12, 64}), "x"), w = b.param(f32({64}), "w"), c = b.param(f32({64}), "b");
    const ValueId centered = b.binary(Op::Sub, x, over_rows(b, mean_over(b, x, {1}), x));
    const ValueId variance = mean_over(b, b.binary(Op::Mul, centered, centered), {1});
    const ValueId scale = b.unary(Op::Rsqrt, b.binary(Op::Add, variance, b.constant(DType::F32, 1e-5)));
    const ValueId y = b.binary(Op::Mul, centered, over_rows(b, scale, x));
    const ValueId affine =
        b.binary(Op::Add, b.binary(Op::Mul, y, b.broadcast(w, {12, 64})), b.broadcast(c, {12, 64}));
    EXPECT_EQ(launches(finish(b, {affine})), 1);
}

TEST(Fuse, LayerNormThatReturnsItsStatisticsIsOneKernel) {
    GraphBuilder b;
    const ValueId x = b.param(f32({12, 64}), "x");
    const ValueId mean = mean_over(b, x, {1});
    const ValueId centered = b.binary(Op::Sub, x, over_rows(b, mean, x));
    const ValueId variance = mean_over(b, b.binary(Op::Mul, centered, centered), {1});
    const ValueId scale = b.unary(Op::Rsqrt, b.binary(Op::Add, variance, b.constant(DType::F32, 1e-5)));
    EXPECT_EQ(launches(finish(b, {b.binary(Op::Mul, centered, over_rows(b, scale, x)), mean, scale})), 1);
}

TEST(Fuse, StandardizingRowsIsOneKernel) {
    GraphBuilder b;
    const ValueId x = b.param(f32({9, 50}), "x");
    const ValueId centered = b.binary(Op::Sub, x, over_rows(b, mean_over(b, x, {1}), x));
    const ValueId deviation = b.unary(Op::Sqrt, mean_over(b, b.binary(Op::Mul, centered, centered), {1}));
    EXPECT_EQ(launches(finish(b, {b.binary(Op::Div, centered, over_rows(b, deviation, x))})), 1);
}

TEST(Fuse, StandardizingColumnsIsOneKernel) {
    GraphBuilder b;
    const ValueId x = b.param(f32({50, 9}), "x");
    const Shape shape{50, 9};
    const ValueId centered = b.binary(Op::Sub, x, b.broadcast(mean_over(b, x, {0}), shape));
    const ValueId deviation = b.unary(Op::Sqrt, mean_over(b, b.binary(Op::Mul, centered, centered), {0}));
    EXPECT_EQ(launches(finish(b, {b.binary(Op::Div, centered, b.broadcast(deviation, shape))})), 1);
}

TEST(Fuse, BatchNormOverThreeAxesIsOneKernel) {
    GraphBuilder b;
    const Shape shape{3, 4, 5, 6};
    const ValueId x = b.param({DType::F32, shape, kCpu}, "x");
    const auto repeated = [&](ValueId v) { return b.broadcast(b.reshape(v, {1, 4, 1, 1}), shape); };
    const ValueId centered = b.binary(Op::Sub, x, repeated(mean_over(b, x, {0, 2, 3})));
    const ValueId variance = mean_over(b, b.binary(Op::Mul, centered, centered), {0, 2, 3});
    const ValueId scale = b.unary(Op::Rsqrt, b.binary(Op::Add, variance, b.constant(DType::F32, 1e-5)));
    EXPECT_EQ(launches(finish(b, {b.binary(Op::Mul, centered, repeated(scale))})), 1);
}

TEST(Fuse, CrossEntropyToAScalarIsAtMostTwoKernels) {
    GraphBuilder b;
    const ValueId x = b.param(f32({16, 10}), "x");
    const ValueId target = b.param({DType::I64, {16}, kCpu}, "target");
    const ValueId picked = b.add(Op::Gather, {log_softmax(b, x), b.reshape(target, {16, 1})}, {1});
    const ValueId loss = b.unary(Op::Neg, mean_over(b, b.reshape(picked, {16}), {0}));
    EXPECT_LE(launches(finish(b, {loss})), 2);
}

TEST(Fuse, CrossEntropyThatKeepsProbabilitiesIsAtMostTwoKernels) {
    GraphBuilder b;
    const ValueId x = b.param(f32({16, 10}), "x");
    const ValueId target = b.param({DType::I64, {16}, kCpu}, "target");
    const ValueId log_p = log_softmax(b, x);
    const ValueId picked = b.add(Op::Gather, {log_p, b.reshape(target, {16, 1})}, {1});
    const ValueId loss = b.unary(Op::Neg, mean_over(b, b.reshape(picked, {16}), {0}));
    EXPECT_LE(launches(finish(b, {loss, b.unary(Op::Exp, log_p)})), 2);
}

TEST(Fuse, LinearWithBiasAndGeluIsOneKernel) {
    GraphBuilder b;
    const ValueId x = b.param(f32({13, 20}), "x"), w = b.param(f32({18, 20}), "w"),
                  c = b.param(f32({18}), "b");
    EXPECT_EQ(launches(finish(b, {gelu(b, linear(b, x, w, c))})), 1);
}

TEST(Fuse, AProductAddedToAResidualIsOneKernel) {
    GraphBuilder b;
    const ValueId x = b.param(f32({13, 20}), "x"), w = b.param(f32({20, 20}), "w"),
                  c = b.param(f32({20}), "b");
    EXPECT_EQ(launches(finish(b, {b.binary(Op::Add, x, linear(b, x, w, c))})), 1);
}

TEST(Fuse, ATwoLayerPerceptronIsTwoKernels) {
    GraphBuilder b;
    const ValueId x = b.param(f32({8, 20}), "x");
    const ValueId h = gelu(b, linear(b, x, b.param(f32({30, 20}), "w1"), b.param(f32({30}), "b1")));
    EXPECT_EQ(launches(finish(b, {linear(b, h, b.param(f32({10, 30}), "w2"), b.param(f32({10}), "b2"))})), 2);
}

TEST(Fuse, AnAdamStepOfTwentyTensorsIsOneLaunch) {
    GraphBuilder b;
    std::vector<ValueId> results;
    for (int64_t i = 0; i < 20; ++i) {
        const Shape shape = i % 2 ? Shape{i + 3} : Shape{i + 1, 7};
        const auto param = [&](const char *name) {
            return b.param({DType::F32, shape, kCpu}, name + std::to_string(i));
        };
        const auto scalar = [&](double v) { return b.broadcast(b.constant(DType::F32, v), shape); };
        const ValueId p = param("p"), g = param("g"), m = param("m"), v = param("v");
        const auto mix = [&](ValueId old, ValueId now, double beta) {
            return b.binary(Op::Add, b.binary(Op::Mul, old, scalar(beta)),
                            b.binary(Op::Mul, now, scalar(1 - beta)));
        };
        const ValueId m1 = mix(m, g, 0.9), v1 = mix(v, b.binary(Op::Mul, g, g), 0.999);
        const ValueId root = b.unary(Op::Sqrt, b.binary(Op::Mul, v1, scalar(1.5)));
        const ValueId step =
            b.binary(Op::Div, b.binary(Op::Mul, m1, scalar(0.01)), b.binary(Op::Add, root, scalar(1e-8)));
        for (const ValueId r : {b.binary(Op::Sub, p, step), m1, v1})
            results.push_back(r);
    }
    for (const ValueId r : results)
        b.graph().results.push_back(r);
    EXPECT_EQ(launches(b.take()), 1);
}

TEST(Fuse, AColumnSumOfAnElementwiseChainIsOneKernel) {
    GraphBuilder b;
    const ValueId x = b.param(f32({700, 20}), "x"), y = b.param(f32({700, 20}), "y");
    const ValueId chain = b.unary(Op::Exp, b.binary(Op::Mul, x, y));
    EXPECT_EQ(launches(finish(b, {b.reduce(Op::ReduceSum, chain, std::array<int64_t, 1>{0})})), 1);
}

TEST(Fuse, AFullSumOfSquaresIsOneKernel) {
    GraphBuilder b;
    const ValueId x = b.param(f32({300, 200}), "x");
    EXPECT_EQ(
        launches(finish(b, {b.reduce(Op::ReduceSum, b.binary(Op::Mul, x, x), std::array<int64_t, 2>{0, 1})}),
                 1e-4),
        1);
}

TEST(Fuse, ReshapesBetweenRowsAreFree) {
    GraphBuilder b;
    const ValueId x = b.param(f32({4, 6, 16}), "x"), y = b.param(f32({4, 6, 16}), "y");
    const ValueId flat = softmax(b, b.reshape(b.unary(Op::Neg, x), {24, 16}));
    EXPECT_EQ(launches(finish(b, {b.binary(Op::Add, b.reshape(flat, {4, 6, 16}), y)})), 1);
}

TEST(Fuse, AValueReadTransposedAndStraightIsOneKernel) {
    GraphBuilder b;
    const ValueId x = b.unary(Op::Exp, b.param(f32({12, 12}), "x"));
    EXPECT_EQ(launches(finish(b, {b.binary(Op::Add, x, b.permute(x, std::array<int64_t, 2>{1, 0}))})), 1);
}

TEST(Fuse, TranscendentalsAreNotRepeatedAlongABroadcast) {
    GraphBuilder b;
    const ValueId x = b.param(f32({64}), "x"), y = b.param(f32({32, 64}), "y");
    EXPECT_EQ(launches(finish(b, {b.binary(Op::Add, b.broadcast(b.unary(Op::Exp, x), {32, 64}), y)})), 2);
}

TEST(Fuse, CheapOperationsAreRepeatedAlongABroadcast) {
    GraphBuilder b;
    const ValueId x = b.param(f32({64}), "x"), y = b.param(f32({32, 64}), "y");
    EXPECT_EQ(launches(finish(b, {b.binary(Op::Add, b.broadcast(b.binary(Op::Add, x, x), {32, 64}), y)})), 1);
}

TEST(Fuse, WhatAReductionReadsForEachOfManyRowsIsNotRepeated) {
    // x [k] * 2 times w [n, k]; and what is one for each row stands before the loop.
    const auto product = [](int64_t n, bool for_each_row) {
        GraphBuilder b;
        const ValueId w = b.param(f32({n, 32}), "w");
        const ValueId x = b.param(for_each_row ? f32({n, 1}) : f32({32}), "x");
        const ValueId twice = b.broadcast(b.binary(Op::Add, x, x), {n, 32});
        return launches(
            finish(b, {b.reduce(Op::ReduceSum, b.binary(Op::Mul, twice, w), std::array<int64_t, 1>{1})}));
    };
    EXPECT_EQ(product(128, false), 1);
    EXPECT_EQ(product(512, false), 2);
    EXPECT_EQ(product(512, true), 1);
}

TEST(Fuse, ALongChainIsCutWhereAKernelIsFull) {
    GraphBuilder b;
    ValueId x = b.param(f32({8}), "x");
    for (int i = 0; i < 1000; ++i)
        x = b.binary(Op::Add, x, b.constant(DType::F32, 0.001));
    const int n = launches(finish(b, {x}));
    EXPECT_GE(n, 4);
    EXPECT_LE(n, 5);
}

TEST(Fuse, NothingCrossesAStream) {
    GraphBuilder b;
    const ValueId x = b.unary(Op::Exp, b.param(f32({8}), "x"));
    b.set_stream(0);
    const ValueId y = b.unary(Op::Neg, x);
    b.set_stream(1);
    EXPECT_EQ(launches(finish(b, {y})), 2);
}

TEST(Fuse, SaysWhyNeighboursStayApart) {
    GraphBuilder b;
    const ValueId x = b.param(f32({64}), "x"), y = b.param(f32({32, 64}), "y");
    const Graph graph = finish(b, {b.binary(Op::Add, b.broadcast(b.unary(Op::Exp, x), {32, 64}), y)});
    passes::FusionNotes notes;
    const Graph fused = passes::fuse(graph, test_target(), &notes);
    ASSERT_EQ(notes.kept_apart.size(), 1u);
    EXPECT_EQ(fused.node(notes.kept_apart[0].producer).op, Op::Exp);
    EXPECT_EQ(notes.kept_apart[0].reason, "it would be computed more than twice as often");
}

TEST(Fuse, RandomGraphsGiveTheBitsOfSingleOperations) {
    for (uint64_t seed = 1; seed <= 60; ++seed) {
        test::RandomGraphOptions options;
        options.max_nodes = 20;
        options.borders = seed % 2 == 0 ? 30 : 0;
        options.pairs = seed % 3 == 1 ? 30 : 0;
        options.products = seed % 4 == 1 ? 30 : 0;
        const test::RandomGraph random = test::random_graph(seed, options);
        std::vector<HostTensor> inputs;
        for (const Param &p : random.graph.params)
            inputs.push_back(materialize_param(random.graph, p));
        const auto fused = test::run_lowered(random.graph, inputs, true);
        const auto cut = test::run_lowered(random.graph, inputs, true, nullptr, true);
        const auto single = test::run_lowered(random.graph, inputs, false);
        for (size_t i = 0; i < fused.size(); ++i) {
            ASSERT_EQ(fused[i].bytes, single[i].bytes) << "seed " << seed << ", result " << i << "\n"
                                                       << print(random.graph);
            ASSERT_EQ(cut[i].bytes, single[i].bytes) << "seed " << seed << ", cut, result " << i << "\n"
                                                     << print(random.graph);
        }
    }
}

} // namespace
} // namespace lz
