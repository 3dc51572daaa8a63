#include "lazuli/optim/adadelta.h"

#include "frontend/optim/rule.h"

namespace lz::optim {

void AdadeltaOptions::each(OptionVisitor &visitor) {
    visitor.visit("lr", lr_);
    visitor.visit("rho", rho_);
    visitor.visit("eps", eps_);
    visitor.visit("weight_decay", weight_decay_);
    visitor.visit("maximize", maximize_);
}

void AdadeltaOptions::check(Location loc) const {
    check_option(lr_ >= 0, "Adadelta", "lr", lr_, "at least 0", loc);
    check_option(rho_ >= 0 && rho_ <= 1, "Adadelta", "rho", rho_, "in [0, 1]", loc);
    check_option(eps_ >= 0, "Adadelta", "eps", eps_, "at least 0", loc);
    check_option(weight_decay_ >= 0, "Adadelta", "weight_decay", weight_decay_, "at least 0", loc);
}

namespace {

constexpr StateTensor kState[] = {{"square_avg"}, {"acc_delta"}};

void update(Update &u) {
    const AdadeltaOptions &o = u.options<AdadeltaOptions>();
    Value g = u.gradient();
    const Value p = u.parameter();
    if (o.maximize())
        g = -g;
    if (o.weight_decay() != 0)
        g = u.rounded(g + u.number(o.weight_decay()) * p);
    const Value rho = u.number(o.rho()), rest = u.number(1 - o.rho()), eps = u.number(o.eps());
    const Value square = u.set(0, u.rounded(u.state(0) * rho) + rest * g * g);
    const Value root = u.rounded(sqrt(u.rounded(square + eps)));
    const Value last = u.rounded(sqrt(u.rounded(u.state(1) + eps)));
    const Value change = u.rounded(u.rounded(last / root) * g);
    u.set(1, u.rounded(u.state(1) * rho) + rest * change * change);
    u.set_parameter(p - u.number(o.lr()) * change);
}

const detail::Rule kAdadelta = {.name = "Adadelta", .state = kState, .update = update};

} // namespace

Adadelta::Adadelta(std::vector<Tensor> params, const AdadeltaOptions &defaults, Location loc)
    : Optimizer(kAdadelta, {OptimizerParamGroup(std::move(params))}, defaults, loc) {}
Adadelta::Adadelta(std::vector<OptimizerParamGroup> groups, const AdadeltaOptions &defaults, Location loc)
    : Optimizer(kAdadelta, std::move(groups), defaults, loc) {}

} // namespace lz::optim
