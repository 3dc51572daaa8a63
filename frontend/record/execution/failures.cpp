#include "frontend/record/execution/failures.h"

#include "frontend/record/execution/flights.h"
#include "frontend/record/record.h"

#include <atomic>
#include <new>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lz::detail {

PendingErrors::~PendingErrors() {
    for_each([](FailureRecord *record) {
        record->told.store(true, std::memory_order_release);
        record->release();
    });
}

template <class F>
void PendingErrors::for_each(F &&f) {
    if (first_)
        f(first_);
    for (FailureRecord *const record : more_)
        f(record);
}

void PendingErrors::note(FailureRecord *record) noexcept {
    if (first_) {
        try {
            more_.push_back(record);
        } catch (const std::bad_alloc &) { // it would not have been thrown: the first is
            record->told.store(true, std::memory_order_release);
            return;
        }
    } else {
        first_ = record;
    }
    record->retain();
}

void PendingErrors::raise() {
    if (!first_)
        return;
    for_each([](FailureRecord *record) { record->told.store(true, std::memory_order_release); });
    throw_public(ir::Failure(first_->failure), first_->loc);
}

void PendingErrors::postpone() {
    for_each([](FailureRecord *record) { tell_later(Recorder::current_or_null(), record); });
    first_ = nullptr;
    more_.clear();
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

FailureRecord *no_memory_record() noexcept {
    static FailureRecord *const record = [] {
        auto *const made = new FailureRecord({ir::ErrorKind::OutOfMemory, kNoMemoryToRun}, Location{});
        made->told.store(true, std::memory_order_release);
        return made;
    }();
    record->retain();
    return record;
}

void fail(Node *node, FailureRecord *record) {
    if (node->failure)
        return;
    record->retain();
    node->failure = record;
}

namespace {

/// A version that was claimed and not stored, and what it is computed from, are pending again. False, and
/// nothing has changed: that is not possible, because a result is not there that was computed with others.
bool make_pending(Node *version) noexcept {
    std::vector<Node *> claimed;
    try {
        std::unordered_set<const Node *> seen{version};
        claimed.push_back(version);
        for (size_t i = 0; i < claimed.size(); ++i) {
            Node *const n = claimed[i];
            for (Node *const operand : n->operands()) {
                const bool is_claimed = operand->state.load(std::memory_order_acquire) == State::Claimed;
                if (n->projection > 0 && !is_claimed)
                    return false;
                if (is_claimed && seen.insert(operand).second)
                    claimed.push_back(operand);
            }
        }
    } catch (const std::bad_alloc &) {
        return false;
    }
    for (Node *const n : claimed)
        n->state.store(State::Pending, std::memory_order_release);
    return true;
}

} // namespace

void FailedNodes::add(const Node *node) noexcept {
    try {
        lost_[node] = true;
    } catch (const std::bad_alloc &) {
        unknown = true;
    }
}

bool FailedNodes::depends_on_failed(Node *version) noexcept {
    try {
        return unknown || find_failed(version);
    } catch (const std::bad_alloc &) {
        return true; // nobody knows
    }
}

/// Each node is looked at once, however many versions are asked for: chains of updates may be long.
bool FailedNodes::find_failed(Node *version) {
    std::vector<Node *> stack{version};
    while (!stack.empty()) {
        Node *const n = stack.back();
        if (lost_.contains(n)) {
            stack.pop_back();
            continue;
        }
        const State state = n->state.load(std::memory_order_acquire);
        bool lost = has_failed(state), known = true;
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

void keep_newest_fallback(Node *failed, FailedNodes &failed_nodes) noexcept {
    Node *version = failed->fallback;
    for (; version; version = version->fallback) {
        const State state = version->state.load(std::memory_order_acquire);
        if (state == State::Ready || state == State::Pending || state == State::Stopped)
            break;
        if (state == State::Claimed && !failed_nodes.depends_on_failed(version) && make_pending(version))
            break;
    }
    if (version)
        add_use(version);
    if (Node *last = std::exchange(failed->fallback, version))
        drop_use(last);
}

} // namespace lz::detail
