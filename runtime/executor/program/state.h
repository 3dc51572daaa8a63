#pragma once
/// The memory of one run of a LoadedProgram: frames and launches, laid out once and reused by later runs.

#include "runtime/executor/program/layout.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace lz::runtime {

/// Faults of one device, all clear between runs.
class FaultMemory {
public:
    FaultMemory(Backend *backend, uint32_t count)
        : backend_(backend), count_(count), faults_(count ? backend->allocate_faults(count) : nullptr) {}
    FaultMemory(FaultMemory &&other) noexcept
        : backend_(other.backend_), count_(other.count_), faults_(std::exchange(other.faults_, nullptr)) {}
    FaultMemory &operator=(FaultMemory &&) = delete;
    ~FaultMemory() {
        if (faults_)
            backend_->free_faults(faults_, count_);
    }
    std::span<ir::Fault> all() const { return {faults_, count_}; }

private:
    Backend *backend_;
    uint32_t count_;
    ir::Fault *faults_;
};

/// All of one run but its arenas. Belongs to one run at a time.
struct LoadedProgram::State {
    std::vector<void *> memory;            ///< of each Program buffer; the last, of none, is null
    std::vector<void *> pointers;          ///< of frames, calls and copies
    std::vector<uint32_t> pointer_buffers; ///< as in the Layout, kNone replaced by the last entry of `memory`
    std::vector<int64_t> args;
    std::vector<uint64_t> scalars;
    std::vector<FaultMemory> faults;          ///< by device
    std::vector<ir::FaultGuard> fault_guards; ///< as Layout::guards
    std::vector<ir::KernelFrame> frames;
    std::vector<Backend::Launch> launches;
    uint32_t segments_put = 0;         ///< Launch::put of all of them
    std::vector<uint64_t> event_ticks; ///< of the Program's events, on their streams
    std::vector<void *> arenas;        ///< of the Program
    std::vector<ir::StreamRef> tracks; ///< the streams that the run is bound to, by Layout::Track
    std::vector<ir::StreamRef> homes;  ///< by Layout::Home
    std::vector<StreamId> arena_homes; ///< by arena
    std::vector<uint64_t> home_ticks;  ///< by Layout::Home: the start of the run
    std::vector<uint64_t> end_ticks;   ///< by track
    std::vector<ir::Point> earlier;    ///< ends of earlier runs on streams that this one is not bound to
    std::vector<bool> noted;           ///< scratch, by memory (Layout::Touch)
    std::vector<Guard> guards;         ///< scratch, with room for all tracks
    std::vector<ir::Point> points;     ///< scratch
    // Of replays; the last is the backend's own.
    std::vector<StreamId> replay_streams; ///< by track
    std::vector<uint64_t> replay_key;
    std::vector<Backend::Call> replay_calls;
    std::vector<Backend::Copy> replay_copies;
    std::unique_ptr<Backend::ReplayMemory> replay_memory;
    State *next = nullptr; ///< of the pool

    State(const ir::Program &program, const Layout &layout);
    /// First of all: from here on the state is that of a run on these streams (Bindings::streams).
    void bind_streams(const ir::Program &program, const Layout &layout,
                      std::span<const ir::StreamRef> streams);
    /// Fills in what the bindings say; the arenas are there.
    void bind(const ir::Program &program, const Layout &layout, const Bindings &bindings);
    /// As between runs, when nobody writes faults any more.
    void clear_faults() noexcept {
        for (const FaultMemory &memory : faults)
            for (ir::Fault &fault : memory.all())
                fault.code.store(0, std::memory_order_relaxed);
    }
    std::span<ir::Fault> faults_of(const Layout::Action &action) const {
        return faults[action.slot].all().subspan(action.faults, action.end_faults - action.faults);
    }

private:
    void note_earlier(const ir::Point &end);
};

/// States that no run has. The first one is taken by one exchange and given back by a store; others are for
/// runs that meet.
struct LoadedProgram::StatePool {
    ~StatePool();
    /// nullptr when all are taken.
    State *take();
    void give_back(State *state);
    /// Whether some run has left one.
    bool has_any() const { return first_.load(std::memory_order_relaxed) != nullptr; }
    /// Calls f(state) for each that is not taken.
    template <class F>
    void for_each(F &&f) const {
        if (const State *state = first_.load(std::memory_order_acquire);
            state && !first_taken_.load(std::memory_order_acquire))
            f(*state);
        for (const State *state = more_; state; state = state->next)
            f(*state);
    }

private:
    std::atomic<State *> first_{nullptr}; ///< that was ever given back
    std::atomic<bool> first_taken_{false};
    std::mutex mutex_;
    State *more_ = nullptr;
};

} // namespace lz::runtime
