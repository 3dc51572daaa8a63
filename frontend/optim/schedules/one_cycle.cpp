#include "frontend/optim/rule.h"
#include "lazuli/optim/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

namespace lz::optim {

namespace {

/// Looks for the momentum of a group, or sets it.
class Momentum final : public OptionVisitor {
public:
    explicit Momentum(std::optional<double> value = std::nullopt) : value_(value) {}
    void visit(const char *name, double &value) override {
        if (std::string_view(name) == "momentum") {
            found = true;
            value = value_.value_or(value);
        }
    }
    void visit(const char *, Betas &value) override {
        found = true;
        std::get<0>(value) = value_.value_or(std::get<0>(value));
    }
    void visit(const char *, bool &) override {}
    void visit(const char *, int64_t &) override {}
    void visit(const char *, std::vector<double> &) override {}
    bool found = false;

private:
    std::optional<double> value_;
};

} // namespace

OneCycleLR::OneCycleLR(Optimizer &optimizer, const OneCycleOptions &options, int64_t last_epoch, Location loc)
    : LRScheduler(optimizer, last_epoch), options_(options), max_(options.max_lr.numbers()) {
    check_option(options.total_steps >= 1, "OneCycleLR", "total_steps",
                 static_cast<double>(options.total_steps), "at least 1", loc);
    check_option(options.pct_start >= 0 && options.pct_start <= 1, "OneCycleLR", "pct_start",
                 options.pct_start, "in [0, 1]", loc);
    std::vector<OptimizerParamGroup> &groups = optimizer.param_groups();
    if (max_.size() == 1)
        max_.assign(groups.size(), double{max_[0]});
    if (max_.size() != groups.size())
        throw StateError(fmt::format("OneCycleLR: max_lr has {} rates and the optimizer {} groups; it needs "
                                     "one, or one a group",
                                     max_.size(), groups.size()),
                         loc);
    for (size_t g = 0; g < groups.size(); ++g) {
        initial_.push_back(max_[g] / options.div_factor);
        min_.push_back(initial_[g] / options.final_div_factor);
        Momentum momentum;
        groups[g].options(loc).each(momentum);
        if (options.cycle_momentum && !momentum.found)
            throw StateError("OneCycleLR: the optimizer has neither momentum nor betas to cycle; tell it "
                             ".cycle_momentum = false",
                             loc);
    }
    if (last_epoch == -1)
        for (size_t g = 0; g < groups.size(); ++g)
            groups[g].set_initial_lr(initial_[g]);
    begin(loc);
}

std::vector<OneCycleLR::Phase> OneCycleLR::phases() const {
    const double steps = static_cast<double>(options_.total_steps), up = options_.pct_start * steps - 1;
    const double low = options_.base_momentum, high = options_.max_momentum;
    if (options_.three_phase)
        return {{up, &initial_, &max_, high, low},
                {2 * options_.pct_start * steps - 2, &max_, &initial_, low, high},
                {steps - 1, &initial_, &min_, high, high}};
    return {{up, &initial_, &max_, high, low}, {steps - 1, &max_, &min_, low, high}};
}

double OneCycleLR::rate(size_t group, Location loc) {
    if (last_epoch() > options_.total_steps)
        throw StateError(fmt::format("OneCycleLR: this would be step {}, and total_steps is {}", last_epoch(),
                                     options_.total_steps),
                         loc);
    const double step = static_cast<double>(last_epoch());
    const std::vector<Phase> all = phases();
    const auto phase =
        std::find_if(all.begin(), all.end() - 1, [&](const Phase &p) { return step <= p.end; });
    const double begin = phase == all.begin() ? 0 : (phase - 1)->end;
    const double part = (step - begin) / (phase->end - begin);
    const auto between = [&](double from, double to) {
        if (options_.linear)
            return (to - from) * part + from;
        return to + (from - to) / 2 * (std::cos(std::numbers::pi * part) + 1);
    };
    if (options_.cycle_momentum) {
        Momentum momentum(between(phase->from_momentum, phase->to_momentum));
        optimizer().param_groups()[group].options(loc).each(momentum);
    }
    return between((*phase->from)[group], (*phase->to)[group]);
}

void OneCycleLR::each(OptionVisitor &visitor) {
    LRScheduler::each(visitor);
    visitor.visit("total_steps", options_.total_steps);
    visitor.visit("cycle_momentum", options_.cycle_momentum);
}

} // namespace lz::optim
