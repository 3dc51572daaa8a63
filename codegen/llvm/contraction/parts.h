#pragma once
/// What the parts of the contraction emitter share: the form of panels, packing, and the microkernels.

#include "codegen/llvm/builder.h"
#include "codegen/llvm/emitter.h"
#include "ir/host/product/parts.h"
#include "ir/kernel/kernel.h"
#include "ir/target.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

namespace lz::codegen {

/// How operands lie in packed panels, and what is summed.
struct PanelForm {
    ir::DType dtype; ///< of the operands in memory
    Elem panel;      ///< one element of a packed panel: I32 for several narrow ones along k
    Elem sum;        ///< of the accumulators
    int pair = 1;    ///< elements along k in one element of a panel: two of 16 bits, which integers of eight
                     ///< bits become, or four of eight
    int lanes = 1;   ///< of one register of sums (and of panel elements)
    int mr = 0, nr = 0;
    int row_step = 1; ///< heights of microkernels are the multiples of it up to mr
    bool fma = false;
    bool masks = false; ///< masked loads cost no more than others
    /// Functions of the process that are called (ir/host/product/parts.h); null: microkernels are emitted.
    const ir::ProductParts *parts = nullptr;
    /// The function that packs operands with digits (ir::PackGathered), which are those that are multiplied
    /// as they are.
    const char *pack_gathered_name = nullptr;
    /// Tile registers multiply. Panels of lhs are made of [mr][amx_depth] operands as they lie in memory, one
    /// for each amx_depth elements of k, those of rhs as with pairs; both are zero from `depth` on to a
    /// multiple of amx_depth.
    bool amx = false;
    bool emulate_amx = false;
    bool rounds_bf16 = false; ///< by round_tile_sum

    /// Whether operands can be read where they are. Of tile registers, those of lhs can be as well.
    bool in_place() const { return pair == 1 && storage_elem(dtype) == panel; }
    /// Columns of half a microkernel, which a narrow panel has.
    int column_step() const { return amx ? ir::kAmxColumns : lanes; }
    /// Elements of k that a step of a microkernel takes.
    int depth_step() const { return amx ? ir::amx_depth(dtype) : pair; }
    /// One of `pair` elements.
    Elem part() const { return pair == 4 ? Elem::I8 : Elem::I16; }
};
PanelForm panel_form(const ir::Phase &phase, const EmitOptions &options);

/// Packs `count` rows of an operand (along m or n; at most `width`) and `depth` elements of k into a panel:
/// to[(kk / pair) * width + i] = from[i * stride_i + kk * stride_k]. Rows from `count` on are filled with
/// anything; the panel has room for depth rounded up to 2 * lanes, and for one more register.
struct PackArgs {
    Value to, from, count, depth;
    Value stride_i, stride_k; ///< i64, in elements; null when contiguous
};
void emit_pack(Builder &b, const PanelForm &form, int width, const PackArgs &args);
/// Likewise a panel of lhs for tile registers: to[kk / amx_depth][i][kk % amx_depth], from `count` rows on
/// whatever was there.
void emit_pack_amx(Builder &b, const PanelForm &form, const PackArgs &args);
/// Packs columns that lie side by side (stride_i is null), any number of them, into panels of `width`,
/// `panel_bytes` apart, row by row of what is read (ir::PackPanels).
void emit_pack_panels(Builder &b, const PanelForm &form, int width, const PackArgs &args, Value panel_bytes);
/// Calls a function of its own, for operands like these, and `more` if it is not null, that `body` fills.
void outline_pack(Builder &b, const char *name, const PackArgs &args, Value more,
                  const std::function<void(const PackArgs &inside, Value more)> &body);

/// Swaps rows and columns of a square: as many registers as each has lanes.
void transpose(Builder &b, std::vector<Value> &square);

/// One tile of sums, in memory before and after: sums[i * nr + j] += lhs[i, :] * rhs[:, j] over `steps`
/// elements of the panels. `rows` is a multiple of row_step known now.
struct MicroArgs {
    Value lhs, lhs_row, lhs_step; ///< address; elements from row to row and from step to step
    Value lhs_last; ///< elements to the last row that is read: the last one or, if it is not there, the one
                    ///< before
    Value rhs, rhs_step; ///< address; elements from step to step
    Value steps;
    Value sums;
    Value next_sums; ///< of the tile that probably follows
    Value width;
    Value first; ///< i1: start at zero, sums holds nothing yet
};
void emit_microkernel(Builder &b, const PanelForm &form, int rows, int columns, const MicroArgs &args);

/// Its body where tile registers multiply: `rows` is a multiple of kAmxRows, `columns` counts kAmxColumns.
void emit_amx_body(Builder &b, const PanelForm &form, int rows, int columns, const MicroArgs &args);

/// Instructions of tile registers, or calls of what stands in for them.
class TileUnit {
public:
    TileUnit(Builder &b, bool emulated) : b_(b), emulated_(emulated) {}
    /// Eight tiles of kAmxRows rows of 64 bytes, for the thread that runs this, until `release`.
    void configure();
    void release();
    void zero(int tile);
    void load(int tile, Value address, Value row_bytes);
    void store(int tile, Value address, Value row_bytes);
    /// sum += x * y, of pairs of bf16, or of four i8 or u8.
    void dot(ir::DType dtype, int sum, int x, int y);

private:
    void emit(unsigned intrinsic, const char *function, std::initializer_list<int> tiles,
              std::initializer_list<Value> operands = {});

    Builder &b_;
    bool emulated_;
};

/// Brings the line of an address, which need not be mapped, into the second-level cache.
void fetch_ahead(Builder &b, Value address);

/// Neighbouring lanes of 16 or eight bits as lanes of 32 bits.
Value pairs_of(Builder &b, Value parts);
/// `pair` elements along k, the first one lowest, as they lie in one element of a panel.
Value join_parts(Builder &b, std::span<const Value> parts);
/// The first `count` of so many lanes.
Value first_lanes(Builder &b, Value count, int lanes);

/// A register of sums rounded to `dtype`, in the form of SSA values.
Value round_sum(Builder &b, const PanelForm &form, Value sum, ir::DType dtype);

} // namespace lz::codegen
