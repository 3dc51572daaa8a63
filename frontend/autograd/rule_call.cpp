#include "frontend/autograd/rule_call.h"

#include "frontend/autograd/walk.h"

#include <bit>
#include <utility>

namespace lz::detail {

RuleCall::RuleCall(Step &step, Scratch &scratch, const BackwardOptions &options, uint16_t by, Location loc)
    : step_(&step), options_(&options), loc_(loc), scratch_(scratch) {
    const StepLock lock(step);
    if (step.consumed) [[unlikely]] // by another thread, meanwhile
        throw_consumed(step, options.function, loc);
    scratch.inputs.assign(step.inputs().begin(), step.inputs().end());
    scratch.slots.assign(step.num_inputs, nullptr);
    scratch.gradients.resize(step.num_results);
    scratch.saved.reserve(step.num_saved);
    uint32_t mask = step.saved_mask;
    for (Node *const node : step.saved()) {
        const auto bit = static_cast<uint32_t>(std::countr_zero(mask));
        mask &= mask - 1;
        Edge history;
        if (options.create_graph)
            history = bit < Step::kResult0 ? scratch.inputs[bit]
                                           : Edge{&step, static_cast<uint16_t>(bit - Step::kResult0)};
        if (history.step && !ir::is_float(node->type.dtype))
            history = {};
        scratch.saved.push_back(Access::wrap(make_alias(node, history.step, history.result)));
    }
    // The children of a step stay while the walk does.
    if (step.extras)
        payload_ = step.extras->payload;
    if (options.retain_graph || (step.num_saved == 0 && !payload_))
        return;
    if (payload_)
        step.extras->payload.reset();
    step.consumed = true;
    step.consumed_by = by;
    for (Node *&node : step.saved())
        drop_use(std::exchange(node, nullptr));
    for (Edge &edge : step.inputs())
        release(std::exchange(edge, {}).step);
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
    const ir::DType dtype = detail::type(x).dtype;
    return {in_f32_ && ir::is_half(dtype) ? cast(x, ir::DType::F32, loc_) : x, loc_};
}

Value RuleCall::g(size_t result) const {
    if (scratch_.gradients[result].defined())
        return as_value(scratch_.gradients[result]);
    const ir::TensorType &type = result_type(result);
    return as_value(record_literal(from_ir(type.dtype), 0, type.shape, type.device, loc_));
}

Value RuleCall::saved(uint32_t bit) const {
    LZ_CHECK(has(bit), "a rule asks for a value that was not saved");
    return as_value(scratch_.saved[static_cast<size_t>(std::popcount(step_->saved_mask & (bit - 1)))]);
}

ir::AttrView RuleCall::attrs() const {
    const std::span<const int64_t> words = step_->words();
    return {step_->op, words.first(step_->num_structural), words.subspan(step_->num_structural)};
}

void RuleCall::give(size_t input, const Tensor &gradient) {
    if (!gradient.defined())
        return;
    const Tensor fitted = fit(gradient, type(input), loc_);
    Tensor &sum = *scratch_.slots[input];
    sum = sum.defined() ? binary(Op::Add, sum, fitted, loc_) : fitted;
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
    if (type(g) == to) [[likely]]
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
