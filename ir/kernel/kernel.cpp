#include "ir/kernel/kernel.h"

#include "ir/diagnostic.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace lz::ir {

namespace {

constexpr KOpInfo kOps[] = {
#define LZ_KOP(E, text, operands, cls) {text, operands, KOpClass::cls},
#include "ir/kernel/ops.def"
};

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

const KOpInfo &info(KOp op) {
    return kOps[static_cast<size_t>(op)];
}

std::string_view name(StrideClass c) {
    constexpr std::string_view kNames[] = {"broadcast", "contiguous", "strided"};
    return kNames[static_cast<size_t>(c)];
}
std::string_view name(InnerTier t) {
    constexpr std::string_view kNames[] = {"tiny", "any"};
    return kNames[static_cast<size_t>(t)];
}
std::string_view name(StoreTier t) {
    constexpr std::string_view kNames[] = {"cached", "streaming"};
    return kNames[static_cast<size_t>(t)];
}
std::string_view name(CudaShape s) {
    constexpr std::string_view kNames[] = {"points", "rows", "tiles", "product"};
    return kNames[static_cast<size_t>(s)];
}
std::string_view name(RowTier t) {
    constexpr std::string_view kNames[] = {"memory", "shared", "registers"};
    return kNames[static_cast<size_t>(t)];
}
std::string_view name(SegmentTier t) {
    constexpr std::string_view kNames[] = {"one", "table", "large", "memory"};
    return kNames[static_cast<size_t>(t)];
}

CpuSchedule &Phase::on_cpu() {
    if (!std::holds_alternative<CpuSchedule>(schedule))
        schedule.emplace<CpuSchedule>();
    return std::get<CpuSchedule>(schedule);
}

const CpuSchedule &Phase::cpu() const {
    static const CpuSchedule plain;
    const auto *filled = std::get_if<CpuSchedule>(&schedule);
    return filled ? *filled : plain;
}

CudaSchedule &Phase::on_cuda() {
    if (!std::holds_alternative<CudaSchedule>(schedule))
        schedule.emplace<CudaSchedule>();
    return std::get<CudaSchedule>(schedule);
}

const CudaSchedule &Phase::cuda() const {
    static const CudaSchedule plain;
    const auto *filled = std::get_if<CudaSchedule>(&schedule);
    return filled ? *filled : plain;
}

namespace {

int64_t ceil_div(int64_t n, int64_t by) {
    return n / by + (n % by != 0);
}

int64_t cuda_work_items(const Kernel &kernel, const Phase &phase, std::span<const int64_t> args) {
    const CudaSchedule &schedule = phase.cuda();
    int64_t items = 1;
    for (size_t i = 0; i < phase.grid.size(); ++i) {
        const AxisId axis = phase.grid[i];
        const int64_t extent = args[kernel.axes[axis].extent];
        const bool last = i + 1 == phase.grid.size();
        switch (schedule.shape) {
        case CudaShape::Points:
            items *= last ? ceil_div(extent, schedule.vector) : extent;
            break;
        case CudaShape::Rows:
            items *= extent;
            break;
        case CudaShape::Tiles:
            items *= last || axis == schedule.tile_axis ? ceil_div(extent, kCudaTile) : extent;
            break;
        case CudaShape::Product:
            items *= axis == phase.contraction->m   ? ceil_div(extent, schedule.tile_m)
                     : axis == phase.contraction->n ? ceil_div(extent, schedule.tile_n)
                                                    : extent;
            break;
        }
    }
    if (schedule.shape == CudaShape::Points)
        return ceil_div(items, int64_t{schedule.threads} * schedule.unroll);
    if (schedule.shape == CudaShape::Rows)
        return ceil_div(items, schedule.threads / schedule.row_threads);
    return items;
}

} // namespace

int64_t work_items(const Kernel &kernel, const Phase &phase, std::span<const int64_t> args) {
    if (std::holds_alternative<CudaSchedule>(phase.schedule))
        return cuda_work_items(kernel, phase, args);
    const auto value = [&](ArgId arg) { return args[arg]; };
    const auto blocks = [&](int64_t extent, ArgId block) {
        return block == kNoArg ? std::min<int64_t>(extent, 1) : (extent + value(block) - 1) / value(block);
    };
    const CpuSchedule &schedule = phase.cpu();
    int64_t items = 1;
    for (size_t i = 0; i < phase.grid.size(); ++i) {
        const int64_t extent = value(kernel.axes[phase.grid[i]].extent);
        const bool last = i + 1 == phase.grid.size();
        if (const auto &c = phase.contraction; c && phase.grid[i] == c->m)
            items *= blocks(extent, contraction_arg(schedule, ContractionArg::BlockM));
        else if (c && phase.grid[i] == c->n)
            items *= blocks(extent, contraction_arg(schedule, ContractionArg::BlockN));
        else if (last && (phase.vector_grid || schedule.across))
            items *= blocks(extent, schedule.block);
        else if (schedule.tile_axis >= 0 && phase.grid[i] == schedule.tile_axis)
            items *= blocks(extent, schedule.tile_block);
        else
            items *= extent;
    }
    return items;
}

// --- structure

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

uint32_t KernelBuilder::begin_loop(AxisId axis, LoopOrder order, int64_t chunk, KValue begin, KValue end) {
    const auto id = static_cast<uint32_t>(kernel_.loops.size());
    open_region().push_back({Stmt::Loop, id});
    Loop &loop = kernel_.loops.emplace_back();
    loop.axis = axis;
    loop.order = order;
    loop.chunk = chunk;
    loop.begin = begin;
    loop.end = end;
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

} // namespace lz::ir
