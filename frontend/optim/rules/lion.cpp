#include "lazuli/optim/lion.h"

#include "frontend/optim/rule.h"

namespace lz::optim {

void LionOptions::each(OptionVisitor &visitor) {
    visitor.visit("lr", lr_);
    visitor.visit("betas", betas_);
    visitor.visit("weight_decay", weight_decay_);
    visitor.visit("maximize", maximize_);
}

void LionOptions::check(Location loc) const {
    check_option(lr_ >= 0, "Lion", "lr", lr_, "at least 0", loc);
    check_option(weight_decay_ >= 0, "Lion", "weight_decay", weight_decay_, "at least 0", loc);
    check_option(std::get<0>(betas_) >= 0 && std::get<0>(betas_) < 1, "Lion", "betas[0]", std::get<0>(betas_),
                 "in [0, 1)", loc);
    check_option(std::get<1>(betas_) >= 0 && std::get<1>(betas_) < 1, "Lion", "betas[1]", std::get<1>(betas_),
                 "in [0, 1)", loc);
}

namespace {

constexpr StateTensor kState[] = {{"exp_avg"}};

void update(Update &u) {
    const LionOptions &o = u.options<LionOptions>();
    const auto [beta1, beta2] = o.betas();
    Value g = u.gradient(), p = u.parameter();
    if (o.maximize())
        g = -g;
    if (o.weight_decay() != 0)
        p = u.rounded(p * u.number(1 - o.lr() * o.weight_decay()));
    const Value mean = u.state(0);
    const Value direction = u.rounded(u.rounded(mean * u.number(beta1)) + u.rounded(g * u.number(1 - beta1)));
    u.set_parameter(p - u.number(o.lr()) * sign(direction));
    u.set(0, u.rounded(mean * u.number(beta2)) + u.number(1 - beta2) * g);
}

const detail::Rule kLion = {.name = "Lion", .state = kState, .update = update, .counts_steps = false};

} // namespace

Lion::Lion(std::vector<Tensor> params, const LionOptions &defaults, Location loc)
    : Optimizer(kLion, {OptimizerParamGroup(std::move(params))}, defaults, loc) {}
Lion::Lion(std::vector<OptimizerParamGroup> groups, const LionOptions &defaults, Location loc)
    : Optimizer(kLion, std::move(groups), defaults, loc) {}

} // namespace lz::optim
