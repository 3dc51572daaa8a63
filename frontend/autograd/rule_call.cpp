#include "frontend/autograd/rule_call.h"

#include "frontend/autograd/walk.h"

#include <bit>
#include <new>
#include <utility>

namespace lz::detail {
namespace {

/// As ==, without a call for a few words.
inline bool same(const ir::TensorType &a, const ir::TensorType &b) {
    if (a.dtype != b.dtype || a.device != b.device || a.shape.rank() != b.shape.rank())
        return false;
    for (int axis = 0; axis < a.shape.rank(); ++axis)
        if (a.shape[axis] != b.shape[axis])
            return false;
    return true;
}

} // namespace

RuleCall::RuleCall(Step &step, Scratch &scratch, const BackwardOptions &options, uint16_t by, Location loc)
    : step_(&step), options_(&options), loc_(loc), scratch_(scratch) {
    const StepLock lock(step);
    if (step.consumed) [[unlikely]] // by another thread, meanwhile
        throw_consumed(step, options.function, loc);
    scratch.inputs.assign(step.inputs().begin(), step.inputs().end());
    scratch.slots.assign(step.num_inputs, nullptr);
    scratch.gradients.resize(step.num_results);
    if (step.extras)
        payload_ = step.extras->payload;
    const bool consumes = !options.retain_graph && (step.num_saved != 0 || payload_);
    take_saved(consumes);
    if (!consumes)
        return;
    step.consumed = true;
    step.consumed_by = by;
    for (Node *&node : step.saved()) // the aliases have its uses
        node = nullptr;
    if (payload_)
        step.extras->payload.reset();
    // The walk has a reference of each child, too.
    for (Edge &edge : step.inputs())
        if (Step *const child = std::exchange(edge, {}).step)
            release_one_of_two(child);
}

void RuleCall::take_saved(bool consumes) {
    Step &step = *step_;
    std::vector<Tensor> &saved = scratch_.saved;
    saved.reserve(step.num_saved);
    uint32_t mask = step.saved_mask;
    for (Node *const node : step.saved()) {
        const auto bit = static_cast<uint32_t>(std::countr_zero(mask));
        mask &= mask - 1;
        Edge history;
        if (options_->create_graph)
            history = bit < Step::kResult0 ? scratch_.inputs[bit]
                                           : Edge{&step, static_cast<uint16_t>(bit - Step::kResult0)};
        if (history.step && !ir::is_float(node->type.dtype))
            history = {};
        try {
            saved.push_back(Access::wrap(consumes ? make_alias_of_use(node, history.step, history.result)
                                                  : make_alias(node, history.step, history.result)));
        } catch (const std::bad_alloc &) { // the step keeps all that it has
            if (consumes)
                for (const Tensor &x : saved)
                    add_use(Access::cell(x)->current);
            throw;
        }
    }
}

RuleCall::~RuleCall() {
    scratch_.saved.clear();
    scratch_.gradients.clear();
}

const ir::TensorType &RuleCall::type(size_t input) const {
    const Edge &to = scratch_.inputs[input];
    LZ_CHECK(to.step, "the type of an operand that wants no gradient is not known");
    return to.step->results()[to.result];
}

Value RuleCall::as_value(const Tensor &x) const {
    if (in_f32_ && ir::is_half(detail::type(x).dtype)) [[unlikely]]
        return {cast(x, ir::DType::F32, loc_), loc_};
    return Value::of(x, loc_);
}

Value RuleCall::g(size_t result) const {
    if (scratch_.gradients[result].defined()) [[likely]]
        return as_value(scratch_.gradients[result]);
    const ir::TensorType &type = result_type(result);
    const ir::DType dtype = in_f32_ && ir::is_half(type.dtype) ? ir::DType::F32 : type.dtype;
    return {record_literal(from_ir(dtype), 0, type.shape, type.device, loc_), loc_};
}

Value RuleCall::saved(uint32_t bit) const {
    LZ_CHECK(has(bit), "a rule asks for a value that was not saved");
    return as_value(scratch_.saved[static_cast<size_t>(std::popcount(step_->saved_mask & (bit - 1)))]);
}

ir::AttrView RuleCall::attrs() const {
    const std::span<const int64_t> words = step_->words();
    return {step_->op, words.first(step_->num_structural), words.subspan(step_->num_structural)};
}

void RuleCall::give(size_t input, Value gradient) {
    if (const ir::TensorType &to = type(input); !same(gradient.type(), to)) [[unlikely]]
        gradient = {fit(gradient.tensor(), to, loc_), loc_};
    Tensor &sum = *scratch_.slots[input];
    sum = sum.defined() ? binary(Op::Add, sum, gradient.tensor(), loc_) : std::move(gradient).take();
}

Value RuleCall::gathered(size_t input) const {
    const Tensor &sum = *scratch_.slots[input];
    if (sum.defined())
        return {sum, loc_};
    const ir::TensorType &t = type(input);
    return {record_literal(from_ir(t.dtype), 0, t.shape, t.device, loc_), loc_};
}

void RuleCall::set_gathered(size_t input, const Value &sum) {
    *scratch_.slots[input] = fit(sum.tensor(), type(input), loc_);
}

Tensor fit(const Tensor &g, const ir::TensorType &to, Location loc) {
    if (same(type(g), to)) [[likely]]
        return g;
    Tensor fitted = g;
    const Shape from = type(g).shape;
    const int more = from.rank() - to.shape.rank();
    Axes summed;
    for (int a = 0; a < from.rank(); ++a)
        if (a < more || (to.shape[a - more] == 1 && from[a] != 1))
            summed.axis[summed.count++] = a;
    if (summed.count > 0)
        fitted = reduce(Op::ReduceSum, fitted, summed.span(), false, loc);
    fitted = cast(fitted, to.dtype, loc);
    if (type(fitted).shape.numel() == to.shape.numel())
        fitted = reshape_to(fitted, to.shape, loc);
    else
        fitted = broadcast_to(fitted, to.shape, loc);
    if (type(fitted).device != to.device)
        fitted = record(Op::Transfer, {&fitted}, Words().word(ir::device_word(to.device)), loc);
    return fitted;
}

} // namespace lz::detail
