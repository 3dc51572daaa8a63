#include "passes/memory/recompute_search.h"

#include "ir/graph/checks.h"
#include "passes/found_again.h"
#include "passes/memory/live_order.h"
#include "passes/memory/recompute.h"
#include "passes/operations.h"
#include "passes/streams/estimates.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

namespace lz::passes {

using namespace ir;

namespace {

/// Kernels that one value may need to be made again: itself, and what it is made of.
constexpr int kMostKernels = 3;
/// Moments that a value may stay for one that is made of it.
constexpr uint32_t kMostStay = 4;
/// Rounds of the search, and values that it looks at in all of them together.
constexpr size_t kMostRounds = 256, kMostLooks = 4'000'000, kLooksOfAPlan = 32;

bool is_kernel(ClusterKind kind) {
    return kind == ClusterKind::Loop || kind == ClusterKind::Row || kind == ClusterKind::Reduce ||
           kind == ClusterKind::Contraction;
}

/// A value between kernels. Moments are positions of kernels; clusters of a group are one.
struct Life {
    int64_t bytes = 0; ///< 0: it is no such value, or is there all the time
    uint32_t made = 0, last = 0;
    std::vector<uint32_t> uses{}; ///< ascending
    bool is_cut = false;          ///< there is nothing of it between these two:
    uint32_t cut = 0, again = 0;  ///< the last use before, and the moment at which it is made again

    bool is_alive(uint32_t moment) const {
        return bytes == 0 ||
               (moment >= made && moment <= last && !(is_cut && moment > cut && moment < again));
    }
};

/// What making a value again takes.
struct Plan {
    std::vector<Again> kernels;                      ///< in order
    std::vector<std::pair<ValueId, uint32_t>> reads; ///< values, and when
    double seconds = 0;
};

class Search {
public:
    /// `types`: of the graph's values.
    Search(const Graph &graph, std::span<const TensorType> types, const DeviceInfo &device)
        : graph_(graph), types_(types), device_(device) {
        seen_.assign(graph.values().size(), 0);
        find_stored();
        find_units();
        order_units();
        find_lives();
        for (NodeId n = 0; n < graph.nodes().size(); ++n)
            whole_ += seconds_of(n);
        for (ValueId v = 0; v < lives_.size(); ++v)
            if (stored_[v])
                whole_ += static_cast<double>(type(v).bytes()) *
                          static_cast<double>(1 + lives_[v].uses.size()) / device_.memory_bandwidth;
    }

    /// In the order in which they were found: one that another one reads comes before it.
    std::vector<Again> run() {
        find_live_bytes();
        const int64_t before = *std::ranges::max_element(live_);
        if (before < least_alive(device_))
            return {};
        int64_t least = before;
        size_t kept = 0;
        double seconds = 0;
        for (size_t round = 0; round < kMostRounds && looks_ < kMostLooks; ++round) {
            looks_ += lives_.size() + live_.size();
            const auto peak = static_cast<uint32_t>(std::ranges::max_element(live_) - live_.begin());
            auto best = find_best(peak, kMostRecomputed * whole_ - seconds);
            if (!best)
                break;
            seconds += best->second.seconds;
            apply(best->first, best->second, peak);
            find_live_bytes();
            if (const int64_t bytes = *std::ranges::max_element(live_); bytes < least) {
                least = bytes;
                kept = all_.size();
            }
        }
        if (static_cast<double>(before - least) < kWorthwhileSaving * static_cast<double>(before))
            return {};
        all_.resize(kept);
        return std::move(all_);
    }

    /// Kernels in the order that the moments are those of, the clusters of a group as one: of each its first
    /// cluster and the one behind its last.
    std::vector<std::pair<uint32_t, uint32_t>> kernels() const {
        std::vector<std::pair<uint32_t, uint32_t>> all;
        for (const uint32_t u : order_)
            all.emplace_back(units_[u], units_[u + 1]);
        return all;
    }

private:
    const TensorType &type(ValueId v) const { return types_[v]; }

