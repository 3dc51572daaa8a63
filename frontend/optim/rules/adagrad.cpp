#include "lazuli/optim/adagrad.h"

#include "frontend/optim/rule.h"

namespace lz::optim {

void AdagradOptions::each(OptionVisitor &visitor) {
    visitor.visit("lr", lr_);
    visitor.visit("lr_decay", lr_decay_);
    visitor.visit("weight_decay", weight_decay_);
    visitor.visit("initial_accumulator_value", initial_accumulator_value_);
    visitor.visit("eps", eps_);
    visitor.visit("maximize", maximize_);
}

void AdagradOptions::check(Location loc) const {
    check_option(lr_ >= 0, "Adagrad", "lr", lr_, "at least 0", loc);
    check_option(lr_decay_ >= 0, "Adagrad", "lr_decay", lr_decay_, "at least 0", loc);
    check_option(weight_decay_ >= 0, "Adagrad", "weight_decay", weight_decay_, "at least 0", loc);
    check_option(initial_accumulator_value_ >= 0, "Adagrad", "initial_accumulator_value",
                 initial_accumulator_value_, "at least 0", loc);
    check_option(eps_ >= 0, "Adagrad", "eps", eps_, "at least 0", loc);
}

namespace {

constexpr StateTensor kState[] = {
    {"sum", nullptr,
     [](const OptimizerOptions &o) {
         return static_cast<const AdagradOptions &>(o).initial_accumulator_value();
     }},
};

void update(Update &u) {
    const AdagradOptions &o = u.options<AdagradOptions>();
    Value g = u.gradient();
    const Value p = u.parameter();
    if (o.maximize())
        g = -g;
    if (o.weight_decay() != 0)
        g = u.rounded(g + u.number(o.weight_decay()) * p);
    const Value sum = u.set(0, u.state(0) + g * g);
    const Value divisor = u.rounded(u.rounded(sqrt(sum)) + u.number(o.eps()));
    const Value &rate = u.number_of_step(
        [&](const Number &step, const Number &) { return o.lr() / (1 + (step - 1) * o.lr_decay()); });
    u.set_parameter(p - rate * g / divisor);
}

const detail::Rule kAdagrad = {.name = "Adagrad", .state = kState, .update = update};

} // namespace

Adagrad::Adagrad(std::vector<Tensor> params, const AdagradOptions &defaults, Location loc)
    : Optimizer(kAdagrad, {OptimizerParamGroup(std::move(params))}, defaults, loc) {}
Adagrad::Adagrad(std::vector<OptimizerParamGroup> groups, const AdagradOptions &defaults, Location loc)
    : Optimizer(kAdagrad, std::move(groups), defaults, loc) {}

} // namespace lz::optim
