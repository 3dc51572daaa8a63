#include "frontend/record/execution/execution.h"

#include "frontend/engine/engine.h"
#include "frontend/engine/streams.h"
#include "frontend/record/execution/stopped.h"
#include "frontend/record/failure_record.h"
#include "frontend/record/record.h"
#include "frontend/record/storage.h"
#include "frontend/record/sync/waiting.h"
#include "ir/host/hot_tls.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <string>
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

/// Backpressure: a thread is as many runs ahead of its devices as there are places in `ahead`, so that memory
/// that they are still using does not pile up.
void hold_back(PerThread &thread, size_t first_end) {
    std::vector<ir::Point> &place = thread.ahead[thread.runs++ % thread.ahead.size()];
    try {
        engine::synchronize(place);
    } catch (const ir::Failure &) { // who reads what was lost will see
    }
    place.clear();
    try {
        place.assign(thread.issued.begin() + static_cast<ptrdiff_t>(first_end), thread.issued.end());
    } catch (const std::bad_alloc &) { // one run further ahead
    }
}

/// One claimed recording on its way through the engine. Before its first launch whatever is thrown leaves
/// every claimed node pending; from then on each ends Ready or Failed.
class Execution : ir::FailureGroups {
public:
    Execution(Recording &recording, Location loc) : recording_(recording), loc_(loc) {}

    ~Execution() { release_results(); }
    Execution(const Execution &) = delete;
    Execution &operator=(const Execution &) = delete;

    /// False: there is no memory for it, and nothing has changed. `last`: that is a failure, too.
    bool run(PendingErrors &thrown, bool last) {
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
        if (stopped_) [[unlikely]]
            hand_over(std::move(stopped_));
        return true;
    }

private:
    void launch(PendingErrors &thrown) {
        if (!recording_.computes()) {
            if (recording_.observer)
                recording_.observer->run(recording_, nullptr);
            return;
        }
        engine::Engine &engine = engine::Engine::get();
        const std::span<const uint64_t> key = recording_.key;
        const uint64_t hash = XXH3_64bits(key.data(), key.size_bytes());
        engine::ExecutablePtr executable = engine.find(key, hash);
        if (!executable)
            executable = engine.compile(key, hash, recording_.build_graph(), recording_.streams);

        executable_ = executable.get();
        const bool watch = bind_inputs(!engine.cpu_only(*executable));
        bind_results(engine, *executable);
        std::vector<ir::Location> lines;
        if (engine::Engine::profiling())
            for (const Recording::Operation &o : recording_.operations)
                lines.push_back(o.node->loc);
        if (recording_.observer) [[unlikely]]
            recording_.observer->run(recording_, executable);
        thread_.issued.reserve(thread_.issued.size() + kUsualEnds);
        launched_ = true;
        ir::Bindings bindings{inputs_,      results_, recording_.words,   lines, input_uses_,
                              result_uses_, nullptr,  recording_.streams, this};
        ir::Launched launched = run_on_account(*executable, bindings, watch);
        if (launched.stopped) [[unlikely]] {
            stop(engine, *executable, std::move(launched.stopped), thrown);
            return;
        }
        const std::string mixed = launched.report.failures.empty() ? "" : told_apart(launched.report);
        for (const auto &failed : launched.report.failures) {
            FailureRecord *const record = record_of(failed.failure, mixed);
            thrown.note(record);
            for (const uint32_t r : failed.results)
                fail(result(r), record);
            if (&failed == launched.report.failures.data())
                for (const uint32_t r : launched.report.overwritten)
                    lose_old_value(engine.donor(*executable, r), record);
            record->release();
            const uint32_t at = failed.failure.node();
            failed_nodes_.unknown |= at >= recording_.operations.size();
            if (at < recording_.operations.size())
                failed_nodes_.add(recording_.operations[at].node);
        }
        failed_nodes_.unknown |= launched.report.refused;
        if (launched.flight)
            watched_ = watch_flight(recording_, std::move(launched.flight), lost_donors_);
    }

