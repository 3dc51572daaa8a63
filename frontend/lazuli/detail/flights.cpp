#include "lazuli/detail/flights.h"

#include "lazuli/detail/recorder.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace lz::detail {

Thrown::~Thrown() {
    for (FailureRecord *const record : records_)
        record->release();
}

void Thrown::note(FailureRecord *record) {
    record->retain();
    records_.push_back(record);
}

void Thrown::raise() {
    if (records_.empty())
        return;
    for (FailureRecord *const record : records_)
        record->told.store(true, std::memory_order_release);
    const ir::Failure failure = records_.front()->failure;
    throw_public(failure, records_.front()->loc);
}

Location location_of(const Recording &recording, const ir::Failure &failure, Location fallback) {
    if (failure.loc().known())
        return from_ir(failure.loc());
    if (failure.node() < recording.operations.size())
        return from_ir(recording.operations[failure.node()].node->loc);
    return fallback;
}

ir::Failure of_operation(const ir::Failure &failure, ir::Op op, Location loc) {
    return failure.kind() == ir::ErrorKind::Internal ? failure : ir::called_as(failure, op, to_ir(loc));
}

ir::Failure of_operation(const ir::Failure &failure, const Recording &recording) {
    if (failure.node() >= recording.operations.size())
        return failure;
    const Node *const node = recording.operations[failure.node()].node;
    return of_operation(failure, node->op, from_ir(node->loc));
}

void fail(Node *node, FailureRecord *record) {
    if (node->failure)
        return;
    record->retain();
    node->failure = record;
}

namespace {

void make_pending(Node *version) {
    std::vector<Node *> claimed{version};
    while (!claimed.empty()) {
        Node *const n = claimed.back();
        claimed.pop_back();
        if (n->state.load(std::memory_order_acquire) != State::Claimed)
            continue;
        n->state.store(State::Pending, std::memory_order_release);
        claimed.insert(claimed.end(), n->operands().begin(), n->operands().end());
    }
}

} // namespace

void Culprits::add(const Node *node) {
    lost_[node] = true;
}

/// Each node is looked at once, however many versions are asked for: chains of updates may be long.
bool Culprits::harm(Node *version) {
    if (unknown)
        return true;
    std::vector<Node *> stack{version};
    while (!stack.empty()) {
        Node *const n = stack.back();
        if (lost_.contains(n)) {
            stack.pop_back();
            continue;
        }
        const State state = n->state.load(std::memory_order_acquire);
        bool lost = state == State::Failed, known = true;
        if (state == State::Claimed)
            for (Node *const operand : n->operands()) {
                if (const auto found = lost_.find(operand); found != lost_.end()) {
                    lost = lost || found->second;
                } else {
                    stack.push_back(operand);
                    known = false;
                }
            }
        if (known) {
            lost_[n] = lost;
            stack.pop_back();
        }
    }
    return lost_[version];
}

void keep_newest_fallback(Node *failed, Culprits &culprits) {
    Node *version = failed->fallback;
    for (; version; version = version->fallback) {
        const State state = version->state.load(std::memory_order_acquire);
        if (state == State::Ready || state == State::Pending)
            break;
        if (state == State::Claimed && !culprits.harm(version)) {
            make_pending(version);
            break;
        }
    }
    if (version)
        add_use(version);
    if (Node *last = std::exchange(failed->fallback, version))
        drop_use(last);
}

static_assert(static_cast<int>(ir::Op::RecordEvent) + 1 == static_cast<int>(ir::Op::WaitEvent) &&
                  static_cast<int>(ir::Op::WaitStream) + 1 == static_cast<int>(ir::Op::HostCallback),
              "is_effect knows the order of the op table");

struct Watched {
    std::unique_ptr<engine::Flight> flight;
    const Recorder *owner = nullptr;     ///< whose thread launched it; null: that has ended
    std::vector<Node *> inputs, results; ///< a use of each
    std::vector<Location> lines;         ///< by recorded index
    std::vector<ir::Op> ops;
    std::vector<const Node *> nodes; ///< to be compared with only

    /// Calls told(record) for each failure.
    template <class F>
    void settle(F &&told);

private:
    /// For failures that no operation is to blame for.
    Location last_line() const { return lines.empty() ? Location{} : lines.back(); }
};

void WatchedDeleter::operator()(Watched *watched) const {
    delete watched;
}

namespace {

struct Flights {
    struct Untold {
        const Recorder *owner;
        FailureRecord *record; ///< a reference
    };

    std::mutex settling; ///< held while one is looked at: they end in order
    std::mutex mutex;    ///< of the rest
    std::deque<WatchedPtr> list;
    std::vector<Untold> untold; ///< failures of threads that have not synced since
    std::atomic<bool> any{false};

    /// Takes out what `f` holds for. The caller has the mutex.
    template <class F>
    std::vector<FailureRecord *> take_untold(F &&f) {
        std::vector<FailureRecord *> taken;
        std::erase_if(untold, [&](const Untold &u) {
            if (f(u))
                taken.push_back(u.record);
            return f(u);
        });
        return taken;
    }
    void forget_if_empty() { any.store(!list.empty() || !untold.empty(), std::memory_order_release); }
    static Flights &get() {
        static Flights *const flights = new Flights;
        return *flights;
    }
    /// Takes over the reference.
    void tell_later(const Recorder *owner, FailureRecord *record) {
        const std::lock_guard lock(mutex);
        untold.push_back({owner, record});
        any.store(true, std::memory_order_release);
    }
};

} // namespace

