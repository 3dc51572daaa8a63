// Rates as functions of epochs. Where PyTorch computes the next rate from the last one, so do these, in the
// same order: rates agree to the last bits, and what else changes a rate counts.
#include "frontend/optim/rule.h"
#include "lazuli/optim/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lz::optim {

namespace {

constexpr double kPi = std::numbers::pi;

void check_count(int64_t value, const char *schedule, const char *name, Location loc) {
    check_option(value >= 1, schedule, name, static_cast<double>(value), "at least 1", loc);
}

double real(int64_t x) {
    return static_cast<double>(x);
}

} // namespace

// --- LambdaLR

LambdaLR::LambdaLR(Optimizer &optimizer, Function lr_lambda, int64_t last_epoch, Location loc)
    : LambdaLR(optimizer, std::vector<Function>(optimizer.param_groups().size(), std::move(lr_lambda)),
               last_epoch, loc) {}
LambdaLR::LambdaLR(Optimizer &optimizer, std::vector<Function> lr_lambdas, int64_t last_epoch, Location loc)
    : LRScheduler(optimizer, last_epoch), lambdas_(std::move(lr_lambdas)) {
    if (lambdas_.size() != optimizer.param_groups().size())
        throw StateError(fmt::format("LambdaLR: there are {} functions for {} groups", lambdas_.size(),
                                     optimizer.param_groups().size()),
                         loc);
    if (std::ranges::any_of(lambdas_, [](const Function &f) { return !f; }))
        throw StateError("LambdaLR: a function is empty", loc);
    begin(loc);
}
double LambdaLR::rate(size_t group, Location) {
    return base(group) * lambdas_[group](last_epoch());
}

// --- StepLR

StepLR::StepLR(Optimizer &optimizer, int64_t step_size, double gamma, int64_t last_epoch, Location loc)
    : LRScheduler(optimizer, last_epoch), step_size_(step_size), gamma_(gamma) {
    check_count(step_size, "StepLR", "step_size", loc);
    begin(loc);
}
double StepLR::rate(size_t group, Location) {
    return last_epoch() == 0 || last_epoch() % step_size_ != 0 ? current(group) : current(group) * gamma_;
}
double StepLR::closed_form(size_t group, Location) {
    return base(group) * std::pow(gamma_, real(last_epoch() / step_size_));
}
void StepLR::each(OptionVisitor &visitor) {
    LRScheduler::each(visitor);
    visitor.visit("step_size", step_size_);
    visitor.visit("gamma", gamma_);
}

// --- MultiStepLR

MultiStepLR::MultiStepLR(Optimizer &optimizer, std::vector<int64_t> milestones, double gamma,
                         int64_t last_epoch, Location loc)
    : LRScheduler(optimizer, last_epoch), milestones_(milestones.begin(), milestones.end()), gamma_(gamma) {
    std::ranges::sort(milestones_);
    begin(loc);
}
double MultiStepLR::rate(size_t group, Location) {
    const auto times = std::ranges::count(milestones_, real(last_epoch()));
    return times == 0 ? current(group) : current(group) * std::pow(gamma_, real(times));
}
double MultiStepLR::closed_form(size_t group, Location) {
    const auto passed = std::ranges::upper_bound(milestones_, real(last_epoch())) - milestones_.begin();
    return base(group) * std::pow(gamma_, real(passed));
}
void MultiStepLR::each(OptionVisitor &visitor) {
    LRScheduler::each(visitor);
    visitor.visit("milestones", milestones_);
    std::ranges::sort(milestones_); // PyTorch's come in any order
    visitor.visit("gamma", gamma_);
}

// --- ConstantLR

ConstantLR::ConstantLR(Optimizer &optimizer, double factor, int64_t total_iters, int64_t last_epoch,
                       Location loc)
    : LRScheduler(optimizer, last_epoch), factor_(factor), total_iters_(total_iters) {
    check_option(factor >= 0 && factor <= 1, "ConstantLR", "factor", factor, "in [0, 1]", loc);
    begin(loc);
}
double ConstantLR::rate(size_t group, Location) {
    if (last_epoch() == 0)
        return current(group) * factor_;
    return last_epoch() != total_iters_ ? current(group) : current(group) * (1 / factor_);
}
double ConstantLR::closed_form(size_t group, Location) {
    return base(group) * (factor_ + (last_epoch() >= total_iters_ ? 1 - factor_ : 0));
}
void ConstantLR::each(OptionVisitor &visitor) {
    LRScheduler::each(visitor);
    visitor.visit("factor", factor_);
    visitor.visit("total_iters", total_iters_);
}

// --- LinearLR

