#include "lazuli/optim/rmsprop.h"

#include "frontend/optim/rule.h"

namespace lz::optim {

void RMSpropOptions::each(OptionVisitor &visitor) {
    visitor.visit("lr", lr_);
    visitor.visit("alpha", alpha_);
    visitor.visit("eps", eps_);
    visitor.visit("weight_decay", weight_decay_);
    visitor.visit("momentum", momentum_);
    visitor.visit("centered", centered_);
    visitor.visit("maximize", maximize_);
}

void RMSpropOptions::check(Location loc) const {
    check_option(lr_ >= 0, "RMSprop", "lr", lr_, "at least 0", loc);
    check_option(alpha_ >= 0, "RMSprop", "alpha", alpha_, "at least 0", loc);
    check_option(eps_ >= 0, "RMSprop", "eps", eps_, "at least 0", loc);
    check_option(weight_decay_ >= 0, "RMSprop", "weight_decay", weight_decay_, "at least 0", loc);
    check_option(momentum_ >= 0, "RMSprop", "momentum", momentum_, "at least 0", loc);
}

namespace {

constexpr StateTensor kState[] = {
    {"square_avg"},
    {"momentum_buffer",
     [](const OptimizerOptions &o) { return static_cast<const RMSpropOptions &>(o).momentum() > 0; }},
    {"grad_avg", [](const OptimizerOptions &o) { return static_cast<const RMSpropOptions &>(o).centered(); }},
};

void update(Update &u) {
    const RMSpropOptions &o = u.options<RMSpropOptions>();
    Value g = u.gradient();
    const Value p = u.parameter();
    if (o.maximize())
        g = -g;
    if (o.weight_decay() != 0)
        g = u.rounded(g + u.number(o.weight_decay()) * p);
    Value square = u.set(0, u.rounded(u.state(0) * u.number(o.alpha())) + u.number(1 - o.alpha()) * g * g);
    if (o.centered()) {
        const Value mean = u.set(2, lerp(u, u.state(2), g, 1 - o.alpha()));
        square = u.rounded(square - mean * mean);
    }
    const Value divisor = u.rounded(u.rounded(sqrt(square)) + u.number(o.eps()));
    if (o.momentum() > 0) {
        const Value kept = u.set(1, u.rounded(u.state(1) * u.number(o.momentum())) + g / divisor);
        u.set_parameter(p - u.number(o.lr()) * kept);
    } else {
        u.set_parameter(p - u.number(o.lr()) * g / divisor);
    }
}

const detail::Rule kRMSprop = {.name = "RMSprop", .state = kState, .update = update};

} // namespace

RMSprop::RMSprop(std::vector<Tensor> params, const RMSpropOptions &defaults, Location loc)
    : Optimizer(kRMSprop, {OptimizerParamGroup(std::move(params))}, defaults, loc) {}
RMSprop::RMSprop(std::vector<OptimizerParamGroup> groups, const RMSpropOptions &defaults, Location loc)
    : Optimizer(kRMSprop, std::move(groups), defaults, loc) {}

} // namespace lz::optim
