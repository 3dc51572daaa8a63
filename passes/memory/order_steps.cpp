#include "passes/memory/order_steps.h"

#include "passes/lower/lower_clusters.h"
#include "passes/memory/can_fault.h"
#include "passes/memory/live_order.h"
#include "passes/memory/reuse/donors.h"

#include <algorithm>
#include <utility>

namespace lz::passes {

using namespace ir;

namespace {

/// What the steps make and read of what takes memory between them.
Traffic traffic_of(const Program &program) {
    Traffic traffic(program.buffers.size());
    for (size_t b = 0; b < program.buffers.size(); ++b)
        if (program.buffers[b].kind == BufferKind::Value)
            traffic.bytes[b] = program.buffers[b].bytes;
    for (const uint32_t result : program.results) // have blocks of their own, all the time
        traffic.bytes[result] = 0;
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
        traffic.begin_step();
        for_operands(program, s, [&](BufferMode mode, uint32_t buffer) {
            if (mode == BufferMode::Temp) {
                traffic.add_scratch(program.buffers[buffer].bytes);
                return;
            }
            if (mode != BufferMode::In)
                traffic.add_made(buffer);
            if (const uint32_t from = read_buffer(program, mode, buffer); from != kNone)
                traffic.add_read(from);
        });
    }
    traffic.end();
    return traffic;
}

bool is_free(const Program &program, uint32_t s) {
    const Step &step = program.steps[s];
    const bool work = step.kind == StepKind::Launch || step.kind == StepKind::Copy ||
                      (step.kind == StepKind::Library && !is_wait_stream(step));
    return work && step.device == program.steps[0].device &&
           program.draft.steps[s].user_stream == kNoStream && program.draft.steps[s].after.empty();
}

bool is_on_one_device(const Program &program) {
    return std::ranges::all_of(program.buffers,
                               [&](const BufferDesc &b) { return b.device == program.steps[0].device; });
}

/// The last reader of an input that the Program may overwrite is the one that may do it: it stays the last.
void keep_last_readers(const Program &program, const Target &target, std::vector<StepEdge> &edges) {
    std::vector<uint32_t> last(program.buffers.size(), kNone);
    const auto for_donated = [&](uint32_t s, auto &&f) {
        for_operands(program, s, [&](BufferMode mode, uint32_t buffer) {
            const uint32_t read = read_buffer(program, mode, buffer);
            if (read != kNone && may_be_overwritten(program, read, target))
                f(read);
        });
    };
    for (uint32_t s = 0; s < program.steps.size(); ++s)
        for_donated(s, [&](uint32_t input) { last[input] = s; });
    for (uint32_t s = 0; s < program.steps.size(); ++s)
        for_donated(s, [&](uint32_t input) {
            if (last[input] != s)
                edges.emplace_back(s, last[input]);
        });
}

/// Data, who overwrites inputs, and the order of what can fail.
std::vector<StepEdge> edges_of(const Program &program, const Dependences &dependences, const Target &target) {
    std::vector<StepEdge> edges;
    keep_last_readers(program, target, edges);
    uint32_t failing = kNone;
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
        for (const Dependence &d : dependences.of(s))
            edges.emplace_back(d.step, s);
        if (!can_fault(program, program.steps[s]))
            continue;
        if (failing != kNone)
            edges.emplace_back(failing, s);
        failing = s;
    }
    return edges;
}

void put_in_order(Program &program, std::span<const uint32_t> order) {
    std::vector<Step> steps;
    std::vector<StepDraft> drafts;
    steps.reserve(order.size());
    drafts.reserve(order.size());
    for (const uint32_t s : order) {
        steps.push_back(std::move(program.steps[s]));
        drafts.push_back(std::move(program.draft.steps[s]));
    }
    program.steps = std::move(steps);
    program.draft.steps = std::move(drafts);
}

} // namespace

bool order_steps(Program &program, const Dependences &dependences, const Target &target) {
    const auto n = static_cast<uint32_t>(program.steps.size());
    if (n < 3 || !is_on_one_device(program))
        return false;
    for (uint32_t s = 0; s < n; ++s)
        if (!is_free(program, s))
            return false;
    const std::vector<uint32_t> order =
        find_order(traffic_of(program), edges_of(program, dependences, target),
                   least_alive(target.device(program.steps[0].device)));
    if (order.empty())
        return false;
    put_in_order(program, order);
    return true;
}

} // namespace lz::passes
