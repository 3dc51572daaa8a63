#include "runtime/executor/blame.h"

#include "ir/diagnostic.h"
#include "ir/host/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace lz::runtime {

namespace {

/// The recorded operation of a check (Segment::checks).
uint32_t blamed_node(const ir::Step &step, uint32_t segment, uint32_t source) {
    if (step.kind == ir::StepKind::Launch) {
        const std::vector<uint32_t> &checks = step.segments[segment].checks;
        if (source < checks.size() && checks[source] != ir::kNone)
            return checks[source];
    }
    return step.recorded.empty() ? ir::Failure::kNoNode : step.recorded.back();
}

bool is_result(ir::BufferMode mode) {
    return mode == ir::BufferMode::Out || mode == ir::BufferMode::InOut;
}

/// By what a value is lost whose sources are lost so: by the failure that was found first.
int32_t reason(const ir::KernelFlow::Sources &sources, std::span<const int32_t> lost) {
    int32_t found = -1;
    for (size_t s = 0; s < lost.size(); ++s)
        if (sources[s] && lost[s] != -1 && (found < 0 || (lost[s] >= 0 && lost[s] < found)))
            found = lost[s];
    return found;
}

} // namespace

std::vector<BufferUse> uses_of(const ir::Program &program, const ir::Step &step, uint32_t segment) {
    std::vector<BufferUse> out;
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

bool share_memory(const ir::Program &program, uint32_t a, uint32_t b) {
    const auto place = [&](uint32_t index) {
        const ir::BufferDesc *buffer = &program.buffers[index];
        if (buffer->kind == ir::BufferKind::Result && buffer->donor >= 0)
            buffer = &program.buffers[static_cast<size_t>(buffer->donor)];
        const bool arena = buffer->kind == ir::BufferKind::Arena;
        return std::tuple(buffer->kind, arena ? buffer->arena : buffer->index, arena ? buffer->offset : 0);
    };
    return place(a) == place(b);
}

ir::Failure failure_of(const ir::Program &program, uint32_t step, uint32_t segment, const ir::Fault &fault) {
    const auto code = static_cast<ir::FaultCode>(fault.code.load(std::memory_order_acquire));
    const bool check = code == ir::FaultCode::IndexOutOfRange || code == ir::FaultCode::DivisionByZero;
    const uint32_t node =
        blamed_node(program.steps[step], segment, check ? fault.source : ir::Failure::kNoNode);
    switch (code) {
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

Blame::Blame(const ir::Program &program)
    : program_(&program), buffers_(program.buffers.size(), kUnharmed),
      same_as_(program.buffers.size(), ir::kNone) {
    for (const ir::Step &step : program.steps) {
        if (step.kind != ir::StepKind::Launch || std::ranges::any_of(step.segments, [](const ir::Segment &s) {
                return std::ranges::any_of(s.items, [](int64_t items) { return items > 0; });
            }))
            continue;
        for (const ir::ByteRange &to : step.accesses)
            for (const ir::ByteRange &from : step.accesses)
                if (to.write && !from.write && to.buffer != from.buffer &&
                    share_memory(program, to.buffer, from.buffer))
                    same_as_[to.buffer] = from.buffer;
    }
}

int32_t Blame::loss(uint32_t buffer) const {
    while (buffers_[buffer] == kUnharmed && same_as_[buffer] != ir::kNone)
        buffer = same_as_[buffer];
    return buffers_[buffer];
}

uint32_t Blame::number_of(ir::Failure failure) {
    // Several checks may stand for one operation: it fails once.
    const auto same = std::ranges::find_if(failures_, [&](const ir::Failure &f) {
        return f.node() != ir::Failure::kNoNode && f.node() == failure.node() && f.kind() == failure.kind();
    });
    const auto number = static_cast<uint32_t>(same - failures_.begin());
    if (number == failures_.size())
        failures_.push_back(std::move(failure));
    return number;
}

uint32_t Blame::lose(uint32_t step, uint32_t segment, ir::Failure failure) {
    const auto number = static_cast<uint32_t>(failures_.size());
    failures_.push_back(std::move(failure));
    lose_by(step, segment, number);
    return number;
}

void Blame::lose_by(uint32_t step, uint32_t segment, uint32_t failure) {
    ir::Failure &f = failures_[failure];
    const std::vector<uint32_t> &recorded = program_->steps[step].recorded;
    if (f.node() == ir::Failure::kNoNode && !recorded.empty())
        f = ir::Failure(f.kind(), f.message(), f.loc(), recorded.back());
    mark(step, segment, static_cast<int32_t>(failure));
}

void Blame::lose_result(uint32_t result, uint32_t failure) {
    buffers_[program_->results[result]] = static_cast<int32_t>(failure);
}

void Blame::lose_input(uint32_t param) {
    for (size_t b = 0; b < buffers_.size(); ++b)
        if (program_->buffers[b].kind == ir::BufferKind::Input && program_->buffers[b].index == param)
            buffers_[b] = kFirstInput - static_cast<int32_t>(param);
}

const ir::KernelFlow &Blame::flow(uint32_t kernel) {
    const auto [known, is_new] = flows_.try_emplace(kernel);
    if (is_new)
        known->second = ir::flow_of(program_->kernels[kernel]);
    return known->second;
}

/// By source of the kernel's flow: by what it is lost. Checks have not failed yet.
std::vector<int32_t> Blame::lost_operands(const ir::Step &step, const ir::Segment &segment) const {
    const ir::Kernel &kernel = program_->kernels[step.kernel];
    std::vector<int32_t> lost(segment.buffers.size(), kUnharmed);
    for (size_t b = 0; b < lost.size(); ++b) {
        const uint32_t buffer = segment.buffers[b];
        const ir::BufferMode mode = kernel.buffers[b].mode;
        if (buffer == ir::kNone || (mode != ir::BufferMode::In && mode != ir::BufferMode::InOut))
            continue;
        lost[b] = loss(buffer);
        if (mode == ir::BufferMode::In)
            continue;
        // The value that is updated in place is a buffer of its own in the same memory.
        for (const ir::ByteRange &access : step.accesses)
            if (!access.write && lost[b] == kUnharmed && share_memory(*program_, access.buffer, buffer))
                lost[b] = loss(access.buffer);
    }
    return lost;
}

bool Blame::harmed(uint32_t s, uint32_t segment) {
    const ir::Step &step = program_->steps[s];
    if (step.kind != ir::StepKind::Launch)
        // A written buffer that is lost: another part of the same value failed.
        return std::ranges::any_of(uses_of(*program_, step, segment),
                                   [&](const BufferUse &use) { return loss(use.buffer) != kUnharmed; });
    const ir::KernelFlow &flow = this->flow(step.kernel);
    const ir::Segment &part = step.segments[segment];
    const std::vector<int32_t> lost = lost_operands(step, part);
    for (size_t b = 0; b < part.buffers.size(); ++b)
        if (is_result(program_->kernels[step.kernel].buffers[b].mode) && part.buffers[b] != ir::kNone &&
            loss(part.buffers[b]) == kUnharmed && reason(flow.stored[b], lost) == kUnharmed)
            return false;
    return true;
}

void Blame::settle(uint32_t s, std::span<ir::Fault> faults) {
    const ir::Step &step = program_->steps[s];
    const size_t segments = std::max<size_t>(step.segments.size(), 1);
    const size_t each = faults.size() / segments;
    const auto unfinished = std::ranges::find_if(faults, [](const ir::Fault &fault) {
        return fault.code.load(std::memory_order_acquire) == static_cast<int32_t>(ir::FaultCode::OutOfMemory);
    });
    for (uint32_t segment = 0; segment < segments; ++segment)
        if (step.kind == ir::StepKind::Launch)
            settle_segment(s, segment,
                           unfinished == faults.end() ? faults.subspan(segment * each, each)
                                                      : std::span<ir::Fault>());
        else
            settle_call(s, faults);
    if (step.kind == ir::StepKind::Launch && unfinished != faults.end()) {
        const uint32_t number = number_of(failure_of(*program_, s, 0, *unfinished));
        for (uint32_t segment = 0; segment < segments; ++segment)
            lose_by(s, segment, number);
    }
    for (ir::Fault &fault : faults)
        fault.code.store(0, std::memory_order_relaxed);
}

void Blame::settle_segment(uint32_t s, uint32_t segment, std::span<const ir::Fault> faults) {
    const ir::Step &step = program_->steps[s];
    const ir::KernelFlow &flow = this->flow(step.kernel);
    const ir::Segment &part = step.segments[segment];
    std::vector<int32_t> lost = lost_operands(step, part);
    lost.resize(lost.size() + flow.checks.size(), kUnharmed);
    std::vector<const ir::Fault *> failed(flow.checks.size());
    for (const ir::Fault &fault : faults) {
        if (fault.code.load(std::memory_order_acquire) == 0)
            continue;
        LZ_CHECK(fault.source < failed.size(), "a fault names no check of its kernel");
        failed[fault.source] = &fault;
    }
    for (size_t c = 0; c < failed.size(); ++c) {
        if (!failed[c])
            continue;
        int32_t &mine = lost[flow.buffers + c];
        mine = reason(flow.checks[c], lost);
        if (mine == kUnharmed) // else what it found in lost operands is no fault of its own
            mine = static_cast<int32_t>(number_of(failure_of(*program_, s, segment, *failed[c])));
    }
    for (size_t b = 0; b < part.buffers.size(); ++b)
        if (part.buffers[b] != ir::kNone && flow.written[b] && buffers_[part.buffers[b]] == kUnharmed)
            buffers_[part.buffers[b]] = reason(flow.stored[b], lost);
}

void Blame::settle_call(uint32_t s, std::span<const ir::Fault> faults) {
    for (const BufferUse &use : uses_of(*program_, program_->steps[s], 0))
        if (const int32_t lost = loss(use.buffer); lost != kUnharmed)
            return mark(s, 0, lost);
    for (const ir::Fault &fault : faults)
        if (fault.code.load(std::memory_order_acquire) != 0)
            lose(s, 0, failure_of(*program_, s, 0, fault));
}

void Blame::forget_failures() {
    for (int32_t &lost : buffers_)
        if (lost != kUnharmed)
            lost = kReported;
    failures_.clear();
}

void Blame::mark(uint32_t step, uint32_t segment, int32_t failure) {
    for (const BufferUse &use : uses_of(*program_, program_->steps[step], segment))
        if (use.write && buffers_[use.buffer] == kUnharmed)
            buffers_[use.buffer] = failure;
}

RunReport Blame::report() {
    RunReport report;
    for (ir::Failure &failure : failures_)
        report.failures.push_back({std::move(failure), {}});
    for (uint32_t r = 0; r < program_->results.size(); ++r)
        if (int32_t f = loss(program_->results[r]); f >= 0)
            report.failures[static_cast<size_t>(f)].results.push_back(r);
        else if (f <= kFirstInput)
            report.inherited.push_back({r, static_cast<uint32_t>(kFirstInput - f)});
    return report;
}

} // namespace lz::runtime
