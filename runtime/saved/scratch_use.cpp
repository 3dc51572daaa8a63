#include "runtime/saved/scratch_use.h"

#include "ir/target.h"
#include "ir/types/dtype.h"

#include <algorithm>
#include <variant>

namespace lz::runtime {
namespace {

using ir::ContractionArg;

constexpr int64_t kLine = 64;
/// No scratch is as large; products of three such numbers are exact in a double as far as they matter.
constexpr int64_t kMost = int64_t{1} << 40;

int64_t ceil_div(int64_t x, int64_t y) {
    return (x + y - 1) / y;
}

/// As passes/schedule/contraction_tile.cpp lays it out, behind each other: packed lhs, packed rhs, sums, and
/// where elements stand.
bool fits(const ir::Contraction &c, const ir::CpuSchedule &cpu, const ir::Kernel &kernel,
          std::span<const int64_t> args, int64_t room) {
    const auto arg = [&](ContractionArg which) { return args[ir::contraction_arg(cpu, which)]; };
    const auto extent = [&](ir::AxisId axis) { return args[kernel.axes[axis].extent]; };
    for (int i = 0; i < ir::kContractionArgs; ++i)
        if (const int64_t value = arg(static_cast<ContractionArg>(i)); value < 0 || value > kMost)
            return false;
    const int64_t mr = cpu.mr, nr = cpu.nr, k = extent(c.k);
    const int64_t block_m = arg(ContractionArg::BlockM), block_n = arg(ContractionArg::BlockN);
    const int64_t inner = arg(ContractionArg::InnerM), block_k = arg(ContractionArg::BlockK);
    const int64_t pass_k = arg(ContractionArg::PassK);
    const bool amx = mr == 2 * ir::kAmxRows && nr == 2 * ir::kAmxColumns;
    if (mr < 1 || nr < 1 || block_m < 1 || block_n < 1 || inner < 1 || block_k < 1 || pass_k < block_k)
        return false;
    const auto cuts = [](int64_t extent, int64_t block, int64_t step) {
        return block >= extent || block % step == 0;
    };
    if (!cuts(extent(c.m), block_m, amx ? ir::kAmxRows : 2) || !cuts(extent(c.n), block_n, nr) ||
        inner % mr != 0 || block_k % 32 != 0 || pass_k % block_k != 0 || arg(ContractionArg::PackLhs) > 1 ||
        arg(ContractionArg::PackRhs) > 1)
        return false;
    const int64_t bytes = ir::size_of(amx ? c.dtype : c.accumulate), sum_bytes = ir::size_of(c.accumulate);
    const int64_t rows = ceil_div(inner, mr), columns = ceil_div(block_n, nr);
    const auto product = [](auto... x) { return (static_cast<double>(x) * ...); };
    const double tiles = k > pass_k    ? product(ceil_div(block_m, inner), rows, columns)
                         : k > block_k ? product(rows, columns)
                                       : 1;
    const int64_t places = c.lhs_digits.empty() && c.rhs_digits.empty() ? 0 : 2 * block_k + std::max(mr, nr);
    const struct {
        int64_t begin, end;
        double bytes;
    } parts[] = {
        {0, arg(ContractionArg::RhsOffset), product(rows, mr, block_k, bytes) + kLine},
        {arg(ContractionArg::RhsOffset), arg(ContractionArg::SumsOffset),
         product(columns, nr, pass_k, bytes) + kLine},
        {arg(ContractionArg::SumsOffset), arg(ContractionArg::PlacesOffset),
         tiles * product(mr, nr, sum_bytes)},
        {arg(ContractionArg::PlacesOffset), room, product(places, sizeof(int64_t))},
    };
    return std::ranges::all_of(parts, [](const auto &part) {
        return part.begin % kLine == 0 && part.bytes <= static_cast<double>(part.end - part.begin);
    });
}

/// As passes/schedule/whole_rows.cpp does.
bool fits(const ir::Phase &phase, const ir::CpuSchedule &cpu, const ir::Kernel &kernel,
          std::span<const int64_t> args, int64_t room) {
    const auto loop = std::ranges::find(phase.body, ir::Stmt::Loop, &ir::Stmt::kind); // the only one
    const int64_t block = args[cpu.block];
    if (loop == phase.body.end() || block < 1 || block > kMost)
        return false;
    int64_t lanes = 0; // bytes of a column
    for (const ir::Reduction &reduction : kernel.loops[loop->id].reductions)
        lanes += ir::lanes_of(kernel.loops[loop->id], reduction) * ir::size_of(reduction.dtype);
    return static_cast<double>(lanes * cpu.whole_rows) * static_cast<double>(block) <=
           static_cast<double>(room);
}

} // namespace

bool fits_scratch(const ir::Kernel &kernel, const ir::Phase &phase, std::span<const int64_t> args,
                  int64_t worker_bytes) {
    const auto *const cpu = std::get_if<ir::CpuSchedule>(&phase.schedule);
    if (!cpu || (!phase.contraction && cpu->whole_rows == 0))
        return true;
    const ir::ArgId place = kernel.buffers[cpu->scratch].worker_offset;
    const int64_t begin = place == ir::kNoArg ? 0 : args[place];
    if (begin < 0 || begin % kLine != 0 || begin > worker_bytes)
        return false;
    return phase.contraction ? fits(*phase.contraction, *cpu, kernel, args, worker_bytes - begin)
                             : fits(phase, *cpu, kernel, args, worker_bytes - begin);
}

} // namespace lz::runtime
