// Connectionist temporal classification (Graves et al. 2006), with the forward and backward sums of
// section 4.1 in logarithms.
#include "frontend/ops/functional/ctc.h"

#include "frontend/autograd/composites.h"
#include "lazuli/ops/creation.h"
#include "lazuli/ops/elementwise.h"
#include "lazuli/ops/functional.h"
#include "lazuli/ops/indexing.h"
#include "lazuli/ops/reductions.h"
#include "lazuli/ops/views.h"

#include <limits>

namespace lz {

using detail::Op;
using detail::Shape;

namespace detail {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

Tensor number(const Tensor &like, double value, Location loc) {
    return literal(like, value, loc);
}

/// x[:, k:], or for a negative k the same to the other side, with -inf in the free places.
Tensor moved(const Tensor &x, int64_t k, Location loc) {
    const int64_t count = type(x).shape[1], away = std::min(k < 0 ? -k : k, count);
    const Tensor never = number(x, kNever, loc);
    const Tensor kept = cut(x, 1, k < 0 ? 0 : away, count - away, 1, loc);
    const int64_t low[] = {0, k < 0 ? away : 0}, high[] = {0, k < 0 ? 0 : away};
    return record(Op::Pad, {&kept, &never}, Words().ints(low).ints(high), loc);
}

/// log(exp(a) + exp(b) + exp(c)), -inf where all are.
Tensor log_sum(const Tensor &a, const Tensor &b, const Tensor &c, Location loc) {
    const Tensor top = binary(Op::Maximum, binary(Op::Maximum, a, b, loc), c, loc);
    const Tensor shift =
        select(binary(Op::Eq, top, number(top, kNever, loc), loc), number(top, 0, loc), top, loc);
    const auto part = [&](const Tensor &x) { return unary(Op::Exp, binary(Op::Sub, x, shift, loc), loc); };
    const Tensor sum = binary(Op::Add, binary(Op::Add, part(a), part(b), loc), part(c), loc);
    return binary(Op::Add, unary(Op::Log, sum, loc), shift, loc);
}

} // namespace

CtcStates::CtcStates(const Tensor &states, const Tensor &lengths, Location loc) : states(states), loc(loc) {
    const ir::TensorType &t = type(states);
    const int64_t n = t.shape[0], count = t.shape[1];
    steps = reshape_to(cut(lengths, 0, 0, 1, 1, loc), Shape({n, 1}), loc);
    const Tensor classes = reshape_to(cut(lengths, 0, 1, 1, 1, loc), Shape({n, 1}), loc);
    last = binary(Op::Mul, classes, literal(classes, 2, loc), loc);
    place = iota({ir::DType::I64, Shape({1, count}), t.device}, 1, 0, 1, loc);
    if (count < 3) {
        may_skip = record_literal(DType::Bool, 0, t.shape, t.device, loc);
        return;
    }
    const Tensor differs =
        binary(Op::Ne, cut(states, 1, 2, count - 2, 1, loc), cut(states, 1, 0, count - 2, 1, loc), loc);
    may_skip = pad(differs, {2, 0}, false, loc);
}

Tensor CtcStates::scores(const Tensor &log_probs) const {
    const int64_t time = type(log_probs).shape[0], n = type(states).shape[0], count = type(states).shape[1];
    const Tensor each =
        broadcast_to(reshape_to(states, Shape({1, n, count}), loc), Shape({time, n, count}), loc);
    return record(Op::Gather, {&log_probs, &each}, {2}, {}, loc);
}

namespace {

Tensor at_step(const Tensor &scores, int64_t t, Location loc) {
    const Shape &shape = type(scores).shape;
    return reshape_to(cut(scores, 0, t, 1, 1, loc), Shape({shape[1], shape[2]}), loc);
}

} // namespace

std::vector<Tensor> CtcStates::forward(const Tensor &scores) const {
    const int64_t time = type(scores).shape[0];
    const Tensor never = number(scores, kNever, loc);
    std::vector<Tensor> out;
    // The first blank and the first class, which there is unless the target is empty.
    const Tensor at_start = binary(Op::And, binary(Op::Le, place, literal(place, 1, loc), loc),
                                   binary(Op::Le, place, last, loc), loc);
    out.push_back(select(at_start, at_step(scores, 0, loc), never, loc));
    for (int64_t t = 1; t < time; ++t) {
        const Tensor &before = out.back();
        const Tensor skipped = select(may_skip, moved(before, -2, loc), never, loc);
        const Tensor ways = log_sum(before, moved(before, -1, loc), skipped, loc);
        out.push_back(binary(Op::Add, ways, at_step(scores, t, loc), loc));
    }
    return out;
}

std::vector<Tensor> CtcStates::backward(const Tensor &scores) const {
    const int64_t time = type(scores).shape[0], count = type(states).shape[1];
    const Tensor never = number(scores, kNever, loc), one = literal(last, 1, loc);
    const Tensor at_end = binary(Op::Or, binary(Op::Eq, place, last, loc),
                                 binary(Op::Eq, place, binary(Op::Sub, last, one, loc), loc), loc);
    const Tensor end = binary(Op::Sub, steps, one, loc);
    // Whether a path may go to two states behind.
    const Tensor may_jump =
        count < 3 ? may_skip : pad(cut(may_skip, 1, 2, count - 2, 1, loc), {0, 2}, false, loc);
    std::vector<Tensor> out(static_cast<size_t>(time));
    Tensor after = broadcast_to(never, type(states).shape, loc);
    for (int64_t t = time - 1; t >= 0; --t) {
        const Tensor jumped = select(may_jump, moved(after, 2, loc), never, loc);
        const Tensor ways = log_sum(after, moved(after, 1, loc), jumped, loc);
        const Tensor now = constant(Scalar(t), ir::DType::I64, type(states).device, loc);
        const Tensor first = select(at_end, number(ways, 0, loc), never, loc);
        const Tensor begun = select(binary(Op::Eq, now, end, loc), first, ways, loc);
        after = binary(Op::Add, begun, at_step(scores, t, loc), loc);
        out[static_cast<size_t>(t)] = after;
    }
    return out;
}

Tensor CtcStates::loss(const std::vector<Tensor> &forward) const {
    const int64_t n = type(states).shape[0], count = type(states).shape[1];
    const Tensor zero = literal(steps, 0, loc), one = literal(steps, 1, loc);
    // Of the step where each sample ends the last two states.
    const Tensor all = stack(forward, 0, loc);
    const Tensor end = binary(Op::Maximum, binary(Op::Sub, steps, one, loc), zero, loc);
    const Tensor at_time = broadcast_to(reshape_to(end, Shape({1, n, 1}), loc), Shape({1, n, count}), loc);
    const Tensor ends =
        reshape_to(record(Op::Gather, {&all, &at_time}, {0}, {}, loc), Shape({n, count}), loc);
    const auto state = [&](const Tensor &at) { return record(Op::Gather, {&ends, &at}, {1}, {}, loc); };
    const Tensor never = number(all, kNever, loc);
    const Tensor is_empty = binary(Op::Eq, last, zero, loc);
    const Tensor before = binary(Op::Maximum, binary(Op::Sub, last, one, loc), zero, loc);
    const Tensor in_class = select(is_empty, never, state(before), loc);
    const Tensor total = log_sum(state(last), in_class, never, loc);
    // Without steps there is the empty path alone.
    const Tensor nothing = select(is_empty, number(all, 0, loc), never, loc);
    const Tensor found = select(binary(Op::Eq, steps, zero, loc), nothing, total, loc);
    return unary(Op::Neg, reshape_to(found, Shape({n}), loc), loc);
}

} // namespace detail

