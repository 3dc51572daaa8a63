// Which nodes a sync computes: it takes them under the sync lock, operands first.

#include "frontend/record/recording/scratch.h"
#include "frontend/record/sync/waiting.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace lz::detail {

LZ_HOT_TLS constinit thread_local Recording::Scratch *Recording::Scratch::idle = nullptr;

Recording::Scratch &Recording::take_scratch() {
    if (Scratch *const s = Scratch::idle) [[likely]] {
        Scratch::idle = s->below;
        return *s;
    }
    prepare_thread();
    return *new Scratch;
}

void Recording::prepare_thread() {
    thread_local const Scratch::Owner owner;
    (void)owner;
    sync_mutex();
}

void Recording::return_scratch(Scratch *s) {
    s->operations.clear();
    s->inputs.clear();
    s->key.clear();
    s->words.clear();
    s->wanted.clear();
    s->aliases.clear();
    s->awaited.clear();
    s->stack.clear();
    s->spare.clear();
    s->latest_first.clear();
    s->events.clear();
    s->streams.clear();
    s->bound.inputs.clear();
    s->bound.results.clear();
    s->bound.input_uses.clear();
    s->bound.result_uses.clear();
    s->bound.storages.clear();
    s->below = Scratch::idle;
    Scratch::idle = s;
}

Recording::Recording() : Recording(take_scratch()) {}

Recording::Recording(Scratch &s)
    : operations(s.operations), inputs(s.inputs), key(s.key), words(s.words), wanted(s.wanted),
      aliases(s.aliases), bound(s.bound), streams(s.streams), awaited(s.awaited), stack(s.stack),
      events(s.events), spare(s.spare), scratch_(s), lock_(sync_mutex()), epoch_(++last_epoch) {}

Recording::~Recording() {
    if (lock_.owns_lock())
        lock_.unlock();
    if (claims_)
        unclaim();
    if (held_) // claiming failed
        drop_use(held_);
    for (Node *const node : spare)
        drop_use(node);
    return_scratch(&scratch_);
}

void Recording::release_lock() {
    lock_.unlock();
}

/// Bytes of some nodes: those of a list lie one behind the other in memory, mostly.
constexpr ptrdiff_t kSome = 2048;

bool Recording::needs_visit(const Node *operand) const {
    return operand->mark != epoch_ && operand->pending();
}

void Recording::visit(Node *root) {
    stack.push_back(root);
    while (!stack.empty()) {
        Node *const n = stack.back();
        if (n->mark == epoch_) {
            stack.pop_back();
            continue;
        }
        const size_t before = stack.size();
        // What was recorded before lies before it in memory, mostly: the way down a long chain is no chain of
        // misses then. On the way up the nodes are known.
        __builtin_prefetch(reinterpret_cast<const char *>(n) - kSome + 64);
        __builtin_prefetch(reinterpret_cast<const char *>(n) - kSome + 192);
        for (Node *operand : n->operands())
            if (needs_visit(operand))
                stack.push_back(operand);
        if (stack.size() != before) {
            std::reverse(stack.begin() + static_cast<ptrdiff_t>(before), stack.end()); // first operand first
            continue;
        }
        stack.pop_back();
        if (stack.size() >= kAhead)
            prefetch(stack[stack.size() - kAhead]);
        add_operation(n);
    }
}

void Recording::claim_list(Recorder &recorder, const Node *stop) {
    recorder.drain_foreign_dead();
    recorder.forget_reads();
    for (Node *n = recorder.head(); n && n != stop;) {
        Node *const next = n->next;
        prefetch(reinterpret_cast<const Node *>(reinterpret_cast<const char *>(n) + kSome));
        const State state = n->state.load(std::memory_order_acquire);
        if (state == State::Pending) {
            if (try_add_use(n)) // else its last handle has just gone, on another thread
                claim_held(n);
        } else if (state != State::Claimed) {
            recorder.unlink(n); // another thread's sync computed it
        }
        n = next;
    }
}

void Recording::claim(Node *node) {
    if (node->pending() && node->mark != epoch_) {
        add_use(node);
        claim_held(node);
    }
}

void Recording::claim_held(Node *root) {
    held_ = root;
    visit(root);
    if (Node *const held = std::exchange(held_, nullptr)) {
        if (is_claimed_here(held))
            drop_use(held); // a projection: its node has claimed it, and holds it
        else
            spare.push_back(held); // not claimed after all
    }
}

void Recording::hold_all() noexcept {
    for (Operation &o : operations)
        hold(o);
}

void Recording::claim_in_order(Recorder &recorder, std::span<Node *const> nodes) {
    recorder.drain_foreign_dead();
    const uint64_t needed = ++last_epoch; // a mark that says no more than that
    size_t missing = 0;
    const auto need = [&](Node *n) {
        if (n->pending() && n->mark != needed) {
            n->mark = needed;
            missing += n->owner == &recorder && n->linked;
            stack.push_back(n);
        }
    };
    for (Node *const node : nodes)
        need(node);
    while (!stack.empty()) {
        Node *const n = stack.back();
        stack.pop_back();
        for (Node *const operand : n->operands())
            need(operand);
    }
    std::vector<Node *> &latest_first = scratch_.latest_first;
    for (Node *n = recorder.tail(); n && missing > 0; n = n->prev)
        if (n->mark == needed) {
            latest_first.push_back(n);
            --missing;
        }
    for (size_t i = latest_first.size(); i-- > 0;)
        claim(latest_first[i]);
    for (Node *const node : nodes) // what other threads recorded
        claim(node);
}

bool Recording::is_claimed_here(const Node *n) const {
    return n->mark == epoch_ && n->state.load(std::memory_order_acquire) == State::Claimed &&
           std::ranges::find(awaited, n) == awaited.end();
}

bool Recording::wait() {
    bool all_ready = true;
    for (Node *n : awaited) {
        wait_while_claimed(n);
        all_ready &= n->state.load(std::memory_order_acquire) == State::Ready;
    }
    return all_ready;
}

void Recording::unclaim() noexcept {
    claims_ = false;
    for (const Operation &o : operations) {
        if (!o.argument && !o.node->failure)
            o.node->state.store(State::Pending, std::memory_order_release);
    }
    notify_waiters();
    for (const Operation &o : operations)
        if (o.held)
            drop_use(o.node);
}

} // namespace lz::detail
