#include "frontend/record/execution/flights.h"

#include "frontend/record/record.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace lz::detail {

struct Watched {
    std::unique_ptr<ir::Flight> flight;
    const Recorder *owner = nullptr;     ///< whose thread launched it; null: that has ended
    std::vector<Node *> inputs, results; ///< a use of each; an input that cannot be lost is null
    std::vector<Location> lines;         ///< by recorded index
    std::vector<ir::Op> ops;
    std::vector<const Node *> nodes; ///< to be compared with only
    WatchedPtr next;                 ///< launched after it

    /// Calls told(record) for each failure.
    template <class F>
    void settle(F &&told) noexcept;

private:
    template <class F>
    void find_failures(FailedNodes &failed_nodes, F &&told);
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
    WatchedPtr first;    ///< linked, so that nothing has to be allocated once a run has begun
    Watched *last = nullptr;
    std::vector<Untold> untold; ///< failures of threads that have not synced since
    std::atomic<bool> any{false};

    /// Takes out one that `f` holds for, or null. The caller has the mutex.
    template <class F>
    FailureRecord *take_untold(F &&f) {
        const auto found = std::ranges::find_if(untold, f);
        if (found == untold.end())
            return nullptr;
        FailureRecord *const record = found->record;
        untold.erase(found);
        return record;
    }
    void forget_if_empty() { any.store(first || !untold.empty(), std::memory_order_release); }
    static Flights &get() {
        static Flights *const flights = new Flights;
        return *flights;
    }
    /// Takes over the reference.
    void tell_later(const Recorder *owner, FailureRecord *record) noexcept {
        const std::lock_guard lock(mutex);
        try {
            untold.push_back({owner, record});
        } catch (const std::bad_alloc &) { // who reads what failed will see
            record->told.store(true, std::memory_order_release);
            record->release();
            return;
        }
        any.store(true, std::memory_order_release);
    }
    WatchedPtr take_first() {
        WatchedPtr taken = std::move(first);
        first = std::move(taken->next);
        if (!first)
            last = nullptr;
        return taken;
    }
};

} // namespace

template <class F>
void Watched::find_failures(FailedNodes &failed_nodes, F &&told) {
    std::vector<uint32_t> lost;
    for (uint32_t i = 0; i < inputs.size(); ++i)
        if (inputs[i] && inputs[i]->state.load(std::memory_order_acquire) == State::Failed)
            lost.push_back(i);
    const ir::RunReport report = flight->finish(lost);
    for (const auto &failed : report.failures) {
        const uint32_t at = failed.failure.node();
        failed_nodes.unknown |= at >= nodes.size();
        if (at < nodes.size())
            failed_nodes.add(nodes[at]);
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
}

template <class F>
void Watched::settle(F &&told) noexcept {
    FailedNodes failed_nodes;
    try {
        find_failures(failed_nodes, told);
    } catch (const std::bad_alloc &) { // how it ended cannot be found out any more
        flight.reset();
        FailureRecord *const record = no_memory_record();
        failed_nodes.unknown = true;
        for (Node *const node : results)
            fail(node, record);
        told(record);
        record->release();
    }
    for (const Node *const node : results)
        if (node->failure)
            failed_nodes.add(node);
    for (Node *const node : results) {
        if (node->failure) {
            keep_newest_fallback(node, failed_nodes);
            node->state.store(State::Failed, std::memory_order_release);
        } else if (Node *const fallback = std::exchange(node->fallback, nullptr)) {
            drop_use(fallback);
        }
        node->in_flight.store(false, std::memory_order_release);
    }
    for (Node *const node : results)
        drop_use(node);
    for (Node *const node : inputs)
        if (node)
            drop_use(node);
}

void tell_later(const Recorder *owner, FailureRecord *record) noexcept {
    Flights::get().tell_later(owner, record);
}

WatchedPtr watch_flight(const Recording &recording, std::unique_ptr<ir::Flight> flight,
                        std::span<const uint32_t> overwritten) {
    WatchedPtr watched(new Watched);
    watched->flight = std::move(flight);
    watched->owner = Recorder::current_or_null();
    watched->inputs.reserve(recording.inputs.size());
    watched->results.reserve(recording.wanted.size());
    for (const Recording::Operation &o : recording.operations) {
        watched->lines.push_back(from_ir(o.node->loc));
        watched->ops.push_back(o.node->op);
        watched->nodes.push_back(o.node);
    }
    // Nothing is thrown from here on.
    for (uint32_t i = 0; i < recording.inputs.size(); ++i) {
        const bool read_before = std::ranges::find(overwritten, i) != overwritten.end();
        watched->inputs.push_back(read_before ? nullptr : recording.inputs[i].node);
        if (!read_before)
            add_use(recording.inputs[i].node);
    }
    for (const uint32_t w : recording.wanted) {
        Node *const node = recording.operations[w].node;
        add_use(node);
        node->in_flight.store(true, std::memory_order_release);
        watched->results.push_back(node);
    }
    return watched;
}

uint32_t uses_by_flights(const Node *node) {
    Flights &flights = Flights::get();
    const std::lock_guard lock(flights.mutex);
    uint32_t uses = 0;
    for (const Watched *watched = flights.first.get(); watched; watched = watched->next.get())
        uses += static_cast<uint32_t>(std::ranges::count(watched->inputs, node));
    return uses;
}

void hand_over(WatchedPtr watched) noexcept {
    Flights &flights = Flights::get();
    const std::lock_guard lock(flights.mutex);
    Watched *const last = watched.get();
    (flights.last ? flights.last->next : flights.first) = std::move(watched);
    flights.last = last;
    flights.any.store(true, std::memory_order_release);
}

void settle_flights(Until until, const Node *node, PendingErrors &thrown) {
    Flights &flights = Flights::get();
    if (!flights.any.load(std::memory_order_acquire))
        return;
    const Recorder *const mine = Recorder::current_or_null();
    const std::lock_guard settling(flights.settling);
    for (;;) {
        if (until == Until::Node && !node->in_flight.load(std::memory_order_acquire))
            return;
        WatchedPtr watched;
        {
            const std::lock_guard lock(flights.mutex);
            while (FailureRecord *const record =
                       flights.take_untold([&](const Flights::Untold &u) { return u.owner == mine; })) {
                thrown.note(record);
                record->release();
            }
            if (!flights.first)
                flights.forget_if_empty();
            else if (until != Until::Done || flights.first->flight->done())
                watched = flights.take_first();
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
    const std::lock_guard settling(flights.settling); // who looks at one may be about to add a failure
    const std::lock_guard lock(flights.mutex);
    for (Watched *watched = flights.first.get(); watched; watched = watched->next.get())
        if (watched->owner == recorder)
            watched->owner = nullptr;
    while (FailureRecord *const record =
               flights.take_untold([&](const Flights::Untold &u) { return u.owner == recorder; })) {
        record->told.store(true, std::memory_order_release);
        record->release();
    }
}

} // namespace lz::detail
