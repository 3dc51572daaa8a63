#include "ir/graph/text.h"
#include "ir/text/scanner.h"
#include "ir/text/text.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace lz::ir {

Implied implied(const OpInfo &row, const AttrInfo &attr) {
    if (row.results == 0)
        return Implied::No; // effects have no type that would say it
    if (attr.name == "dtype")
        return Implied::DType;
    if (attr.name == "shape")
        return Implied::Shape;
    if (attr.name == "device")
        return Implied::Device;
    return attr.name == "results" ? Implied::Results : Implied::No;
}

std::vector<uint32_t> value_numbers(const Graph &graph) {
    std::vector<uint32_t> numbers(graph.values().size());
    uint32_t next = 0;
    for (size_t v = 0; v < numbers.size(); ++v)
        numbers[v] = graph.values()[v].producer == kNone ? 0 : next++;
    return numbers;
}

std::vector<uint32_t> effect_numbers(const Graph &graph) {
    std::vector<uint32_t> numbers(graph.nodes().size());
    uint32_t next = 0;
    for (size_t n = 0; n < numbers.size(); ++n)
        numbers[n] = graph.nodes()[n].result_count == 0 ? next++ : 0;
    return numbers;
}

namespace {

/// The element as text, empty where the text would lose bits.
std::string element_text(DType dtype, const std::byte *at) {
    const auto read = [&]<class T>(T value) {
        std::memcpy(&value, at, sizeof value);
        return value;
    };
    const auto real = [](auto value, bool usual) {
        return std::isnan(value) && !usual ? std::string() : shortest(value);
    };
    switch (dtype) {
    case DType::Bool:
    case DType::U8: {
        const auto value = read(uint8_t{});
        return dtype == DType::Bool && value > 1 ? "" : std::to_string(value);
    }
    case DType::I8:
        return std::to_string(read(int8_t{}));
    case DType::I16:
        return std::to_string(read(int16_t{}));
    case DType::I32:
        return std::to_string(read(int32_t{}));
    case DType::I64:
        return std::to_string(read(int64_t{}));
    case DType::F16: {
        const auto bits = read(uint16_t{});
        return real(half_to_float(bits), bits == float_to_half(std::numeric_limits<float>::quiet_NaN()));
    }
    case DType::BF16: {
        const auto bits = read(uint16_t{});
        return real(bfloat_to_float(bits), bits == float_to_bfloat(std::numeric_limits<float>::quiet_NaN()));
    }
    case DType::F32: {
        const auto value = read(float{});
        return real(value, std::bit_cast<uint32_t>(value) == 0x7fc00000u);
    }
    case DType::F64: {
        const auto value = read(double{});
        return real(value, std::bit_cast<uint64_t>(value) == 0x7ff8000000000000u);
    }
    }
    return {};
}

class GraphPrinter {
public:
    GraphPrinter(const Graph &graph, const PrintOptions &options)
        : g_(graph), options_(options), numbers_(value_numbers(graph)), effects_(effect_numbers(graph)),
          first_with_(graph.runtime_words().size(), kNone) {}

    std::string run() {
        if (options_.header)
            out_ += "lazuli 1\n";
        out_ += "graph @" + g_.name + "(";
        for (size_t i = 0; i < g_.params.size(); ++i) {
            if (i)
                out_ += i % 4 == 0 ? ",\n    " : ", ";
            param(g_.params[i]);
        }
        out_ += ") {\n";
        for (size_t i = 0; i < g_.clusters.size(); ++i) {
            out_ += "  cluster " + std::to_string(i) + " = " + std::string(ir::name(g_.clusters[i].kind));
            if (g_.clusters[i].group >= 0)
                out_ += " group(" + std::to_string(g_.clusters[i].group) + ")";
            out_ += '\n';
        }
        for (NodeId id = 0; id < g_.nodes().size(); ++id)
            node(id);
        out_ += "  return";
        for (size_t i = 0; i < g_.results.size(); ++i)
            out_ += (i ? ", " : " ") + value(g_.results[i]);
        out_ += "\n}\n";
        return std::move(out_);
    }

private:
    /// Also names ids that are out of range, because the verifier prints graphs that it rejects.
    std::string value(ValueId v) const {
        if (v >= g_.values().size())
            return "%?" + std::to_string(v);
        const Value &x = g_.value(v);
        if (x.producer != kNone)
            return "%" + std::to_string(numbers_[v]);
        return "%" + (x.result < g_.params.size() ? g_.params[x.result].name : "?");
    }

    void param(const Param &p) {
        out_ += value(p.value) + ": " + (p.value < g_.values().size() ? to_string(g_.type(p.value)) : "?");
        if (p.init == InitKind::Random)
            out_ += " = random(" + std::to_string(p.seed) + ")";
        if (p.init == InitKind::Dense && p.value < g_.values().size())
            dense(p);
        if (p.donated)
            out_ += " donated";
        if (p.donated_to != kNone)
            out_ += " to " + std::to_string(p.donated_to);
        if (p.kept)
            out_ += " kept";
        if (p.storage >= 0)
            out_ += " storage(" + std::to_string(p.storage) + ")";
        location(p.loc);
    }

    void dense(const Param &p) {
        const TensorType &type = g_.type(p.value);
        out_ += " = dense<";
        const std::string elements = type.numel() <= kMaxListed ? listed_elements(type.dtype, p.bytes) : "";
        if (!elements.empty()) {
            out_ += elements;
        } else {
            constexpr char digits[] = "0123456789abcdef";
            out_ += "\"0x";
            for (const std::byte b : p.bytes) {
                out_ += digits[std::to_integer<unsigned>(b >> 4)];
                out_ += digits[std::to_integer<unsigned>(b & std::byte{15})];
            }
            out_ += '"';
        }
        out_ += '>';
    }

