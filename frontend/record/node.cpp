#include "frontend/autograd/step.h"
#include "frontend/engine/engine.h"
#include "frontend/engine/streams.h"
#include "frontend/record/arena.h"
#include "frontend/record/execution/flights.h"
#include "frontend/record/failure_record.h"
#include "frontend/record/record.h"
#include "frontend/record/recorder.h"
#include "frontend/record/storage.h"
#include "frontend/record/trace.h"
#include "frontend/record/view_warnings.h"
#include "lazuli/tensor.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

namespace lz::detail {

namespace {

constexpr uint8_t kAliasClass = size_class_of(sizeof(Cell));

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
[[gnu::always_inline]] inline bool is_last_use(Node *n, const Recorder *mine) {
    if (n->uses() == 1 && (n->owner == mine || !n->owner) && n->projection == 0)
        return true;
    return static_cast<uint32_t>(n->refs.fetch_sub(Node::kUse, std::memory_order_acq_rel)) == 1;
}

/// What was recorded before lies before it in memory, mostly: the way down a long chain is no chain of misses
/// then. Bytes of some nodes.
constexpr ptrdiff_t kBehind = 2048;

/// Values that nobody can reach: gives up operands and storage, then theirs, through an explicit list.
void destroy_values(Node *list, Recorder *const mine) {
    while (list) {
        Node *n = list;
        list = n->mark.next();
        __builtin_prefetch(reinterpret_cast<const char *>(n) - kBehind);
        __builtin_prefetch(reinterpret_cast<const char *>(n) - kBehind + 64);
        __builtin_prefetch(reinterpret_cast<const char *>(n) - kBehind + 192);
        const auto let_go = [&list, mine](Node *held) {
            if (is_last_use(held, mine)) {
                held->mark.link(list);
                list = held;
            }
        };
        if (n->several) [[unlikely]]
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

void drop_use(Node *n) {
    Recorder *const mine = Recorder::current_or_null();
    if (is_last_use(n, mine)) {
        n->mark.link(nullptr);
        destroy_values(n, mine);
    }
}

void copy_handle(Cell *cell) noexcept {
    cell->handles.fetch_add(1, std::memory_order_relaxed);
}

void drop_handle(Cell *cell) noexcept {
    // Only who has a handle can copy it. So nobody can copy the last one while it goes: the count need not be
    // written.
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

namespace {

// What only some cells have. Nothing comes after these calls, so that the others have nothing to save for
// them.

[[gnu::cold, gnu::noinline]] void drop_with_history(Cell *cell) {
    Step *const history = std::exchange(cell->history, nullptr);
    if (cell->keeps_grad)
        forget_grad(*history, cell->result);
    release(history);
    drop_cell(cell);
}
[[gnu::cold, gnu::noinline]] void drop_alias(Cell *cell) {
    drop_use(cell->current);
    cell->~Cell();
    free_node(cell, kAliasClass);
}
/// Its value is not that of the node that it lies in.
[[gnu::noinline]] void drop_changed(Cell *cell) {
    drop_use(cell->current);
    drop_hold(home(cell));
}

} // namespace

Cell *make_alias(Node *node, Step *history, uint16_t result) {
    Cell *const cell = make_alias_of_use(node, history, result);
    add_use(node);
    return cell;
}

Cell *make_alias_of_use(Node *node, Step *history, uint16_t result) {
    auto *const cell = new (allocate_node(kAliasClass, sizeof(Cell))) Cell;
    cell->handles.store(1, std::memory_order_relaxed);
    cell->alone = true;
    cell->current = node;
    if (history) {
        retain(history);
        cell->history = history;
        cell->result = result;
    }
    if (const Recorder *const recorder = Recorder::current_or_null(); recorder && recorder->trace())
        [[unlikely]]
        recorder->trace()->note_alias(cell);
    return cell;
}

void drop_cell(Cell *cell) {
    cell->handles.store(0, std::memory_order_relaxed); // a warning of views may look at it
    if (cell->history) [[unlikely]] {
        drop_with_history(cell);
        return;
    }
    if (cell->alone) [[unlikely]] {
        drop_alias(cell);
        return;
    }
    Node *const value = cell->current;
    if (value != home(cell)) {
        drop_changed(cell);
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
    value->mark.link(nullptr);
    destroy_values(value, mine);
}

} // namespace lz::detail
