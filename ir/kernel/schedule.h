#pragma once
/// How a kind of device does a phase of a kernel: what `passes/schedule` adds to a body. Nothing here changes
/// the bits of a result.

#include "ir/kernel/kernel_class.h"

#include <cstdint>
#include <string_view>
#include <variant>

namespace lz::ir {

using ArgId = uint16_t; ///< index in Kernel::args
inline constexpr ArgId kNoArg = UINT16_MAX;

/// Whether stores bypass the caches.
enum class StoreTier : uint8_t { Cached, Streaming };

std::string_view name(StoreTier t);

/// Block sizes and places in a worker's scratch of a contraction: consecutive arguments of the kernel, in
/// this order. `passes/schedule/contraction_tile.h` chooses them.
enum class ContractionArg : uint8_t {
    BlockM,     ///< rows of one work item
    BlockN,     ///< columns of one work item, a multiple of nr unless there is one column block
    InnerM,     ///< rows of lhs that are packed at a time
    BlockK,     ///< depth of one pass over the panels, a multiple of 32
    PassK,      ///< depth whose panels of rhs are packed before all rows meet them, a multiple of BlockK
    PackLhs,    ///< 0: rows of lhs are read where they are (never for operands that are converted)
    PackRhs,    ///< 0: full panels of rhs are read where they are (only with n contiguous)
    RhsOffset,  ///< bytes from the scratch's begin (where lhs is packed) to the packed rhs
    SumsOffset, ///< bytes to the tiles of partial sums
    /// Bytes to where the elements of operands with digits stand (i64): BlockK of them for lhs, BlockK for
    /// rhs, and as many as a panel has rows or columns.
    PlacesOffset,
};
inline constexpr int kContractionArgs = 10;

/// Of devices that run CPU code. A phase is cut into work items, which workers take in any order.
struct CpuSchedule {
    InnerTier inner = InnerTier::Any; ///< of the vectorised axis
    StoreTier stores = StoreTier::Cached;
    /// Elements of the last grid axis in one work item (of a vector grid, and `across`); kNoArg: all of them.
    ArgId block = kNoArg;
    /// A grid axis (not the last) along which some accesses are contiguous that are strided along the vector
    /// axis: the two axes are walked in square tiles, transposed in registers. -1: none. Then a work item is
    /// `tile_block` x `block` elements.
    int tile_axis = -1;
    ArgId tile_block = kNoArg;
    /// Of a grid of rows: its last axis is the vector all the same, along which operands are contiguous that
    /// stride along the reduced ones. The lanes of loops lie in memory, as many of them as neighbours are
    /// reduced at once; loops are at most chunk * chunk long.
    bool across = false;
    bool one_chunk = false; ///< reduced axes are at most one chunk of their order long
    /// Of rows side by side (`across`), whose one loop has a begin and an end: work items read what is
    /// reduced in the order of memory, and all lanes of their columns lie in `scratch`. So many neighbours
    /// along the axis of the grid before the last two, by which nothing but the loop's begin and what is
    /// stored moves, are one work item, which has so many rows of the matrix behind each other; 0: not so.
    int whole_rows = 0;
    /// Reductions fold results of another phase: short, so that little is compiled for them.
    bool partials = false;
    uint16_t scratch = 0; ///< Worker buffer: lanes of whole rows; a contraction's panels and partial sums
    // Of contractions alone.
    int mr = 0, nr = 0;    ///< register tile of the microkernel
    ArgId blocks = kNoArg; ///< first of kContractionArgs arguments, see ContractionArg

    bool operator==(const CpuSchedule &) const = default;
};

constexpr ArgId contraction_arg(const CpuSchedule &s, ContractionArg which) {
    return static_cast<ArgId>(s.blocks + static_cast<int>(which));
}

/// How the threads of a block on a CUDA device share the grid of a phase.
enum class CudaShape : uint8_t {
    Points,  ///< each thread takes grid points of its own, with all their loops
    Rows,    ///< `row_threads` threads share a grid point, the lanes of its loops, or one has all of them
    Tiles,   ///< square tiles of the tile axis and the last one, turned in shared memory
    Product, ///< tiles of a contraction
};

/// Where a row kernel keeps what it reads or computes once and needs again.
enum class RowTier : uint8_t {
    Memory,    ///< in a Temp buffer, a part for each block; what is loaded is loaded again
    Shared,    ///< in shared memory
    Registers, ///< in the thread that has the element
};

/// How the segments of a launch reach a kernel, whose parameters have one size for good.
enum class SegmentTier : uint8_t {
    One,    ///< there is one: its buffers, arguments and scalars are parameters
    Table,  ///< a table by value, of parameters of 4 KiB in all
    Large,  ///< likewise, of 32,764 bytes
    Memory, ///< a table in the device's memory
};

std::string_view name(CudaShape s);
std::string_view name(RowTier t);
std::string_view name(SegmentTier t);

/// Elements of a row that one thread has.
inline constexpr int kThreadRow = 16;
/// Threads that hold the lanes of a fold, half a warp: each has a sixteenth of the lanes of a chunk.
inline constexpr int kFoldThreads = 16;

/// Of CUDA devices. A work item is what a block does at once; a block takes more of them when there are more
/// than a grid has.
struct CudaSchedule {
    CudaShape shape = CudaShape::Points;
    SegmentTier segments = SegmentTier::One;
    StoreTier stores = StoreTier::Cached;
    /// Arguments, indices and i64 values that no memory holds fit into 32 bits.
    bool index32 = false;
    /// Packets of 16 bytes are accessed at once, and CompiledPhase::alignments says which launches may do so.
    /// False: element by element, at any address; the code of the rest of the launches (any_address).
    bool aligned = true;
    int threads = 256; ///< of a block
    /// Points: neighbours along the last axis that a thread takes at once, a packet. A thread takes `unroll`
    /// packets, `threads` packets apart.
    int vector = 1;
    int unroll = 1;
    // Rows alone.
    RowTier tier = RowTier::Memory;
    /// Of a grid point: 16 times a power of two, a divisor of `threads`; or fewer, which have their row in
    /// registers: 2, 4 or 8, with 4 to 16 elements each, or 1, with at most kThreadRow elements.
    int row_threads = 0;
    int row_elements = 0; ///< that a row has at most, 0: any number; a multiple of row_threads
    /// Memory: where blocks keep what is kept, and the bytes of each; else 0 and kNoArg.
    uint16_t scratch = 0;
    ArgId scratch_bytes = kNoArg;
    int most_blocks = 0; ///< of a launch, 0: any number
    /// Registers and Shared: blocks of a cluster, which has a row: each `row_threads` threads, all of its
    /// own, and as many elements. A power of two.
    int cluster_blocks = 1;
    // Tiles alone.
    int tile_axis = -1; ///< a grid axis, not the last
    // Tiles and products: elements of a tile; tiles are square, of 32 or 64.
    int tile_m = 0, tile_n = 0;

    bool operator==(const CudaSchedule &) const = default;
};

/// A body that has no schedule yet, or the schedule for one kind of device.
using PhaseSchedule = std::variant<std::monostate, CpuSchedule, CudaSchedule>;

} // namespace lz::ir
