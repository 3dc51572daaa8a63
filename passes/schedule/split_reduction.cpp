#include "passes/schedule/split_reduction.h"

#include "ir/diagnostic.h"
#include "ir/kernel/builder.h"
#include "ir/kernel/copier.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

namespace lz::passes {

using namespace ir;

namespace {

bool is_arg(const Reduction &r) {
    return r.op == ReduceOp::ArgMax || r.op == ReduceOp::ArgMin;
}

/// Where in the phase's body the loop is.
size_t loop_position(const Region &body) {
    return static_cast<size_t>(std::ranges::find(body, Stmt::Loop, &Stmt::kind) - body.begin());
}

class Splitter {
public:
    Splitter(const Kernel &from, LoweredSegment &segment, const Split &split)
        : split_(split), from_(from), segment_(segment), phase_(from.phases[0]), grid_(phase_.grid),
          at_(loop_position(phase_.body)), loop_(from.loops[phase_.body[at_].id]), copier_(from),
          b_(copier_.builder()) {
        if (split_.padded != 0) {
            const auto across = std::ranges::find(grid_, split_.across);
            std::rotate(across, across + 1, grid_.end());
        }
        chunk_ = loop_.chunk != 0 ? loop_.chunk : chunk_of(loop_.order);
        chunks_ = (value_of(from.axes[loop_.axis].extent) + chunk_ - 1) / chunk_;
        LZ_CHECK(split_.padded == 0 || chunks_ <= split_.padded, "there are more chunks than room for them");
        if (split_.padded != 0)
            chunks_ = split_.padded;
        chunk_axis_ = b_.axis(add_arg(ArgRole::Extent, chunks_));
        partial_axis_ = chunk_axis_;
        if (split_.padded != 0) {
            part_axis_ = b_.axis(add_arg(ArgRole::Extent, split_.parts));
            partial_axis_ = b_.axis(add_arg(ArgRole::Extent, split_.parts * chunks_));
        }
        for (const Reduction &r : loop_.reductions) {
            partials_.push_back(add_partials(r.dtype));
            indices_.push_back(is_arg(r) ? add_partials(DType::I64) : uint16_t{0});
        }
    }

    Kernel run() {
        make_partials();
        fold_partials();
        return b_.take();
    }

private:
    int64_t value_of(ArgId arg) const { return segment_.args[arg].constant; }
    int64_t extent(AxisId axis) const { return value_of(from_.axes[axis].extent); }

    ArgId add_arg(ArgRole role, int64_t value) {
        segment_.args.push_back({value, {}});
        return b_.arg(role);
    }
    uint16_t add_partials(DType dtype) {
        int64_t rows = 1;
        for (const AxisId axis : grid_)
            rows *= extent(axis);
        segment_.buffers.push_back(
            {BufferMode::Temp, kNone, kNone, rows * split_.parts * chunks_ * size_of(dtype)});
        return b_.buffer(dtype, BufferMode::Temp);
    }

    /// The grid, and behind its rows those axes; in a vector grid the last axis of it innermost, and where
    /// rows lie side by side.
    std::vector<AxisId> grid_and(std::span<const AxisId> axes) const {
        std::vector<AxisId> grid = grid_;
        const bool inside = phase_.vector_grid || split_.padded != 0;
        grid.insert(inside ? grid.end() - 1 : grid.end(), axes.begin(), axes.end());
        return grid;
    }
    /// Axes of partial results in the phase that makes them.
    std::vector<AxisId> made_along() const {
        return split_.padded != 0 ? std::vector{part_axis_, chunk_axis_} : std::vector{chunk_axis_};
    }

    /// A partial result, which stands along those axes.
    Access partial(uint16_t buffer, std::span<const AxisId> axes) {
        const std::vector<AxisId> order = grid_and(axes);
        Access access;
        access.buffer = buffer;
        int64_t stride = 1;
        for (size_t i = order.size(); i-- > 0;) {
            const bool last = i + 1 == order.size();
            access.strides.push_back(
                last ? AxisStride{order[i], StrideClass::Contiguous, kNoArg}
                     : AxisStride{order[i], StrideClass::Strided, add_arg(ArgRole::Stride, stride)});
            stride *= value_of(b_.kernel().axes[order[i]].extent);
        }
        std::ranges::reverse(access.strides);
        return access;
    }

    void need(KValue v, std::vector<bool> &needed) const {
        if (v == kNoValue || needed[v])
            return;
        needed[v] = true;
        const Instr &instr = from_.instrs[v];
        for (const KValue x : instr.operands)
            need(x, needed);
        if (instr.access == kNoValue)
            return;
        need(from_.accesses[instr.access].predicate, needed);
        for (const IndexTerm &t : from_.accesses[instr.access].terms)
            need(t.index, needed);
    }

