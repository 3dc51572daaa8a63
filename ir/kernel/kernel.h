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
/// Identities: add -0.0 (0), mul 1, max -inf (lowest), min +inf (highest). min and max let NaN through. Arg
/// reductions keep the first of equals, so their order cannot be seen.
/// A split reduction (phase 0 makes one partial a chunk, phase 1 folds them in the same order with the same
/// chunk) gives the same bits as one loop.

#include "ir/dtype.h"
#include "ir/kernel/kernel_class.h"
#include "ir/kernel/schedule.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lz::ir {

enum class Op : uint8_t; // ir/op.h

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
    StrideClass cls; ///< Contiguous or Strided
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
    Region body;
    std::vector<Reduction> reductions;
};

/// A product lhs[b.., m, k] * rhs[b.., k, n] summed over k, tile by tile; the phase's body is the epilogue of
/// one (b.., m, n) element, in which KOp::Product is the sum rounded to `dtype`. The phase's grid is (b.., m,
/// n). Each element is summed in ascending k, with fused multiply-adds in `accumulate` where the ISA has
/// them, so bits depend on k and the ISA only. (Fast math may take the ISA's dot products of bf16 pairs,
/// which flush subnormals.)
struct Contraction {
    AxisId m, n, k;
    DType dtype;      ///< of both operands
    DType accumulate; ///< F32 or F64, I64 for integers
    Access lhs, rhs;  ///< affine, no terms, no predicate
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
///   Tiles    other points x ceil(tile axis / kCudaTile) x ceil(last / kCudaTile), the last innermost
///   Product  batches x ceil(m / tile_m) x ceil(n / tile_n), the columns innermost
int64_t work_items(const Kernel &kernel, const Phase &phase, std::span<const int64_t> args);

/// Writes a Kernel. Values get their dtype from operands; constants fold nothing (that is for `simplify`).
/// Instructions are appended to the innermost open region.
class KernelBuilder {
public:
    explicit KernelBuilder(std::string name = "k") { kernel_.name = std::move(name); }

    ArgId arg(ArgRole role);
    AxisId axis(); ///< a new axis with a new Extent argument
    AxisId axis(ArgId extent);
    uint16_t buffer(DType dtype, BufferMode mode, ArgId worker_offset = kNoArg);
    uint32_t scalar(DType dtype);

    /// The reference is good until the next begin_phase.
    Phase &begin_phase(std::vector<AxisId> grid, bool vector_grid);
    void end_phase();
    uint32_t begin_loop(AxisId axis, LoopOrder order, int64_t chunk = 0, KValue begin = kNoValue,
                        KValue end = kNoValue);
    /// Adds a reduction to the open loop; read it after end_loop with loop_result.
    uint32_t reduce(ReduceOp op, KValue value, KValue index = kNoValue);
    void end_loop();
    KValue loop_result(uint32_t loop, uint32_t reduction, int part = 0);

    void set_source(uint32_t node) { source_ = node; }
    /// Checks that are made from now on count where the predicate holds; kNoValue: everywhere.
    void set_guard(KValue predicate) { guard_ = predicate; }
    DType dtype(KValue v) const { return kernel_.instrs[v].dtype; }

    KValue constant(DType dtype, double value);
    KValue constant_int(DType dtype, int64_t value);
    KValue
    scalar_value(uint32_t index); ///< in the compute dtype of the scalar's dtype: f32 for the half types
    KValue arg_value(ArgId arg);
    KValue axis_index(AxisId axis);
    KValue load(const Access &access);
    void store(const Access &access, KValue value);
    KValue product(DType dtype);
    KValue emit(KOp op, DType dtype, KValue x = kNoValue, KValue y = kNoValue, KValue z = kNoValue);

