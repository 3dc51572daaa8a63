#include "passes/fuse/groups.h"

#include "passes/devices/places.h"
#include "passes/fuse/clusters.h"

#include <algorithm>
#include <unordered_map>

namespace lz::passes {

using namespace ir;

namespace {

/// More segments than this take long to pack for each launch.
constexpr int kMaxSegments = 2048;

uint64_t mix(uint64_t h, uint64_t v) {
    h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
    return h * 0xff51afd7ed558ccdull;
}

/// Equal for clusters that may have equal kernels: operations, wiring and dtypes, but no extents. Whether
/// they have is for `lower_clusters` to see.
class Signature {
public:
    Signature(const Graph &graph, const Partition &partition) : graph_(graph), partition_(partition) {}

    uint64_t of(std::span<const NodeId> members) {
        local_.clear();
        uint64_t h = members.size();
        const Node &last = graph_.node(members.back());
        h = mix(h, static_cast<uint64_t>(static_cast<uint32_t>(last.stream)));
        h = mix(h, static_cast<uint64_t>(device_word(device_of(graph_, last))));
        for (const NodeId n : members)
            h = mix(h, node(n));
        return h;
    }

private:
    uint64_t node(NodeId id) {
        const Node &n = graph_.node(id);
        uint64_t h = mix(static_cast<uint64_t>(n.op), n.operand_count);
        if (n.op == Op::Cast || n.op == Op::Literal || n.op == Op::Iota)
            h = mix(h, static_cast<uint64_t>(graph_.type(graph_.result(n)).dtype));
        if (n.op == Op::Literal)
            h = mix(h, static_cast<uint64_t>(graph_.attrs(n).scalar_word(attr::kMakerValue)));
        for (const ValueId v : graph_.operands(n))
            h = mix(h, value(v));
        for (uint32_t k = 0; k < n.result_count; ++k)
            local_.emplace(graph_.result(n, k), local_.size());
        return h;
    }

    uint64_t value(ValueId v) {
        const auto [it, fresh] = local_.emplace(v, local_.size());
        uint64_t h = it->second;
        if (!fresh)
            return h;
        const NodeId p = graph_.value(v).producer;
        if (p != kNone && partition_.cluster[p] == kInlined)
            return mix(h, node(p));
        return mix(h, static_cast<uint64_t>(graph_.type(v).dtype));
    }

    const Graph &graph_;
    const Partition &partition_;
    std::unordered_map<ValueId, size_t> local_;
};

} // namespace

std::vector<int32_t> choose_groups(const Graph &graph, const Partition &partition,
                                   std::span<const uint32_t> members_begin, std::span<const NodeId> members,
                                   std::span<const uint32_t> edges_begin, std::span<const int32_t> edges,
                                   std::span<const int64_t> kept, const Target &target) {
    const size_t n = partition.kind.size();
    std::vector<int32_t> groups(n, -1);
    const auto nodes = [&](size_t c) {
        return members.subspan(members_begin[c], members_begin[c + 1] - members_begin[c]);
    };
    // Distance to the end: clusters in reverse topological order. Kahn over readers.
    std::vector<uint32_t> readers(n, 0), distance(n, 0);
    for (const int32_t e : edges)
        ++readers[static_cast<size_t>(e)];
    std::vector<size_t> ready;
    for (size_t c = 0; c < n; ++c)
        if (readers[c] == 0)
            ready.push_back(c);
    while (!ready.empty()) {
        const size_t c = ready.back();
        ready.pop_back();
        for (uint32_t e = edges_begin[c]; e < edges_begin[c + 1]; ++e) {
            const auto p = static_cast<size_t>(edges[e]);
            distance[p] = std::max(distance[p], distance[c] + 1);
            if (--readers[p] == 0)
                ready.push_back(p);
        }
    }
    // Nothing crosses an effect of the user's: clusters before and after one are never one launch.
    const Places places(graph);
    Signature signature(graph, partition);
    struct Group {
        int32_t first;
        int64_t kept;
        int32_t id = -1;
        int count = 1;
    };
    const auto has_room = [&](const Group &group, size_t c) {
        const DeviceInfo *const device = target.find(device_of(graph, graph.node(nodes(c).back())));
        return !device || device->memory_bytes == 0 || kept[c] == 0 ||
               static_cast<double>(group.kept + kept[c]) <=
                   kMemoryOfGroup * static_cast<double>(device->memory_bytes);
    };
    std::unordered_map<uint64_t, Group> open;
    int32_t next = 0;
    for (size_t c = 0; c < n; ++c) {
        if (partition.kind[c] != ClusterKind::Loop)
            continue;
        const uint64_t key = mix(mix(signature.of(nodes(c)), distance[c]), places.epoch(nodes(c).back()));
        const auto [it, fresh] = open.try_emplace(key, Group{static_cast<int32_t>(c), kept[c]});
        Group &g = it->second;
        if (fresh)
            continue;
        if (g.count == kMaxSegments || !has_room(g, c)) {
            g = Group{static_cast<int32_t>(c), kept[c]};
            continue;
        }
        if (g.id < 0) {
            g.id = next++;
            groups[static_cast<size_t>(g.first)] = g.id;
        }
        groups[c] = g.id;
        g.kept += kept[c];
        ++g.count;
    }
    return groups;
}

} // namespace lz::passes