    void find_stored() {
        stored_.assign(graph_.values().size(), false);
        is_result_ = stored_;
        for (const Node &node : graph_.nodes())
            for (const ValueId v : graph_.operands(node))
                if (const Node *p = graph_.producer(v); p && p->cluster != node.cluster)
                    stored_[v] = true;
        for (const ValueId r : graph_.results)
            stored_[r] = is_result_[r] = true;
    }

    void find_units() {
        unit_.resize(graph_.clusters.size());
        for (size_t c = 0; c < unit_.size(); ++c) {
            const int32_t group = graph_.clusters[c].group;
            if (c == 0 || group < 0 || group != graph_.clusters[c - 1].group)
                units_.push_back(static_cast<uint32_t>(c));
            unit_[c] = static_cast<uint32_t>(units_.size() - 1);
        }
        units_.push_back(static_cast<uint32_t>(unit_.size()));
    }

    uint32_t unit_of(const Node &node) const { return unit_[static_cast<size_t>(node.cluster)]; }

    /// As order_steps will have them.
    void order_units() {
        const auto units = static_cast<uint32_t>(units_.size() - 1);
        Traffic traffic(graph_.values().size());
        for (ValueId v = 0; v < graph_.values().size(); ++v)
            traffic.bytes[v] = stored_[v] && !is_result_[v] ? type(v).bytes() : 0;
        std::vector<StepEdge> edges;
        std::vector<std::vector<uint32_t>> readers(graph_.values().size()); // kernels
        uint32_t now = kNone, failing = kNone;
        for (const Node &node : graph_.nodes()) {
            if (unit_of(node) != now) {
                now = unit_of(node);
                traffic.begin_step();
            }
            for (uint32_t k = 0; k < node.result_count; ++k)
                traffic.add_made(graph_.result(node, k));
            for (const ValueId v : graph_.operands(node)) {
                const Node *p = graph_.producer(v);
                if (p && unit_of(*p) != now) {
                    edges.emplace_back(unit_of(*p), now);
                    traffic.add_read(v);
                }
                if (node.op == Op::UpdateSlice) // in place once all others have read it
                    for (const uint32_t reader : readers[v])
                        if (reader != now)
                            edges.emplace_back(reader, now);
                readers[v].push_back(now);
            }
            if (!may_fail(node) || failing == now)
                continue;
            if (failing != kNone)
                edges.emplace_back(failing, now);
            failing = now;
        }
        traffic.end();
        for (const Param &p : graph_.params) // who reads it last may overwrite it
            if (p.donated)
                for (const uint32_t reader : readers[p.value])
                    if (reader != readers[p.value].back())
                        edges.emplace_back(reader, readers[p.value].back());
        order_ = find_order(traffic, edges, least_alive(device_));
        if (order_.empty())
            for (uint32_t u = 0; u < units; ++u)
                order_.push_back(u);
        moment_.resize(units);
        for (uint32_t m = 0; m < units; ++m)
            moment_[order_[m]] = m;
        live_.assign(units + 1, 0);
    }

    bool may_fail(const Node &node) const {
        return !is_kernel(graph_.clusters[static_cast<size_t>(node.cluster)].kind) ||
               (node.result_count > 0 && has_checks(node.op, type(graph_.result(node)).dtype));
    }

    uint32_t moment_of(NodeId n) const { return moment_[unit_of(graph_.node(n))]; }

    void find_lives() {
        lives_.resize(graph_.values().size());
        for (NodeId n = 0; n < graph_.nodes().size(); ++n)
            for (const ValueId v : graph_.operands(graph_.node(n)))
                if (const Node *p = graph_.producer(v); p && p->cluster != graph_.node(n).cluster)
                    lives_[v].uses.push_back(moment_of(n));
        for (ValueId v = 0; v < lives_.size(); ++v) {
            Life &life = lives_[v];
            std::ranges::sort(life.uses);
            life.uses.erase(std::ranges::unique(life.uses).begin(), life.uses.end());
            if (!stored_[v] || is_result_[v]) // that has a block of its own all the time
                continue;
            life.bytes = type(v).bytes();
            life.made = moment_of(graph_.value(v).producer);
            life.last = life.uses.back();
        }
    }

