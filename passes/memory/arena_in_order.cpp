#include "passes/memory/arena_layout.h"

namespace lz::passes {

ArenaLayout layout_in_order(std::span<ArenaBlock> blocks) {
    return layout_arena(blocks);
}

} // namespace lz::passes
