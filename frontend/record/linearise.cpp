#include "frontend/record/linearise.h"

#include "frontend/engine/engine.h"
#include "frontend/record/failure_record.h"
#include "frontend/record/flights.h"
#include "frontend/record/hot_tls.h"
#include "frontend/record/record.h"
#include "frontend/record/storage.h"
#include "ir/diagnostic.h"
#include "ir/host/float_environment.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

namespace lz::detail {
namespace {

std::mutex &sync_mutex() {
    static std::mutex *const mutex = new std::mutex;
    return *mutex;
}
uint64_t last_epoch = 0; // under the sync lock

constexpr uint64_t kInputTag = 0xff, kArgumentTag = 0xfe, kOverwrittenTag = 0xfd;
constexpr uint64_t kProjectionBit = uint64_t{1} << 8, kWantedBit = uint64_t{1} << 15;

constexpr uint64_t kDonatedBit = uint64_t{1} << 63;

template <class T>
int64_t integer_at(const void *memory) {
    T value;
    std::memcpy(&value, memory, sizeof(T));
    return static_cast<int64_t>(value);
}
template <class T>
T bits_at(const void *memory) {
    T value;
    std::memcpy(&value, memory, sizeof(T));
    return value;
}

/// An element as the runtime word of a constant (ir/op.h).
int64_t word_of_element(const void *memory, ir::DType dtype) {
    const ir::FloatEnvironment environment; // a subnormal f32 is a normal f64
    switch (dtype) {
    case ir::DType::Bool:
    case ir::DType::U8:
        return integer_at<uint8_t>(memory);
    case ir::DType::I8:
        return integer_at<int8_t>(memory);
    case ir::DType::I16:
        return integer_at<int16_t>(memory);
    case ir::DType::I32:
        return integer_at<int32_t>(memory);
    case ir::DType::I64:
        return integer_at<int64_t>(memory);
    case ir::DType::F16:
        return ir::scalar_word(ir::half_to_float(bits_at<uint16_t>(memory)));
    case ir::DType::BF16:
        return ir::scalar_word(ir::bfloat_to_float(bits_at<uint16_t>(memory)));
    case ir::DType::F32:
        return ir::scalar_word(bits_at<float>(memory));
    case ir::DType::F64:
        return ir::scalar_word(bits_at<double>(memory));
    }
    return 0;
}

/// Room for so many more without an allocation.
template <class T>
void make_room(std::vector<T> &vector, size_t more) {
    if (vector.capacity() - vector.size() < more)
        vector.reserve(std::max(2 * vector.capacity(), vector.size() + more));
}

/// No count of uses equals it: keeps an input from being donated.
constexpr uint32_t kNeverDonated = UINT32_MAX / 2;

/// What it gives back is to be let go of when the lock is not held.
[[nodiscard]] Node *fail_from(Node *n, Node *cause) {
    cause->failure->retain();
    n->failure = cause->failure;
    Node *version = n->fallback;
    while (version && version->state.load(std::memory_order_acquire) == State::Failed)
        version = version->fallback;
    if (version)
        add_use(version);
    Node *const last = std::exchange(n->fallback, version);
    n->state.store(State::Failed, std::memory_order_release);
    return last;
}

} // namespace

/// Vectors that keep their room between the syncs of a thread. A sync inside a sync (a deleter that syncs)
/// gets its own.
struct Recording::Scratch {
    std::vector<Operation> operations;
    std::vector<Input> inputs;
    std::vector<uint64_t> key;
    std::vector<int64_t> words;
    std::vector<uint32_t> wanted;
    std::vector<Alias> aliases;
    std::vector<Node *> awaited, stack, spare, latest_first;
    std::vector<int64_t> events;
    std::vector<ir::StreamRef> streams;
    Bound bound;
    Scratch *below = nullptr; ///< of those that are idle

