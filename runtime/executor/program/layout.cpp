#include "runtime/executor/program/layout.h"

#include "ir/host/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace lz::runtime {

namespace {

uint32_t checks_of(const ir::Kernel &kernel) {
    return static_cast<uint32_t>(std::ranges::count_if(
        kernel.instrs, [](const ir::Instr &instr) { return ir::info(instr.op).cls == ir::KOpClass::Check; }));
}

template <class T>
uint64_t integer_slot(int64_t word) {
    return static_cast<uint64_t>(static_cast<int64_t>(static_cast<T>(word)));
}
uint64_t float_slot(float value) {
    return std::bit_cast<uint32_t>(value);
}

/// A runtime word of each dtype in a kernel's slot (KScalar): rounded to the dtype, then widened to the
/// slot's.
using ToSlot = uint64_t (*)(int64_t);
constexpr ToSlot kToSlot[] = {
    [](int64_t w) -> uint64_t { return w != 0; },
    integer_slot<uint8_t>,
    integer_slot<int8_t>,
    integer_slot<int16_t>,
    integer_slot<int32_t>,
    integer_slot<int64_t>,
    [](int64_t w) {
        return float_slot(ir::half_to_float(ir::float_to_half(static_cast<float>(ir::scalar_double(w)))));
    },
    [](int64_t w) {
        return float_slot(ir::bfloat_to_float(ir::float_to_bfloat(static_cast<float>(ir::scalar_double(w)))));
    },
    [](int64_t w) { return float_slot(static_cast<float>(ir::scalar_double(w))); },
    [](int64_t w) { return static_cast<uint64_t>(w); },
};
static_assert(std::size(kToSlot) == ir::kNumDTypes && static_cast<int>(ir::DType::U8) == 1 &&
                  static_cast<int>(ir::DType::I64) == 5 && static_cast<int>(ir::DType::F64) == 9,
              "rows are in the order of dtypes.def");

} // namespace

LoadedProgram::Layout::Layout(const ir::Program &program, const std::vector<ProgramKernel> &kernels,
                              const std::vector<DeviceSlot> &devices) {
    for (const ir::BufferDesc &buffer : program.buffers)
        LZ_CHECK(device_slot(buffer.device) < devices.size(), "a buffer is on a device that is not there");
    for (const ir::ArenaDesc &arena : program.arenas) {
        size_t slot = device_slot(arena.pinned ? arena.home_device : arena.device);
        LZ_CHECK(slot < devices.size(), "an arena is on a device that is not there");
        LZ_CHECK(!arena.pinned || devices[slot].pinned, "a Program wants pinned memory where there is none");
    }
    for (const DeviceSlot &device : devices)
        faults.push_back({device.backend});
    CodeTable code(devices.size(), std::vector<const LoadedKernel *>(program.kernels.size()));
    for (const ProgramKernel &k : kernels) {
        LZ_CHECK(device_slot(k.device) < devices.size() && k.kernel < program.kernels.size(),
                 "code is loaded for a kernel or a device that is not there");
        code[device_slot(k.device)][k.kernel] = &k.code;
    }
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
        size_t slot = device_slot(program.steps[s].device);
        LZ_CHECK(slot < devices.size(), fmt::format("step {} is on a device that is not there", s));
        add_step(program, s, code, devices[slot].backend);
    }
    can_fault = std::ranges::any_of(actions, [](const Action &a) { return a.faults != a.end_faults; });
    event_tracks.resize(program.num_events);
    for (const Action &action : actions)
        if (action.kind == ir::StepKind::RecordEvent && program.steps[action.step].event != ir::kNone)
            event_tracks[action.index] = action.track;
    order(program, devices);
    find_guards(program);
    find_user_streams(program);
    find_replay(program);
    find_direct(program);
}

void LoadedProgram::Layout::find_replay(const ir::Program &program) {
    using Kind = Backend::Replay::Kind;
    uint32_t copies = 0;
    std::vector<Backend::Replay::Step> found;
    for (const Action &action : actions) {
        if (action.backend != actions[0].backend || action.backend->device() == ir::kCpu ||
            ir::has_effect(program.steps[action.step]))
            return;
        switch (action.kind) {
        case ir::StepKind::Launch:
            found.push_back({Kind::Launch, action.track, action.index});
            break;
        case ir::StepKind::Library:
            found.push_back({Kind::Call, action.track, action.index});
            break;
        case ir::StepKind::Copy:
            found.push_back({Kind::Copy, action.track, copies++});
            break;
        case ir::StepKind::RecordEvent:
            found.push_back({Kind::Record, action.track, action.index});
            break;
        case ir::StepKind::WaitEvent:
            found.push_back({Kind::Wait, action.track, action.index, event_tracks[action.index]});
            break;
        case ir::StepKind::HostCallback:
            return;
        }
    }
    if (found.size() <= 1) // one step is as well issued by itself
        return;
    replay = std::move(found);
    replay_copies = copies;
    for (uint32_t a = 0; a < actions.size(); ++a)
        if (actions[a].touches != actions[a].end_touches || actions[a].waits != actions[a].end_waits)
            waiting.push_back(a);
}

