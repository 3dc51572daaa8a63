#pragma once
/// RMSprop.

#include "lazuli/optim/optimizer.h"

namespace lz {
namespace optim {

/// What RMSprop is told.
class LZ_API RMSpropOptions : public ClonableOptions<RMSpropOptions> {
public:
    /// With this learning rate.
    RMSpropOptions(double lr = 1e-2) : lr_(lr) {} // NOLINT: converts
    void each(OptionVisitor &visitor) override;
    void check(Location loc) const override;
    /// The learning rate.
    LZ_OPTION(double, lr, 1e-2);
    /// Decay of the mean of squares.
    LZ_OPTION(double, alpha, 0.99);
    /// Added to what is divided by.
    LZ_OPTION(double, eps, 1e-8);
    /// How much of the parameter is added to its gradient.
    LZ_OPTION(double, weight_decay, 0);
    /// How much of the last change is kept: at least 0.
    LZ_OPTION(double, momentum, 0);
    /// Whether the mean's square is taken off the mean of squares.
    LZ_OPTION(bool, centered, false);
    /// Whether steps go up and not down.
    LZ_OPTION(bool, maximize, false);
};

/// Steps by the gradient over the root of a mean of its squares (Hinton, 2012; centered: Graves, 2013). `eps`
/// is added to the root.
class LZ_API RMSprop : public Optimizer {
public:
    /// Of one group. Throws StateError for no parameters and as add_param_group, IndexError for options out
    /// of their limits.
    explicit RMSprop(std::vector<Tensor> params, const RMSpropOptions &defaults = {},
                     Location loc = Location::current());
    /// Of several groups, of which those without options have `defaults`.
    explicit RMSprop(std::vector<OptimizerParamGroup> groups, const RMSpropOptions &defaults = {},
                     Location loc = Location::current());
};

} // namespace optim
} // namespace lz
