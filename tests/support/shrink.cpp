#include "tests/support/shrink.h"

#include "ir/diagnostic.h"
#include "ir/graph/builder.h"
#include "ir/graph/verify.h"

#include <optional>
#include <string>
#include <vector>

namespace lz::test {
namespace {

using ir::Graph;
using ir::ValueId;

/// A change: what stands for one value, and which results are kept.
struct Edit {
    ValueId value = ir::kNone;    ///< replaced
    std::optional<ValueId> by;    ///< an operand, or a fresh parameter when empty
    std::vector<ValueId> results; ///< of the new graph, as values of the old
};

/// The graph after the edit, without what nothing uses then.
std::optional<Graph> apply(const Graph &graph, const Edit &edit) {
    std::vector<bool> live(graph.values().size(), false);
    const auto target = [&](ValueId v) { return v == edit.value && edit.by ? *edit.by : v; };
    for (const ValueId r : edit.results)
        live[target(r)] = true;
    for (size_t i = graph.nodes().size(); i-- > 0;) {
        const ir::Node &node = graph.node(static_cast<ir::NodeId>(i));
        bool used = false;
        for (uint32_t k = 0; k < node.result_count; ++k)
            used |= live[node.first_result + k];
        if (!used || node.first_result == edit.value)
            continue;
        for (const ValueId operand : graph.operands(node))
            live[target(operand)] = true;
    }
    ir::GraphBuilder builder(graph.name);
    std::vector<ValueId> values(graph.values().size(), ir::kNone);
    try {
        for (const ir::Param &param : graph.params)
            if (live[param.value])
                values[param.value] = builder.clone_param(graph, param);
        if (edit.value != ir::kNone && !edit.by && live[edit.value])
            values[edit.value] = builder.param(graph.type(edit.value), "fresh" + std::to_string(edit.value));
        std::vector<ValueId> operands;
        for (const ir::Node &node : graph.nodes()) {
            bool used = false;
            for (uint32_t k = 0; k < node.result_count; ++k)
                used |= live[node.first_result + k];
            if (!used || node.first_result == edit.value)
                continue;
            operands.clear();
            for (const ValueId operand : graph.operands(node))
                operands.push_back(values[target(operand)]);
            const ValueId first = builder.clone_node(graph, node, operands);
            for (uint32_t k = 0; k < node.result_count; ++k)
                values[node.first_result + k] = first + k;
        }
        for (const ValueId r : edit.results)
            builder.graph().results.push_back(values[target(r)]);
        Graph small = builder.take();
        ir::verify(small);
        return small;
    } catch (const ir::Failure &) {
        return std::nullopt; // the edit made something ill-formed
    }
}

size_t weight(const Graph &graph) {
    return graph.nodes().size() * 4 + graph.params.size() + graph.results.size();
}

/// One edit that keeps the failure and makes the graph lighter.
std::optional<Graph> smaller(const Graph &graph, const std::function<bool(const Graph &)> &fails) {
    const auto attempt = [&](const Edit &edit) -> std::optional<Graph> {
        std::optional<Graph> candidate = apply(graph, edit);
        if (candidate && weight(*candidate) < weight(graph) && fails(*candidate))
            return candidate;
        return std::nullopt;
    };
    if (graph.results.size() > 1)
        for (const ValueId r : graph.results)
            if (auto found = attempt({ir::kNone, {}, {r}}))
                return found;
    for (const ir::Node &node : graph.nodes()) {
        if (node.result_count != 1)
            continue;
        if (auto found = attempt({node.first_result, {}, graph.results}))
            return found;
        for (const ValueId operand : graph.operands(node))
            if (graph.type(operand) == graph.type(node.first_result))
                if (auto found = attempt({node.first_result, operand, graph.results}))
                    return found;
    }
    // The operands of the last operation as results: failures upstream.
    if (!graph.nodes().empty())
        for (const ir::Node &node : graph.nodes())
            if (node.result_count == 1)
                if (auto found = attempt({ir::kNone, {}, {node.first_result}}))
                    return found;
    return std::nullopt;
}

} // namespace

Graph shrink(Graph graph, const std::function<bool(const Graph &)> &fails) {
    while (auto found = smaller(graph, fails))
        graph = std::move(*found);
    return graph;
}

} // namespace lz::test
