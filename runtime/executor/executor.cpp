#include "runtime/executor/executor.h"

#include "ir/host/float_environment.h"
#include "runtime/api/parallel.h"
#include "runtime/executor/program/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace lz::runtime {

/// Arenas of one run: from the cache before its first launch, back when everything has been issued (S55), or
/// as much of it as could be, to be given out again when the streams that use them have passed its end.
class LoadedProgram::Arenas {
public:
    /// `on_streams`: the ends of what has been issued are in the state when this is destroyed.
    Arenas(const LoadedProgram &loaded, State &state, bool on_streams)
        : loaded_(loaded), state_(state), on_streams_(on_streams) {
        const auto &arenas = loaded.program_.arenas;
        try {
            for (; count_ < arenas.size(); ++count_) {
                const ir::ArenaDesc &arena = arenas[count_];
                state.arenas[count_] = nullptr;
                if (arena.bytes > 0)
                    state.arenas[count_] = allocator(arena).allocate(static_cast<size_t>(arena.bytes),
                                                                     state.arena_homes[count_]);
            }
        } catch (...) {
            release();
            throw;
        }
    }
    Arenas(Arenas &&other) noexcept
        : loaded_(other.loaded_), state_(other.state_), count_(std::exchange(other.count_, 0)),
          on_streams_(other.on_streams_) {}
    Arenas &operator=(Arenas &&) = delete;
    ~Arenas() { release(); }

private:
    CachingAllocator &allocator(const ir::ArenaDesc &arena) const {
        return arena.pinned ? *loaded_.devices_[device_slot(arena.home_device)].pinned
                            : *loaded_.devices_[device_slot(arena.device)].allocator;
    }

    void release() noexcept {
        for (size_t a = 0; a < count_; ++a) {
            if (!state_.arenas[a])
                continue;
            const ir::ArenaDesc &arena = loaded_.program_.arenas[a];
            state_.guards.clear();
            if (on_streams_)
                for (const uint32_t t : loaded_.layout_->arena_tracks[a]) {
                    const ir::StreamRef stream = state_.tracks[t];
                    if (stream != ir::StreamRef{arena.device, state_.arena_homes[a]})
                        state_.guards.push_back(
                            {loaded_.layout_->tracks[t].backend, stream.stream, state_.end_ticks[t]});
                }
            allocator(arena).free(state_.arenas[a], state_.guards);
        }
    }

    const LoadedProgram &loaded_;
    State &state_;
    size_t count_ = 0;
    const bool on_streams_;
};

/// A State that goes back to the pool.
class LoadedProgram::Taken {
public:
    explicit Taken(const LoadedProgram &loaded) : pool_(*loaded.states_), state_(pool_.take()) {
        if (!state_)
            state_ = new State(loaded.program_, *loaded.layout_);
    }
    Taken(Taken &&other) noexcept : pool_(other.pool_), state_(std::exchange(other.state_, nullptr)) {}
    Taken &operator=(Taken &&) = delete;
    ~Taken() {
        if (state_)
            pool_.give_back(state_);
    }
    State &operator*() const { return *state_; }
    State *operator->() const { return state_; }

private:
    StatePool &pool_;
    State *state_;
};

/// Keeps the state of a run, in which faults may still appear.
class LoadedProgram::Flight final : public ir::Flight {
public:
    /// Made before the first launch, so that there is somebody to wait whatever fails after it.
    Flight(const LoadedProgram &loaded, Taken state)
        : keep_(loaded.weak_from_this().lock()), loaded_(loaded), state_(std::move(state)) {}
    /// What failed when it was issued.
    void issued(std::optional<Blame> blame) { issued_ = std::move(blame); }
    /// Nobody asked how it ended; the state must be quiet before another run has it.
    ~Flight() override {
        if (finished_)
            return;
        const auto &tracks = loaded_.layout_->tracks;
        for (size_t t = 0; t < tracks.size(); ++t)
            try {
                tracks[t].backend->synchronize(state_->tracks[t].stream, state_->end_ticks[t]);
            } catch (...) { // a lost device: nothing runs on it any more
            }
        state_->clear_faults();
    }

