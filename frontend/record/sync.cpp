#include "frontend/record/sync.h"

#include "frontend/engine/engine.h"
#include "frontend/engine/log.h"
#include "frontend/engine/streams.h"
#include "frontend/record/access.h"
#include "frontend/record/failure_record.h"
#include "frontend/record/flights.h"
#include "frontend/record/hot_tls.h"
#include "frontend/record/linearise.h"
#include "frontend/record/record.h"
#include "frontend/record/storage.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <exception>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace lz::detail {
namespace {

/// A thread's runs end on so many streams, as a rule.
constexpr size_t kUsualEnds = 8;

/// What a thread keeps between its syncs.
struct PerThread {
    std::vector<ir::Point> issued; ///< where its work on streams ends, the latest moment of each stream
    /// The ends of its latest runs on streams, in turn.
    std::array<std::vector<ir::Point>, 16> ahead;
    size_t runs = 0;
};
/// Made anew for what destructors of statics compute, after the thread's own have run (S68).
LZ_HOT_TLS constinit thread_local PerThread *mine = nullptr;
PerThread &per_thread() {
    if (!mine) [[unlikely]] {
        struct Owner {
            ~Owner() { delete std::exchange(mine, nullptr); }
        };
        mine = new PerThread;
        thread_local const Owner owner;
        (void)owner;
    }
    return *mine;
}

/// Points from `added` on take the places of earlier ones of their streams.
void keep_latest(std::vector<ir::Point> &points, size_t added) {
    for (size_t i = added; i < points.size(); ++i)
        for (size_t k = 0; k < added; ++k)
            if (points[k].stream == points[i].stream) {
                points[k] = points[i];
                points[i--] = points.back();
                points.pop_back();
                break;
            }
}

/// One claimed recording on its way through the engine. Before its first launch whatever is thrown leaves
/// every claimed node pending; from then on each ends Ready or Failed.
class Execution {
public:
    Execution(Recording &recording, Location loc) : recording_(recording), loc_(loc) {}

    ~Execution() { release_results(); }
    Execution(const Execution &) = delete;
    Execution &operator=(const Execution &) = delete;

    /// False: there is no memory for it, and nothing has changed. `last`: that is a failure, too.
    bool run(Thrown &thrown, bool last) {
        try {
            launch(thrown);
        } catch (const ir::Failure &failure) {
            if (!last && failure.kind() == ir::ErrorKind::OutOfMemory) { // as ever before the first launch
                release_results();
                recording_.unclaim();
                return false;
            }
            if (!launched_ && failure.node() < recording_.operations.size()) {
                reject(failure, thrown);
                return true;
            }
            fail_all(record_of(failure), thrown);
        } catch (const std::bad_alloc &) {
            if (!launched_)
                throw; // everything is pending again
            fail_all(no_memory_record(), thrown);
        } catch (const std::exception &error) { // whatever it is, nobody may wait for these nodes for ever
            fail_all(record_of(ir::ErrorKind::Internal, error.what()), thrown);
        }
        settle();
        if (watched_)
            hand_over(std::move(watched_));
        return true;
    }

private:
    void launch(Thrown &thrown) {
        if (!recording_.computes())
            return;
        engine::Engine &engine = engine::Engine::get();
        const std::span<const uint64_t> key = recording_.key;
        const uint64_t hash = XXH3_64bits(key.data(), key.size_bytes());
        engine::ExecutablePtr executable = engine.find(key, hash);
        if (!executable)
            executable = engine.compile(key, hash, recording_.build_graph(), recording_.streams);

        const bool watch = bind_inputs(!engine.cpu_only(*executable));
        bind_results(engine, *executable);
        std::vector<ir::Location> lines;
        if (engine::Engine::profiling())
            for (const Recording::Operation &o : recording_.operations)
                lines.push_back(o.node->loc);
        const size_t ends_before = thread_.issued.size();
        thread_.issued.reserve(ends_before + kUsualEnds);
        launched_ = true;
        ir::Launched launched = engine.run(*executable,
                                           {inputs_, results_, recording_.words, lines, input_uses_,
                                            result_uses_, &thread_.issued, recording_.streams},
                                           watch);
        if (thread_.issued.size() != ends_before)
            hold_back(ends_before);
        keep_latest(thread_.issued, ends_before);
        for (const auto &failed : launched.report.failures) {
            FailureRecord *const record = record_of(failed.failure);
            thrown.note(record);
            for (const uint32_t r : failed.results)
                fail(result(r), record);
            record->release();
            const uint32_t at = failed.failure.node();
            culprits_.unknown |= at >= recording_.operations.size();
            if (at < recording_.operations.size())
                culprits_.add(recording_.operations[at].node);
        }
        if (launched.flight)
            watched_ = watch_flight(recording_, std::move(launched.flight));
    }

