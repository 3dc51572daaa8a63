#include "frontend/optim/rule.h"
#include "frontend/optim/state.h"
#include "lazuli/optim/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

namespace lz::optim {

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer &optimizer, const PlateauOptions &options, Location loc)
    : optimizer_(optimizer), options_(options),
      best_((options.maximize ? -1 : 1) * std::numeric_limits<double>::infinity()) {
    check_option(options.factor < 1, "ReduceLROnPlateau", "factor", options.factor, "below 1", loc);
    if (options_.min_lr.size() == 1)
        options_.min_lr.assign(optimizer.param_groups().size(), options.min_lr[0]);
    if (options_.min_lr.size() != optimizer.param_groups().size())
        throw StateError(fmt::format("ReduceLROnPlateau: min_lr has {} rates and the optimizer {} groups; it "
                                     "needs one, or one a group",
                                     options_.min_lr.size(), optimizer.param_groups().size()),
                         loc);
}

void ReduceLROnPlateau::step(double metric) {
    ++last_epoch_;
    const double sign = options_.maximize ? -1 : 1;
    const double bound =
        options_.absolute ? best_ - sign * options_.threshold : best_ * (1 - sign * options_.threshold);
    if (options_.maximize ? metric > bound : metric < bound) {
        best_ = metric;
        num_bad_epochs_ = 0;
    } else {
        ++num_bad_epochs_;
    }
    if (cooldown_counter_ > 0) {
        --cooldown_counter_;
        num_bad_epochs_ = 0;
    }
    if (num_bad_epochs_ <= options_.patience)
        return;
    std::vector<OptimizerParamGroup> &groups = optimizer_.param_groups();
    options_.min_lr.resize(groups.size(), options_.min_lr.back()); // groups that came later
    for (size_t g = 0; g < groups.size(); ++g) {
        OptimizerOptions &options = groups[g].options();
        const double rate = std::max(options.get_lr() * options_.factor, options_.min_lr[g]);
        if (options.get_lr() - rate > options_.eps)
            options.set_lr(rate);
    }
    cooldown_counter_ = options_.cooldown;
    num_bad_epochs_ = 0;
}

std::vector<double> ReduceLROnPlateau::get_last_lr() const {
    std::vector<double> rates;
    for (const OptimizerParamGroup &group : optimizer_.param_groups())
        rates.push_back(group.options().get_lr());
    return rates;
}

void ReduceLROnPlateau::each(OptionVisitor &visitor) {
    visitor.visit("factor", options_.factor);
    visitor.visit("min_lrs", options_.min_lr);
    visitor.visit("patience", options_.patience);
    visitor.visit("cooldown", options_.cooldown);
    visitor.visit("eps", options_.eps);
    visitor.visit("threshold", options_.threshold);
    visitor.visit("last_epoch", last_epoch_);
    visitor.visit("best", best_);
    visitor.visit("cooldown_counter", cooldown_counter_);
    visitor.visit("num_bad_epochs", num_bad_epochs_);
}

StateDict ReduceLROnPlateau::state_dict() const {
    StateDict state;
    OptionWriter writer(state, "");
    const_cast<ReduceLROnPlateau *>(this)->each(writer); // NOLINT: it changes nothing
    return state;
}

void ReduceLROnPlateau::load_state_dict(const StateDict &state, Location loc) {
    ReduceLROnPlateau loaded(*this);
    Problems problems;
    const NumberReader numbers(state, problems, loc);
    OptionReader reader(numbers, "", problems);
    loaded.each(reader);
    for (const auto &[name, value] : state)
        if (!name.starts_with('_') && name != "default_min_lr" && name != "mode_worse" && name != "verbose" &&
            std::ranges::find(reader.names(), std::string_view(name)) == reader.names().end())
            problems.unexpected(name);
    problems.check("this ReduceLROnPlateau", loc);
    options_ = std::move(loaded.options_);
    best_ = loaded.best_;
    last_epoch_ = loaded.last_epoch_;
    cooldown_counter_ = loaded.cooldown_counter_;
    num_bad_epochs_ = loaded.num_bad_epochs_;
}

} // namespace lz::optim
