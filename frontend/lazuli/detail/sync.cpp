#include "lazuli/detail/sync.h"

#include "engine/engine.h"
#include "lazuli/detail/access.h"
#include "lazuli/detail/failure_record.h"
#include "lazuli/detail/linearise.h"
#include "lazuli/detail/recorder.h"
#include "lazuli/detail/storage.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <exception>
#include <new>
#include <utility>
#include <vector>

namespace lz::detail {
namespace {

/// The first failure of a sync, to be thrown when everything else is in order.
struct Thrown {
    FailureRecord *record = nullptr;

    void note(FailureRecord *r) {
        if (record)
            return;
        r->retain();
        record = r;
    }
    void raise() {
        if (!record)
            return;
        const ir::Failure failure = record->failure;
        const Location loc = record->loc;
        record->release();
        record = nullptr;
        throw_public(failure, loc);
    }
};

Location location_of(const Recording &recording, const ir::Failure &failure, Location fallback) {
    if (failure.loc().known())
        return from_ir(failure.loc());
    if (failure.node() < recording.operations.size())
        return from_ir(recording.operations[failure.node()].node->loc);
    return fallback;
}

/// One claimed recording on its way through the engine. From here on every claimed node ends Ready or Failed.
class Execution {
public:
    Execution(Recording &recording, Location loc) : recording_(recording), loc_(loc) {}

    void run(Thrown &thrown) {
        try {
            launch(thrown);
        } catch (const ir::Failure &failure) {
            fail_all(failure, thrown);
        } catch (const std::bad_alloc &) {
            fail_all({ir::ErrorKind::OutOfMemory, "the host has no memory left to compile or launch this"},
                     thrown);
        } catch (const std::exception &error) { // whatever it is, nobody may wait for these nodes for ever
            fail_all({ir::ErrorKind::Internal, error.what()}, thrown);
        }
        settle();
    }

private:
    void launch(Thrown &thrown) {
        engine::Engine &engine = engine::Engine::get();
        const std::span<const uint64_t> key = recording_.key;
        const uint64_t hash = XXH3_64bits(key.data(), key.size_bytes());
        engine::ExecutablePtr executable = engine.find(key, hash);
        if (!executable)
            executable = engine.compile(key, hash, recording_.build_graph());

        inputs_.clear();
        for (const Recording::Input &input : recording_.inputs)
            inputs_.push_back(input.node->storage->data);
        for (size_t r = 0; r < recording_.wanted.size(); ++r) {
            const int donor = engine.donor(*executable, r);
            Node *const node = recording_.operations[recording_.wanted[r]].node;
            if (donor >= 0) {
                Storage *s = recording_.inputs[static_cast<size_t>(donor)].node->storage;
                s->retain();
                storages_.push_back(s);
            } else {
                storages_.push_back(Storage::allocate(node->type.bytes(), node->type.device));
            }
            results_.push_back(storages_.back()->data);
        }
        std::vector<ir::Location> lines;
        if (engine::Engine::profiling())
            for (const Recording::Operation &o : recording_.operations)
                lines.push_back(o.node->loc);
        const engine::RunReport report =
            engine.run(*executable, {inputs_, results_, recording_.words, lines});
        for (const auto &failed : report.failures) {
            auto *record = new FailureRecord(failed.failure, location_of(recording_, failed.failure, loc_));
            thrown.note(record);
            for (const uint32_t r : failed.results)
                fail(r, record);
            record->release();
        }
    }

    void fail(size_t result, FailureRecord *record) {
        Node *const node = recording_.operations[recording_.wanted[result]].node;
        if (node->failure)
            return;
        record->retain();
        node->failure = record;
    }

    void fail_all(const ir::Failure &failure, Thrown &thrown) {
        auto *record = new FailureRecord(failure, location_of(recording_, failure, loc_));
        thrown.note(record);
        for (size_t r = 0; r < recording_.wanted.size(); ++r)
            fail(r, record);
        record->release();
    }