    bool done() override {
        const auto &tracks = loaded_.layout_->tracks;
        for (size_t t = 0; t < tracks.size(); ++t)
            try {
                if (tracks[t].backend->pending(state_->tracks[t].stream, state_->end_ticks[t]))
                    return false;
            } catch (const ir::Failure &) {
                // The device is lost, and this has passed: finish says so.
            }
        return true;
    }

    void wait() override {
        const auto &tracks = loaded_.layout_->tracks;
        for (size_t t = 0; t < tracks.size(); ++t)
            try {
                tracks[t].backend->synchronize(state_->tracks[t].stream, state_->end_ticks[t]);
            } catch (const ir::Failure &failure) {
                if (!lost(tracks[t].backend))
                    lost_.push_back({tracks[t].backend, failure, {}});
            }
    }

    RunReport finish(std::span<const uint32_t> lost_inputs) override {
        wait();
        Blame blame = issued_ ? std::move(*issued_) : Blame(loaded_.program_);
        for (const uint32_t input : lost_inputs)
            blame.lose_input(input);
        for (const Layout::Action &action : loaded_.layout_->actions)
            look_at(action, blame);
        RunReport report = blame.report();
        finished_ = true;
        return report;
    }

private:
    /// A device that is lost, and with it what this run did there.
    struct Lost {
        Backend *backend;
        ir::Failure failure;
        std::optional<uint32_t> number; ///< of the failure in the blame
    };
    Lost *lost(const Backend *backend) {
        const auto found = std::ranges::find(lost_, backend, &Lost::backend);
        return found == lost_.end() ? nullptr : &*found;
    }

    void look_at(const Layout::Action &action, Blame &blame) {
        if (action.settles)
            blame.settle(action.step, state_->faults_of(action));
        Lost *const device = lost(action.backend);
        if (!device)
            return;
        const size_t segments = std::max<size_t>(loaded_.program_.steps[action.step].segments.size(), 1);
        for (uint32_t segment = 0; segment < segments; ++segment) {
            if (blame.harmed(action.step, segment))
                continue;
            if (!device->number)
                device->number = blame.lose(action.step, segment, device->failure);
            blame.lose_by(action.step, segment, *device->number);
        }
    }

    const std::shared_ptr<const LoadedProgram> keep_; // goes last
    const LoadedProgram &loaded_;
    Taken state_;
    std::optional<Blame> issued_;
    std::vector<Lost> lost_;
    bool finished_ = false;
};

/// Between the call that was refused and the next try.
class LoadedProgram::Stopped final : public ir::StoppedRun, ir::FailureGroups {
public:
    /// `flight` has the state, if there is one; else `taken` has.
    Stopped(const LoadedProgram &loaded, State &state, const Bindings &bindings, Run::Stop stop,
            bool on_streams, Arenas arenas, std::unique_ptr<Flight> flight, std::optional<Taken> taken)
        : keep_(loaded.weak_from_this().lock()), loaded_(loaded), state_(state), stop_(std::move(stop)),
          inputs_(bindings.inputs.begin(), bindings.inputs.end()),
          results_(bindings.results.begin(), bindings.results.end()),
          words_(bindings.words.begin(), bindings.words.end()),
          input_uses_(bindings.input_uses.begin(), bindings.input_uses.end()),
          result_uses_(bindings.result_uses.begin(), bindings.result_uses.end()),
          streams_(bindings.streams.begin(), bindings.streams.end()), on_streams_(on_streams),
          taken_(std::move(taken)), flight_(std::move(flight)), arenas_(std::move(arenas)) {}

