#include "lazuli/optim/nadam.h"

#include "frontend/optim/rule.h"

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

constexpr StateTensor kState[] = {{"exp_avg"}, {"exp_avg_sq"}};

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
    const auto momentum = [&, beta = beta1](const Number &step) {
        return beta * (1 - 0.5 * pow(0.96, step * o.momentum_decay()));
    };
    u.remember([&](const Number &step, const Number &product) { return product * momentum(step); });
    const Value mean = u.set(0, lerp(u, u.state(0), g, 1 - beta1));
    const Value square = u.set(1, u.rounded(u.state(1) * u.number(beta2)) + u.number(1 - beta2) * g * g);
    const Value &correction =
        u.number_of_step([beta = beta2](const Number &step, const Number &) { return 1 - pow(beta, step); });
    const Value corrected = u.rounded(square / correction);
    const Value divisor = u.rounded(u.rounded(sqrt(corrected)) + u.number(o.eps()));
    const Value &of_gradient = u.number_of_step([&](const Number &step, const Number &product) {
        return o.lr() * (1 - momentum(step)) / (1 - product);
    });
    p = u.rounded(p - of_gradient * g / divisor);
    const Value &of_mean = u.number_of_step([&](const Number &step, const Number &product) {
        const Number next = momentum(step + 1);
        return o.lr() * next / (1 - product * next);
    });
    u.set_parameter(p - of_mean * mean / divisor);
}

const detail::Rule kNAdam = {
    .name = "NAdam", .state = kState, .update = update, .number = "mu_product", .initial_number = 1};

} // namespace

NAdam::NAdam(std::vector<Tensor> params, const NAdamOptions &defaults, Location loc)
    : Optimizer(kNAdam, {OptimizerParamGroup(std::move(params))}, defaults, loc) {}
NAdam::NAdam(std::vector<OptimizerParamGroup> groups, const NAdamOptions &defaults, Location loc)
    : Optimizer(kNAdam, std::move(groups), defaults, loc) {}

} // namespace lz::optim
