#include "passes/lower/joins/updates.h"

#include "passes/lower/joins/bodies.h"
#include "passes/lower/nest_domain.h"
#include "passes/schedule/schedule.h"

#include <vector>

namespace lz::passes {

using namespace ir;

namespace {

/// Bytes of a value from which on copying it costs more than further phases of a launch. No measurement was
/// kept; to measure: `jacobi` of bench_programs with 64 to 1024 rows.
constexpr int64_t kLeastBytes = 256 << 10;
/// How many elements cost as much as one of a column, of which a cache line has one.
constexpr int64_t kColumnCost = 8;

/// Whether copying what lies beside the part costs less than half of copying all.
bool is_border(const Shape &whole, const Shape &part, const std::vector<int> &axes) {
    int64_t cost = 0;
    for (const int axis : axes) {
        int64_t beside = whole[axis] - part[axis];
        for (int d = 0; d < whole.rank(); ++d)
            beside *= d == axis ? 1 : d < axis ? part[d] : whole[d];
        cost += beside * (axis + 1 == whole.rank() ? kColumnCost : 1);
    }
    return cost < whole.numel() / 2;
}

} // namespace

bool lower_update_apart(const ClusterView &cluster, const NestDomain &whole, const Target &target,
                        LoweredStep &step) {
    const PieceCosts costs = piece_costs(target, step.device);
    if (!whole.reads_what_it_replaces() || costs.test == 0)
        return false;
    const Graph &graph = *cluster.graph;
    const ValueId v = cluster.stored.front();
    const Node &node = *graph.producer(v);
    const TensorType &type = graph.type(v);
    const Shape &part = graph.type(graph.operands(node)[1]).shape;
    const auto steps = graph.attrs(node).ints(attr::kUpdateSteps);
    std::vector<int> axes; // along which the part is not the whole
    for (int d = 0; d < part.rank(); ++d) {
        if (steps[static_cast<size_t>(d)] != 1)
            return false;
        if (part[d] != type.shape[d])
            axes.push_back(d);
    }
    if (part.numel() == 0 ||
        (costs.body > 0 && (type.bytes() < kLeastBytes || !is_border(type.shape, part, axes))))
        return false;
    PieceBodies bodies;
    NestDomain replaced(cluster);
    replaced.choose_replaced();
    bodies.add(lower_domain(replaced, cluster.kind));
    for (const int axis : axes) {
        NestDomain beside(cluster);
        beside.choose_beside(axis);
        bodies.add(lower_domain(beside, cluster.kind));
    }
    bodies.finish(step);
    return true;
}

} // namespace lz::passes