LinearLR::LinearLR(Optimizer &optimizer, double start_factor, double end_factor, int64_t total_iters,
                   int64_t last_epoch, Location loc)
    : LRScheduler(optimizer, last_epoch), start_factor_(start_factor), end_factor_(end_factor),
      total_iters_(total_iters) {
    check_option(start_factor > 0 && start_factor <= 1, "LinearLR", "start_factor", start_factor, "in (0, 1]",
                 loc);
    check_option(end_factor >= 0 && end_factor <= 1, "LinearLR", "end_factor", end_factor, "in [0, 1]", loc);
    begin(loc);
}
double LinearLR::rate(size_t group, Location) {
    if (last_epoch() == 0)
        return current(group) * start_factor_;
    if (is_initial() || last_epoch() > total_iters_)
        return current(group);
    const double rise = end_factor_ - start_factor_;
    return current(group) *
           (1 + rise / (real(total_iters_) * start_factor_ + (real(last_epoch()) - 1) * rise));
}
double LinearLR::closed_form(size_t group, Location) {
    return base(group) *
           (start_factor_ +
            (end_factor_ - start_factor_) * real(std::min(total_iters_, last_epoch())) / real(total_iters_));
}
void LinearLR::each(OptionVisitor &visitor) {
    LRScheduler::each(visitor);
    visitor.visit("start_factor", start_factor_);
    visitor.visit("end_factor", end_factor_);
    visitor.visit("total_iters", total_iters_);
}

// --- ExponentialLR

ExponentialLR::ExponentialLR(Optimizer &optimizer, double gamma, int64_t last_epoch, Location loc)
    : LRScheduler(optimizer, last_epoch), gamma_(gamma) {
    begin(loc);
}
double ExponentialLR::rate(size_t group, Location) {
    return is_initial() ? current(group) : current(group) * gamma_;
}
double ExponentialLR::closed_form(size_t group, Location) {
    return base(group) * std::pow(gamma_, real(last_epoch()));
}
void ExponentialLR::each(OptionVisitor &visitor) {
    LRScheduler::each(visitor);
    visitor.visit("gamma", gamma_);
}

// --- CosineAnnealingLR

CosineAnnealingLR::CosineAnnealingLR(Optimizer &optimizer, int64_t T_max, double eta_min, int64_t last_epoch,
                                     Location loc)
    : LRScheduler(optimizer, last_epoch), T_max_(T_max), eta_min_(eta_min) {
    check_count(T_max, "CosineAnnealingLR", "T_max", loc);
    begin(loc);
}
double CosineAnnealingLR::rate(size_t group, Location loc) {
    const double epoch = real(last_epoch()), period = real(T_max_);
    if (is_initial())
        return current(group);
    if (step_count_ == 1 && last_epoch() > 0)
        return closed_form(group, loc);
    if ((last_epoch() - 1 - T_max_) % (2 * T_max_) == 0)
        return current(group) + (base(group) - eta_min_) * (1 - std::cos(kPi / period)) / 2;
    return (1 + std::cos(kPi * epoch / period)) / (1 + std::cos(kPi * (epoch - 1) / period)) *
               (current(group) - eta_min_) +
           eta_min_;
}
double CosineAnnealingLR::closed_form(size_t group, Location) {
    return eta_min_ + (base(group) - eta_min_) * (1 + std::cos(kPi * real(last_epoch()) / real(T_max_))) / 2;
}
void CosineAnnealingLR::each(OptionVisitor &visitor) {
    LRScheduler::each(visitor);
    visitor.visit("T_max", T_max_);
    visitor.visit("eta_min", eta_min_);
}

// --- CosineAnnealingWarmRestarts

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(Optimizer &optimizer, int64_t T_0, int64_t T_mult,
                                                         double eta_min, int64_t last_epoch, Location loc)
    : LRScheduler(optimizer, last_epoch), T_0_(T_0), T_i_(T_0), T_mult_(T_mult), T_cur_(last_epoch),
      eta_min_(eta_min) {
    check_count(T_0, "CosineAnnealingWarmRestarts", "T_0", loc);
    check_count(T_mult, "CosineAnnealingWarmRestarts", "T_mult", loc);
    begin(loc);
}
void CosineAnnealingWarmRestarts::step(Location loc) {
    if (last_epoch() < 0) {
        T_cur_ = 0;
        T_i_ = T_0_;
    } else if (++T_cur_ >= T_i_) {
        T_cur_ %= T_i_;
        T_i_ *= T_mult_;
    }
    LRScheduler::step(loc);
}
double CosineAnnealingWarmRestarts::rate(size_t group, Location) {
    return eta_min_ + (base(group) - eta_min_) * (1 + std::cos(kPi * real(T_cur_) / real(T_i_))) / 2;
}
void CosineAnnealingWarmRestarts::each(OptionVisitor &visitor) {
    LRScheduler::each(visitor);
    visitor.visit("T_0", T_0_);
    visitor.visit("T_i", T_i_);
    visitor.visit("T_mult", T_mult_);
    visitor.visit("T_cur", T_cur_);
    visitor.visit("eta_min", eta_min_);
}

} // namespace lz::optim
