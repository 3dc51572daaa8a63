#pragma once
/// How a Kernel is written.

#include "ir/kernel/kernel.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lz::ir {

enum class Op : uint8_t; // ir/op.h

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
                        KValue end = kNoValue, int64_t step = 1);
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
    KValue rarely(KValue c, KValue x, KValue y) { return emit(KOp::Rarely, dtype(x), c, x, y); }
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
#include "ir/math/math.def"
    KValue check_index(KValue index, KValue extent) {
        return emit(KOp::CheckIndex, DType::I64, index, extent, guard_);
    }
    KValue check_nonzero(KValue x) { return emit(KOp::CheckNonzero, dtype(x), x, kNoValue, guard_); }

    Kernel &kernel() { return kernel_; }
    const Kernel &kernel() const { return kernel_; }
    /// Where the next instruction goes.
    Region &open_region();
    Kernel take() { return std::move(kernel_); }

private:
    KValue arith(KOp op, KValue x, KValue y = kNoValue) { return emit(op, dtype(x), x, y); }

    KValue append(const Instr &instr);
    uint32_t add_access(const Access &access);

    Kernel kernel_;
    bool phase_open_ = false;
    std::vector<uint32_t> open_loops_; // ids, innermost last; the open phase is the last one of the kernel
    uint32_t source_ = kNoValue;
    KValue guard_ = kNoValue;
};

/// Appends the elementwise row's Kernel IR for operands that already have the compute dtype. `result` is the
/// dtype that the value is rounded to at once: functions of a half type take fewer digits (halves.def).
KValue build_elementwise(KernelBuilder &b, Op op, std::span<const KValue> operands, DType result);

} // namespace lz::ir