    void node(NodeId id) {
        const Node &n = g_.node(id);
        const std::string_view separators[] = {" ", ", "};
        out_ += "  ";
        if (n.result_count == 0)
            out_ += "!" + std::to_string(effects_[id]);
        for (uint32_t k = 0; k < n.result_count; ++k)
            out_ += (k ? ", " : "") + value(g_.result(n, k));
        out_ += " = ";
        out_ += ir::name(n.op);
        const auto operands = g_.operands(n);
        for (size_t i = 0; i < operands.size(); ++i)
            (out_ += separators[i > 0]) += value(operands[i]);
        attributes(n);
        for (uint32_t k = 0; k < n.result_count; ++k)
            out_ += (k ? ", " : " : ") + to_string(g_.type(g_.result(n, k)));
        if (n.stream != kNoStream)
            out_ += " stream(" + std::to_string(n.stream) + ")";
        if (n.cause != TransferCause::User)
            (((out_ += " cause(") += ir::name(n.cause)) += ')');
        if (n.cluster >= 0)
            out_ += " cluster(" + std::to_string(n.cluster) + ")";
        if (n.order_count > 0) {
            out_ += " after(";
            const auto before = g_.order(n);
            for (size_t i = 0; i < before.size(); ++i)
                out_ += (i ? ", " : "") + order_name(before[i]);
            out_ += ')';
        }
        if (const NodeId first = first_with_words(id); first != id)
            out_ += " words(" + order_name(first) + ")";
        if (n.recorded != kNone)
            out_ += " rec(" + std::to_string(n.recorded) + ")";
        location(n.loc);
        out_ += '\n';
    }

    void location(const Location &loc) {
        if (!options_.locations || !loc.known())
            return;
        out_ += " loc(" + quoted(loc.file) + ":" + std::to_string(loc.line);
        if (loc.function != 0)
            out_ += " in " + quoted(function_name(loc.function));
        out_ += ')';
    }

    /// The first node with the words of an update, or the node itself. (Copies of a view have the same words,
    /// too; nobody asks whether they do.)
    NodeId first_with_words(NodeId id) {
        const Node &n = g_.node(id);
        if (n.runtime_count == 0 || n.runtime_begin >= first_with_.size())
            return id;
        NodeId &first = first_with_[n.runtime_begin];
        if (first == kNone)
            first = id;
        return n.op == Op::UpdateSlice ? first : id;
    }

    std::string order_name(NodeId id) const {
        const Node &n = g_.node(id);
        return n.result_count == 0 ? "!" + std::to_string(effects_[id]) : value(n.first_result);
    }

    void attributes(const Node &n) {
        const AttrView view = g_.attrs(n);
        const OpInfo &row = info(n.op);
        const auto &schema = row.attrs;
        bool first = true;
        for (size_t i = 0; i < schema.size(); ++i) {
            if (implied(row, schema[i]) != Implied::No)
                continue;
            out_ += first ? " {" : ", ";
            first = false;
            ((out_ += schema[i].name) += '=') += attribute(n, view, schema[i].type, static_cast<int>(i));
        }
        if (!first)
            out_ += '}';
    }

    bool names_word(Op op, int i) const {
        return options_.number_effects &&
               (op == Op::HostCallback ||
                ((op == Op::RecordEvent || op == Op::WaitEvent) && i == attr::kEventWord));
    }
    int64_t number_of(Op op, int64_t word) {
        std::vector<int64_t> &seen = op == Op::HostCallback ? callbacks_ : events_;
        const auto at = std::ranges::find(seen, word);
        const auto number = at - seen.begin();
        if (at == seen.end())
            seen.push_back(word);
        return number;
    }

    std::string attribute(const Node &n, const AttrView &view, AttrType type, int i) {
        switch (type) {
        case AttrType::Int:
            return std::to_string(names_word(n.op, i) ? number_of(n.op, view.integer(i)) : view.integer(i));
        case AttrType::Ints: {
            std::string text = "[";
            for (const int64_t entry : view.ints(i))
                text += (text.size() > 1 ? "," : "") + std::to_string(entry);
            return text + "]";
        }
        case AttrType::Scalar:
            return scalar(g_.type(n.first_result).dtype, view.scalar_word(i));
        case AttrType::DType:
            return std::string(ir::name(view.dtype(i)));
        case AttrType::Device:
            return to_string(view.device(i));
        case AttrType::String:
            return quoted(view.string(i));
        }
        return {};
    }

    static std::string scalar(DType dtype, int64_t word) {
        if (!is_float(dtype))
            return std::to_string(word);
        const double value = scalar_double(word);
        // NaNs other than the usual one keep their bits.
        if (std::isnan(value) && scalar_word(value) != scalar_word(std::numeric_limits<double>::quiet_NaN()))
            return "bits(" + std::to_string(static_cast<uint64_t>(word)) + ")";
        return shortest(value);
    }

    const Graph &g_;
    const PrintOptions &options_;
    std::vector<uint32_t> numbers_, effects_;
    std::vector<NodeId> first_with_;          ///< by position of a runtime word: the first node that has it
    std::vector<int64_t> events_, callbacks_; ///< words by their numbers
    std::string out_;
};

} // namespace

std::string listed_elements(DType dtype, std::span<const std::byte> bytes) {
    const auto size = static_cast<size_t>(size_of(dtype));
    std::string text = "[";
    for (size_t at = 0; at + size <= bytes.size(); at += size) {
        const std::string element = element_text(dtype, bytes.data() + at);
        if (element.empty())
            return {};
        text += (at ? ", " : "") + element;
    }
    return text + "]";
}

std::string print(const Graph &graph, const PrintOptions &options) {
    return GraphPrinter(graph, options).run();
}

} // namespace lz::ir
