#pragma once
/// Lion.

#include "lazuli/optim/optimizer.h"

namespace lz {
namespace optim {

/// What Lion is told.
class LZ_API LionOptions : public ClonableOptions<LionOptions> {
public:
    /// With this learning rate.
    LionOptions(double lr = 1e-4) : lr_(lr) {} // NOLINT: converts
    void each(OptionVisitor &visitor) override;
    void check(Location loc) const override;
    /// The learning rate.
    LZ_OPTION(double, lr, 1e-4);
    /// How much of the mean is in the step, and stays: in [0, 1).
    LZ_OPTION(Betas, betas, Betas(0.9, 0.99));
    /// How much of the parameter, times the learning rate, a step takes off.
    LZ_OPTION(double, weight_decay, 0);
    /// Whether steps go up and not down.
    LZ_OPTION(bool, maximize, false);
};

/// Steps by the sign of a mean of gradients (Chen et al., 2023: "Symbolic discovery of optimization
/// algorithms"). PyTorch has none; the state is named as in the authors' program.
class LZ_API Lion : public Optimizer {
public:
    /// Of one group. Throws StateError for no parameters and as add_param_group, IndexError for options out
    /// of their limits.
    explicit Lion(std::vector<Tensor> params, const LionOptions &defaults = {},
                  Location loc = Location::current());
    /// Of several groups, of which those without options have `defaults`.
    explicit Lion(std::vector<OptimizerParamGroup> groups, const LionOptions &defaults = {},
                  Location loc = Location::current());
};

} // namespace optim
} // namespace lz
