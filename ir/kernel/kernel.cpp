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

} // namespace

const KOpInfo &info(KOp op) {
    return kOps[static_cast<size_t>(op)];
}

std::string_view name(StrideClass c) {
    constexpr std::string_view kNames[] = {"broadcast", "contiguous", "reversed", "strided"};
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
            items *= last || axis == schedule.tile_axis ? ceil_div(extent, schedule.tile_m) : extent;
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
        else if (schedule.whole_rows != 0 && i + 3 == phase.grid.size())
            items *= (extent + schedule.whole_rows - 1) / schedule.whole_rows;
        else if (last && (phase.vector_grid || schedule.across))
            items *= blocks(extent, schedule.block);
        else if (schedule.tile_axis >= 0 && phase.grid[i] == schedule.tile_axis)
            items *= blocks(extent, schedule.tile_block);
        else
            items *= extent;
    }
    return items;
}

Kernel any_address(Kernel kernel) {
    for (Phase &phase : kernel.phases)
        phase.on_cuda().aligned = false;
    return kernel;
}

} // namespace lz::ir
