#include "lazuli/optim/optimizer.h"

#include "frontend/optim/skips.h"
#include "lazuli/compiled.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <unordered_map>

namespace lz::optim {

OptionVisitor::~OptionVisitor() = default;
OptimizerOptions::~OptimizerOptions() = default;

namespace {

/// Finds the learning rate.
class LearningRate final : public OptionVisitor {
public:
    void visit(const char *name, double &value) override {
        if (std::strcmp(name, "lr") == 0)
            found = &value;
    }
    void visit(const char *, bool &) override {}
    void visit(const char *, int64_t &) override {}
    void visit(const char *, Betas &) override {}
    void visit(const char *, std::vector<double> &) override {}
    double *found = nullptr;
};

/// What the form of a step depends on: flags, counts, and which numbers are 0, but for the learning rate,
/// which schedules begin at 0. Collects it, or compares it with what was collected.
class Settings final : public OptionVisitor {
public:
    explicit Settings(std::vector<int64_t> &all, bool compare) : all_(all), compare_(compare) {}
    void visit(const char *name, double &value) override {
        if (std::strcmp(name, "lr") != 0)
            see(value != 0);
    }
    void visit(const char *, bool &value) override { see(value); }
    void visit(const char *, int64_t &value) override { see(value); }
    void visit(const char *, Betas &value) override {
        see(std::get<0>(value) != 0);
        see(std::get<1>(value) != 0);
    }
    void visit(const char *, std::vector<double> &) override {}
    bool differ() const { return differ_ || at_ != all_.size(); }

private:
    void see(int64_t value) {
        if (!compare_)
            all_.push_back(value);
        else
            differ_ = differ_ || at_ == all_.size() || all_[at_] != value;
        ++at_;
    }

