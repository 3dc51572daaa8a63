#pragma once
/// Adam and AdamW.

#include "lazuli/optim/optimizer.h"

namespace lz {
namespace optim {

/// What Adam is told.
class LZ_API AdamOptions : public ClonableOptions<AdamOptions> {
public:
    /// With this learning rate.
    AdamOptions(double lr = 1e-3) : lr_(lr) {} // NOLINT: converts
    void each(OptionVisitor &visitor) override;
    void check(Location loc) const override;
    /// The learning rate.
    LZ_OPTION(double, lr, 1e-3);
    /// Decay of the means of gradients and of their squares: in [0, 1).
    LZ_OPTION(Betas, betas, Betas(0.9, 0.999));
    /// Added to what is divided by.
    LZ_OPTION(double, eps, 1e-8);
    /// How much of the parameter is added to its gradient.
    LZ_OPTION(double, weight_decay, 0);
    /// Whether the largest mean of squares counts and not the last.
    LZ_OPTION(bool, amsgrad, false);
    /// Whether steps go up and not down.
    LZ_OPTION(bool, maximize, false);
    /// Whether weight decay is AdamW's: no part of the gradient.
    LZ_OPTION(bool, decoupled_weight_decay, false);
};

/// Steps by the mean of gradients over the root of the mean of their squares (Kingma and Ba, 2015; AMSGrad:
/// Reddi et al., 2018).
class LZ_API Adam : public Optimizer {
public:
    /// Of one group. Throws StateError for no parameters and as add_param_group, IndexError for options out
    /// of their limits.
    explicit Adam(std::vector<Tensor> params, const AdamOptions &defaults = {},
                  Location loc = Location::current());
    /// Of several groups, of which those without options have `defaults`.
    explicit Adam(std::vector<OptimizerParamGroup> groups, const AdamOptions &defaults = {},
                  Location loc = Location::current());
};

/// What AdamW is told.
class LZ_API AdamWOptions : public ClonableOptions<AdamWOptions> {
public:
    /// With this learning rate.
    AdamWOptions(double lr = 1e-3) : lr_(lr) {} // NOLINT: converts
    void each(OptionVisitor &visitor) override;
    void check(Location loc) const override;
    /// The learning rate.
    LZ_OPTION(double, lr, 1e-3);
    /// Decay of the means of gradients and of their squares: in [0, 1).
    LZ_OPTION(Betas, betas, Betas(0.9, 0.999));
    /// Added to what is divided by.
    LZ_OPTION(double, eps, 1e-8);
    /// How much of the parameter, times the learning rate, a step takes off.
    LZ_OPTION(double, weight_decay, 0.01);
    /// Whether the largest mean of squares counts and not the last.
    LZ_OPTION(bool, amsgrad, false);
    /// Whether steps go up and not down.
    LZ_OPTION(bool, maximize, false);

private:
    bool decoupled_weight_decay_ = true; ///< PyTorch saves it
};

/// Adam whose weight decay is no part of the gradient (Loshchilov and Hutter, 2019).
class LZ_API AdamW : public Optimizer {
public:
    /// Of one group. Throws StateError for no parameters and as add_param_group, IndexError for options out
    /// of their limits.
    explicit AdamW(std::vector<Tensor> params, const AdamWOptions &defaults = {},
                   Location loc = Location::current());
    /// Of several groups, of which those without options have `defaults`.
    explicit AdamW(std::vector<OptimizerParamGroup> groups, const AdamWOptions &defaults = {},
                   Location loc = Location::current());
};

} // namespace optim
} // namespace lz
