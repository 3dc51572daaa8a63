#pragma once
/// On which devices the values of a graph are while transfers are inserted.

#include "ir/graph/graph.h"
#include "ir/target.h"
#include "passes/simplify/rewrite.h"

#include <optional>
#include <vector>

namespace lz::passes {

/// What a value is moved for.
struct TransferNeed {
    const ir::Node &node;
    ir::TransferCause cause;
    /// The device of the stream on which the user put the transfer; empty where he named none.
    std::optional<ir::Device> owner = {};

    bool named() const { return owner.has_value(); }
};

/// The copies of each value of the old graph, as values of the new one. All results of transfers of one value
/// have its copies in common.
class Copies {
public:
    Copies(const ir::Graph &graph, Rewriter &rewriter, const ir::Target &target);

    /// `now` is the value, or one more copy of it.
    void add(ir::ValueId old, ir::ValueId now);
    /// From here on `result`, that of a transfer of `operand`, is the same value.
    void same(ir::ValueId result, ir::ValueId operand) { root_[result] = root_[operand]; }
    /// Of a transfer's result: what it is a copy of.
    ir::ValueId root(ir::ValueId old) const { return root_[old]; }

    /// The value on this device, kNone if it is not there yet.
    ir::ValueId on(ir::ValueId old, ir::Device to) const;
    /// The same for a need. What the user put on a stream is done there: only a copy of that stream will do.
    ir::ValueId for_need(ir::ValueId old, ir::Device to, const TransferNeed &need) const;
    /// Where a copy for the need comes from. On a stream of the user's that is the operand, or what the
    /// operand is a copy of: a copy that another stream makes would be one more thing to wait for. And
    /// streams copy to the host from their own GPU.
    ir::ValueId source(ir::ValueId old, ir::Device to, const TransferNeed &need) const;
    /// The copy from which the value gets there soonest.
    ir::ValueId nearest(ir::ValueId old, ir::Device to) const;

private:
    /// Lists of new values, headed by first_ of their root.
    struct Copy {
        ir::ValueId value;
        uint32_t next;
    };
    const ir::Graph &now() const { return rewriter_.builder().graph(); }
    ir::Device device_of(ir::ValueId copy) const { return now().type(copy).device; }
    bool is_on_stream_of(ir::ValueId copy, const TransferNeed &need) const;
    double seconds(ir::ValueId copy, ir::Device to, ir::ValueId old) const;

    const ir::Graph &g_;
    Rewriter &rewriter_;
    const ir::Target &target_;
    std::vector<ir::ValueId> root_;
    std::vector<uint32_t> first_;
    std::vector<Copy> copies_;
};

} // namespace lz::passes
