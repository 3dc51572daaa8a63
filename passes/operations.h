#pragma once
/// Facts about operations: what they cost, what they move, what to call them. Rules of `fuse` and the
/// sentences of `explain` are made of these.

#include "ir/graph/graph.h"
#include "ir/program/program.h"

#include <optional>
#include <string>
#include <string_view>

namespace lz::passes {

/// More than one scalar operation an element, and not only an index map: transcendental, division, random
/// number or gather. Fusion evaluates these at most twice as often as written.
bool is_expensive(ir::Op op);
/// Scalar operations of one element of the op's result, roughly as many instructions as it becomes.
int scalar_ops(ir::Op op);
/// The same of a node within a cluster. Conversions between a half type and f32 count for nothing: arithmetic
/// of half types consists of them in any case, whether they are written as casts or not.
int fused_ops(const ir::Graph &graph, const ir::Node &node);
/// Views that are index maps only, and makers: copied into every reader.
bool is_free(ir::Op op);
/// A join of more tensors than are worth a choice among them for each element. Its kernel takes them part by
/// part (passes/lower/joins/pieces.h), so it joins clusters that read it at every point and reduce nothing.
bool joins_many(const ir::Node &node);
/// Where the elements of a slice begin in the dense memory of its operand, in elements, if they are one run
/// there: then it need not be written to memory of its own to be copied. Nothing for other nodes.
std::optional<ir::ArgSpec> begin_of_run(const ir::Graph &graph, const ir::Node &node);
/// Where a scatter finds its indices without their repetitions: element (o, k, r) of the index, folded as
/// (outer, along the axis, inner), is element o * outer + k * along + r * inner of `value`.
struct ScatterIndex {
    ir::ValueId value;
    int64_t outer, along, inner;
};
/// Sees through a broadcast that repeats the index along all outer axes, the axis, or all inner axes, as
/// `index_add` has it; other indices are where the node has them. A broadcast before node `first` is in a
/// cluster that stores it, and maybe nothing of what it repeats: behind it are inputs of the graph alone.
ScatterIndex scatter_index(const ir::Graph &graph, const ir::Node &scatter, ir::NodeId first = 0);
/// Whether the node is a reduction that reduces: one over no axes is a cast of its operand to its own dtype.
bool reduces(const ir::Graph &graph, const ir::Node &node);
/// Whether only dimensions of extent 1 move.
bool keeps_order(const ir::Graph &graph, const ir::Node &permute);
/// The axes that a reduction reduces.
std::vector<int64_t> reduced_axes(const ir::Graph &graph, const ir::Node &node);
/// `softmax row: max, sub, exp, sum, div` style names: the cluster kind and its operations in order.
std::string label_of(const ir::Graph &graph, ir::ClusterKind kind, std::span<const ir::NodeId> nodes);

} // namespace lz::passes
