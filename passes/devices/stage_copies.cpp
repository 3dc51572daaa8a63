#include "passes/devices/stage_copies.h"

#include <algorithm>
#include <fmt/format.h>

namespace lz::passes {

using namespace ir;

namespace {

class Stager {
public:
    Stager(const Graph &graph, const Target &target) : graph_(graph), target_(target) {}

    bool is_staged(const LoweredStep &step) const {
        if (step.kind != StepKind::Copy)
            return false;
        const Device from = device(step.operands[0]), to = device(step.operands[1]);
        return from.kind == DeviceKind::Cuda && to.kind == DeviceKind::Cuda && from != to &&
               !target_.are_peers(from, to);
    }

    void split(const LoweredStep &step, std::vector<LoweredStep> &out) {
        const int64_t bytes = step.copy.bytes;
        const int64_t wanted = (bytes + kStagedPiece - 1) / kStagedPiece;
        const int64_t pieces = bytes <= kStagedAtOnce ? 1 : std::clamp<int64_t>(wanted, 2, kMostStagedPieces);
        constexpr int64_t kPage = 4096;
        const int64_t piece = std::max<int64_t>((bytes / pieces + kPage - 1) / kPage * kPage, kPage);
        const uint32_t first_block = blocks_;
        blocks_ += pieces > 1 ? 2 : 1;
        const int64_t last = std::max<int64_t>((bytes + piece - 1) / piece, 1);
        for (int64_t k = 0; k < last; ++k) {
            const CopyRange range{k * piece, k * piece, std::min(piece, bytes - k * piece)};
            const uint32_t block = first_block + static_cast<uint32_t>(k % 2);
            out.push_back(half(step, block, std::min(piece, bytes), range, true, k, last));
            out.push_back(half(step, block, std::min(piece, bytes), range, false, k, last));
        }
    }

private:
    Device device(const LoweredBuffer &b) const { return graph_.type(b.value).device; }

    /// One piece on its way to the block, or from there.
    LoweredStep half(const LoweredStep &whole, uint32_t block, int64_t block_bytes, const CopyRange &range,
                     bool out, int64_t k, int64_t pieces) const {
        LoweredStep step;
        step.kind = StepKind::Copy;
        step.device = device(whole.operands[out ? 0 : 1]);
        // The user's stream is one of the GPU that is copied to; the other half has no user.
        step.stream = out ? kNoStream : whole.stream;
        step.operands = {whole.operands[0], whole.operands[1]};
        step.operands[out ? 1 : 0] = {
            .mode = out ? BufferMode::Out : BufferMode::In, .bytes = block_bytes, .staging = block};
        step.copy = {out ? range.from_begin : 0, out ? 0 : range.to_begin, range.bytes};
        if (out)
            step.ints = whole.ints;
        step.bytes_read = step.bytes_written = range.bytes;
        step.cost = 2 * range.bytes;
        step.node = whole.node;
        step.nodes = whole.nodes;
        step.recorded = whole.recorded;
        step.label = fmt::format("{}, {}", whole.label, out ? "out" : "in");
        if (pieces > 1)
            step.label += fmt::format(", piece {} of {}", k + 1, pieces);
        return step;
    }

    const Graph &graph_;
    const Target &target_;
    uint32_t blocks_ = 0;
};

} // namespace

std::vector<LoweredStep> stage_copies(const Graph &graph, std::vector<LoweredStep> steps,
                                      const Target &target) {
    Stager stager(graph, target);
    if (std::ranges::none_of(steps, [&](const LoweredStep &s) { return stager.is_staged(s); }))
        return steps;
    std::vector<LoweredStep> staged;
    for (LoweredStep &step : steps) {
        if (stager.is_staged(step))
            stager.split(step, staged);
        else
            staged.push_back(std::move(step));
    }
    return staged;
}

} // namespace lz::passes
