#include "passes/lower/library.h"

#include "ir/diagnostic.h"
#include "ir/host/calls.h"
#include "passes/operations.h"

#include <fmt/format.h>

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

class LibraryLowering {
public:
    LibraryLowering(const ClusterView &cluster, LoweredStep &step)
        : graph_(*cluster.graph), first_(cluster.first), node_(graph_.node(cluster.end - 1)),
          stored_(cluster.stored), step_(step) {}

    void run() {
        step_.kind = StepKind::Library;
        step_.symbol = name(node_.op);
        const AttrView attrs = graph_.attrs(node_);
        switch (node_.op) {
        case Op::CumSum:
        case Op::CumProd:
            read(0);
            write(0);
            folded(attrs.integer(attr::kAxis));
            break;
        case Op::CumMax:
        case Op::CumMin:
            read(0);
            write(0);
            write(1);
            folded(attrs.integer(attr::kAxis));
            wanted();
            break;
        case Op::Sort:
        case Op::TopK: {
            read(0);
            write(0);
            write(1);
            const int64_t extent = folded(attrs.integer(attr::kAxis));
            integer(attrs.integer(attr::kSortDescending));
            integer(node_.op == Op::TopK ? attrs.integer(attr::kTopKCount) : extent);
            wanted();
            break;
        }
        case Op::Scatter:
            scatter(attrs);
            break;
        case Op::Call:
            call(attrs);
            break;
        case Op::Transfer:
            step_.kind = StepKind::Copy;
            copy();
            break;
        case Op::WaitStream:
            integer(device_word(attrs.device(attr::kWaitStreamOf)));
            integer(attrs.integer(attr::kWaitStreamStream));
            for (size_t i = 0; i < node_.operand_count; ++i)
                read(i);
            break;
        default:
            effect();
            break;
        }
    }

private:
    /// Reshapes of what is stored are the same bytes.
    ValueId stored(ValueId v) const {
        while (true) {
            const NodeId p = graph_.value(v).producer;
            if (p == kNone || p < first_ || graph_.node(p).op != Op::Reshape)
                return v;
            v = graph_.operands(graph_.node(p))[0];
        }
    }
    /// A copy; where the copied value is one run of bytes in a stored one, only that run is copied.
    void copy() {
        step_.symbol.clear();
        ValueId v = graph_.operands(node_)[0];
        const int64_t size = size_of(graph_.type(v).dtype);
        ArgSpec skipped;
        while (true) {
            const NodeId p = graph_.value(v).producer;
            if (p == kNone || p < first_)
                break;
            if (const auto begin = begin_of_run(graph_, graph_.node(p)))
                for (const ArgSpec::Term &t : begin->terms)
                    skipped.terms.push_back({t.word, t.coefficient * size});
            else if (graph_.node(p).op != Op::Reshape)
                break;
            v = graph_.operands(graph_.node(p))[0];
        }
        step_.operands.push_back({BufferMode::In, v, kNone, graph_.type(v).bytes()});
        write(0);
        step_.copy.bytes = step_.operands[1].bytes;
        if (!skipped.terms.empty())
            step_.ints.push_back(std::move(skipped));
    }
    void read(size_t operand) { read_value(graph_.operands(node_)[operand]); }
    void read_value(ValueId value) {
        const ValueId v = stored(value);
        step_.operands.push_back({BufferMode::In, v, kNone, graph_.type(v).bytes()});
    }
    void write(uint32_t result) {
        const ValueId v = graph_.result(node_, result);
        step_.operands.push_back({BufferMode::Out, v, kNone, graph_.type(v).bytes()});
    }
    /// Which results anybody reads, a bit each.
    void wanted() {
        int64_t bits = 0;
        for (uint32_t k = 0; k < node_.result_count; ++k)
            if (std::ranges::find(stored_, graph_.result(node_, k)) != stored_.end())
                bits |= int64_t{1} << k;
        integer(bits);
    }
    void integer(int64_t value) { step_.ints.push_back({value, {}}); }

