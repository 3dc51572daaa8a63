#include "lazuli/detail/flights.h"

#include "lazuli/detail/recorder.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace lz::detail {

Thrown::~Thrown() {
    if (record_)
        record_->release();
}

void Thrown::note(FailureRecord *record) {
    if (record_)
        return;
    record->retain();
    record_ = record;
}

void Thrown::raise() {
    if (!record_)
        return;
    const ir::Failure failure = record_->failure;
    const Location loc = record_->loc;
    std::exchange(record_, nullptr)->release();
    throw_public(failure, loc);
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

void keep_newest_fallback(Node *failed) {
    Node *version = failed->fallback;
    while (version && version->state.load(std::memory_order_acquire) != State::Ready)
        version = version->fallback;
    if (version)
        add_use(version);
    if (Node *last = std::exchange(failed->fallback, version))
        drop_use(last);
}

static_assert(static_cast<int>(ir::Op::RecordEvent) + 1 == static_cast<int>(ir::Op::WaitEvent) &&
                  static_cast<int>(ir::Op::WaitStream) + 1 == static_cast<int>(ir::Op::HostCallback),
              "is_effect knows the order of the op table");

namespace {

struct Watched {
    std::unique_ptr<engine::Flight> flight;
    std::vector<Node *> inputs, results; ///< a use of each
    std::vector<Location> lines;         ///< by recorded index
    std::vector<ir::Op> ops;

    void settle(Thrown &thrown);

private:
    /// For failures that no operation is to blame for.
    Location last_line() const { return lines.empty() ? Location{} : lines.back(); }
};

struct Flights {
    std::mutex settling; ///< held while one is looked at: they end in order
    std::mutex mutex;    ///< of the list
    std::deque<Watched> list;
    std::atomic<bool> any{false};
    static Flights &get() {
        static Flights *const flights = new Flights;
        return *flights;
    }
};

void Watched::settle(Thrown &thrown) {
    std::vector<uint32_t> lost;
    for (uint32_t i = 0; i < inputs.size(); ++i)
        if (inputs[i]->state.load(std::memory_order_acquire) == State::Failed)
            lost.push_back(i);
    const engine::RunReport report = flight->finish(lost);
    for (const auto &failed : report.failures) {
        const uint32_t at = failed.failure.node();
        auto *record = at < lines.size()
                           ? new FailureRecord(of_operation(failed.failure, ops[at], lines[at]), lines[at])
                           : new FailureRecord(failed.failure, last_line());
        thrown.note(record);
        for (const uint32_t r : failed.results)
            fail(results[r], record);
        record->release();
    }
    for (const auto &inherited : report.inherited)
        fail(results[inherited.result], inputs[inherited.input]->failure);
    for (Node *const node : results) {
        if (node->failure) {
            keep_newest_fallback(node);
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

} // namespace

void watch_flight(const Recording &recording, std::unique_ptr<engine::Flight> flight) {
    Watched watched;
    watched.flight = std::move(flight);
    for (const Recording::Input &input : recording.inputs) {
        add_use(input.node);
        watched.inputs.push_back(input.node);
    }
    for (const uint32_t w : recording.wanted) {
        Node *const node = recording.operations[w].node;
        add_use(node);
        node->in_flight.store(true, std::memory_order_release);
        watched.results.push_back(node);
    }
    for (const Recording::Operation &o : recording.operations) {
        watched.lines.push_back(from_ir(o.node->loc));
        watched.ops.push_back(o.node->op);
    }
    Flights &flights = Flights::get();
    const std::lock_guard lock(flights.mutex);
    flights.list.push_back(std::move(watched));
    flights.any.store(true, std::memory_order_release);
}

void settle_flights(Until until, const Node *node, Thrown &thrown) {
    Flights &flights = Flights::get();
    if (!flights.any.load(std::memory_order_acquire))
        return;
    const std::lock_guard settling(flights.settling);
    for (;;) {
        if (until == Until::Node && !node->in_flight.load(std::memory_order_acquire))
            return;
        Watched watched;
        {
            const std::lock_guard lock(flights.mutex);
            if (flights.list.empty()) {
                flights.any.store(false, std::memory_order_release);
                return;
            }
            if (until == Until::Done && !flights.list.front().flight->done())
                return;
            watched = std::move(flights.list.front());
            flights.list.pop_front();
        }
        watched.settle(thrown);
    }
}

} // namespace lz::detail