    LZ_HOT_TLS static constinit thread_local Scratch *idle;
    struct Owner {
        ~Owner() {
            while (Scratch *s = idle) {
                idle = s->below;
                delete s;
            }
        }
    };
};
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

/// A number that is there already is an argument of the GPU's kernels: no transfer, no wait.
bool Recording::is_argument(const Node *n, const Node *user) const {
    // In flight first: when another thread has just found that it failed, that is seen in its state.
    return user->type.device != ir::kCpu && n->type.shape.rank() == 0 && n->type.device == ir::kCpu &&
           user->projection == 0 && !n->in_flight.load(std::memory_order_acquire) &&
           n->state.load(std::memory_order_acquire) == State::Ready && n->storage &&
           engine::Engine::get().is_idle(n->storage->block, false);
}

void Recording::add_argument(Node *n) {
    const ir::DType dtype = n->type.dtype;
    const auto key_at = static_cast<uint32_t>(key.size());
    key.push_back(kArgumentTag | static_cast<uint64_t>(dtype) << 8);
    words.push_back(word_of_element(n->storage->data(), dtype));
    // Last of what may throw: what is in the list has a use. Not push_back, which is inlined where it is hot.
    operations.insert(operations.end(), Operation{n, next_index_, key_at, false, true});
    n->mark = epoch_;
    n->index = next_index_++;
    n->inner_uses = 0;
    add_use(n);
}

void Recording::add_input(Node *n, const Node *user) {
    if (is_argument(n, user)) {
        add_argument(n);
        return;
    }
    n->mark = epoch_; // the operation that reads it keeps it
    n->index = next_index_++;
    n->inner_uses = 0;
    // What it is computed from may still fail: what handles go back to is not overwritten.
    may_fault_ |= n->in_flight.load(std::memory_order_acquire);
    int32_t group = -1;
    if (n->state.load(std::memory_order_acquire) != State::Ready) {
        awaited.push_back(n); // its storage does not exist yet, so nobody shares it
    } else if (n->storage->mark == epoch_) {
        group = static_cast<int32_t>(n->storage->first_input);
    } else {
        n->storage->mark = epoch_;
        n->storage->first_input = static_cast<uint32_t>(inputs.size());
    }
    append_input(n, kInputTag | static_cast<uint64_t>(static_cast<uint32_t>(group + 1) & 0xffffff) << 32,
                 group);
}

void Recording::append_input(Node *n, uint64_t tag, int32_t group) {
    inputs.push_back({n, n->index, static_cast<uint32_t>(key.size()), group, false});
    const ir::TensorType &t = n->type;
    key.push_back(tag | static_cast<uint64_t>(t.dtype) << 8 | static_cast<uint64_t>(t.shape.rank()) << 12 |
                  static_cast<uint64_t>(ir::device_word(t.device)) << 16);
    for (const int64_t extent : t.shape)
        key.push_back(static_cast<uint64_t>(extent));
}

/// Every operand is numbered already, or is ready, failed or another sync's.
void Recording::add_operation(Node *n) {
    const std::span<Node *const> operands = n->read_operands();
    for (Node *operand : operands) {
        if (operand->mark == epoch_)
            continue;
        if (operand->state.load(std::memory_order_acquire) == State::Failed) [[unlikely]] {
            make_room(spare, 1);
            if (Node *const last = fail_from(n, operand))
                spare.push_back(last);
            return;
        }
        add_input(operand, n);
    }
    may_fault_ |= has_checks(n);
    has_fallbacks_ |= n->fallback != nullptr;
    if (n->stream != ir::kNoStream || n->op == ir::Op::WaitStream) [[unlikely]]
        note_streams(n);
    const auto key_at = static_cast<uint32_t>(key.size());
    key.push_back(operation_word(n));
    uint64_t packed = 0;
    uint32_t filled = 0;
    for (Node *operand : operands) {
        ++operand->inner_uses;
        packed |= static_cast<uint64_t>(operand->index) << (32 * filled);
        if (++filled == 2) {
            key.push_back(packed);
            packed = 0;
            filled = 0;
        }
    }
    if (filled)
        key.push_back(packed);
    if (n->like) [[unlikely]]
        note_like(n);
    for (uint32_t i = 0; i < n->num_structural; ++i)
        key.push_back(static_cast<uint64_t>(n->structural_data()[i]));
    if (n->op == ir::Op::WaitStream) [[unlikely]]
        key.back() = static_cast<uint64_t>(canonical(waited_for(n)));
    for (uint32_t i = 0; i < n->num_runtime; ++i)
        words.push_back(n->runtime_data()[i]);
    // Which waits wait for which records is structure, although the events themselves are not.
    if (n->op == ir::Op::RecordEvent || n->op == ir::Op::WaitEvent) [[unlikely]]
        key.push_back(event_number(n->runtime_data()[0]));
    operations.push_back({n, next_index_, key_at, false, false}); // last of what may throw
    n->mark = epoch_;
    n->index = next_index_++;
    n->inner_uses = 0;
    if (n == held_)
        held_ = nullptr;
    else
        add_use(n);
    n->state.store(State::Claimed, std::memory_order_release);
    if (n->several) [[unlikely]]
        claim_projections(n);
}

/// Whether the slice of the part that `n` updates is an operation here: then the compiler knows that both
/// have the same starts.
[[gnu::cold]] void Recording::note_like(Node *n) {
    Node *const slice = n->operands().back();
    const bool here = is_claimed_here(slice);
    if (here)
        ++slice->inner_uses;
    key.push_back(here ? uint64_t{slice->index} + 1 : 0);
}

/// Results of a node that has just been claimed: all that somebody can still ask for are computed with it,
/// and then it needs its operands no longer.
void Recording::claim_projections(Node *n) {
    for (Node *const projection : n->projections()) {
        if (!projection)
            continue;
        make_room(spare, 1);
        make_room(operations, 1);
        make_room(key, 2);
        if (!try_add_use(projection))
            continue;
        if (!projection->pending()) {
            spare.push_back(projection);
            continue;
        }
        Node *const outer = std::exchange(held_, projection);
        add_operation(projection);
        held_ = outer;
    }
}

int32_t Recording::canonical(ir::StreamRef stream) const {
    if (stream.stream < ir::kFirstUserStream)
        return stream.stream;
    int32_t number = ir::kFirstUserStream;
    for (const ir::StreamRef &known : streams) {
        if (known == stream)
            break;
        number += known.device == stream.device;
    }
    return number;
}

/// Streams of one number are one stream, whoever shares it.
void Recording::note_stream(ir::StreamRef stream) {
    if (stream.stream < ir::kFirstUserStream || std::ranges::find(streams, stream) != streams.end())
        return;
    const auto end_of_device = std::ranges::upper_bound(
        streams, stream.device.index, {}, [](const ir::StreamRef &known) { return known.device.index; });
    streams.insert(end_of_device, stream);
}

[[gnu::cold]] void Recording::note_streams(Node *n) {
    note_stream(stream_of(n));
    if (n->op == ir::Op::WaitStream)
        note_stream(waited_for(n));
}

/// Fields of an operation's first key word. A projection has no structural words, and its number in the place
/// of how many there are.
uint64_t Recording::operation_word(Node *n) const {
    const uint64_t number = n->projection > 0 ? n->projection : n->num_structural;
    const int32_t stream = n->stream == ir::kNoStream ? ir::kNoStream : canonical(stream_of(n));
    return static_cast<uint64_t>(n->op) | (n->projection > 0 ? kProjectionBit : 0) |
           static_cast<uint64_t>(n->num_operands) << 16 | number << 32 |
           static_cast<uint64_t>(static_cast<uint16_t>(stream + 1)) << 48;
}

uint64_t Recording::event_number(int64_t word) {
    const auto at = std::ranges::find(events, word);
    const auto number = static_cast<uint64_t>(at - events.begin());
    if (at == events.end())
        events.push_back(word);
    return number;
}

bool Recording::needs_visit(const Node *operand) const {
    return operand->mark != epoch_ && operand->pending();
}

/// Bytes of some nodes.
constexpr ptrdiff_t kBehind = 2048;

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
        __builtin_prefetch(reinterpret_cast<const char *>(n) - kBehind);
        __builtin_prefetch(reinterpret_cast<const char *>(n) - kBehind + 64);
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
        if (next)
            prefetch(next);
        const State state = n->state.load(std::memory_order_acquire);
        if (state == State::Pending) {
            if (try_add_use(n)) { // else its last handle has just gone, on another thread
                held_ = n;
                visit(n);
                if (held_) { // not claimed after all
                    spare.push_back(held_);
                    held_ = nullptr;
                }
            }
        } else if (state != State::Claimed) {
            recorder.unlink(n); // another thread's sync computed it
        }
        n = next;
    }
}

