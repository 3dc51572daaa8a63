#pragma once
/// Writes the expressions of a cluster as Kernel IR: keeps the arguments of the one segment beside the
/// kernel, and what has been computed where.

#include "ir/kernel/builder.h"
#include "passes/lower/expr.h"
#include "passes/lower/lowered_step.h"

#include <span>
#include <utility>
#include <vector>

namespace lz::passes {

/// Axes of the domain as they are in the kernel, after neighbours that every access walks together became
/// one.
struct Collapsed {
    std::vector<int> of_axis; ///< kernel axis position of a domain axis, -1 if it was folded into a later one
    std::vector<int64_t> extents; ///< of the kernel's axes
    std::vector<bool> reduced;
    std::vector<uint32_t> members; ///< bit a: domain axis a is in it
};

/// Folds neighbouring axes of one kind. Axes of extent 1 that would change the class disappear if
/// `drop_units`.
Collapsed collapse(const Domain &domain, std::span<const Index> addresses, bool drop_units);

class KernelEmitter {
public:
    KernelEmitter(const ClusterExprs &exprs, Collapsed axes);

    ir::KernelBuilder &builder() { return builder_; }
    LoweredSegment &segment() { return segment_; }
    /// Positions of the kernel axes along which contiguous accesses are a class, or -1: the innermost one
    /// (`vector`), and one along which an operand that is turned is contiguous.
    void set_contiguous(int vector, int turned) {
        vector_ = vector;
        turned_ = turned;
    }

    ir::ArgId arg(ir::ArgRole role, int64_t value);
    ir::ArgId arg(ir::ArgRole role, const Index &index); ///< its constant and runtime words
    ir::AxisId axis(int position) const { return axis_ids_[static_cast<size_t>(position)]; }
    ir::AxisId add_axis(int64_t extent);
    /// Accesses have an offset argument though it be 0: then kernels that differ in that are one.
    void always_offsets() { always_offsets_ = true; }
    uint16_t input(ir::ValueId value);
    uint16_t output(ir::ValueId value);
    uint16_t in_out(ir::ValueId value, ir::ValueId replaces);
    /// Elements that only the worker of a grid point sees; their place is the schedule's.
    uint16_t worker(ir::DType dtype, int64_t elements);

    /// An access to `buffer` at an element number over domain axes.
    ir::Access access(uint16_t buffer, const Index &address, ir::KValue predicate = ir::kNoValue);
    ir::AxisStride strided(ir::AxisId axis, int64_t coefficient);

    ir::KValue emit(ExprId e);
    void store(uint16_t buffer, const Index &address, ExprId e);
    /// Emits what `roots` need and what changes only along the axes in `mask` (domain axes), so that it
    /// stands outside the loop that is about to begin. Reductions deeper than `depth` are not touched. What
    /// may be computed only on demand stays inside, because the loop may run no time; emitters move it in
    /// front of the first turn.
    void hoist(std::span<const ExprId> roots, uint32_t mask, int depth);
    /// From now on the expression is this value (a loop's result, an element of a row buffer).
    void define(ExprId e, ir::KValue value);
    /// Values defined until the matching `close` are forgotten there.
    void open() { scopes_.push_back(trail_.size()); }
    void close();

    /// Expressions kept in a row buffer of the worker: (buffer, address), filled by the caller.
    struct Kept {
        uint16_t buffer;
        Index address;
        bool stored = false;
    };
    void keep(ExprId e, Kept kept);
    Kept *kept(ExprId e);

private:
    ir::KValue emit_new(ExprId e);
    ir::KValue emit_position(const Index &index);

    const ClusterExprs &exprs_;
    Collapsed axes_;
    ir::KernelBuilder builder_;
    LoweredSegment segment_;
    std::vector<ir::AxisId> axis_ids_;
    int vector_ = -1, turned_ = -1;
    bool always_offsets_ = false;
    std::vector<ir::KValue> values_;
    std::vector<ExprId> trail_;
    std::vector<size_t> scopes_;
    std::vector<std::pair<ir::ValueId, uint16_t>> inputs_;
    std::vector<std::pair<ExprId, Kept>> kept_;
    std::vector<uint32_t> seen_;
    uint32_t stamp_ = 0;
    std::vector<std::pair<ExprId, ir::Access>> accesses_; ///< loads that are emitted in several places
};

/// The reduction that a graph op becomes.
ir::ReduceOp reduce_op(ir::Op op);

} // namespace lz::passes