    std::vector<int64_t> &all_;
    bool compare_, differ_ = false;
    size_t at_ = 0;
};

/// All that options say.
class AllNumbers final : public OptionVisitor {
public:
    explicit AllNumbers(OptimizerOptions &options) { options.each(*this); }
    void visit(const char *, double &value) override { all_.push_back(value); }
    void visit(const char *, bool &value) override { all_.push_back(value ? 1 : 0); }
    void visit(const char *, int64_t &value) override { all_.push_back(static_cast<double>(value)); }
    void visit(const char *, Betas &value) override {
        all_.push_back(std::get<0>(value));
        all_.push_back(std::get<1>(value));
    }
    void visit(const char *, std::vector<double> &value) override {
        all_.insert(all_.end(), value.begin(), value.end());
    }
    bool operator==(const AllNumbers &other) const { return all_ == other.all_; }

private:
    std::vector<double> all_;
};

constexpr const char *kChangesOptions = "changes an optimizer's options, which can be done outside";

/// Whoever has these may change them. A replay would not: where they are others when the function that is
/// being recorded ends, it is not kept.
void note_options(const std::shared_ptr<OptimizerOptions> &options, Location loc) {
    at_end_of_recording([loc, before = AllNumbers(*options), now = std::weak_ptr(options)] {
        if (const auto options = now.lock(); options && AllNumbers(*options) != before)
            keep_uncompiled(kChangesOptions, loc);
    });
}

} // namespace

double OptimizerOptions::get_lr() const {
    LearningRate lr;
    const_cast<OptimizerOptions *>(this)->each(lr); // NOLINT: it changes nothing
    return lr.found ? *lr.found : 0;
}
void OptimizerOptions::set_lr(double value) {
    LearningRate lr;
    each(lr);
    if (lr.found)
        *lr.found = value;
}

// --- groups

OptimizerParamGroup::OptimizerParamGroup(const OptimizerParamGroup &other)
    : params_(other.params_), options_(other.options_ ? other.options_->clone() : nullptr),
      initial_lr_(other.initial_lr_), states_(other.states_) {}
OptimizerParamGroup::OptimizerParamGroup(OptimizerParamGroup &&other) noexcept = default;
OptimizerParamGroup &OptimizerParamGroup::operator=(OptimizerParamGroup other) noexcept {
    params_.swap(other.params_);
    options_.swap(other.options_);
    initial_lr_ = other.initial_lr_;
    states_.swap(other.states_);
    return *this;
}
OptimizerParamGroup::~OptimizerParamGroup() = default;

OptimizerOptions &OptimizerParamGroup::options(Location loc) {
    const OptimizerOptions &options = std::as_const(*this).options(loc);
    if (is_recording())
        note_options(options_, loc);
    return const_cast<OptimizerOptions &>(options); // NOLINT: of this one
}
void OptimizerParamGroup::set_options(std::unique_ptr<OptimizerOptions> options) {
    keep_uncompiled(kChangesOptions, {});
    options_ = std::move(options);
}
const OptimizerOptions &OptimizerParamGroup::options(Location loc) const {
    if (!options_)
        throw StateError("OptimizerParamGroup: it has no options; in an optimizer it takes the defaults",
                         loc);
    return *options_;
}

/// What the host counted, by the value that a parameter had then.
struct Optimizer::Counts {
    struct Before {
        ValueMark value;
        size_t group, index; ///< of the parameter
        std::vector<std::pair<int64_t, double>> counts;
    };
    std::vector<Before> before; ///< steps whose failure may still show, and the latest one
};

Optimizer::Optimizer(const detail::Rule &rule, std::vector<OptimizerParamGroup> groups,
                     const OptimizerOptions &defaults, Location loc)
    : rule_(rule), defaults_(defaults.clone()), counts_(std::make_unique<Counts>()) {
    defaults_->check(loc);
    size_t count = 0;
    for (const OptimizerParamGroup &group : groups)
        count += group.params().size();
    if (count == 0)
        throw StateError(fmt::format("{}: there are no parameters to optimize", rule.name), loc);
    for (OptimizerParamGroup &group : groups)
        add_param_group(std::move(group), loc);
}

Optimizer::~Optimizer() = default;

void Optimizer::check_options(const OptimizerParamGroup &group, size_t number, Location loc) const {
    const OptimizerOptions &options = group.options(loc), &defaults = *defaults_;
    if (typeid(options) != typeid(defaults))
        throw StateError(
            fmt::format("{}: the options of group {} are those of another optimizer", rule_.name, number),
            loc);
    options.check(loc);
}

void Optimizer::add_param_group(OptimizerParamGroup group, Location loc) {
    std::unordered_map<const void *, std::pair<size_t, size_t>> places;
    for (size_t g = 0; g < groups_.size(); ++g)
        for (size_t i = 0; i < groups_[g].params_.size(); ++i)
            places.emplace(groups_[g].params_[i].id(), std::pair(g, i));
    for (size_t i = 0; i < group.params_.size(); ++i) {
        const Tensor &parameter = group.params_[i];
        const std::string which = fmt::format("{}: parameter {} of group {}", rule_.name, i, groups_.size());
        if (!parameter.defined())
            throw StateError(which + " is an empty tensor", loc);
        if (!parameter.is_leaf(loc) && !parameter.retains_grad(loc))
            throw StateError(which + " was computed from tensors that require grad; only leaves can be "
                                     "optimized (see Tensor::detach and requires_grad_)",
                             loc);
        const auto [there, is_new] = places.emplace(parameter.id(), std::pair(groups_.size(), i));
        if (!is_new)
            throw StateError(fmt::format("{} is parameter {} of group {} as well; each can be told once",
                                         which, there->second.second, there->second.first),
                             loc);
    }
    if (!group.options_)
        group.options_ = defaults_->clone();
    const OptimizerOptions &options = *group.options_, &defaults = *defaults_;
    if (typeid(options) != typeid(defaults))
        throw StateError(fmt::format("{}: the options of group {} are those of another optimizer", rule_.name,
                                     groups_.size()),
                         loc);
    group.options_->check(loc);
    group.states_.assign(group.params_.size(), {});
    if (!groups_.empty())
        host_state_changed(); // functions that were compiled before step those groups alone
    groups_.push_back(std::move(group));
}

void Optimizer::zero_grad(bool set_to_none, Location loc) {
    for (OptimizerParamGroup &group : groups_)
        for (Tensor &parameter : group.params_)
            if (parameter.grad(loc).defined())
                parameter.mutable_grad(loc) = set_to_none ? Tensor() : zeros_like(parameter, {}, loc);
}

Tensor Optimizer::step(Location loc) {
    return run({}, loc);
}
Tensor Optimizer::step(const LossClosure &closure, Location loc) {
    return run(closure, loc);
}

void Optimizer::step_unless(const Tensor &skip, Location loc) {
    if (!rule_.update)
        throw StateError(fmt::format("{}: a step that depends on losses cannot be skipped", rule_.name), loc);
    if (skip.dtype(loc) != boolean || skip.dim() != 0)
        throw StateError(fmt::format("step_unless: the flag is {} with {} axes; it is bool without axes",
                                     name(skip.dtype()), skip.dim()),
                         loc);
    skip_ = skip;
    try {
        run({}, loc);
    } catch (...) {
        skip_ = {};
        throw;
    }
    skip_ = {};
}

namespace {

std::string text(const Tensor &x) {
    std::ostringstream out;
    out << name(x.dtype()) << x.sizes() << " on " << x.device().str();
    return out.str();
}

/// A gradient that was assigned may be anything.
void check_gradient(const Tensor &parameter, const Tensor &gradient, std::string_view optimizer, size_t group,
                    size_t index, Location loc) {
    const bool same_dtype = gradient.dtype(loc) == parameter.dtype(loc),
               same_device = gradient.device(loc) == parameter.device(loc);
    if (same_dtype && same_device && gradient.sizes(loc) == parameter.sizes(loc))
        return;
    const std::string message =
        fmt::format("{}: the gradient of parameter {} of group {} is {} and the parameter {}; both must be "
                    "alike",
                    optimizer, index, group, text(gradient), text(parameter));
    if (!same_device)
        throw DeviceError(message, loc);
    if (!same_dtype)
        throw DTypeError(message, loc);
    throw ShapeError(message, loc);
}

/// A module may have been moved since the last step.
void check_place(const Tensor &parameter, const Tensor &remembered, std::string_view optimizer, size_t group,
                 size_t index, Location loc) {
    if (remembered.device(loc) != parameter.device(loc))
        throw DeviceError(
            fmt::format("{}: parameter {} of group {} is {}, and what is remembered of it is on {}; move a "
                        "module before its optimizer's first step, or load the state after it",
                        optimizer, index, group, text(parameter), remembered.device(loc).str()),
            loc);
}

} // namespace

void Optimizer::prepare_counters(std::vector<Change> &all, std::vector<Tensor> &made, Location loc) const {
    const bool has_number = !rule_.number.empty();
    if (std::ranges::any_of(all, [](const Change &change) { return change.skipped.defined(); }) &&
        (skip_.defined() || has_number)) {
        CounterOwners owners;
        for (const OptimizerParamGroup &group : groups_)
            for (const detail::ParameterState &state : group.states_)
                if (state.skipped.defined())
                    ++owners[state.skipped.id()];
        part_counters(all, owners, made, loc);
    }
    const size_t before = made.size();
    if (skip_.defined())
        begin_counting_skips(all, has_number, made, loc);
    if (made.size() > before)
        host_state_changed(); // functions that were compiled before count on the host
}

/// What has a gradient, with what is remembered of it.
std::vector<Change> Optimizer::changes(Location loc) const {
    std::vector<Change> all;
    std::vector<Tensor> made;
    for (size_t g = 0; g < groups_.size(); ++g) {
        const OptimizerParamGroup &group = groups_[g];
        const OptimizerOptions &options = group.options(loc);
        check_options(group, g, loc);
        all.reserve(all.size() + group.params_.size());
        for (size_t i = 0; i < group.params_.size(); ++i) {
            const Tensor &parameter = group.params_[i], &gradient = parameter.grad(loc);
            if (!gradient.defined())
                continue;
            check_gradient(parameter, gradient, rule_.name, g, i, loc);
            const detail::ParameterState &state = group.states_[i];
            const bool is_known = !state.tensors.empty();
            Change &change = all.emplace_back();
            change.group = g;
            change.index = i;
            change.parameter = parameter;
            change.steps = state.step;
            change.number = is_known ? state.number : rule_.initial_number;
            change.skipped = state.skipped;
            change.number_now = state.number_now;
            for (size_t s = 0; s < rule_.state.size(); ++s) {
                const StateTensor &tensor = rule_.state[s];
                if (is_known && state.tensors[s].defined()) {
                    check_place(parameter, state.tensors[s], rule_.name, g, i, loc);
                    change.state[s] = state.tensors[s];
                } else if (!tensor.needed || tensor.needed(options)) {
                    change.is_new[s] = true;
                    const double value = tensor.initial ? tensor.initial(options) : 0;
                    made.push_back(change.state[s] = full_like(parameter, value, {}, loc));
                }
            }
        }
    }
    if (rule_.counts_steps)
        prepare_counters(all, made, loc);
    // In memory before the step: a step that fails has something to go back to, and the first step is the
    // program of all others.
    if (!made.empty()) {
        keep_uncompiled("makes the state of an optimizer, as a first step does", loc);
        eval(made, loc);
    }
    return all;
}

void Optimizer::store(const Change &change, Location loc) {
    const auto unless_skipped = [&](const Tensor &old, const Tensor &now) {
        return skip_.defined() ? where(skip_.to(old.device(), loc), old, now, loc) : now;
    };
    detail::ParameterState &state = groups_[change.group].states_[change.index];
    if (state.tensors.empty())
        state.tensors.resize(rule_.state.size());
    for (size_t s = 0; s < rule_.state.size(); ++s) {
        if (!state.tensors[s].defined())
            state.tensors[s] = change.state[s];
        if (change.state_to[s].defined())
            state.tensors[s].copy_(unless_skipped(state.tensors[s], change.state_to[s]), loc);
    }
    Tensor parameter = change.parameter;
    parameter.copy_(unless_skipped(parameter, change.to), loc);
    state.number = change.number;
    state.skipped = change.skipped;
    state.number_now = change.number_now;
    ++state.step;
}

/// Recorded for `compile`: each replay counts the step, and computes its numbers again.
std::shared_ptr<StepNumbers> Optimizer::prepare_replays(const std::vector<Change> &all) {
    auto step = std::make_shared<StepNumbers>();
    for (const Change &change : all)
        step->parameters.push_back({change.group, change.index, change.is_new});
    Settings settings(step->settings, false);
    for (OptimizerParamGroup &group : groups_)
        group.options_->each(settings);
    on_replay([this, step] { replay(*step); }, [this, step] { take_back(*step); });
    return step;
}

void Optimizer::note_counts(const Change &change, Location loc) {
    std::vector<Counts::Before> &before = counts_->before;
    std::erase_if(before, [](const Counts::Before &b) { return !b.value.is_alive(); });
    Counts::Before now{ValueMark(change.parameter, loc), change.group, change.index, {}};
    for (const OptimizerParamGroup &group : groups_)
        for (const detail::ParameterState &state : group.states_)
            now.counts.emplace_back(state.step, state.number);
    before.push_back(std::move(now));
}

/// Steps have failed after which a parameter went back to the value that it had before them: parameters and
/// state are as before, and so are the counts.
void Optimizer::settle_counts() const {
    std::vector<Counts::Before> &before = counts_->before;
    for (size_t b = before.size(); b-- > 0;) {
        if (!before[b].value.is_again_that_of(groups_[before[b].group].params_[before[b].index]))
            continue;
        auto count = before[b].counts.begin();
        for (const OptimizerParamGroup &group : groups_)
            for (const detail::ParameterState &state : group.states_)
                if (count != before[b].counts.end()) {
                    auto &now = const_cast<detail::ParameterState &>(state); // NOLINT: of what never was
                    std::tie(now.step, now.number) = *count++;
                }
        before.erase(before.begin() + static_cast<ptrdiff_t>(b), before.end());
        return;
    }
}

void Optimizer::forget_counts() {
    counts_->before.clear();
}

/// After a replay that failed: nothing else has counted since.
void Optimizer::take_back(const StepNumbers &step) {
    for (const StepNumbers::Parameter &at : step.parameters) {
        detail::ParameterState &state = groups_[at.group].states_[at.index];
        state.number = at.number_before;
        --state.step;
    }
}

void Optimizer::replay(StepNumbers &step) {
    const auto refuse = [&] {
        throw StateError(fmt::format("{}: its options were changed so that its step computes something else; "
                                     "call host_state_changed() for compiled functions",
                                     rule_.name),
                         {});
    };
    Settings settings(step.settings, true);
    for (OptimizerParamGroup &group : groups_)
        group.options_->each(settings);
    if (settings.differ())
        refuse();
    step.numbers.clear();
    counts_->before.clear(); // of what was recorded: a replay that fails throws at once
    Numbers numbers = Numbers::without_tensors(step);
    for (StepNumbers::Parameter &at : step.parameters) {
        const OptimizerParamGroup &group = groups_[at.group];
        detail::ParameterState &state = groups_[at.group].states_[at.index];
        at.number_before = state.number;
        Change change;
        change.group = at.group;
        change.index = at.index;
        change.parameter = group.params_[at.index];
        change.steps = state.step;
        change.is_new = at.is_new;
        change.number = state.number;
        change.skipped = state.skipped;
        change.number_now = state.number_now;
        change.shares_numbers = at.shares_numbers;
        Update update(change, *group.options_, numbers, {});
        rule_.update(update);
        state.number = change.number;
        ++state.step;
    }
    if (step.numbers.size() != step.count) {
        take_back(step);
        refuse();
    }
}

Tensor Optimizer::run(const LossClosure &closure, Location loc) {
    Tensor loss;
    if (closure) {
        const AutoGradMode on(true);
        loss = closure();
    }
    const NoGradGuard no_grad;
    settle_counts();
    // Whatever fails until all is recorded leaves everything as it was.
    std::vector<Change> all = changes(loc);
    if (!all.empty())
        note_counts(all.front(), loc);
    std::shared_ptr<StepNumbers> replayed;
    if (is_recording())
        replayed = prepare_replays(all);
    std::vector<Numbers> numbers(groups_.size(), Numbers(replayed));
    for (size_t i = 0; i < all.size(); ++i) {
        Update update(all[i], groups_[all[i].group].options(loc), numbers[all[i].group], loc);
        rule_.update(update);
        if (replayed)
            replayed->parameters[i].shares_numbers = update.shares_numbers();
    }
    if (replayed)
        replayed->count = replayed->numbers.size();
    count_skips(all, skip_, loc);
    for (Change &change : all) {
        store(change, loc);
        change = {}; // lets go of what is now stored under another name
    }
    return loss;
}

void Optimizer::save_more(StateDict &, const std::string &) const {}
void Optimizer::load_more(const StateDict &, Location) {}

} // namespace lz::optim
