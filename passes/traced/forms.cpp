#include "passes/traced/forms.h"

#include "passes/traced/fields.h"

#include <memory>
#include <type_traits>

namespace lz::traced {

using namespace ir;

namespace {

/// Whether the entries of an attribute are extents, or lengths that are given with them.
bool is_extents(Op op, size_t attr) {
    const auto at = static_cast<int>(attr);
    switch (op) {
    case Op::Constant:
    case Op::Literal:
    case Op::Iota:
        return at == attr::kMakerShape;
    case Op::Philox:
        return at == attr::kPhiloxShape;
    case Op::Reshape:
    case Op::Broadcast:
        return at == attr::kShape;
    case Op::Slice:
        return at == attr::kSliceSizes;
    case Op::Pad:
        return true;
    case Op::Window:
        return at != attr::kAxis;
    case Op::TopK:
        return at == attr::kTopKCount;
    default:
        return false;
    }
}

class GraphWriter {
public:
    explicit GraphWriter(const Graph &graph) : graph_(graph) {}

    GraphForm write() {
        form_.name = graph_.name;
        const std::span<const int64_t> words = graph_.runtime_words();
        form_.words.assign(words.begin(), words.end());
        number(graph_.nodes().size());
        for (const Node &n : graph_.nodes()) {
            params_before(n.first_result);
            node(n);
        }
        params_before(kNone);
        number(graph_.results.size());
        for (const ValueId v : graph_.results)
            number(v);
        return std::move(form_);
    }

private:
    template <class T>
    void number(T value) {
        const auto n = static_cast<int64_t>(value);
        form_.structure.push_back(n);
        if (n == kExtentMark)
            form_.structure.push_back(n);
    }
    void extent(int64_t value) {
        if (value == 0 || value == 1) {
            number(value);
            return;
        }
        form_.structure.push_back(kExtentMark);
        form_.structure.push_back(0);
        form_.extents.push_back(value);
    }
    void line(const Location &loc) { form_.lines.push_back({loc.file, loc.line, loc.function, loc.call}); }

    /// Parameters and nodes in the order of their values, so that these have the same numbers.
    void params_before(ValueId first) {
        const size_t begin = params_;
        while (params_ < graph_.params.size() && graph_.params[params_].value < first)
            ++params_;
        number(params_ - begin);
        for (size_t p = begin; p < params_; ++p)
            param(graph_.params[p]);
    }
    void param(const Param &p) {
        number(p.value);
        const TensorType &type = graph_.type(p.value);
        number(type.dtype);
        number(device_word(type.device));
        number(type.shape.rank());
        for (const int64_t e : type.shape)
            extent(e);
        number(p.donated);
        number(p.donated_to);
        number(p.kept);
        number(p.storage);
        line(p.loc);
        form_.names.push_back(p.name);
    }
    void node(const Node &n) {
        number(n.first_result);
        number(n.op);
        number(n.cause);
        number(n.stream);
        number(n.recorded);
        list(graph_.operands(n));
        structural(graph_.attrs(n));
        number(n.runtime_count);
        number(n.runtime_count ? n.runtime_begin : 0);
        list(graph_.order(n));
        line(n.loc);
    }
    void list(std::span<const uint32_t> ids) {
        number(ids.size());
        for (const uint32_t id : ids)
            number(id);
    }
    void structural(const AttrView &attrs) {
        number(attrs.structural.size());
        size_t at = 0;
        const std::span<const AttrInfo> infos = info(attrs.op).attrs;
        for (size_t a = 0; a < infos.size(); ++a) {
            const AttrInfo &attr = infos[a];
            const bool runtime = attr.marking == Marking::Runtime;
            size_t entries = 1;
            if (attr.type == AttrType::Ints) {
                entries = static_cast<size_t>(attrs.structural[at]);
                number(attrs.structural[at++]);
                if (runtime)
                    entries = 0;
            } else if (attr.type == AttrType::String) {
                number(attrs.structural[at]);
                entries = (static_cast<size_t>(attrs.structural[at++]) + 7) / 8;
            } else if (runtime) {
                entries = 0;
            }
            const bool extents = is_extents(attrs.op, a);
            for (size_t k = 0; k < entries; ++k, ++at)
                if (extents)
                    extent(attrs.structural[at]);
                else
                    number(attrs.structural[at]);
        }
    }

    const Graph &graph_;
    GraphForm form_;
    size_t params_ = 0; ///< that are written
};

} // namespace

GraphForm write_graph(const Graph &graph) {
    return GraphWriter(graph).write();
}

TargetForm write_target(const Target &target) {
    TargetForm form;
    const auto write = [&](const auto &field) {
        using T = std::remove_cvref_t<decltype(field)>;
        if constexpr (std::is_same_v<T, std::string>)
            form.texts.push_back(field);
        else if constexpr (std::is_same_v<T, double>)
            form.reals.push_back(field);
        else
            form.numbers.push_back(static_cast<int64_t>(field));
    };
    Target copy = target; // lists are given their own lengths again
    for_each_field(
        copy, write, [&](const DeviceInfo &d) { write(std::string(d.library ? d.library->kind : "")); },
        [&](const DeviceInfo &d) { write(d.runs_cuda()); });
    form.fingerprint = target.fingerprint();
    const auto kept = std::make_shared<const Target>(target); // by functions of tapes
    form.function = [kept](std::string_view kind,
                           std::string_view symbol) -> std::optional<TargetForm::Scratch> {
        for (const DeviceInfo &d : kept->devices)
            if (d.library && d.library->kind == kind) {
                const LibraryRule *const rule = d.library->find(symbol);
                if (!rule)
                    return std::nullopt;
                if (!rule->scratch_bytes)
                    return TargetForm::Scratch();
                return [rule, kept](std::span<const int64_t> ints, size_t device) {
                    return rule->scratch_bytes(ints, kept->devices[device]);
                };
            }
        return std::nullopt;
    };
    return form;
}

std::string_view plain_function_name(uint16_t number) {
    return function_name(number);
}

std::string plain_line_text(const char *file, uint32_t line) {
    return to_string(Location{.file = file, .line = line});
}

} // namespace lz::traced
