#include "passes/build_program.h"

#include "ir/diagnostic.h"

#include <fmt/format.h>

#include <string>
#include <unordered_map>

namespace lz::passes {

using namespace ir;

namespace {

/// The kernels of the Program: one of each.
class KernelPool {
public:
    explicit KernelPool(std::vector<Kernel> &kernels) : kernels_(kernels) {}

    uint32_t add(Kernel kernel) {
        const auto [it, is_new] = ids_.try_emplace(cache_key(kernel), static_cast<uint32_t>(kernels_.size()));
        if (is_new)
            kernels_.push_back(std::move(kernel));
        return it->second;
    }

private:
    std::vector<Kernel> &kernels_;
    std::unordered_map<std::string, uint32_t> ids_;
};

/// Numbers the kernel's checks and says which recorded operation each of them was written for.
std::vector<uint32_t> number_checks(const Graph &graph, Kernel &kernel) {
    std::vector<uint32_t> recorded;
    for (Instr &instr : kernel.instrs) {
        if (info(instr.op).cls != KOpClass::Check)
            continue;
        recorded.push_back(instr.source == kNoValue ? kNone : graph.node(instr.source).recorded);
        instr.source = static_cast<uint32_t>(recorded.size() - 1);
    }
    return recorded;
}

class ProgramBuilder {
public:
    ProgramBuilder(const Graph &graph, const MemoryPlan &plan) : graph_(graph), plan_(plan) {
        program_.name = graph.name;
        program_.buffers = plan.buffers;
        program_.results = plan.results;
        program_.arenas = plan.arenas;
        program_.num_runtime_words = static_cast<uint32_t>(graph.runtime_words().size());
        program_.steps.reserve(plan.step_begin.size() + plan.copies.size());
    }

    void add_step(LoweredStep &lowered, size_t index) {
        Step &step = program_.steps.emplace_back();
        step.kind = lowered.kind;
        step.device = lowered.device;
        step.cost = lowered.cost;
        step.bytes = lowered.bytes_read + lowered.bytes_written;
        step.flops = lowered.flops;
        step.node = lowered.node;
        step.recorded = std::move(lowered.recorded);
        step.label = std::move(lowered.label);
        next_operand_ = plan_.step_begin[index];
        switch (lowered.kind) {
        case StepKind::Launch:
            add_launch(step, lowered);
            break;
        case StepKind::Library:
        case StepKind::Copy:
            step.symbol = std::move(lowered.symbol);
            step.ints = std::move(lowered.ints);
            step.operands = take_operands(step, lowered.operands);
            if (lowered.kind == StepKind::Copy)
                step.copy.bytes = program_.buffers[step.operands[1]].bytes;
            break;
        case StepKind::RecordEvent:
        case StepKind::WaitEvent:
        case StepKind::HostCallback:
            step.effect = std::move(lowered.effect);
            step.operands = take_operands(step, lowered.operands);
            break;
        }
        LZ_CHECK(next_operand_ == plan_.step_begin[index + 1],
                 "the plan and step " + std::to_string(index) + " disagree about the number of operands");
    }

    void add_copy(const PlannedCopy &copy) {
        Step &step = program_.steps.emplace_back();
        const BufferDesc &to = program_.buffers[copy.to];
        step.kind = StepKind::Copy;
        step.device = to.device;
        step.cost = step.bytes = 2 * to.bytes;
        step.copy.bytes = to.bytes;
        step.operands = {copy.from, copy.to};
        touch(step, copy.from, false);
        touch(step, copy.to, true);
        if (const Node *node = to.value == kNone ? nullptr : graph_.producer(to.value)) {
            step.node = static_cast<NodeId>(node - graph_.nodes().data());
            if (node->recorded != kNone)
                step.recorded = {node->recorded};
        }
        step.label = "copy";
    }

    Program take() { return std::move(program_); }

private:
    void add_launch(Step &step, LoweredStep &lowered) {
        const std::vector<uint32_t> checks = number_checks(graph_, lowered.kernel);
        step.kernel = kernels_.add(std::move(lowered.kernel));
        step.worker_bytes = lowered.worker_bytes;
        for (LoweredSegment &from : lowered.segments) {
            Segment &segment = step.segments.emplace_back();
            segment.buffers = take_operands(step, from.buffers);
            segment.args = std::move(from.args);
            segment.scalars = std::move(from.scalars);
            segment.items = std::move(from.items);
            segment.checks = checks;
        }
    }

    std::vector<uint32_t> take_operands(Step &step, std::span<const LoweredBuffer> lowered) {
        std::vector<uint32_t> buffers;
        buffers.reserve(lowered.size());
        for (const LoweredBuffer &b : lowered) {
            const uint32_t buffer = plan_.operands[next_operand_++];
            buffers.push_back(buffer);
            if (buffer == kNone)
                continue;
            if (b.mode == BufferMode::In)
                touch(step, buffer, false);
            if (b.mode == BufferMode::InOut)
                touch(step, plan_.continues[buffer] != kNone ? plan_.continues[buffer] : buffer, false);
            if (b.mode != BufferMode::In)
                touch(step, buffer, true);
        }
        return buffers;
    }

    void touch(Step &step, uint32_t buffer, bool write) {
        if (program_.buffers[buffer].bytes > 0)
            step.accesses.push_back({buffer, 0, program_.buffers[buffer].bytes, write});
    }

    const Graph &graph_;
    const MemoryPlan &plan_;
    Program program_;
    KernelPool kernels_{program_.kernels};
    uint32_t next_operand_ = 0;
};

} // namespace

Program build_program(const Graph &graph, std::vector<LoweredStep> steps, const MemoryPlan &plan) {
    ProgramBuilder builder(graph, plan);
    size_t copy = 0;
    for (size_t s = 0; s <= steps.size(); ++s) {
        for (; copy < plan.copies.size() && plan.copies[copy].before_step == s; ++copy)
            builder.add_copy(plan.copies[copy]);
        if (s < steps.size())
            builder.add_step(steps[s], s);
    }
    return builder.take();
}

} // namespace lz::passes