uint32_t user_stream_index(const ir::Program &program, ir::StreamRef stream) {
    const auto found = std::ranges::find(program.user_streams, stream);
    return found == program.user_streams.end() ? ir::kNone
                                               : static_cast<uint32_t>(found - program.user_streams.begin());
}

void LoadedProgram::Layout::find_user_streams(const ir::Program &program) {
    const auto note = [&](std::vector<NamedByUser> &named, size_t index, ir::StreamRef stream) {
        if (const uint32_t user = user_stream_index(program, stream); user != ir::kNone)
            named.push_back({static_cast<uint32_t>(index), user});
    };
    for (size_t t = 0; t < tracks.size(); ++t)
        note(user_tracks, t, tracks[t].stream);
    for (size_t h = 0; h < homes.size(); ++h)
        note(user_homes, h, homes[h].stream);
    for (size_t a = 0; a < program.arenas.size(); ++a)
        note(user_arenas, a, {program.arenas[a].device, program.arenas[a].home});
}

void LoadedProgram::Layout::add_step(const ir::Program &program, uint32_t s, const CodeTable &code,
                                     Backend *backend) {
    const ir::Step &step = program.steps[s];
    switch (step.kind) {
    case ir::StepKind::Launch: {
        LZ_CHECK(step.kernel < program.kernels.size(),
                 fmt::format("step {} names no kernel of the Program", s));
        const LoadedKernel *const kernel = code[device_slot(step.device)][step.kernel];
        LZ_CHECK(kernel,
                 fmt::format("the kernel of step {} is not loaded for {}", s, ir::to_string(step.device)));
        add_launch(program, s, *kernel, backend);
        break;
    }
    case ir::StepKind::Library:
        add_call(program, s, backend);
        break;
    case ir::StepKind::Copy:
        LZ_CHECK(step.operands.size() == 2, fmt::format("step {} copies one buffer to another", s));
        add_action(step, s, backend, add_pointers(step.operands));
        if (!step.ints.empty())
            actions.back().skip = add_args(step.ints);
        break;
    case ir::StepKind::RecordEvent:
    case ir::StepKind::WaitEvent:
        LZ_CHECK(step.event == ir::kNone || step.event < program.num_events,
                 fmt::format("step {} names no event of the Program", s));
        add_action(step, s, backend, step.event == ir::kNone ? add_args({step.effect}) : step.event);
        break;
    case ir::StepKind::HostCallback:
        add_action(step, s, backend, add_args({step.effect}));
        break;
    }
}

void LoadedProgram::Layout::add_action(const ir::Step &step, uint32_t s, Backend *backend, uint32_t index) {
    const bool cpu = step.device == ir::kCpu;
    const ir::StreamRef stream{step.device, cpu ? ir::kHostWorkerStream : step.stream};
    cpu_only = cpu_only && cpu;
    actions.push_back({step.kind, s, backend, index, static_cast<uint32_t>(device_slot(step.device)),
                       track_of(backend, stream)});
    actions.back().settles = step.kind == ir::StepKind::Library || step.kind == ir::StepKind::Copy;
}

uint32_t LoadedProgram::Layout::track_of(Backend *backend, ir::StreamRef stream) {
    const auto found = std::ranges::find(tracks, stream, &Track::stream);
    const auto index = static_cast<uint32_t>(found - tracks.begin());
    if (found == tracks.end())
        tracks.push_back({backend, stream, {}});
    return index;
}

