#include "passes/schedule/contraction_tile.h"

#include <algorithm>

namespace lz::passes {

using ir::ContractionArg;

namespace {

// Fitted on AVX-512 with 1 MiB of second-level cache a core; half of it costs little.
constexpr int64_t kInnerBytes = 512 << 10; ///< packed lhs that stays in the second-level cache
constexpr int64_t kBlockK = 512;           ///< sums are read and written once for so many steps
constexpr int64_t kItemRows = 2048, kItemColumns = 2048;
constexpr int64_t kShortK = 128; ///< up to which the result is written row by row, not panel by panel
constexpr int64_t kLargeResult =
    1 << 20; ///< bytes; smaller ones stay in the cache, where their order is free
constexpr int64_t kPlainRhsBytes = 256 << 10; ///< up to which an operand is as well read where it is
constexpr int64_t kPlainLhsBytes = 1 << 20;
constexpr int64_t kSerialWork = 96 * 96 * 96; ///< multiply-adds that are not worth a second thread

constexpr int64_t ceil_div(int64_t x, int64_t y) {
    return (x + y - 1) / y;
}
constexpr int64_t round_up(int64_t x, int64_t y) {
    return ceil_div(x, y) * y;
}

/// Cuts items until there is one for each thread, and an even number of them each where that takes few more.
void split(const ContractionSizes &sizes, int64_t mr, int64_t nr, int threads, int64_t &block_m,
           int64_t &block_n) {
    const auto items = [&] {
        return sizes.batches * ceil_div(sizes.m, block_m) * ceil_div(sizes.n, block_n);
    };
    while (items() < threads || (items() < 4 * threads && items() % threads != 0)) {
        // Halves of the longer side: the shorter panels are packed by both.
        if (block_m > mr && (block_m >= block_n || block_n <= nr))
            block_m = round_up(ceil_div(block_m, 2), 2);
        else if (block_n > nr)
            block_n = round_up(ceil_div(block_n, 2), nr);
        else
            break;
    }
}

} // namespace

bool contraction_reads_in_place(ir::DType dtype) {
    return ir::info(dtype).accumulate == dtype;
}

ContractionTile contraction_tile(ir::DType dtype, const ir::CpuIsa &isa) {
    const int lanes = std::max(1, isa.vector_bytes / ir::size_of(ir::info(dtype).accumulate));
    // Two registers of columns, one for an element of lhs, one spare, the rest for sums: 14 rows of 32
    // registers, 6 of 16.
    const int rows = (isa.vector_registers - 4) / 2;
    return {.mr = std::max(2, rows), .nr = 2 * lanes};
}

ContractionBlocks contraction_blocks(const ContractionSizes &sizes, const ir::CpuIsa &isa, int threads) {
    const auto [mr, nr] = contraction_tile(sizes.dtype, isa);
    const int64_t m = std::max<int64_t>(1, sizes.m), n = std::max<int64_t>(1, sizes.n);
    const int64_t k = std::max<int64_t>(1, sizes.k);
    const int64_t bytes = ir::size_of(ir::info(sizes.dtype).accumulate);

    const int64_t passes = ceil_div(k, kBlockK);
    const int64_t block_k = round_up(ceil_div(k, passes), 32);
    int64_t block_m = std::min(kItemRows, m), block_n = std::min(kItemColumns, round_up(n, nr));
    if (sizes.batches * m * n * k > kSerialWork)
        split(sizes, mr, nr, threads, block_m, block_n);
    // A large result that is finished at once is written in rows: panels of rhs stay in the second-level
    // cache instead.
    const bool by_rows = k <= kShortK && m * n * bytes >= kLargeResult;
    const int64_t inner_m = by_rows ? mr : std::max<int64_t>(mr, kInnerBytes / (block_k * bytes) / mr * mr);
    const int64_t inner = std::min(inner_m, round_up(block_m, mr));
    const bool in_place = contraction_reads_in_place(sizes.dtype);
    // A panel of rhs is used once for each tile of rows, a panel of lhs once for each panel of columns.
    const bool plain_rhs = in_place && sizes.rhs_n == 1 && (k * n * bytes <= kPlainRhsBytes || m <= 3 * mr);
    const bool plain_lhs = in_place && (m * k * bytes <= kPlainLhsBytes || n <= 3 * nr);

    ContractionBlocks blocks;
    const auto set = [&](ContractionArg which, int64_t value) {
        blocks.args[static_cast<size_t>(which)] = value;
    };
    const int64_t lhs_bytes = round_up(ceil_div(inner, mr) * mr * block_k * bytes + 64, 64);
    const int64_t rhs_bytes = round_up(ceil_div(block_n, nr) * nr * block_k * bytes + 64, 64);
    const int64_t tiles =
        k > block_k ? ceil_div(block_m, inner) * ceil_div(inner, mr) * ceil_div(block_n, nr) : 1;
    set(ContractionArg::BlockM, block_m);
    set(ContractionArg::BlockN, block_n);
    set(ContractionArg::InnerM, inner);
    set(ContractionArg::BlockK, block_k);
    set(ContractionArg::PackLhs, !plain_lhs);
    set(ContractionArg::PackRhs, !plain_rhs);
    set(ContractionArg::RhsOffset, lhs_bytes);
    set(ContractionArg::SumsOffset, lhs_bytes + rhs_bytes);
    blocks.items = sizes.batches * ceil_div(sizes.m, block_m) * ceil_div(sizes.n, block_n);
    blocks.scratch_bytes = lhs_bytes + rhs_bytes + tiles * mr * nr * bytes;
    return blocks;
}

void declare_contraction(ir::Kernel &kernel, size_t phase, const ir::CpuIsa &isa) {
    ir::Phase &p = kernel.phases[phase];
    ir::CpuSchedule &schedule = p.on_cpu();
    const auto [mr, nr] = contraction_tile(p.contraction->dtype, isa);
    schedule.mr = mr;
    schedule.nr = nr;
    schedule.blocks = static_cast<ir::ArgId>(kernel.args.size());
    kernel.args.insert(kernel.args.end(), ir::kContractionArgs, {ir::ArgRole::Block});
    schedule.scratch = static_cast<uint16_t>(kernel.buffers.size());
    kernel.buffers.push_back({ir::DType::U8, ir::BufferMode::Worker});
}

} // namespace lz::passes
