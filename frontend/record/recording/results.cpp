// What a recording stores, and in whose memory: which values somebody can still ask for, which inputs nobody
// can.

#include "frontend/record/recording/key.h"
#include "frontend/record/recording/scratch.h"
#include "frontend/record/storage.h"

#include <algorithm>
#include <atomic>

namespace lz::detail {
namespace {

/// No count of uses equals it: keeps an input from being donated.
constexpr uint32_t kNeverDonated = UINT32_MAX / 2;

} // namespace

/// By number: whether it may turn out while the Program runs that there is no such value, because a check
/// fails, or because an input was lost.
[[gnu::cold]] std::vector<bool> Recording::find_losable() const {
    std::vector<bool> losable(next_index_);
    for (const Input &input : inputs)
        losable[input.index] = input.node->state.load(std::memory_order_acquire) != State::Ready ||
                               input.node->in_flight.load(std::memory_order_acquire);
    for (const Operation &o : operations) {
        bool may_be_lost = has_checks(o.node);
        if (!o.argument)
            for (const Node *operand : o.node->read_operands())
                may_be_lost = may_be_lost || losable[operand->index];
        losable[o.index] = may_be_lost;
    }
    return losable;
}

/// The version before an overwriting form (`x.zero_()`), which is no operand of the new one: when the handle
/// alone keeps it, in case the new one fails, the new one may have its memory. No operation reads the input.
[[gnu::cold]] void Recording::add_overwritten(Node *n, uint32_t donated_to, bool kept) {
    const Storage *const s = n->storage;
    if (n->uses() != 1 || n->state.load(std::memory_order_acquire) != State::Ready || !s ||
        s->refs.load(std::memory_order_acquire) != 1 || s->adopted ||
        s->exposed.load(std::memory_order_relaxed))
        return;
    n->mark = epoch_; // the version that replaces it keeps it
    n->index = next_index_++;
    n->inner_uses = 1;
    append_input(n, kOverwrittenTag | static_cast<uint64_t>(donated_to) << 32, -1);
    inputs.back().donated_to = donated_to;
    inputs.back().kept = kept;
}

/// A version that was changed in place, and not stored, is computed again if a later one turns out to have
/// failed (S26): what it is computed from is not overwritten.
[[gnu::cold]] void Recording::keep_versions() {
    std::vector<bool> kept(next_index_);
    for (const Operation &o : operations)
        for (Node *v = o.argument ? nullptr : o.node->fallback; v && is_claimed_here(v); v = v->fallback)
            kept[v->index] = true;
    for (size_t i = operations.size(); i-- > 0;)
        if (kept[operations[i].index] && !operations[i].argument) {
            if (Node *const node = operations[i].node; node->projection > 0) {
                operations[i].for_versions = node->uses() <= node->inner_uses + (operations[i].held ? 1 : 0);
                node->inner_uses = 0; // stored, because it cannot be computed alone
            }
            for (const Node *operand : operations[i].node->read_operands())
                kept[operand->index] = true;
        }
    for (const Input &input : inputs)
        if (kept[input.index])
            input.node->inner_uses = kNeverDonated;
}

/// A value that a handle goes back to should the version that replaces it fail may be overwritten by that
/// version alone, which the Program does not store then (ir::Param::kept). Not where it is what two versions
/// go back to, or one that is not stored.
[[gnu::cold]] void Recording::keep_fallbacks() {
    constexpr uint32_t kSeveral = ir::kNone - 1;
    std::vector<uint32_t> replaced_by(next_index_, ir::kNone); // by number of a value: a result
    uint32_t results = 0;
    for (const Operation &o : operations) {
        const uint32_t result = o.wanted ? results++ : kSeveral;
        const Node *const version = o.argument ? nullptr : o.node->fallback;
        if (version && version->mark == epoch_ &&
            version->state.load(std::memory_order_acquire) == State::Ready) {
            uint32_t &by = replaced_by[version->index];
            by = by == ir::kNone ? result : kSeveral;
        }
    }
    for (Input &input : inputs) {
        const uint32_t by = replaced_by[input.index];
        if (by == ir::kNone)
            continue;
        // A compiled function that fails has changed nothing, not even what did not depend on that (S96).
        if (by == kSeveral || input_may_fault_ || observer) {
            input.node->inner_uses = kNeverDonated;
            continue;
        }
        input.donated_to = by;
        input.kept = true;
    }
}

/// The input whose storage a reshape can share, or null. Whoever changes one of the two in place then finds
/// that the storage is not its alone. Not memory that the user may write to: a pointer was given out, or it
/// was adopted and the user asked for a copy (a reshape to the same shape). Not under a stream of the user's,
/// whose order the value is to be in (S41).
Node *Recording::shared_source(Node *node) const {
    if (node->stream != ir::kNoStream)
        return nullptr;
    bool copies = false;
    Node *source = node;
    while (source->op == ir::Op::Reshape && source->state.load(std::memory_order_acquire) == State::Claimed &&
           is_claimed_here(source)) {
        Node *const operand = source->operand_data()[0];
        copies |= operand->type.shape == source->type.shape;
        source = operand;
    }
    if (source->state.load(std::memory_order_acquire) != State::Ready ||
        source->in_flight.load(std::memory_order_acquire))
        return nullptr;
    const Storage *const s = source->storage;
    return s->block.pinned != node->pinned || s->exposed.load(std::memory_order_acquire) ||
                   (s->adopted && copies)
               ? nullptr
               : source;
}

void Recording::finish(bool share) {
    claimed_words = key.size();
    // A version that is only kept for the case of failure is neither stored nor in the way of donation.
    for (size_t i = 0; has_fallbacks_ && i < operations.size(); ++i) {
        prefetch_ahead(operations, i);
        const Operation &o = operations[i];
        if (Node *fallback = o.node->fallback; fallback && fallback->mark == epoch_)
            ++fallback->inner_uses;
    }
    if (may_fault_)
        keep_versions();
    for (uint32_t i = 0; i < operations.size(); ++i) {
        prefetch_ahead(operations, i);
        Operation &o = operations[i];
        // Uses beyond the edges inside the recording and this sync's own: somebody can still ask for the
        // value.
        if (is_effect(o.node)) {
            hold(o);
            has_effects_ = true;
        } else if (!o.argument && o.node->uses() > o.node->inner_uses + (o.held ? 1 : 0)) {
            hold(o);
            if (share && o.node->op == ir::Op::Reshape)
                if (Node *const source = shared_source(o.node)) {
                    aliases.push_back({o.node, source});
                    source->inner_uses = kNeverDonated;
                    continue;
                }
            o.wanted = true;
            key[o.key_at] |= kWantedBit;
            wanted.push_back(i);
        } else if (o.held && o.node->inner_uses > 0) { // what reads it here keeps it
            o.node->refs.fetch_sub(Node::kUse, std::memory_order_release);
            o.held = false;
        }
    }
    if (may_fault_ && has_fallbacks_)
        keep_fallbacks();
    // Of several versions that are stored, the first takes the memory: later ones go back to that.
    std::vector<bool> losable;
    for (uint32_t r = 0; r < wanted.size(); ++r) {
        const Operation &o = operations[wanted[r]];
        Node *version = o.node->fallback;
        while (version && is_claimed_here(version))
            version = version->fallback;
        if (!version || version->mark == epoch_) [[likely]]
            continue;
        if (may_fault_ && losable.empty())
            losable = find_losable();
        const bool may_be_lost = may_fault_ && losable[o.index];
        if (!may_be_lost || (!input_may_fault_ && !observer))
            add_overwritten(version, r, may_be_lost);
    }
    const bool pins = std::ranges::any_of(wanted, [&](uint32_t i) { return operations[i].node->pinned; });
    for (Input &input : inputs) {
        Node *const n = input.node;
        if (n->state.load(std::memory_order_acquire) != State::Ready)
            continue;
        const Storage *s = n->storage;
        input.donated = n->uses() == n->inner_uses && s->refs.load(std::memory_order_acquire) == 1 &&
                        !s->adopted && (!pins || s->block.pinned) &&
                        !s->exposed.load(std::memory_order_relaxed);
        if (!input.donated) {
            input.donated_to = ir::kNone;
            input.kept = false;
            continue;
        }
        key[input.key_at] |= kDonatedBit;
        if (input.kept) {
            key.push_back(kKeptTag | static_cast<uint64_t>(input.donated_to) << 32);
            key.push_back(input.index);
        }
    }
}

} // namespace lz::detail