void LoadedProgram::Layout::add_launch(const ir::Program &program, uint32_t s, const LoadedKernel &code,
                                       Backend *backend) {
    const ir::Step &step = program.steps[s];
    const ir::Kernel &kernel = program.kernels[step.kernel];
    LZ_CHECK(code.phases.size() == kernel.phases.size(),
             fmt::format("kernel {} has {} phases and code of {}", kernel.name, kernel.phases.size(),
                         code.phases.size()));
    const auto first_frame = static_cast<uint32_t>(frames.size());
    const size_t first_action = actions.size();
    // One for each check. The first also says that a worker has no scratch. A kernel that can fail in neither
    // way has no faults, and nobody looks for them.
    const uint32_t checks = checks_of(kernel);
    has_checks = has_checks || checks > 0;
    const uint32_t each = std::max(checks, step.worker_bytes > 0 ? 1u : 0u);
    const auto slot = static_cast<uint32_t>(device_slot(step.device));
    uint32_t &next_fault = faults[slot].count;
    const uint32_t first_fault = next_fault;
    for (const ir::Segment &segment : step.segments) {
        LZ_CHECK(segment.buffers.size() == kernel.buffers.size() &&
                     segment.args.size() == kernel.args.size() &&
                     segment.scalars.size() == kernel.scalars.size() &&
                     segment.items.size() == kernel.phases.size(),
                 fmt::format("a segment of step {} does not fit kernel {}", s, kernel.name));
        uint32_t pointers = add_pointers(segment.buffers);
        uint32_t first_arg = add_args(segment.args);
        frames.push_back({pointers, first_arg, static_cast<uint32_t>(scalars.size()),
                          each > 0 ? next_fault : ir::kNone, slot, code.module->code()});
        next_fault += each;
        scalars.insert(scalars.end(), segment.scalars.begin(), segment.scalars.end());
    }
    for (size_t p = 0; p < kernel.phases.size(); ++p) {
        auto first_end = static_cast<uint32_t>(ends.size());
        int64_t items = 0;
        for (const ir::Segment &segment : step.segments)
            ends.push_back(items += segment.items[p]);
        if (items == 0) { // tensors without elements
            ends.resize(first_end);
            continue;
        }
        add_action(step, s, backend, static_cast<uint32_t>(launches.size()));
        launches.push_back(
            {code.module->entry(code.phases[p].symbol), first_frame, first_end,
             static_cast<uint32_t>(step.segments.size()), static_cast<uint32_t>(kernel.buffers.size()),
             static_cast<uint32_t>(kernel.args.size()), static_cast<uint32_t>(kernel.scalars.size()),
             step.cost, static_cast<size_t>(step.worker_bytes), step.rounds, step.bytes, step.flops,
             code.unaligned.get(), static_cast<uint32_t>(p)});
    }
    if (actions.size() == first_action)
        return;
    actions.back().settles = true;
    actions.back().faults = first_fault;
    actions.back().end_faults = next_fault;
}

void LoadedProgram::Layout::add_call(const ir::Program &program, uint32_t s, Backend *backend) {
    const ir::Step &step = program.steps[s];
    const LibraryFn function = backend->find_library(step.symbol);
    if (!function && step.symbol.starts_with(ir::kCallPrefix)) {
        const ir::Failure unknown = ir::unknown_call(step.symbol.substr(ir::kCallPrefix.size()));
        throw ir::Failure(unknown.kind(), unknown.message(), {},
                          step.recorded.empty() ? ir::Failure::kNoNode : step.recorded.back());
    }
    LZ_CHECK(function, fmt::format("step {} calls `{}`, which the library of {} does not have", s,
                                   step.symbol, ir::to_string(step.device)));
    add_action(step, s, backend, static_cast<uint32_t>(calls.size()));
    uint32_t &next_fault = faults[device_slot(step.device)].count;
    uint32_t pointers = add_pointers(step.operands);
    const uint32_t scratch = add_pointers({step.scratch});
    uint32_t first_arg = add_args(step.ints);
    const int64_t scratch_bytes = step.scratch == ir::kNone ? 0 : program.buffers[step.scratch].bytes;
    calls.push_back({function, pointers, static_cast<uint32_t>(step.operands.size()), first_arg,
                     static_cast<uint32_t>(step.ints.size()), scratch, static_cast<size_t>(scratch_bytes),
                     next_fault, step.bytes, step.flops, static_cast<uint32_t>(uses.size())});
    for (const uint32_t operand : step.operands) {
        Backend::Call::Use &use = uses.emplace_back();
        use.bytes = program.buffers[operand].bytes;
        for (const ir::ByteRange &access : step.accesses)
            if (access.buffer == operand)
                (access.write ? use.writes : use.reads) = true;
    }
    actions.back().faults = next_fault;
    actions.back().end_faults = ++next_fault;
}

uint32_t LoadedProgram::Layout::add_pointers(const std::vector<uint32_t> &buffers) {
    auto first = static_cast<uint32_t>(pointer_buffers.size());
    pointer_buffers.insert(pointer_buffers.end(), buffers.begin(), buffers.end());
    return first;
}

uint32_t LoadedProgram::Layout::add_args(const std::vector<ir::ArgSpec> &specs) {
    auto first = static_cast<uint32_t>(args.size());
    for (const ir::ArgSpec &spec : specs) {
        if (!spec.terms.empty()) {
            auto first_term = static_cast<uint32_t>(terms.size());
            terms.insert(terms.end(), spec.terms.begin(), spec.terms.end());
            patches.push_back(
                {static_cast<uint32_t>(args.size()), first_term, static_cast<uint32_t>(terms.size())});
        }
        args.push_back(spec.constant);
    }
    return first;
}

void LoadedProgram::Layout::patch_args(std::span<const int64_t> words, int64_t *to) const {
    for (const Patch &patch : patches) {
        int64_t value = args[patch.arg];
        for (uint32_t t = patch.first_term; t < patch.end_term; ++t)
            value += terms[t].coefficient * words[terms[t].word];
        to[patch.arg] = value;
    }
}

void LoadedProgram::Layout::fill_scalars(std::span<const int64_t> words, uint64_t *to) const {
    for (size_t s = 0; s < scalars.size(); ++s)
        to[s] = kToSlot[static_cast<size_t>(scalars[s].dtype)](words[scalars[s].word]);
}

} // namespace lz::runtime