    const ir::Failure &why() const override { return stop_.why; }
    void move_input(uint32_t input, void *data) override { inputs_[input] = data; }

    bool resume(std::span<const uint32_t> lost_inputs, RunReport &report) override {
        check_not_forked();
        const ir::FloatEnvironment environment;
        const Bindings bindings{.inputs = inputs_,
                                .results = results_,
                                .words = words_,
                                .input_uses = input_uses_,
                                .result_uses = result_uses_,
                                .streams = streams_,
                                .failure_groups = this};
        Run run(loaded_, state_, bindings, on_streams_);
        try {
            run.take_over(stop_);
        } catch (const std::bad_alloc &) {
            return false;
        }
        report = run.go_on(stop_);
        if (run.stop()) {
            stop_ = std::move(*run.stop());
            return false;
        }
        report.refused = run.gave_up();
        if (flight_) {
            flight_->issued(run.take_blame());
            const RunReport later = flight_->finish(lost_inputs);
            report.failures.insert(report.failures.end(), later.failures.begin(), later.failures.end());
            report.inherited.insert(report.inherited.end(), later.inherited.begin(), later.inherited.end());
        }
        const auto &tracks = loaded_.layout_->tracks;
        for (size_t t = 0; on_streams_ && t < tracks.size(); ++t)
            try {
                tracks[t].backend->synchronize(state_.tracks[t].stream, state_.end_ticks[t]);
            } catch (const ir::Failure &) { // a lost device: who reads what was there will see
            }
        arenas_.reset();
        return true;
    }

private:
    void groups(std::span<uint32_t> group) const override { std::ranges::copy(stop_.groups, group.begin()); }

    const std::shared_ptr<const LoadedProgram> keep_; // goes last
    const LoadedProgram &loaded_;
    State &state_;
    Run::Stop stop_;
    std::vector<void *> inputs_, results_;
    std::vector<int64_t> words_;
    std::vector<ir::MemoryUse *> input_uses_, result_uses_;
    std::vector<ir::StreamRef> streams_;
    const bool on_streams_;
    std::optional<Taken> taken_;
    std::unique_ptr<Flight> flight_;
    std::optional<Arenas> arenas_; // go before the state
};

std::vector<ProgramKernel> kernels_of(const ir::Program &program) {
    std::vector<ProgramKernel> kernels;
    std::vector<std::vector<ir::Device>> devices(program.kernels.size()); // seen so far
    for (const ir::Step &step : program.steps) {
        if (step.kind != ir::StepKind::Launch || step.kernel >= devices.size())
            continue;
        std::vector<ir::Device> &seen = devices[step.kernel];
        if (std::ranges::find(seen, step.device) != seen.end())
            continue;
        seen.push_back(step.device);
        kernels.push_back({step.kernel, step.device, {}});
    }
    return kernels;
}

LoadedProgram::LoadedProgram(ir::Program program, std::vector<ProgramKernel> kernels,
                             std::vector<DeviceSlot> devices)
    : program_(std::move(program)), kernels_(std::move(kernels)), devices_(std::move(devices)),
      layout_(std::make_unique<const Layout>(program_, kernels_, devices_)),
      states_(std::make_unique<StatePool>()) {
    launches_ = static_cast<int64_t>(layout_->launches.size() + layout_->calls.size());
    cpu_only_ = layout_->cpu_only;
}

/// Its code may be unloaded with it: what was put on streams has to be over. Runs that are looked at (Flight)
/// hold their Program; the ends of all others are in their states.
LoadedProgram::~LoadedProgram() {
    const auto wait_for = [&](const ir::Point &end) {
        try {
            devices_[device_slot(end.stream.device)].backend->synchronize(end.stream.stream, end.tick);
        } catch (...) { // a lost device does not run it any more, and nothing runs in a forked child
        }
    };
    states_->for_each([&](const State &state) {
        for (size_t t = 0; t < state.tracks.size(); ++t)
            wait_for({state.tracks[t], state.end_ticks[t]});
        std::ranges::for_each(state.earlier, wait_for);
    });
}

