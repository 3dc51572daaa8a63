#pragma once
/// Compiled code and the convention by which it is called. Emitters produce it, backends load it; neither
/// knows the other.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lz::ir {

enum class FaultCode : int32_t {
    None = 0,
    IndexOutOfRange = 1,
    DivisionByZero = 2,
    OutOfMemory = 3, ///< of the host, for the scratch of a worker or a library call
    CallFailed =
        4, ///< what is registered for a `call` threw: `value` is CallErrors's number (ir/host/calls.h)
};

/// Filled when a check fails in a launch, by the first of its failures (others are dropped): S26. The kernel
/// goes on, with a harmless operand in place of the bad one.
struct Fault {
    std::atomic<int32_t> code{0}; ///< FaultCode; claimed by compare-exchange from 0
    uint32_t source = 0;          ///< Instr::source of the check; in a Program its number (Segment::checks)
    int64_t value = 0;            ///< the index
    int64_t limit = 0;            ///< the extent
};

/// A fault that keeps a segment of a later launch from running, because what it reads is lost with it.
struct FaultGuard {
    const Fault *fault = nullptr;    ///< null: the end of a list
    bool only_out_of_memory = false; ///< another code of this fault loses nothing that the segment reads
};
/// Whether one of a list has come up. The list may be null.
bool is_held_back(const FaultGuard *guards);

/// What every entry point reads. Plain memory, valid for the whole launch.
struct KernelFrame {
    void *const *buffers;    ///< one pointer a Kernel buffer (unused for Worker buffers)
    const int64_t *args;     ///< one value a Kernel argument
    const uint64_t *scalars; ///< one slot a Kernel scalar, see KScalar
    Fault *fault; ///< one a check, in the order of Kernel::instrs, the first for scratch too; or null
    const void *code = nullptr; ///< Module::code
    /// Streams that threads of the host play leave the segment out if this says so when its turn comes; entry
    /// points do not look at it.
    const FaultGuard *guards = nullptr;
};
static_assert(offsetof(KernelFrame, fault) == 24, "emitted code knows this layout");

/// A phase: runs work items [begin, end). `worker` is scratch of the calling worker (may be null if the
/// kernel has no Worker buffers), 64-byte aligned. Called from many threads at once with disjoint ranges.
using PhaseEntry = void (*)(const KernelFrame *frame, int64_t begin, int64_t end, void *worker);

/// What the bytes of a CompiledKernel are.
enum class CodeFormat : uint8_t {
    Object,     ///< an ELF object for the host: entries are PhaseEntry
    KernelText, ///< Kernel IR as text, for the interpreter: likewise
    Cubin,      ///< of a CUDA device: entries are kernels, launched as CompiledPhase says
    Ptx,        ///< likewise, finished by the driver
};

/// A parameter of a kernel on a CUDA device: what of the frame it is. The value of `bytes` bytes lies where
/// the frame's array has it, so that a driver may be given that address: of an argument and of a scalar the
/// low bytes.
struct LaunchParameter {
    enum Kind : uint8_t {
        Buffer, ///< frame.buffers[index]
        Arg,    ///< frame.args[index]: 8 bytes, or the low 4
        Scalar, ///< frame.scalars[index]: 4 bytes (f32, the half types) or 8
        Fault,  ///< frame.fault
        Items,  ///< the launch's items, 8 bytes or the low 4; in a table those of segments 0..s together
    } kind = Buffer;
    uint8_t bytes = 8;
    uint16_t index = 0;
    uint32_t at = 0; ///< in a segment's record of a table

    bool operator==(const LaunchParameter &) const = default;
};

/// Something that has to be a multiple of 16 bytes where 16 bytes are accessed at once: a buffer's address,
/// or an argument in elements of `bytes`.
struct LaunchAlignment {
    enum Kind : uint8_t { Buffer, Arg } kind = Buffer;
    uint8_t bytes = 1; ///< of an element; Arg alone
    uint16_t index = 0;

    bool operator==(const LaunchAlignment &) const = default;
};

/// One phase of a compiled kernel, and how it is launched. Its work items are counted by `work_items`, and an
/// entry of the host takes any range of them. All but the symbol is of CUDA devices alone:
///
/// A launch has a block for each item, or fewer (`most_blocks`, and what a grid may have along x): a block
/// takes every gridDim.x-th item. Where blocks come in clusters (the code says of how many, and so does
/// `cluster_blocks`) an item has a cluster of them. `threads` threads are along x. What the parameters are:
///  - without a table: `parameters`, in this order, of the one segment
///  - with a table by value (`table_bytes` > 0): the table, `table_bytes` bytes, in which the segments'
///    records come first, `record_bytes` each; then the number of segments (4 bytes)
///  - with a table in memory: its device address (8 bytes), then the number of segments (4 bytes)
/// A record is `parameters`, each at its place `at`; its items are those of the segments up to it together.
struct CompiledPhase {
    std::string symbol;
    /// What holds of the launches that the code is for (is_aligned); empty: it is for all.
    std::vector<LaunchAlignment> alignments = {};
    std::vector<LaunchParameter> parameters = {};
    uint32_t record_bytes = 0;   ///< of a segment in a table; 0: there is no table
    uint32_t table_bytes = 0;    ///< of a table by value; 0: there is none, or it is in memory
    uint32_t threads = 0;        ///< of a block
    uint32_t shared_bytes = 0;   ///< of dynamic shared memory
    uint32_t most_blocks = 0;    ///< 0: any number
    uint32_t cluster_blocks = 1; ///< that take an item together

    /// How many segments a launch may have.
    uint32_t most_segments() const {
        return record_bytes == 0 ? 1 : table_bytes == 0 ? UINT32_MAX : table_bytes / record_bytes;
    }
    /// Blocks of a launch of so many items; `most`: that a grid may have.
    int64_t blocks(int64_t items, int64_t most) const {
        const int64_t limit = most_blocks > 0 && most_blocks < most ? most_blocks : most;
        const int64_t clusters = limit / cluster_blocks;
        return (items < clusters ? items : clusters) * cluster_blocks;
    }
    bool operator==(const CompiledPhase &) const = default;
};

/// Whether the code of the phase may be launched with all of these frames.
bool is_aligned(const CompiledPhase &phase, std::span<const KernelFrame> frames);
/// Whether there are launches that the code of some phase is not for, but that of any_address(kernel).
bool needs_alignment(std::span<const CompiledPhase> phases);

/// The addresses of the parameters of a phase without a table, as cuLaunchKernel takes them: in the frame's
/// arrays, the frame itself, and `items`. They are good as long as those are.
void point_parameters(const CompiledPhase &phase, const KernelFrame &frame, const int64_t &items,
                      std::span<void *> pointers);

/// Writes the records of these segments; ends[s]: the items of segments 0..s together.
void pack_table(const CompiledPhase &phase, std::span<const KernelFrame> frames, const int64_t *ends,
                std::byte *table);

/// Code of one kernel for one code target.
struct CompiledKernel {
    std::string name;
    CodeFormat format = CodeFormat::Object;
    std::vector<std::byte> object;
    std::vector<CompiledPhase> phases; ///< as Kernel::phases
    std::string text;                  ///< what was compiled, when a dump was asked for, else empty
    std::string assembly;              ///< likewise
};

} // namespace lz::ir
