#include "lazuli/optim/sgd.h"

#include "frontend/optim/rule.h"

#include <fmt/format.h>

namespace lz::optim {

void SGDOptions::each(OptionVisitor &visitor) {
    visitor.visit("lr", lr_);
    visitor.visit("momentum", momentum_);
    visitor.visit("dampening", dampening_);
    visitor.visit("weight_decay", weight_decay_);
    visitor.visit("nesterov", nesterov_);
    visitor.visit("maximize", maximize_);
}

void SGDOptions::check(Location loc) const {
    check_option(lr_ >= 0, "SGD", "lr", lr_, "at least 0", loc);
    check_option(momentum_ >= 0, "SGD", "momentum", momentum_, "at least 0", loc);
    check_option(weight_decay_ >= 0, "SGD", "weight_decay", weight_decay_, "at least 0", loc);
    if (nesterov_ && (momentum_ <= 0 || dampening_ != 0))
        throw IndexError(
            fmt::format("SGD: nesterov needs momentum above 0 and no dampening; they are {} and {}",
                        momentum_, dampening_),
            loc);
}

namespace {

constexpr StateTensor kState[] = {
    {"momentum_buffer",
     [](const OptimizerOptions &o) { return static_cast<const SGDOptions &>(o).momentum() != 0; }},
};

void update(Update &u) {
    const SGDOptions &o = u.options<SGDOptions>();
    Value g = u.gradient();
    const Value p = u.parameter();
    if (o.maximize())
        g = -g;
    if (o.weight_decay() != 0)
        g = u.rounded(g + u.number(o.weight_decay()) * p);
    if (o.momentum() != 0) {
        const Value kept =
            u.is_new(0)
                ? u.set(0, g)
                : u.set(0, u.rounded(u.state(0) * u.number(o.momentum())) + u.number(1 - o.dampening()) * g);
        g = o.nesterov() ? u.rounded(g + u.number(o.momentum()) * kept) : kept;
    }
    u.set_parameter(p - u.number(o.lr()) * g);
}

const detail::Rule kSGD = {.name = "SGD", .state = kState, .update = update, .counts_steps = false};

} // namespace

SGD::SGD(std::vector<Tensor> params, const SGDOptions &defaults, Location loc)
    : Optimizer(kSGD, {OptimizerParamGroup(std::move(params))}, defaults, loc) {}
SGD::SGD(std::vector<OptimizerParamGroup> groups, const SGDOptions &defaults, Location loc)
    : Optimizer(kSGD, std::move(groups), defaults, loc) {}

} // namespace lz::optim
