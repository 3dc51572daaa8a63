#include "passes/lower/lower_clusters.h"

#include "ir/diagnostic.h"
#include "passes/devices/places.h"
#include "passes/explain/facts.h"
#include "passes/lower/dot.h"
#include "passes/lower/library.h"
#include "passes/lower/nest.h"
#include "passes/schedule/schedule.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <unordered_map>

namespace lz::passes {

using namespace ir;

namespace {

class Lowering {
public:
    Lowering(const Graph &graph, const Target &target) : graph_(graph), target_(target) {}

    std::vector<LoweredStep> run() {
        find_stored();
        std::vector<LoweredStep> steps;
        const auto nodes = graph_.nodes();
        NodeId first = 0;
        int32_t group = -1;
        while (first < nodes.size()) {
            const int32_t c = nodes[first].cluster;
            LZ_CHECK(c >= 0 && static_cast<size_t>(c) < graph_.clusters.size(),
                     "node " + std::to_string(first) + " has no cluster: `fuse` has not run");
            NodeId end = first + 1;
            while (end < nodes.size() && nodes[end].cluster == c)
                ++end;
            std::optional<LoweredStep> step = lower(first, end, graph_.clusters[static_cast<size_t>(c)].kind);
            const int32_t own = graph_.clusters[static_cast<size_t>(c)].group;
            if (own < 0 || own != group)
                group_steps_.clear();
            group = own;
            if (step && (own < 0 || !join(steps, *step)))
                steps.push_back(std::move(*step));
            first = end;
        }
        return steps;
    }

private:
    void find_stored() {
        stored_.assign(graph_.values().size(), false);
        for (const ValueId r : graph_.results)
            stored_[r] = true;
        for (const Node &n : graph_.nodes())
            for (const ValueId v : graph_.operands(n)) {
                const Node *p = graph_.producer(v);
                if (p && p->cluster != n.cluster)
                    stored_[v] = true;
            }
    }

    std::optional<LoweredStep> lower(NodeId first, NodeId end, ClusterKind kind) {
        LoweredStep step;
        ClusterView view{&graph_, first, end, kind, {}};
        for (NodeId n = first; n < end; ++n) {
            const Node &node = graph_.node(n);
            for (uint32_t k = 0; k < node.result_count; ++k)
                if (stored_[graph_.result(node, k)])
                    view.stored.push_back(graph_.result(node, k));
            step.nodes.push_back(n);
            if (node.recorded != kNone)
                step.recorded.push_back(node.recorded);
        }
        std::sort(step.recorded.begin(), step.recorded.end());
        step.recorded.erase(std::unique(step.recorded.begin(), step.recorded.end()), step.recorded.end());
        const Node &last = graph_.node(end - 1);
        step.node = end - 1;
        step.stream = last.stream;
        step.device = device_of(graph_, last);
        step.label = label_of(graph_, kind, step.nodes);
        switch (kind) {
        case ClusterKind::Loop:
        case ClusterKind::Row:
        case ClusterKind::Reduce:
            if (view.stored.empty())
                return std::nullopt; // dead nodes, if nobody eliminated them
            lower_nest(view, target_, step);
            schedule(step, target_);
            break;
        case ClusterKind::Contraction:
            if (view.stored.empty())
                return std::nullopt;
            lower_dot(view, target_, step);
            schedule(step, target_);
            break;
        default:
            lower_library(view, step);
            break;
        }
        if (step.kind == StepKind::Library)
            add_scratch(graph_, target_, step);
        count(view, step);
        share(step);
        return step;
    }

    /// Gives the step the kernel of an earlier one, if it is equal but for what it was written for.
    void share(LoweredStep &step) {
        if (step.kind != StepKind::Launch)
            return;
        std::vector<uint32_t> checks;
        for (const Instr &instr : step.kernel->instrs)
            if (info(instr.op).cls == KOpClass::Check)
                checks.push_back(instr.source == kNoValue ? kNone : graph_.node(instr.source).recorded);
        for (LoweredSegment &segment : step.segments)
            segment.checks = checks;
        step.kernel = kernels_.try_emplace(cache_key(step.kernel), step.kernel).first->second;
    }

    void count(const ClusterView &view, LoweredStep &step) const {
        std::vector<ValueId> counted; // pieces of a value are one operand
        const auto bytes = [&](const LoweredBuffer &b) {
            if (step.segments.size() > 1 && b.value != kNone) {
                if (std::ranges::find(counted, b.value) != counted.end())
                    return;
                counted.push_back(b.value);
            }
            if (b.mode == BufferMode::In || b.mode == BufferMode::InOut)
                step.bytes_read += b.bytes;
            if (b.mode == BufferMode::Out || b.mode == BufferMode::InOut)
                step.bytes_written += b.bytes;
        };
        for (const LoweredSegment &s : step.segments)
            for (const LoweredBuffer &b : s.buffers)
                bytes(b);
        for (const LoweredBuffer &b : step.operands)
            bytes(b);
        if (step.kind == StepKind::Copy)
            step.bytes_read = step.copy.bytes;
        int64_t weighted = 0;
        for (NodeId n = view.first; n < view.end; ++n) {
            const Node &node = graph_.node(n);
            if (node.result_count == 0 || is_free(node.op) || node.op == Op::Transfer)
                continue;
            int64_t elements = graph_.type(graph_.result(node)).numel();
            if (info(node.op).family == OpFamily::Reduction || node.op == Op::TopK)
                elements = graph_.type(graph_.operands(node)[0]).numel();
            if (node.op == Op::Dot)
                elements *= 2 * dot_dims(graph_, node).depth();
            step.flops += elements;
            weighted += elements * (node.op == Op::Dot ? 1 : scalar_ops(node.op, DType::F32));
        }
        step.cost = step.bytes_read + step.bytes_written + 8 * weighted;
    }

    /// Makes the step a segment of an earlier one of its group with the same kernel.
    bool join(std::vector<LoweredStep> &steps, LoweredStep &step) {
        if (step.kind != StepKind::Launch)
            return false;
        for (const size_t index : group_steps_) {
            LoweredStep &to = steps[index];
            if (to.kernel != step.kernel || to.worker_bytes != step.worker_bytes || to.rounds != 1 ||
                step.rounds != 1)
                continue;
            std::ranges::move(step.segments, std::back_inserter(to.segments));
            to.nodes.insert(to.nodes.end(), step.nodes.begin(), step.nodes.end());
            to.node = step.node;
            std::vector<uint32_t> recorded;
            std::set_union(to.recorded.begin(), to.recorded.end(), step.recorded.begin(), step.recorded.end(),
                           std::back_inserter(recorded));
            to.recorded = std::move(recorded);
            to.cost += step.cost;
            to.bytes_read += step.bytes_read;
            to.bytes_written += step.bytes_written;
            to.flops += step.flops;
            return true;
        }
        group_steps_.push_back(steps.size());
        return false;
    }

    const Graph &graph_;
    const Target &target_;
    std::vector<bool> stored_;
    std::vector<size_t> group_steps_; // of the group at hand, one a kernel
    std::unordered_map<std::string, SharedKernel> kernels_;
};

} // namespace

std::vector<LoweredStep> lower_clusters(const Graph &graph, const Target &target) {
    return Lowering(graph, target).run();
}

} // namespace lz::passes