    std::vector<bool> needed_by(std::span<const Stmt> part) const {
        std::vector<bool> needed(from_.instrs.size());
        for (const Stmt &stmt : part)
            need(stmt.id, needed);
        return needed;
    }
    /// Copies what is needed of what stands before the loop.
    void copy_before_loop(const std::vector<bool> &needed) {
        for (size_t i = 0; i < at_; ++i)
            if (needed[phase_.body[i].id])
                copier_.copy(phase_.body[i].id);
    }

    void make_partials() {
        const std::vector<AxisId> along = made_along();
        b_.begin_phase(grid_and(along), phase_.vector_grid);
        std::vector<bool> needed = needed_by(loop_.body);
        for (const Reduction &r : loop_.reductions) {
            need(r.value, needed);
            need(r.index, needed);
        }
        copy_before_loop(needed);
        const KValue size = b_.constant_int(DType::I64, chunk_);
        KValue begin = b_.mul(b_.axis_index(chunk_axis_), size);
        const KValue end = b_.minimum(b_.add(begin, size), b_.arg_value(from_.axes[loop_.axis].extent));
        if (split_.padded != 0)
            begin = b_.add(begin, b_.axis_index(part_axis_));
        const uint32_t loop = b_.begin_loop(loop_.axis, loop_.order, 0, begin, end, split_.parts);
        copier_.copy(loop_.body);
        copier_.copy_reductions(loop_);
        b_.end_loop();
        for (uint32_t r = 0; r < loop_.reductions.size(); ++r) {
            b_.store(partial(partials_[r], along), b_.loop_result(loop, r));
            if (is_arg(loop_.reductions[r]))
                b_.store(partial(indices_[r], along), b_.loop_result(loop, r, 1));
        }
        b_.end_phase();
    }

    void fold_partials() {
        b_.begin_phase(grid_, phase_.vector_grid);
        const std::span<const Stmt> rest = std::span(phase_.body).subspan(at_ + 1);
        std::vector<bool> needed = needed_by(rest);
        for (size_t i = 0; i < at_; ++i) // checks count though nobody asks for their value
            if (info(from_.instrs[phase_.body[i].id].op).cls == KOpClass::Check)
                need(phase_.body[i].id, needed);
        copy_before_loop(needed);
        const std::array along = {partial_axis_};
        const uint32_t loop = b_.begin_loop(partial_axis_, loop_.order, loop_.chunk);
        for (size_t r = 0; r < loop_.reductions.size(); ++r) {
            const KValue value = b_.load(partial(partials_[r], along));
            const bool arg = is_arg(loop_.reductions[r]);
            b_.reduce(loop_.reductions[r].op, value, arg ? b_.load(partial(indices_[r], along)) : kNoValue);
        }
        b_.end_loop();
        for (const Stmt &stmt : rest) {
            const Instr &instr = from_.instrs[stmt.id];
            if (instr.op == KOp::LoopResult) {
                b_.set_source(instr.source);
                copier_.define(stmt.id, b_.loop_result(loop, static_cast<uint32_t>(instr.bits / 2),
                                                       static_cast<int>(instr.bits % 2)));
            } else {
                copier_.copy(stmt.id);
            }
        }
        b_.end_phase();
    }

    const Split split_;
    const Kernel &from_;
    LoweredSegment &segment_;
    const Phase &phase_;
    std::vector<AxisId> grid_; ///< where rows lie side by side, the axis along which they do last
    size_t at_;
    const Loop &loop_;
    KernelCopier copier_;
    KernelBuilder &b_;
    int64_t chunk_ = 0, chunks_ = 0;
    AxisId chunk_axis_ = 0, part_axis_ = 0;
    AxisId partial_axis_ = 0;                  ///< of all partial results of a row
    std::vector<uint16_t> partials_, indices_; // by reduction
};

} // namespace

bool can_split_reduction(const Kernel &kernel) {
    if (kernel.phases.size() != 1 || kernel.loops.size() != 1 || kernel.phases[0].contraction)
        return false;
    const Region &body = kernel.phases[0].body;
    const size_t at = loop_position(body);
    const auto stores = [&](const Stmt &s) { return kernel.instrs[s.id].op == KOp::Store; };
    return at < body.size() && !kernel.loops[0].reductions.empty() && kernel.loops[0].begin == kNoValue &&
           kernel.loops[0].end == kNoValue &&
           std::none_of(body.begin(), body.begin() + static_cast<long>(at), stores);
}

Kernel split_reduction(const Kernel &kernel, LoweredSegment &segment, const Split &split) {
    return Splitter(kernel, segment, split).run();
}

} // namespace lz::passes