void Recording::claim(Node *node) {
    if (node->pending() && node->mark != epoch_)
        visit(node);
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
[[gnu::cold]] void Recording::add_overwritten(Node *n, uint32_t heir) {
    const Storage *const s = n->storage;
    if (n->uses() != 1 || n->state.load(std::memory_order_acquire) != State::Ready || !s ||
        s->refs.load(std::memory_order_acquire) != 1 || s->adopted ||
        s->exposed.load(std::memory_order_relaxed))
        return;
    n->mark = epoch_; // the version that replaces it keeps it
    n->index = next_index_++;
    n->inner_uses = 1;
    append_input(n, kOverwrittenTag | static_cast<uint64_t>(heir) << 32, -1);
    inputs.back().heir = heir;
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
            if (operations[i].node->projection > 0) // stored, because it cannot be computed alone
                operations[i].node->inner_uses = 0;
            for (const Node *operand : operations[i].node->read_operands())
                kept[operand->index] = true;
        }
    for (const Input &input : inputs)
        if (kept[input.index])
            input.node->inner_uses = kNeverDonated;
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
    // A version that is only kept for the case of failure is neither stored nor in the way of donation.
    for (size_t i = 0; has_fallbacks_ && i < operations.size(); ++i) {
        prefetch_ahead(operations, i);
        const Operation &o = operations[i];
        if (Node *fallback = o.node->fallback; fallback && fallback->mark == epoch_) {
            ++fallback->inner_uses;
            if (may_fault_ && fallback->state.load(std::memory_order_acquire) == State::Ready)
                fallback->inner_uses = kNeverDonated;
        }
    }
    if (may_fault_)
        keep_versions();
    for (uint32_t i = 0; i < operations.size(); ++i) {
        prefetch_ahead(operations, i);
        Operation &o = operations[i];
        // Uses beyond the edges inside the recording and this sync's own: somebody can still ask for the
        // value.
        if (is_effect(o.node)) {
            has_effects_ = true;
        } else if (!o.argument && o.node->uses() > o.node->inner_uses + 1) {
            if (share && o.node->op == ir::Op::Reshape)
                if (Node *const source = shared_source(o.node)) {
                    aliases.push_back({o.node, source});
                    source->inner_uses = kNeverDonated;
                    continue;
                }
            o.wanted = true;
            key[o.key_at] |= kWantedBit;
            wanted.push_back(i);
        }
    }
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
        if (!may_fault_ || !losable[o.index])
            add_overwritten(version, r);
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
        if (input.donated)
            key[input.key_at] |= kDonatedBit;
    }
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
        drop_use(o.node);
}

