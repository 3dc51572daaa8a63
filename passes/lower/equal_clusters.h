#pragma once
/// Clusters that are equal but for the numbers of their values: the layers of a network. The first of them is
/// lowered, the others get its step with their own numbers.
///
/// A step depends on nothing but its cluster's form: operations, wiring, structural attributes, types, which
/// values are stored, and which runtime words and operands are the same. Where it lies in the graph, who
/// makes its operands, lines and recorded indices have no part in it.

#include "passes/lower/lowered_step.h"
#include "passes/lower/nest.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace lz::passes {

class EqualClusters {
public:
    explicit EqualClusters(const ir::Graph &graph) : graph_(graph) {}

    /// First of all, once for each cluster: its nodes are [first, end). Forms are only written down where
    /// there may be two of them.
    void expect(ir::ClusterKind kind, ir::NodeId first, ir::NodeId end);

    /// Takes over the parts of an equal cluster's step that lowering and scheduling make: kind, kernel,
    /// segments, operands, sizes. False, and nothing done, where none has been lowered.
    bool take(const ClusterView &view, LoweredStep &step);
    /// The step of the cluster for which `take` has just found none. Kept while equal clusters may come.
    void keep(const LoweredStep &step);

    /// What the parts that `take` sets are of this step, as text; equal where two steps do the same.
    static std::string text(const LoweredStep &step);

private:
    /// The numbers that a cluster's step may hold, in the order of first encounter.
    struct Numbers {
        ir::NodeId first = ir::kNone, end = ir::kNone;
        ir::ValueId first_value = ir::kNone;
        std::vector<ir::ValueId> outside; ///< operands that it does not make
        std::vector<uint32_t> words;      ///< positions of runtime words
    };
    struct Lowered {
        Numbers numbers; ///< those in the step
        LoweredStep step;
    };
    class Describe;

    uint64_t signature(ir::ClusterKind kind, ir::NodeId first, ir::NodeId end) const;
    static void renumber(LoweredStep &step, const Numbers &from, const Numbers &to);

    const ir::Graph &graph_;
    struct Expected {
        int all = 0, left = 0; ///< clusters, and those still to come
    };
    std::unordered_map<uint64_t, Expected> expected_;  ///< by signature
    std::unordered_map<std::string, Lowered> lowered_; ///< by form
    std::string form_;                                 ///< of the cluster at hand; empty if it is not kept
    Numbers numbers_;
};

} // namespace lz::passes
