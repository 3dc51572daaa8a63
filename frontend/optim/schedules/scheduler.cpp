// What all schedules do, and those that are made of others.
#include "lazuli/optim/scheduler.h"

#include "frontend/optim/state.h"
#include "lazuli/compiled.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lz::optim {

LRScheduler::~LRScheduler() = default;

double LRScheduler::current(size_t group) const {
    return optimizer_.param_groups()[group].options().get_lr();
}

void LRScheduler::begin(Location loc) {
    std::vector<OptimizerParamGroup> &groups = optimizer_.param_groups();
    for (size_t g = 0; g < groups.size(); ++g) {
        if (last_epoch_ != -1 && !groups[g].initial_lr())
            throw StateError(
                fmt::format("LRScheduler: group {} has no initial learning rate to go on from at "
                            "epoch {}; load the optimizer's state first",
                            g, last_epoch_),
                loc);
        if (!groups[g].initial_lr())
            groups[g].set_initial_lr(current(g));
    }
    for (const OptimizerParamGroup &group : groups)
        base_lrs_.push_back(*group.initial_lr());
    initial_step(loc);
}

void LRScheduler::initial_step(Location loc) {
    step_count_ = 0;
    is_initial_ = true;
    step(loc);
    is_initial_ = false;
}

void LRScheduler::step(Location loc) {
    ++step_count_;
    update(std::nullopt, loc);
}

void LRScheduler::update(std::optional<int64_t> epoch, Location loc) {
    keep_uncompiled("steps a schedule of learning rates, which can be done outside", loc);
    std::vector<OptimizerParamGroup> &groups = optimizer_.param_groups();
    if (groups.size() != base_lrs_.size())
        throw StateError(
            fmt::format("LRScheduler: the optimizer has {} groups now, and had {} when the schedule "
                        "was made",
                        groups.size(), base_lrs_.size()),
            loc);
    const int64_t before = last_epoch_;
    last_epoch_ = epoch.value_or(last_epoch_ + 1);
    std::vector<double> rates(groups.size());
    try {
        for (size_t g = 0; g < groups.size(); ++g)
            rates[g] = epoch ? closed_form(g, loc) : rate(g, loc);
    } catch (...) {
        last_epoch_ = before;
        throw;
    }
    for (size_t g = 0; g < groups.size(); ++g)
        groups[g].options(loc).set_lr(rates[g]);
    last_lr_ = std::move(rates);
}

void LRScheduler::undo() {
    if (parts().empty())
        --last_epoch_;
    for (LRScheduler *const part : parts())
        part->undo();
}

// --- saving

void LRScheduler::each(OptionVisitor &visitor) {
    visitor.visit("last_epoch", last_epoch_);
    if (!base_lrs_.empty()) {
        visitor.visit("_step_count", step_count_);
        visitor.visit("base_lrs", base_lrs_);
    }
    visitor.visit("_last_lr", last_lr_);
}

void LRScheduler::save(StateDict &state, const std::string &prefix) const {
    OptionWriter writer(state, prefix);
    const_cast<LRScheduler *>(this)->each(writer); // NOLINT: it changes nothing
    const std::vector<LRScheduler *> inner = parts();
    for (size_t i = 0; i < inner.size(); ++i)
        inner[i]->save(state, fmt::format("{}_schedulers.{}.", prefix, i));
}

void LRScheduler::load(const StateDict &state, const std::string &prefix, Problems &problems, Location loc) {
    const NumberReader numbers(state, problems, loc);
    OptionReader reader(numbers, prefix, problems);
    each(reader);
    const std::vector<LRScheduler *> inner = parts();
    for (size_t i = 0; i < inner.size(); ++i)
        inner[i]->load(state, fmt::format("{}_schedulers.{}.", prefix, i), problems, loc);
    // PyTorch keeps more, of no use here.
    constexpr std::array<std::string_view, 2> kIgnored = {"verbose", "use_beta1"};
    for (const auto &[name, value] : state) {
        const std::string_view rest = std::string_view(name).substr(std::min(prefix.size(), name.size()));
        if (name.starts_with(prefix) && !rest.starts_with('_') &&
            std::ranges::find(kIgnored, rest) == kIgnored.end() &&
            std::ranges::find(reader.names(), rest) == reader.names().end())
            problems.unexpected(name);
    }
}

