#pragma once
/// NAdam.

#include "lazuli/optim/optimizer.h"

namespace lz {
namespace optim {

/// What NAdam is told.
class LZ_API NAdamOptions : public ClonableOptions<NAdamOptions> {
public:
    /// With this learning rate.
    NAdamOptions(double lr = 2e-3) : lr_(lr) {} // NOLINT: converts
    void each(OptionVisitor &visitor) override;
    void check(Location loc) const override;
    /// The learning rate.
    LZ_OPTION(double, lr, 2e-3);
    /// Decay of the means of gradients and of their squares: in [0, 1).
    LZ_OPTION(Betas, betas, Betas(0.9, 0.999));
    /// Added to what is divided by.
    LZ_OPTION(double, eps, 1e-8);
    /// How much of the parameter is added to its gradient.
    LZ_OPTION(double, weight_decay, 0);
    /// How fast the momentum approaches its limit: at least 0.
    LZ_OPTION(double, momentum_decay, 4e-3);
    /// Whether weight decay is AdamW's: no part of the gradient.
    LZ_OPTION(bool, decoupled_weight_decay, false);
    /// Whether steps go up and not down.
    LZ_OPTION(bool, maximize, false);
};

/// Adam with Nesterov's momentum (Dozat, 2016).
class LZ_API NAdam : public Optimizer {
public:
    /// Of one group. Throws StateError for no parameters and as add_param_group, IndexError for options out
    /// of their limits.
    explicit NAdam(std::vector<Tensor> params, const NAdamOptions &defaults = {},
                   Location loc = Location::current());
    /// Of several groups, of which those without options have `defaults`.
    explicit NAdam(std::vector<OptimizerParamGroup> groups, const NAdamOptions &defaults = {},
                   Location loc = Location::current());
};

} // namespace optim
} // namespace lz
