#include "ir/diagnostic.h"
#include "ir/graph/builder.h"
#include "ir/graph/uses.h"
#include "ir/graph/verify.h"
#include "ir/target.h"
#include "ir/text/text.h"
#include "tests/support/random/graph.h"

#include <gtest/gtest.h>

#include <functional>

namespace lz::ir {
namespace {

Graph small_graph() {
    return parse_graph(R"(
graph @f(%x: f32[2] = dense<[1, 2]>, %y: f32[2]) {
  cluster 0 = loop
  cluster 1 = reduce
  %0 = add %x, %y : f32[2] cluster(0)
  %1 = mul %0, %x : f32[2] cluster(0)
  %2 = sum %1 {axes=[0]} : f32[] cluster(1)
  %3 = neg %0 : f32[2]
  !0 = record_event {device=cpu, event=1} after(%3)
  return %2, %2
})");
}

TEST(Verify, NamesWhatIsWrongAndCarriesTheGraph) {
    const std::pair<std::function<void(Graph &)>, const char *> cases[] = {
        {[](Graph &g) { g.name = "a b"; }, "The graph's name \"a b\" is no word."},
        {[](Graph &g) { g.params[1].name = "x"; }, "Parameter \"x\" has the name of another one."},
        {[](Graph &g) { g.params[0].donated_to = 0; },
         "Parameter \"x\" says which result gets its memory and is not donated."},
        {[](Graph &g) {
             g.params[0].donated = true;
             g.params[0].donated_to = 7;
         },
         "Parameter \"x\" names result 7 of 2 as the one that gets its memory."},
        {[](Graph &g) {
             g.params[0].donated = true;
             g.params[0].kept = true;
         },
         "Parameter \"x\" is kept should a result fail and does not say which."},
        {[](Graph &g) { g.params[0].name = "0"; }, "Parameter \"0\" has a name that is no word."},
        {[](Graph &g) { g.params[0].value = 1; },
         "Parameter \"x\" is not the parameter that its value says it is."},
        {[](Graph &g) { g.params[0].value = 77; },
         "Parameter \"x\" is not the parameter that its value says it is."},
        {[](Graph &g) { g.params[0].bytes.pop_back(); },
         "Parameter \"x\" has 7 bytes of data; it should have 8."},
        {[](Graph &g) { g.results.push_back(77); }, "A result is value 77 of 6."},
        {[](Graph &g) { g.set_cluster(3, 5); }, "Node 3 is in cluster 5 of 2."},
        {[](Graph &g) { g.set_cluster(3, 0); },
         "The nodes of cluster 0 are not consecutive: node 3 comes after another cluster's."},
    };
    verify(small_graph());
    for (const auto &[damage, message] : cases) {
        Graph g = small_graph();
        damage(g);
        try {
            verify(g);
            ADD_FAILURE() << "passed: " << message;
        } catch (const Failure &f) {
            EXPECT_EQ(f.kind(), ErrorKind::Internal);
            EXPECT_NE(f.message().find(message), std::string::npos) << f.message();
            EXPECT_NE(f.message().find("= add %"), std::string::npos) << f.message();
        }
    }
}

TEST(GraphBuilder, ClonesOfRandomGraphsAreEqual) {
    for (uint64_t seed = 0; seed < 100; ++seed) {
        const Graph g = test::random_graph(seed, {.streams = 2}).graph;
        GraphBuilder b(g.name);
        std::vector<ValueId> map(g.values().size());
        for (const Param &p : g.params)
            map[p.value] = b.clone_param(g, p);
        for (const Node &n : g.nodes()) {
            std::vector<ValueId> operands;
            for (const ValueId v : g.operands(n))
                operands.push_back(map[v]);
            const ValueId first = b.clone_node(g, n, operands);
            for (uint32_t k = 0; k < n.result_count; ++k)
                map[g.result(n, k)] = first + k;
        }
        for (const ValueId v : g.results)
            b.graph().results.push_back(map[v]);
        EXPECT_TRUE(equal(g, b.graph())) << print(g) << print(b.graph());
    }
}

TEST(Uses, EveryOperandIsOneUseOfItsValue) {
    const Graph g = small_graph();
    const Uses uses(g);
    const auto users = [&](ValueId v) {
        const auto span = uses.users(v);
        return std::vector<NodeId>(span.begin(), span.end());
    };
    EXPECT_EQ(users(g.params[0].value), (std::vector<NodeId>{0, 1}));
    EXPECT_EQ(users(g.node(0).first_result), (std::vector<NodeId>{1, 3}));
    EXPECT_EQ(uses.count(g.node(2).first_result), 2u);
    EXPECT_EQ(uses.results(g.node(2).first_result), 2u);
    EXPECT_EQ(uses.count(g.node(3).first_result), 0u);
    for (uint64_t seed = 0; seed < 50; ++seed) {
        const Graph random = test::random_graph(seed).graph;
        const Uses all(random);
        for (ValueId v = 0; v < random.values().size(); ++v) {
            std::vector<NodeId> expected;
            for (NodeId id = 0; id < random.nodes().size(); ++id)
                for (const ValueId operand : random.operands(random.node(id)))
                    if (operand == v)
                        expected.push_back(id);
            EXPECT_TRUE(std::ranges::equal(all.users(v), expected));
        }
    }
}

TEST(Uses, WhatResultsEffectsAndOrdersNeedIsLive) {
    const Graph g = parse_graph(R"(
graph @f(%x: f32[2]) {
  %0 = neg %x : f32[2]
  %1 = abs %0 : f32[2]
  %2 = exp %x : f32[2]
  %3 = sin %x : f32[2]
  !0 = host_callback %3 {device=cpu, callback=1}
  %4 = call %3 {symbol="a"} : f32[2]
  return %1
})");
    EXPECT_EQ(live_nodes(g), (std::vector<bool>{true, true, false, true, true, false}));
}

TEST(Target, FingerprintsSeeWhatChangesCode) {
    const Target base = test_target();
    EXPECT_EQ(base.fingerprint(), test_target().fingerprint());
    const std::function<void(Target &)> changes[] = {
        [](Target &t) { t.host().isa.features += ",+x"; },
        [](Target &t) { t.host().isa.vector_bytes = 32; },
        [](Target &t) { t.host().threads = 3; },
        [](Target &t) { t.modes.fuse = false; },
        [](Target &t) { t.modes.fast_math = true; },
        [](Target &t) { t.modes.reproducible = true; },
        [](Target &t) { t.max_operands = 5; },
        [](Target &t) { t.host().cache_bytes = 1; },
        [](Target &t) { t.host().l2_bytes = 1; },
        [](Target &t) { t.devices.emplace_back().device = {DeviceKind::Cuda, 0}; },
        [](Target &t) { t.devices[0].limits = CudaLimits{}; },
        [](Target &t) { t.devices[0].link_bandwidth *= 2; },
        [](Target &t) { t.modes.transfer = TransferMode::Automatic; },
        [](Target &t) { t.modes.verify = !t.modes.verify; },
        [](Target &t) { t.devices[0].peers = {1}; },
    };
    for (const auto &change : changes) {
        Target t = base;
        change(t);
        EXPECT_NE(t.fingerprint(), base.fingerprint());
    }
    EXPECT_THROW(base.device({DeviceKind::Cuda, 0}), Failure);
}

} // namespace
} // namespace lz::ir