StateDict LRScheduler::state_dict() const {
    StateDict state;
    save(state, "");
    return state;
}

void LRScheduler::load_state_dict(const StateDict &state, Location loc) {
    const StateDict before = state_dict();
    Problems problems, none;
    load(state, "", problems, loc);
    if (problems.any())
        load(before, "", none, loc);
    problems.check("this schedule", loc);
}

// --- made of others

namespace {

void check_parts(const std::vector<std::shared_ptr<LRScheduler>> &schedulers, const Optimizer *optimizer,
                 const char *whose, Location loc) {
    if (schedulers.empty())
        throw StateError(fmt::format("{}: there are no schedules", whose), loc);
    for (size_t i = 0; i < schedulers.size(); ++i) {
        if (!schedulers[i])
            throw StateError(fmt::format("{}: schedule {} is null", whose, i), loc);
        if (&schedulers[i]->optimizer() != (optimizer ? optimizer : &schedulers[0]->optimizer()))
            throw StateError(fmt::format("{}: schedule {} is of another optimizer", whose, i), loc);
    }
}

std::vector<LRScheduler *> pointers(const std::vector<std::shared_ptr<LRScheduler>> &schedulers) {
    std::vector<LRScheduler *> out;
    for (const auto &scheduler : schedulers)
        out.push_back(scheduler.get());
    return out;
}

size_t place(const std::vector<int64_t> &milestones, int64_t epoch) {
    return static_cast<size_t>(std::ranges::upper_bound(milestones, epoch) - milestones.begin());
}

} // namespace

SequentialLR::SequentialLR(Optimizer &optimizer, std::vector<std::shared_ptr<LRScheduler>> schedulers,
                           std::vector<int64_t> milestones, Location loc)
    : LRScheduler(optimizer, 0), schedulers_(std::move(schedulers)), milestones_(std::move(milestones)) {
    check_parts(schedulers_, &optimizer, "SequentialLR", loc);
    if (milestones_.size() + 1 != schedulers_.size())
        throw StateError(fmt::format("SequentialLR: {} schedules need {} milestones, and there are {}",
                                     schedulers_.size(), schedulers_.size() - 1, milestones_.size()),
                         loc);
    for (OptimizerParamGroup &group : optimizer.param_groups())
        group.options(loc).set_lr(*group.initial_lr());
    for (const auto &scheduler : schedulers_)
        scheduler->undo();
    LRScheduler &first = *schedulers_[place(milestones_, 0)];
    first.initial_step(loc);
    last_lr_ = first.get_last_lr();
}

void SequentialLR::step(Location loc) {
    ++last_epoch_;
    const size_t i = place(milestones_, last_epoch_);
    if (i > 0 && milestones_[i - 1] == last_epoch_)
        schedulers_[i]->update(0, loc);
    else
        schedulers_[i]->step(loc);
    last_lr_ = schedulers_[i]->get_last_lr();
}

double SequentialLR::rate(size_t, Location loc) {
    throw StateError("SequentialLR: it cannot begin anew at a milestone of another schedule", loc);
}
std::vector<LRScheduler *> SequentialLR::parts() const {
    return pointers(schedulers_);
}

ChainedScheduler::ChainedScheduler(std::vector<std::shared_ptr<LRScheduler>> schedulers, Location loc)
    : LRScheduler((check_parts(schedulers, nullptr, "ChainedScheduler", loc), schedulers[0]->optimizer()), 0),
      schedulers_(std::move(schedulers)) {
    for (size_t g = 0; g < optimizer().param_groups().size(); ++g)
        last_lr_.push_back(current(g));
}

void ChainedScheduler::step(Location loc) {
    ++last_epoch_;
    for (const auto &scheduler : schedulers_)
        scheduler->step(loc);
    last_lr_ = schedulers_.back()->get_last_lr();
}

double ChainedScheduler::rate(size_t, Location loc) {
    throw StateError("ChainedScheduler: it cannot begin anew at a milestone of another schedule", loc);
}
void ChainedScheduler::each(OptionVisitor &visitor) {
    visitor.visit("_last_lr", last_lr_);
}
std::vector<LRScheduler *> ChainedScheduler::parts() const {
    return pointers(schedulers_);
}

} // namespace lz::optim
