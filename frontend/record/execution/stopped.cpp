#include "frontend/record/execution/stopped.h"

#include "frontend/engine/streams.h"
#include "frontend/record/execution/flights.h"
#include "frontend/record/record.h"
#include "frontend/record/storage.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

namespace lz::detail {

namespace {

struct StoppedRuns {
    std::mutex going_on; ///< held while one goes on
    std::mutex mutex;    ///< of the rest
    std::vector<StoppedPtr> runs;

    static StoppedRuns &get() {
        static StoppedRuns *const runs = new StoppedRuns;
        return *runs;
    }
    std::vector<StoppedRecording *> all() {
        const std::lock_guard lock(mutex);
        std::vector<StoppedRecording *> out;
        for (const StoppedPtr &run : runs)
            out.push_back(run.get());
        return out;
    }
    StoppedPtr take(const StoppedRecording *run) {
        const std::lock_guard lock(mutex);
        const auto found = std::ranges::find(runs, run, &StoppedPtr::get);
        StoppedPtr taken = std::move(*found);
        runs.erase(found);
        any_stopped.store(!runs.empty(), std::memory_order_release);
        return taken;
    }
};

/// Memory that the user may write to without a word to the engine. (Of a GPU's nobody knows how.)
bool may_be_written_by_user(const Storage &storage) {
    return storage.device() == ir::kCpu && (storage.adopted || storage.exposed.load());
}

/// Whether nobody but this list can ask for a result.
bool is_forgotten(const StoppedRecording &stopped) {
    return std::ranges::all_of(stopped.results, [&](const Node *node) {
        return !node || node->uses() == 1 + std::ranges::count(stopped.inputs, node);
    });
}

void tell(const StoppedRecording &stopped, FailureRecord *record, PendingErrors &thrown) {
    if (!stopped.owner) { // who reads what failed will see
        record->told.store(true, std::memory_order_release);
    } else if (stopped.owner == Recorder::current_or_null()) {
        thrown.note(record);
    } else {
        record->retain();
        tell_later(stopped.owner, record);
    }
}

/// Tells of what failed; by result, whether it is lost by that.
std::vector<bool> tell_failures(const StoppedRecording &stopped, const ir::RunReport &report,
                                PendingErrors &thrown) {
    std::vector<bool> failed(stopped.results.size());
    for (const auto &f : report.failures) {
        const uint32_t at = f.failure.node();
        auto *const record =
            at < stopped.lines.size()
                ? new FailureRecord(of_operation(f.failure, stopped.ops[at], stopped.lines[at]),
                                    stopped.lines[at])
                : new FailureRecord(f.failure, stopped.record->loc);
        tell(stopped, record, thrown);
        record->release();
        for (const uint32_t r : f.results)
            failed[r] = true;
    }
    for (const auto &inherited : report.inherited)
        failed[inherited.result] = true;
    return failed;
}

/// It is over; `report` is null where nobody knows how, because the host had no memory to find out. What
/// failed keeps the failure by which it stopped, which other threads may be reading. Where a call was refused
/// that is not made again (a device is lost), and where nobody knows, all results fail for good: some tensors
/// would be as before the run and others as after it.
void settle(const StoppedRecording &stopped, const ir::RunReport *report, PendingErrors &thrown) noexcept {
    std::vector<bool> failed;
    try {
        if (report && !report->ok())
            failed = tell_failures(stopped, *report, thrown);
    } catch (const std::bad_alloc &) {
        report = nullptr;
    }
    if (!report) {
        FailureRecord *const record = no_memory_record();
        tell(stopped, record, thrown);
        record->release();
    }
    FailedNodes nobody_knows;
    nobody_knows.unknown = true;
    const bool all_lost = !report || report->refused;
    for (size_t r = 0; r < stopped.results.size(); ++r) {
        Node *const node = stopped.results[r];
        if (!node)
            continue;
        const bool lost = all_lost || (!failed.empty() && failed[r]);
        if (lost && !all_lost)
            keep_newest_fallback(node, nobody_knows);
        else if (Node *const fallback = std::exchange(node->fallback, nullptr))
            drop_use(fallback);
        if (lost)
            std::exchange(node->storage, nullptr)->release();
        node->state.store(lost ? State::Failed : State::Ready, std::memory_order_release);
    }
}

/// False: it is refused again.
bool goes_on(StoppedRecording &stopped, PendingErrors &thrown) {
    std::vector<uint32_t> lost;
    for (uint32_t i = 0; i < stopped.inputs.size(); ++i)
        if (stopped.inputs[i]->state.load(std::memory_order_acquire) == State::Failed)
            lost.push_back(i);
    ir::RunReport report;
    try {
        if (!stopped.run->resume(lost, report))
            return false;
        settle(stopped, &report, thrown);
    } catch (const std::bad_alloc &) { // calls that may have been made are not made a second time
        settle(stopped, nullptr, thrown);
    }
    return true;
}

thread_local bool is_going_on = false; // a function of the user's that a run calls may sync

} // namespace

StoppedRecording::~StoppedRecording() {
    run.reset();
    for (Node *const node : results)
        if (node)
            drop_use(node);
    for (Node *const node : inputs)
        drop_use(node);
    for (Storage *const storage : storages)
        storage->release();
    for (const ir::StreamRef stream : streams)
        engine::release_stream(stream);
    if (record)
        record->release();
}

StoppedPtr keep_stopped(std::unique_ptr<ir::StoppedRun> run, FailureRecord *record,
                        std::span<Node *const> inputs, std::span<Storage *const> storages) {
    StoppedPtr stopped = std::make_unique<StoppedRecording>();
    stopped->run = std::move(run);
    stopped->owner = Recorder::current_or_null();
    record->retain();
    stopped->record = record;
    stopped->inputs.reserve(inputs.size());
    stopped->results.resize(storages.size());
    stopped->storages.reserve(inputs.size() + storages.size());
    for (Node *const input : inputs) {
        add_use(input);
        stopped->inputs.push_back(input);
    }
    for (Storage *const storage : storages) {
        storage->retain();
        stopped->storages.push_back(storage);
    }
    for (uint32_t i = 0; i < inputs.size(); ++i) {
        Storage *const storage = inputs[i]->storage;
        if (!may_be_written_by_user(*storage))
            continue;
        Storage *const copy = Storage::allocate(storage->bytes, {});
        stopped->storages.push_back(copy);
        engine::Engine::get().wait(storage->block, false);
        std::memcpy(copy->data(), storage->data(), static_cast<size_t>(storage->bytes));
        stopped->run->move_input(i, copy->data());
    }
    return stopped;
}

void stop_result(StoppedRecording &stopped, size_t result, Node *node) {
    add_use(node);
    stopped.results[result] = node;
    stopped.record->retain();
    if (FailureRecord *const over = std::exchange(node->failure, stopped.record))
        over->release();
    node->state.store(State::Stopped, std::memory_order_release);
}

void hand_over(StoppedPtr stopped) {
    StoppedRuns &stopped_runs = StoppedRuns::get();
    const std::lock_guard lock(stopped_runs.mutex);
    stopped_runs.runs.push_back(std::move(stopped));
    any_stopped.store(true, std::memory_order_release);
}

void try_to_go_on(PendingErrors &thrown, Location loc) {
    if (is_going_on)
        return;
    translated(loc, [] { engine::check_not_forked(); });
    settle_flights(Until::Landed, nullptr, thrown); // how inputs ended
    std::vector<StoppedPtr>
        over; // what lets go of memory may call a deleter of the user's, and that may sync
    StoppedRuns &stopped_runs = StoppedRuns::get();
    const std::lock_guard going_on(stopped_runs.going_on);
    is_going_on = true;
    struct End {
        ~End() { is_going_on = false; }
    } const end;
    try {
        const std::vector<StoppedRecording *> runs = stopped_runs.all();
        over.reserve(runs.size());
        for (StoppedRecording *const run : runs)
            if (is_forgotten(*run) || goes_on(*run, thrown))
                over.push_back(stopped_runs.take(run));
    } catch (const std::bad_alloc &) { // before the next run began: it is tried again at the next sync
    }
}

void note_stopped(PendingErrors &thrown) {
    if (!any_stopped.load(std::memory_order_acquire))
        return;
    StoppedRuns &stopped_runs = StoppedRuns::get();
    const Recorder *const mine = Recorder::current_or_null();
    const std::lock_guard lock(stopped_runs.mutex);
    for (const StoppedPtr &run : stopped_runs.runs)
        if (run->owner == mine)
            thrown.note(run->record);
}

void check_not_needed(const Storage *storage, Location loc) {
    if (!any_stopped.load(std::memory_order_acquire))
        return;
    PendingErrors thrown;
    go_on_with_stopped(thrown, loc);
    {
        StoppedRuns &stopped_runs = StoppedRuns::get();
        const std::lock_guard lock(stopped_runs.mutex);
        for (const StoppedPtr &run : stopped_runs.runs)
            for (const Node *const input : run->inputs)
                if (input->storage == storage)
                    thrown.note(run->record);
    }
    thrown.raise();
}

void forget_stopped(const Recorder *recorder) {
    if (!any_stopped.load(std::memory_order_acquire))
        return;
    try {
        engine::check_not_forked();
    } catch (const ir::Failure &) { // nobody goes on with them here
        return;
    }
    StoppedRuns &stopped_runs = StoppedRuns::get();
    const std::lock_guard going_on(stopped_runs.going_on);
    const std::lock_guard lock(stopped_runs.mutex);
    for (const StoppedPtr &run : stopped_runs.runs)
        if (run->owner == recorder)
            run->owner = nullptr;
}

} // namespace lz::detail
