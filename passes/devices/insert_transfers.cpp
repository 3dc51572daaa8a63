#include "passes/devices/insert_transfers.h"

#include "ir/graph/builder.h"
#include "ir/graph/uses.h"
#include "passes/devices/copies.h"
#include "passes/operations.h"
#include "passes/simplify/rewrite.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

/// Operations that may be done again on another device instead of moving their result, and views in a row.
constexpr size_t kMaxRepeated = 16;

bool is_maker(const Node *node) {
    return node && info(node->op).family == OpFamily::Maker;
}
bool is_cpu_scalar(const TensorType &type) {
    return type.device == kCpu && type.shape.rank() == 0;
}
/// A transfer that the user did not ask for: of an operand to where its operation runs.
bool is_for_operation(const Node &node) {
    return node.op == Op::Transfer && node.operand_count > 1;
}
bool one_device(const Graph &graph) {
    const auto values = graph.values();
    return std::ranges::none_of(graph.nodes(), is_for_operation) &&
           std::ranges::all_of(values,
                               [&](const Value &v) { return v.type.device == values[0].type.device; });
}

class Inserter {
public:
    Inserter(const Graph &graph, const Target &target)
        : g_(graph), target_(target), rewriter_(graph), uses_(graph), copies_(graph, rewriter_, target),
          sent_(graph.values().size(), false) {
        for (const Param &p : graph.params)
            copies_.add(p.value, rewriter_.value(p.value));
    }

    Graph run() {
        for (NodeId id = 0; id < g_.nodes().size(); ++id) {
            const Node &node = g_.node(id);
            if (is_for_operation(node))
                bring_operand(node);
            else if (node.op == Op::Transfer)
                transfer(id);
            else if (node.op == Op::Slice && sent_[g_.operands(node)[0]])
                slice_before_transfer(id);
            else if (is_mixed(node))
                bring_together(id);
            else
                keep(id);
        }
        return rewriter_.finish();
    }

private:
    GraphBuilder &b() { return rewriter_.builder(); }
    Device device_of(ValueId now) { return b().graph().type(now).device; }

    int64_t bytes(ValueId old) const { return g_.type(old).bytes(); }

    void keep(NodeId id) {
        rewriter_.keep(id);
        const Node &node = g_.node(id);
        for (uint32_t k = 0; k < node.result_count; ++k)
            copies_.add(g_.result(node, k), rewriter_.value(g_.result(node, k)));
    }

    // --- what the user recorded

    void transfer(NodeId id) {
        const Node &node = g_.node(id);
        const ValueId x = g_.operands(node)[0], y = g_.result(node);
        const TransferNeed need = need_of(node);
        const Device to = g_.type(y).device;
        if (need.named() && device_of(rewriter_.value(x)) == to)
            return keep(id);
        copies_.same(y, x);
        if (!need.named() && copies_.on(x, to) == kNone && only_passes_through(y)) {
            // Whoever reads it takes it from where it is.
            sent_[y] = true;
            rewriter_.replace(y, rewriter_.value(x));
            return;
        }
        rewriter_.replace(y, at(x, to, need));
    }
    TransferNeed need_of(const Node &transfer) const {
        TransferNeed need{transfer, TransferCause::User};
        if (transfer.stream == kNoStream)
            return need;
        const Device from = g_.type(g_.operands(transfer)[0]).device,
                     to = g_.type(g_.result(transfer)).device;
        if (const Device owner = to == kCpu ? from : to; owner != kCpu)
            need.owner = owner;
        return need;
    }
    /// A transfer whose source may be another device than that of its operand.
    bool takes_any_source(const Node &transfer) const {
        return transfer.stream == kNoStream || g_.type(g_.result(transfer)).device != kCpu;
    }

    /// Whether all that is made of a transfer's result are other transfers, or slices that are together at
    /// most half of it.
    bool only_passes_through(ValueId y) const {
        if (uses_.results(y) > 0 || uses_.users(y).empty())
            return false;
        bool slices = true, transfers = true;
        int64_t sliced = 0;
        for (const NodeId user : uses_.users(y)) {
            const Node &node = g_.node(user);
            slices = slices && node.op == Op::Slice && node.order_count == 0;
            transfers = transfers && node.op == Op::Transfer && takes_any_source(node);
            if (slices)
                sliced += bytes(g_.result(node));
        }
        return transfers || (slices && sliced <= bytes(y) / 2);
    }

