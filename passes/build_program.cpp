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

    uint32_t add(const SharedKernel &kernel) {
        const auto [known, is_new] = ids_.try_emplace(kernel.operator->(), 0);
        if (!is_new)
            return known->second;
        const auto next = static_cast<uint32_t>(kernels_.size());
        known->second = by_key_.try_emplace(cache_key(kernel), next).first->second;
        if (known->second == next)
            number_checks(kernels_.emplace_back(kernel));
        return known->second;
    }

private:
    /// Steps say which recorded operation each check was written for.
    static void number_checks(Kernel &kernel) {
        uint32_t number = 0;
        for (Instr &instr : kernel.instrs)
            if (info(instr.op).cls == KOpClass::Check)
                instr.source = number++;
    }

    std::vector<Kernel> &kernels_;
    std::unordered_map<const Kernel *, uint32_t> ids_;
    std::unordered_map<std::string, uint32_t> by_key_;
};

class ProgramBuilder {
public:
    ProgramBuilder(const Graph &graph, const MemoryPlan &plan, const Syncs &syncs) : plan_(plan) {
        program_.name = graph.name;
        program_.buffers = plan.buffers;
        program_.results = plan.results;
        program_.arenas = plan.arenas;
        program_.num_runtime_words = static_cast<uint32_t>(graph.runtime_words().size());
        program_.num_events = syncs.num_events;
        program_.steps.reserve(plan.step_begin.size() + syncs.waits.size() + syncs.num_events +
                               syncs.holds.size());
    }

    void add_step(LoweredStep &lowered, size_t index) {
        Step &step = program_.steps.emplace_back();
        step.kind = lowered.kind;
        step.device = lowered.device;
        step.stream = lowered.stream;
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
            step.symbol = std::move(lowered.symbol);
            step.ints = std::move(lowered.ints);
            step.operands = take_operands(step, lowered.operands);
            if (!lowered.operands.empty() && lowered.operands.back().mode == BufferMode::Temp) {
                step.scratch = step.operands.back();
                step.operands.pop_back();
            }
            break;
        case StepKind::Copy:
            step.copy = lowered.copy;
            step.ints = std::move(lowered.ints);
            for (size_t k = 0; k < 2; ++k) {
                const uint32_t buffer = plan_.operands[next_operand_++];
                const int64_t begin = k == 0 ? step.copy.from_begin : step.copy.to_begin;
                step.operands.push_back(buffer);
                if (k == 0 && !step.ints.empty()) // any part of it
                    touch(step, {buffer, 0, plan_.buffers[buffer].bytes, false});
                else
                    touch(step, {buffer, begin, begin + step.copy.bytes, k == 1});
            }
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

    /// An event of the Program's own, on a stream.
    void add_event(StepKind kind, StreamRef stream, uint32_t event) {
        Step &step = program_.steps.emplace_back();
        step.kind = kind;
        step.device = stream.device;
        step.stream = stream.stream;
        step.event = event;
    }

    Program take() { return std::move(program_); }

private:
    void add_launch(Step &step, LoweredStep &lowered) {
        step.kernel = kernels_.add(lowered.kernel);
        step.worker_bytes = lowered.worker_bytes;
        step.rounds = lowered.rounds;
        for (LoweredSegment &from : lowered.segments) {
            Segment &segment = step.segments.emplace_back();
            segment.buffers = take_operands(step, from.buffers);
            segment.args = std::move(from.args);
            segment.scalars = std::move(from.scalars);
            segment.items = std::move(from.items);
            segment.checks = std::move(from.checks);
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
        touch(step, {buffer, 0, program_.buffers[buffer].bytes, write});
    }
    static void touch(Step &step, const ByteRange &range) {
        if (range.begin < range.end)
            step.accesses.push_back(range);
    }

    const MemoryPlan &plan_;
    Program program_;
    KernelPool kernels_{program_.kernels};
    uint32_t next_operand_ = 0;
};

} // namespace

Program build_program(const Graph &graph, std::vector<LoweredStep> steps, const MemoryPlan &plan,
                      const Syncs &syncs, std::vector<StreamRef> user_streams) {
    ProgramBuilder builder(graph, plan, syncs);
    size_t wait = 0, record = 0, hold = 0;
    for (size_t s = 0; s < steps.size(); ++s) {
        const StreamRef stream{steps[s].device, steps[s].stream};
        for (; record < syncs.records.size() && syncs.records[record].before_step == s; ++record)
            builder.add_event(StepKind::RecordEvent, syncs.records[record].stream,
                              syncs.records[record].event);
        for (; wait < syncs.waits.size() && syncs.waits[wait].before_step == s; ++wait)
            builder.add_event(StepKind::WaitEvent, stream, syncs.waits[wait].event);
        if (!is_wait_stream(steps[s]))
            builder.add_step(steps[s], s);
        if (syncs.event_after[s] != kNone)
            builder.add_event(StepKind::RecordEvent, stream, syncs.event_after[s]);
        for (; hold < syncs.holds.size() && syncs.holds[hold].after_step == s; ++hold)
            builder.add_event(StepKind::WaitEvent, syncs.holds[hold].stream, syncs.holds[hold].event);
    }
    Program program = builder.take();
    program.user_streams = std::move(user_streams);
    return program;
}

} // namespace lz::passes
