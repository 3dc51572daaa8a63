#include "ir/graph/text.h"
#include "ir/text/scanner.h"
#include "ir/text/text.h"

namespace lz::ir {

namespace {

/// Label text: quoted for Graphviz, in which `\n` begins a new line.
std::string label(std::string_view first, std::string_view second, std::string_view third = {}) {
    std::string text = quoted(first);
    text.pop_back();
    for (const std::string_view line : {second, third}) {
        if (line.empty())
            continue;
        const std::string more = quoted(line);
        text += "\\n" + more.substr(1, more.size() - 2);
    }
    return text + "\"";
}

class DotPrinter {
public:
    explicit DotPrinter(const Graph &graph) : g_(graph), numbers_(value_numbers(graph)) {}

    std::string run() {
        out_ = "digraph " + quoted(g_.name) +
               " {\n  node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"monospace\", "
               "fontsize=10]\n"
               "  edge [fontname=\"monospace\", fontsize=9]\n";
        for (const Param &p : g_.params)
            out_ += "  v" + std::to_string(p.value) +
                    " [fillcolor=\"#dde8f5\", label=" + label("%" + p.name, to_string(g_.type(p.value))) +
                    "]\n";
        boxes();
        for (NodeId id = 0; id < g_.nodes().size(); ++id)
            edges(id);
        for (size_t i = 0; i < g_.results.size(); ++i) {
            const std::string name = "result" + std::to_string(i);
            out_ +=
                "  " + name + " [shape=plaintext, style=\"\", label=\"result " + std::to_string(i) + "\"]\n";
            out_ += "  " + source(g_.results[i]) + " -> " + name + "\n";
        }
        return std::move(out_) + "}\n";
    }

private:
    void boxes() {
        int32_t open = -1;
        for (NodeId id = 0; id < g_.nodes().size(); ++id) {
            const int32_t c = g_.node(id).cluster;
            if (c != open) {
                if (open >= 0)
                    out_ += "  }\n";
                if (c >= 0)
                    begin_cluster(c);
                open = c;
            }
            box(id);
        }
        if (open >= 0)
            out_ += "  }\n";
    }

    void begin_cluster(int32_t c) {
        const Cluster &cluster = g_.clusters[static_cast<size_t>(c)];
        out_ += "  subgraph cluster_" + std::to_string(c) +
                " {\n    style=filled; color=\"#f2ead8\"; label=\"" + std::to_string(c) + ": " +
                std::string(ir::name(cluster.kind)) +
                (cluster.group >= 0 ? ", group " + std::to_string(cluster.group) : "") + "\"\n";
    }

    void box(NodeId id) {
        const Node &n = g_.node(id);
        std::string title(ir::name(n.op)), types;
        if (n.result_count > 0)
            title = "%" + std::to_string(numbers_[n.first_result]) + " = " + title;
        for (uint32_t k = 0; k < n.result_count; ++k)
            types += (k ? ", " : "") + to_string(g_.type(g_.result(n, k)));
        out_ += "  n" + std::to_string(id) +
                " [label=" + label(title, types, n.loc.known() ? to_string(n.loc) : "");
        if (n.op == Op::Transfer)
            out_ += ", penwidth=2";
        out_ += "]\n";
    }

    void edges(NodeId id) {
        const Node &n = g_.node(id);
        const std::string to = " -> n" + std::to_string(id);
        for (const ValueId v : g_.operands(n))
            out_ += "  " + source(v) + to + (n.op == Op::Transfer ? " [penwidth=3]\n" : "\n");
        for (const NodeId before : g_.order(n))
            out_ += "  n" + std::to_string(before) + to + " [style=dashed]\n";
    }

    std::string source(ValueId v) const {
        const NodeId producer = g_.value(v).producer;
        return producer == kNone ? "v" + std::to_string(v) : "n" + std::to_string(producer);
    }

    const Graph &g_;
    std::vector<uint32_t> numbers_;
    std::string out_;
};

} // namespace

std::string to_dot(const Graph &graph) {
    return DotPrinter(graph).run();
}

} // namespace lz::ir