namespace {

std::string list_of(const Tensor &x) {
    return detail::text(detail::type(x));
}

/// The lengths as i64[n] where the loss is computed.
Tensor lengths_of(const Tensor &given, int64_t n, bool batched, const char *what, const Tensor &home,
                  Location loc) {
    const ir::TensorType type = detail::checked_type(given, "ctc_loss", loc);
    if (ir::is_float(type.dtype) || type.dtype == ir::DType::Bool)
        throw DTypeError(std::string("ctc_loss: the lengths of ") + what + " are " + detail::text(type) +
                             "; they must be integers",
                         loc);
    if (type.numel() != n || type.shape.rank() > 1 || (batched && type.shape.rank() != 1))
        throw ShapeError(std::string("ctc_loss: the lengths of ") + what + " are " + detail::text(type) +
                             "; it takes one for each of the " + std::to_string(n) + " samples",
                         loc);
    const Tensor here = to(given.detach(loc), home.device(loc), loc);
    return detail::reshape_to(detail::cast(here, ir::DType::I64, loc), Shape({n}), loc);
}

/// With the check, made when it runs, that no length is negative or above the extent.
Tensor within(const Tensor &lengths, int64_t extent, const char *sentence, Location loc) {
    const Tensor least = detail::literal(lengths, 0, loc);
    const Tensor most = detail::constant(Scalar(extent), ir::DType::I64, detail::type(lengths).device, loc);
    return detail::checked(lengths,
                           detail::binary(Op::And, detail::binary(Op::Ge, lengths, least, loc),
                                          detail::binary(Op::Le, lengths, most, loc), loc),
                           sentence, loc);
}

/// Targets that follow each other in one row, as rows of equal length.
Tensor rows_of(const Tensor &row, const Tensor &lengths, int64_t n, Location loc) {
    const std::vector<int64_t> counts = lengths.to_vector<int64_t>(loc);
    int64_t total = 0, most = 0;
    for (const int64_t count : counts) {
        if (count < 0)
            throw ShapeError("ctc_loss: a target has the length " + std::to_string(count), loc);
        total += count;
        most = std::max(most, count);
    }
    if (total != detail::type(row).numel())
        throw ShapeError("ctc_loss: the lengths of the targets add up to " + std::to_string(total) +
                             ", and the targets are " + list_of(row),
                         loc);
    if (total == 0)
        return detail::reshape_to(row, Shape({n, 0}), loc);
    const Tensor ends = cumsum(lengths, 0, std::nullopt, loc);
    const Tensor starts = detail::binary(Op::Sub, ends, lengths, loc);
    const ir::Device device = detail::type(row).device;
    const Tensor place = detail::iota({ir::DType::I64, Shape({1, most}), device}, 1, 0, 1, loc);
    const Tensor at = detail::binary(Op::Add, detail::reshape_to(starts, Shape({n, 1}), loc), place, loc);
    const Tensor end = detail::constant(Scalar(total - 1), ir::DType::I64, device, loc);
    return take(row, detail::binary(Op::Minimum, at, end, loc), loc);
}

/// The blank before, between and behind the classes of each target; behind its end blanks alone.
Tensor states_of(const Tensor &targets, const Tensor &lengths, int64_t blank, Location loc) {
    const ir::TensorType type = detail::type(targets);
    const int64_t n = type.shape[0], most = type.shape[1];
    const Tensor blanks = detail::constant(Scalar(blank), ir::DType::I64, type.device, loc);
    const Tensor place = detail::iota({ir::DType::I64, Shape({1, most}), type.device}, 1, 0, 1, loc);
    const Tensor there = detail::binary(Op::Lt, place, detail::reshape_to(lengths, Shape({n, 1}), loc), loc);
    const Tensor classes = detail::select(there, targets, blanks, loc);
    const Tensor column = detail::reshape_to(classes, Shape({n, most, 1}), loc);
    const Tensor between = detail::broadcast_to(blanks, Shape({n, most, 1}), loc);
    const Tensor pairs = detail::reshape_to(cat({between, column}, 2, loc), Shape({n, 2 * most}), loc);
    return cat({pairs, detail::broadcast_to(blanks, Shape({n, 1}), loc)}, 1, loc);
}

} // namespace