    /// Backpressure: a thread is as many runs ahead of its devices as there are places in `ahead`, so that
    /// memory that they are still using does not pile up.
    void hold_back(size_t first_end) {
        std::vector<ir::Point> &place = thread_.ahead[thread_.runs++ % thread_.ahead.size()];
        try {
            engine::synchronize(place);
        } catch (const ir::Failure &) { // who reads what was lost will see
        }
        place.clear();
        try {
            place.assign(thread_.issued.begin() + static_cast<ptrdiff_t>(first_end), thread_.issued.end());
        } catch (const std::bad_alloc &) { // one run further ahead
        }
    }

    /// Whether an input may turn out to be lost. `on_streams`: the Program uses streams, so every use is
    /// noted.
    bool bind_inputs(bool on_streams) {
        bool watch = false, tracked = on_streams;
        for (const Recording::Input &input : recording_.inputs) {
            Node *const node = input.node;
            inputs_.push_back(node->storage->data());
            tracked = tracked || node->storage->block.use.load(std::memory_order_acquire);
            watch = watch || node->in_flight.load(std::memory_order_acquire) ||
                    node->state.load(std::memory_order_acquire) == State::Failed;
        }
        if (tracked)
            for (const Recording::Input &input : recording_.inputs)
                input_uses_.push_back(engine::Engine::track(input.node->storage->block));
        tracked_ = tracked;
        return watch;
    }

    void bind_results(engine::Engine &engine, const engine::Executable &executable) {
        storages_.reserve(recording_.wanted.size());
        for (uint32_t r = 0; r < recording_.wanted.size(); ++r) {
            const int donor = engine.donor(executable, r);
            if (donor >= 0) {
                Storage *s = recording_.inputs[static_cast<size_t>(donor)].node->storage;
                s->retain();
                storages_.push_back(s);
            } else {
                storages_.push_back(allocate(r, engine.result_home(executable, r, recording_.streams)));
            }
            results_.push_back(storages_.back()->data());
            if (tracked_)
                result_uses_.push_back(engine::Engine::track(storages_.back()->block));
        }
    }

    Storage *allocate(uint32_t r, ir::StreamRef home) const {
        try {
            return Storage::allocate(result(r)->type.bytes(), home, result(r)->pinned);
        } catch (const ir::Failure &failure) {
            throw ir::Failure(failure.kind(), failure.message(), {}, recording_.wanted[r]);
        }
    }

    Node *result(uint32_t r) const { return recording_.operations[recording_.wanted[r]].node; }

    /// A reference.
    FailureRecord *record_of(const ir::Failure &failure) noexcept {
        try {
            const ir::Failure told = of_operation(failure, recording_);
            return new FailureRecord(told, location_of(recording_, told, loc_));
        } catch (const std::bad_alloc &) {
            return no_memory_record();
        }
    }
    FailureRecord *record_of(ir::ErrorKind kind, const char *message) noexcept {
        try {
            return record_of(ir::Failure(kind, message));
        } catch (const std::bad_alloc &) {
            return no_memory_record();
        }
    }

    /// Takes over the reference.
    void fail_all(FailureRecord *record, Thrown &thrown) noexcept {
        if (launched_)
            come_to_rest();
        thrown.note(record);
        for (uint32_t r = 0; r < recording_.wanted.size(); ++r)
            fail(result(r), record);
        record->release();
        culprits_.unknown = true;
    }

    /// A run that broke off may still use its memory on streams whose ends nobody noted.
    void come_to_rest() noexcept {
        std::array<bool, 256> waited{};
        for (const Recording::Operation &o : recording_.operations) {
            const ir::Device device = device_of_work(o.node);
            if (device == ir::kCpu || std::exchange(waited[device.index], true))
                continue;
            try {
                engine::synchronize_device(device);
            } catch (const std::exception &) { // a lost device uses nothing any more
            }
        }
    }

