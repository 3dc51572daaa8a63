#include "frontend/record/record.h"

#include "frontend/autograd/attach.h"
#include "frontend/engine/engine.h"
#include "frontend/record/access.h"
#include "frontend/record/arena.h"
#include "frontend/record/make_node.h"
#include "frontend/record/recorder.h"
#include "frontend/record/recording/kept_bytes.h"
#include "frontend/record/recording/recording.h"
#include "frontend/record/sync/sync.h"
#include "frontend/record/trace.h"
#include "frontend/record/view_warnings.h"
#include "frontend/tensor/copies.h"
#include "ir/graph/infer/infer.h"
#include "lazuli/ops/indexing.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

namespace lz::detail {
namespace {

constexpr size_t kInlineOperands = 16;

[[gnu::always_inline]] inline void copy_words(Node *n, std::span<const int64_t> structural,
                                              std::span<const int64_t> runtime) {
    if (!structural.empty())
        std::memcpy(n->structural_data(), structural.data(), structural.size_bytes());
    if (!runtime.empty())
        std::memcpy(n->runtime_data(), runtime.data(), runtime.size_bytes());
}

/// S22: an eighth of the smallest device's memory.
int64_t kept_limit() {
    int64_t least = INT64_MAX;
    for (const ir::DeviceInfo &device : engine::Engine::get().target().devices)
        least = std::min(least, device.memory_bytes);
    return std::max(least / 8, int64_t{1} << 20);
}

/// A copy between two GPUs is the work of the one that is written. On a stream that the user named for the
/// one that is read what comes later comes after the copy, too, as in PyTorch, where that stream makes it
/// (S41).
[[gnu::cold]] void let_source_wait(const Recorder &recorder, const Tensor &copy, Location loc) {
    Node *const n = Access::node(copy);
    const ir::Device from = n->operand_data()[0]->type.device;
    const ir::StreamRef stream{from, recorder.stream(from)};
    if (n->type.device == ir::kCpu || stream.stream == ir::kNoStream)
        return;
    const int64_t words[] = {ir::device_word(from), ir::device_word(from), stream.stream};
    record_effect(ir::Op::WaitStream, stream, words, {}, nullptr, loc, n);
}

inline void note_operands(const Recorder &recorder, std::span<const Tensor *const> operands) {
    if (Trace *const trace = recorder.trace()) [[unlikely]]
        for (const Tensor *const operand : operands)
            trace->note_read(*operand);
}

/// LAZULI_CHECK_DEVICES: what the compiler would say of the devices, at the operation (S06). `n` is not
/// published yet; of what it needs only what is pending is looked through, as the compiler does.
void check_devices(Node *n) {
    const auto operands = n->operands();
    const auto elsewhere = [&](const Node *o) { return o->type.device != operands[0]->type.device; };
    const auto failed = [](const Node *o) { return has_failed(o->state.load(std::memory_order_acquire)); };
    if (std::ranges::any_of(operands, elsewhere) && std::ranges::none_of(operands, failed))
        engine::Engine::get().check_devices(pending_graph(n));
}

/// Whether what the operand shows may still turn out to have failed.
[[gnu::cold]] bool is_unsettled(const Node *operand) {
    return operand->state.load(std::memory_order_acquire) != State::Ready ||
           operand->in_flight.load(std::memory_order_acquire);
}

[[noreturn]] void throw_empty(ir::Op op, size_t which, Location loc) {
    throw StateError(std::string(ir::called(op, to_ir(loc))) + ": operand " + std::to_string(which) +
                         " is an empty tensor (default-constructed or moved from)",
                     loc);
}

} // namespace

void discard(Node *n) noexcept {
    const uint8_t size_class = n->size_class;
    n->~Node();
    free_node(n, size_class);
}

void launch_beyond_limits(Recorder &recorder, Location loc) {
    if (recorder.modes().launch_blocking) {
        if (!recorder.overwriting()) // else Overwriting does
            sync_all(loc);
    } else if (recorder.count() >= Recorder::kMaxPending) {
        launch_prefix(recorder, loc);
    } else if (recorder.may_keep_much()) {
        static const int64_t limit = kept_limit();
        // While all that they read is within the limit, nobody has to walk through them.
        const int64_t kept = recorder.read_bytes() <= limit ? recorder.read_bytes() : kept_bytes(recorder);
        if (kept > limit)
            launch_prefix(recorder, loc);
        else
            recorder.looked(kept, limit);
    }
}

void throw_too_much(ir::Op op, const char *what, size_t count, Location loc) {
    throw StateError(std::string(ir::called(op, to_ir(loc))) + ": " + std::to_string(count) + " " + what +
                         "; an operation has at most " + std::to_string(kMostWords),
                     loc);
}

Tensor record(ir::Op op, std::span<const Tensor *const> operands, std::span<const int64_t> structural,
              std::span<const int64_t> runtime, Location loc) {
    Recorder &recorder = Recorder::current();
    const ir::TensorType *inline_types[kInlineOperands];
    std::vector<const ir::TensorType *> many_types;
    const ir::TensorType **types = inline_types;
    bool may_fail = false;
    uintptr_t histories = 0;
    if (operands.size() > kInlineOperands) {
        many_types.resize(operands.size());
        types = many_types.data();
    }
    Node *n = make_node(op, operands.size(), structural.size(), runtime.size(), loc);
    copy_words(n, structural, runtime);
    for (size_t i = 0; i < operands.size(); ++i) {
        if (!operands[i]->defined()) [[unlikely]] {
            discard(n);
            if (!Access::unread(*operands[i]))
                throw_empty(op, i, loc);
            read_mask(*operands[i]);
            return record(op, operands, structural, runtime, loc);
        }
        Node *operand = Access::node(*operands[i]);
        histories |= history_bits(*operands[i]);
        n->operand_data()[i] = operand;
        types[i] = &operand->type;
        if (operand->state.load(std::memory_order_acquire) == State::Ready && operand->storage)
            recorder.note_read(operand->storage->bytes);
        if (operand->may_fail) [[unlikely]]
            may_fail |= is_unsettled(operand);
    }
    try {
        ir::infer_types(n->attrs(), {types, operands.size()}, {&n->type, 1});
        if (may_fail || has_checks(n)) [[unlikely]]
            n->may_fail = true;
        if (recorder.looks_at_each() && recorder.modes().check_devices) [[unlikely]]
            check_devices(n);
    } catch (const ir::Failure &failure) {
        discard(n);
        throw_public(ir::called_as(failure, op, to_ir(loc)), loc);
    } catch (...) {
        discard(n);
        throw;
    }
    for (Node *operand : n->operands())
        add_use(operand);
    Tensor result = publish(n, recorder);
    if (histories && recorder.grad_mode()) [[unlikely]]
        attach({&result, 1}, operands);
    if (recorder.looks_at_each()) [[unlikely]] {
        note_operands(recorder, operands);
        if (op == ir::Op::Transfer && operands.size() == 1 && recorder.names_streams())
            let_source_wait(recorder, result, loc);
        if (recorder.modes().warn_views && !operands.empty())
            note_view(result, *operands[0]);
    }
    after_record(recorder, loc);
    return result;
}

Tensor record_update(const Tensor &x, const Tensor &update, Node *like, std::span<const int64_t> structural,
                     std::span<const int64_t> runtime, Location loc) {
    Recorder &recorder = Recorder::current();
    Node *const operands[] = {Access::node(x), Access::node(update), like};
    const ir::TensorType *const types[] = {&operands[0]->type, &operands[1]->type};
    Node *n = make_node(ir::Op::UpdateSlice, std::size(operands), structural.size(), runtime.size(), loc);
    std::ranges::copy(operands, n->operand_data());
    copy_words(n, structural, runtime);
    n->like = true;
    try {
        ir::infer_types(n->attrs(), types, {&n->type, 1});
        for (Node *const operand : operands)
            if (operand->may_fail && is_unsettled(operand))
                n->may_fail = true;
        if (recorder.modes().check_devices) [[unlikely]]
            check_devices(n);
    } catch (const ir::Failure &failure) {
        discard(n);
        throw_public(ir::called_as(failure, ir::Op::UpdateSlice, to_ir(loc)), loc);
    } catch (...) {
        discard(n);
        throw;
    }
    for (Node *const operand : operands)
        add_use(operand);
    Tensor result = publish(n, recorder);
    if (const Tensor *const read[] = {&x, &update};
        recorder.grad_mode() && (has_history(x) || has_history(update))) [[unlikely]]
        attach({&result, 1}, read);
    if (const Tensor *const read[] = {&x, &update}; recorder.trace()) [[unlikely]]
        note_operands(recorder, read);
    after_record(recorder, loc);
    return result;
}

std::vector<Tensor> record_many(ir::Op op, std::span<const Tensor *const> operands,
                                std::span<const int64_t> structural, std::span<const int64_t> runtime,
                                Location loc) {
    Recorder &recorder = Recorder::current();
    std::vector<const ir::TensorType *> types(operands.size());
    for (size_t i = 0; i < operands.size(); ++i) {
        if (Access::unread(*operands[i]))
            read_mask(*operands[i]);
        if (!operands[i]->defined())
            throw_empty(op, i, loc);
        types[i] = &Access::node(*operands[i])->type;
    }
    const ir::AttrView attrs{op, structural, runtime};
    std::vector<ir::TensorType> result_types(static_cast<size_t>(ir::num_results(attrs)));
    std::vector<Tensor> results;
    results.reserve(result_types.size());
    Node *primary =
        make_node(op, operands.size(), structural.size(), runtime.size(), loc, result_types.size() - 1);
    copy_words(primary, structural, runtime);
    for (size_t i = 0; i < operands.size(); ++i) {
        primary->operand_data()[i] = Access::node(*operands[i]);
        if (const Node *const operand = primary->operand_data()[i];
            operand->may_fail && is_unsettled(operand))
            primary->may_fail = true;
    }
    try {
        ir::infer_types(attrs, types, result_types);
        primary->type = result_types[0];
        primary->may_fail |= has_checks(primary);
        if (recorder.modes().check_devices) [[unlikely]]
            check_devices(primary);
    } catch (const ir::Failure &failure) {
        discard(primary);
        throw_public(ir::called_as(failure, op, to_ir(loc)), loc);
    } catch (...) {
        discard(primary);
        throw;
    }
    for (Node *operand : primary->operands())
        add_use(operand);
    primary->several = result_types.size() > 1;
    std::ranges::fill(primary->projections(), nullptr);
    results.push_back(publish(primary, recorder));
    for (size_t k = 1; k < result_types.size(); ++k) {
        Node *projection = make_node(op, 1, 0, 0, loc);
        projection->projection = static_cast<uint16_t>(k);
        projection->operand_data()[0] = primary;
        add_use(primary);
        projection->refs.fetch_add(Node::kHold, std::memory_order_relaxed);
        primary->projections()[k - 1] = projection;
        projection->type = result_types[k];
        projection->may_fail = primary->may_fail;
        results.push_back(publish(projection, recorder));
    }
    if (recorder.grad_mode() &&
        std::ranges::any_of(operands, [](const Tensor *x) { return has_history(*x); }))
        attach(results, operands);
    note_operands(recorder, operands);
    after_record(recorder, loc);
    return results;
}

void record_effect(ir::Op op, ir::StreamRef stream, std::span<const int64_t> structural,
                   std::span<const int64_t> runtime, std::shared_ptr<void> payload, Location loc,
                   Node *operand) {
    Recorder &recorder = Recorder::current();
    if (Trace *const trace = recorder.trace())
        trace->reject("orders streams, events or callbacks", loc);
    recorder.expect_effect();
    Node *n = make_node(op, operand ? 1 : 0, structural.size(), runtime.size(), loc);
    copy_words(n, structural, runtime);
    if (operand) {
        n->operand_data()[0] = operand;
        add_use(operand);
    }
    n->type.device = stream.device;
    n->stream = static_cast<int16_t>(stream.stream == ir::kDefaultStream ? ir::kNoStream : stream.stream);
    recorder.append(n);
    recorder.hold_effect(&n->cell, std::move(payload));
    after_record(recorder, loc);
}

Tensor make_ready(const ir::TensorType &type, Storage *storage, Location loc) {
    struct Owned {
        Storage *storage;
        ~Owned() {
            if (storage)
                storage->release();
        }
    } owned{storage};
    Node *n = make_node(ir::Op::Constant, 0, 0, 0, loc);
    n->type = type;
    n->storage = std::exchange(owned.storage, nullptr);
    n->pinned = storage->block.pinned;
    n->state.store(State::Ready, std::memory_order_release);
    Tensor ready = Access::wrap(&n->cell);
    if (const Recorder *const recorder = Recorder::current_or_null(); recorder && recorder->trace())
        [[unlikely]]
        recorder->trace()->note_constant(ready);
    return ready;
}

namespace {

Tensor record_filled(ir::Op op, DType dtype, int64_t word, const ir::Shape &shape, ir::Device device,
                     Location loc) {
    int64_t structural[4 + ir::kMaxRank];
    size_t count = 0;
    structural[count++] = static_cast<int64_t>(dtype);
    structural[count++] = shape.rank();
    for (const int64_t extent : shape)
        structural[count++] = extent;
    structural[count++] = ir::device_word(device);
    if (op == ir::Op::Literal) {
        structural[count++] = word;
        return record(op, {}, std::span(structural, count), {}, loc);
    }
    return record(op, {}, std::span(structural, count), {&word, 1}, loc);
}

int64_t word_of(DType dtype, double value) {
    return is_floating_point(dtype) ? ir::scalar_word(value) : static_cast<int64_t>(value);
}

} // namespace

void note_on_host(std::initializer_list<double> numbers) {
    if (Trace *const trace = Recorder::current().trace()) [[unlikely]]
        for (const double number : numbers)
            trace->note_on_host(number);
}

void note_limits(double number, double low, double high) {
    if (Trace *const trace = Recorder::current().trace()) [[unlikely]]
        trace->note_limits(number, low, high);
}

Tensor record_constant(DType dtype, double value, const ir::Shape &shape, ir::Device device, Location loc) {
    if (!is_floating_point(dtype))
        note_on_host({value});
    if (shape.rank() == 0)
        return record_number(dtype, word_of(dtype, value), device, loc);
    return record_filled(ir::Op::Constant, dtype, word_of(dtype, value), shape, device, loc);
}

Tensor record_constant_int(DType dtype, int64_t value, const ir::Shape &shape, ir::Device device,
                           Location loc) {
    const int64_t word = is_floating_point(dtype) ? ir::scalar_word(static_cast<double>(value)) : value;
    return record_filled(ir::Op::Constant, dtype, word, shape, device, loc);
}

Tensor record_literal(DType dtype, double value, const ir::Shape &shape, ir::Device device, Location loc) {
    if (shape.rank() == 0)
        return record_literal_number(dtype, word_of(dtype, value), device, loc);
    return record_filled(ir::Op::Literal, dtype, word_of(dtype, value), shape, device, loc);
}

Tensor fresh(const Tensor &x, Location loc) {
    const ir::Shape &shape = Access::node(x)->type.shape;
    int64_t words[1 + ir::kMaxRank];
    words[0] = shape.rank();
    std::ranges::copy(shape, words + 1);
    const Tensor *const operand = &x;
    return record(ir::Op::Reshape, {&operand, 1}, {words, static_cast<size_t>(1 + shape.rank())}, {}, loc);
}

namespace {

/// While a function is recorded for `lz::compile`, a value from before it that is to be shared: it is
/// computed now, as a replay computes it first. Else the function would share what is there, and record a
/// copy of what is pending or on its way. A trace that is rejected knows no longer what it has made, and is
/// compared with nothing.
void compute_from_before(Node *node, Location loc) {
    Recorder &recorder = Recorder::current();
    Trace *const trace = recorder.trace();
    if (trace->rejected() || trace->made(node) || trace->constant(node) ||
        (node->state.load(std::memory_order_acquire) == State::Ready &&
         !node->in_flight.load(std::memory_order_acquire)))
        return;
    struct Aside { // what is computed is no part of the function
        Recorder &recorder;
        Trace *const trace;
        ~Aside() { recorder.set_trace(trace); }
    } const aside{recorder, recorder.set_trace(nullptr)};
    eval_nodes({&node, 1}, loc);
    if (node->in_flight.load(std::memory_order_acquire))
        materialize_now(node, loc);
}

/// As `replace`, of the value alone.
void replace_value(Tensor &target, const Tensor &value) {
    Cell *cell = Access::cell(target);
    Node *const next = Access::node(value);
    Node *const last = cell->current;
    if (next == last)
        return;
    if (Trace *const trace = Recorder::current().trace()) [[unlikely]] {
        trace->note_read(value);
        trace->note_replaced(target);
        compute_from_before(next, from_ir(next->loc));
    }
    if (last->is_view) [[unlikely]]
        warn_of_view(last, from_ir(next->loc));
    LZ_CHECK(next->type.device == last->type.device, "an in-place form would move its tensor");
    if (last->pinned && !next->pinned && !next->pending()) [[unlikely]] { // launch blocking: it has run
        replace_value(target, in_pinned_memory(value, from_ir(next->loc)));
        return;
    }
    const State state = next->state.load(std::memory_order_acquire);
    if (state == State::Ready && !next->in_flight.load(std::memory_order_acquire)) {
        // On a stream that the user named it is work of that stream (S41), unless this form has just done it.
        if (Recorder::current().stream(next->type.device) != ir::kNoStream &&
            Access::cell(value)->handles.load(std::memory_order_acquire) != 1) [[unlikely]] {
            replace_value(target, fresh(value, from_ir(next->loc)));
            return;
        }
        add_use(next);
        cell->current = next;
        drop_use(last);
        return;
    }
    // The fallback is a version's own: of a value that may fail and that others know, or may look at, the
    // handle gets a version of its own.
    const bool mine = Access::cell(value)->handles.load(std::memory_order_acquire) == 1 && next->uses() == 1;
    if (!mine || (state != State::Pending && state != State::Failed)) [[unlikely]] {
        replace_value(target, fresh(value, from_ir(next->loc)));
        return;
    }
    next->pinned = last->pinned;
    add_use(next);
    cell->current = next;
    // The handle's use of the last version becomes the new version's. A pending version that nothing reads is
    // passed over, so that a loop of in-place forms holds no chain of dead ones, unless the new one may fail.
    if (!next->may_fail && last->pending() && last->uses() == 1) {
        next->fallback = std::exchange(last->fallback, nullptr);
        drop_use(last);
    } else {
        next->fallback = last;
    }
}

} // namespace

void replace(Tensor &target, const Tensor &value) {
    Cell *const cell = Access::cell(target);
    if (!cell->history && !has_history(value)) [[likely]] {
        replace_value(target, value);
        return;
    }
    StepRef overwriting;
    if (cell->history) {
        check_in_place(target, Access::node(value));
        if (!has_history(value)) // nothing of the target is in it
            overwriting = make_overwriting_step(target, value);
    }
    replace_value(target, value);
    if (overwriting.get())
        take_step(target, std::move(overwriting));
    else
        take_history(target, value);
}

Overwriting::Overwriting(Location loc) : loc_(loc), inner_(Recorder::current().set_overwriting(true)) {}

Overwriting::~Overwriting() {
    Recorder::current().set_overwriting(inner_);
}

void Overwriting::launch() {
    if (!inner_ && Recorder::current().modes().launch_blocking)
        sync_all(loc_);
}

Node *node_of(const Tensor &tensor, const char *operation, Location loc) {
    if (!tensor.defined()) {
        if (!Access::unread(tensor))
            throw StateError(
                std::string(operation) + ": the tensor is empty (default-constructed or moved from)", loc);
        read_mask(tensor);
    }
    return Access::node(tensor);
}

ir::Location origin_of(const Node *node) {
    ir::Location loc = node->loc;
    if (loc.function == 0 && node->op != ir::Op::Constant)
        loc.function = ir::intern_function(ir::name(node->op));
    return loc;
}

const ir::TensorType &type_of(const Tensor &tensor) {
    return Access::node(tensor)->type;
}

} // namespace lz::detail
