#include "ir/diagnostic.h"
#include "ir/graph/builder.h"
#include "ir/graph/verify.h"
#include "ir/interpreter/interpreter.h"
#include "ir/text/text.h"
#include "passes/devices/check_devices.h"
#include "passes/simplify/eliminate_common.h"
#include "passes/simplify/eliminate_dead.h"
#include "support/graph_inputs.h"
#include "tests/support/random/graph.h"

#include <gtest/gtest.h>

namespace lz::passes {
namespace {

using namespace ir;
using test::inputs_of;

/// The graph with each of its results computed a second time by cloned nodes: plenty to merge.
Graph doubled(const Graph &graph) {
    GraphBuilder b(graph.name);
    std::vector<ValueId> now(graph.values().size(), kNone);
    for (const Param &p : graph.params)
        now[p.value] = b.clone_param(graph, p);
    for (int copy = 0; copy < 2; ++copy) {
        for (const Node &node : graph.nodes()) {
            std::vector<ValueId> operands;
            for (ValueId v : graph.operands(node))
                operands.push_back(now[v]);
            const ValueId first = b.clone_node(graph, node, operands);
            for (uint32_t k = 0; k < node.result_count; ++k)
                now[node.first_result + k] = first + k;
        }
        for (ValueId v : graph.results)
            b.graph().results.push_back(now[v]);
    }
    return b.take();
}

TEST(EliminateCommon, RandomGraphsComputedTwiceKeepTheirBits) {
    size_t merged = 0;
    for (uint64_t seed = 0; seed < 200; ++seed) {
        test::RandomGraphOptions options;
        options.max_nodes = 20;
        options.streams = seed % 3 == 0 ? 2 : 0;
        const Graph before = doubled(test::random_graph(seed, options).graph);
        const Graph after = eliminate_dead(eliminate_common(before));
        verify(after);
        merged += before.nodes().size() - after.nodes().size();
        const auto want = interpret(before, inputs_of(before)), got = interpret(after, inputs_of(after));
        ASSERT_EQ(want.size(), got.size());
        for (size_t r = 0; r < want.size(); ++r)
            ASSERT_EQ(want[r].bytes, got[r].bytes) << "seed " << seed << "\n"
                                                   << print(before) << print(after);
    }
    EXPECT_GT(merged, 1000u);
}

TEST(EliminateCommon, RuntimeWordsOfTheRecordingStillDriveTheGraph) {
    const Graph before = parse_graph("lazuli 1\ngraph @g(%x: f32[2] @cpu = dense<[1,2]>) {\n"
                                     "  %0 = constant {value=10} : f32[] @cpu\n"
                                     "  %1 = constant {value=20} : f32[] @cpu\n"
                                     "  %2 = exp %x : f32[2] @cpu\n"
                                     "  %3 = exp %x : f32[2] @cpu\n"
                                     "  %4 = sub %2, %3 : f32[2] @cpu\n"
                                     "  %5 = add %4, %1 : f32[2] @cpu\n"
                                     "  return %5\n}\n");
    // The first constant goes away, and the second one's word stays where the recording has it.
    const Graph after = eliminate_dead(eliminate_common(before));
    ASSERT_EQ(after.runtime_words().size(), 2u);
    const std::vector<int64_t> words{scalar_word(1), scalar_word(5)};
    EXPECT_EQ(to_doubles(interpret(after, inputs_of(after), words)[0]), (std::vector<double>{5, 5}));
}

TEST(CheckDevices, PeersMayBeMixed) {
    const Graph graph = parse_graph("lazuli 1\ngraph @g(%x: f32[4] @cuda:0, %y: f32[4] @cuda:1) {\n"
                                    "  %0 = add %x, %y : f32[4] @cuda:0\n  return %0\n}\n");
    Target target = test_target(2);
    EXPECT_THROW(check_devices(graph, target), Failure);
    target.devices[1].peers = {1};
    EXPECT_NO_THROW(check_devices(graph, target));
}

std::string device_error_of(const Graph &graph, const Target &target) {
    try {
        check_devices(graph, target);
    } catch (const Failure &f) {
        EXPECT_EQ(f.kind(), ErrorKind::Device);
        return f.message();
    }
    ADD_FAILURE() << "nothing is wrong with the devices";
    return {};
}

TEST(CheckDevices, CallsOfOneFunctionInOneLineAreToldApart) {
    const Device gpu0{DeviceKind::Cuda, 0}, gpu1{DeviceKind::Cuda, 1};
    GraphBuilder b("g");
    const ValueId x = b.param({DType::F32, {4}, gpu0}, "x"), last = b.param({DType::F32, {4}, gpu1}, "last");
    Location loc{"loop.cpp", 9, intern_function("layer"), 0};
    ValueId v = x;
    for (int i = 0; i < 3; ++i) { // for (...) v = layer(v, w)
        loc.call = static_cast<uint16_t>(i);
        const ValueId w = i == 2 ? last : b.unary(Op::Neg, x, {"loop.cpp", 5});
        v = b.binary(Op::Add, b.unary(Op::Exp, v, loc), w, loc);
    }
    b.graph().results = {v};
    EXPECT_EQ(
        device_error_of(b.take(), test_target(2)),
        "layer: operands are on different devices: a is f32[4] on cuda:0 (made by layer at loop.cpp:9), b is "
        "f32[4] on cuda:1 (the input %last). Bring them together, for instance with b.to(a.device()).");
}

TEST(CheckDevices, WhatTheCallMadeItselfIsNamedWhereItIsAtFault) {
    const Device gpu0{DeviceKind::Cuda, 0}, gpu1{DeviceKind::Cuda, 1};
    GraphBuilder b("g");
    const Location loc{"a.cpp", 3, intern_function("mine"), 0};
    const ValueId x = b.param({DType::F32, {2}, gpu0}, "x");
    const ValueId made = b.literal(DType::F32, 0, {2}, gpu1, loc);
    b.graph().results = {b.binary(Op::Add, x, made, loc)};
    EXPECT_EQ(device_error_of(b.take(), test_target(2)),
              "mine: operands are on different devices: a is f32[2] on cuda:0 (the input %x), b is f32[2] on "
              "cuda:1 "
              "(made by mine at a.cpp:3). Bring them together, for instance with b.to(a.device()).");
}

TEST(CheckDevices, WhyThereIsNoGpuIsSaid) {
    Target none = test_target();
    none.no_gpu = "No driver is installed.";
    GraphBuilder b("g");
    b.graph().results = {b.param({DType::F32, {2}, {DeviceKind::Cuda, 0}}, "x")};
    b.graph().results = {b.unary(Op::Neg, b.graph().results[0])};
    EXPECT_EQ(device_error_of(b.take(), none),
              "neg: there is no device cuda:0: the only device is cpu. No driver is installed.");
}

TEST(CheckDevices, TheFailureNamesTheRecordedOperation) {
    const Graph graph = parse_graph("lazuli 1\ngraph @g(%x: f32[4] @cuda:0, %y: f32[4] @cpu) {\n"
                                    "  %0 = exp %x : f32[4] @cuda:0 rec(4)\n"
                                    "  %1 = add %0, %y : f32[4] @cuda:0 rec(7) loc(\"train.cpp\":12)\n"
                                    "  return %1\n}\n");
    try {
        check_devices(graph, test_target(1));
        FAIL() << "devices are mixed";
    } catch (const Failure &f) {
        EXPECT_EQ(f.kind(), ErrorKind::Device);
        EXPECT_EQ(f.node(), 7u);
        EXPECT_EQ(to_string(f.loc()), "train.cpp:12");
    }
}

} // namespace
} // namespace lz::passes
