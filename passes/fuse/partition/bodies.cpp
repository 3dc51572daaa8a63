#include "passes/fuse/partition/bodies.h"

#include "passes/operations.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

/// Kinds of parts that one join computes: each is a body of its kernel.
constexpr size_t kMostBodies = 24;
/// Bytes of a part's run from which on parts are computed where they are joined, however many they are: of
/// shorter ones loops begin and end more often than they store lines. Fitted on a Xeon of 2.8 GHz
/// (`bench_joins`, arithmetic).
constexpr int64_t kLongRun = 256;

bool has_body(const FusionCluster &c, uint64_t body) {
    return std::ranges::find(c.bodies, body) != c.bodies.end();
}

} // namespace

bool joins_long_runs(const Graph &graph, const Node &node) {
    if (!joins_many(node))
        return false;
    const TensorType &type = graph.type(graph.result(node));
    int64_t rows = 1;
    for (int d = 0; d < graph.attrs(node).integer(attr::kAxis); ++d)
        rows *= type.shape[d];
    return rows > 0 && type.bytes() / rows >= kLongRun * static_cast<int64_t>(node.operand_count);
}

bool is_view_alone(const Graph &graph, const FusionCluster &c) {
    return c.members == c.last_member && is_free(graph.node(c.members).op);
}

/// Equal for nodes of parts that do the same to their elements.
uint64_t PartBodies::body_of(const ClusterUse &use, const Node &node) const {
    const auto add = [](uint64_t h, uint64_t v) {
        return (h ^ (v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2))) * 0xff51afd7ed558ccdull;
    };
    const auto operands = graph_.operands(node);
    uint64_t h = use.user == kNone ? 0 : body_[use.user];
    h = add(h, static_cast<uint64_t>(node.op));
    for (const ValueId v : operands) {
        const TensorType &type = graph_.type(v);
        h = add(h, static_cast<uint64_t>(type.dtype));
        h = add(h, static_cast<uint64_t>(std::ranges::find(operands, v) - operands.begin()));
        const Node *const producer = graph_.producer(v); // a view or a maker is another access
        h = add(h, producer && is_free(producer->op) ? static_cast<uint64_t>(producer->op) : 0);
    }
    return h;
}

bool PartBodies::has_room(const FusionCluster &c, const ClusterUse &use, const Node &node,
                          int most_ops) const {
    return has_body(c, body_of(use, node)) ||
           (c.bodies.size() < kMostBodies && c.ops + fused_ops(graph_, node) <= most_ops);
}

int PartBodies::enter(FusionCluster &c, const ClusterUse &use, NodeId n, const Node &node) {
    const uint64_t body = body_[n] = body_of(use, node);
    if (has_body(c, body))
        return 0;
    c.bodies.push_back(body);
    return fused_ops(graph_, node);
}

} // namespace lz::passes
