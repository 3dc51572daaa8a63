#include "amx_emulation.h"

#include <cmath>
#include <cstring>

namespace lz::test {

namespace {

/// The registers of a thread. Without a configuration there are none.
thread_local struct {
    bool configured = false;
    uint8_t rows[8] = {};
    uint16_t row_bytes[8] = {};
    unsigned char bytes[8][16][64] = {};
} tiles;

TileCounts counts;

float flushed(float x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}
float half_of(uint32_t pair, int which) {
    const uint32_t bits = which == 0 ? pair << 16 : pair & 0xffff0000u;
    float x = 0;
    std::memcpy(&x, &bits, sizeof x);
    return flushed(x);
}

} // namespace

TileCounts &tile_counts() {
    return counts;
}

void tile_dot_bf16(const void *lhs, const void *rhs, void *sums, int rows, int columns, int pairs) {
    for (int m = 0; m < rows; ++m) {
        float odd_even[2][16] = {};
        for (int k = 0; k < pairs; ++k) {
            uint32_t x = 0;
            std::memcpy(&x, static_cast<const char *>(lhs) + m * 64 + k * 4, 4);
            for (int n = 0; n < columns; ++n) {
                uint32_t y = 0;
                std::memcpy(&y, static_cast<const char *>(rhs) + k * 64 + n * 4, 4);
                for (int h = 0; h < 2; ++h)
                    odd_even[h][n] = flushed(std::fma(half_of(x, h), half_of(y, h), odd_even[h][n]));
            }
        }
        for (int n = 0; n < columns; ++n) {
            float sum = 0;
            char *at = static_cast<char *>(sums) + m * 64 + n * 4;
            std::memcpy(&sum, at, 4);
            sum = flushed(flushed(sum) + flushed(odd_even[0][n] + odd_even[1][n]));
            std::memcpy(at, &sum, 4);
        }
    }
}

} // namespace lz::test

using namespace lz::test;

/// Shared by all: what is not allowed counts as a mistake.
static bool usable(int64_t tile) {
    const bool fine = tiles.configured && tile >= 0 && tile < 8;
    counts.mistakes += !fine;
    return fine;
}

void lz_test_tile_configure(const void *config) {
    unsigned char bytes[64];
    std::memcpy(bytes, config, sizeof bytes);
    counts.mistakes += bytes[0] != 1 || tiles.configured;
    tiles.configured = true;
    std::memcpy(tiles.row_bytes, bytes + 16, sizeof tiles.row_bytes);
    std::memcpy(tiles.rows, bytes + 48, sizeof tiles.rows);
    for (int t = 0; t < 8; ++t)
        counts.mistakes += tiles.rows[t] > 16 || tiles.row_bytes[t] > 64 || tiles.row_bytes[t] % 4 != 0;
    std::memset(tiles.bytes, 0, sizeof tiles.bytes);
}

void lz_test_tile_release() {
    counts.mistakes += !tiles.configured;
    tiles.configured = false;
}

void lz_test_tile_zero(int64_t tile) {
    if (usable(tile))
        std::memset(tiles.bytes[tile], 0, sizeof tiles.bytes[tile]);
}

void lz_test_tile_load(int64_t tile, const void *from, int64_t row_bytes) {
    if (!usable(tile))
        return;
    std::memset(tiles.bytes[tile], 0, sizeof tiles.bytes[tile]);
    for (int row = 0; row < tiles.rows[tile]; ++row)
        std::memcpy(tiles.bytes[tile][row], static_cast<const char *>(from) + row * row_bytes,
                    tiles.row_bytes[tile]);
}

void lz_test_tile_store(int64_t tile, void *to, int64_t row_bytes) {
    if (!usable(tile))
        return;
    for (int row = 0; row < tiles.rows[tile]; ++row)
        std::memcpy(static_cast<char *>(to) + row * row_bytes, tiles.bytes[tile][row], tiles.row_bytes[tile]);
}

void lz_test_tile_dot_bf16(int64_t sum, int64_t x, int64_t y) {
    ++counts.dots;
    if (usable(sum) && usable(x) && usable(y))
        tile_dot_bf16(tiles.bytes[x], tiles.bytes[y], tiles.bytes[sum], tiles.rows[sum],
                      tiles.row_bytes[sum] / 4, tiles.row_bytes[x] / 4);
}

/// TDPBSSD and TDPBUUD: four bytes of a row against four of a column.
template <class Byte>
static void dot_bytes(int64_t sum, int64_t x, int64_t y) {
    ++counts.dots;
    if (!usable(sum) || !usable(x) || !usable(y))
        return;
    for (int m = 0; m < tiles.rows[sum]; ++m)
        for (int n = 0; n < tiles.row_bytes[sum] / 4; ++n) {
            uint32_t total = 0;
            std::memcpy(&total, tiles.bytes[sum][m] + 4 * n, 4);
            for (int k = 0; k < tiles.row_bytes[x]; ++k)
                total +=
                    static_cast<uint32_t>(int32_t{static_cast<Byte>(tiles.bytes[x][m][k])} *
                                          int32_t{static_cast<Byte>(tiles.bytes[y][k / 4][4 * n + k % 4])});
            std::memcpy(tiles.bytes[sum][m] + 4 * n, &total, 4);
        }
}

void lz_test_tile_dot_i8(int64_t sum, int64_t x, int64_t y) {
    dot_bytes<int8_t>(sum, x, y);
}

void lz_test_tile_dot_u8(int64_t sum, int64_t x, int64_t y) {
    dot_bytes<uint8_t>(sum, x, y);
}
