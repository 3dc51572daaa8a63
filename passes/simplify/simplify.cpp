#include "passes/simplify/simplify.h"

#include "ir/diagnostic.h"
#include "ir/graph/builder.h"
#include "ir/graph/checks.h"
#include "ir/graph/infer/infer.h"
#include "ir/host/float_environment.h"
#include "passes/devices/places.h"
#include "passes/simplify/rewrite.h"
#include "passes/simplify/rules.h"

#include <algorithm>
#include <array>

namespace lz::passes {

using namespace ir;

namespace {

constexpr size_t kMaxOps = 256;

/// Rules by op: rules[begin[op]] to rules[begin[op + 1]].
struct RuleIndex {
    std::vector<Rule> rules;
    std::array<uint16_t, kMaxOps + 1> begin{};

    RuleIndex() {
        const auto all = simplify_rules();
        for (const Rule &rule : all)
            ++begin[static_cast<size_t>(rule.op) + 1];
        for (size_t op = 0; op < kMaxOps; ++op)
            begin[op + 1] = static_cast<uint16_t>(begin[op + 1] + begin[op]);
        rules.resize(all.size());
        auto next = begin;
        for (const Rule &rule : all)
            rules[next[static_cast<size_t>(rule.op)]++] = rule;
    }
    std::span<const Rule> of(Op op) const {
        const size_t first = begin[static_cast<size_t>(op)], last = begin[static_cast<size_t>(op) + 1];
        return std::span(rules).subspan(first, last - first);
    }
};

const RuleIndex &rule_index() {
    static const RuleIndex &index = *new RuleIndex; // programs are compiled in destructors of statics too
    return index;
}

} // namespace

/// Walks the old graph and makes the new one.
class Simplifier {
public:
    Simplifier(const Graph &from, Graph recycled) : rewriter_(from, std::move(recycled)), from_(from) {
        if (std::ranges::any_of(from.nodes(), [](const Node &n) { return n.stream != kNoStream; }))
            note_results();
    }

    Graph run() {
        for (NodeId id = 0; id < from_.nodes().size(); ++id) {
            const Node &node = from_.node(id);
            const auto values_before = static_cast<ValueId>(graph().values().size());
            const ValueId now = node.result_count == 1 && node.order_count == 0
                                    ? apply_rules({*this, from_.attrs(node), rewriter_.operands(node), node})
                                    : kNone;
            if (now == kNone || (now < values_before && must_stay(node, now))) {
                rewriter_.keep(id);
            } else {
                rewriter_.replace(node.first_result, now);
                changed_ = true;
            }
        }
        return rewriter_.finish();
    }
    bool changed() const { return changed_; }

    ValueId make(const Candidate &candidate) {
        if (const ValueId v = apply_rules(candidate); v != kNone)
            return v;
        GraphBuilder &b = builder();
        const ValueId v = b.add(candidate.attrs.op, candidate.operands, candidate.attrs.structural, {},
                                candidate.origin.loc);
        b.set_stream(candidate.origin.stream);
        b.set_recorded(candidate.origin.recorded);
        return v;
    }
    GraphBuilder &builder() { return rewriter_.builder(); }
    const Graph &graph() { return rewriter_.builder().graph(); }

private:
    void note_results() {
        is_result_.resize(from_.values().size());
        for (const ValueId v : from_.results)
            is_result_[v] = true;
    }

    /// What the user put on a stream, and `now`, which was there before, is not: who waits for the stream
    /// would not wait for that value (S41). Views are work only where their result is stored.
    bool must_stay(const Node &node, ValueId now) {
        if (node.stream == kNoStream || owner_of(from_, node) == kCpu ||
            (info(node.op).family == OpFamily::View && !is_result_[node.first_result]))
            return false;
        const Node *const made = graph().producer(now);
        return !made || made->stream != node.stream || owner_of(graph(), *made) != owner_of(from_, node);
    }

    ValueId apply_rules(const Candidate &candidate) {
        for (const Rule &rule : rule_index().of(candidate.attrs.op))
            if (const ValueId v = rule.apply(candidate); v != kNone)
                return v;
        return kNone;
    }

    Rewriter rewriter_;
    const Graph &from_;
    std::vector<bool> is_result_; ///< by value of the old graph; empty where no node has a stream
    bool changed_ = false;
};

const TensorType &Candidate::type_of(ValueId v) const {
    return simplifier.graph().type(v);
}

TensorType Candidate::result_type() const {
    std::array<const TensorType *, 3> few{};
    std::vector<const TensorType *> many;
    std::span<const TensorType *> types(few.data(), std::min(operands.size(), few.size()));
    if (operands.size() > few.size()) {
        many.resize(operands.size());
        types = many;
    }
    for (size_t k = 0; k < operands.size(); ++k)
        types[k] = &type_of(operands[k]);
    TensorType result;
    infer_types(attrs, types, {&result, 1});
    return result;
}

const Node *Candidate::made_by(ValueId v, Op op) const {
    const Node *node = simplifier.graph().producer(v);
    return node && node->op == op ? node : nullptr;
}

bool Candidate::is_made(ValueId v) const {
    const Node *node = simplifier.graph().producer(v);
    return node && node->operand_count == 0 && !has_checks(node->op, type_of(v).dtype); // a call may fail
}

ValueId Candidate::operand_of(const Node &node, size_t k) const {
    return simplifier.graph().operands(node)[k];
}

AttrView Candidate::attrs_of(const Node &node) const {
    return simplifier.graph().attrs(node);
}

std::optional<LiteralValue> Candidate::literal(ValueId v) const {
    const Node *node = made_by(v, Op::Literal);
    if (!node)
        return std::nullopt;
    const int64_t word = attrs_of(*node).scalar_word(attr::kMakerValue);
    const DType dtype = type_of(v).dtype;
    if (is_float(dtype))
        return LiteralValue{dtype, round_to(dtype, scalar_double(word)), 0};
    return LiteralValue{dtype, static_cast<double>(word), word};
}

ValueId Candidate::make(Op op, std::span<const ValueId> made_operands,
                        std::span<const int64_t> structural) const {
    // The spans may lie in the pools of the graph that is about to grow.
    const std::vector<ValueId> own_operands(made_operands.begin(), made_operands.end());
    const std::vector<int64_t> own_words(structural.begin(), structural.end());
    return simplifier.make({simplifier, {op, own_words, {}}, own_operands, origin});
}

ValueId Candidate::make_literal(const TensorType &type, int64_t word) const {
    std::vector<int64_t> words{static_cast<int64_t>(type.dtype), type.shape.rank()};
    words.insert(words.end(), type.shape.begin(), type.shape.end());
    words.push_back(device_word(type.device));
    words.push_back(word);
    return make(Op::Literal, {}, words);
}

Graph simplify(Graph graph, Graph *recycled) {
    const FloatEnvironment environment; // literals are folded as kernels would compute them
    return remade(graph, recycled, [&](Graph memory) {
        Simplifier simplifier(graph, std::move(memory));
        Graph simplified = simplifier.run();
        if (!simplifier.changed())
            std::swap(simplified, graph);
        return simplified;
    });
}

std::vector<std::string_view> simplify_rule_names() {
    std::vector<std::string_view> names;
    for (const Rule &rule : simplify_rules())
        if (std::ranges::find(names, rule.name) == names.end())
            names.push_back(rule.name);
    return names;
}

} // namespace lz::passes
