#pragma once
/// Kernel IR: one fused kernel as a loop nest over scalar SSA.
///
///     kernel @k {
///       args     extents, strides, offsets, block sizes: i64 values known at launch
///       scalars  runtime scalars
///       buffers  operands, results, temporaries
///       phase    a grid of parallel axes and the body of one grid point; phases run one after another with a
///                barrier between them
///     }
///
/// The body of a phase is a region: instructions and loops in order. An instruction is scalar; which axis
/// becomes the vector is the phase's schedule. Row kernel (softmax over the last axis), as pseudo code:
///
///     parallel i0:
///       m = loop i1 lanes: x = load(i0, i1); reduce max x
///       s = loop i1 lanes: e = exp(load(i0, i1) - m); store tmp(i1), e; reduce add e
///       loop i1:           store out(i0, i1), load tmp(i1) / s
///
/// **Order of a reduction** (S29). It depends on extents only, never on threads, fusion or the host's width:
///  - a loop with `chunk` c > 0 folds elements [0,c), [c,2c), ... each by itself; the chunks' results are
///    folded by the same rule again (the same order and chunk), until one is left;
///  - LoopOrder::Sequential folds its elements one after another, starting from the first;
///  - LoopOrder::Lanes has L lanes, L = kLaneBytes / size of the accumulation dtype, which start at the
///    identity. Element k of a chunk is folded into lane k mod L in ascending k. Then, for h = L/2, L/4,
///    ..., 1, lane i (i < h) becomes op(lane i, lane i + h): what is in lane 0 at the end is the result of
///    the chunk.
/// Identities: add -0.0 (0), mul 1, max -inf (lowest), min +inf (highest). min and max let NaN through, to
/// them -0 is less than +0, and arg reductions keep the first of equals, so that their order cannot be seen.
/// A split reduction (phase 0 makes one partial a chunk, phase 1 folds them in the same order with the same
/// chunk) gives the same bits as one loop.

#include "ir/kernel/kernel_class.h"
#include "ir/kernel/schedule.h"
#include "ir/types/dtype.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lz::ir {

enum class KOp : uint8_t {
#define LZ_KOP(E, text, operands, cls) E,
#include "ir/kernel/ops.def"
};
enum class KOpClass : uint8_t { Leaf, Arith, Compare, Convert, Math, Check, Memory, Control };
struct KOpInfo {
    std::string_view name;
    int operands;
    KOpClass cls;
};
const KOpInfo &info(KOp op);
/// Whether the operation is a choice: a bool, and two values of which it gives one.
constexpr bool is_choice(KOp op) {
    return op == KOp::Select || op == KOp::Rarely;
}

using KValue = uint32_t; ///< index of an instruction in Kernel::instrs; its result
using AxisId = uint8_t;  ///< index in Kernel::axes
inline constexpr KValue kNoValue = UINT32_MAX;

inline constexpr int64_t kLaneBytes = 256;
/// Elements folded by themselves before their results are folded: along the vectorised axis, and across it.
///
/// For a CPU they are long enough for a chunk to hide what it costs to begin and end it, and short enough for
/// every size that is worth two threads to have chunks for both. For an H200 (132 SMs, 4.8 TB/s, some 40 KiB
/// in flight an SM to reach it): a chunk of f32 is 4 KiB, 64 lanes are 16 threads of 16-byte loads, 16 loads
/// each; a block of 256 threads does 16 chunks, 64 KiB, at once, so 8.3 MiB keep every SM busy, and a sum of
/// 64 M elements (256 MiB) has 65,536 chunks, whose results (256 KiB) are 64 chunks again, and those one: the
/// last two levels read a thousandth of what the first did. Across the vector a column's chunk is 128
/// sequential steps of a coalesced row; 4096 x 4096 gives 32 x 4096 of them: 4096 warps, 31 an SM.
inline constexpr int64_t kLaneChunk = 1024;
inline constexpr int64_t kSequentialChunk = 128;