ir::StreamRef LoadedProgram::result_home(size_t result, std::span<const ir::StreamRef> streams) const {
    const ir::StreamRef home = layout_->result_homes[result];
    if (streams.empty() || home.stream < ir::kFirstUserStream)
        return home;
    const uint32_t user = user_stream_index(program_, home);
    return user == ir::kNone ? home : streams[user];
}

/// Calls f(backend, stream, tick) for what the run has to come after.
template <class F>
void LoadedProgram::for_each_use(const Bindings &bindings, F &&f) const {
    for (uint32_t i = 0; i < bindings.input_uses.size(); ++i)
        if (const ir::MemoryUse *use = bindings.input_uses[i])
            use->for_each(i < layout_->num_params && layout_->written[i], [&](const ir::Point &p) {
                f(*devices_[device_slot(p.stream.device)].backend, p.stream.stream, p.tick);
            });
}

/// Whether something that the run reads or overwrites is not there yet.
bool LoadedProgram::pending(const Bindings &bindings) const {
    bool found = false;
    for_each_use(bindings, [&](Backend &backend, StreamId stream, uint64_t tick) {
        try {
            found = found || backend.pending(stream, tick);
        } catch (const ir::Failure &) { // the stream that waits for it will see
            found = true;
        }
    });
    return found;
}

Launched LoadedProgram::run(const Bindings &bindings, bool watch) const {
    check_not_forked();
    LZ_CHECK(
        bindings.words.size() >= program_.num_runtime_words,
        fmt::format("a run binds {} runtime words of {}", bindings.words.size(), program_.num_runtime_words));
    // The first run leaves a State, which those that cannot be done directly to their end go on with.
    if (layout_->direct && states_->has_any() && !watch && bindings.input_uses.empty() && !Run::is_shown())
        return run_directly(bindings);
    return run_with_state(bindings, watch, nullptr);
}

/// `refused`: a run to go on with, or null.
Launched LoadedProgram::run_with_state(const Bindings &bindings, bool watch, const Refused *refused) const {
    const bool on_streams = !cpu_only_ || watch || pending(bindings);
    Taken taken(*this);
    State *const state = &*taken;
    state->bind_streams(program_, *layout_, bindings.streams);
    if (!on_streams) { // what is over by a model's clock, which has to hear that the host comes after it
        state->points.clear();
        for_each_use(bindings, [&](Backend &backend, StreamId stream, uint64_t tick) {
            state->points.push_back({{backend.device(), stream}, tick});
        });
        for (const ir::Point &p : state->points)
            devices_[device_slot(p.stream.device)].backend->synchronize(p.stream.stream, p.tick);
    }
    std::unique_ptr<Flight> flight;
    if (on_streams && (watch || layout_->can_fault)) {
        std::ranges::fill(state->end_ticks, 0);
        flight = std::make_unique<Flight>(*this, std::move(taken));
    }
    Arenas arenas(*this, *state, on_streams);
    Run run(*this, *state, bindings, on_streams);
    Launched launched{refused ? run.go_on(*refused) : run.all(), nullptr, nullptr};
    if (run.stop()) [[unlikely]] {
        std::optional<Taken> kept;
        if (!flight)
            kept.emplace(std::move(taken));
        launched.stopped =
            std::make_unique<Stopped>(*this, *state, bindings, std::move(*run.stop()), on_streams,
                                      std::move(arenas), std::move(flight), std::move(kept));
        return launched;
    }
    if (flight) {
        flight->issued(run.take_blame());
        launched.flight = std::move(flight);
    }
    return launched;
}

Launched run(const LoadedProgram &program, const Bindings &bindings, bool watch) {
    const ir::FloatEnvironment environment;
    return program.run(bindings, watch);
}

} // namespace lz::runtime