Tensor ctc_loss(const Tensor &given, const Tensor &targets, const Tensor &input_lengths,
                const Tensor &target_lengths, int64_t blank, Reduction reduction, bool zero_infinity,
                Location loc) {
    loc = detail::in<"ctc_loss">(loc);
    const ir::TensorType type = detail::checked_type(given, "ctc_loss", loc);
    const ir::TensorType labels = detail::checked_type(targets, "ctc_loss", loc);
    const int rank = type.shape.rank();
    if (!ir::is_float(type.dtype))
        throw DTypeError("ctc_loss: the logarithms of probabilities are " + detail::text(type) +
                             "; they must be floats",
                         loc);
    if (labels.dtype != ir::DType::I64 && labels.dtype != ir::DType::I32)
        throw DTypeError("ctc_loss: the targets are " + detail::text(labels) + "; they must be i64 or i32",
                         loc);
    if (rank != 2 && rank != 3)
        throw ShapeError("ctc_loss: the logarithms of probabilities are " + detail::text(type) +
                             "; they must be [steps, n, classes], or [steps, classes]",
                         loc);
    const int64_t steps = type.shape[0], n = rank == 3 ? type.shape[1] : 1, classes = type.shape[rank - 1];
    if (steps == 0 || n == 0)
        throw ShapeError("ctc_loss: the logarithms of probabilities are " + detail::text(type) +
                             "; there are no steps, or no samples",
                         loc);
    if (blank < 0 || blank >= classes)
        throw IndexError("ctc_loss: the blank is " + std::to_string(blank) + "; there are " +
                             std::to_string(classes) + " classes",
                         loc);
    const int rank_of_targets = labels.shape.rank();
    if (rank_of_targets < 1 || rank_of_targets > 2 || (rank == 2 && rank_of_targets != 1) ||
        (rank_of_targets == 2 && labels.shape[0] != n))
        throw ShapeError("ctc_loss: the targets are " + detail::text(labels) + "; they must be [" +
                             std::to_string(n) + ", longest] or follow each other in one row",
                         loc);
    if (reduction != Reduction::None && reduction != Reduction::Mean && reduction != Reduction::Sum)
        throw StateError("ctc_loss: the reduction is none of None, Mean and Sum", loc);
    const auto both = detail::together(loc, given, targets);
    const ir::DType work = detail::working_dtype(type.dtype);
    const Tensor log_probs =
        detail::reshape_to(detail::cast(both[0], work, loc), Shape({steps, n, classes}), loc);
    const Tensor wanted = detail::cast(both[1].detach(loc), ir::DType::I64, loc);
    Tensor of_targets = lengths_of(target_lengths, n, rank == 3, "the targets", log_probs, loc);
    const Tensor rows = rank_of_targets == 2 ? wanted
                        : rank == 2          ? detail::reshape_to(wanted, Shape({1, labels.shape[0]}), loc)
                                             : rows_of(wanted, of_targets, n, loc);
    of_targets = within(of_targets, detail::type(rows).shape[1],
                        "ctc_loss: a target is longer than there is room, or its length is negative", loc);
    const Tensor of_inputs =
        within(lengths_of(input_lengths, n, rank == 3, "the inputs", log_probs, loc), steps,
               "ctc_loss: an input is longer than there are steps, or its length is negative", loc);
    const Tensor lengths = stack({of_inputs, of_targets}, 0, loc);
    const Tensor states = states_of(rows, of_targets, blank, loc);
    Tensor losses = detail::composite(detail::kCtcRule, {&log_probs, &states, &lengths}, {}, loc, [&] {
        const detail::CtcStates paths(states, lengths, loc);
        return paths.loss(paths.forward(paths.scores(log_probs)));
    });
    if (zero_infinity)
        losses = detail::select(detail::unary(Op::IsInf, losses, loc), detail::literal(losses, 0, loc),
                                losses, loc);
    if (reduction == Reduction::Mean) { // by the length of each target
        const Tensor length = detail::cast(
            detail::binary(Op::Maximum, of_targets, detail::literal(of_targets, 1, loc), loc), work, loc);
        losses = mean(detail::binary(Op::Div, losses, length, loc), {}, false, std::nullopt, loc);
    } else if (reduction == Reduction::Sum) {
        losses = sum(losses, {}, false, std::nullopt, loc);
    } else if (rank == 2) {
        losses = detail::reshape_to(losses, {}, loc);
    }
    return detail::cast(losses, type.dtype, loc);
}

Tensor ctc_loss(const Tensor &log_probs, const Tensor &targets, const Sizes &input_lengths,
                const Sizes &target_lengths, int64_t blank, Reduction reduction, bool zero_infinity,
                Location loc) {
    loc = detail::in<"ctc_loss">(loc);
    const auto lengths = [&](const Sizes &given) {
        return tensor(given.vec(), {.device = Device::cpu()}, loc);
    };
    return ctc_loss(log_probs, targets, lengths(input_lengths), lengths(target_lengths), blank, reduction,
                    zero_infinity, loc);
}

} // namespace lz
