#include "frontend/ops/functional/ctc.h"
#include "frontend/autograd/composites.h"
#include "lazuli/ops/indexing.h"
#include "lazuli/ops/views.h"

#include <limits>

namespace lz::detail {
namespace {

constexpr uint32_t SCORES = 1, STATES = 2, LENGTHS = 4, OUT = Step::saved_result(0);

/// The probability of each class less how often paths pass through it (section 4.2 of Graves et al. 2006): as
/// PyTorch, of what log_softmax gave. Its own slope takes the sum of these off, which is 0.
void ctc(RuleCall &call) {
    const Location loc = call.loc();
    const Value log_probs = call.operand(0);
    const CtcStates paths(call.operand(1).tensor(), call.operand(2).tensor(), loc);
    const Tensor scores = paths.scores(log_probs.tensor());
    const Value ways(stack(paths.forward(scores), 0, loc), loc),
        rest(stack(paths.backward(scores), 0, loc), loc);
    const int64_t time = log_probs.shape()[0], n = log_probs.shape()[1];
    const Shape each({1, n, 1});
    const Value loss = reshape(call.result(), each);
    // Both sums have the state itself, which counts once.
    const Value passes = where(ways == -std::numeric_limits<double>::infinity(), 0,
                               exp(ways + rest + loss - Value(scores, loc)));
    const Value none(
        record_literal(from_ir(log_probs.type().dtype), 0, log_probs.shape(), log_probs.type().device, loc),
        loc);
    const Value place(
        broadcast_to(reshape_to(paths.states, Shape({1, n, passes.shape()[2]}), loc), passes.shape(), loc),
        loc);
    const Value of_class(scatter_add(none.tensor(), 2, place.tensor(), passes.tensor(), loc), loc);
    const Value step(iota({ir::DType::I64, Shape({time, 1, 1}), log_probs.type().device}, 0, 0, 1, loc), loc);
    const Value steps = reshape(Value(paths.steps, loc), each);
    const Value g = reshape(cast(call.g(), log_probs.type().dtype), each);
    // A loss that does not count has no slope, although it may be infinite.
    const Value counts = step < steps;
    const Value slope = where(g == 0, 0, (exp(log_probs) - of_class) * g);
    call.give(0, where(counts, slope, 0));
}

} // namespace

const CompositeRule kCtcRule{{ctc}, {SCORES | STATES | LENGTHS | OUT}};

} // namespace lz::detail
