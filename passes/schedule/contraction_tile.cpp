#include "passes/schedule/contraction_tile.h"

#include "passes/found_again.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace lz::passes {

using ir::ContractionArg;

namespace {

// Fitted on a Xeon of the Sapphire Rapids kind (2 MiB of second-level cache a core; `bench_products`, f32):
// packed lhs, a panel of rhs and the sums of an item together are a good half of 1 MiB, too. With 512 KiB of
// second-level cache (Zen 3; f32 of 256 to 1024 on one thread) half as much packed lhs is 5 % faster; rows of
// rhs that share sets of the caches cost a quarter of a product of 256 and of 16 x 768 x 3072 where they are
// read in place.
constexpr int64_t kInnerBytes = 256 << 10; ///< packed lhs that stays in the second-level cache
/// Sums are read and written once for so many steps, and small tiles, which those of 16 registers are, for
/// rows of so many bytes: a product of 1024 of f32 takes 0.95 of the time of 512 steps so, 256 steps 1.1
/// (Zen 3).
constexpr int64_t kBlockK = 512, kBlockBytesOfSmall = 4096;
constexpr int64_t kSmallTile = 8; ///< rows
constexpr int64_t kItemRows = 4096, kItemColumns = 512;
constexpr int64_t kShortK = 128; ///< up to which the result is written row by row, not panel by panel
constexpr int64_t kLargeResult =
    1 << 20; ///< bytes; smaller ones stay in the cache, where their order is free
constexpr int64_t kPlainRhsBytes = 256 << 10; ///< up to which an operand is as well read where it is
constexpr int64_t kPlainLhsBytes = 1 << 20;
constexpr int64_t kPlaceBytes = 8; ///< of where an element of an operand with digits stands
constexpr int64_t kLine = 64;
/// What one way of a first-level cache holds, on all x86-64 processors since 2008; and at least one of a
/// second-level cache.
constexpr int64_t kWayBytes = 4096, kSetsBytes = 64 << 10;
constexpr int64_t kSerialWork = 56 * 56 * 56; ///< multiply-adds that are not worth a second thread
// Of tile registers, on a Xeon of the Granite Rapids kind (`bench_matmul`, bf16 and i8): they multiply faster
// than the third-level cache gives, 17 GB/s a core. So half of the second-level one holds panels of rhs, of
// all of k where it can, and a few rows of lhs at a time meet all of them, whose sums stay there, too. Of
// these a block of k stays in the first-level cache: in a model of it with intrinsics bf16 of 1024 x 768 x
// 3072 took 1.1 times as long without blocks (1.3 times where all numbers were zero: the cores are faster
// then), and of 2048 1.3 times with three quarters of the cache for rhs. Items of 512 x 256, whose sums met
// one block of k after the other, took 1.4 times as long for bf16 of 2048.
constexpr int64_t kAmxBlockBytes = 1024, kAmxPassBytes = 4096; ///< of a row or column
constexpr int64_t kAmxItemRows = 4096;
constexpr int64_t kAmxSerialWork = 192 * 192 * 192;

constexpr int64_t ceil_div(int64_t x, int64_t y) {
    return (x + y - 1) / y;
}
constexpr int64_t round_up(int64_t x, int64_t y) {
    return ceil_div(x, y) * y;
}

/// Elements of a block where an axis is cut into so many of even length.
int64_t block_of(int64_t extent, int64_t parts, int64_t step) {
    return std::min(round_up(ceil_div(extent, parts), step), round_up(extent, step));
}

/// Lines, one a row, that the second-level cache holds of rows so many bytes apart: those whose distance has
/// many factors of two share few of its sets.
int64_t lines_of(int64_t row_bytes, const ir::CpuLimits &cpu) {
    return cpu.l2_bytes / std::max(kLine, std::gcd(row_bytes, kSetsBytes));
}

struct Items {
    int64_t block_m, block_n;
};

/// Even items that are not too large; where `many` for each thread, cut until there is one for
/// each, and an even number of them each where that takes few more. `columns_first`: rows of lhs are read
/// where they are, so that only columns' panels would be packed twice.
Items cut_items(const ContractionSizes &sizes, const ContractionTile &tile, int64_t most_columns, int threads,
                bool many, bool columns_first) {
    const auto [mr, nr, amx] = tile;
    const int64_t row_step = amx ? ir::kAmxRows : 2;
    const int64_t m = std::max<int64_t>(1, sizes.m), n = std::max<int64_t>(1, sizes.n);
    int64_t parts_m = ceil_div(m, amx ? kAmxItemRows : kItemRows), parts_n = ceil_div(n, most_columns);
    const auto blocks = [&] {
        return Items{std::min(m, block_of(m, parts_m, row_step)), block_of(n, parts_n, nr)};
    };
    while (many) {
        const auto [block_m, block_n] = blocks();
        const int64_t items = sizes.batches * ceil_div(m, block_m) * ceil_div(n, block_n);
        if (items >= threads && (items >= 4 * threads || items % threads == 0))
            break;
        // Parts of the longer side: the shorter panels are packed by all of them.
        const bool rows = columns_first ? block_n <= nr : block_m >= block_n || block_n <= nr;
        if (block_m > mr && rows)
            parts_m = items < threads ? 2 * parts_m : parts_m + 1;
        else if (block_n > nr)
            parts_n = items < threads ? 2 * parts_n : parts_n + 1;
        else
            break;
    }
    return blocks();
}

} // namespace