    /// dtype and the shape as (outer, extent, inner) around the axis. Returns the extent.
    int64_t folded(int64_t axis) {
        const TensorType &type = graph_.type(graph_.operands(node_)[0]);
        int64_t outer = 1, inner = 1;
        for (int d = 0; d < type.shape.rank(); ++d)
            (d < axis ? outer : inner) *= d == axis ? 1 : type.shape[d];
        integer(static_cast<int64_t>(type.dtype));
        integer(outer);
        const int64_t extent = type.shape.rank() == 0 ? 1 : type.shape[static_cast<int>(axis)];
        integer(extent);
        integer(inner);
        return extent;
    }

    void scatter(const AttrView &attrs) {
        const ScatterIndex found = scatter_index(graph_, node_, first_);
        read(0);
        read_value(found.value);
        read(2);
        write(0);
        const TensorType &x = graph_.type(graph_.operands(node_)[0]);
        const TensorType &index = graph_.type(graph_.operands(node_)[1]);
        integer(static_cast<int64_t>(x.dtype));
        integer(static_cast<int64_t>(index.dtype));
        integer(attrs.integer(attr::kAxis));
        integer(attrs.integer(attr::kScatterReduce));
        integer(node_.recorded);
        integer(found.outer);
        integer(found.along);
        integer(found.inner);
        integer(x.shape.rank());
        for (const int64_t e : x.shape)
            integer(e);
        for (const int64_t e : index.shape)
            integer(e);
    }

    /// Operands in order, then results.
    void call(const AttrView &attrs) {
        step_.symbol = std::string(kCallPrefix) + std::string(attrs.string(attr::kCallSymbol));
        integer(node_.operand_count);
        integer(node_.result_count);
        for (const ValueId v : graph_.operands(node_))
            type(graph_.type(v));
        for (uint32_t k = 0; k < node_.result_count; ++k)
            type(graph_.type(graph_.result(node_, k)));
        for (size_t i = 0; i < node_.operand_count; ++i)
            read(i);
        for (uint32_t k = 0; k < node_.result_count; ++k)
            write(k);
    }
    void type(const TensorType &type) {
        integer(static_cast<int64_t>(type.dtype));
        integer(type.shape.rank());
        for (const int64_t extent : type.shape)
            integer(extent);
    }

    void effect() {
        step_.symbol.clear();
        step_.kind = node_.op == Op::RecordEvent ? StepKind::RecordEvent
                     : node_.op == Op::WaitEvent ? StepKind::WaitEvent
                                                 : StepKind::HostCallback;
        step_.effect = {0, {{node_.runtime_begin, 1}}};
        for (size_t i = 0; i < node_.operand_count; ++i)
            read(i);
    }

    const Graph &graph_;
    NodeId first_;
    const Node &node_;
    const std::vector<ValueId> &stored_;
    LoweredStep &step_;
};

} // namespace

void lower_library(const ClusterView &cluster, LoweredStep &step) {
    LibraryLowering(cluster, step).run();
}

void add_scratch(const Graph &graph, const Target &target, LoweredStep &step) {
    const DeviceInfo *const device = target.find(step.device);
    const LibraryRules *const library = device ? device->library : nullptr;
    if (!library || step.symbol == kWaitStream)
        return;
    const LibraryRule *const rule = library->find(step.symbol);
    if (!rule)
        throw Failure(ErrorKind::Compile,
                      fmt::format("`{}` on {} needs a function of the library that {} devices do not have; "
                                  "compute it on another device (`x.cpu()`).",
                                  step.symbol, to_string(step.device), library->kind),
                      graph.node(step.node).loc,
                      step.recorded.empty() ? Failure::kNoNode : step.recorded.back());
    if (!rule->scratch_bytes)
        return;
    std::vector<int64_t> known;
    for (const ArgSpec &spec : step.ints)
        known.push_back(spec.terms.empty() ? spec.constant : 0);
    if (const int64_t bytes = rule->scratch_bytes(known, *device); bytes > 0)
        step.operands.push_back({BufferMode::Temp, kNone, kNone, bytes});
}

} // namespace lz::passes
