#include "passes/lower/lower_clusters.h"

#include "ir/diagnostic.h"
#include "ir/kernel/append.h"
#include "ir/kernel/key.h"
#include "passes/devices/places.h"
#include "passes/fuse/tails.h"
#include "passes/lower/equal_clusters.h"
#include "passes/lower/library.h"
#include "passes/lower/nest.h"
#include "passes/lower/products/dot.h"
#include "passes/operations.h"
#include "passes/schedule/schedule.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <unordered_map>

namespace lz::passes {

using namespace ir;

namespace {

/// Unites two lists of ascending numbers.
void merge(std::vector<uint32_t> &into, const std::vector<uint32_t> &from) {
    std::vector<uint32_t> both;
    std::ranges::set_union(into, from, std::back_inserter(both));
    into = std::move(both);
}

/// Puts lowered steps into a Program: equal kernels once, and a symbolic buffer for each value and each piece
/// of scratch.
class ProgramWriter {
public:
    explicit ProgramWriter(const Graph &graph) : graph_(graph), buffer_of_(graph.values().size(), kNone) {
        program_.name = graph.name;
        program_.stage = Stage::Lowered;
        program_.num_runtime_words = static_cast<uint32_t>(graph.runtime_words().size());
        program_.steps.reserve(graph.clusters.size());
        program_.draft.steps.reserve(graph.clusters.size());
        for (uint32_t k = 0; k < graph.params.size(); ++k) {
            const Param &p = graph.params[k];
            const TensorType &type = graph.type(p.value);
            buffer_of_[p.value] = add_buffer({.kind = BufferKind::Input,
                                              .index = k,
                                              .bytes = type.bytes(),
                                              .device = type.device,
                                              .storage = p.storage,
                                              .value = p.value});
            program_.draft.buffers.back() = {
                .donated = p.donated, .donated_to = p.donated_to, .kept = p.kept};
        }
    }

    /// One of the Program's kernels, for a step that launches it.
    struct SharedKernel {
        uint32_t kernel = kNone;
        std::vector<uint32_t> checks; ///< as Segment::checks
    };

    /// Takes the step's kernel, unless there is an equal one. Which operations its checks were written for is
    /// what makes the difference between the steps that share it.
    SharedKernel share_kernel(LoweredStep &lowered) {
        if (lowered.kind != StepKind::Launch)
            return {};
        const auto [known, is_new] =
            kernels_.try_emplace(cache_key(lowered.kernel), static_cast<uint32_t>(program_.kernels.size()));
        SharedKernel shared{known->second, {}};
        for (Instr &instr : lowered.kernel.instrs)
            if (info(instr.op).cls == KOpClass::Check) {
                const NodeId source = instr.source;
                instr.source = static_cast<uint32_t>(shared.checks.size());
                shared.checks.push_back(recorded(source));
            }
        if (is_new)
            program_.kernels.push_back(std::move(lowered.kernel));
        return shared;
    }

    void add(LoweredStep lowered, const SharedKernel &shared) {
        Step &step = program_.steps.emplace_back();
        StepDraft &draft = program_.draft.steps.emplace_back();
        step.kind = lowered.kind;
        step.device = lowered.device;
        step.stream = kNoStream;
        draft.user_stream = lowered.stream;
        if (lowered.kind == StepKind::Launch) {
            step.rounds = lowered.rounds;
            step.worker_bytes = lowered.worker_bytes;
            step.kernel = shared.kernel;
            add_segments(step, lowered, shared);
        }
        step.symbol = std::move(lowered.symbol);
        step.copy = lowered.copy;
        step.ints = std::move(lowered.ints);
        step.effect = std::move(lowered.effect);
        for (const LoweredBuffer &b : lowered.operands) {
            if (b.mode == BufferMode::Temp) {
                step.scratch = buffer(b, step.device);
                continue;
            }
            step.operands.push_back(buffer(b, step.device));
            if (step.kind != StepKind::Copy)
                draft.modes.push_back(b.mode);
        }
        step.cost = lowered.cost;
        step.bytes = lowered.bytes_read + lowered.bytes_written;
        draft.bytes_written = lowered.bytes_written;
        step.flops = lowered.flops;
        step.node = lowered.node;
        draft.nodes = std::move(lowered.nodes);
        step.recorded = std::move(lowered.recorded);
        step.label = std::move(lowered.label);
    }

    uint32_t steps() const { return static_cast<uint32_t>(program_.steps.size()); }

