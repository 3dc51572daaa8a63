/// Graphs over devices, user streams and effects: clusters stay in one place, effects where the user put
/// them, and the bits what they were.

#include "ir/graph/builder.h"
#include "ir/graph/verify.h"
#include "support/run_lowered.h"
#include "tests/support/random/graph.h"

#include "ir/text/text.h"
#include "passes/devices/insert_transfers.h"
#include "passes/devices/places.h"
#include "passes/operations.h"
#include "passes/simplify/eliminate_dead.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lz {
namespace {

using namespace ir;

test::RandomGraphOptions options_for(uint64_t seed) {
    test::RandomGraphOptions options;
    options.max_nodes = 28;
    options.max_elements = 200;
    options.gpus = 2;
    options.streams = 2;
    options.first_stream = kFirstUserStream;
    options.effects = seed % 2 == 0 ? 25 : 0;
    options.updates = 10;
    return options;
}

std::vector<HostTensor> inputs_of(const Graph &graph) {
    std::vector<HostTensor> inputs;
    for (const Param &p : graph.params)
        inputs.push_back(materialize_param(graph, p));
    return inputs;
}

TEST(FuseDevices, BitsAreThoseOfEveryOperationAlone) {
    for (uint64_t seed = 0; seed < 150; ++seed) {
        test::RandomGraphOptions options = options_for(seed);
        options.cpu_scalars = true;
        const Graph graph = passes::insert_transfers(test::random_graph(seed, options).graph, test_target(2));
        const auto inputs = inputs_of(graph);
        const auto fused = test::run_lowered(graph, inputs, true);
        const auto single = test::run_lowered(graph, inputs, false);
        for (size_t i = 0; i < fused.size(); ++i)
            ASSERT_EQ(fused[i].bytes, single[i].bytes) << "seed " << seed << ", result " << i << "\n"
                                                       << print(graph);
    }
}

TEST(FuseDevices, AClusterHasOnePlace) {
    size_t clusters = 0, transfers = 0;
    for (uint64_t seed = 0; seed < 200; ++seed) {
        const Graph graph = passes::fuse(test::random_graph(seed, options_for(seed)).graph, test_target(2));
        std::vector<NodeId> last_of(graph.clusters.size(), kNone), first_of(graph.clusters.size(), kNone);
        for (NodeId id = 0; id < graph.nodes().size(); ++id) {
            const Node &node = graph.node(id);
            NodeId &first = first_of[static_cast<size_t>(node.cluster)];
            last_of[static_cast<size_t>(node.cluster)] = id;
            if (passes::is_free(node.op))
                continue; // copies of views carry whatever stream they had
            if (first == kNone)
                first = id;
            EXPECT_EQ(passes::device_of(graph, node), passes::device_of(graph, graph.node(first)))
                << print(graph);
            EXPECT_EQ(node.stream, graph.node(first).stream) << print(graph);
            const ClusterKind kind = graph.clusters[static_cast<size_t>(node.cluster)].kind;
            EXPECT_EQ(node.op == Op::Transfer, kind == ClusterKind::Transfer) << print(graph);
            EXPECT_TRUE(kind != ClusterKind::Transfer || first == id) << "two transfers in one cluster";
            transfers += node.op == Op::Transfer;
        }
        clusters += graph.clusters.size();
        // Those of one group are one launch.
        for (size_t a = 0; a + 1 < graph.clusters.size(); ++a)
            if (graph.clusters[a].group >= 0 && graph.clusters[a].group == graph.clusters[a + 1].group) {
                const Node &x = graph.node(last_of[a]), &y = graph.node(last_of[a + 1]);
                EXPECT_EQ(passes::device_of(graph, x), passes::device_of(graph, y)) << print(graph);
                EXPECT_EQ(x.stream, y.stream) << print(graph);
            }
    }
    EXPECT_GT(clusters, 1000u);
    EXPECT_GT(transfers, 200u);
}

TEST(FuseDevices, EffectsStayBetweenWhatWasRecordedAroundThem) {
    size_t effects = 0;
    for (uint64_t seed = 0; seed < 400; seed += 2) {
        const Graph before = test::random_graph(seed, options_for(seed)).graph;
        const Graph after = passes::fuse(before, test_target(2));
        // Recorded indices are those of `before`; a cluster happens when its last node stands.
        std::vector<size_t> moment(before.nodes().size(), SIZE_MAX);
        for (NodeId id = 0; id < after.nodes().size(); ++id)
            if (const Node &n = after.node(id); n.recorded != kNone && !passes::is_free(n.op))
                moment[n.recorded] = static_cast<size_t>(n.cluster);
        const auto place = [&](const Node &n) {
            const Device d = passes::device_of(before, n);
            return StreamRef{d, d == kCpu ? kDefaultStream : std::max(n.stream, kDefaultStream)};
        };
        for (NodeId e = 0; e < before.nodes().size(); ++e) {
            const Node &effect = before.node(e);
            if (info(effect.op).family != OpFamily::Effect)
                continue;
            ++effects;
            const AttrView attrs = before.attrs(effect);
            for (NodeId n = 0; n < before.nodes().size(); ++n) {
                const Node &node = before.node(n);
                const StreamRef at = place(node);
                if (n == e || node.recorded == kNone || moment[n] == SIZE_MAX)
                    continue;
                const bool here = at == place(effect);
                const bool waited_for =
                    effect.op == Op::WaitStream && at.device == attrs.device(attr::kWaitStreamOf) &&
                    at.stream == (at.device == kCpu ? 0 : attrs.integer(attr::kWaitStreamStream));
                if (n < e && (here || waited_for)) {
                    EXPECT_LT(moment[n], moment[e]) << "seed " << seed << "\n"
                                                    << print(before) << print(after);
                }
                if (n > e && here) {
                    EXPECT_GT(moment[n], moment[e]) << "seed " << seed << "\n"
                                                    << print(before) << print(after);
                }
            }
        }
    }
    EXPECT_GT(effects, 300u);
}

/// Work on two devices that reads what was made among the last `window` values, with a transfer now and then.
Graph tangled(uint64_t seed, int64_t window, int64_t reductions) {
    constexpr int64_t kDevices = 2;
    GraphBuilder b("tangled");
    test::Random r(seed);
    std::vector<std::vector<ValueId>> on(kDevices);
    const auto device = [](size_t d) { return Device{DeviceKind::Cuda, static_cast<uint8_t>(d)}; };
    const auto recent = [&](size_t d) {
        const auto size = static_cast<int64_t>(on[d].size());
        return on[d][static_cast<size_t>(size - 1 - r.below(std::min(window, size)))];
    };
    for (size_t d = 0; d < kDevices; ++d)
        on[d].push_back(b.param({DType::F32, {1024}, device(d)}, "p" + std::to_string(d)));
    const int64_t axis[] = {0};
    while (b.graph().nodes().size() < 300) {
        const auto d = static_cast<size_t>(r.below(kDevices));
        const ValueId x = recent(d);
        const int64_t kind = r.below(20);
        on[d].push_back(kind == 0 ? b.transfer(recent(static_cast<size_t>(r.below(kDevices))), device(d))
                        : kind < reductions ? b.binary(Op::Sub, x, b.reduce(Op::ReduceSum, x, axis))
                        : kind < 9          ? b.unary(Op::Neg, x)
                                            : b.binary(Op::Add, x, recent(d)));
    }
    for (const auto &values : on)
        b.graph().results.push_back(values.back());
    return b.take();
}

// Looking for a way from one cluster to another stopped at clusters that lie before it, although others that
// they wait for reach over it: a kernel would have waited for itself.
TEST(FuseDevices, ClustersDoNotWaitForEachOtherInACircle) {
    for (uint64_t seed = 0; seed < 60; ++seed)
        for (const int64_t window : {8, 64})
            for (const int64_t reductions : {1, 6})
                verify(
                    passes::fuse(passes::eliminate_dead(tangled(seed, window, reductions)), test_target(2)));
}

} // namespace
} // namespace lz
