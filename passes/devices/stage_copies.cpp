#include "passes/devices/stage_copies.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <utility>

namespace lz::passes {

using namespace ir;

namespace {

class Stager {
public:
    Stager(Program &program, const Target &target) : program_(program), target_(target) {}

    bool is_staged(const Step &step) const {
        if (step.kind != StepKind::Copy)
            return false;
        const Device from = device(step.operands[0]), to = device(step.operands[1]);
        return from.kind == DeviceKind::Cuda && to.kind == DeviceKind::Cuda && from != to &&
               !target_.are_peers(from, to);
    }

    void run() {
        std::vector<Step> steps = std::exchange(program_.steps, {});
        std::vector<StepDraft> drafts = std::exchange(program_.draft.steps, {});
        std::vector<uint32_t> last(steps.size()); // what became of each, or its last piece
        for (size_t s = 0; s < steps.size(); ++s) {
            StepDraft draft = std::move(drafts[s]);
            for (uint32_t &before : draft.after)
                before = last[before];
            if (is_staged(steps[s]))
                split(steps[s], draft);
            else
                add(std::move(steps[s]), std::move(draft));
            last[s] = static_cast<uint32_t>(program_.steps.size() - 1);
        }
    }

private:
    Device device(uint32_t buffer) const { return program_.buffers[buffer].device; }

    void add(Step step, StepDraft draft) {
        program_.steps.push_back(std::move(step));
        program_.draft.steps.push_back(std::move(draft));
    }

    void split(const Step &step, const StepDraft &draft) {
        const int64_t bytes = step.copy.bytes;
        const int64_t wanted = (bytes + kStagedPiece - 1) / kStagedPiece;
        const int64_t parts = bytes <= kStagedAtOnce ? 1 : std::clamp<int64_t>(wanted, 2, kMostStagedPieces);
        constexpr int64_t kPage = 4096;
        const int64_t piece = std::max<int64_t>((bytes / parts + kPage - 1) / kPage * kPage, kPage);
        const int64_t pieces = std::max<int64_t>((bytes + piece - 1) / piece, 1);
        const uint32_t first = add_block(std::min(piece, bytes));
        const uint32_t second = pieces > 1 ? add_block(std::min(piece, bytes)) : first;
        for (int64_t k = 0; k < pieces; ++k) {
            const CopyRange range{k * piece, k * piece, std::min(piece, bytes - k * piece)};
            const uint32_t block = k % 2 == 0 ? first : second;
            const std::string which =
                pieces > 1 ? fmt::format(", piece {} of {}", k + 1, pieces) : std::string();
            add_half(step, draft, block, range, true, which);
            add_half(step, draft, block, range, false, which);
        }
    }

    uint32_t add_block(int64_t bytes) {
        program_.buffers.push_back({.kind = BufferKind::Staging, .bytes = bytes, .device = kCpu});
        program_.draft.buffers.emplace_back();
        return static_cast<uint32_t>(program_.buffers.size() - 1);
    }

    /// One piece on its way to the block, or from there.
    void add_half(const Step &whole, const StepDraft &draft, uint32_t block, const CopyRange &range, bool out,
                  const std::string &piece) {
        Step step;
        step.kind = StepKind::Copy;
        step.device = device(whole.operands[out ? 0 : 1]);
        step.stream = kNoStream;
        step.operands = whole.operands;
        step.operands[out ? 1 : 0] = block;
        step.copy = {out ? range.from_begin : 0, out ? 0 : range.to_begin, range.bytes};
        if (out)
            step.ints = whole.ints;
        step.bytes = step.cost = 2 * range.bytes;
        step.node = whole.node;
        step.recorded = whole.recorded;
        step.label = fmt::format("{}, {}{}", whole.label, out ? "out" : "in", piece);
        // The user's stream is one of the GPU that is copied to; the other half has no user.
        add(std::move(step), {.user_stream = out ? kNoStream : draft.user_stream,
                              .after = draft.after,
                              .nodes = draft.nodes,
                              .bytes_written = range.bytes});
    }

    Program &program_;
    const Target &target_;
};

} // namespace

void stage_copies(Program &program, const Target &target) {
    Stager stager(program, target);
    if (std::ranges::any_of(program.steps, [&](const Step &s) { return stager.is_staged(s); }))
        stager.run();
}

} // namespace lz::passes
