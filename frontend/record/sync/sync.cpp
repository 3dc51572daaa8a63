#include "frontend/record/sync/sync.h"

#include "frontend/engine/debug/log.h"
#include "frontend/engine/engine.h"
#include "frontend/engine/streams.h"
#include "frontend/record/access.h"
#include "frontend/record/execution/execution.h"
#include "frontend/record/execution/flights.h"
#include "frontend/record/execution/stopped.h"
#include "frontend/record/failure_record.h"
#include "frontend/record/record.h"
#include "frontend/record/recording/recording.h"
#include "frontend/record/storage.h"
#include "frontend/record/sync/waiting.h"
#include "frontend/record/trace.h"

#include <algorithm>
#include <new>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lz::detail {
namespace {

bool same_line(const Node *a, const Node *b) {
    return a->loc.line == b->loc.line && a->loc.file == b->loc.file;
}

/// Claims what `claims` says and runs it; again when another sync's node that it waited for did not come.
/// False unless it is the `last` try: there is no memory for it, and it is pending as before.
template <class F>
bool try_to_run(Location loc, PendingErrors &thrown, F &&claims, bool last) {
    for (;;) {
        Recording recording;
        claims(recording);
        if (recording.empty())
            return true;
        recording.finish();
        recording.release_lock();
        if (!recording.awaits() || recording.wait())
            return execute(recording, loc, thrown, last);
        recording.unclaim();
    }
}

/// Nodes that stay, pending or not, while this does.
class Held {
public:
    Held() = default;
    Held(const Held &) = delete;
    Held &operator=(const Held &) = delete;
    ~Held() {
        for (Node *const node : nodes_)
            if (node)
                drop_use(node);
    }
    void add(Node *node) {
        nodes_.push_back(node);
        add_use(node);
    }
    /// Lets go of those for which `f` holds, in their order; whether there was one.
    template <class F>
    bool drop_if(F &&f) {
        for (Node *&node : nodes_)
            if (f(node))
                drop_use(std::exchange(node, nullptr));
        return std::erase(nodes_, nullptr) != 0;
    }
    bool empty() const { return nodes_.empty(); }
    std::span<Node *const> nodes() const { return nodes_; }

private:
    std::vector<Node *> nodes_;
};

/// What a sync is to compute, in the order of recording.
struct Parts {
    Held before, changes, after; ///< of what is changed in place; that; and what is computed from it
    /// `in_order`: there are effects, with which everything is ordered. Then all of it is `before`.
    Parts(const Recording &recording, bool in_order) {
        std::unordered_set<const Node *> changed; // and what is computed from it
        for (const Recording::Operation &o : recording.operations) {
            const bool follows =
                std::ranges::any_of(o.node->operands(), [&](Node *x) { return changed.contains(x); });
            const bool changes_tensor = o.wanted && o.node->fallback;
            if (follows || changes_tensor)
                changed.insert(o.node);
            if (o.wanted)
                (in_order ? before : changes_tensor ? changes : follows ? after : before).add(o.node);
        }
    }
};

/// What one line of the user changes in place, a step of an optimizer say, is changed as a whole or not at
/// all: a Program has all its memory before its first launch. All lines at once, or line by line, as far as
/// they fit.
bool run_changes(Location loc, PendingErrors &thrown, std::span<Node *const> changes) {
    const auto fit = [&](std::span<Node *const> some) {
        return try_to_run(
            loc, thrown,
            [&](Recording &r) {
                for (Node *const node : some)
                    r.claim(node);
            },
            false);
    };
    if (changes.empty() || fit(changes))
        return true;
    std::vector<Node *> line;
    for (size_t begin = 0; begin < changes.size(); begin += line.size()) {
        line.clear();
        for (size_t i = begin; i < changes.size() && same_line(changes[i], changes[begin]); ++i)
            line.push_back(changes[i]);
        if (!fit(line))
            return false;
    }
    return true;
}

/// There is no memory for a Program that computes all that `claims` says. One value after the other, in the
/// order of recording, may fit: what one reads and nobody else needs is given back before the next, as in a
/// library that computes at once. False when something is left that does not fit.
template <class F>
bool run_apart(Location loc, PendingErrors &thrown, F &&claims) {
    Recorder &mine = Recorder::current();
    std::optional<Parts> parts;
    {
        Recording recording;
        claims(recording);
        recording.finish();
        parts.emplace(recording, mine.has_effects());
        recording.release_lock();
        recording.unclaim();
    }
    const auto fits = [&](Node *value) {
        const auto up_to_value = [&](Recording &r) {
            // Effects are ordered with what was recorded before and after them.
            if (mine.has_effects() && value->owner == &mine && value->linked)
                r.claim_list(mine, value->next);
            else
                r.claim(value);
        };
        return try_to_run(loc, thrown, up_to_value, false);
    };
    const auto each_fits = [&](Held &values) {
        while (!values.empty())
            if (!values.drop_if(fits))
                return false;
        return true;
    };
    const bool all_before = each_fits(parts->before);
    return run_changes(loc, thrown, parts->changes.nodes()) && each_fits(parts->after) && all_before;
}

/// S52: a Program's memory cannot be had. What runs still hold may come back, and what pending work holds
/// when that is launched: first what was asked for, then all of this thread's.
template <class F>
void make_room_and_run(Location loc, PendingErrors &thrown, F &&claims) {
    if (engine::Engine::get().options().log_memory)
        engine::log_line("memory",
                         "a program finds no memory: what is pending on its thread is computed value "
                         "by value");
    settle_flights(Until::Landed, nullptr, thrown);
    if (!run_apart(loc, thrown, claims))
        run_apart(loc, thrown, [](Recording &r) { r.claim_list(Recorder::current(), nullptr); });
    try_to_run(loc, thrown, claims, true);
}

/// A function that is recorded for `lz::compile` asks for a value: it may do another thing with another one.
void note_sync(Location loc) {
    if (const Recorder *const recorder = Recorder::current_or_null(); recorder && recorder->trace())
        [[unlikely]]
        recorder->trace()->reject("needs a value while it is recorded", loc);
}

/// Claims what `claims` says and runs it, whatever becomes of it.
template <class F>
void claim_and_run(Location loc, PendingErrors &thrown, F &&claims) {
    note_sync(loc);
    go_on_with_stopped(thrown, loc);
    try {
        if (!try_to_run(loc, thrown, claims, false)) [[unlikely]]
            make_room_and_run(loc, thrown, claims);
    } catch (const std::bad_alloc &) {
        thrown.raise();
        throw OutOfMemoryError("the host has no memory left for this sync; what it was to compute is "
                               "pending as before",
                               loc);
    }
    if (Recorder &recorder = Recorder::current(); recorder.holds()) [[unlikely]]
        recorder.drop_done();
    settle_flights(Until::Done, nullptr, thrown);
}

/// Whether there is something to do for these values to be there, or before they may be asked for.
bool asks_for_work(std::span<Node *const> nodes) {
    const Recorder &recorder = Recorder::current();
    return recorder.has_effects() || recorder.names_streams() || recorder.holds() ||
           !std::ranges::all_of(nodes, [](const Node *node) {
               return node->state.load(std::memory_order_acquire) == State::Ready;
           });
}

} // namespace