    void slice_before_transfer(NodeId id) {
        const Node &node = g_.node(id);
        const ValueId x = g_.operands(node)[0], y = g_.result(node);
        keep(id);
        b().set_stream(kNoStream); // the user's stream is one of the other device
        rewriter_.replace(y, at(y, g_.type(y).device, {*g_.producer(x), TransferCause::User}));
    }

    // --- operands that are apart

    void bring_operand(const Node &node) {
        const ValueId x = g_.operands(node)[0], y = g_.result(node);
        const Device to = g_.type(y).device;
        copies_.same(y, x);
        rewriter_.replace(y, at(y, to, {node, cause(x, to)}));
    }
    bool is_mixed(const Node &node) {
        if (info(node.op).family == OpFamily::Effect)
            return false;
        const auto operands = g_.operands(node);
        for (size_t k = 1; k < operands.size(); ++k)
            if (g_.type(operands[k]).device != g_.type(operands[0]).device)
                return true;
        return false;
    }

    Device home_of(const Node &node) const {
        for (const ValueId v : g_.operands(node))
            if (!is_cpu_scalar(g_.type(v)))
                return g_.type(v).device;
        return kCpu;
    }

    /// Where the fewest seconds of transfer are; the home where that is no worse.
    Device best_device(const Node &node, Device home) {
        if (target_.modes.transfer != TransferMode::Automatic || node.stream != kNoStream ||
            node.op == Op::Call || node.result_count != 1 || node.order_count != 0)
            return home;
        const auto seconds = [&](Device d) {
            double sum = target_.transfer_seconds(d, home, bytes(g_.result(node)));
            for (const ValueId v : g_.operands(node))
                if (copies_.on(v, d) == kNone && !is_maker(g_.producer(v)))
                    sum += target_.transfer_seconds(device_of(copies_.nearest(v, d)), d, bytes(v));
            return sum;
        };
        Device best = home;
        double least = seconds(home);
        for (const ValueId v : g_.operands(node)) {
            const Device d = g_.type(v).device;
            if (d == best || is_cpu_scalar(g_.type(v)))
                continue;
            if (const double s = seconds(d); s < least) {
                least = s;
                best = d;
            }
        }
        return best;
    }

    void bring_together(NodeId id) {
        const Node &node = g_.node(id);
        const Device home = home_of(node), device = best_device(node, home);
        std::vector<ValueId> operands;
        for (const ValueId v : g_.operands(node))
            operands.push_back(at(v, device, {node, cause(v, device)}));
        const ValueId first = b().clone_node(g_, node, operands);
        rewriter_.kept(id);
        for (uint32_t k = 0; k < node.result_count; ++k)
            copies_.add(g_.result(node, k), first + k);
        if (device != home)
            rewriter_.replace(g_.result(node),
                              move(g_.result(node), first, home, {node, TransferCause::Return}));
    }

    TransferCause cause(ValueId v, Device to) const {
        const TensorType &type = g_.type(v);
        return is_cpu_scalar(type)                   ? TransferCause::Scalar
               : target_.may_access(to, type.device) ? TransferCause::Peer
                                                     : TransferCause::Side;
    }

    // --- bringing a value to a device

    ValueId at(ValueId old, Device to, const TransferNeed &need) {
        if (const ValueId v = copies_.for_need(old, to, need); v != kNone)
            return v;
        const Node *made = g_.producer(copies_.root(old));
        if (is_maker(made)) {
            const ValueId v = b().clone_maker(g_, *made, to);
            b().set_stream(stream_for(to, need));
            copies_.add(old, v);
            return v;
        }
        const bool elsewhere = need.named() && to == kCpu && g_.type(copies_.root(old)).device != *need.owner;
        if (made && !elsewhere && info(made->op).family == OpFamily::View && made->operand_count == 1 &&
            depth_ < kMaxRepeated) {
            ++depth_;
            const ValueId v = view_at(copies_.root(old), *made, to, need);
            --depth_;
            if (v != kNone)
                return v;
        }
        if (made && !need.named() && do_again(copies_.root(old), to))
            return copies_.on(old, to);
        return move(old, copies_.source(old, to, need), to, need);
    }
    /// What is made on the other side for a transfer on a stream is work of that stream, where it has one.
    static int32_t stream_for(Device to, const TransferNeed &need) {
        return need.named() && to != kCpu ? need.node.stream : kNoStream;
    }