int64_t kept_bytes(const Recorder &recorder) {
    std::vector<Node *> held, read;
    size_t count = 0;
    std::unique_lock lock(sync_mutex());
    const uint64_t epoch = ++last_epoch;
    // Nothing is thrown while uses are taken.
    held.reserve(recorder.count());
    for (Node *n = recorder.head(); n; n = n->next) {
        if (!n->pending()) // another thread's sync computes it, and lets go of its operands
            continue;
        for (const Node *operand : n->operands())
            count += operand->state.load(std::memory_order_acquire) == State::Ready;
    }
    read.reserve(count);
    for (Node *n = recorder.head(); n; n = n->next) {
        if (!n->pending() || !try_add_use(n)) // or its last handle has just gone, on another thread
            continue;
        held.push_back(n);
        for (Node *operand : n->operands()) {
            if (operand->state.load(std::memory_order_acquire) != State::Ready || !operand->storage)
                continue;
            if (operand->mark != epoch) {
                operand->mark = epoch;
                operand->inner_uses = 0;
                read.push_back(operand);
            }
            ++operand->inner_uses;
        }
    }
    int64_t bytes = 0;
    for (const Node *n : read)
        if (n->uses() == n->inner_uses && n->storage->refs.load(std::memory_order_acquire) == 1)
            bytes += n->storage->bytes;
    lock.unlock();
    for (Node *const n : held)
        drop_use(n);
    return bytes;
}

} // namespace lz::detail