    /// Makes a failed version's fallback the newest one that has a value, or none.
    static void keep_newest_fallback(Node *failed) {
        Node *version = failed->fallback;
        while (version && version->state.load(std::memory_order_acquire) != State::Ready)
            version = version->fallback;
        if (version)
            add_use(version);
        if (Node *last = std::exchange(failed->fallback, version))
            drop_use(last);
    }

    /// Gives results to their nodes, lets go of operands, and of the claims.
    void settle() {
        for (size_t r = 0; r < recording_.wanted.size(); ++r) {
            Node *const node = recording_.operations[recording_.wanted[r]].node;
            Storage *const storage = r < storages_.size() ? storages_[r] : nullptr;
            if (node->failure) {
                if (storage)
                    storage->release();
                keep_newest_fallback(node);
                node->state.store(State::Failed, std::memory_order_release);
            } else {
                node->storage = storage;
                node->state.store(State::Ready, std::memory_order_release);
            }
        }
        Recorder *const mine = Recorder::current_or_null();
        for (const Recording::Operation &o : recording_.operations) {
            Node *const node = o.node;
            if (mine && node->owner == mine && node->linked)
                mine->unlink(node);
            if (o.wanted && !node->failure)
                if (Node *fallback = std::exchange(node->fallback, nullptr))
                    drop_use(fallback);
            // A node with several results keeps its operands: another result may be asked for later.
            if (o.wanted && node->op != ir::Op::Sort) {
                const uint16_t count = node->num_operands;
                node->num_operands = 0;
                for (uint16_t i = 0; i < count; ++i)
                    drop_use(node->operand_data()[i]);
            }
        }
        notify_waiters();
        for (const Recording::Operation &o : recording_.operations)
            drop_use(o.node);
        for (const Recording::Input &input : recording_.inputs)
            drop_use(input.node);
    }

    Recording &recording_;
    Location loc_;
    static thread_local std::vector<void *> inputs_;
    std::vector<void *> results_;
    std::vector<Storage *> storages_;
};
thread_local std::vector<void *> Execution::inputs_;

/// Claims what `claims` says and runs it; again when another sync's node that it waited for did not come.
template <class F>
void claim_and_run(Location loc, F &&claims) {
    Thrown thrown;
    for (bool done = false; !done;) {
        Recording recording;
        claims(recording);
        if (recording.empty())
            break;
        recording.finish();
        recording.release_lock();
        if (recording.awaits() && !recording.wait()) {
            recording.unclaim();
            continue;
        }
        Execution(recording, loc).run(thrown);
        done = true;
    }
    thrown.raise();
}

} // namespace

void sync_all(Location loc) {
    claim_and_run(loc, [](Recording &r) { r.claim_list(Recorder::current(), nullptr); });
}

void eval_nodes(std::span<Node *const> nodes, Location loc) {
    claim_and_run(loc, [&](Recording &r) {
        for (Node *n : nodes)
            r.claim(n);
    });
    for (Node *n : nodes)
        wait_while_claimed(n);
}

Storage *materialize(Node *node, Location loc) {
    for (;;) {
        switch (node->state.load(std::memory_order_acquire)) {
        case State::Ready:
            return node->storage;
        case State::Failed:
            throw_public(node->failure->failure, node->failure->loc);
        case State::Claimed:
            wait_while_claimed(node);
            break;
        case State::Pending:
            claim_and_run(loc, [node](Recording &r) {
                r.claim_list(Recorder::current(), nullptr);
                r.claim(node);
            });
            break;
        }
    }
}

ir::Graph pending_graph(Node *node) {
    Recording recording;
    if (node)
        recording.claim(node);
    else
        recording.claim_list(Recorder::current(), nullptr);
    recording.finish();
    ir::Graph graph = recording.build_graph();
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
    claim_and_run(loc, [&](Recording &r) { r.claim_list(recorder, cut); });
}

} // namespace lz::detail