    Program take() {
        for (size_t r = 0; r < graph_.results.size(); ++r) {
            LZ_CHECK(buffer_of_[graph_.results[r]] != kNone, "no step stores result " + std::to_string(r));
            program_.results.push_back(buffer_of_[graph_.results[r]]);
        }
        order_effects();
        return std::move(program_);
    }

private:
    uint32_t add_buffer(const BufferDesc &desc) {
        program_.buffers.push_back(desc);
        program_.draft.buffers.emplace_back();
        return static_cast<uint32_t>(program_.buffers.size() - 1);
    }

    /// The symbol of an operand of a step on this device.
    uint32_t buffer(const LoweredBuffer &b, Device device) {
        if (b.mode == BufferMode::Worker)
            return kNone;
        if (b.mode == BufferMode::Temp)
            return add_buffer({.kind = BufferKind::Scratch, .bytes = b.bytes, .device = device});
        uint32_t &known = buffer_of_[b.value];
        if (known != kNone) // another segment or phase writes the rest of it
            return known;
        LZ_CHECK(b.mode != BufferMode::In, "a step reads a value that no step before it stores");
        known = add_buffer({.kind = BufferKind::Value,
                            .bytes = b.bytes,
                            .device = graph_.type(b.value).device,
                            .value = b.value});
        BufferDraft &draft = program_.draft.buffers.back();
        draft.node = graph_.value(b.value).producer;
        draft.recorded = graph_.node(draft.node).recorded;
        if (b.mode == BufferMode::InOut)
            draft.replaces = buffer_of_[b.replaces];
        return known;
    }

    void add_segments(Step &step, LoweredStep &lowered, const SharedKernel &shared) {
        for (LoweredSegment &from : lowered.segments) {
            Segment &segment = step.segments.emplace_back();
            segment.buffers.reserve(from.buffers.size());
            for (const LoweredBuffer &b : from.buffers)
                segment.buffers.push_back(buffer(b, step.device));
            segment.args = std::move(from.args);
            segment.scalars = std::move(from.scalars);
            segment.items = std::move(from.items);
            segment.checks = shared.checks;
            for (size_t c = 0; c < from.checks.size(); ++c)
                segment.checks[c] = recorded(from.checks[c]);
        }
    }

    uint32_t recorded(NodeId check) const { return check == kNoValue ? kNone : graph_.node(check).recorded; }

    void order_effects() {
        std::vector<uint32_t> step_of(graph_.nodes().size(), kNone); // so far
        for (uint32_t s = 0; s < steps(); ++s) {
            StepDraft &draft = program_.draft.steps[s];
            for (const NodeId n : draft.nodes) {
                for (const NodeId before : graph_.order(graph_.node(n)))
                    if (const uint32_t step = step_of[before]; step != kNone && step != s)
                        draft.after.push_back(step);
                step_of[n] = s;
            }
        }
    }

