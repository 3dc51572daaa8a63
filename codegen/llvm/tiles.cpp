#include "codegen/llvm/emitter.h"

#include <algorithm>

namespace lz::codegen {

using namespace ir;

void PhaseEmitter::grid_tiles() {
    const size_t last = p_.grid.size() - 1;
    const auto tile =
        static_cast<size_t>(std::find(p_.grid.begin(), p_.grid.end(), p_.tile_axis) - p_.grid.begin());
    Values counts;
    for (size_t i = 0; i < last; ++i)
        counts.push_back(i == tile ? blocks_of(p_.grid[i], p_.tile_block) : extent(p_.grid[i]));
    counts.push_back(blocks_of(p_.grid[last], p_.block));
    walk(counts, [&](std::span<const Value> index) {
        const auto range = [&](size_t i, ArgId block) {
            Value all = extent(p_.grid[i]);
            if (block == kNoArg)
                return std::pair{b_.i64(0), all};
            Value lo = b_.mul(index[i], arg(block));
            return std::pair{lo, b_.smin(b_.add(lo, arg(block)), all)};
        };
        for (size_t i = 0; i < last; ++i)
            if (i != tile)
                bind_axis(p_.grid[i], index[i]);
        const auto [row_lo, row_hi] = range(tile, p_.tile_block);
        const auto [lo, hi] = range(last, p_.block);
        b_.loop(row_lo, row_hi, b_.i64(1), {}, [&](Value row, std::span<const Value>) -> Values {
            bind_axis(p_.grid[tile], row);
            grid_range(p_.grid[last], lo, hi);
            unbind_axis(p_.grid[tile]);
            return {};
        });
        for (size_t i = last; i-- > 0;)
            if (i != tile)
                unbind_axis(p_.grid[i]);
    });
}

} // namespace lz::codegen
