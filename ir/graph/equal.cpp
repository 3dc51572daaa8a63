#include "ir/graph/text.h"
#include "ir/text/text.h"

#include <algorithm>
#include <cstring>

namespace lz::ir {

namespace {

bool equal_locations(const Location &a, const Location &b) {
    return a.known() == b.known() &&
           (!a.known() || (a.line == b.line && a.function == b.function && std::strcmp(a.file, b.file) == 0));
}

/// Compares two graphs whose values may be numbered differently: a parameter may stand between nodes, where
/// the text always has it first.
class Comparison {
public:
    Comparison(const Graph &a, const Graph &b)
        : a_(a), b_(b), numbers_a_(value_numbers(a)), numbers_b_(value_numbers(b)) {}

    bool run() const {
        if (a_.name != b_.name || a_.params.size() != b_.params.size() ||
            a_.nodes().size() != b_.nodes().size() || a_.clusters.size() != b_.clusters.size())
            return false;
        for (size_t i = 0; i < a_.params.size(); ++i)
            if (!params(a_.params[i], b_.params[i]))
                return false;
        for (size_t i = 0; i < a_.clusters.size(); ++i)
            if (a_.clusters[i].kind != b_.clusters[i].kind || group(a_.clusters[i]) != group(b_.clusters[i]))
                return false;
        for (NodeId id = 0; id < a_.nodes().size(); ++id)
            if (!nodes(a_.node(id), b_.node(id)))
                return false;
        return values(a_.results, b_.results);
    }

private:
    static int32_t group(const Cluster &c) { return std::max(c.group, -1); }

    bool values(std::span<const ValueId> x, std::span<const ValueId> y) const {
        return std::ranges::equal(x, y, [&](ValueId v, ValueId w) {
            const bool param = a_.value(v).producer == kNone;
            return param == (b_.value(w).producer == kNone) &&
                   (param ? a_.value(v).result == b_.value(w).result : numbers_a_[v] == numbers_b_[w]);
        });
    }

    bool params(const Param &p, const Param &q) const {
        return p.name == q.name && a_.type(p.value) == b_.type(q.value) && p.init == q.init &&
               (p.init != InitKind::Random || p.seed == q.seed) && p.bytes == q.bytes &&
               p.donated == q.donated && p.donated_to == q.donated_to && p.kept == q.kept &&
               std::max(p.storage, -1) == std::max(q.storage, -1) && equal_locations(p.loc, q.loc);
    }

    bool nodes(const Node &n, const Node &m) const {
        if (n.op != m.op || n.result_count != m.result_count || n.stream != m.stream ||
            std::max(n.cluster, -1) != std::max(m.cluster, -1) || n.recorded != m.recorded ||
            n.cause != m.cause || !equal_locations(n.loc, m.loc) || !values(a_.operands(n), b_.operands(m)) ||
            !std::ranges::equal(a_.order(n), b_.order(m)))
            return false;
        for (uint32_t k = 0; k < n.result_count; ++k)
            if (!(a_.type(a_.result(n, k)) == b_.type(b_.result(m, k))))
                return false;
        const AttrView x = a_.attrs(n), y = b_.attrs(m);
        return std::ranges::equal(x.structural, y.structural) && std::ranges::equal(x.runtime, y.runtime);
    }

    const Graph &a_, &b_;
    std::vector<uint32_t> numbers_a_, numbers_b_;
};

} // namespace

bool equal(const Graph &a, const Graph &b) {
    return Comparison(a, b).run();
}

} // namespace lz::ir