    const Graph &graph_;
    Program program_;
    std::vector<uint32_t> buffer_of_; // by value
    std::unordered_map<std::string, uint32_t> kernels_;
};

/// Makes the phases of `tail` the last ones of `step`'s kernel; what it reads of that is scratch from here on
/// (Tails). False, and nothing done, where that is no kernel.
bool append_tail(const Graph &graph, LoweredStep &step, LoweredStep &tail) {
    const auto alone = [](const LoweredStep &s) {
        return s.kind == StepKind::Launch && s.segments.size() == 1 && s.rounds == 1;
    };
    if (!alone(step) || !alone(tail) || step.kernel.axes.size() + tail.kernel.axes.size() > kMostAxes)
        return false;
    LoweredSegment &to = step.segments[0], &from = tail.segments[0];
    std::vector<uint16_t> same;
    for (const LoweredBuffer &read : from.buffers) {
        same.push_back(kOwnBuffer);
        for (size_t b = 0; b < to.buffers.size(); ++b) {
            LoweredBuffer &made = to.buffers[b];
            if (read.mode != BufferMode::In || made.mode != BufferMode::Out || made.value != read.value)
                continue;
            same.back() = static_cast<uint16_t>(b);
            break;
        }
    }
    for (size_t b = 0; b < from.buffers.size(); ++b) {
        if (same[b] == kOwnBuffer) {
            to.buffers.push_back(from.buffers[b]);
            continue;
        }
        LoweredBuffer &made = to.buffers[same[b]];
        step.bytes_written -= made.bytes;
        tail.bytes_read -= made.bytes;
        made = {.mode = BufferMode::Temp, .bytes = made.bytes};
        step.kernel.buffers[same[b]].mode = BufferMode::Temp;
    }
    append(step.kernel, std::move(tail.kernel), same);
    to.args.insert(to.args.end(), from.args.begin(), from.args.end());
    to.scalars.insert(to.scalars.end(), from.scalars.begin(), from.scalars.end());
    to.items.insert(to.items.end(), from.items.begin(), from.items.end());
    step.worker_bytes = std::max(step.worker_bytes, tail.worker_bytes);
    step.cost += tail.cost;
    step.bytes_read += tail.bytes_read;
    step.bytes_written += tail.bytes_written;
    step.flops += tail.flops;
    step.node = std::max(step.node, tail.node);
    merge(step.nodes, tail.nodes);
    merge(step.recorded, tail.recorded);
    step.label = label_of(graph, graph.clusters[static_cast<size_t>(graph.node(step.nodes[0]).cluster)].kind,
                          step.nodes);
    return true;
}

/// Makes the segments of `more` segments of a step with an equal kernel. Neither has a schedule yet.
void append_segments(LoweredStep &step, LoweredStep more) {
    const auto note_checks = [](LoweredStep &s) {
        for (LoweredSegment &segment : s.segments)
            if (segment.checks.empty())
                for (const Instr &instr : s.kernel.instrs)
                    if (info(instr.op).cls == KOpClass::Check)
                        segment.checks.push_back(instr.source);
    };
    note_checks(step);
    note_checks(more);
    const auto append = [](auto &to, auto &from) {
        to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
    };
    append(step.segments, more.segments);
    append(step.nodes, more.nodes);
    append(step.recorded, more.recorded);
    step.node = more.node;
    step.cost += more.cost;
    step.bytes_read += more.bytes_read;
    step.bytes_written += more.bytes_written;
    step.flops += more.flops;
}

class Lowering {
public:
    Lowering(const Graph &graph, const Target &target)
        : graph_(graph), target_(target), program_(graph), equal_(graph) {}

    Program run() {
        find_stored();
        find_clusters();
        for (const int32_t c : order_) {
            const auto [first, end] = nodes_of_[static_cast<size_t>(c)];
            equal_.expect(graph_.clusters[static_cast<size_t>(c)].kind, first, end);
        }
        std::optional<Tails> tails;
        if (target_.modes.fuse)
            tails.emplace(graph_);
        int32_t group = -1;
        for (const int32_t c : order_) {
            if (tails && tails->is_tail(c))
                continue;
            const int32_t own = group_of(c);
            if (own < 0 || own != group)
                add_group();
            group = own;
            std::optional<LoweredStep> step = lower(c);
            if (own >= 0) {
                if (step)
                    join_group(std::move(*step));
                continue;
            }
            std::optional<LoweredStep> tail;
            if (const int32_t t = tails ? tails->of(c) : -1; t >= 0)
                tail = lower(t);
            if (step && tail && append_tail(graph_, *step, *tail))
                tail.reset();
            if (step)
                add(std::move(*step));
            if (tail)
                add(std::move(*tail));
        }
        add_group();
        return program_.take();
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

    /// The nodes of each cluster, and the clusters in order.
    void find_clusters() {
        nodes_of_.resize(graph_.clusters.size());
        for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
            const int32_t c = graph_.node(n).cluster;
            LZ_CHECK(c >= 0 && static_cast<size_t>(c) < graph_.clusters.size(),
                     "node " + std::to_string(n) + " has no cluster: `fuse` has not run");
            auto &[first, end] = nodes_of_[static_cast<size_t>(c)];
            if (end == 0) {
                first = n;
                order_.push_back(c);
            }
            end = n + 1;
        }
    }

    ClusterView view_of(int32_t cluster) const {
        const auto [first, end] = nodes_of_[static_cast<size_t>(cluster)];
        ClusterView view{&graph_, first, end, graph_.clusters[static_cast<size_t>(cluster)].kind, {}};
        for (NodeId n = first; n < end; ++n) {
            const Node &node = graph_.node(n);
            for (uint32_t k = 0; k < node.result_count; ++k)
                if (stored_[graph_.result(node, k)])
                    view.stored.push_back(graph_.result(node, k));
        }
        return view;
    }

    int32_t group_of(int32_t cluster) const { return graph_.clusters[static_cast<size_t>(cluster)].group; }