    /// A part of it is done, and the rest will be: until then nobody sees a result of it.
    [[gnu::cold]] void stop(const engine::Engine &engine, const engine::Executable &executable,
                            std::unique_ptr<ir::StoppedRun> run, PendingErrors &thrown) {
        FailureRecord *const record = record_of(run->why(), kGoesOnLater);
        try {
            std::vector<Node *> inputs;
            for (const Recording::Input &input : recording_.inputs)
                inputs.push_back(input.node);
            stopped_ = keep_stopped(std::move(run), record, inputs, storages_);
            for (const Recording::Operation &o : recording_.operations) {
                stopped_->lines.push_back(from_ir(o.node->loc));
                stopped_->ops.push_back(o.node->op);
            }
            stopped_->streams.reserve(recording_.streams.size());
            for (const ir::StreamRef stream : recording_.streams) {
                engine::hold_stream(stream);
                stopped_->streams.push_back(stream);
            }
        } catch (...) { // it cannot be kept: nobody sees the half of it
            stopped_.reset();
            for (uint32_t r = 0; r < recording_.wanted.size(); ++r)
                lose_old_value(engine.donor(executable, r), record);
            record->release();
            throw;
        }
        thrown.note(record);
        record->release();
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

    /// What one line of the user changes in place (a step of an optimizer) is changed as a whole.
    void groups(std::span<uint32_t> group) const override {
        std::vector<ir::Location> lines;
        for (uint32_t r = 0; r < group.size(); ++r)
            if (const Node *const node = result(r); node->fallback)
                group[r] = number_of_line(lines, node->loc);
        // A result that takes the memory of what another one goes back to belongs to that.
        for (uint32_t r = 0; r < group.size(); ++r)
            if (const int donor = engine::Engine::get().donor(*executable_, r);
                donor >= 0 && group[r] == ir::kNone)
                group[r] = group_that_goes_back_to(recording_.inputs[static_cast<size_t>(donor)].node, group);
    }
    uint32_t group_that_goes_back_to(const Node *value, std::span<const uint32_t> group) const {
        for (uint32_t r = 0; r < group.size(); ++r)
            for (const Node *version = result(r)->fallback; version; version = version->fallback)
                if (version == value)
                    return group[r];
        return ir::kNone;
    }
    static uint32_t number_of_line(std::vector<ir::Location> &lines, const ir::Location &loc) {
        const auto known = std::ranges::find_if(
            lines, [&](const ir::Location &l) { return l.line == loc.line && l.file == loc.file; });
        const auto number = static_cast<uint32_t>(known - lines.begin());
        if (known == lines.end())
            lines.push_back(loc);
        return number;
    }

    /// Of what the recording changes in place a part was changed, and a part was not: which. Else nothing.
    std::string told_apart(const ir::RunReport &report) const {
        std::vector<bool> lost(recording_.wanted.size()), gone(lost.size());
        for (const auto &failed : report.failures)
            for (const uint32_t r : failed.results)
                lost[r] = true;
        for (const uint32_t r : report.overwritten)
            gone[r] = lost[r];
        Tensors changed, unchanged, without;
        for (uint32_t r = 0; r < lost.size(); ++r)
            if (const Node *const node = result(r); node->fallback)
                (gone[r] ? without : lost[r] ? unchanged : changed).add(node);
        if (without.count == 0 && (changed.count == 0 || unchanged.count == 0))
            return {};
        std::string told;
        for (const auto &[tensors, how] :
             {std::pair(&changed, "changed"), {&unchanged, "as before"}, {&without, "without a value"}})
            if (tensors->count > 0)
                told += fmt::format("{}{} {} {} ({})", told.empty() ? "" : ", ", tensors->count,
                                    tensors->count == 1 ? "tensor is" : "tensors are", how, tensors->names);
        return fmt::format(" (Of what was to be changed in place, {}.)", told);
    }
    struct Tensors {
        static constexpr uint32_t kNamed = 4;
        uint32_t count = 0;
        std::string names;
        void add(const Node *node) {
            if (++count <= kNamed)
                names += fmt::format("{}{} of {}", count > 1 ? ", " : "", to_string(node->type),
                                     to_string(node->loc));
            else if (count == kNamed + 1)
                names += ", and others";
        }
    };

    /// What a handle might go back to was written over, all or in part.
    void lose_old_value(int donor, FailureRecord *record) {
        if (donor < 0)
            return;
        lost_donors_.push_back(static_cast<uint32_t>(donor));
        Node *const old = recording_.inputs[static_cast<size_t>(donor)].node;
        fail(old, record);
        old->state.store(State::Failed, std::memory_order_release);
    }

    /// A reference. `more` comes after the message.
    FailureRecord *record_of(const ir::Failure &failure, const std::string &more = {}) noexcept {
        try {
            const ir::Failure told = of_operation(failure, recording_);
            if (!more.empty())
                return new FailureRecord(
                    ir::Failure(told.kind(), told.message() + more, told.loc(), told.node()),
                    location_of(recording_, told, loc_));
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
    void fail_all(FailureRecord *record, PendingErrors &thrown) noexcept {
        if (launched_)
            wait_for_devices();
        thrown.note(record);
        for (uint32_t r = 0; r < recording_.wanted.size(); ++r)
            fail(result(r), record);
        record->release();
        failed_nodes_.unknown = true;
    }

    /// A run that broke off may still use its memory on streams whose ends nobody noted.
    void wait_for_devices() noexcept {
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
    void reject(const ir::Failure &failure, PendingErrors &thrown) {
        release_results();
        std::vector<Node *> failed;
        failed.reserve(recording_.operations.size()); // nothing is thrown from here on
        recording_.hold_all();
        FailureRecord *const record = record_of(failure);
        thrown.note(record);
        // What is to be changed in place is changed as a whole, unless the user's own mistake is in the way.
        const bool together =
            failure.kind() == ir::ErrorKind::OutOfMemory || failure.kind() == ir::ErrorKind::Compile;
        const auto lose = [&](bool changes) {
            bool lost_change = false;
            for (size_t i = 0; i < recording_.operations.size(); ++i) {
                const Recording::Operation &o = recording_.operations[i];
                if (o.argument || o.node->failure)
                    continue;
                bool lost = i == failure.node() || (changes && o.node->fallback);
                for (const Node *operand : o.node->operands())
                    lost = lost || (operand->failure &&
                                    operand->state.load(std::memory_order_acquire) != State::Ready);
                if (!lost)
                    continue;
                fail(o.node, record);
                failed.push_back(o.node);
                lost_change = lost_change || o.node->fallback;
            }
            return lost_change;
        };
        if (lose(false) && together)
            lose(true);
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
                keep_newest_fallback(node, failed_nodes_);
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
            if (stopped_) [[unlikely]] {
                node->storage = storage;
                stop_result(*stopped_, r, node);
            } else if (node->failure) [[unlikely]] {
                if (storage)
                    storage->release();
                failed_nodes_.add(node);
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
        if (!failed_nodes_.none()) [[unlikely]] // when it is known what has a value
            go_back();
        Recorder *const mine = Recorder::current_or_null();
        const std::vector<Recording::Operation> &operations = recording_.operations;
        // Those that nobody holds, which are neither results nor effects, go with the last that reads them
        // and leave the list then. In their order: what a result lets go of, if it is a result itself, has
        // been here already.
        for (size_t i = 0; i < operations.size(); ++i) {
            const Recording::Operation &o = operations[i];
            if (!o.held)
                continue;
            prefetch_ahead(operations, i);
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
            if (i >= kAhead && operations[i - kAhead].held)
                prefetch(operations[i - kAhead].node);
            if (operations[i].held)
                drop_use(operations[i].node);
        }
    }

    Recording &recording_;
    Location loc_;
    bool tracked_ = false, launched_ = false;
    FailedNodes failed_nodes_;
    const engine::Executable *executable_ = nullptr;
    WatchedPtr watched_;
    StoppedPtr stopped_;
    std::vector<uint32_t> lost_donors_; ///< inputs that were written over, and are lost by that
    PerThread &thread_ = per_thread();
    std::vector<void *> &inputs_ = recording_.bound.inputs;
    std::vector<ir::MemoryUse *> &input_uses_ = recording_.bound.input_uses;
    std::vector<void *> &results_ = recording_.bound.results;
    std::vector<ir::MemoryUse *> &result_uses_ = recording_.bound.result_uses;
    std::vector<Storage *> &storages_ = recording_.bound.storages;
};

} // namespace

bool execute(Recording &recording, Location loc, PendingErrors &thrown, bool last) {
    return Execution(recording, loc).run(thrown, last);
}

ir::Launched run_on_account(const engine::Executable &executable, ir::Bindings &bindings, bool watch) {
    PerThread &thread = per_thread();
    const size_t ends_before = thread.issued.size();
    bindings.ends = &thread.issued;
    ir::Launched launched = engine::Engine::get().run(executable, bindings, watch);
    if (thread.issued.size() != ends_before) {
        hold_back(thread, ends_before);
        keep_latest(thread.issued, ends_before);
    }
    return launched;
}

std::vector<ir::Point> &issued_by_thread() {
    return per_thread().issued;
}

} // namespace lz::detail
