#pragma once
/// What emitted code of products calls on CPUs with AVX-512, or AVX and FMA, where sums are f32 or f64: the
/// microkernel and the packing of panels, which depend on nothing of a kernel. Emitted in each they would be
/// two thirds of what there is to compile.
///
/// A tile has PartSet::rows rows and two registers of columns; so have its panels, step by step along k.
/// Strides count elements.

#include <cstdint>

namespace lz::ir {

/// Steps between asking for a line of rhs and using it, which covers a fetch from the last-level cache where
/// rhs is read where it is, in few rows: on a Xeon of the Sapphire Rapids kind (`bench_matmul`, linear_f32).
inline constexpr int64_t kStepsAhead = 32;

/// sums[i][j] = (first ? 0 : sums[i][j]) + lhs[i, :] * rhs[:, j], one fused multiply-add after the other over
/// `steps` elements of k, for `rows` rows, a multiple of PartSet::row_step. Row i of lhs begins at lhs + i *
/// lhs_row, the last one at lhs + lhs_last. `width` columns are there; of one register's, or less, the others
/// are not read, and their sums mean nothing. Sums lie aligned to 64 bytes, two registers a row; `next` are
/// those of the tile that probably follows.
using MultiplyTile = void(const void *lhs, const void *rhs, void *sums, int64_t steps, int64_t lhs_row,
                          int64_t lhs_step, int64_t rhs_step, int64_t first, const void *next,
                          int64_t lhs_last, int64_t width, int64_t rows);
/// Packs `count` rows of an operand (along m or n; at most `width`) and `depth` elements of k into a panel:
/// to[k * width + i] = from[i + k * stride]. Rows from `count` on are zero. `to` has room for one register
/// more. `width` is PartSet::rows or two registers.
using PackPanel = void(void *to, const void *from, int64_t count, int64_t depth, int64_t stride,
                       int64_t width);

/// Functions for sums of one dtype, and their names for emitted code.
struct ProductParts {
    const char *multiply_tile_name, *pack_rows_name, *pack_columns_name;
    MultiplyTile *multiply_tile;
    PackPanel *pack_rows;
    /// The same of to[k * width + i] = from[i * stride + k]; rows from `count` on are the last one again.
    /// `to` has room for `depth` rounded up to a register, and for one register more.
    PackPanel *pack_columns;
};

/// What there is for one kind of registers.
struct PartSet {
    int rows;         ///< of a tile: what is left of the registers, in pairs, beside two of columns
    int row_step;     ///< heights of microkernels are its multiples: with an odd number of rows the last but
                      ///< one is read again
    int vector_bytes; ///< of a register
    ProductParts f32, f64;
};

/// Null where the process was not built for x86-64. Two registers of columns, one for an element of lhs, one
/// spare, the rest of 32 for sums.
extern const PartSet *const kAvx512Parts;
/// The same of 16 registers of AVX; they need FMA.
extern const PartSet *const kAvxParts;

} // namespace lz::ir
