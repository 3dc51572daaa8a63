#pragma once
/// Adagrad.

#include "lazuli/optim/optimizer.h"

namespace lz {
namespace optim {

/// What Adagrad is told.
class LZ_API AdagradOptions : public ClonableOptions<AdagradOptions> {
public:
    /// With this learning rate.
    AdagradOptions(double lr = 1e-2) : lr_(lr) {} // NOLINT: converts
    void each(OptionVisitor &visitor) override;
    void check(Location loc) const override;
    /// The learning rate.
    LZ_OPTION(double, lr, 1e-2);
    /// How fast the learning rate falls: lr / (1 + (step - 1) * lr_decay).
    LZ_OPTION(double, lr_decay, 0);
    /// How much of the parameter is added to its gradient.
    LZ_OPTION(double, weight_decay, 0);
    /// What sums of squares begin with.
    LZ_OPTION(double, initial_accumulator_value, 0);
    /// Added to what is divided by.
    LZ_OPTION(double, eps, 1e-10);
    /// Whether steps go up and not down.
    LZ_OPTION(bool, maximize, false);
};

/// Steps by the gradient over the root of the sum of its squares (Duchi et al., 2011).
class LZ_API Adagrad : public Optimizer {
public:
    /// Of one group. Throws StateError for no parameters and as add_param_group, IndexError for options out
    /// of their limits.
    explicit Adagrad(std::vector<Tensor> params, const AdagradOptions &defaults = {},
                     Location loc = Location::current());
    /// Of several groups, of which those without options have `defaults`.
    explicit Adagrad(std::vector<OptimizerParamGroup> groups, const AdagradOptions &defaults = {},
                     Location loc = Location::current());
};

} // namespace optim
} // namespace lz
