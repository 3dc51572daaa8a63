#include "ir/graph/verify.h"

#include "ir/diagnostic.h"
#include "ir/graph/infer/infer.h"
#include "ir/graph/text.h"
#include "ir/text/scanner.h"
#include "ir/text/text.h"

#include <unordered_set>

namespace lz::ir {

namespace {

/// Finds the first thing that is wrong. Each check returns a sentence, empty when all is well.
class Verifier {
public:
    explicit Verifier(const Graph &graph) : g_(graph) {}

    std::string run() {
        if (!is_word(g_.name))
            return "The graph's name " + quoted(g_.name) + " is no word.";
        if (std::string e = params(); !e.empty())
            return e;
        for (NodeId id = 0; id < g_.nodes().size(); ++id)
            if (std::string e = node(id); !e.empty())
                return "Node " + std::to_string(id) + " (" + std::string(ir::name(g_.node(id).op)) +
                       "): " + e;
        for (ValueId v : g_.results)
            if (v >= g_.values().size())
                return "A result is value " + std::to_string(v) + " of " +
                       std::to_string(g_.values().size()) + ".";
        return clusters();
    }

private:
    std::string params() {
        std::unordered_set<std::string_view> names;
        for (size_t i = 0; i < g_.params.size(); ++i) {
            const Param &p = g_.params[i];
            const std::string who = "Parameter " + quoted(p.name);
            if (!is_word(p.name))
                return who + " has a name that is no word.";
            if (!names.insert(p.name).second)
                return who + " has the name of another one.";
            if (p.value >= g_.values().size() || g_.value(p.value).producer != kNone ||
                g_.value(p.value).result != i)
                return who + " is not the parameter that its value says it is.";
            if (p.donated_to != kNone && !p.donated)
                return who + " says which result gets its memory and is not donated.";
            if (p.donated_to != kNone && p.donated_to >= g_.results.size())
                return who + " names result " + std::to_string(p.donated_to) + " of " +
                       std::to_string(g_.results.size()) + " as the one that gets its memory.";
            if (p.kept && p.donated_to == kNone)
                return who + " is kept should a result fail and does not say which.";
            const auto bytes = static_cast<int64_t>(p.bytes.size());
            const int64_t expected = p.init == InitKind::Dense ? g_.type(p.value).bytes() : 0;
            if (bytes != expected)
                return who + " has " + std::to_string(bytes) + " bytes of data; it should have " +
                       std::to_string(expected) + ".";
        }
        return {};
    }

    std::string node(NodeId id) {
        const Node &n = g_.node(id);
        const OpInfo &row = info(n.op);
        // Values are numbered in the order of their nodes, so one comparison says that operands come before
        // uses.
        const ValueId defined = n.result_count ? n.first_result : static_cast<ValueId>(g_.values().size());
        if (static_cast<int>(n.operand_count) < row.min_operands ||
            (row.max_operands >= 0 && static_cast<int>(n.operand_count) > row.max_operands))
            return "it has " + std::to_string(n.operand_count) + " operands.";
        operands_.clear();
        for (ValueId v : g_.operands(n)) {
            if (v >= defined || (g_.value(v).producer != kNone && g_.value(v).producer >= id))
                return "it uses value " + std::to_string(v) + ", which is not defined above it.";
            operands_.push_back(&g_.type(v));
        }
        for (NodeId before : g_.order(n))
            if (before >= id)
                return "it is ordered after node " + std::to_string(before) +
                       ", which does not come before it.";
        const AttrView attrs = g_.attrs(n);
        if (const std::string e = attrs_error(attrs); !e.empty())
            return e + ".";
        if (num_results(attrs) != static_cast<int>(n.result_count))
            return "it has " + std::to_string(n.result_count) + " results; its op gives " +
                   std::to_string(num_results(attrs)) + ".";
        return types(n, id, attrs);
    }

    std::string types(const Node &n, NodeId id, const AttrView &attrs) {
        inferred_.assign(n.result_count, {});
        try {
            infer_types(attrs, operands_, inferred_);
        } catch (const Failure &f) {
            return f.message() + ".";
        }
        for (uint32_t k = 0; k < n.result_count; ++k) {
            const Value &v = g_.value(n.first_result + k);
            if (v.producer != id || v.result != k)
                return "its result " + std::to_string(k) + " names another producer.";
            if (!(v.type == inferred_[k]))
                return "its result " + std::to_string(k) + " has type " + to_string(v.type) +
                       "; the rule gives " + to_string(inferred_[k]) + ".";
        }
        return {};
    }

    std::string clusters() {
        std::vector<bool> left(g_.clusters.size());
        int32_t open = -1;
        for (NodeId id = 0; id < g_.nodes().size(); ++id) {
            const int32_t c = g_.node(id).cluster;
            if (c >= static_cast<int32_t>(g_.clusters.size()))
                return "Node " + std::to_string(id) + " is in cluster " + std::to_string(c) + " of " +
                       std::to_string(g_.clusters.size()) + ".";
            if (c == open)
                continue;
            if (open >= 0)
                left[static_cast<size_t>(open)] = true;
            if (c >= 0 && left[static_cast<size_t>(c)])
                return "The nodes of cluster " + std::to_string(c) + " are not consecutive: node " +
                       std::to_string(id) + " comes after another cluster's.";
            open = c;
        }
        return {};
    }

    const Graph &g_;
    std::vector<const TensorType *> operands_;
    std::vector<TensorType> inferred_;
};

} // namespace

std::string graph_error(const Graph &graph) {
    return Verifier(graph).run();
}

void verify(const Graph &graph) {
    if (const std::string error = graph_error(graph); !error.empty())
        throw Failure(ErrorKind::Internal, "The graph is not well formed. " + error + "\n" + print(graph));
}

} // namespace lz::ir