bool contraction_reads_in_place(ir::DType dtype, ir::DType accumulate) {
    return accumulate == dtype;
}

ContractionTile contraction_tile(ir::DType dtype, ir::DType accumulate, const ir::CpuIsa &isa,
                                 bool ascending) {
    if (isa.multiplies_tiles(dtype, accumulate, ascending))
        return {.mr = 2 * ir::kAmxRows, .nr = 2 * ir::kAmxColumns, .amx = true};
    const int lanes = std::max(1, isa.vector_bytes / ir::size_of(accumulate));
    // Two registers of columns, one for an element of lhs, one spare, the rest for sums: 14 rows of 32
    // registers, 6 of 16.
    const int rows = (isa.vector_registers - 4) / 2;
    return {.mr = std::max(2, rows), .nr = 2 * lanes};
}

namespace {

ContractionBlocks find_blocks(const ContractionSizes &sizes, const ir::CpuLimits &cpu) {
    const int threads = cpu.threads;
    const ContractionTile tile = contraction_tile(sizes.dtype, sizes.accumulate, cpu.isa, sizes.ascending);
    const auto [mr, nr, amx] = tile;
    const int64_t m = std::max<int64_t>(1, sizes.m), n = std::max<int64_t>(1, sizes.n);
    const int64_t k = std::max<int64_t>(1, sizes.k);
    const int64_t sum_bytes = ir::size_of(sizes.accumulate);
    const int64_t bytes = amx ? ir::size_of(sizes.dtype) : sum_bytes; // of an element of a panel

    const int64_t depth = ir::amx_depth(sizes.dtype); // of an instruction
    const int64_t passes = ceil_div(k, amx               ? kAmxPassBytes / bytes
                                       : mr < kSmallTile ? kBlockBytesOfSmall / bytes
                                                         : kBlockK);
    const int64_t pass_blocks = amx ? ceil_div(ceil_div(k, passes), kAmxBlockBytes / bytes) : 1;
    const int64_t block_k = round_up(ceil_div(k, passes * pass_blocks), amx ? depth : 32);
    const int64_t pass_k = pass_blocks * block_k;
    // Tiles are loaded from rows as they lie, if all of them are whole.
    const bool in_place = contraction_reads_in_place(sizes.dtype, sizes.accumulate);
    const bool amx_lhs = amx && sizes.lhs_k == 1 && k % depth == 0;
    // A panel of rhs is used once for each tile of rows, a panel of lhs once for each panel of columns.
    const int64_t rhs_row = sizes.rhs_k * bytes;
    const bool rhs_stays = k * n * bytes <= kPlainRhsBytes ? std::gcd(rhs_row, kWayBytes) <= kWayBytes / 16
                                                           : m <= 3 * mr && lines_of(rhs_row, cpu) >= block_k;
    const bool plain_rhs = in_place && !sizes.rhs_digits && sizes.rhs_n == 1 && (m <= mr || rhs_stays);
    const bool plain_lhs =
        amx_lhs || (in_place && !sizes.lhs_digits && (m * k * bytes <= kPlainLhsBytes || n <= 3 * nr));
    const bool many = sizes.batches * m * n * k > (amx ? kAmxSerialWork : kSerialWork);
    const bool columns_first = plain_lhs && !plain_rhs && n >= (amx ? 4 : 2) * nr * threads;
    const int64_t most_columns =
        amx ? std::max<int64_t>(nr, cpu.l2_bytes / 2 / (pass_k * bytes) / nr * nr) : kItemColumns;
    const auto [block_m, block_n] = cut_items(sizes, tile, most_columns, threads, many, columns_first);
    const int64_t inner_bytes = std::min(kInnerBytes, cpu.l2_bytes / 4);
    const int64_t inner_rows = inner_bytes / (pass_k * bytes) / mr * mr;
    // A large result that is finished at once is written in rows: panels of rhs stay in the second-level
    // cache instead. So they do with tile registers, but for rows so few that they stay there, which meet
    // each panel as soon as it is packed.
    const bool by_rows = amx ? block_m > inner_rows : k <= kShortK && m * n * sum_bytes >= kLargeResult;
    const int64_t inner_m = by_rows ? mr : std::max<int64_t>(mr, inner_rows);
    const int64_t inner = std::min(inner_m, round_up(block_m, mr));

    ContractionBlocks blocks;
    const auto set = [&](ContractionArg which, int64_t value) {
        blocks.args[static_cast<size_t>(which)] = value;
    };
    const int64_t lhs_bytes = round_up(ceil_div(inner, mr) * mr * block_k * bytes + 64, 64);
    const int64_t rhs_bytes = round_up(ceil_div(block_n, nr) * nr * pass_k * bytes + 64, 64);
    const int64_t tiles_of_rows = ceil_div(inner, mr) * ceil_div(block_n, nr);
    const int64_t tiles = k > pass_k    ? ceil_div(block_m, inner) * tiles_of_rows
                          : k > block_k ? tiles_of_rows
                                        : 1;
    set(ContractionArg::BlockM, block_m);
    set(ContractionArg::BlockN, block_n);
    set(ContractionArg::InnerM, inner);
    set(ContractionArg::BlockK, block_k);
    set(ContractionArg::PassK, pass_k);
    set(ContractionArg::PackLhs, !plain_lhs);
    set(ContractionArg::PackRhs, !plain_rhs);
    set(ContractionArg::RhsOffset, lhs_bytes);
    set(ContractionArg::SumsOffset, lhs_bytes + rhs_bytes);
    const int64_t places = lhs_bytes + rhs_bytes + round_up(tiles * mr * nr * sum_bytes, 64);
    set(ContractionArg::PlacesOffset, places);
    blocks.items = sizes.batches * ceil_div(sizes.m, block_m) * ceil_div(sizes.n, block_n);
    const int64_t place_count = sizes.lhs_digits || sizes.rhs_digits ? 2 * block_k + std::max(mr, nr) : 0;
    blocks.scratch_bytes = places + place_count * kPlaceBytes;
    return blocks;
}

} // namespace