void prepare_sync_of_thread() {
    issued_by_thread();
    no_memory_record()->release();
    prepare_waiting();
}

void launch_all(Location loc) {
    PendingErrors thrown;
    claim_and_run(loc, thrown, [](Recording &r) { r.claim_list(Recorder::current(), nullptr); });
    note_stopped(thrown);
    thrown.raise();
}

void sync_all(Location loc) {
    PendingErrors thrown;
    claim_and_run(loc, thrown, [](Recording &r) { r.claim_list(Recorder::current(), nullptr); });
    if (std::vector<ir::Point> &issued = issued_by_thread(); !issued.empty()) {
        const std::vector<ir::Point> points = std::exchange(issued, {});
        try {
            engine::synchronize(points);
        } catch (const ir::Failure &failure) {
            settle_flights(Until::Landed, nullptr, thrown);
            thrown.raise();
            throw_public(failure, loc);
        }
    }
    settle_flights(Until::Landed, nullptr, thrown);
    note_stopped(thrown);
    thrown.raise();
}

void eval_nodes(std::span<Node *const> nodes, Location loc) {
    PendingErrors thrown;
    if (!asks_for_work(nodes)) { // as is often so after a call of a compiled function
        note_sync(loc);
        go_on_with_stopped(thrown, loc);
        settle_flights(Until::Done, nullptr, thrown);
        thrown.raise();
        return;
    }
    claim_and_run(loc, thrown, [&](Recording &r) {
        // Effects are ordered with what was recorded before and after them.
        Recorder &recorder = Recorder::current();
        if (recorder.has_effects())
            r.claim_list(recorder, nullptr);
        if (recorder.names_streams() || recorder.holds())
            r.claim_in_order(recorder, nodes);
        else
            for (Node *n : nodes)
                r.claim(n);
    });
    thrown.raise();
    for (Node *n : nodes)
        wait_while_claimed(n);
}