    ValueId move(ValueId old, ValueId now, Device to, const TransferNeed &need) {
        // On a stream of the user's also where it is there already.
        const ValueId v = need.named() ? b().add(Op::Transfer, {now}, {device_word(to)}, {}, need.node.loc)
                                       : b().transfer(now, to, need.node.loc);
        if (v != now) {
            b().set_recorded(need.node.recorded);
            b().set_cause(need.cause);
            if (need.cause == TransferCause::User)
                b().set_stream(need.node.stream);
        }
        copies_.add(old, v);
        return v;
    }

    /// The view of its operand on the other side, kNone if it is better to move the view's result.
    ValueId view_at(ValueId old, const Node &view, Device to, const TransferNeed &need) {
        const ValueId x = g_.operands(view)[0];
        if (copies_.for_need(x, to, need) == kNone && !is_maker(g_.producer(copies_.root(x)))) {
            const double there = target_.device(to).memory_bandwidth,
                         here = target_.device(device_of(copies_.source(old, to, need))).memory_bandwidth;
            const bool repeats = view.op == Op::Window && bytes(old) >= bytes(x);
            const bool free = view.op == Op::Reshape || view.op == Op::Broadcast || repeats;
            const bool same_bytes = view.op == Op::Permute || view.op == Op::Flip;
            if (!free && !(same_bytes && there >= here))
                return kNone;
        }
        const ValueId from = at(x, to, need);
        const ValueId v = b().clone_node(g_, view, std::span(&from, 1));
        b().set_stream(stream_for(to, need));
        copies_.add(old, v);
        return v;
    }

    // --- doing it again

    /// Whether an operation may be part of what is done again.
    bool repeats(const Node &node) const {
        const OpFamily family = info(node.op).family;
        return node.stream == kNoStream && node.order_count == 0 && node.result_count == 1 &&
               (family == OpFamily::Elementwise || family == OpFamily::View);
    }

    /// Does the operations that make a value again on `to`, if they are few, all they read is there, and
    /// moving the result takes longer.
    bool do_again(ValueId old, Device to) {
        again_.assign(1, g_.value(old).producer);
        double scalar_ops_done = 0, bytes_moved = static_cast<double>(bytes(old));
        for (size_t i = 0; i < again_.size(); ++i) {
            const Node &node = g_.node(again_[i]);
            if (!repeats(node))
                return false;
            const TensorType &type = g_.type(g_.result(node));
            scalar_ops_done += static_cast<double>(type.numel()) * scalar_ops(node.op);
            for (const ValueId operand : g_.operands(node)) {
                const ValueId x = copies_.root(operand);
                if (is_maker(g_.producer(x)))
                    continue;
                if (copies_.on(x, to) != kNone) {
                    bytes_moved += static_cast<double>(bytes(x));
                    continue;
                }
                const NodeId p = g_.value(x).producer;
                if (p == kNone)
                    return false;
                if (std::ranges::find(again_, p) == again_.end())
                    again_.push_back(p);
                if (again_.size() > kMaxRepeated)
                    return false;
            }
        }
        const DeviceInfo &device = target_.device(to);
        const double again = scalar_ops_done / device.flops + bytes_moved / device.memory_bandwidth;
        if (again >= target_.transfer_seconds(device_of(copies_.nearest(old, to)), to, bytes(old)))
            return false;
        repeat(to);
        return true;
    }

    void repeat(Device to) {
        std::vector<NodeId> nodes = again_; // `at` below only clones makers, but may not use again_
        std::ranges::sort(nodes);
        for (const NodeId id : nodes) {
            const Node &node = g_.node(id);
            std::vector<ValueId> operands;
            for (const ValueId v : g_.operands(node))
                operands.push_back(at(v, to, {node, TransferCause::User}));
            copies_.add(g_.result(node), b().clone_node(g_, node, operands));
        }
    }

    const Graph &g_;
    const Target &target_;
    Rewriter rewriter_;
    Uses uses_;
    Copies copies_;
    std::vector<bool> sent_; ///< results of transfers that were left to their readers
    std::vector<NodeId> again_;
    size_t depth_ = 0; ///< of views that are being made again
};

} // namespace

Graph insert_transfers(Graph graph, const Target &target) {
    if (one_device(graph))
        return graph;
    return Inserter(graph, target).run();
}

} // namespace lz::passes
