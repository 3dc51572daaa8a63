#include "runtime/blame.h"

#include "ir/calls.h"

#include <fmt/format.h>

namespace lz::runtime {

namespace {

struct Use {
    uint32_t buffer;
    bool read, write;
};

/// Buffers of one segment of a launch, or of another step.
std::vector<Use> uses(const ir::Program &program, const ir::Step &step, uint32_t segment) {
    std::vector<Use> out;
    if (step.kind == ir::StepKind::Launch) {
        const ir::Kernel &kernel = program.kernels[step.kernel];
        const ir::Segment &s = step.segments[segment];
        for (size_t b = 0; b < s.buffers.size(); ++b) {
            if (s.buffers[b] == ir::kNone)
                continue;
            ir::BufferMode mode = kernel.buffers[b].mode;
            bool read = mode == ir::BufferMode::In || mode == ir::BufferMode::InOut;
            out.push_back({s.buffers[b], read, mode != ir::BufferMode::In});
        }
        return out;
    }
    if (!step.accesses.empty()) {
        for (const ir::ByteRange &access : step.accesses)
            out.push_back({access.buffer, !access.write, access.write});
        return out;
    }
    // Sources first, destinations last: which of a library call's are which, only its accesses tell.
    for (size_t i = 0; i < step.operands.size(); ++i)
        out.push_back({step.operands[i], i == 0 || step.kind == ir::StepKind::Library, i > 0});
    return out;
}

/// The recorded operation of a check (Segment::checks).
uint32_t blamed_node(const ir::Step &step, uint32_t segment, uint32_t source) {
    if (step.kind == ir::StepKind::Launch) {
        const std::vector<uint32_t> &checks = step.segments[segment].checks;
        if (source < checks.size() && checks[source] != ir::kNone)
            return checks[source];
    }
    return step.recorded.empty() ? ir::Failure::kNoNode : step.recorded.back();
}

} // namespace

ir::Failure failure_of(const ir::Program &program, uint32_t step, uint32_t segment, const ir::Fault &fault) {
    uint32_t node = blamed_node(program.steps[step], segment, fault.source);
    switch (static_cast<ir::FaultCode>(fault.code.load(std::memory_order_acquire))) {
    case ir::FaultCode::IndexOutOfRange:
        return {ir::ErrorKind::Index,
                fmt::format("index {} is out of range for an axis of extent {}.", fault.value, fault.limit),
                {},
                node};
    case ir::FaultCode::DivisionByZero:
        return {ir::ErrorKind::State, "an integer was divided by zero.", {}, node};
    case ir::FaultCode::OutOfMemory:
        return {ir::ErrorKind::OutOfMemory, "The system has no memory for a step's scratch.", {}, node};
    case ir::FaultCode::CallFailed:
        return {ir::ErrorKind::State, ir::call_error(fault.value), {}, node};
    case ir::FaultCode::None:
        break;
    }
    return {
        ir::ErrorKind::Internal,
        fmt::format("A kernel reported the unknown fault {}.", fault.code.load(std::memory_order_relaxed)),
        {},
        node};
}

uint32_t Blame::lose(uint32_t step, uint32_t segment, ir::Failure failure) {
    const auto number = static_cast<uint32_t>(failures_.size());
    failures_.push_back(std::move(failure));
    lose_by(step, segment, number);
    return number;
}

void Blame::lose_by(uint32_t step, uint32_t segment, uint32_t failure) {
    ir::Failure &f = failures_[failure];
    const std::vector<uint32_t> &recorded = program_.steps[step].recorded;
    if (f.node() == ir::Failure::kNoNode && !recorded.empty())
        f = ir::Failure(f.kind(), f.message(), f.loc(), recorded.back());
    mark(step, segment, static_cast<int32_t>(failure));
}

void Blame::lose_input(uint32_t param) {
    for (size_t b = 0; b < buffers_.size(); ++b)
        if (program_.buffers[b].kind == ir::BufferKind::Input && program_.buffers[b].index == param)
            buffers_[b] = kFirstInput - static_cast<int32_t>(param);
}

bool Blame::harmed(uint32_t step, uint32_t segment) {
    // A written buffer that is lost: an earlier phase of this step failed, or another part of the same value.
    for (const Use &use : uses(program_, program_.steps[step], segment))
        if (buffers_[use.buffer] != kUnharmed) {
            mark(step, segment, buffers_[use.buffer]);
            return true;
        }
    return false;
}

void Blame::mark(uint32_t step, uint32_t segment, int32_t failure) {
    for (const Use &use : uses(program_, program_.steps[step], segment))
        if (use.write && buffers_[use.buffer] == kUnharmed)
            buffers_[use.buffer] = failure;
}

RunReport Blame::report() {
    RunReport report;
    for (ir::Failure &failure : failures_)
        report.failures.push_back({std::move(failure), {}});
    for (uint32_t r = 0; r < program_.results.size(); ++r)
        if (int32_t f = buffers_[program_.results[r]]; f >= 0)
            report.failures[static_cast<size_t>(f)].results.push_back(r);
        else if (f <= kFirstInput)
            report.inherited.push_back({r, static_cast<uint32_t>(kFirstInput - f)});
    return report;
}

} // namespace lz::runtime