    void find_live_bytes() {
        std::ranges::fill(live_, 0);
        const auto add = [&](uint32_t from, uint32_t to, int64_t bytes) {
            live_[from] += bytes;
            live_[to + 1] -= bytes;
        };
        for (const Life &life : lives_) {
            if (life.bytes == 0)
                continue;
            add(life.made, life.is_cut ? life.cut : life.last, life.bytes);
            if (life.is_cut)
                add(life.again, life.last, life.bytes);
        }
        for (size_t m = 1; m < live_.size(); ++m)
            live_[m] += live_[m - 1];
    }

    /// Of the values that nobody reads at the moment and that are read later, the one that is cheapest to
    /// make again for its bytes.
    std::optional<std::pair<ValueId, Plan>> find_best(uint32_t moment, double most_seconds) {
        std::optional<std::pair<ValueId, Plan>> best;
        double best_price = 0;
        const int64_t least = std::max(kLeastRecomputed, live_[moment] / 512);
        for (ValueId v = 0; v < lives_.size(); ++v) {
            const Life &life = lives_[v];
            if (life.bytes < least || life.is_cut || moment <= life.made || moment >= life.last)
                continue;
            const auto next = std::ranges::lower_bound(life.uses, moment);
            if (*next == moment)
                continue;
            Plan plan;
            if (!make(v, *next, plan, kMostKernels))
                continue;
            const double price = plan.seconds / static_cast<double>(life.bytes);
            if (plan.seconds > most_seconds || price * device_.memory_bandwidth > kMostPrice)
                continue;
            if (!best || price < best_price) {
                best_price = price;
                best.emplace(v, std::move(plan));
            }
        }
        return best;
    }

    /// How `value` is made again before `moment`, by at most so many kernels. What it is made of is there
    /// then, or is made again, too.
    bool make(ValueId value, uint32_t moment, Plan &plan, int kernels) {
        const NodeId producer = graph_.value(value).producer;
        const Node &last = graph_.node(producer);
        const ClusterKind kind = graph_.clusters[static_cast<size_t>(last.cluster)].kind;
        if (kernels <= 0 || last.result_count != 1 || !is_kernel(kind))
            return false;
        looks_ += kLooksOfAPlan;
        std::vector<NodeId> nodes{producer};
        std::vector<ValueId> reads;
        int products = 0, reductions = 0;
        int64_t bytes = type(value).bytes(), reduced = 0;
        for (size_t i = 0; i < nodes.size(); ++i) {
            const Node &node = graph_.node(nodes[i]);
            if (node.result_count != 1 || has_checks(node.op, type(graph_.result(node)).dtype) ||
                node.op == Op::UpdateSlice || joins_many(node))
                return false;
            products += info(node.op).family == OpFamily::Contraction;
            if (reduces_here(node)) {
                ++reductions;
                reduced = std::max(reduced, type(graph_.operands(node)[0]).numel());
            }
            plan.seconds += seconds_of(nodes[i]);
            for (const ValueId v : graph_.operands(node)) {
                if (seen_[v] == looks_)
                    continue;
                seen_[v] = looks_;
                const NodeId p = graph_.value(v).producer;
                if (p == kNone)
                    bytes += type(v).bytes();
                else if (graph_.node(p).cluster == last.cluster && !(stored_[v] && is_there(v, moment)))
                    nodes.push_back(p);
                else
                    reads.push_back(v);
            }
        }
        std::ranges::sort(nodes);
        // A product's kernel is made as a whole: what follows it there may be a library's.
        if (products > 0 && nodes.size() != size_of_cluster(last.cluster))
            return false;
        for (const ValueId v : reads) {
            bytes += type(v).bytes();
            if (is_there(v, moment))
                plan.reads.emplace_back(v, moment);
            else if (lives_[v].is_cut ||
                     std::ranges::find(plan.kernels, v, &Again::value) != plan.kernels.end() ||
                     !make(v, moment, plan, kernels - 1 - static_cast<int>(plan.kernels.size())))
                return false;
        }
        plan.seconds += static_cast<double>(bytes) / device_.memory_bandwidth;
        const bool full = reductions > 0 && type(value).numel() == reduced;
        const ClusterKind made = products > 0             ? ClusterKind::Contraction
                                 : reductions == 0        ? ClusterKind::Loop
                                 : reductions > 1 || full ? ClusterKind::Row
                                                          : ClusterKind::Reduce;
        plan.kernels.push_back({moment, value, made, std::move(nodes)});
        return true;
    }

