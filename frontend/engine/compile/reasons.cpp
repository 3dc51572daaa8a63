#include "frontend/engine/compile/reasons.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace lz::engine {
namespace {

/// Operations, their wiring and their structural words, without extents and dtypes of inputs.
uint64_t skeleton(const ir::Graph &graph, bool with_words) {
    std::vector<int64_t> words;
    for (const ir::Node &node : graph.nodes()) {
        words.push_back(static_cast<int64_t>(node.op));
        for (const ir::ValueId operand : graph.operands(node))
            words.push_back(operand);
        if (with_words)
            for (const int64_t word : graph.attrs(node).structural)
                words.push_back(word);
    }
    return XXH3_64bits(words.data(), words.size() * sizeof(int64_t));
}

} // namespace

std::string CompileReasons::why(const ir::Graph &graph) {
    const std::lock_guard lock(mutex_);
    const bool wiring_seen = seen_[skeleton(graph, false)]++ > 0;
    const bool words_seen = seen_[skeleton(graph, true) ^ 1]++ > 0;
    if (!wiring_seen)
        return "a new sequence of operations";
    return words_seen
               ? "known operations on inputs of other sizes, dtypes or ownership, or other results wanted"
               : "known operations with other shapes or structural attributes";
}

} // namespace lz::engine
