#include "lazuli/optim/nadam.h"

#include "frontend/optim/rule.h"

#include <cmath>

namespace lz::optim {

void NAdamOptions::each(OptionVisitor &visitor) {
    visitor.visit("lr", lr_);
    visitor.visit("betas", betas_);
    visitor.visit("eps", eps_);
    visitor.visit("weight_decay", weight_decay_);
    visitor.visit("momentum_decay", momentum_decay_);
    visitor.visit("decoupled_weight_decay", decoupled_weight_decay_);
    visitor.visit("maximize", maximize_);
}

void NAdamOptions::check(Location loc) const {
    check_option(lr_ >= 0, "NAdam", "lr", lr_, "at least 0", loc);
    check_option(eps_ >= 0, "NAdam", "eps", eps_, "at least 0", loc);
    check_option(weight_decay_ >= 0, "NAdam", "weight_decay", weight_decay_, "at least 0", loc);
    check_option(momentum_decay_ >= 0, "NAdam", "momentum_decay", momentum_decay_, "at least 0", loc);
    check_option(std::get<0>(betas_) >= 0 && std::get<0>(betas_) < 1, "NAdam", "betas[0]",
                 std::get<0>(betas_), "in [0, 1)", loc);
    check_option(std::get<1>(betas_) >= 0 && std::get<1>(betas_) < 1, "NAdam", "betas[1]",
                 std::get<1>(betas_), "in [0, 1)", loc);
}

namespace {

constexpr Slot kSlots[] = {{"exp_avg"}, {"exp_avg_sq"}};

void update(Update &u) {
    const NAdamOptions &o = u.options<NAdamOptions>();
    const auto [beta1, beta2] = o.betas();
    Value g = u.gradient(), p = u.parameter();
    if (o.maximize())
        g = -g;
    if (o.weight_decay() != 0 && o.decoupled_weight_decay())
        p = u.rounded(p * u.number(1 - o.lr() * o.weight_decay()));
    else if (o.weight_decay() != 0)
        g = u.rounded(g + u.number(o.weight_decay()) * p);
    // 0.96 is of the paper's implementation.
    const auto momentum = [&, beta = beta1](double step) {
        return beta * (1 - 0.5 * std::pow(0.96, step * o.momentum_decay()));
    };
    const double now = momentum(u.step()), next = momentum(u.step() + 1);
    const double product = u.remembered() *= now;
    const Value mean = u.set(0, lerp(u, u.slot(0), g, 1 - beta1));
    const Value square = u.set(1, u.rounded(u.slot(1) * u.number(beta2)) + u.number(1 - beta2) * g * g);
    const Value corrected = u.rounded(square / u.number(1 - std::pow(beta2, u.step())));
    const Value divisor = u.rounded(u.rounded(sqrt(corrected)) + u.number(o.eps()));
    p = u.rounded(p - u.number(o.lr() * (1 - now) / (1 - product)) * g / divisor);
    u.set_parameter(p - u.number(o.lr() * next / (1 - product * next)) * mean / divisor);
}

const detail::Rule kNAdam = {
    .name = "NAdam", .slots = kSlots, .update = update, .number = "mu_product", .initial_number = 1};

} // namespace

NAdam::NAdam(std::vector<Tensor> params, const NAdamOptions &defaults, Location loc)
    : Optimizer(kNAdam, {OptimizerParamGroup(std::move(params))}, defaults, loc) {}
NAdam::NAdam(std::vector<OptimizerParamGroup> groups, const NAdamOptions &defaults, Location loc)
    : Optimizer(kNAdam, std::move(groups), defaults, loc) {}

} // namespace lz::optim
