#include "passes/schedule/cuda_alignment.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

constexpr int64_t kPacketBytes = 16;

/// Looks at the accesses that the emitter makes packets of (codegen/cuda/access.cpp), as far as numbers alone
/// tell which these are. A mistake costs a kernel more, or a slower one, and no bit.
class Finder {
public:
    explicit Finder(const LoweredStep &step) : step_(step), kernel_(step.kernel) {}

    bool is_unaligned(const Phase &phase) {
        const CudaSchedule &cuda = phase.cuda();
        found_ = false;
        refused_ = false;
        if (cuda.shape == CudaShape::Points && cuda.vector > 1)
            look_at(phase.body, phase.grid.back());
        if (cuda.shape == CudaShape::Rows)
            look_at_loops(phase.body, cuda);
        return found_ && !refused_;
    }

private:
    void look_at_loops(const Region &region, const CudaSchedule &cuda) {
        for (const Stmt &stmt : region) {
            if (stmt.kind != Stmt::Loop)
                continue;
            const Loop &loop = kernel_.loops[stmt.id];
            if (loop.order != LoopOrder::Lanes) {
                look_at_loops(loop.body, cuda);
                continue;
            }
            const bool several_rows = look_at(loop.body, loop.axis);
            if (several_rows && loop.begin == kNoValue && loop.end == kNoValue)
                look_at_extent(loop, cuda);
        }
    }

    /// Rows that are not whole packets. How many elements a packet of a row has: see PhaseEmitter.
    void look_at_extent(const Loop &loop, const CudaSchedule &cuda) {
        const bool wide = std::ranges::any_of(
            loop.reductions, [](const Reduction &r) { return r.dtype == DType::F64 && r.index == kNoValue; });
        const int width = cuda.row_threads == 1 ? cuda.row_elements : wide ? 2 : 4;
        note(kernel_.axes[loop.axis].extent, kPacketBytes / std::min<int64_t>(width, kPacketBytes));
    }

    /// Whether some access of packets along the axis is to several rows.
    bool look_at(const Region &region, AxisId axis) {
        bool several_rows = false;
        for (const Stmt &stmt : region) {
            if (stmt.kind == Stmt::Loop || kernel_.instrs[stmt.id].access == kNoValue)
                continue;
            const Access &a = kernel_.accesses[kernel_.instrs[stmt.id].access];
            const KBuffer &buffer = kernel_.buffers[a.buffer];
            const auto along = std::ranges::find(a.strides, axis, &AxisStride::axis);
            if (buffer.mode == BufferMode::Worker || along == a.strides.end() ||
                along->cls != StrideClass::Contiguous || !a.terms.empty() || a.predicate != kNoValue)
                continue;
            several_rows = several_rows || a.strides.size() > 1;
            const int64_t bytes = size_of(buffer.dtype);
            if (a.offset != kNoArg)
                note(a.offset, bytes);
            for (const AxisStride &s : a.strides) {
                if (s.axis == axis)
                    continue;
                refused_ = refused_ || s.stride == kNoArg; // no launch is aligned, and there is one kernel
                if (s.stride != kNoArg)
                    note(s.stride, bytes);
            }
        }
        return several_rows;
    }

    /// An argument that has to be a multiple of a packet, in elements of so many bytes.
    void note(ArgId arg, int64_t bytes) {
        found_ = found_ || std::ranges::any_of(step_.segments, [&](const LoweredSegment &segment) {
                     const ArgSpec &spec = segment.args[arg];
                     return spec.terms.empty() && spec.constant * bytes % kPacketBytes != 0;
                 });
    }

    const LoweredStep &step_;
    const Kernel &kernel_;
    bool found_ = false, refused_ = false;
};

} // namespace

void note_unaligned(LoweredStep &step) {
    Finder finder(step);
    for (Phase &phase : step.kernel.phases)
        if (finder.is_unaligned(phase))
            phase.on_cuda().aligned = false;
}

} // namespace lz::passes
