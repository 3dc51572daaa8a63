#pragma once
/// Compiled code and the convention by which it is called. Emitters produce it, backends load it; neither
/// knows the other.

#include <atomic>
#include <cstddef>
#include <cstdint>
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

/// What every entry point reads. Plain memory, valid for the whole launch.
struct KernelFrame {
    void *const *buffers;    ///< one pointer a Kernel buffer (unused for Worker buffers)
    const int64_t *args;     ///< one value a Kernel argument
    const uint64_t *scalars; ///< one slot a Kernel scalar, see KScalar
    Fault *fault; ///< one a check, in the order of Kernel::instrs, the first for scratch too; or null
    const void *code = nullptr; ///< Module::code
};
static_assert(offsetof(KernelFrame, fault) == 24, "emitted code knows this layout");

/// A phase: runs work items [begin, end). `worker` is scratch of the calling worker (may be null if the
/// kernel has no Worker buffers), 64-byte aligned. Called from many threads at once with disjoint ranges.
using PhaseEntry = void (*)(const KernelFrame *frame, int64_t begin, int64_t end, void *worker);

/// What the bytes of a CompiledKernel are.
enum class CodeFormat : uint8_t {
    Object,     ///< an ELF object for the host: entries are PhaseEntry
    KernelText, ///< Kernel IR as text, for the interpreter: likewise
};

/// One phase of a compiled kernel, and how it is launched: its work items are counted by `work_items`, and
/// an entry of the host takes any range of them.
struct CompiledPhase {
    std::string symbol;
};

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
