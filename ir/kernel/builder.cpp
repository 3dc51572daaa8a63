#include "ir/kernel/builder.h"

#include "ir/diagnostic.h"
#include "ir/op.h"

#include <bit>
#include <limits>

namespace lz::ir {

namespace {

uint64_t float_bits(DType dtype, double value) {
    switch (dtype) {
    case DType::F64:
        return std::bit_cast<uint64_t>(value);
    case DType::F32:
        return std::bit_cast<uint32_t>(static_cast<float>(value));
    case DType::F16:
        return float_to_half(static_cast<float>(value));
    case DType::BF16:
        return float_to_bfloat(static_cast<float>(value));
    default:
        internal_failure(__FILE__, __LINE__, "a floating-point constant has an integer dtype");
    }
}

/// The low bytes of the value, zero extended.
uint64_t int_bits(DType dtype, int64_t value) {
    if (dtype == DType::Bool)
        return value != 0;
    const int bits = 8 * size_of(dtype);
    const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
    return static_cast<uint64_t>(value) & mask;
}

} // namespace

ArgId KernelBuilder::arg(ArgRole role) {
    LZ_CHECK(kernel_.args.size() < kNoArg, "a kernel has too many arguments");
    kernel_.args.push_back({role});
    return static_cast<ArgId>(kernel_.args.size() - 1);
}

AxisId KernelBuilder::axis() {
    return axis(arg(ArgRole::Extent));
}

AxisId KernelBuilder::axis(ArgId extent) {
    LZ_CHECK(kernel_.axes.size() < std::numeric_limits<AxisId>::max(), "a kernel has too many axes");
    kernel_.axes.push_back({extent});
    return static_cast<AxisId>(kernel_.axes.size() - 1);
}

uint16_t KernelBuilder::buffer(DType dtype, BufferMode mode, ArgId worker_offset) {
    LZ_CHECK(kernel_.buffers.size() < std::numeric_limits<uint16_t>::max(), "a kernel has too many buffers");
    kernel_.buffers.push_back({dtype, mode, worker_offset});
    return static_cast<uint16_t>(kernel_.buffers.size() - 1);
}

uint32_t KernelBuilder::scalar(DType dtype) {
    kernel_.scalars.push_back({dtype});
    return static_cast<uint32_t>(kernel_.scalars.size() - 1);
}

Phase &KernelBuilder::begin_phase(std::vector<AxisId> grid, bool vector_grid) {
    LZ_CHECK(!phase_open_, "a phase begins inside another");
    phase_open_ = true;
    Phase &phase = kernel_.phases.emplace_back();
    phase.grid = std::move(grid);
    phase.vector_grid = vector_grid;
    return phase;
}

void KernelBuilder::end_phase() {
    LZ_CHECK(phase_open_ && open_loops_.empty(), "a phase ends that is not open, or with a loop open");
    phase_open_ = false;
}

Region &KernelBuilder::open_region() {
    LZ_CHECK(phase_open_, "an instruction stands outside all phases");
    return open_loops_.empty() ? kernel_.phases.back().body : kernel_.loops[open_loops_.back()].body;
}

uint32_t KernelBuilder::begin_loop(AxisId axis, LoopOrder order, int64_t chunk, KValue begin, KValue end,
                                   int64_t step) {
    const auto id = static_cast<uint32_t>(kernel_.loops.size());
    open_region().push_back({Stmt::Loop, id});
    Loop &loop = kernel_.loops.emplace_back();
    loop.axis = axis;
    loop.order = order;
    loop.chunk = chunk;
    loop.begin = begin;
    loop.end = end;
    loop.step = step;
    open_loops_.push_back(id);
    return id;
}

uint32_t KernelBuilder::reduce(ReduceOp op, KValue value, KValue index) {
    LZ_CHECK(!open_loops_.empty(), "a reduction stands outside all loops");
    auto &reductions = kernel_.loops[open_loops_.back()].reductions;
    reductions.push_back({op, dtype(value), value, index});
    return static_cast<uint32_t>(reductions.size() - 1);
}

void KernelBuilder::end_loop() {
    LZ_CHECK(!open_loops_.empty(), "a loop ends that is not open");
    open_loops_.pop_back();
}

// --- instructions

KValue KernelBuilder::append(const Instr &instr) {
    Region &region = open_region();
    const auto id = static_cast<KValue>(kernel_.instrs.size());
    kernel_.instrs.push_back(instr);
    kernel_.instrs.back().source = source_;
    region.push_back({Stmt::Instruction, id});
    return id;
}

KValue KernelBuilder::emit(KOp op, DType dtype, KValue x, KValue y, KValue z) {
    return append({.op = op, .dtype = dtype, .operands = {x, y, z}});
}

KValue KernelBuilder::loop_result(uint32_t loop, uint32_t reduction, int part) {
    const DType dtype = part == 1 ? DType::I64 : kernel_.loops[loop].reductions[reduction].dtype;
    return append({.op = KOp::LoopResult,
                   .dtype = dtype,
                   .bits = uint64_t{reduction} * 2 + static_cast<uint64_t>(part),
                   .index = loop});
}

KValue KernelBuilder::constant(DType dtype, double value) {
    if (is_float(dtype))
        return append({.op = KOp::Const, .dtype = dtype, .bits = float_bits(dtype, value)});
    return constant_int(dtype, static_cast<int64_t>(value));
}

KValue KernelBuilder::constant_int(DType dtype, int64_t value) {
    if (is_float(dtype))
        return constant(dtype, static_cast<double>(value));
    return append({.op = KOp::Const, .dtype = dtype, .bits = int_bits(dtype, value)});
}

KValue KernelBuilder::scalar_value(uint32_t index) {
    return append({.op = KOp::Scalar, .dtype = info(kernel_.scalars[index].dtype).compute, .index = index});
}

KValue KernelBuilder::arg_value(ArgId arg) {
    return append({.op = KOp::Arg, .dtype = DType::I64, .index = arg});
}

KValue KernelBuilder::axis_index(AxisId axis) {
    return append({.op = KOp::Axis, .dtype = DType::I64, .index = axis});
}

uint32_t KernelBuilder::add_access(const Access &access) {
    kernel_.accesses.push_back(access);
    return static_cast<uint32_t>(kernel_.accesses.size() - 1);
}

KValue KernelBuilder::load(const Access &access) {
    return append(
        {.op = KOp::Load, .dtype = kernel_.buffers[access.buffer].dtype, .access = add_access(access)});
}

void KernelBuilder::store(const Access &access, KValue value) {
    append({.op = KOp::Store,
            .dtype = dtype(value),
            .operands = {value, kNoValue, kNoValue},
            .access = add_access(access)});
}

KValue KernelBuilder::product(DType dtype) {
    return append({.op = KOp::Product, .dtype = dtype});
}

// --- what the elementwise rows are made of

namespace {

/// (r != 0) and the signs of r and y differ: where a truncated quotient is one more than the floored one.
KValue rounds_toward_zero(KernelBuilder &b, KValue r, KValue y) {
    const DType dtype = b.dtype(y);
    const KValue zero = b.constant(dtype, 0);
    const KValue differ = b.bit_xor(b.lt(r, zero), b.lt(y, zero));
    return b.bit_and(b.ne(r, zero), differ);
}

/// x's magnitude with the sign of y.
KValue copy_sign(KernelBuilder &b, KValue x, KValue y) {
    const DType dtype = b.dtype(x);
    const DType bits = dtype == DType::F64 ? DType::I64 : DType::I32;
    const KValue sign = b.constant_int(bits, dtype == DType::F64 ? std::numeric_limits<int64_t>::min()
                                                                 : std::numeric_limits<int32_t>::min());
    const KValue magnitude = b.bitcast(b.abs(x), bits);
    return b.bitcast(b.bit_or(magnitude, b.bit_and(b.bitcast(y, bits), sign)), dtype);
}

} // namespace

KValue KernelBuilder::div(KValue x, KValue y) {
    return arith(KOp::Div, x, is_float(dtype(y)) ? y : check_nonzero(y));
}

KValue KernelBuilder::rem(KValue x, KValue y) {
    return arith(KOp::Rem, x, check_nonzero(y));
}

KValue KernelBuilder::fmod(KValue x, KValue y) {
    return is_float(dtype(x)) ? arith(KOp::Fmod, x, y) : rem(x, y);
}

KValue KernelBuilder::remainder(KValue x, KValue y) {
    if (is_float(dtype(x))) {
        const KValue r = arith(KOp::Fmod, x, y);
        return select(rounds_toward_zero(*this, r, y), add(r, y), r);
    }
    const KValue divisor = check_nonzero(y);
    const KValue r = arith(KOp::Rem, x, divisor);
    if (!is_signed(dtype(x)))
        return r;
    return select(rounds_toward_zero(*this, r, divisor), add(r, divisor), r);
}

KValue KernelBuilder::floor_div(KValue x, KValue y) {
    const DType type = dtype(x);
    if (is_float(type)) {
        // As c10::div_floor_floating: from the exact remainder, so that no rounding of x / y can cross an
        // integer.
        const KValue r = arith(KOp::Fmod, x, y);
        const KValue zero = constant(type, 0);
        const KValue one = constant(type, 1);
        const KValue exact = arith(KOp::Div, sub(x, r), y);
        const KValue quotient = select(rounds_toward_zero(*this, r, y), sub(exact, one), exact);
        const KValue down = floor(quotient);
        const KValue nearest = select(gt(sub(quotient, down), constant(type, 0.5)), add(down, one), down);
        const KValue ratio = arith(KOp::Div, x, y);
        const KValue result = select(ne(quotient, zero), nearest, copy_sign(*this, zero, ratio));
        return select(eq(y, zero), ratio, result);
    }
    const KValue divisor = check_nonzero(y);
    const KValue quotient = arith(KOp::Div, x, divisor);
    if (!is_signed(type))
        return quotient;
    const KValue r = arith(KOp::Rem, x, divisor);
    return select(rounds_toward_zero(*this, r, divisor), sub(quotient, constant_int(type, 1)), quotient);
}

KValue KernelBuilder::pow(KValue x, KValue y) {
    return arith(is_float(dtype(x)) ? KOp::Pow : KOp::IntPow, x, y);
}

KValue KernelBuilder::abs(KValue x) {
    return is_signed(dtype(x)) ? arith(KOp::Abs, x) : x;
}

// As torch.sign: 0 for NaN and for both zeros.
KValue KernelBuilder::sign(KValue x) {
    const DType type = dtype(x);
    const KValue zero = constant(type, 0);
    const KValue positive = select(gt(x, zero), constant(type, 1), zero);
    return is_signed(type) ? select(lt(x, zero), constant(type, -1), positive) : positive;
}

KValue KernelBuilder::minimum(KValue x, KValue y) {
    return arith(dtype(x) == DType::Bool ? KOp::And : KOp::Minimum, x, y);
}

KValue KernelBuilder::maximum(KValue x, KValue y) {
    return arith(dtype(x) == DType::Bool ? KOp::Or : KOp::Maximum, x, y);
}

KValue KernelBuilder::isinf(KValue x) {
    return eq(abs(x), constant(dtype(x), std::numeric_limits<double>::infinity()));
}

KValue KernelBuilder::isfinite(KValue x) {
    return lt(abs(x), constant(dtype(x), std::numeric_limits<double>::infinity()));
}

KValue KernelBuilder::cast(KValue x, DType to) {
    return dtype(x) == to ? x : emit(KOp::Cast, to, x);
}

KValue build_elementwise(KernelBuilder &b, Op op, std::span<const KValue> operands, DType result) {
    const auto operand = [&](size_t i) { return i < operands.size() ? operands[i] : kNoValue; };
    [[maybe_unused]] const KValue x = operand(0), y = operand(1), z = operand(2);
#define LZ_MATH_HALF(E, f, function, half)                                                                   \
    if (op == Op::function && result == DType::half)                                                         \
        return b.emit(KOp::E, DType::F32, x);
#include "ir/math/halves.def"
    switch (op) {
#define LZ_ELEMENTWISE(E, text, arity, rule, cost, kernel, fref, iref)                                       \
    case Op::E:                                                                                              \
        return kernel;
#include "ir/elementwise.def"
    default:
        internal_failure(__FILE__, __LINE__,
                         "build_elementwise was asked for an op that is not an elementwise row");
    }
}

} // namespace lz::ir