    /// In memory at the moment, or so shortly before that it can stay.
    bool is_there(ValueId v, uint32_t moment) const {
        const Life &life = lives_[v];
        return life.is_alive(moment) ||
               (!life.is_cut && moment > life.last && moment - life.last <= kMostStay);
    }

    bool reduces_here(const Node &node) const {
        return info(node.op).family == OpFamily::Reduction && reduces(graph_, node);
    }

    size_t size_of_cluster(int32_t cluster) {
        if (sizes_.empty()) {
            sizes_.assign(graph_.clusters.size(), 0);
            for (const Node &node : graph_.nodes())
                ++sizes_[static_cast<size_t>(node.cluster)];
        }
        return sizes_[static_cast<size_t>(cluster)];
    }

    /// What the node adds to a kernel: operations, without its operands' way from memory.
    double seconds_of(NodeId n) const {
        const Node &node = graph_.node(n);
        if (node.result_count == 0)
            return 0;
        double operations = 0;
        if (node.op == Op::Dot) {
            operations = 2 * static_cast<double>(type(graph_.result(node)).numel());
            const TensorType &lhs = type(graph_.operands(node)[0]);
            for (const int64_t axis : graph_.attrs(node).ints(attr::kDotLhsContract))
                operations *= static_cast<double>(lhs.shape[static_cast<int>(axis)]);
        } else {
            const int64_t points = std::max(
                type(graph_.result(node)).numel(),
                node.operand_count > 0 && reduces_here(node) ? type(graph_.operands(node)[0]).numel() : 0);
            operations = static_cast<double>(points) * fused_ops(graph_, node);
        }
        return operations / device_.flops;
    }

    void apply(ValueId value, Plan &plan, uint32_t moment) {
        for (const auto &[v, when] : plan.reads) {
            std::vector<uint32_t> &uses = lives_[v].uses;
            if (const auto at = std::ranges::lower_bound(uses, when); at == uses.end() || *at != when)
                uses.insert(at, when);
            lives_[v].last = std::max(lives_[v].last, when);
        }
        for (Again &again : plan.kernels) {
            Life &life = lives_[again.value];
            life.is_cut = true;
            life.again = again.before;
            const auto next =
                std::ranges::lower_bound(life.uses, again.value == value ? moment : again.before);
            life.cut = next == life.uses.begin() ? life.made : *std::prev(next);
            life.last = std::max(life.last, again.before);
            all_.push_back(std::move(again));
        }
    }