void launch_left_behind(Location loc) {
    if (Recorder &recorder = Recorder::current(); recorder.leaves_too_often())
        launch_prefix(recorder, loc);
}

void eval_observed(std::span<Node *const> nodes, RunObserver &observer, Location loc) {
    PendingErrors thrown;
    claim_and_run(loc, thrown, [&](Recording &r) {
        r.observer = &observer;
        for (Node *n : nodes)
            r.claim(n);
    });
    thrown.raise();
    for (Node *n : nodes)
        wait_while_claimed(n);
}

Storage *materialize(Node *node, Location loc) {
    note_sync(loc);
    for (;;) {
        switch (node->state.load(std::memory_order_acquire)) {
        case State::Ready:
            return node->storage;
        case State::Failed: {
            PendingErrors thrown; // this thread may not have been told yet
            settle_flights(Until::Done, nullptr, thrown);
            thrown.raise();
            throw_public(node->failure->failure, node->failure->loc);
        }
        case State::Stopped: {
            PendingErrors thrown;
            go_on_with_stopped(thrown, loc);
            thrown.raise();
            if (node->state.load(std::memory_order_acquire) == State::Stopped)
                throw_public(node->failure->failure, node->failure->loc);
            break;
        }
        case State::Claimed:
            wait_while_claimed(node);
            break;
        case State::Pending: {
            PendingErrors thrown;
            claim_and_run(loc, thrown, [node](Recording &r) {
                r.claim_list(Recorder::current(), nullptr);
                r.claim(node);
            });
            thrown.raise();
            break;
        }
        }
    }
}

Storage *materialize_now(Node *node, Location loc, bool writer) {
    Storage *const storage = materialize(node, loc);
    if (writer)
        check_not_needed(storage, loc);
    translated(loc, [&] { engine::Engine::get().wait(storage->block, writer); });
    while (node->in_flight.load(std::memory_order_acquire)) {
        PendingErrors thrown;
        settle_flights(Until::Node, node, thrown);
        thrown.raise();
        if (node->in_flight.load(std::memory_order_acquire)) // its thread is about to hand the flight over
            std::this_thread::yield();
    }
    return materialize(node, loc); // throws if it failed, whoever found out
}

Storage *allocate_on_host(int64_t bytes, bool pinned, Location loc) {
    try {
        return Storage::allocate(bytes, {}, pinned);
    } catch (const ir::Failure &failure) {
        if (failure.kind() != ir::ErrorKind::OutOfMemory)
            throw_public(failure, loc);
    }
    sync_all(loc);
    return translated(loc, [&] { return Storage::allocate(bytes, {}, pinned); });
}

void settle_done() {
    PendingErrors thrown;
    settle_flights(Until::Done, nullptr, thrown);
    thrown.raise();
}

ir::Graph pending_graph(Node *node) {
    Recording recording;
    if (node)
        recording.claim(node);
    else
        recording.claim_list(Recorder::current(), nullptr);
    recording.finish(false);
    recording.release_lock(); // letting go may call a deleter of the user's, and that may sync
    ir::Graph graph = recording.build_graph(Recording::StreamNames::Real);
    recording.unclaim();
    return graph;
}

int64_t pending_count() {
    Recorder &recorder = Recorder::current();
    recorder.drain_foreign_dead();
    return recorder.count();
}

void launch_prefix(Recorder &recorder, Location loc) {
    const Node *const first = recorder.head();
    const Node *cut = nullptr;
    for (const Node *n = recorder.tail(); n != first; n = n->prev) {
        if (same_line(n, first) && !same_line(n, n->prev)) {
            cut = n;
            break;
        }
    }
    PendingErrors thrown;
    claim_and_run(loc, thrown, [&](Recording &r) { r.claim_list(recorder, cut); });
    thrown.postpone(); // nobody asked for a value yet (S26)
}

} // namespace lz::detail