    /// Nothing has run, because the compiler rejected an operation (S06) or there is no memory for its
    /// result: it and what depends on it fail, and everything else is pending again.
    void reject(const ir::Failure &failure, Thrown &thrown) {
        release_results();
        std::vector<Node *> failed;
        failed.reserve(recording_.operations.size()); // nothing is thrown from here on
        FailureRecord *const record = record_of(failure);
        thrown.note(record);
        for (size_t i = 0; i < recording_.operations.size(); ++i) {
            const Recording::Operation &o = recording_.operations[i];
            if (o.argument)
                continue;
            bool lost = i == failure.node();
            for (const Node *operand : o.node->operands())
                lost = lost || operand->failure;
            if (lost) {
                fail(o.node, record);
                failed.push_back(o.node);
            }
        }
        record->release();
        Recorder *const mine = Recorder::current_or_null();
        for (Node *const node : failed) {
            Node *version = node->fallback;
            while (version && version->failure)
                version = version->fallback;
            if (version)
                add_use(version);
            if (Node *const last = std::exchange(node->fallback, version))
                drop_use(last);
            if (mine && node->owner == mine && node->linked)
                mine->unlink(node);
            node->state.store(State::Failed, std::memory_order_release);
            let_go_of_operands(node);
        }
        recording_.unclaim();
    }

    static void let_go_of_operands(Node *node) {
        if (node->several) { // its projections are found behind them
            for (Node *&operand : node->operands())
                if (Node *const last = std::exchange(operand, nullptr))
                    drop_use(last);
            return;
        }
        const uint16_t count = node->num_operands;
        node->num_operands = 0;
        for (uint16_t i = 0; i < count; ++i)
            drop_use(node->operand_data()[i]);
    }

    void release_results() {
        for (Storage *const storage : storages_)
            storage->release();
        storages_.clear();
    }

    /// Failed results: their handles go back to the newest version that did not fail.
    void go_back() {
        for (uint32_t r = 0; r < recording_.wanted.size(); ++r)
            if (Node *const node = result(r); node->failure) {
                keep_newest_fallback(node, culprits_);
                node->state.store(State::Failed, std::memory_order_release);
            }
    }

    /// Gives results to their nodes, lets go of operands, and of the claims.
    void settle() noexcept {
        recording_.settled();
        int64_t stored = 0;
        for (uint32_t r = 0; r < recording_.wanted.size(); ++r) {
            Node *const node = result(r);
            Storage *const storage = r < storages_.size() ? storages_[r] : nullptr;
            if (node->failure) [[unlikely]] {
                if (storage)
                    storage->release();
                culprits_.add(node);
            } else {
                node->storage = storage;
                node->state.store(State::Ready, std::memory_order_release);
                stored += storage->bytes;
            }
        }
        storages_.clear();
        for (const Recording::Alias &alias : recording_.aliases) {
            alias.source->storage->retain();
            alias.node->storage = alias.source->storage;
            alias.node->state.store(State::Ready, std::memory_order_release);
        }
        if (!culprits_.none()) [[unlikely]] // when it is known what has a value
            go_back();
        Recorder *const mine = Recorder::current_or_null();
        const std::vector<Recording::Operation> &operations = recording_.operations;
        for (size_t i = 0; i < operations.size(); ++i) {
            prefetch_ahead(operations, i);
            const Recording::Operation &o = operations[i];
            Node *const node = o.node;
            if (mine && node->owner == mine && node->linked)
                mine->unlink(node);
            if (is_effect(node))
                node->state.store(State::Ready, std::memory_order_release);
            if (o.wanted && !node->failure && !node->in_flight.load(std::memory_order_acquire))
                if (Node *fallback = std::exchange(node->fallback, nullptr))
                    drop_use(fallback);
            if (o.wanted)
                let_go_of_operands(node);
        }
        for (const Recording::Alias &alias : recording_.aliases) {
            if (Node *const fallback = std::exchange(alias.node->fallback, nullptr))
                drop_use(fallback);
            let_go_of_operands(alias.node);
        }
        if (mine && mine->count() > 0) // what is still pending may read these, and alone keep them (S22)
            mine->note_read(stored);
        notify_waiters();
        // Consumers go first: then each node is visited once, and goes at once.
        for (size_t i = operations.size(); i-- > 0;) {
            if (i >= kAhead)
                prefetch(operations[i - kAhead].node);
            drop_use(operations[i].node);
        }
    }