template <class F>
void Watched::settle(F &&told) {
    std::vector<uint32_t> lost;
    for (uint32_t i = 0; i < inputs.size(); ++i)
        if (inputs[i]->state.load(std::memory_order_acquire) == State::Failed)
            lost.push_back(i);
    const engine::RunReport report = flight->finish(lost);
    Culprits culprits;
    for (const auto &failed : report.failures) {
        const uint32_t at = failed.failure.node();
        culprits.unknown |= at >= nodes.size();
        if (at < nodes.size())
            culprits.add(nodes[at]);
        auto *record = at < lines.size()
                           ? new FailureRecord(of_operation(failed.failure, ops[at], lines[at]), lines[at])
                           : new FailureRecord(failed.failure, last_line());
        told(record);
        for (const uint32_t r : failed.results)
            fail(results[r], record);
        record->release();
    }
    for (const auto &inherited : report.inherited)
        fail(results[inherited.result], inputs[inherited.input]->failure);
    for (const Node *const node : results)
        if (node->failure)
            culprits.add(node);
    for (Node *const node : results) {
        if (node->failure) {
            keep_newest_fallback(node, culprits);
            node->state.store(State::Failed, std::memory_order_release);
        } else if (Node *const fallback = std::exchange(node->fallback, nullptr)) {
            drop_use(fallback);
        }
        node->in_flight.store(false, std::memory_order_release);
    }
    for (Node *const node : results)
        drop_use(node);
    for (Node *const node : inputs)
        drop_use(node);
}

void Thrown::postpone() {
    for (FailureRecord *const record : std::exchange(records_, {}))
        Flights::get().tell_later(Recorder::current_or_null(), record);
}

WatchedPtr watch_flight(const Recording &recording, std::unique_ptr<engine::Flight> flight) {
    WatchedPtr watched(new Watched);
    watched->flight = std::move(flight);
    watched->owner = Recorder::current_or_null();
    for (const Recording::Input &input : recording.inputs) {
        add_use(input.node);
        watched->inputs.push_back(input.node);
    }
    for (const uint32_t w : recording.wanted) {
        Node *const node = recording.operations[w].node;
        add_use(node);
        node->in_flight.store(true, std::memory_order_release);
        watched->results.push_back(node);
    }
    for (const Recording::Operation &o : recording.operations) {
        watched->lines.push_back(from_ir(o.node->loc));
        watched->ops.push_back(o.node->op);
        watched->nodes.push_back(o.node);
    }
    return watched;
}

void hand_over(WatchedPtr watched) {
    Flights &flights = Flights::get();
    const std::lock_guard lock(flights.mutex);
    flights.list.push_back(std::move(watched));
    flights.any.store(true, std::memory_order_release);
}

void settle_flights(Until until, const Node *node, Thrown &thrown) {
    Flights &flights = Flights::get();
    if (!flights.any.load(std::memory_order_acquire))
        return;
    const Recorder *const mine = Recorder::current_or_null();
    const std::lock_guard settling(flights.settling);
    for (;;) {
        if (until == Until::Node && !node->in_flight.load(std::memory_order_acquire))
            return;
        WatchedPtr watched;
        std::vector<FailureRecord *> told;
        {
            const std::lock_guard lock(flights.mutex);
            told = flights.take_untold([&](const Flights::Untold &u) { return u.owner == mine; });
            if (flights.list.empty())
                flights.forget_if_empty();
            else if (until != Until::Done || flights.list.front()->flight->done()) {
                watched = std::move(flights.list.front());
                flights.list.pop_front();
            }
        }
        for (FailureRecord *const record : told) {
            thrown.note(record);
            record->release();
        }
        if (!watched)
            return;
        watched->settle([&](FailureRecord *record) {
            if (!watched->owner) { // its thread has ended: who reads what failed will see
                record->told.store(true, std::memory_order_release);
                return;
            }
            if (watched->owner == mine) {
                thrown.note(record);
                return;
            }
            record->retain();
            flights.tell_later(watched->owner, record);
        });
    }
}

void forget_failures(const Recorder *recorder) {
    Flights &flights = Flights::get();
    if (!flights.any.load(std::memory_order_acquire))
        return;
    std::vector<FailureRecord *> forgotten;
    {
        const std::lock_guard settling(flights.settling); // who looks at one may be about to add a failure
        const std::lock_guard lock(flights.mutex);
        for (const WatchedPtr &watched : flights.list)
            if (watched->owner == recorder)
                watched->owner = nullptr;
        forgotten = flights.take_untold([&](const Flights::Untold &u) { return u.owner == recorder; });
    }
    for (FailureRecord *const record : forgotten) {
        record->told.store(true, std::memory_order_release);
        record->release();
    }
}

} // namespace lz::detail
