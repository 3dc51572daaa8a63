#include "engine/engine.h"
#include "engine/streams.h"
#include "lazuli/detail/arena.h"
#include "lazuli/detail/failure_record.h"
#include "lazuli/detail/flights.h"
#include "lazuli/detail/pending.h"
#include "lazuli/detail/recorder.h"
#include "lazuli/detail/storage.h"
#include "lazuli/detail/view_warnings.h"
#include "lazuli/tensor.h"

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

void free_memory(Node *n) {
    if (n->is_view) [[unlikely]]
        forget_view(n);
    const uint8_t size_class = n->size_class;
    n->~Node();
    free_node(n, size_class);
}

} // namespace

/// A node gives back its memory when the last hold goes.
void drop_hold(Node *n) {
    if (n->refs.fetch_sub(Node::kHold, std::memory_order_acq_rel) == Node::kHold)
        free_memory(n);
}

namespace {

/// Takes off the hold of a value that is destroyed, and its last use where that is still counted. Counters
/// that only the caller can still reach are not written, only read.
void drop_last_hold(Node *n) {
    if (n->projection > 0) { // a sync of another thread may be looking at its uses
        drop_hold(n);
        return;
    }
    const uint64_t seen = n->refs.load(std::memory_order_acquire);
    const uint64_t last = Node::kHold + (seen & (Node::kHold - 1));
    if (seen == last || n->refs.fetch_sub(last, std::memory_order_acq_rel) == last)
        free_memory(n);
}

/// Whether the caller's use of a node is the last one. If it is, it need not be taken off: whoever holds the
/// only use of a node that no other thread has in its list is the only one who can add another; of a
/// projection, whoever claims the node that it is a result of can, too.
bool is_last_use(Node *n, const Recorder *mine) {
    if (n->uses() == 1 && (n->owner == mine || !n->owner) && n->projection == 0)
        return true;
    return static_cast<uint32_t>(n->refs.fetch_sub(Node::kUse, std::memory_order_acq_rel)) == 1;
}

/// Values that nobody can reach: gives up operands and storage, then theirs, through an explicit list.
void destroy_values(Node *list, Recorder *const mine) {
    while (list) {
        Node *n = list;
        list = n->dead_next;
        const auto let_go = [&list, mine](Node *held) {
            if (is_last_use(held, mine)) {
                held->dead_next = list;
                list = held;
            }
        };
        for (Node *projection : n->projections())
            if (projection)
                drop_hold(projection);
        for (Node *operand : n->operands())
            if (operand)
                let_go(operand);
        n->num_operands = 0;
        if (Node *fallback = std::exchange(n->fallback, nullptr))
            let_go(fallback);
        if (n->storage) {
            n->storage->release();
            n->storage = nullptr;
        }
        if (n->failure) {
            n->failure->release();
            n->failure = nullptr;
        }
        if (n->owner && n->owner != mine) {
            n->owner->push_foreign_dead(n); // takes over the hold
            continue;
        }
        if (n->linked)
            mine->unlink(n);
        drop_last_hold(n);
    }
}

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
        if (options.launch_blocking)
            current_->max_pending_ = 0;
    }
    return *current_;
}

void Recorder::drain_foreign_dead() {
    Node *dead = foreign_dead_.exchange(nullptr, std::memory_order_acquire);
    while (dead) {
        Node *next = dead->dead_next;
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

void drop_use(Node *n) {
    Recorder *const mine = Recorder::current_or_null();
    if (is_last_use(n, mine)) {
        n->dead_next = nullptr;
        destroy_values(n, mine);
    }
}

void copy_handle(Cell *cell) noexcept {
    cell->handles.fetch_add(1, std::memory_order_relaxed);
}

void drop_handle(Cell *cell) noexcept {
    // Nobody can copy a handle but who has one: of the last, the count need not be written.
    if (cell->handles.load(std::memory_order_acquire) == 1 ||
        cell->handles.fetch_sub(1, std::memory_order_acq_rel) == 1)
        drop_cell(cell);
}

Node *newest_that_did_not_fail(Node *failed) {
    Node *version = failed;
    while (version->state.load(std::memory_order_acquire) == State::Failed && version->fallback &&
           version->failure->told.load(std::memory_order_acquire))
        version = version->fallback;
    return version;
}

void drop_cell(Cell *cell) {
    cell->handles.store(0, std::memory_order_relaxed); // a warning of views may look at it
    Node *const value = cell->current;
    Node *const memory = home(cell);
    if (value != memory) {
        drop_use(value);
        drop_hold(memory);
        return;
    }
    Recorder *const mine = Recorder::current_or_null();
    constexpr uint64_t kBoth = Node::kUse + Node::kHold;
    uint64_t refs = value->refs.load(std::memory_order_acquire);
    // Of a projection every use is taken off: see drop_last_hold.
    if (refs == kBoth + Node::kHold && (value->owner == mine || !value->owner) && value->projection == 0) {
        value->refs.store(kBoth, std::memory_order_relaxed);
    } else {
        refs = value->refs.fetch_sub(kBoth, std::memory_order_acq_rel);
        if (static_cast<uint32_t>(refs) != 1)
            return;
    }
    value->dead_next = nullptr;
    destroy_values(value, mine);
}

} // namespace lz::detail
