#include "runtime/executor/program/run.h"

#include "runtime/executor/user_event.h"
#include "runtime/profiler/nvtx.h"
#include "runtime/profiler/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>

namespace lz::runtime {

namespace {

const char *category(ir::StepKind kind) {
    constexpr const char *kNames[] = {"kernel",       "library",    "copy",
                                      "record event", "wait event", "host callback"};
    return kNames[static_cast<size_t>(kind)];
}

bool is_work(ir::StepKind kind) {
    return kind == ir::StepKind::Launch || kind == ir::StepKind::Library || kind == ir::StepKind::Copy;
}

bool may_be_made_again(const ir::Failure &failure) {
    return failure.kind() == ir::ErrorKind::Device || failure.kind() == ir::ErrorKind::Cuda ||
           failure.kind() == ir::ErrorKind::OutOfMemory;
}

template <class T>
T *pointed_at(int64_t word) {
    return reinterpret_cast<T *>(static_cast<intptr_t>(word)); // NOLINT(performance-no-int-to-ptr)
}

} // namespace

LoadedProgram::Run::Run(const LoadedProgram &loaded, State &state, const Bindings &bindings, bool on_streams)
    : loaded_(loaded), program_(loaded.program_), layout_(*loaded.layout_), state_(state),
      bindings_(bindings), on_streams_(on_streams), profiling_(profiling()), listened_(nvtx_listens()),
      may_replay_(on_streams && !layout_.replay.empty() && !profiling_) {}

bool LoadedProgram::Run::is_shown() {
    return profiling() || nvtx_listens();
}

RunReport LoadedProgram::Run::from(size_t next, uint32_t put) {
    std::optional<NvtxRange> range;
    if (listened_) [[unlikely]]
        range.emplace(program_.name);
    if (!may_replay_ || goes_on_)
        bind();
    if (on_streams_)
        start();
    struct Ending {
        ~Ending() {
            if (run.on_streams_)
                run.end();
            else if (!whole) // a later run of the state finds none
                run.state_.clear_faults();
        }
        Run &run;
        bool whole = false;
    } ending{*this};
    RunReport report = issue(next, put);
    ending.whole = true;
    return report;
}

void LoadedProgram::Run::bind() {
    if (!std::exchange(bound_, true))
        state_.bind(program_, layout_, bindings_);
}

RunReport LoadedProgram::Run::issue(size_t next, uint32_t put) {
    const auto &actions = layout_.actions;
    may_replay_ = may_replay_ && !goes_on_;
    while (next < actions.size()) {
        try {
            if (put > 0) [[unlikely]] {
                perform_rest(actions[next], std::exchange(put, 0));
                ++next;
            }
            if (refused_) [[unlikely]] {
                launch_refused(actions[next]);
                ++next;
            }
            if (std::exchange(may_replay_, false))
                replay(next);
            if (next < actions.size())
                bind();
            // The steady path: nothing has failed.
            for (; next < actions.size() && !blame_; ++next) {
                const Layout::Action &action = actions[next];
                if (on_streams_)
                    wait_for_others(action);
                if (profiling_ || listened_) [[unlikely]]
                    perform_shown(action);
                else if (action.kind == ir::StepKind::Launch) [[likely]]
                    launch(action, state_.launches[action.index]);
                else
                    perform(action);
                if (action.faults != action.end_faults)
                    check(action);
            }
            for (; next < actions.size(); ++next) {
                if (on_streams_)
                    wait_for_others(actions[next]);
                perform_unharmed(actions[next]);
            }
        } catch (const ir::Failure &failure) {
            if (stops(next, failure))
                return {};
            fail(actions[next++], failure);
        } catch (const std::bad_alloc &) { // scratch of a library call
            fail(actions[next++],
                 ir::Failure(ir::ErrorKind::OutOfMemory, "The system has no memory for a step's scratch."));
        }
    }
    if (!blame_)
        return {};
    RunReport report = blame_->report();
    note_overwritten(report);
    blame_->forget_failures();
    return report;
}

void LoadedProgram::Run::start() {
    for (size_t h = 0; h < layout_.homes.size(); ++h)
        state_.home_ticks[h] = layout_.homes[h].backend->record(state_.homes[h].stream);
    // Makes streams that are not there yet, which may fail; so that their ends are there to be had.
    for (size_t t = 0; t < layout_.tracks.size(); ++t)
        state_.end_ticks[t] = layout_.tracks[t].backend->record(state_.tracks[t].stream);
    if (profiling_) {
        arrows_.resize(layout_.tracks.size());
        first_arrow_ = profile_arrow();
        for (uint32_t e = 1; e < program_.num_events; ++e)
            profile_arrow();
    }
}

ir::MemoryUse *LoadedProgram::Run::use_of(uint32_t memory) const {
    const auto &uses = memory < layout_.num_params ? bindings_.input_uses : bindings_.result_uses;
    const uint32_t index = memory < layout_.num_params ? memory : memory - layout_.num_params;
    return index < uses.size() ? uses[index] : nullptr;
}

/// From here on what was issued has ends that memory waits for. Where the host has no memory to note one,
/// this waits for it here and now.
void LoadedProgram::Run::end() noexcept {
    for (size_t t = 0; t < layout_.tracks.size(); ++t)
        state_.end_ticks[t] = layout_.tracks[t].backend->record(state_.tracks[t].stream);
    state_.noted.assign(state_.noted.size(), false);
    const auto tracks = static_cast<uint32_t>(layout_.tracks.size());
    for (uint32_t t = 0; t < tracks; ++t)
        try {
            if (bindings_.ends)
                bindings_.ends->push_back({state_.tracks[t], state_.end_ticks[t]});
        } catch (const std::bad_alloc &) {
            wait_for_track(t);
        }
    // A memory's first writer of this run supersedes what was; reads of the others come after.
    for (const bool write : {true, false})
        for (uint32_t t = 0; t < tracks; ++t)
            try {
                note_uses(t, write);
            } catch (const std::bad_alloc &) {
                wait_for_track(t);
            }
}

void LoadedProgram::Run::note_uses(uint32_t track, bool write) {
    const ir::Point end{state_.tracks[track], state_.end_ticks[track]};
    for (const Layout::Touch &touch : layout_.tracks[track].uses) {
        ir::MemoryUse *const use = touch.write == write ? use_of(touch.memory) : nullptr;
        if (!use)
            continue;
        if (!write) {
            use->read(end);
        } else if (state_.noted[touch.memory]) {
            use->also_written(end);
        } else {
            use->written(end);
            state_.noted[touch.memory] = true;
        }
    }
}

void LoadedProgram::Run::wait_for_track(uint32_t track) noexcept {
    try {
        layout_.tracks[track].backend->synchronize(state_.tracks[track].stream, state_.end_ticks[track]);
    } catch (...) { // a lost device has done with it, too
    }
}

/// Before the first use of memory on a stream: what earlier runs do with it, and the order that it was taken
/// in.
void LoadedProgram::Run::wait_for_others(const Layout::Action &action) {
    if (waited_)
        return;
    ordering_ = true;
    for (uint32_t w = action.waits; w < action.end_waits; ++w) {
        const uint32_t h = layout_.home_waits[w];
        wait_for(action, *layout_.homes[h].backend, state_.homes[h], state_.home_ticks[h]);
    }
    for (uint32_t i = action.touches; i < action.end_touches; ++i) {
        const Layout::Touch &touch = layout_.touches[i];
        const ir::MemoryUse *const use = use_of(touch.memory);
        if (!use)
            continue;
        state_.points.clear(); // copied, because a wait may block while the stream is full
        use->for_each(touch.write, [&](const Point &p) { state_.points.push_back(p); });
        for (const Point &p : state_.points)
            wait_for(action, *loaded_.devices_[device_slot(p.stream.device)].backend, p.stream, p.tick);
    }
    ordering_ = false;
}

void LoadedProgram::Run::wait_for(const Layout::Action &action, Backend &backend, ir::StreamRef stream,
                                  uint64_t tick) {
    if (stream != state_.tracks[action.track])
        order_after(action, backend, stream.stream, tick);
}

/// The action's stream waits for a moment of another one. Where that is refused for good the host does:
/// without the order, whoever waits for this stream would come too early as well.
void LoadedProgram::Run::order_after(const Layout::Action &action, Backend &other, StreamId of,
                                     uint64_t tick) {
    try {
        with_retry(action, [&] { action.backend->wait(stream_of(action), other, of, tick); });
    } catch (const ir::Failure &failure) {
        if (!may_be_made_again(failure))
            throw;
        other.synchronize(of, tick);
    }
}

// --- calls that the device refuses

/// What a driver refuses for lack of memory or of something else that work in flight has, it may take a
/// little later. (A device that is lost refuses again; a profiled call may have been refused after its work.)
bool LoadedProgram::Run::is_retryable(const ir::Failure &failure) const {
    return !profiling_ && may_be_made_again(failure);
}

/// What was put on the stream is over, and memory that nobody uses is the driver's again. False: the device
/// is lost, and refuses the call again.
bool LoadedProgram::Run::drain(const Layout::Action &action) noexcept {
    try {
        if (on_streams_)
            action.backend->synchronize(stream_of(action), action.backend->record(stream_of(action)));
        loaded_.devices_[action.slot].allocator->empty_cache();
        return true;
    } catch (...) {
        return false;
    }
}

/// Makes a call to the backend, and once more if it is refused. Steps before it may have changed tensors in
/// place: a training step that can be finished leaves no tensor behind the others (S26). For calls that have
/// done nothing when they throw, or that may be done twice.
template <class F>
void LoadedProgram::Run::with_retry(const Layout::Action &action, F &&call) {
    try {
        call();
        return;
    } catch (const ir::Failure &failure) {
        if (!is_retryable(failure))
            throw;
    }
    drain(action);
    call();
}

/// After a launch that was refused: as `with_retry`, from the first segment on that was not put.
void LoadedProgram::Run::launch_rest(const Layout::Action &action, const Backend::Launch &whole,
                                     const ir::Failure &failure) {
    if (!is_retryable(failure))
        throw; // NOLINT: what is being handled
    const uint32_t put = std::min(state_.segments_put, whole.segments - 1);
    drain(action);
    launch_from(action, whole, put);
}

/// A launch that was refused before this run: as if this one had made it.
void LoadedProgram::Run::launch_refused(const Layout::Action &action) {
    const Refused &refused = *std::exchange(refused_, nullptr);
    state_.segments_put = refused.put_segments;
    try {
        std::rethrow_exception(refused.why);
    } catch (const ir::Failure &failure) {
        launch_rest(action, state_.launches[action.index], failure);
    }
}

/// All segments but the first `put`.
void LoadedProgram::Run::launch_from(const Layout::Action &action, const Backend::Launch &whole,
                                     uint32_t put) {
    segments_put_ = put;
    std::vector<int64_t> ends(whole.ends + put, whole.ends + whole.segments);
    for (int64_t &end : ends)
        end -= put ? whole.ends[put - 1] : 0;
    Backend::Launch rest = whole;
    rest.frames += put;
    rest.ends = ends.data();
    rest.segments -= put;
    state_.segments_put = 0;
    try {
        action.backend->launch(rest, stream_of(action));
    } catch (...) {
        segments_put_ = put + state_.segments_put;
        throw;
    }
    segments_put_ = 0;
}

/// As `with_retry`, but for a function that may have changed in part what it would read again.
void LoadedProgram::Run::call(const Layout::Action &action, OnDone done) {
    const Backend::Call call = call_of(action);
    try {
        action.backend->call(call, stream_of(action), std::move(done));
        return;
    } catch (const ir::Failure &failure) {
        if (!is_retryable(failure))
            throw;
        for (size_t a = 0; a < call.uses.size(); ++a)
            for (size_t b = 0; b < call.uses.size(); ++b)
                if (call.uses[a].writes && call.uses[b].reads &&
                    call.args.buffers[a] == call.args.buffers[b]) {
                    once_ = true;
                    throw;
                }
    }
    drain(action);
    action.backend->call(call, stream_of(action));
}

void LoadedProgram::Run::perform(const Layout::Action &action, OnDone done) {
    switch (action.kind) {
    case ir::StepKind::Launch:
        if (done)
            action.backend->launch(state_.launches[action.index], stream_of(action), std::move(done));
        else
            launch(action, state_.launches[action.index]);
        break;
    case ir::StepKind::Library:
        call(action, std::move(done));
        break;
    case ir::StepKind::Copy:
        with_retry(action, [&, copy = copy_of(action)] {
            action.backend->copy(copy.to, copy.from, copy.bytes, stream_of(action), std::move(done));
        });
        break;
    case ir::StepKind::RecordEvent:
        record(action);
        break;
    case ir::StepKind::WaitEvent:
        wait(action);
        break;
    case ir::StepKind::HostCallback:
        action.backend->call_host(stream_of(action),
                                  pointed_at<UserCallback>(state_.args[action.index])->function);
        break;
    }
}

Backend::Call LoadedProgram::Run::call_of(const Layout::Action &action) {
    const Layout::Call &call = layout_.calls[action.index];
    return {call.function,
            {.buffers = {state_.pointers.data() + call.pointers, call.num_pointers},
             .ints = {state_.args.data() + call.args, call.num_args},
             .fault = &state_.faults[action.slot].all()[call.fault],
             .scratch = {static_cast<std::byte *>(state_.pointers[call.scratch]), call.scratch_bytes},
             .stream = {program_.steps[action.step].device, stream_of(action)}},
            call.bytes,
            call.flops,
            {layout_.uses.data() + call.uses, call.num_pointers}};
}

Backend::Copy LoadedProgram::Run::copy_of(const Layout::Action &action) const {
    const ir::CopyRange &range = program_.steps[action.step].copy;
    void *const *pointers = state_.pointers.data() + action.index;
    const int64_t skip = action.skip == ir::kNone ? 0 : state_.args[action.skip];
    return {static_cast<char *>(pointers[1]) + range.to_begin,
            static_cast<char *>(pointers[0]) + range.from_begin + skip, static_cast<size_t>(range.bytes)};
}

void LoadedProgram::Run::record(const Layout::Action &action) {
    if (program_.steps[action.step].event != ir::kNone) {
        state_.event_ticks[action.index] = action.backend->record(stream_of(action));
        return;
    }
    auto *const event = pointed_at<UserEvent>(state_.args[action.index]);
    UserEvent::Moment moment;
    moment.backend = action.backend;
    if (event->timing())
        moment.time = action.backend->record_time(stream_of(action));
    moment.point = {{program_.steps[action.step].device, stream_of(action)},
                    action.backend->record(stream_of(action))};
    event->set(std::move(moment));
}

void LoadedProgram::Run::wait(const Layout::Action &action) {
    ordering_ = true;
    wait_in_order(action);
    ordering_ = false;
}

void LoadedProgram::Run::wait_in_order(const Layout::Action &action) {
    if (program_.steps[action.step].event != ir::kNone) {
        if (!on_streams_)
            return;
        const uint32_t from = layout_.event_tracks[action.index];
        order_after(action, *layout_.tracks[from].backend, state_.tracks[from].stream,
                    state_.event_ticks[action.index]);
        return;
    }
    const UserEvent::Moment moment = pointed_at<UserEvent>(state_.args[action.index])->get();
    if (moment.backend) // an event that was never recorded has happened, as in CUDA
        order_after(action, *moment.backend, moment.point.stream.stream, moment.point.tick);
}

void LoadedProgram::Run::perform_shown(const Layout::Action &action) {
    std::optional<NvtxRange> range;
    if (listened_ && is_work(action.kind)) {
        const ir::Step &step = program_.steps[action.step];
        range.emplace(step.label.empty() ? step.symbol : step.label);
    }
    if (profiling_)
        perform_profiled(action);
    else
        perform(action);
}

/// The event's times are those of the work, wherever and whenever it runs.
void LoadedProgram::Run::perform_profiled(const Layout::Action &action) {
    const ir::Step &step = program_.steps[action.step];
    if (!is_work(action.kind)) {
        if (on_streams_ && step.event != ir::kNone && action.kind == ir::StepKind::WaitEvent)
            arrows_[action.track].push_back(first_arrow_ + step.event);
        perform(action);
        return;
    }
    ProfileEvent event;
    event.name = step.label.empty() ? step.symbol : step.label;
    event.category = category(step.kind);
    event.device = step.device;
    event.track = stream_of(action);
    event.args.emplace_back("program", program_.name);
    if (step.kind == ir::StepKind::Launch) {
        const Backend::Launch &launch = state_.launches[action.index];
        event.args.emplace_back("kernel", program_.kernels[step.kernel].name);
        event.args.emplace_back("work items", fmt::format("{}", launch.items()));
        event.args.emplace_back("segments", fmt::format("{}", launch.segments));
    }
    if (step.bytes != 0)
        event.args.emplace_back("bytes", fmt::format("{}", step.bytes));
    std::string lines;
    for (uint32_t recorded : step.recorded)
        if (recorded < bindings_.lines.size())
            lines += (lines.empty() ? "" : ", ") + ir::to_string(bindings_.lines[recorded]);
    if (!lines.empty())
        event.args.emplace_back("lines", lines);
    if (on_streams_) {
        event.arrows_in = std::exchange(arrows_[action.track], {});
        // The records that follow on this stream are drawn from here.
        for (const Layout::Action *next = &action + 1;
             next != layout_.actions.data() + layout_.actions.size(); ++next) {
            if (next->track != action.track)
                continue;
            const ir::Step &s = program_.steps[next->step];
            if (next->kind != ir::StepKind::RecordEvent)
                break;
            if (s.event != ir::kNone)
                event.arrows_out.push_back(first_arrow_ + s.event);
        }
    }
    perform(action, [event = std::move(event)](const TimeSpan &span) mutable {
        event.begin = span.begin;
        event.end = span.end;
        record_event(std::move(event));
    });
}

/// Looks for faults of the step that has just run. On streams that is the flight's business.
void LoadedProgram::Run::check(const Layout::Action &action) {
    if (on_streams_)
        return;
    for (const ir::Fault &fault : state_.faults_of(action))
        if (fault.code.load(std::memory_order_relaxed) != 0) [[unlikely]] {
            settle(action);
            return;
        }
}

void LoadedProgram::Run::settle(const Layout::Action &action) {
    if (!action.settles)
        return;
    blame().settle(action.step, on_streams_ ? std::span<ir::Fault>() : state_.faults_of(action));
}

/// All segments of the action's step are lost but those that were put before it was refused.
void LoadedProgram::Run::fail(const Layout::Action &action, const ir::Failure &failure) {
    gave_up_ = goes_on_;
    uint32_t first = std::exchange(segments_put_, 0);
    if (first >= program_.steps[action.step].segments.size()) // something failed after all of it
        first = 0;
    const uint32_t number =
        blame().lose(action.step, first,
                     ir::Failure(failure.kind(), failure.message(), failure.loc(), ir::Failure::kNoNode));
    lose_by(action, number, first);
    // A stream that could not be told to wait does no more work in this run.
    if (std::exchange(ordering_, false) && on_streams_) {
        unordered_.resize(layout_.tracks.size());
        unordered_[action.track] = number;
    }
    keep_together(action, first, number);
    if (!on_streams_)
        for (ir::Fault &fault : state_.faults_of(action))
            fault.code.store(0, std::memory_order_relaxed);
}

void LoadedProgram::Run::lose_by(const Layout::Action &action, uint32_t failure, uint32_t first) {
    const size_t segments = std::max<size_t>(program_.steps[action.step].segments.size(), 1);
    for (uint32_t segment = first; segment < segments; ++segment)
        blame_->lose_by(action.step, segment, failure);
}

/// As perform and check, once something has failed: leaves out what is of no use any more, segment by
/// segment.
void LoadedProgram::Run::perform_unharmed(const Layout::Action &action, uint32_t first) {
    const ir::Step &step = program_.steps[action.step];
    const bool unordered = !unordered_.empty() && unordered_[action.track];
    if (unordered && (is_work(step.kind) || step.kind == ir::StepKind::HostCallback)) {
        lose_by(action, *unordered_[action.track]);
        return;
    }
    if (!is_work(step.kind)) {
        perform(action);
        return;
    }
    if (step.kind != ir::StepKind::Launch) {
        if (!blame_->harmed(action.step, 0)) {
            perform(action);
            note_put(action, 0);
        }
        settle(action);
        return;
    }
    const Backend::Launch &whole = state_.launches[action.index];
    for (uint32_t segment = first; segment < whole.segments; ++segment) {
        if (blame_->harmed(action.step, segment))
            continue;
        int64_t items = whole.ends[segment] - (segment ? whole.ends[segment - 1] : 0);
        Backend::Launch one = whole;
        one.frames += segment;
        one.ends = &items;
        one.segments = 1;
        if (items == 0)
            continue;
        try {
            launch(action, one);
        } catch (...) {
            settle(action); // those before were put, or are lost with what they read
            segments_put_ = segment;
            throw;
        }
        note_put(action, segment);
    }
    settle(action);
}

Blame &LoadedProgram::Run::blame() {
    if (!blame_)
        blame_.emplace(program_);
    return *blame_;
}

} // namespace lz::runtime
