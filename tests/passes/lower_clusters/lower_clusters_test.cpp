/// Kernels hold no extent, stride or scalar: sizes of one class share one. And what they compute, where
/// random graphs are too small to go.

#include "ir/graph/builder.h"
#include "ir/graph/verify.h"
#include "ir/kernel/key.h"
#include "ir/program/verify.h"
#include "ir/text/text.h"
#include "support/graph_inputs.h"
#include "support/run_lowered.h"
#include "tests/support/random/graph.h"

#include "ir/diagnostic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>

namespace lz {
namespace {

using namespace ir;
using test::finish, test::random_inputs;

using Program = std::function<Graph(int64_t, int64_t)>;

TensorType f32(Shape shape) {
    return {DType::F32, shape, kCpu};
}

Graph elementwise(int64_t n, int64_t m) {
    GraphBuilder b;
    const ValueId x = b.param(f32({n, m}), "x"), y = b.param(f32({n, m}), "y");
    return finish(b,
                  {b.unary(Op::Tanh, b.binary(Op::Add, b.binary(Op::Mul, x, y), b.constant(DType::F32, 2)))});
}

Graph bias(int64_t n, int64_t m) {
    GraphBuilder b;
    const ValueId x = b.param(f32({n, m}), "x"), y = b.param(f32({m}), "y");
    return finish(b, {b.binary(Op::Add, x, y)});
}

Graph softmax(int64_t n, int64_t m) {
    GraphBuilder b;
    const ValueId x = b.param(f32({n, m}), "x");
    const int64_t axis[] = {1};
    const auto repeated = [&](ValueId v) { return b.reshape(v, {n, 1}); };
    const ValueId e = b.unary(Op::Exp, b.binary(Op::Sub, x, repeated(b.reduce(Op::ReduceMax, x, axis))));
    return finish(b, {b.binary(Op::Div, e, repeated(b.reduce(Op::ReduceSum, e, axis)))});
}

Graph column_sum(int64_t n, int64_t m) {
    GraphBuilder b;
    const int64_t axis[] = {0};
    return finish(b, {b.reduce(Op::ReduceSum, b.unary(Op::Exp, b.param(f32({n, m}), "x")), axis)});
}

Graph row_sum(int64_t n, int64_t m) {
    GraphBuilder b;
    const int64_t axis[] = {1};
    return finish(b, {b.reduce(Op::ReduceSum, b.param(f32({n, m}), "x"), axis)});
}

Graph full_sum(int64_t n, int64_t m) {
    GraphBuilder b;
    const int64_t axes[] = {0, 1};
    return finish(b, {b.reduce(Op::ReduceSum, b.param(f32({n, m}), "x"), axes)});
}

Graph product(int64_t n, int64_t m) {
    GraphBuilder b;
    const ValueId x = b.param(f32({n, 24}), "x"), w = b.param(f32({24, m}), "w"), c = b.param(f32({m}), "b");
    return finish(b, {b.binary(Op::Add, b.matmul(x, w), c)});
}

Graph transposed(int64_t n, int64_t m) {
    GraphBuilder b;
    const ValueId x = b.param(f32({n, m}), "x"), y = b.param(f32({m, n}), "y");
    return finish(b, {b.binary(Op::Add, x, b.permute(y, std::array<int64_t, 2>{1, 0}))});
}

/// Distinct kernels of the one step that the program is.
size_t kernels(const Program &program, std::span<const std::pair<int64_t, int64_t>> sizes) {
    std::set<std::string> keys;
    for (const auto &[n, m] : sizes) {
        const Graph fused = passes::fuse(program(n, m), test_target());
        const auto lowered = passes::lower_clusters(fused, test_target());
        EXPECT_EQ(lowered.steps.size(), 1u) << n << " x " << m;
        verify(lowered);
        keys.insert(cache_key(lowered.kernels[0]));
    }
    return keys.size();
}

struct Named {
    const char *name;
    Graph (*make)(int64_t, int64_t);
};
constexpr Named kPrograms[] = {
    {"elementwise", elementwise}, {"bias", bias},         {"softmax", softmax}, {"column_sum", column_sum},
    {"row_sum", row_sum},         {"full_sum", full_sum}, {"product", product}, {"transposed", transposed},
};

/// Columns and full sums of one chunk, of several, and split.
TEST(LowerClusters, TenSizesOfOneClassShareOneKernel) {
    const std::pair<int64_t, int64_t> sizes[] = {{32, 100},  {33, 100}, {64, 65},   {100, 32}, {100, 100},
                                                 {512, 512}, {65, 640}, {300, 128}, {18, 19},  {1000, 17}};
    for (const Named &p : kPrograms)
        EXPECT_LE(kernels(p.make, sizes), p.make == column_sum || p.make == full_sum ? 3u : 1u) << p.name;
}

/// Rows of 1, of a few elements, of at most a chunk and of more, each stored past the caches or not. Products
/// with a vector are rows, too. One column is a full sum.
TEST(LowerClusters, AWideSweepOfSizesHasAtMostSixKernels) {
    std::vector<std::pair<int64_t, int64_t>> sizes;
    for (const int64_t n : {1, 2, 3, 16, 17, 64, 1000, 5000})
        for (const int64_t m : {1, 2, 5, 16, 17, 100, 1024, 20000})
            sizes.emplace_back(n, m);
    for (const Named &p : kPrograms)
        EXPECT_LE(kernels(p.make, sizes), p.make == softmax || p.make == product ? 6u
                                          : p.make == column_sum                 ? 5u
                                                                                 : 4u)
            << p.name;
}

TEST(LowerClusters, OtherScalarsStartsAndSeedsAreOtherWordsOfOneKernel) {
    const auto program = [](double scale, int64_t start, int64_t seed) {
        GraphBuilder b;
        const ValueId x = b.param(f32({50, 40}), "x");
        const int64_t starts[] = {start, 1}, sizes[] = {20, 30}, steps[] = {1, 1};
        const ValueId part =
            b.binary(Op::Mul, b.slice(x, starts, sizes, steps), b.constant(DType::F32, scale));
        const ValueId noise = b.add(Op::Philox, {}, {2, 20, 30, 0}, {seed, 0});
        return finish(b, {b.binary(Op::Add, part, b.cast(noise, DType::F32))});
    };
    std::set<std::string> keys;
    for (const auto &[scale, start, seed] : {std::tuple(0.0, 0, 0), {1.0, 1, 1}, {2.5, 17, 99}}) {
        const Graph fused = passes::fuse(program(scale, start, seed), test_target());
        const auto lowered = passes::lower_clusters(fused, test_target());
        ASSERT_EQ(lowered.steps.size(), 1u);
        keys.insert(cache_key(lowered.kernels[0]));
        for (const ArgSpec &a : lowered.steps[0].segments[0].args)
            for (const auto &t : a.terms)
                EXPECT_LT(t.word, fused.runtime_words().size());
    }
    EXPECT_EQ(keys.size(), 1u);
}

/// Compares with the reference, fused and not.
void check(const Graph &graph, double tolerance = 1e-4) {
    verify(graph);
    const auto inputs = random_inputs(graph);
    const auto expected = interpret(graph, inputs);
    for (const bool fuse : {true, false}) {
        const auto got = test::run_lowered(graph, inputs, fuse);
        for (size_t i = 0; i < expected.size(); ++i) {
            const auto want = to_doubles(expected[i]), have = to_doubles(got[i]);
            for (size_t k = 0; k < want.size(); ++k)
                ASSERT_NEAR(have[k], want[k], tolerance * (1 + std::fabs(want[k])))
                    << (fuse ? "fused" : "single") << ", result " << i << " at " << k;
        }
    }
}

TEST(LowerClusters, LongReductionsAreSplitAndRight) {
    for (const auto &[n, m] :
         {std::pair<int64_t, int64_t>{1, 40000}, {3, 50000}, {1030, 5}, {5000, 1}, {700, 70}})
        for (const Named &p : {kPrograms[2], kPrograms[3], kPrograms[4], kPrograms[5]}) {
            SCOPED_TRACE(std::string(p.name) + " " + std::to_string(n) + " x " + std::to_string(m));
            check(p.make(n, m));
        }
}

TEST(LowerClusters, SplitArgReductionsKeepTheFirstOfEquals) {
    GraphBuilder b;
    const ValueId x = b.cast(b.param({DType::I64, {40000}, kCpu}, "x"), DType::F32);
    const ValueId y = b.param({DType::I64, {1200, 3}, kCpu}, "y");
    check(finish(b, {b.add(Op::ArgMax, {x}, {0}), b.add(Op::ArgMin, {y}, {0})}));
}

TEST(LowerClusters, ReshapedAndBroadcastReductionsKeepTheirOrder) {
    // The reduced dimensions do not lie together in memory: the loop over them stays one.
    GraphBuilder b;
    const ValueId x = b.param(f32({4, 6, 10}), "x"), y = b.param(f32({6, 1}), "y");
    const int64_t axes[] = {1, 2};
    check(finish(b, {b.reduce(Op::ReduceSum, b.binary(Op::Mul, x, y), axes)}));
}

TEST(LowerClusters, ReductionsAreReadInShapesThatCutTheirDimensionsOtherwise) {
    struct Case {
        Shape operand;
        int64_t axis;
        Shape read;
    };
    for (const auto &[operand, axis, read] : {Case{{3, 4, 5}, 2, {2, 6, 1}},
                                              {{2, 6, 3, 4}, 0, {6, 2, 6, 1}},
                                              {{6, 4, 2}, 2, {4, 6}},
                                              {{12, 6, 3, 3}, 3, {8, 3, 9, 1, 1}},
                                              {{12, 12, 2, 1}, 2, {8, 1, 2, 9}},
                                              {{4, 9, 1}, 2, {6, 6, 1}}}) {
        SCOPED_TRACE(to_string(operand) + " as " + to_string(read));
        GraphBuilder b;
        const ValueId x = b.param(f32(operand), "x");
        const ValueId max = b.reduce(Op::ReduceMax, b.unary(Op::Exp, x), {&axis, 1});
        const ValueId cut = b.reshape(max, read);
        Shape wider = read;
        wider.push_back(1);
        const ValueId column = b.reshape(cut, wider);
        wider[wider.rank() - 1] = 3;
        check(finish(
            b, {max, cut, b.unary(Op::Neg, b.broadcast(column, wider)), b.add(Op::ArgMin, {x}, {axis})}));
    }
}

/// Rows of several channels, and a number for each channel: what is divided is the place in the row alone,
/// which code for the CPU divides once a step, not once an element.
TEST(LowerClusters, ARowsNumberStandsInNoQuotient) {
    const auto normalized = [](int64_t n, int64_t groups, int64_t each, int64_t places) {
        GraphBuilder b;
        const int64_t channels = groups * each, axis = 2;
        const ValueId x = b.param(f32({n, channels, places}), "x"), w = b.param(f32({channels}), "w");
        const Shape rows({n, groups, each * places});
        const ValueId row = b.reshape(x, rows);
        const ValueId most = b.reshape(b.reduce(Op::ReduceMax, row, {&axis, 1}), Shape({n, groups, 1}));
        const ValueId off = b.binary(Op::Sub, row, b.broadcast(most, rows));
        const Shape shape({n, channels, places});
        const ValueId beside = b.broadcast(b.reshape(w, Shape({1, channels, 1})), shape);
        return finish(b, {b.binary(Op::Mul, b.reshape(off, shape), beside)});
    };
    for (const auto &[n, groups, each, places] : {std::array<int64_t, 4>{3, 2, 4, 5},
                                                  {2, 2, 3, 40},
                                                  {1, 1, 1, 7},
                                                  {2, 3, 1, 4},
                                                  {2, 2, 3, 1},
                                                  {4, 1, 6, 6}}) {
        SCOPED_TRACE(to_string(Shape({n, groups, each, places})));
        check(normalized(n, groups, each, places));
    }
    const auto lowered =
        passes::lower_clusters(passes::fuse(normalized(3, 2, 4, 40), test_target()), test_target());
    ASSERT_EQ(lowered.steps.size(), 1u);
    const Kernel &kernel = lowered.kernels[0];
    int quotients = 0;
    for (const Instr &instr : kernel.instrs)
        if (instr.op == KOp::Div && instr.dtype == DType::I64) {
            ++quotients;
            EXPECT_EQ(kernel.instrs[instr.operands[0]].op, KOp::Axis) << print(kernel);
        }
    EXPECT_EQ(quotients, 1) << print(kernel);
}

/// Blocks of 6 and of 8 elements in reverse: no axes fit both, so that blocks are quotients of the place,
/// which are subtracted before they are divided again.
TEST(LowerClusters, BlocksInReverseAreDividedAsAWhole) {
    GraphBuilder b;
    const ValueId x = b.param(f32({12, 1}), "x"), y = b.param(f32({24}), "y");
    const auto reversed = [&](ValueId v, Shape blocks) {
        return b.reshape(b.add(Op::Flip, {b.reshape(v, blocks)}, {1, 0}), Shape({24}));
    };
    const ValueId twice = b.broadcast(x, Shape({12, 2}));
    check(finish(b, {b.binary(Op::Add, reversed(twice, Shape({4, 6})), reversed(y, Shape({3, 8})))}));
}

TEST(LowerClusters, WhatIsFlippedAlongTheVectorIsReadBackwards) {
    GraphBuilder b;
    const ValueId x = b.param(f32({5, 70}), "x");
    const Graph graph = finish(b, {b.unary(Op::Exp, b.add(Op::Flip, {x}, {2, 0, 1}))});
    check(graph);
    const auto lowered = passes::lower_clusters(passes::fuse(graph, test_target()), test_target());
    const auto &accesses = lowered.kernels[0].accesses;
    EXPECT_TRUE(std::ranges::any_of(accesses, [](const Access &access) {
        return std::ranges::find(access.strides, StrideClass::Reversed, &AxisStride::cls) !=
               access.strides.end();
    })) << print(lowered.kernels[0]);
}

TEST(LowerClusters, LibraryCallsAreToldWhichResultsAreRead) {
    for (const Op op : {Op::Sort, Op::TopK, Op::CumMax, Op::CumMin})
        for (const int64_t wanted : {1, 2, 3}) {
            GraphBuilder b;
            const ValueId x = b.param(f32({20}), "x");
            const ValueId values = op == Op::Sort   ? b.add(op, {x}, {0, 0})
                                   : op == Op::TopK ? b.add(op, {x}, {0, 1, 7})
                                                    : b.add(op, {x}, {0});
            // Places have a reader, though they are no result.
            const Graph graph = wanted == 1   ? finish(b, {values})
                                : wanted == 2 ? finish(b, {b.cast(values + 1, DType::F32)})
                                              : finish(b, {values, b.cast(values + 1, DType::F32)});
            const auto lowered = passes::lower_clusters(passes::fuse(graph, test_target()), test_target());
            EXPECT_EQ(lowered.steps[0].ints.back().constant, wanted) << name(op);
        }
}

TEST(LowerClusters, AnUpdateWritesOnlyItsSlice) {
    GraphBuilder b;
    const ValueId x = b.param(f32({30, 20}), "x"), y = b.param(f32({5, 4}), "y");
    const ValueId r = b.add(Op::UpdateSlice, {x, b.unary(Op::Exp, y)}, {2, 2, 3, 1}, {4, 7});
    const Graph graph = finish(b, {r});
    check(graph);
    const auto lowered = passes::lower_clusters(passes::fuse(graph, test_target()), test_target());
    ASSERT_EQ(lowered.steps.size(), 1u);
    EXPECT_EQ(lowered.kernels[0].buffers[0].mode, BufferMode::InOut);
    EXPECT_EQ(lowered.draft.buffers[lowered.steps[0].segments[0].buffers[0]].replaces, 0u);
}

TEST(LowerClusters, ProductsReadTransposedAndStridedOperandsInPlace) {
    GraphBuilder b;
    const ValueId x = b.param(f32({3, 8, 5, 7}), "x"), w = b.param(f32({4, 14}), "w");
    // x[:, ::2] as [3 * 4, 5, 7] batches times w[:, ::2] transposed.
    const int64_t xs[] = {0, 1, 0, 0}, xn[] = {3, 4, 5, 7}, xd[] = {1, 2, 1, 1};
    const int64_t ws[] = {0, 1}, wn[] = {4, 7}, wd[] = {1, 2};
    const ValueId lhs = b.slice(x, xs, xn, xd);
    const ValueId rhs = b.permute(b.slice(w, ws, wn, wd), std::array<int64_t, 2>{1, 0});
    const ValueId y = b.add(Op::Dot, {lhs, rhs}, {0, 0, 1, 3, 1, 0, static_cast<int64_t>(DType::F32)});
    const Graph graph = finish(b, {b.unary(Op::Tanh, y)});
    check(graph);
    EXPECT_LE(passes::lower_clusters(passes::fuse(graph, test_target()), test_target()).steps.size(), 2u);
}

TEST(LowerClusters, RowsAreStreamedPastTheCachesWhenTheyDoNotFit) {
    const auto stores = [](int64_t n) {
        const auto lowered =
            passes::lower_clusters(passes::fuse(elementwise(n, 1024), test_target()), test_target());
        return lowered.kernels[0].phases[0].cpu().stores;
    };
    EXPECT_EQ(stores(64), StoreTier::Cached);
    EXPECT_EQ(stores(16 * 1024), StoreTier::Streaming);
}

} // namespace
} // namespace lz
