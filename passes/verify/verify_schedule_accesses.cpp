#include "passes/verify/verify_schedule_accesses.h"

#include <algorithm>
#include <optional>
#include <span>

namespace lz::passes {

using namespace ir;

namespace {

/// A known integer, or nothing where a runtime word decides.
std::optional<int64_t> known(const Segment &segment, ArgId arg, int64_t absent) {
    if (arg == kNoArg)
        return absent;
    const ArgSpec &spec = segment.args[arg];
    return spec.terms.empty() ? std::optional(spec.constant) : std::nullopt;
}

/// The elements that an access can reach: the corners of its affine map, or the whole buffer where the map is
/// not known before the run. Gathered indices are checked by the kernel itself, within the buffer.
std::optional<Bytes> reach(const Kernel &kernel, const Segment &segment, const Access &access,
                           std::span<const ContractionDigit> digits) {
    if (!access.terms.empty())
        return std::nullopt;
    const auto offset = known(segment, access.offset, 0);
    if (!offset)
        return std::nullopt;
    int64_t low = *offset, high = *offset;
    bool all = true, empty = false;
    const auto move = [&](std::optional<int64_t> stride, std::optional<int64_t> extent) {
        all = all && stride && extent;
        if (!all)
            return;
        empty = empty || *extent == 0;
        const int64_t span = *stride * (*extent - 1);
        (span < 0 ? low : high) += span;
    };
    for (const AxisStride &s : access.strides)
        move(known(segment, s.stride, 1), known(segment, kernel.axes[s.axis].extent, 0));
    for (const ContractionDigit &d : digits)
        move(known(segment, d.stride, 1), known(segment, d.extent, 0));
    if (!all)
        return std::nullopt;
    if (empty)
        return Bytes{};
    const int64_t size = size_of(kernel.buffers[access.buffer].dtype);
    return Bytes{low * size, (high + 1) * size};
}

} // namespace

std::vector<Touched> touched_by(const Program &program, const Kernel &kernel, const Segment &segment) {
    std::vector<Touched> touched(kernel.buffers.size());
    const auto add = [&](const Access &access, bool write, std::span<const ContractionDigit> digits) {
        const uint32_t buffer = segment.buffers[access.buffer];
        if (buffer == kNone)
            return;
        const int64_t whole = program.buffers[buffer].bytes;
        if (whole ==
            0) // an axis of extent 0 is walked, which an access that does not move along it cannot tell
            return;
        Bytes bytes = reach(kernel, segment, access, digits).value_or(Bytes{0, whole});
        if (bytes.empty())
            return;
        // With a predicate the corners may lie outside; the elements that are touched do not.
        if (access.predicate != kNoValue)
            bytes = {std::clamp<int64_t>(bytes.begin, 0, whole), std::clamp<int64_t>(bytes.end, 0, whole)};
        Touched &t = touched[access.buffer];
        (write ? t.written : t.read).add(bytes.begin, bytes.end);
    };
    for (const Instr &instr : kernel.instrs)
        if (instr.op == KOp::Load || instr.op == KOp::Store)
            add(kernel.accesses[instr.access], instr.op == KOp::Store, {});
    for (const Phase &phase : kernel.phases)
        if (phase.contraction) {
            add(phase.contraction->lhs, false, phase.contraction->lhs_digits);
            add(phase.contraction->rhs, false, phase.contraction->rhs_digits);
        }
    return touched;
}

} // namespace lz::passes
