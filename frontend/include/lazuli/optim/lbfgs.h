#pragma once
/// L-BFGS.

#include "lazuli/optim/optimizer.h"

#include <optional>
#include <string>

namespace lz {
namespace optim {

/// What LBFGS is told.
class LZ_API LBFGSOptions : public ClonableOptions<LBFGSOptions> {
public:
    /// With this learning rate.
    LBFGSOptions(double lr = 1) : lr_(lr) {} // NOLINT: converts
    void each(OptionVisitor &visitor) override;
    void check(Location loc) const override;
    /// The learning rate: the first step that is tried along a direction.
    LZ_OPTION(double, lr, 1);
    /// Most iterations of a step.
    LZ_OPTION(int64_t, max_iter, 20);
    /// Most calls of the closure in a step; 0: 5/4 of max_iter.
    LZ_OPTION(int64_t, max_eval, 0);
    /// A step ends where no gradient is larger.
    LZ_OPTION(double, tolerance_grad, 1e-7);
    /// A step ends where loss and parameters change by no more.
    LZ_OPTION(double, tolerance_change, 1e-9);
    /// How many changes the curvature is estimated from.
    LZ_OPTION(int64_t, history_size, 100);
    /// "strong_wolfe", or none: steps have the length `lr`. Not saved.
    LZ_OPTION(std::optional<std::string>, line_search_fn, std::nullopt);
    /// Whether steps go up and not down.
    LZ_OPTION(bool, maximize, false);
};

/// L-BFGS with a line search for the strong Wolfe conditions, as in PyTorch, which has both from minFunc
/// (Schmidt, 2005); Nocedal and Wright, Numerical Optimization, algorithms 7.5 and 3.5. For functions without
/// noise. `step` needs a closure and reads losses on the host. One group, on one device, of one dtype.
class LZ_API LBFGS : public Optimizer {
public:
    /// Throws StateError for no parameters and as add_param_group, DeviceError and DTypeError for parameters
    /// that are not alike, IndexError for options out of their limits.
    explicit LBFGS(std::vector<Tensor> params, const LBFGSOptions &defaults = {},
                   Location loc = Location::current());
    ~LBFGS() override;

protected:
    /// Throws StateError without a closure. If the closure throws, parameters and state are as before.
    Tensor run(const LossClosure &closure, Location loc) override;
    void save_more(StateDict &state, const std::string &prefix) const override;
    void load_more(const StateDict &entries, Location loc) override;

private:
    struct History;
    class Search;
    std::unique_ptr<History> history_;
};

} // namespace optim
} // namespace lz