ContractionBlocks contraction_blocks(const ContractionSizes &sizes, const ir::CpuLimits &cpu) {
    if (!kManySizes)
        return find_blocks(sizes, cpu);
    const std::vector<int64_t> numbers = {sizes.batches, sizes.m,     sizes.n,     sizes.k,
                                          sizes.lhs_m,   sizes.lhs_k, sizes.rhs_k, sizes.rhs_n};
    const std::vector<int64_t> found = found_again(numbers, [sizes, cpu](const auto &given) {
        ContractionSizes now = sizes;
        size_t at = 0;
        for (int64_t *const size :
             {&now.batches, &now.m, &now.n, &now.k, &now.lhs_m, &now.lhs_k, &now.rhs_k, &now.rhs_n})
            *size = given[at++];
        const ContractionBlocks blocks = find_blocks(now, cpu);
        std::vector<int64_t> all(blocks.args.begin(), blocks.args.end());
        all.push_back(blocks.items);
        all.push_back(blocks.scratch_bytes);
        return all;
    });
    ContractionBlocks blocks;
    std::ranges::copy_n(found.begin(), ir::kContractionArgs, blocks.args.begin());
    blocks.items = found[ir::kContractionArgs];
    blocks.scratch_bytes = found[ir::kContractionArgs + 1];
    return blocks;
}

void declare_contraction(ir::Kernel &kernel, size_t phase, const ir::CpuIsa &isa) {
    ir::Phase &p = kernel.phases[phase];
    ir::CpuSchedule &schedule = p.on_cpu();
    const ContractionTile tile =
        contraction_tile(p.contraction->dtype, p.contraction->accumulate, isa, p.contraction->ascending);
    schedule.mr = tile.mr;
    schedule.nr = tile.nr;
    schedule.blocks = static_cast<ir::ArgId>(kernel.args.size());
    kernel.args.insert(kernel.args.end(), ir::kContractionArgs, {ir::ArgRole::Block});
    schedule.scratch = static_cast<uint16_t>(kernel.buffers.size());
    kernel.buffers.push_back({ir::DType::U8, ir::BufferMode::Worker});
}

} // namespace lz::passes