    // The vocabulary of elementwise.def and of expand_math. Operands of one call have one dtype.
    KValue add(KValue x, KValue y) { return arith(KOp::Add, x, y); }
    KValue sub(KValue x, KValue y) { return arith(KOp::Sub, x, y); }
    KValue mul(KValue x, KValue y) { return arith(KOp::Mul, x, y); }
    KValue div(KValue x, KValue y);       ///< integers: with CheckNonzero
    KValue rem(KValue x, KValue y);       ///< integers: with CheckNonzero
    KValue floor_div(KValue x, KValue y); ///< as torch.floor_divide
    KValue remainder(KValue x, KValue y); ///< as torch.remainder
    KValue fmod(KValue x, KValue y);
    KValue pow(KValue x, KValue y);
    KValue fma(KValue x, KValue y, KValue z) { return emit(KOp::Fma, dtype(x), x, y, z); }
    KValue neg(KValue x) { return arith(KOp::Neg, x); }
    KValue abs(KValue x); ///< bool and u8: x itself
    KValue sign(KValue x);
    KValue minimum(KValue x, KValue y); ///< bool: and
    KValue maximum(KValue x, KValue y); ///< bool: or
    KValue eq(KValue x, KValue y) { return emit(KOp::Eq, DType::Bool, x, y); }
    KValue ne(KValue x, KValue y) { return emit(KOp::Ne, DType::Bool, x, y); }
    KValue lt(KValue x, KValue y) { return emit(KOp::Lt, DType::Bool, x, y); }
    KValue le(KValue x, KValue y) { return emit(KOp::Le, DType::Bool, x, y); }
    KValue gt(KValue x, KValue y) { return emit(KOp::Gt, DType::Bool, x, y); }
    KValue ge(KValue x, KValue y) { return emit(KOp::Ge, DType::Bool, x, y); }
    KValue isnan(KValue x) { return ne(x, x); }
    KValue isinf(KValue x);
    KValue isfinite(KValue x);
    KValue bit_and(KValue x, KValue y) { return arith(KOp::And, x, y); }
    KValue bit_or(KValue x, KValue y) { return arith(KOp::Or, x, y); }
    KValue bit_xor(KValue x, KValue y) { return arith(KOp::Xor, x, y); }
    KValue bit_not(KValue x) { return arith(KOp::Not, x); }
    KValue shl(KValue x, KValue y) { return arith(KOp::Shl, x, y); }
    KValue shr(KValue x, KValue y) { return arith(KOp::Shr, x, y); }
    KValue lshr(KValue x, KValue y) { return arith(KOp::LShr, x, y); }
    KValue mulhiu(KValue x, KValue y) { return arith(KOp::MulHiU, x, y); }
    KValue select(KValue c, KValue x, KValue y) { return emit(KOp::Select, dtype(x), c, x, y); }
    KValue cast(KValue x, DType to); ///< x itself when it has the dtype
    KValue bitcast(KValue x, DType to) { return emit(KOp::Bitcast, to, x); }
    KValue floor(KValue x) { return arith(KOp::Floor, x); }
    KValue ceil(KValue x) { return arith(KOp::Ceil, x); }
    KValue trunc(KValue x) { return arith(KOp::Trunc, x); }
    KValue rint(KValue x) { return arith(KOp::Rint, x); }
    KValue sqrt(KValue x) { return arith(KOp::Sqrt, x); }
    KValue scalb(KValue x, KValue k) { return arith(KOp::Scalb, x, k); }
#define LZ_MATH1(E, f, ...)                                                                                  \
    KValue f(KValue x) { return arith(KOp::E, x); }
#define LZ_MATH2(E, f, ...)                                                                                  \
    KValue f(KValue x, KValue y) { return arith(KOp::E, x, y); }
#include "ir/kernel/math.def"
    KValue check_index(KValue index, KValue extent) {
        return emit(KOp::CheckIndex, DType::I64, index, extent, guard_);
    }
    KValue check_nonzero(KValue x) { return emit(KOp::CheckNonzero, dtype(x), x, kNoValue, guard_); }

    Kernel &kernel() { return kernel_; }
    const Kernel &kernel() const { return kernel_; }
    Kernel take() { return std::move(kernel_); }

private:
    KValue arith(KOp op, KValue x, KValue y = kNoValue) { return emit(op, dtype(x), x, y); }

    KValue append(const Instr &instr);
    Region &open_region();
    uint32_t add_access(const Access &access);

    Kernel kernel_;
    bool phase_open_ = false;
    std::vector<uint32_t> open_loops_; // ids, innermost last; the open phase is the last one of the kernel
    uint32_t source_ = kNoValue;
    KValue guard_ = kNoValue;
};

/// Appends the elementwise row's Kernel IR for operands that already have the compute dtype.
KValue build_elementwise(KernelBuilder &b, Op op, std::span<const KValue> operands);

/// Replaces every instruction of class Math (and Philox) by arithmetic, in place of it. f32 and f64; at most
/// 2 ULP against the correctly rounded result (Pow and Atan2 included). The one place where functions are
/// approximated.
void expand_math(Kernel &kernel);

/// Well-formedness; throws Failure(Internal) with the printed kernel.
void verify(const Kernel &kernel);

/// Whether the instruction may be computed where nobody asks for its value: true for arithmetic; false for
/// loads (the element may not be there), checks (the fault would be nobody's), and integer divisions whose
/// divisor is not known to differ from 0.
bool may_speculate(const Kernel &kernel, KValue v);
/// The first instruction that must not be computed where nobody asks for it and yet stands outside of every
/// loop that reads it: such a loop may run no time. kNoValue if there is none. `verify` rejects it.
KValue find_speculated(const Kernel &kernel);

/// Bytes that two kernels share exactly when they may share compiled code: everything but the name and
/// sources.
std::string cache_key(const Kernel &kernel);

} // namespace lz::ir
