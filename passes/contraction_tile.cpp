#include "passes/contraction_tile.h"

#include <algorithm>

namespace lz::passes {

using ir::ContractionArg;

namespace {

/// What blocks are fitted to: first- and second-level caches that every host of the last decade has at least
/// half of.
constexpr int64_t kInnerBytes = 512 << 10; ///< packed lhs that stays in the second-level cache
constexpr int64_t kBlockK = 256;
constexpr int64_t kItemRows = 2048, kItemColumns = 1024;

constexpr int64_t ceil_div(int64_t x, int64_t y) {
    return (x + y - 1) / y;
}
constexpr int64_t round_up(int64_t x, int64_t y) {
    return ceil_div(x, y) * y;
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

    const int64_t block_k = std::min(kBlockK, round_up(k, 32));
    const int64_t inner_m = std::max<int64_t>(mr, kInnerBytes / (block_k * bytes) / mr * mr);
    int64_t block_m = std::min(kItemRows, m), block_n = std::min<int64_t>(kItemColumns, round_up(n, nr));
    if (sizes.batches < threads && m * n * k > 128 * 128 * 64) {
        while (sizes.batches * ceil_div(m, block_m) * ceil_div(n, block_n) < threads) {
            if (block_m >= block_n && block_m > mr)
                block_m = round_up(ceil_div(block_m, 2), 2);
            else if (block_n > nr)
                block_n = round_up(ceil_div(block_n, 2), nr);
            else
                break;
        }
    }
    const int64_t inner = std::min(inner_m, round_up(block_m, mr));

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
    set(ContractionArg::PackLhs, 1);
    set(ContractionArg::PackRhs, 1);
    set(ContractionArg::RhsOffset, lhs_bytes);
    set(ContractionArg::SumsOffset, lhs_bytes + rhs_bytes);
    blocks.items = sizes.batches * ceil_div(sizes.m, block_m) * ceil_div(sizes.n, block_n);
    blocks.scratch_bytes = lhs_bytes + rhs_bytes + tiles * mr * nr * bytes;
    return blocks;
}

void declare_contraction(ir::KernelBuilder &builder, ir::Contraction &c, const ir::CpuIsa &isa) {
    const auto [mr, nr] = contraction_tile(c.dtype, isa);
    c.accumulate = ir::info(c.dtype).accumulate;
    c.mr = mr;
    c.nr = nr;
    c.blocks = builder.arg(ir::ArgRole::Block);
    for (int i = 1; i < ir::kContractionArgs; ++i)
        builder.arg(ir::ArgRole::Block);
    c.scratch = builder.buffer(ir::DType::U8, ir::BufferMode::Worker, builder.arg(ir::ArgRole::Offset));
}

} // namespace lz::passes
