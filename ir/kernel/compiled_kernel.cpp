#include "ir/kernel/compiled_kernel.h"

#include "ir/diagnostic.h"

#include <algorithm>
#include <cstring>

namespace lz::ir {

namespace {

/// Accesses of so many bytes at once.
constexpr uint64_t kVectorBytes = 16;

/// Where the value of a parameter lies. A driver is given addresses it only reads from.
void *address_of(const LaunchParameter &p, const KernelFrame &frame, const int64_t &items) {
    const auto plain = [](const auto *at) { return const_cast<void *>(static_cast<const void *>(at)); };
    switch (p.kind) {
    case LaunchParameter::Buffer:
        return plain(frame.buffers + p.index);
    case LaunchParameter::Arg:
        return plain(frame.args + p.index);
    case LaunchParameter::Scalar:
        return plain(frame.scalars + p.index);
    case LaunchParameter::Fault:
        return plain(&frame.fault);
    case LaunchParameter::Items:
        return plain(&items);
    }
    internal_failure(__FILE__, __LINE__, "a parameter of a launch is of no kind");
}

} // namespace

bool is_held_back(const FaultGuard *guards) {
    for (const FaultGuard *g = guards; g && g->fault; ++g)
        if (const int32_t code = g->fault->code.load(std::memory_order_acquire);
            code != 0 && (!g->only_out_of_memory || code == static_cast<int32_t>(FaultCode::OutOfMemory)))
            return true;
    return false;
}

bool is_aligned(const CompiledPhase &phase, std::span<const KernelFrame> frames) {
    return std::ranges::all_of(frames, [&](const KernelFrame &frame) {
        return std::ranges::all_of(phase.alignments, [&](const LaunchAlignment &a) {
            const uint64_t bytes = a.kind == LaunchAlignment::Buffer
                                       ? reinterpret_cast<uintptr_t>(frame.buffers[a.index])
                                       : static_cast<uint64_t>(frame.args[a.index]) * a.bytes;
            return bytes % kVectorBytes == 0;
        });
    });
}

bool needs_alignment(std::span<const CompiledPhase> phases) {
    return std::ranges::any_of(phases, [](const CompiledPhase &phase) { return !phase.alignments.empty(); });
}

void point_parameters(const CompiledPhase &phase, const KernelFrame &frame, const int64_t &items,
                      std::span<void *> pointers) {
    LZ_CHECK(pointers.size() >= phase.parameters.size(), "a launch has too few places for its parameters");
    for (size_t i = 0; i < phase.parameters.size(); ++i)
        pointers[i] = address_of(phase.parameters[i], frame, items);
}

void pack_table(const CompiledPhase &phase, std::span<const KernelFrame> frames, const int64_t *ends,
                std::byte *table) {
    LZ_CHECK(frames.size() <= phase.most_segments(), "a table has no room for all segments of its launch");
    for (size_t s = 0; s < frames.size(); ++s)
        for (const LaunchParameter &p : phase.parameters)
            std::memcpy(table + s * phase.record_bytes + p.at, address_of(p, frames[s], ends[s]), p.bytes);
}

} // namespace lz::ir