    const Graph &graph_;
    const std::span<const TensorType> types_;
    const DeviceInfo &device_;
    std::vector<uint32_t> unit_;           // by cluster: its kernel
    std::vector<uint32_t> units_;          // by kernel: its first cluster, and at the end how many there are
    std::vector<uint32_t> order_;          // kernels
    std::vector<uint32_t> moment_;         // by kernel: its place in that order
    std::vector<Life> lives_;              // by value
    std::vector<bool> stored_, is_result_; // by value
    std::vector<int64_t> live_;            // by moment: bytes
    std::vector<size_t> sizes_;            // by cluster
    std::vector<Again> all_;
    double whole_ = 0;         // seconds of the Program
    size_t looks_ = 0;         // so far
    std::vector<size_t> seen_; // by value: when it was last met
};

/// Values that lie in memory for a while between kernels.
std::vector<ValueId> kept_values(const Graph &graph) {
    std::vector<bool> counted(graph.values().size(), false);
    for (const ValueId r : graph.results)
        counted[r] = true;
    std::vector<ValueId> kept;
    for (const Node &node : graph.nodes())
        for (const ValueId v : graph.operands(node)) {
            const Node *const made = graph.producer(v);
            if (!made || made->cluster == node.cluster || counted[v])
                continue;
            counted[v] = true;
            kept.push_back(v);
        }
    return kept;
}

template <class F>
int64_t bytes_of(std::span<const ValueId> values, const F &type_of) {
    int64_t bytes = 0;
    for (const ValueId v : values)
        bytes += type_of(v).bytes();
    return bytes;
}

Recomputed search(const Graph &graph, std::span<const TensorType> types, const DeviceInfo &device) {
    Search search(graph, types, device);
    Recomputed found{search.run(), {}};
    if (!found.all.empty())
        found.kernels = search.kernels();
    return found;
}

std::vector<TensorType> types_of(const Graph &graph) {
    std::vector<TensorType> types;
    types.reserve(graph.values().size());
    for (const Value &v : graph.values())
        types.push_back(v.type);
    return types;
}

std::vector<int64_t> as_numbers(const Recomputed &found) {
    std::vector<int64_t> numbers;
    const auto add = [&](auto number) { numbers.push_back(static_cast<int64_t>(number)); };
    add(found.all.size());
    for (const Again &again : found.all) {
        add(again.before);
        add(again.value);
        add(again.kind);
        add(again.nodes.size());
        numbers.insert(numbers.end(), again.nodes.begin(), again.nodes.end());
    }
    for (const auto &[first, end] : found.kernels) {
        add(first);
        add(end);
    }
    return numbers;
}
Recomputed from_numbers(std::span<const int64_t> numbers) {
    Recomputed found;
    size_t at = 0;
    const auto next = [&] { return static_cast<uint32_t>(numbers[at++]); };
    found.all.resize(next());
    for (Again &again : found.all) {
        again.before = next();
        again.value = next();
        again.kind = static_cast<ClusterKind>(next());
        again.nodes.resize(next());
        for (NodeId &node : again.nodes)
            node = next();
    }
    while (at < numbers.size()) {
        const uint32_t first = next();
        found.kernels.emplace_back(first, next());
    }
    return found;
}

/// The search is a function of the extents of all values: what it finds is the same for many sizes, though
/// what it compares is not.
Recomputed search_again(const Graph &graph, std::vector<ValueId> values, const DeviceInfo &device) {
    struct Kept {
        Graph graph;
        std::vector<ValueId> values;
        std::vector<TensorType> types;
        std::vector<size_t> extents; // by value: where they begin
        DeviceInfo device;
    };
    Kept kept{graph, std::move(values), types_of(graph), {}, device};
    std::vector<int64_t> extents;
    for (const TensorType &type : kept.types) {
        kept.extents.push_back(extents.size());
        extents.insert(extents.end(), type.shape.begin(), type.shape.end());
    }
    return from_numbers(
        found_again(extents, [kept = std::make_shared<const Kept>(std::move(kept))](const auto &given) {
            const auto type_of = [&](ValueId v) {
                TensorType type = kept->types[v];
                for (int d = 0; d < type.shape.rank(); ++d)
                    type.shape[d] = given[kept->extents[v] + static_cast<size_t>(d)];
                return type;
            };
            if (bytes_of(kept->values, type_of) < least_alive(kept->device))
                return as_numbers({}); // nor are so many alive at once
            std::vector<TensorType> types;
            for (ValueId v = 0; v < kept->types.size(); ++v)
                types.push_back(type_of(v));
            return as_numbers(search(kept->graph, types, kept->device));
        }));
}

} // namespace

Recomputed find_recomputed(const Graph &graph, const DeviceInfo &device) {
    std::vector<ValueId> kept = kept_values(graph);
    if (kept.empty())
        return {};
    if (kManySizes)
        return search_again(graph, std::move(kept), device);
    const auto type_of = [&](ValueId v) { return graph.type(v); };
    return bytes_of(kept, type_of) < least_alive(device) ? Recomputed()
                                                         : search(graph, types_of(graph), device);
}

} // namespace lz::passes
