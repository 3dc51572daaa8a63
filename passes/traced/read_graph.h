#pragma once
/// A graph of its form, in either build.

#include "ir/diagnostic.h"
#include "ir/graph/builder.h"
#include "passes/traced/portable.h"

#include <span>
#include <string>
#include <vector>

namespace lz::traced {

class GraphReader {
public:
    GraphReader(const lz_numbers::GraphForm &form, std::span<const int64_t> extents)
        : form_(form), builder_(form.name), extents_(extents) {}

    ir::Graph read() {
        builder_.begin_words(std::vector<int64_t>(form_.words.begin(), form_.words.end()));
        const auto nodes = count();
        for (size_t n = 0; n < nodes; ++n) {
            params();
            node();
        }
        params();
        const auto results = count();
        for (size_t r = 0; r < results; ++r)
            builder_.graph().results.push_back(id());
        return builder_.take();
    }

private:
    int64_t word() {
        const auto w = form_.structure[at_++];
        if (w != lz_numbers::kExtentMark)
            return w;
        const bool is_extent = form_.structure[at_++] == 0;
        return is_extent ? extents_[extent_++] : int64_t(w);
    }
    size_t count() { return static_cast<size_t>(word()); }
    uint32_t id() { return static_cast<uint32_t>(word()); }
    ir::Location line() {
        const auto &l = form_.lines[line_++];
        return {l.file, l.line, l.function, l.call};
    }

    void params() {
        for (size_t left = count(); left > 0; --left)
            param(form_.names[params_++]);
    }
    void param(const std::string &name) {
        const ir::ValueId expected = id();
        ir::TensorType type;
        type.dtype = static_cast<ir::DType>(word());
        type.device = ir::device_from_word(word());
        const auto rank = count();
        for (size_t d = 0; d < rank; ++d)
            type.shape.push_back(word());
        LZ_CHECK(builder_.param(type, name) == expected, "parameters are not in the order of their values");
        ir::Param &p = builder_.graph().params.back();
        p.donated = static_cast<bool>(word());
        p.donated_to = id();
        p.kept = static_cast<bool>(word());
        p.storage = static_cast<int32_t>(word());
        p.loc = line();
    }
    void node() {
        const ir::ValueId expected = id();
        const auto op = static_cast<ir::Op>(word());
        const auto cause = static_cast<ir::TransferCause>(word());
        const auto stream = static_cast<int32_t>(word());
        const uint32_t recorded = id();
        std::vector<ir::ValueId> operands(count());
        for (ir::ValueId &v : operands)
            v = id();
        std::vector<int64_t> structural(count());
        for (int64_t &w : structural)
            w = word();
        std::vector<int64_t> runtime(count());
        const size_t runtime_begin = count();
        for (size_t w = 0; w < runtime.size(); ++w)
            runtime[w] = form_.words[runtime_begin + w];
        std::vector<ir::NodeId> order(count());
        for (ir::NodeId &n : order)
            n = id();
        LZ_CHECK(builder_.add(op, operands, structural, runtime, line()) == expected,
                 "nodes are not in the order of their values");
        builder_.set_cause(cause);
        builder_.set_stream(stream);
        builder_.set_recorded(recorded);
        builder_.add_order(order);
        if (!runtime.empty())
            builder_.set_words(static_cast<uint32_t>(runtime_begin));
    }

    const lz_numbers::GraphForm &form_;
    ir::GraphBuilder builder_;
    std::span<const int64_t> extents_;
    size_t at_ = 0, line_ = 0, params_ = 0, extent_ = 0;
};

/// The graph of this structure with these extents. Throws Failure where a type rule does not allow them.
inline ir::Graph read_graph(const lz_numbers::GraphForm &form, std::span<const int64_t> extents) {
    return GraphReader(form, extents).read();
}

} // namespace lz::traced