    Recording &recording_;
    Location loc_;
    bool tracked_ = false, launched_ = false;
    Culprits culprits_;
    WatchedPtr watched_;
    PerThread &thread_ = per_thread();
    std::vector<void *> &inputs_ = recording_.bound.inputs;
    std::vector<ir::MemoryUse *> &input_uses_ = recording_.bound.input_uses;
    std::vector<void *> &results_ = recording_.bound.results;
    std::vector<ir::MemoryUse *> &result_uses_ = recording_.bound.result_uses;
    std::vector<Storage *> &storages_ = recording_.bound.storages;
};

/// Claims what `claims` says and runs it; again when another sync's node that it waited for did not come.
/// False unless it is the `last` try: there is no memory for it, and it is pending as before.
template <class F>
bool try_to_run(Location loc, Thrown &thrown, F &&claims, bool last) {
    for (;;) {
        Recording recording;
        claims(recording);
        if (recording.empty())
            return true;
        recording.finish();
        recording.release_lock();
        if (!recording.awaits() || recording.wait())
            return Execution(recording, loc).run(thrown, last);
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

private:
    std::vector<Node *> nodes_;
};

/// There is no memory for a Program that computes all that `claims` says. One value after the other, in the
/// order of recording, may fit: what one reads and nobody else needs is given back before the next, as in a
/// library that computes at once. False when one is left that does not fit.
template <class F>
bool run_apart(Location loc, Thrown &thrown, F &&claims) {
    Held values;
    {
        Recording recording;
        claims(recording);
        recording.finish();
        for (const uint32_t i : recording.wanted)
            values.add(recording.operations[i].node);
        recording.release_lock();
        recording.unclaim();
    }
    Recorder &mine = Recorder::current();
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
    while (!values.empty())
        if (!values.drop_if(fits))
            return false;
    return true;
}

/// S52: a Program's memory cannot be had. What runs still hold may come back, and what pending work holds
/// when that is launched: first what was asked for, then all of this thread's.
template <class F>
void make_room_and_run(Location loc, Thrown &thrown, F &&claims) {
    if (engine::Engine::get().options().log_memory)
        engine::log_line("memory",
                         "a program finds no memory: what is pending on its thread is computed value "
                         "by value");
    settle_flights(Until::Landed, nullptr, thrown);
    if (!run_apart(loc, thrown, claims))
        run_apart(loc, thrown, [](Recording &r) { r.claim_list(Recorder::current(), nullptr); });
    try_to_run(loc, thrown, claims, true);
}

/// Claims what `claims` says and runs it, whatever becomes of it.
template <class F>
void claim_and_run(Location loc, Thrown &thrown, F &&claims) {
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

} // namespace

void prepare_sync_of_thread() {
    per_thread();
    no_memory_record()->release();
    prepare_waiting();
}

void launch_all(Location loc) {
    Thrown thrown;
    claim_and_run(loc, thrown, [](Recording &r) { r.claim_list(Recorder::current(), nullptr); });
    thrown.raise();
}

void sync_all(Location loc) {
    Thrown thrown;
    claim_and_run(loc, thrown, [](Recording &r) { r.claim_list(Recorder::current(), nullptr); });
    if (std::vector<ir::Point> &issued = per_thread().issued; !issued.empty()) {
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
    thrown.raise();
}

void eval_nodes(std::span<Node *const> nodes, Location loc) {
    Thrown thrown;
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

Storage *materialize(Node *node, Location loc) {
    for (;;) {
        switch (node->state.load(std::memory_order_acquire)) {
        case State::Ready:
            return node->storage;
        case State::Failed: {
            Thrown thrown; // this thread may not have been told yet
            settle_flights(Until::Done, nullptr, thrown);
            thrown.raise();
            throw_public(node->failure->failure, node->failure->loc);
        }
        case State::Claimed:
            wait_while_claimed(node);
            break;
        case State::Pending: {
            Thrown thrown;
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
    translated(loc, [&] { engine::Engine::get().wait(storage->block, writer); });
    while (node->in_flight.load(std::memory_order_acquire)) {
        Thrown thrown;
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
    Thrown thrown;
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
    const auto same = [](const Node *a, const Node *b) {
        return a->loc.line == b->loc.line && a->loc.file == b->loc.file;
    };
    const Node *const first = recorder.head();
    const Node *cut = nullptr;
    for (const Node *n = recorder.tail(); n != first; n = n->prev) {
        if (same(n, first) && !same(n, n->prev)) {
            cut = n;
            break;
        }
    }
    Thrown thrown;
    claim_and_run(loc, thrown, [&](Recording &r) { r.claim_list(recorder, cut); });
    thrown.postpone(); // nobody asked for a value yet (S26)
}

} // namespace lz::detail
