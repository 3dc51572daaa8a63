#include "passes/fuse/products.h"

#include "passes/lower/dot.h"
#include "passes/simplify/rewrite.h"

#include <algorithm>
#include <numeric>

namespace lz::passes {

using namespace ir;

namespace {

bool strided(const Graph &graph, const Node &dot, int which) {
    return dot_operand(graph, dot, which, [](ValueId) { return false; }).has_value();
}

void append(std::vector<int64_t> &words, std::span<const int64_t> list) {
    words.push_back(static_cast<int64_t>(list.size()));
    words.insert(words.end(), list.begin(), list.end());
}

/// The dot again, with operands in canonical order where they are not strided.
void rewrite(const Graph &graph, Rewriter &rewriter, NodeId id) {
    const Node &dot = graph.node(id);
    const AttrView attrs = graph.attrs(dot);
    GraphBuilder &b = rewriter.builder();
    // As in dot_dims: contracted dimensions in the order of lhs.
    const auto lc = attrs.ints(attr::kDotLhsContract);
    std::vector<size_t> order(lc.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t x, size_t y) { return lc[x] < lc[y]; });

    std::vector<ValueId> operands;
    std::vector<std::vector<int64_t>> batch(2), contract(2);
    for (int i = 0; i < 2; ++i) {
        const auto side = static_cast<size_t>(i);
        const auto old_batch = attrs.ints(i == 0 ? attr::kDotLhsBatch : attr::kDotRhsBatch);
        const auto old_contract = attrs.ints(i == 0 ? attr::kDotLhsContract : attr::kDotRhsContract);
        const ValueId v = graph.operands(dot)[side];
        ValueId now = rewriter.value(v);
        batch[side].assign(old_batch.begin(), old_batch.end());
        for (const size_t k : order)
            contract[side].push_back(old_contract[k]);
        if (!strided(graph, dot, i)) {
            const int rank = graph.type(v).shape.rank();
            std::vector<int64_t> axes = batch[side];
            for (int64_t d = 0; d < rank; ++d)
                if (std::find(old_batch.begin(), old_batch.end(), d) == old_batch.end() &&
                    std::find(old_contract.begin(), old_contract.end(), d) == old_contract.end())
                    axes.push_back(d);
            axes.insert(axes.end(), contract[side].begin(), contract[side].end());
            now = b.permute(now, axes, dot.loc);
            b.set_stream(dot.stream);
            std::iota(batch[side].begin(), batch[side].end(), int64_t{0});
            std::iota(contract[side].begin(), contract[side].end(),
                      rank - static_cast<int64_t>(contract[side].size()));
        }
        operands.push_back(now);
    }
    std::vector<int64_t> words;
    append(words, batch[0]);
    append(words, batch[1]);
    append(words, contract[0]);
    append(words, contract[1]);
    b.add(Op::Dot, operands, words, {}, dot.loc);
    b.set_stream(dot.stream);
    b.set_recorded(dot.recorded);
    rewriter.kept(id);
}

} // namespace

std::optional<Graph> permute_operands(const Graph &graph) {
    std::vector<bool> wrong(graph.nodes().size(), false);
    bool any = false;
    for (NodeId n = 0; n < graph.nodes().size(); ++n) {
        const Node &node = graph.node(n);
        if (node.op != Op::Dot)
            continue;
        wrong[n] = !strided(graph, node, 0) || !strided(graph, node, 1);
        any = any || wrong[n];
    }
    if (!any)
        return std::nullopt;
    Rewriter rewriter(graph);
    for (NodeId n = 0; n < graph.nodes().size(); ++n) {
        if (wrong[n])
            rewrite(graph, rewriter, n);
        else
            rewriter.keep(n);
    }
    return rewriter.finish();
}

} // namespace lz::passes