enum class ArgRole : uint8_t { Extent, Stride, Offset, Block, Other };
struct KArg {
    ArgRole role = ArgRole::Other;
};
struct KScalar {
    DType dtype; ///< the slot's dtype: bool and integers as i64, f16/bf16/f32 as f32 bits, f64 as f64 bits
};

enum class BufferMode : uint8_t {
    In,
    Out,
    InOut,  ///< read and written (update in place)
    Temp,   ///< shared by all workers and phases of one launch; planned like an intermediate
    Worker, ///< private to a worker; its pointer is the worker's scratch plus `worker_offset` bytes
};
struct KBuffer {
    DType dtype;
    BufferMode mode;
    ArgId worker_offset = kNoArg; ///< Worker only
};

struct KAxis {
    ArgId extent;
};

/// How an access moves along one axis. Axes it does not move along are left out.
struct AxisStride {
    AxisId axis;
    StrideClass cls; ///< Contiguous, Reversed or Strided
    ArgId stride;    ///< in elements, may be negative; kNoArg when Contiguous
};
/// A part of an address that is not affine: index * stride elements.
struct IndexTerm {
    KValue index; ///< an i64 value
    ArgId stride; ///< kNoArg: 1
};
/// Address of one element: base + offset + sum of strides + sum of terms, in elements.
struct Access {
    uint16_t buffer = 0;
    ArgId offset = kNoArg; ///< kNoArg: 0
    std::vector<AxisStride> strides;
    std::vector<IndexTerm> terms;
    KValue predicate =
        kNoValue; ///< bool: where false a load gives 0 and touches nothing, a store does nothing
};

struct Instr {
    KOp op;
    DType dtype; ///< of the result; for Store: of the stored value (converted by an explicit Cast before)
    /// The last one of a check is its guard, a bool or kNoValue: where it is false the check gives its safe
    /// value and is no fault.
    KValue operands[3] = {kNoValue, kNoValue, kNoValue};
    uint64_t bits = 0;          ///< Const: the value; LoopResult: reduction * 2 + part
    uint32_t index = 0;         ///< Scalar, Arg, Axis, LoopResult
    uint32_t access = kNoValue; ///< Load, Store: index in Kernel::accesses
    uint32_t source = kNoValue; ///< node of the graph it came from: dumps, and faults of checks

    KValue guard() const { return info(op).cls == KOpClass::Check ? operands[2] : kNoValue; }
};

struct Stmt {
    enum Kind : uint8_t { Instruction, Loop } kind;
    uint32_t id; ///< index in Kernel::instrs or Kernel::loops
};
using Region = std::vector<Stmt>;

enum class ReduceOp : uint8_t { Add, Mul, Max, Min, ArgMax, ArgMin };
struct Reduction {
    ReduceOp op;
    DType dtype;             ///< accumulation dtype; the value has it already
    KValue value;            ///< in the loop's body
    KValue index = kNoValue; ///< ArgMax, ArgMin: i64 position that travels with the value
};
enum class LoopOrder : uint8_t { Lanes, Sequential };
/// Elements that are folded by themselves before their results are.
constexpr int64_t chunk_of(LoopOrder order) {
    return order == LoopOrder::Lanes ? kLaneChunk : kSequentialChunk;
}

/// A loop over (a part of) one axis inside the body of a grid point. Lanes loops are vectorised along their
/// axis.
struct Loop {
    AxisId axis;
    LoopOrder order = LoopOrder::Lanes;
    int64_t chunk = 0;                       ///< 0: one chunk
    KValue begin = kNoValue, end = kNoValue; ///< uniform i64 bounds; kNoValue: 0 and the extent
    /// The loop takes every step-th index and has lanes / step lanes; a power of two. `step` such loops that
    /// begin at b, b + 1 and so on share the elements and the lanes of one loop without a step from b on, and
    /// what they fold to, folded by halves, is what that one folds to. Of a loop in lanes, and of one chunk.
    int64_t step = 1;
    Region body;
    std::vector<Reduction> reductions;
};

/// Lanes of a reduction of the loop.
inline int64_t lanes_of(const Loop &loop, const Reduction &r) {
    return loop.order == LoopOrder::Sequential ? 1 : kLaneBytes / size_of(r.dtype) / loop.step;
}

