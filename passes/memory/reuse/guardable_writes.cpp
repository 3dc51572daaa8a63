#include "passes/memory/reuse/guardable_writes.h"

#include "passes/lower/lower_clusters.h"

#include <algorithm>
#include <optional>

namespace lz::passes {

using namespace ir;

GuardableWrites::GuardableWrites(const Program &program) : program_(program) {
    if (std::ranges::none_of(program.draft.buffers, &BufferDraft::kept))
        return;
    writers_.assign(program.buffers.size(), 0);
    for (uint32_t s = 0; s < program.steps.size(); ++s)
        for_operands(program, s,
                     [&](BufferMode mode, uint32_t buffer) { writers_[buffer] += mode != BufferMode::In; });
}

bool GuardableWrites::guards(uint32_t s, const Segment &segment, uint32_t buffer) {
    const Step &step = program_.steps[s];
    const uint32_t number = step.kernel;
    const Kernel &kernel = program_.kernels[number];
    if (kernel.phases.size() != 1 || writers_[buffer] != 1 ||
        (step.worker_bytes > 0 && step.segments.size() > 1))
        return false;
    const auto [known, is_new] = flows_.try_emplace(number);
    if (is_new)
        known->second = flow_of(kernel);
    return stores_from_one_set(kernel, known->second, segment);
}

bool GuardableWrites::stores_from_one_set(const Kernel &kernel, const KernelFlow &flow,
                                          const Segment &segment) const {
    std::optional<std::vector<uint32_t>> first;
    for (size_t out = 0; out < segment.buffers.size(); ++out) {
        if (kernel.buffers[out].mode != BufferMode::Out && kernel.buffers[out].mode != BufferMode::InOut)
            continue;
        std::vector<uint32_t> sources; // buffers
        for (size_t in = 0; in < segment.buffers.size(); ++in) {
            if (!flow.stored[out][in])
                continue;
            const uint32_t read = read_buffer(program_, kernel.buffers[in].mode, segment.buffers[in]);
            if (read != kNone && program_.buffers[read].kind != BufferKind::Input)
                sources.push_back(read);
        }
        std::ranges::sort(sources);
        if (!first)
            first = std::move(sources);
        else if (*first != sources)
            return false;
    }
    return true;
}

} // namespace lz::passes