    /// The step of a cluster; that of a group's member has no schedule yet.
    std::optional<LoweredStep> lower(int32_t cluster) {
        const ClusterView view = view_of(cluster);
        LoweredStep step;
        for (NodeId n = view.first; n < view.end; ++n) {
            const Node &node = graph_.node(n);
            step.nodes.push_back(n);
            if (node.recorded != kNone)
                step.recorded.push_back(node.recorded);
        }
        std::sort(step.recorded.begin(), step.recorded.end());
        step.recorded.erase(std::unique(step.recorded.begin(), step.recorded.end()), step.recorded.end());
        const Node &last = graph_.node(view.end - 1);
        step.node = view.end - 1;
        step.stream = last.stream;
        step.device = device_of(graph_, last);
        step.label = label_of(graph_, view.kind, step.nodes);
        if (is_dead(view))
            return std::nullopt;
        if (!target_.modes.verify) {
            if (!equal_.take(view, step)) {
                make(view, step);
                equal_.keep(step);
            }
            return step;
        }
        LoweredStep taken;
        const bool has_equal = equal_.take(view, taken);
        make(view, step);
        if (has_equal)
            LZ_CHECK(EqualClusters::text(taken) == EqualClusters::text(step),
                     "equal clusters became steps that differ:\n" + EqualClusters::text(taken) + "\n" +
                         EqualClusters::text(step));
        else
            equal_.keep(step);
        return step;
    }

    /// Nodes that nobody reads, if nobody eliminated them.
    static bool is_dead(const ClusterView &view) {
        switch (view.kind) {
        case ClusterKind::Loop:
        case ClusterKind::Row:
        case ClusterKind::Reduce:
        case ClusterKind::Contraction:
            return view.stored.empty();
        default:
            return false;
        }
    }

    void make(const ClusterView &view, LoweredStep &step) const {
        switch (view.kind) {
        case ClusterKind::Loop:
        case ClusterKind::Row:
        case ClusterKind::Reduce:
            lower_nest(view, target_, step);
            break;
        case ClusterKind::Contraction:
            lower_dot(view, target_, step);
            break;
        default:
            lower_library(view, step);
            break;
        }
        count(view, step); // the schedule asks what the step costs
        if (group_of(graph_.node(view.first).cluster) < 0)
            schedule(step, target_);
        if (step.kind == StepKind::Library)
            add_scratch(graph_, target_, step);
    }

    void count(const ClusterView &view, LoweredStep &step) const {
        std::vector<ValueId> counted; // pieces of a value are one operand
        const auto bytes = [&](const LoweredBuffer &b) {
            if (b.value != kNone) {
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
            weighted += elements * (node.op == Op::Dot ? 1 : scalar_ops(node.op));
        }
        step.cost = step.bytes_read + step.bytes_written + 8 * weighted;
    }

    void add(LoweredStep step) {
        const ProgramWriter::SharedKernel kernel = program_.share_kernel(step);
        program_.add(std::move(step), kernel);
    }

    /// Steps of a group that launch one kernel become segments of the first of them.
    void join_group(LoweredStep step) {
        const bool joins = step.kind == StepKind::Launch && step.joined_rows == 1;
        std::string key = joins ? cache_key(step.kernel) : std::string();
        const auto same = joins ? std::ranges::find(group_, key, &GroupStep::key) : group_.end();
        if (same == group_.end())
            group_.push_back({std::move(key), std::move(step)});
        else
            append_segments(same->step, std::move(step));
    }

    /// Schedules what the group at hand has become, each step for all its segments, and adds it.
    void add_group() {
        for (GroupStep &of : group_) {
            std::ranges::sort(of.step.recorded);
            const auto again = std::ranges::unique(of.step.recorded);
            of.step.recorded.erase(again.begin(), again.end());
            schedule(of.step, target_);
            add(std::move(of.step));
        }
        group_.clear();
    }

    struct GroupStep {
        std::string key; ///< of its kernel; empty: nothing joins it
        LoweredStep step;
    };

    const Graph &graph_;
    const Target &target_;
    ProgramWriter program_;
    EqualClusters equal_;
    std::vector<bool> stored_;
    std::vector<std::pair<NodeId, NodeId>> nodes_of_; // by cluster: first, and the one behind the last
    std::vector<int32_t> order_;                      // clusters
    std::vector<GroupStep> group_;                    // the group at hand, not scheduled yet
};

} // namespace

Program lower_clusters(const Graph &graph, const Target &target) {
    return Lowering(graph, target).run();
}

} // namespace lz::passes