/// A part of where an operand of a product stands along an axis. The digits of an axis, the outermost first,
/// are those of its index: the innermost one counts below its extent, the next one what that has gone
/// through, and so on; the outermost one counts all that is left, which stays below its extent. The element
/// stands at the sum of digit * stride.
struct ContractionDigit {
    AxisId axis;  ///< of the contraction: the operand's m or n, or k
    ArgId extent; ///< the extents of an axis' digits make up its own
    ArgId stride; ///< in elements; may be negative, or 0
};

/// A product lhs[b.., m, k] * rhs[b.., k, n] summed over k, tile by tile; the phase's body is the epilogue of
/// one (b.., m, n) element, in which KOp::Product is the sum rounded to the instruction's dtype. The phase's
/// grid is (b.., m, n). Each element is summed in ascending k, with fused multiply-adds in `accumulate` where
/// the ISA has them, so bits depend on k and the ISA only. bf16 is an exception where the ISA has tile
/// registers for it (CpuIsa::multiplies_tiles): of each 32 elements of k, those of even and those of odd
/// place are summed in ascending order, the two sums are added, and that to what was before, subnormals taken
/// for zero.
struct Contraction {
    AxisId m, n, k;
    DType dtype;      ///< of both operands
    DType accumulate; ///< F32 or F64; of integers, which wrap, I32 where the product has no more bits, or I64
    Access lhs, rhs;  ///< affine, no terms, no predicate
    /// Of floats: the sum begins at +0, and each element of k, from the first on, is one fused multiply-add,
    /// on every target. Else a target may round otherwise, always in the same way.
    bool ascending = false;
    /// Of operands that no strides describe, as windows are: digits of m (of rhs: n), then those of k. An
    /// axis with digits has no stride in the access. Such operands are gathered into panels, which only CPU
    /// code does, of operands that are multiplied as they are.
    std::vector<ContractionDigit> lhs_digits = {}, rhs_digits = {};
};

struct Phase {
    std::vector<AxisId> grid; ///< parallel axes, outermost first
    /// The last grid axis is the vector (loop kernels and reductions over outer axes). If false, loops in the
    /// body with LoopOrder::Lanes are vectorised and a grid point is scalar outside them.
    bool vector_grid = true;
    Region body;
    std::optional<Contraction> contraction;
    PhaseSchedule schedule;

    /// The CPU's schedule, to be filled: a plain one first, if there is none yet.
    CpuSchedule &on_cpu();
    /// The CPU's schedule; without one a plain one: a work item takes the whole last axis, stores are cached.
    const CpuSchedule &cpu() const;
    /// The same for CUDA devices; the plain one is a thread a grid point.
    CudaSchedule &on_cuda();
    const CudaSchedule &cuda() const;
};

struct Kernel {
    std::string name = "k"; ///< for people: not part of the cache key
    std::vector<KArg> args;
    std::vector<KScalar> scalars;
    std::vector<KBuffer> buffers;
    std::vector<KAxis> axes;
    std::vector<Instr> instrs;
    std::vector<Access> accesses;
    std::vector<Loop> loops;
    std::vector<Phase> phases;
};

/// Number of work items of a phase. On devices that run CPU code the product of the grid's extents, the last
/// (and the tile axis) counted in blocks; a contraction counts (batches) x ceil(m / BlockM) x ceil(n /
/// BlockN), the column blocks innermost. With a CudaSchedule blocks of threads: for its shape
///   Points   ceil(outer points x ceil(last / vector) / (threads x unroll))
///   Rows     ceil(grid points / (threads / row_threads))
///   Tiles    other points x ceil(tile axis / tile_m) x ceil(last / tile_n), the last innermost
///   Product  batches x ceil(m / tile_m) x ceil(n / tile_n), the columns innermost
int64_t work_items(const Kernel &kernel, const Phase &phase, std::span<const int64_t> args);

/// The kernel for launches whose addresses are not aligned (CudaSchedule::aligned): the same body and grids.
Kernel any_address(Kernel kernel);

} // namespace lz::ir
