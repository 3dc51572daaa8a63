#pragma once
/// Emission of products: a phase with `contraction` set.
///
/// A work item is BlockM x BlockN elements of one batch (ir::ContractionArg). Pseudo code of one:
///
///     for p0 in k step BlockK                       the sums go on from block to block
///       for ib in rows step InnerM                  rows of lhs that stay in the second-level cache
///         for panel of nr columns                   stays in the first-level cache
///           (first ib) pack rhs[p0.., panel]        unless it is read in place
///           for tile of at most mr rows
///             (first panel) pack lhs[tile, p0..]    unless it is read in place
///             microkernel: tile of sums in registers, one fused multiply-add an element and step of k
///             (last p0) epilogue over the tile, row by row
///
/// Of tile registers a pass over k, PassK, is what is packed of rhs, and the loops inside it change places:
/// rows meet block after block of k, and those sums alone are kept that no other rows have.
///
///     for pass in k step PassK
///       for ib in rows step InnerM
///         for p0 in pass step BlockK
///           (first ib) pack rhs[p0.., columns]
///           for panel, for tile                     as above
///
/// The rows of a block are split evenly into tiles, for each of whose heights there is a microkernel; all sum
/// an element in the same order, so neither blocks nor threads change bits.

#include "codegen/llvm/emitter.h"
#include "ir/target.h"

namespace lz::codegen {

/// Emits the phase at the insertion point of an open entry: walks work items [begin, end) of `params`.
void emit_contraction(PhaseEmitter &emitter, const EntryParams &params, const EmitOptions &options);

/// Whether sums of tile registers are rounded to bf16 by one instruction. It takes subnormals for zero, which
/// such sums never are, and makes of a NaN the same quiet one.
bool rounds_tile_sums(const ir::Contraction &contraction, const ir::CpuIsa &isa);
/// So many of them, a register of f32, rounded: bits of bf16.
Value round_tile_sum(Builder &b, Value sums);

} // namespace lz::codegen
