#pragma once
/// How a contraction is cut: the register tile (part of the kernel's class), the block sizes (arguments), and
/// the scratch a worker needs. Pure arithmetic over sizes, dtype and ISA.
///
/// A contraction is one phase without temporaries. A work item is BlockM x BlockN elements of one batch; it
/// packs the panels it needs into the worker's scratch while it walks k in steps of BlockK
/// (codegen/llvm/contraction/contraction.h). Use, in schedule_cpu:
///
///     declare_contraction(kernel, phase, isa);   // mr, nr, blocks, scratch of the phase's schedule
///     const ContractionBlocks blocks = contraction_blocks(sizes, cpu);
///     // kernel argument contraction_arg(phase.cpu(), i) = blocks.args[i]; the scratch buffer takes
///     // blocks.scratch_bytes from its worker_offset (a multiple of 64) on
///
/// Strides: lhs and rhs may have any strides on any axis. It pays to have rhs contiguous along n or k, and
/// lhs along k or m; where m is 1 and rhs is contiguous along k (or n is 1) a row kernel is as good. Batches
/// that lhs shares with m (one stride continues the other) and that rhs does not move along should be folded
/// into m.

#include "ir/kernel/kernel.h"
#include "ir/target.h"

#include <array>
#include <cstdint>

namespace lz::passes {

struct ContractionTile {
    int mr = 0;       ///< rows
    int nr = 0;       ///< columns: whole vectors
    bool amx = false; ///< of tile registers
};

/// The register tile for operands of `dtype`: depends on dtypes, order and ISA only, so that sizes share one
/// kernel. `accumulate` and `ascending` as in ir::Contraction.
ContractionTile contraction_tile(ir::DType dtype, ir::DType accumulate, const ir::CpuIsa &isa,
                                 bool ascending = false);

/// Whether operands are multiplied as they are (f32, f64, i32 in i32, i64). Others are converted while they
/// are packed.
bool contraction_reads_in_place(ir::DType dtype, ir::DType accumulate);

struct ContractionSizes {
    ir::DType dtype = ir::DType::F32, accumulate = ir::DType::F32;
    int64_t batches = 1; ///< product of the extents of all batch axes
    int64_t m = 0, n = 0, k = 0;
    /// Strides in elements: of lhs along m and k, of rhs along k and n.
    int64_t lhs_m = 0, lhs_k = 0, rhs_k = 0, rhs_n = 0;
    bool ascending = false;                      ///< as in ir::Contraction
    bool lhs_digits = false, rhs_digits = false; ///< whether they have some: then their strides say nothing
};

struct ContractionBlocks {
    std::array<int64_t, ir::kContractionArgs> args = {}; ///< by ir::ContractionArg
    int64_t items = 0;                                   ///< what ir::work_items will say
    int64_t scratch_bytes = 0;                           ///< a worker's scratch
    int64_t operator[](ir::ContractionArg which) const { return args[static_cast<size_t>(which)]; }
};

/// Blocks for these sizes on such a CPU. Any blocks that honour ir::ContractionArg give the same bits.
/// They are numbers and change no kernel: a function of the sizes alone (found_again.h).
ContractionBlocks contraction_blocks(const ContractionSizes &sizes, const ir::CpuLimits &cpu);

/// Fills in what the schedule of a product's phase has of its own, and adds the arguments and the Worker
/// buffer, which has no place yet, to the kernel.
void declare_contraction(ir::Kernel &kernel, size_t phase, const ir::CpuIsa &isa);

} // namespace lz::passes
