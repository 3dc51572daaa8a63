#pragma once
/// What emitted code of products calls on CPUs with AVX-512, or AVX and FMA: the
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
/// Likewise where rows of rhs lie a multiple of kSharedSets bytes apart, so that they share few sets of the
/// first-level cache, which holds a dozen of them at worst: [m, 768] x [768, 3072] takes 0.84 to 0.91 of the
/// time so for m of 4 to 16 (a Xeon of the Granite Rapids kind, AVX-512).
inline constexpr int64_t kSharedSets = 1024, kStepsAheadInSets = 8;
/// Up to which so many bytes of rhs are not asked for at all with AVX-512, with what lies between its
/// columns: half of a second-level cache. 4 rows by 384 x 512 take 0.77 of the time so, and by 768 x 768,
/// which is more than it holds, 1.17 (the same Xeon).
extern const int64_t kNearBytes;

/// sums[i][j] = (first ? 0 : sums[i][j]) + lhs[i, :] * rhs[:, j], one fused multiply-add after the other over
/// `steps` elements of k, for `rows` rows, at most PartSet::rows, and `width` columns. Emitted code
/// fills one in its stack, field by field in this order, of eight bytes each.
struct ProductTile {
    const void *lhs; ///< row i of it begins at lhs + i * lhs_row
    const void *rhs; ///< of one register of columns, or less, no more than `width` are read
    void *sums;      ///< likewise, at sums + i * sums_row
    int64_t steps;   ///< along k
    int64_t lhs_row, lhs_step;
    int64_t rhs_step;
    int64_t sums_row;
    int64_t first; ///< 1: sums hold nothing yet
    int64_t width, rows;
    const void *next; ///< sums of the tile that probably follows, whose rows lie as far apart
};
inline constexpr int kProductTileFields = sizeof(ProductTile) / sizeof(int64_t);

using MultiplyTile = void(const ProductTile &tile);
/// Packs `count` rows of an operand (along m or n; at most `width`) and `depth` elements of k into a panel:
/// to[k * width + i] = from[i * stride_i + k * stride_k]. What stands in rows from `count` on nobody reads as
/// numbers. `to` has room for `depth` rounded up to two registers, and for one register more. `width` is
/// PartSet::rows or two registers.
using PackPanel = void(void *to, const void *from, int64_t count, int64_t depth, int64_t stride_i,
                       int64_t stride_k, int64_t width);

/// Packs `count` rows of an operand of which the elements stand anywhere: to[k * width + i] = from[rows[i] +
/// depths[k]]. The rest as with PackPanel; what lies between two elements may be read.
using PackGathered = void(void *to, const void *from, const int64_t *rows, const int64_t *depths,
                          int64_t count, int64_t depth, int64_t width);

/// A part of where elements stand along an axis (ir::ContractionDigit).
struct PlaceDigit {
    int64_t extent, stride;
};
/// Where the elements [first, first + count) of an axis with these digits, the outermost first, stand.
void fill_places(int64_t *to, int64_t first, int64_t count, const PlaceDigit *digits, int64_t digit_count);
inline constexpr const char *kFillPlacesSymbol = "lz_fill_places";
/// What packs elements of four or eight bytes, on any processor.
void pack_gathered_32(void *to, const void *from, const int64_t *rows, const int64_t *depths, int64_t count,
                      int64_t depth, int64_t width);
void pack_gathered_64(void *to, const void *from, const int64_t *rows, const int64_t *depths, int64_t count,
                      int64_t depth, int64_t width);
inline constexpr const char *kPackGathered32Symbol = "lz_pack_gathered_32";
inline constexpr const char *kPackGathered64Symbol = "lz_pack_gathered_64";

/// Packs `count` rows of an operand that are neighbours into as many panels of two registers as they fill,
/// `panel_bytes` apart, as PackPanel does each. A step of k is read in one go: panel by panel a processor
/// finds two lines of memory at a time, which it cannot ask for ahead. [128, 768] x [768, 3072] took 0.9 of
/// the time so, with 256 rows 0.95 (a Xeon with AMX, one thread).
using PackPanels = void(void *to, const void *from, int64_t count, int64_t depth, int64_t stride_k,
                        int64_t panel_bytes);

/// Functions for operands of one dtype, and their names for emitted code.
struct ProductParts {
    const char *multiply_tile_name = nullptr, *pack_panel_name = nullptr;
    MultiplyTile *multiply_tile = nullptr;
    PackPanel *pack_panel = nullptr;
    const char *pack_gathered_name = nullptr;
    PackGathered *pack_gathered = nullptr;
    const char *pack_panels_name = nullptr;
    PackPanels *pack_panels = nullptr;
};

/// What there is for one kind of registers.
struct PartSet {
    int rows;         ///< of a tile: what is left of the registers, in pairs, beside two of columns
    int vector_bytes; ///< of a register
    ProductParts f32, f64;
};

/// Null where the process was not built for x86-64. Two registers of columns, one for an element of lhs, one
/// spare, the rest of 32 for sums.
extern const PartSet *const kAvx512Parts;
/// The same of 16 registers of AVX; they need FMA.
extern const PartSet *const kAvxParts;
/// bf16 with AVX512-BF16, in tiles as kAvx512Parts has them: sums are f32, with the bits of ascending fused
/// multiply-adds. An element of a panel, which strides of a ProductTile and its steps count, is a pair of two
/// neighbours along k; a last one without a neighbour has a zero beside it that changes no sum. Panels end
/// with a word about their numbers, in the room of the register behind them: tiles are of packed panels
/// alone.
extern const ProductParts *const kBf16Parts;
/// Pairs of i16 with AVX-512 (BW), in the same tiles: sums are i32, which wrap. Panels are packed by emitted
/// code; a last element without a neighbour has a zero beside it in one operand at least.
extern const ProductParts *const kI16PairParts;
/// The same with AVX2, in the tiles of kAvxParts.
extern const ProductParts *const kI16PairAvx2Parts;
/// i8 with AVX512-VNNI, likewise: an element of a panel is four neighbours along k. Behind a panel of rhs are
/// two registers of what sums begin with: tiles are of packed panels alone, and as wide as a panel.
extern const ProductParts *const kInt8Parts;

} // namespace lz::ir
