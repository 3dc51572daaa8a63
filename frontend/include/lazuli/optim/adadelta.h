#pragma once
/// Adadelta.

#include "lazuli/optim/optimizer.h"

namespace lz {
namespace optim {

/// What Adadelta is told.
class LZ_API AdadeltaOptions : public ClonableOptions<AdadeltaOptions> {
public:
    /// With this learning rate.
    AdadeltaOptions(double lr = 1.0) : lr_(lr) {} // NOLINT: converts
    void each(OptionVisitor &visitor) override;
    void check(Location loc) const override;
    /// The learning rate.
    LZ_OPTION(double, lr, 1.0);
    /// Decay of both means of squares: in [0, 1].
    LZ_OPTION(double, rho, 0.9);
    /// Added to what is divided by.
    LZ_OPTION(double, eps, 1e-6);
    /// How much of the parameter is added to its gradient.
    LZ_OPTION(double, weight_decay, 0);
    /// Whether steps go up and not down.
    LZ_OPTION(bool, maximize, false);
};

/// Steps by the gradient times the ratio of the roots of mean squares, of changes and of gradients (Zeiler,
/// 2012).
class LZ_API Adadelta : public Optimizer {
public:
    /// Of one group. Throws StateError for no parameters and as add_param_group, IndexError for options out
    /// of their limits.
    explicit Adadelta(std::vector<Tensor> params, const AdadeltaOptions &defaults = {},
                      Location loc = Location::current());
    /// Of several groups, of which those without options have `defaults`.
    explicit Adadelta(std::vector<OptimizerParamGroup> groups, const AdadeltaOptions &defaults = {},
                      Location loc = Location::current());
};

} // namespace optim
} // namespace lz
