#include "frontend/record/recorder.h"

#include "frontend/engine/engine.h"
#include "frontend/engine/streams.h"
#include "frontend/record/access.h"
#include "frontend/record/execution/flights.h"
#include "frontend/record/execution/stopped.h"
#include "frontend/record/record.h"
#include "frontend/record/recording/recording.h"
#include "frontend/record/sync/sync.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

namespace lz::detail {

LZ_HOT_TLS constinit thread_local Recorder *Recorder::current_ = nullptr;

namespace {

struct Idle {
    std::mutex mutex;
    Recorder *first = nullptr;
    static Idle &get() {
        static Idle *const idle = new Idle;
        return *idle;
    }
};

} // namespace

struct RecorderSlot {
    RecorderSlot() = default;
    ~RecorderSlot() {
        Recorder *r = Recorder::current_;
        if (!r)
            return;
        r->leave();
        r->reset();
        forget_failures(r);
        forget_stopped(r);
        Recorder::current_ = nullptr;
        Idle &idle = Idle::get();
        const std::lock_guard lock(idle.mutex);
        r->next_idle_ = idle.first;
        idle.first = r;
    }
    void touch() {}
};

Recorder &Recorder::attach() {
    // Made before the slot, and so destroyed after it: a thread that ends may have something to launch.
    Recording::prepare_thread();
    prepare_sync_of_thread();
    thread_local RecorderSlot slot;
    slot.touch();
    Idle &idle = Idle::get();
    const std::lock_guard lock(idle.mutex);
    if (Recorder *r = idle.first) {
        idle.first = r->next_idle_;
        current_ = r;
    } else {
        current_ = new Recorder; // kept for ever: nodes name it, and statics outlive threads
        const engine::Options &options = engine::Engine::get().options();
        current_->modes_ = {options.launch_blocking, options.check_devices, options.warn_views};
        current_->find_whether_it_looks();
        if (options.launch_blocking)
            current_->max_pending_ = 0;
    }
    return *current_;
}

void Recorder::drain_foreign_dead() {
    Node *dead = foreign_dead_.exchange(nullptr, std::memory_order_acquire);
    while (dead) {
        Node *next = dead->mark.next();
        if (dead->linked)
            unlink(dead);
        drop_hold(dead);
        dead = next;
    }
}

void Recorder::set_stream(ir::Device device, int32_t stream, std::shared_ptr<void> handle) {
    if (device.index >= streams_.size())
        streams_.resize(device.index + size_t{1});
    NamedStream &mine = streams_[device.index];
    named_streams_ += (stream != ir::kNoStream) - (mine.number != ir::kNoStream);
    find_whether_it_looks();
    const int32_t before = std::exchange(mine.number, stream);
    mine.handle.swap(handle);
    if (handle && count_ > 0)
        hold_stream({device, before});
}

/// Guards are left by exceptions, too.
void Recorder::hold_stream(ir::StreamRef stream) noexcept {
    if (std::ranges::find(held_, stream) != held_.end())
        return;
    try {
        held_.push_back(stream);
    } catch (const std::bad_alloc &) {
        return; // at the worst a new stream gets this number early, and runs behind what is pending
    }
    engine::hold_stream(stream);
}

void Recorder::release_streams() noexcept {
    for (const ir::StreamRef stream : std::exchange(held_, {}))
        engine::release_stream(stream);
}

/// The thread ends. What it told streams to do is done; values that are still pending belong to whoever reads
/// them.
void Recorder::leave() noexcept {
    // What fails leaves the list, and everything else is tried again.
    for (uint32_t before = count_ + 1; has_effects() && count_ < before;) {
        before = count_;
        try {
            launch_all({});
        } catch (...) { // nobody is left to be told, and who reads what failed will see
        }
    }
    drain_foreign_dead();
    while (head_)
        unlink(head_);
    for (const Effect &e : std::exchange(effects_, {}))
        drop_handle(e.cell);
    forget_reads();
}

/// The next thread that gets this recorder starts like any other.
void Recorder::reset() {
    current_gpu_ = 0;
    grad_mode_ = true;
    for (size_t i = 0; i < streams_.size(); ++i)
        set_stream({ir::DeviceKind::Cuda, static_cast<uint8_t>(i)}, ir::kNoStream, nullptr);
    release_streams();
}

void Recorder::expect_effect() {
    if (effects_.size() == effects_.capacity())
        effects_.reserve(2 * effects_.size() + 4);
}

void Recorder::hold_effect(Cell *effect, std::shared_ptr<void> payload) noexcept {
    effects_.push_back({effect, std::move(payload)});
}

void Recorder::drop_done() noexcept {
    const auto still = [](const Effect &e) {
        const State state = e.cell->current->state.load(std::memory_order_acquire);
        return state == State::Pending || state == State::Claimed;
    };
    std::vector<Effect> done; // letting go may call what records effects
    auto kept = effects_.begin();
    for (auto e = effects_.begin(); e != effects_.end(); ++e) {
        if (!still(*e)) {
            try {
                done.push_back(std::move(*e));
                continue;
            } catch (const std::bad_alloc &) { // next time
            }
        }
        if (kept != e)
            *kept = std::move(*e);
        ++kept;
    }
    effects_.erase(kept, effects_.end());
    for (const Effect &e : done)
        drop_handle(e.cell);
    if (count_ == 0)
        release_streams();
}

} // namespace lz::detail
