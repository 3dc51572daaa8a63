#pragma once
/// Stochastic gradient descent.

#include "lazuli/optim/optimizer.h"

namespace lz {
namespace optim {

/// What SGD is told.
class LZ_API SGDOptions : public ClonableOptions<SGDOptions> {
public:
    /// With this learning rate.
    SGDOptions(double lr = 1e-3) : lr_(lr) {} // NOLINT: converts
    void each(OptionVisitor &visitor) override;
    void check(Location loc) const override;
    /// The learning rate.
    LZ_OPTION(double, lr, 1e-3);
    /// How much of the last change is kept: at least 0.
    LZ_OPTION(double, momentum, 0);
    /// How much of the gradient does not enter what is kept.
    LZ_OPTION(double, dampening, 0);
    /// How much of the parameter is added to its gradient.
    LZ_OPTION(double, weight_decay, 0);
    /// Whether the gradient is taken ahead of the step (Nesterov's momentum): needs momentum and no
    /// dampening.
    LZ_OPTION(bool, nesterov, false);
    /// Whether steps go up and not down.
    LZ_OPTION(bool, maximize, false);
};

/// Gradient descent with momentum, as PyTorch computes it: the buffer is the gradient itself at first, then
/// `momentum * buffer + (1 - dampening) * gradient`, and the step is `lr * buffer`.
class LZ_API SGD : public Optimizer {
public:
    /// Of one group. Throws StateError for no parameters and as add_param_group, IndexError for options out
    /// of their limits.
    explicit SGD(std::vector<Tensor> params, const SGDOptions &defaults = {},
                 Location loc = Location::current());
    /// Of several groups, of which those without options have `defaults`.
    explicit SGD(std::vector<OptimizerParamGroup> groups, const SGDOptions &defaults = {},
                 Location loc = Location::current());
};

} // namespace optim
} // namespace lz
