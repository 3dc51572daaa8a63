#pragma once
/// Rules: how the gradients of an operation's operands follow from those of its results. A rule records
/// ordinary operations; nothing behind the recorder knows what they are for.
///
/// A primitive has a row in gradients.def, a composition that is better off with a rule of its own has one
/// beside it (composite.h), and a function of the user's its `backward` (lazuli/autograd.h). All of them are
/// called as a Rule.

#include "frontend/autograd/backward.h"
#include "frontend/autograd/step.h"
#include "frontend/autograd/value.h"
#include "ir/op.h"
#include "lazuli/tensor.h"

#include <cstdint>
#include <span>
#include <vector>

namespace lz::detail {

class RuleCall;

struct Rule {
    /// Gives the gradients that are wanted (RuleCall::wanted).
    void (*run)(RuleCall &call);
};

/// One operation of the graph while its rule is recorded: what the step saved, taken out of it.
class RuleCall {
public:
    /// What a call works with: memory that the calls of a walk, one after the other, use again.
    struct Scratch {
        std::vector<Edge> inputs;
        std::vector<Tensor> saved; ///< in the order of the mask's bits
        std::vector<Tensor> gradients;
        std::vector<Tensor *> slots; ///< null: the gradient is not wanted
    };

    /// Takes what the step has. It stays there where the graph is retained; else the step is consumed by the
    /// backward whose name is `by`. Throws StateError where that has happened already.
    RuleCall(Step &step, Scratch &scratch, const BackwardOptions &options, uint16_t by, Location loc);
    /// Lets go of what the scratch holds.
    ~RuleCall();
    RuleCall(const RuleCall &) = delete;
    RuleCall &operator=(const RuleCall &) = delete;

    /// Where the new operations belong: the forward's line, as "gradient of ..." of this backward.
    Location loc() const { return loc_; }
    ir::Op op() const { return step_->op; }
    Step &step() const { return *step_; }

    /// Whether what is recorded has a history, too.
    bool create_graph() const { return options_->create_graph; }
    /// Whether leaves gather what comes to them.
    bool accumulates() const { return options_->accumulate; }
    /// Of a rule that has one (StepExtras::payload).
    void *payload() const { return payload_.get(); }

    size_t num_inputs() const { return scratch_.inputs.size(); }
    /// Whether the gradient of an operand is wanted by anybody.
    bool wanted(size_t input) const { return scratch_.slots[input] != nullptr; }
    const Edge &edge(size_t input) const { return scratch_.inputs[input]; }
    /// The type of an operand that wants a gradient.
    const ir::TensorType &type(size_t input) const;
    /// The type of a result.
    const ir::TensorType &result_type(size_t result = 0) const { return step_->results()[result]; }

    /// The gradient of a result; zeros where nothing came. In f32 for half types in an elementwise row.
    Value g(size_t result = 0) const;
    /// The same, undefined where nothing came.
    const Tensor &gradient(size_t result) const { return scratch_.gradients[result]; }
    void set_gradient(size_t result, Tensor g) { scratch_.gradients[result] = std::move(g); }
    /// A saved operand or result; what the step did not save is an error of ours.
    Value saved(uint32_t bit) const;
    Value operand(size_t i) const { return saved(uint32_t{1} << i); }
    Value result(int k = 0) const { return saved(Step::saved_result(k)); }
    bool has(uint32_t bit) const { return (step_->saved_mask & bit) != 0; }

    /// The operation's attributes.
    ir::AttrView attrs() const;
    std::span<const int64_t> words() const { return step_->words(); }
    double number(size_t word) const { return ir::scalar_double(step_->words()[word]); }

    /// The gradient of an operand: brought to its type, and added to what there is. What is undefined is
    /// zero.
    void give(size_t input, Value gradient);
    void give(size_t input, const Tensor &gradient) {
        if (gradient.defined())
            give(input, Value::of(gradient, loc_));
    }
    /// What has been gathered for an operand so far, in its type; zeros where nothing has.
    Value gathered(size_t input) const;
    /// Replaces that.
    void set_gathered(size_t input, const Value &sum);

    /// Of the walk: where the gradient of an operand is gathered, which makes it wanted.
    void want(size_t input, Tensor &slot) { scratch_.slots[input] = &slot; }
    void compute_in_f32() { in_f32_ = true; }

private:
    /// Tensors of what the step saved, which have its uses where it is consumed.
    void take_saved(bool consumes);
    Value as_value(const Tensor &x) const;

    Step *step_;
    const BackwardOptions *options_;
    Location loc_;
    std::shared_ptr<void> payload_;
    bool in_f32_ = false;
    Scratch &scratch_;
};

/// `g` as the gradient of an operand of this type: summed over the axes along which the operand was broadcast
/// (or broadcast to it), cast, and brought to its device.
Tensor fit(const Tensor &g, const ir::TensorType &type, Location loc);

} // namespace lz::detail
