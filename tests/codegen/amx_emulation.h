#pragma once
/// Tile registers in memory: what code that is compiled with `emulate_amx` (codegen/cpu.h) calls. As in Intel
/// 64 and IA-32 Architectures Software Developer's Manual, volume 2 (LDTILECFG, TILELOADD, TDPBF16PS,
/// TDPBSSD, TDPBUUD).

#include <cstdint>

namespace lz::test {

struct TileCounts {
    int64_t dots = 0;
    int64_t mistakes = 0; ///< instructions that would fault: no configuration, or a wrong one
};
TileCounts &tile_counts();

/// TDPBF16PS on tiles in memory, whose rows are 64 bytes apart.
void tile_dot_bf16(const void *lhs, const void *rhs, void *sums, int rows, int columns, int pairs);

} // namespace lz::test

// Exported, so that the loader finds them (tests/CMakeLists.txt).
extern "C" {
__attribute__((visibility("default"))) void lz_test_tile_configure(const void *config);
__attribute__((visibility("default"))) void lz_test_tile_release();
__attribute__((visibility("default"))) void lz_test_tile_zero(int64_t tile);
__attribute__((visibility("default"))) void lz_test_tile_load(int64_t tile, const void *from,
                                                              int64_t row_bytes);
__attribute__((visibility("default"))) void lz_test_tile_store(int64_t tile, void *to, int64_t row_bytes);
__attribute__((visibility("default"))) void lz_test_tile_dot_bf16(int64_t sum, int64_t x, int64_t y);
__attribute__((visibility("default"))) void lz_test_tile_dot_i8(int64_t sum, int64_t x, int64_t y);
__attribute__((visibility("default"))) void lz_test_tile_dot_u8(int64_t sum, int64_t x, int64_t y);
}
