// Layers that are equal are lowered once: their steps are those that each would have become by itself.
#include "ir/graph/builder.h"
#include "ir/graph/text.h"
#include "ir/text/text.h"
#include "passes/fuse/fuse.h"
#include "passes/lower/lower_clusters.h"
#include "passes/pipeline.h"
#include "tests/support/random/graph.h"

#include <gtest/gtest.h>

namespace {

using namespace lz::ir;
using namespace lz::passes;

/// A gather, a slice at a runtime start and a number in each of so many layers; each has a check of its own.
Graph layers(int count, int64_t length) {
    GraphBuilder b("layers");
    const ValueId table = b.param({DType::F32, {length, 16}, kCpu}, "table");
    ValueId x = b.param({DType::F32, {length, 16}, kCpu}, "x");
    for (int i = 0; i < count; ++i) {
        const std::string id = std::to_string(i);
        const ValueId w = b.param({DType::F32, {16, 16}, kCpu}, "w" + id);
        const ValueId index = b.param({DType::I64, {length, 16}, kCpu}, "index" + id);
        const int64_t axis[] = {0};
        const ValueId picked =
            b.add(Op::Gather, std::vector{table, index}, axis, {}, Location{"layers.cpp", 10});
        b.set_recorded(static_cast<uint32_t>(3 * i));
        const ValueId h =
            b.binary(Op::Mul, picked, b.broadcast(b.constant(DType::F32, 1.5 + i, {}), {length, 16}));
        x = b.binary(Op::Add, b.matmul(b.binary(Op::Add, x, h), w), x);
        const ValueId sum = b.reduce(Op::ReduceSum, x, std::array<int64_t, 1>{1});
        x = b.binary(Op::Sub, x, b.reshape(sum, {length, 1}));
    }
    b.graph().results.push_back(x);
    return b.take();
}

std::string lowered_text(const Graph &graph, bool verified) {
    Target target = test_target();
    target.modes.verify = verified; // each cluster is lowered by itself, and compared
    return print(lower_clusters(fuse(graph, target), target));
}

TEST(LowerClusters, EqualLayersBecomeTheStepsThatEachOfThemWouldBecome) {
    for (const int64_t length : {1, 2, 7, 300}) {
        const Graph graph = layers(5, length);
        EXPECT_EQ(lowered_text(graph, false), lowered_text(graph, true)) << length;
    }
    const Program program = lower_clusters(fuse(layers(3, 7), test_target()), test_target());
    // What is checked in a layer is blamed on that layer's line.
    std::vector<uint32_t> blamed;
    for (const Step &step : program.steps)
        for (const Segment &segment : step.segments)
            blamed.insert(blamed.end(), segment.checks.begin(), segment.checks.end());
    EXPECT_EQ(blamed, (std::vector<uint32_t>{0, 3, 6}));
}

TEST(LowerClusters, CopiesOfWhatOtherClustersMakeAreLoweredOnce) {
    GraphBuilder b("g");
    const ValueId x = b.param({DType::F32, {4, 4}, kCpu}, "x"), w = b.param({DType::F32, {4, 4}, kCpu}, "w");
    for (int i = 0; i < 3; ++i) { // each is a copy of a product, and nothing else
        const ValueId made = b.matmul(i == 0 ? x : b.graph().results.back(), w);
        b.graph().results.push_back(b.permute(made, std::array<int64_t, 2>{1, 0}));
    }
    const Graph graph = b.take();
    EXPECT_EQ(lowered_text(graph, false), lowered_text(graph, true));
}

TEST(LowerClusters, RandomGraphsBecomeTheSameWithEqualClustersTakenOver) {
    for (uint64_t seed = 0; seed < 300; ++seed) {
        lz::test::RandomGraphOptions options;
        options.max_nodes = 30;
        options.max_extent = 3; // many are equal
        options.ops &= ~lz::test::ops_of({Op::Transfer});
        const Graph graph = lz::test::random_graph(seed, options).graph;
        Target target = test_target();
        target.modes.fuse = seed % 2 == 0; // unfused, every operation is a cluster
        const Graph fused = fuse(graph, target);
        const std::string each = print(lower_clusters(fused, target));
        target.modes.verify = false;
        EXPECT_EQ(print(lower_clusters(fused, target)), each) << seed;
    }
}

} // namespace
