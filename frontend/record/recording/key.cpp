// The key of a recording: one claimed node after another is numbered and written down.

#include "frontend/record/recording/key.h"

#include "frontend/engine/engine.h"
#include "frontend/record/failure_record.h"
#include "frontend/record/recording/scratch.h"
#include "frontend/record/storage.h"
#include "ir/diagnostic.h"
#include "ir/host/float_environment.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace lz::detail {
namespace {

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

} // namespace

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

namespace {

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
    operations.insert(operations.end(), Operation{n, next_index_, key_at, false, true, true});
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
    input_may_fault_ |= n->in_flight.load(std::memory_order_acquire);
    may_fault_ |= input_may_fault_;
    int32_t group = -1;
    if (n->state.load(std::memory_order_acquire) != State::Ready) {
        awaited.push_back(n);    // its storage does not exist yet, so nobody shares it
        input_may_fault_ = true; // unless nothing of that sync can fail, which is not known here
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

namespace {

/// Of an operation on no stream of the user's that has one result, as most do.
uint64_t plain_word(const Node *n) {
    return static_cast<uint64_t>(n->op) | static_cast<uint64_t>(n->num_operands) << 16 |
           static_cast<uint64_t>(n->num_structural) << 32;
}

} // namespace

/// What an operation has besides operands.
inline void Recording::add_words(Node *n) {
    for (uint32_t i = 0; i < n->num_structural; ++i)
        key.push_back(static_cast<uint64_t>(n->structural_data()[i]));
    if (n->op == ir::Op::WaitStream) [[unlikely]]
        key.back() = static_cast<uint64_t>(canonical(waited_for(n)));
    for (uint32_t i = 0; i < n->num_runtime; ++i)
        words.push_back(n->runtime_data()[i]);
    // Which waits wait for which records is structure, although the events themselves are not.
    if (n->op == ir::Op::RecordEvent || n->op == ir::Op::WaitEvent) [[unlikely]]
        key.push_back(event_number(n->runtime_data()[0]));
}

/// Every operand is numbered already, or is ready, failed or another sync's.
void Recording::add_operation(Node *n) {
    const std::span<Node *const> operands = n->read_operands();
    for (Node *operand : operands) {
        if (operand->mark == epoch_)
            continue;
        if (has_failed(operand->state.load(std::memory_order_acquire))) [[unlikely]] {
            make_room(spare, 1);
            if (Node *const last = fail_from(n, operand))
                spare.push_back(last);
            hold_all(); // what was to read them is no operation
            return;
        }
        add_input(operand, n);
    }
    may_fault_ |= has_checks(n);
    has_fallbacks_ |= n->fallback != nullptr;
    if (n->stream != ir::kNoStream || n->op == ir::Op::WaitStream) [[unlikely]]
        note_streams(n);
    const auto key_at = static_cast<uint32_t>(key.size());
    const bool plain = n->stream == ir::kNoStream && n->projection == 0;
    const uint64_t first = plain ? plain_word(n) : operation_word(n);
    if (operands.size() <= 2) { // as most have
        uint64_t packed = 0;
        for (size_t i = 0; i < operands.size(); ++i) {
            ++operands[i]->inner_uses;
            packed |= static_cast<uint64_t>(operands[i]->index) << (32 * i);
        }
        key.push_back(first);
        if (!operands.empty())
            key.push_back(packed);
    } else {
        key.push_back(first);
        for (size_t i = 0; i < operands.size(); ++i) {
            ++operands[i]->inner_uses;
            if (i % 2 == 0)
                key.push_back(operands[i]->index);
            else
                key.back() |= static_cast<uint64_t>(operands[i]->index) << 32;
        }
    }
    if (n->like) [[unlikely]]
        note_like(n);
    if (n->num_structural > 0 || n->num_runtime > 0)
        add_words(n);
    operations.push_back({n, next_index_, key_at, false, false, n == held_}); // last of what may throw
    n->mark = epoch_;
    n->index = next_index_++;
    n->inner_uses = 0;
    if (n == held_)
        held_ = nullptr;
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

} // namespace lz::detail
