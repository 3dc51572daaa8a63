#include "lazuli/optim/adam.h"

#include "frontend/optim/rule.h"

namespace lz::optim {

void AdamOptions::each(OptionVisitor &visitor) {
    visitor.visit("lr", lr_);
    visitor.visit("betas", betas_);
    visitor.visit("eps", eps_);
    visitor.visit("weight_decay", weight_decay_);
    visitor.visit("amsgrad", amsgrad_);
    visitor.visit("maximize", maximize_);
    visitor.visit("decoupled_weight_decay", decoupled_weight_decay_);
}

void AdamOptions::check(Location loc) const {
    check_option(lr_ >= 0, "Adam", "lr", lr_, "at least 0", loc);
    check_option(eps_ >= 0, "Adam", "eps", eps_, "at least 0", loc);
    check_option(weight_decay_ >= 0, "Adam", "weight_decay", weight_decay_, "at least 0", loc);
    check_option(std::get<0>(betas_) >= 0 && std::get<0>(betas_) < 1, "Adam", "betas[0]", std::get<0>(betas_),
                 "in [0, 1)", loc);
    check_option(std::get<1>(betas_) >= 0 && std::get<1>(betas_) < 1, "Adam", "betas[1]", std::get<1>(betas_),
                 "in [0, 1)", loc);
}

void AdamWOptions::each(OptionVisitor &visitor) {
    visitor.visit("lr", lr_);
    visitor.visit("betas", betas_);
    visitor.visit("eps", eps_);
    visitor.visit("weight_decay", weight_decay_);
    visitor.visit("amsgrad", amsgrad_);
    visitor.visit("maximize", maximize_);
    visitor.visit("decoupled_weight_decay", decoupled_weight_decay_);
}

void AdamWOptions::check(Location loc) const {
    check_option(decoupled_weight_decay_, "AdamW", "decoupled_weight_decay", 0, "1 (use Adam)", loc);
    check_option(lr_ >= 0, "AdamW", "lr", lr_, "at least 0", loc);
    check_option(eps_ >= 0, "AdamW", "eps", eps_, "at least 0", loc);
    check_option(weight_decay_ >= 0, "AdamW", "weight_decay", weight_decay_, "at least 0", loc);
    check_option(std::get<0>(betas_) >= 0 && std::get<0>(betas_) < 1, "AdamW", "betas[0]",
                 std::get<0>(betas_), "in [0, 1)", loc);
    check_option(std::get<1>(betas_) >= 0 && std::get<1>(betas_) < 1, "AdamW", "betas[1]",
                 std::get<1>(betas_), "in [0, 1)", loc);
}

namespace {

template <class Options>
constexpr StateTensor kState[] = {
    {"exp_avg"},
    {"exp_avg_sq"},
    {"max_exp_avg_sq", [](const OptimizerOptions &o) { return static_cast<const Options &>(o).amsgrad(); }},
};

/// In the order of PyTorch's for one tensor, of which halves have each rounding.
template <class Options>
void update(Update &u) {
    const Options &o = u.options<Options>();
    bool decoupled = true;
    if constexpr (std::is_same_v<Options, AdamOptions>)
        decoupled = o.decoupled_weight_decay();
    const auto [beta1, beta2] = o.betas();
    Value g = u.gradient(), p = u.parameter();
    if (o.maximize())
        g = -g;
    if (o.weight_decay() != 0 && decoupled)
        p = u.rounded(p * u.number(1 - o.lr() * o.weight_decay()));
    if (o.weight_decay() != 0 && !decoupled)
        g = u.rounded(g + u.number(o.weight_decay()) * p);
    const Value mean = u.set(0, lerp(u, u.state(0), g, 1 - beta1));
    Value square = u.set(1, u.rounded(u.state(1) * u.number(beta2)) + u.number(1 - beta2) * g * g);
    if (o.amsgrad())
        square = u.set(2, maximum(u.state(2), square));
    const auto step_size = [&, beta = beta1](const Number &step) { return o.lr() / (1 - pow(beta, step)); };
    const auto root_correction2 = [beta = beta2](const Number &step) { return sqrt(1 - pow(beta, step)); };
    const Value root = u.rounded(sqrt(square));
    if (!u.is_half()) { // one division less than PyTorch has
        const Value divisor = root + u.number_of_step([&](const Number &step, const Number &) {
            return o.eps() * root_correction2(step);
        });
        const Value &size = u.number_of_step(
            [&](const Number &step, const Number &) { return step_size(step) * root_correction2(step); });
        u.set_parameter(p - size * mean / divisor);
        return;
    }
    const Value &correction =
        u.number_of_step([&](const Number &step, const Number &) { return root_correction2(step); });
    const Value divisor = u.rounded(u.rounded(root / correction) + u.number(o.eps()));
    const Value &size = u.number_of_step([&](const Number &step, const Number &) { return step_size(step); });
    u.set_parameter(p - size * mean / divisor);
}

const detail::Rule kAdam = {.name = "Adam", .state = kState<AdamOptions>, .update = update<AdamOptions>},
                   kAdamW = {.name = "AdamW", .state = kState<AdamWOptions>, .update = update<AdamWOptions>};

} // namespace

Adam::Adam(std::vector<Tensor> params, const AdamOptions &defaults, Location loc)
    : Optimizer(kAdam, {OptimizerParamGroup(std::move(params))}, defaults, loc) {}
Adam::Adam(std::vector<OptimizerParamGroup> groups, const AdamOptions &defaults, Location loc)
    : Optimizer(kAdam, std::move(groups), defaults, loc) {}

AdamW::AdamW(std::vector<Tensor> params, const AdamWOptions &defaults, Location loc)
    : Optimizer(kAdamW, {OptimizerParamGroup(std::move(params))}, defaults, loc) {}
AdamW::AdamW(std::vector<OptimizerParamGroup> groups, const AdamWOptions &defaults, Location loc)
    : Optimizer(kAdamW, std::move(groups), defaults, loc) {}

} // namespace lz::optim
