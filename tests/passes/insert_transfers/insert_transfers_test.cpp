#include "ir/graph/builder.h"
#include "ir/graph/verify.h"
#include "passes/devices/insert_transfers.h"

#include "ir/diagnostic.h"
#include "ir/interpreter/interpreter.h"
#include "ir/text/text.h"
#include "passes/devices/check_devices.h"
#include "passes/pipeline.h"
#include "passes/simplify/eliminate_dead.h"
#include "support/graph_inputs.h"
#include "tests/support/random/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace lz::passes {
namespace {

using namespace ir;
using test::inputs_of;

test::RandomGraphOptions options_for(uint64_t seed, bool mixed) {
    test::RandomGraphOptions options;
    options.max_nodes = 24;
    options.max_elements = 300;
    options.gpus = 3;
    options.cpu_scalars = true;
    options.mixed_devices = mixed;
    options.streams = seed % 2 == 0 ? 2 : 0;
    options.first_stream = kFirstUserStream;
    options.effects = seed % 3 == 0 ? 15 : 0;
    options.updates = 10;
    return options;
}

Target target_for(uint64_t seed) {
    Target target = test_target(3);
    if (seed % 2 == 1) {
        target.devices[1].peers = {1};
        target.devices[2].peers = {0};
    }
    return target;
}

/// What the header says about operands, without looking at how the pass does it.
void expect_everything_in_place(const Graph &graph, uint64_t seed) {
    std::set<std::tuple<ValueId, std::string, int32_t>> moved;
    for (const Node &node : graph.nodes()) {
        if (node.op == Op::Transfer) {
            const ValueId x = graph.operands(node)[0];
            const Node *made = graph.producer(x);
            const Device from = graph.type(x).device, to = graph.type(graph.result(node)).device;
            EXPECT_TRUE(moved.emplace(x, to_string(to), node.stream).second)
                << "seed " << seed << ": moved twice\n"
                << print(graph);
            EXPECT_TRUE(!made || info(made->op).family != OpFamily::Maker) << print(graph);
            // There and back again, but on a stream of the user's.
            EXPECT_TRUE(from != to || node.stream != kNoStream) << print(graph);
        } else if (info(node.op).family != OpFamily::Effect) {
            for (const ValueId v : graph.operands(node))
                EXPECT_EQ(graph.type(v).device, graph.type(graph.result(node)).device)
                    << "seed " << seed << ": " << name(node.op) << "\n"
                    << print(graph);
        }
    }
}

void expect_equal_results(const Graph &before, const Graph &after, uint64_t seed) {
    const auto want = interpret(before, inputs_of(before)), got = interpret(after, inputs_of(after));
    ASSERT_EQ(want.size(), got.size());
    for (size_t r = 0; r < want.size(); ++r) {
        ASSERT_EQ(want[r].type, got[r].type) << "seed " << seed << "\n" << print(before) << print(after);
        ASSERT_EQ(want[r].bytes, got[r].bytes) << "seed " << seed << "\n" << print(before) << print(after);
    }
}

TEST(InsertTransfers, RandomGraphsKeepTheirBitsAndHaveNothingLeftToMove) {
    size_t before_count = 0, after_count = 0;
    const auto transfers = [](const Graph &graph) {
        return std::ranges::count(graph.nodes(), Op::Transfer, &Node::op);
    };
    for (uint64_t seed = 0; seed < 400; ++seed) {
        const Target target = target_for(seed);
        const Graph before = test::random_graph(seed, options_for(seed, false)).graph;
        check_devices(before, target);
        const Graph after = eliminate_dead(insert_transfers(before, target));
        verify(after);
        check_devices(after, target);
        expect_everything_in_place(after, seed);
        expect_equal_results(before, after, seed);
        before_count += static_cast<size_t>(transfers(before));
        after_count += static_cast<size_t>(transfers(after));
    }
    // Most graphs bring a value somewhere more than once.
    EXPECT_GT(before_count, 1000u);
    EXPECT_LT(after_count, before_count);
}

TEST(InsertTransfers, AutomaticModeRunsWhatExplicitModeRejects) {
    size_t rejected = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) {
        Target target = target_for(seed);
        const Graph before = test::random_graph(seed, options_for(seed, true)).graph;
        try {
            check_devices(before, target);
        } catch (const Failure &f) {
            EXPECT_EQ(f.kind(), ErrorKind::Device);
            ++rejected;
        }
        target.modes.transfer = TransferMode::Automatic;
        check_devices(before, target);
        const Graph after = eliminate_dead(insert_transfers(before, target));
        verify(after);
        expect_everything_in_place(after, seed);
        expect_equal_results(before, after, seed);
    }
    EXPECT_GT(rejected, 100u);
}

TEST(InsertTransfers, RuntimeWordsOfTheRecordingStillDriveTheGraph) {
    const Graph before =
        parse_graph("lazuli 1\n"
                    "graph @g(%x: f32[4] @cuda:0 = dense<[1,2,3,4]>, %y: f32[4] @cpu = dense<[1,2,3,4]>) {\n"
                    "  %0 = constant {value=10} : f32[] @cpu\n"
                    "  %1 = constant {value=20} : f32[] @cpu\n"
                    "  %2 = mul %x, %1 : f32[4] @cuda:0\n"
                    "  %3 = transfer %y {to=cuda:0} : f32[4] @cuda:0\n"
                    "  %4 = slice %3 {starts=[0], sizes=[2], steps=[1]} : f32[2] @cuda:0\n"
                    "  %5 = transfer %1 {to=cuda:1} : f32[] @cuda:1\n"
                    "  return %2, %4, %5\n}\n");
    const Graph after = eliminate_dead(insert_transfers(before, test_target(2)));
    ASSERT_EQ(after.runtime_words().size(), 3u);
    const std::vector<int64_t> words{scalar_word(1), scalar_word(5), 2};
    const auto results = interpret(after, inputs_of(after), words);
    EXPECT_EQ(to_doubles(results[0]), (std::vector<double>{5, 10, 15, 20}));
    EXPECT_EQ(to_doubles(results[1]), (std::vector<double>{3, 4}));
    EXPECT_EQ(to_doubles(results[2]), (std::vector<double>{5}));
}

TEST(InsertTransfers, LongChainsOfViewsAreNoProblem) {
    GraphBuilder b("f");
    ValueId v = b.param({DType::F32, {8, 4}, kCpu}, "x");
    for (int i = 0; i < 20000; ++i)
        v = b.permute(v, std::vector<int64_t>{1, 0});
    b.graph().results.push_back(b.transfer(v, {DeviceKind::Cuda, 0}));
    const Graph after = insert_transfers(b.take(), test_target(1));
    verify(after);
    EXPECT_EQ(std::ranges::count(after.nodes(), Op::Transfer, &Node::op), 1);
}

} // namespace
} // namespace lz::passes
