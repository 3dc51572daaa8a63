#pragma once
/// Schedules of learning rates, as PyTorch has them: each changes the rates of an optimizer's groups when its
/// `step` is called, once an epoch or once a step of the optimizer. Another rate compiles nothing.
///
///     lz::optim::SGD optimizer(net->parameters(), 0.1);
///     lz::optim::SequentialLR schedule(
///         optimizer,
///         {std::make_shared<lz::optim::LinearLR>(optimizer, 0.01, 1.0, 5), // warm-up
///          std::make_shared<lz::optim::CosineAnnealingLR>(optimizer, 95)},
///         {5});
///     for (int epoch = 0; epoch < 100; ++epoch, schedule.step())
///         train(net, optimizer);
///
/// The optimizer has to live longer than its schedules. With `last_epoch` other than -1 a schedule goes on
/// from there: the groups have to know their initial rates, which they do after Optimizer::load_state_dict.

#include "lazuli/optim/optimizer.h"

#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lz {
namespace optim {

namespace detail {
class Problems;
}

/// Base of all schedules. One of your own calls `begin` at the end of its constructor.
class LZ_API LRScheduler {
public:
    virtual ~LRScheduler();
    LRScheduler(const LRScheduler &) = delete;
    LRScheduler &operator=(const LRScheduler &) = delete;

    /// Sets the rates of the next epoch.
    virtual void step(Location loc = Location::current());
    /// The rates that were set last, of each group.
    const std::vector<double> &get_last_lr() const noexcept { return last_lr_; }
    /// How often `step` was called.
    int64_t last_epoch() const noexcept { return last_epoch_; }
    /// Whose rates it changes.
    Optimizer &optimizer() const noexcept { return optimizer_; }

    /// All numbers, by PyTorch's names: `last_epoch`, `base_lrs`, `gamma`. Functions are not among them.
    StateDict state_dict() const;
    /// The numbers become those of the dictionary; the optimizer's rates, which it saves itself, stay. Throws
    /// StateError that lists all that is missing, unexpected and wrong; then nothing was loaded.
    void load_state_dict(const StateDict &state, Location loc = Location::current());

protected:
    /// Of an optimizer that outlives it; `last_epoch` is -1 at the beginning.
    LRScheduler(Optimizer &optimizer, int64_t last_epoch) : optimizer_(optimizer), last_epoch_(last_epoch) {}
    /// Sets the first rates. Throws StateError for groups without initial rates where it goes on.
    void begin(Location loc);
    /// The rate of a group for `last_epoch()`, which may follow from `current(group)`.
    virtual double rate(size_t group, Location loc) = 0;
    /// The same without regard to the last one.
    virtual double closed_form(size_t group, Location loc) { return rate(group, loc); }
    /// Shows what is saved.
    virtual void each(OptionVisitor &visitor);

    /// The rate of a group now.
    double current(size_t group) const;
    /// The rate that a group began with.
    double base(size_t group) const { return base_lrs_[group]; }
    /// Whether the first rates are set.
    bool is_initial() const noexcept { return is_initial_; }

private:
    friend class SequentialLR;
    friend class ChainedScheduler;
    friend class CosineAnnealingLR;
    friend class CosineAnnealingWarmRestarts;
    /// Of those that are made of others.
    virtual std::vector<LRScheduler *> parts() const { return {}; }
    void initial_step(Location loc);
    void update(std::optional<int64_t> epoch, Location loc);
    void undo();
    void save(StateDict &state, const std::string &prefix) const;
    void load(const StateDict &state, const std::string &prefix, detail::Problems &problems, Location loc);

    Optimizer &optimizer_;
    int64_t last_epoch_, step_count_ = 0;
    std::vector<double> base_lrs_, last_lr_;
    bool is_initial_ = false;
};

/// The initial rate times `lr_lambda(epoch)`, one function or one a group.
class LZ_API LambdaLR : public LRScheduler {
public:
    /// Of an epoch, from 0.
    using Function = std::function<double(int64_t)>;
    /// Throws StateError for an empty function, and unless there is one, or one a group.
    LambdaLR(Optimizer &optimizer, Function lr_lambda, int64_t last_epoch = -1,
             Location loc = Location::current());
    LambdaLR(Optimizer &optimizer, std::vector<Function> lr_lambdas, int64_t last_epoch = -1,
             Location loc = Location::current());

protected:
    double rate(size_t group, Location loc) override;

private:
    std::vector<Function> lambdas_;
};

/// Times `gamma` every `step_size` epochs.
class LZ_API StepLR : public LRScheduler {
public:
    /// Throws IndexError for a step size below 1.
    StepLR(Optimizer &optimizer, int64_t step_size, double gamma = 0.1, int64_t last_epoch = -1,
           Location loc = Location::current());

protected:
    double rate(size_t group, Location loc) override;
    double closed_form(size_t group, Location loc) override;
    void each(OptionVisitor &visitor) override;

private:
    int64_t step_size_;
    double gamma_;
};

/// Times `gamma` at each of the milestones, which are epochs.
class LZ_API MultiStepLR : public LRScheduler {
public:
    /// The same milestone twice counts twice.
    MultiStepLR(Optimizer &optimizer, std::vector<int64_t> milestones, double gamma = 0.1,
                int64_t last_epoch = -1, Location loc = Location::current());

protected:
    double rate(size_t group, Location loc) override;
    double closed_form(size_t group, Location loc) override;
    void each(OptionVisitor &visitor) override;

private:
    std::vector<double> milestones_; ///< sorted
    double gamma_;
};

/// Times `factor` for the first `total_iters` epochs.
class LZ_API ConstantLR : public LRScheduler {
public:
    /// Throws IndexError for a factor out of [0, 1].
    explicit ConstantLR(Optimizer &optimizer, double factor = 1.0 / 3, int64_t total_iters = 5,
                        int64_t last_epoch = -1, Location loc = Location::current());

protected:
    double rate(size_t group, Location loc) override;
    double closed_form(size_t group, Location loc) override;
    void each(OptionVisitor &visitor) override;

private:
    double factor_;
    int64_t total_iters_;
};

/// Times a factor that goes from `start_factor` to `end_factor` in `total_iters` epochs: a warm-up.
class LZ_API LinearLR : public LRScheduler {
public:
    /// Throws IndexError for a start factor out of (0, 1] and an end factor out of [0, 1].
    explicit LinearLR(Optimizer &optimizer, double start_factor = 1.0 / 3, double end_factor = 1.0,
                      int64_t total_iters = 5, int64_t last_epoch = -1, Location loc = Location::current());

protected:
    double rate(size_t group, Location loc) override;
    double closed_form(size_t group, Location loc) override;
    void each(OptionVisitor &visitor) override;

private:
    double start_factor_, end_factor_;
    int64_t total_iters_;
};

/// Times `gamma` each epoch.
class LZ_API ExponentialLR : public LRScheduler {
public:
    /// With this factor.
    ExponentialLR(Optimizer &optimizer, double gamma, int64_t last_epoch = -1,
                  Location loc = Location::current());

protected:
    double rate(size_t group, Location loc) override;
    double closed_form(size_t group, Location loc) override;
    void each(OptionVisitor &visitor) override;

private:
    double gamma_;
};

/// Half a cosine from the initial rate to `eta_min` in `T_max` epochs, and back (Loshchilov and Hutter,
/// 2017).
class LZ_API CosineAnnealingLR : public LRScheduler {
public:
    /// Throws IndexError for T_max below 1.
    CosineAnnealingLR(Optimizer &optimizer, int64_t T_max, double eta_min = 0, int64_t last_epoch = -1,
                      Location loc = Location::current());

protected:
    double rate(size_t group, Location loc) override;
    double closed_form(size_t group, Location loc) override;
    void each(OptionVisitor &visitor) override;

private:
    int64_t T_max_;
    double eta_min_;
};

/// Half a cosine to `eta_min` in `T_0` epochs, then from the initial rate again in `T_mult` times as many.
class LZ_API CosineAnnealingWarmRestarts : public LRScheduler {
public:
    /// Throws IndexError for T_0 or T_mult below 1.
    CosineAnnealingWarmRestarts(Optimizer &optimizer, int64_t T_0, int64_t T_mult = 1, double eta_min = 0,
                                int64_t last_epoch = -1, Location loc = Location::current());
    void step(Location loc = Location::current()) override;

protected:
    double rate(size_t group, Location loc) override;
    void each(OptionVisitor &visitor) override;

private:
    int64_t T_0_, T_i_, T_mult_, T_cur_;
    double eta_min_;
};

/// One number for all groups, or one for each.
class EachGroup {
public:
    EachGroup() = default;
    /// One number for all.
    EachGroup(double all) : numbers_(1, all) {} // NOLINT: meant to convert
    /// One for each group, in their order.
    EachGroup(std::vector<double> each) : numbers_(std::move(each)) {} // NOLINT
    /// One for each group, in their order.
    EachGroup(std::initializer_list<double> each) : numbers_(each) {}
    /// What was said: one number, or one a group.
    const std::vector<double> &numbers() const { return numbers_; }

private:
    std::vector<double> numbers_;
};

/// What OneCycleLR is told.
struct OneCycleOptions {
    /// The highest rate: one, or one a group.
    EachGroup max_lr;
    /// Steps of the whole cycle.
    int64_t total_steps = 0;
    /// The part of the steps in which rates rise.
    double pct_start = 0.3;
    /// Whether along straight lines and not cosines.
    bool linear = false;
    /// Whether momentum (or the first beta) goes the other way.
    bool cycle_momentum = true;
    double base_momentum = 0.85; ///< The lowest momentum.
    double max_momentum = 0.95;  ///< The highest momentum.
    /// The first rate is max_lr / div_factor,
    double div_factor = 25;
    /// and the last one the first / final_div_factor.
    double final_div_factor = 1e4;
    /// Whether the fall is as long as the rise, and the end a phase of its own.
    bool three_phase = false;
};

/// One rise and one fall (Smith and Topin, 2019): `step` is called after each step of the optimizer.
class LZ_API OneCycleLR : public LRScheduler {
public:
    /// Throws IndexError for numbers out of range, StateError for other than one rate or one a group, and
    /// where momentum is to cycle and the optimizer has none.
    OneCycleLR(Optimizer &optimizer, const OneCycleOptions &options, int64_t last_epoch = -1,
               Location loc = Location::current());

protected:
    /// Throws StateError after the last step.
    double rate(size_t group, Location loc) override;
    void each(OptionVisitor &visitor) override;

private:
    struct Phase {
        double end;
        const std::vector<double> *from, *to;
        double from_momentum, to_momentum;
    };
    std::vector<Phase> phases() const;
    OneCycleOptions options_;
    std::vector<double> initial_, max_, min_;
};

/// Several schedules, one after the other: the next one begins anew at each milestone. The schedules are made
/// for this and not stepped by themselves.
class LZ_API SequentialLR : public LRScheduler {
public:
    /// Throws StateError unless there is one milestone less than there are schedules, all of this optimizer.
    SequentialLR(Optimizer &optimizer, std::vector<std::shared_ptr<LRScheduler>> schedulers,
                 std::vector<int64_t> milestones, Location loc = Location::current());
    void step(Location loc = Location::current()) override;

protected:
    double rate(size_t group, Location loc) override;

private:
    std::vector<LRScheduler *> parts() const override;
    std::vector<std::shared_ptr<LRScheduler>> schedulers_;
    std::vector<int64_t> milestones_;
};

/// Several schedules at once: each changes the rate that the one before it has set.
class LZ_API ChainedScheduler : public LRScheduler {
public:
    /// Throws StateError for none, and unless all are of one optimizer.
    explicit ChainedScheduler(std::vector<std::shared_ptr<LRScheduler>> schedulers,
                              Location loc = Location::current());
    void step(Location loc = Location::current()) override;

protected:
    double rate(size_t group, Location loc) override;
    void each(OptionVisitor &visitor) override;

private:
    std::vector<LRScheduler *> parts() const override;
    std::vector<std::shared_ptr<LRScheduler>> schedulers_;
};

/// What ReduceLROnPlateau is told.
struct PlateauOptions {
    /// Whether more is better.
    bool maximize = false;
    /// Of the new rate: below 1.
    double factor = 0.1;
    /// How many epochs without progress are borne.
    int64_t patience = 10;
    /// What is progress: this part of the best metric, or this much.
    double threshold = 1e-4;
    /// Whether `threshold` is a difference and no part.
    bool absolute = false;
    /// Epochs after a reduction in which nothing is counted.
    int64_t cooldown = 0;
    /// Rates do not fall below: one, or one a group.
    std::vector<double> min_lr = {0};
    /// A smaller change is none.
    double eps = 1e-8;
};

/// Reduces the rates when a metric no longer improves.
class LZ_API ReduceLROnPlateau {
public:
    /// Throws IndexError for a factor of 1 or more, StateError for other than one lowest rate or one a group.
    explicit ReduceLROnPlateau(Optimizer &optimizer, const PlateauOptions &options = {},
                               Location loc = Location::current());
    /// Tells it the metric of an epoch: `schedule.step(loss.item<double>())`.
    void step(double metric);
    /// The rates, of each group.
    std::vector<double> get_last_lr() const;
    /// The best metric so far.
    double best() const noexcept { return best_; }
    /// As LRScheduler::state_dict.
    StateDict state_dict() const;
    /// As LRScheduler::load_state_dict.
    void load_state_dict(const StateDict &state, Location loc = Location::current());

private:
    void each(OptionVisitor &visitor);
    Optimizer &optimizer_;
    PlateauOptions options_;
    double best_;
    int64_t last_epoch_ = 0, cooldown_counter_ = 0, num_bad_epochs_ = 0;
};

/// LibTorch's spelling of the same.
class ReduceLROnPlateauScheduler : public ReduceLROnPlateau {
public:
    /// What is better: less or more.
    enum SchedulerMode { min, max };
    /// What the threshold is: a part of the best metric, or a difference.
    enum ThresholdMode { rel, abs };
    /// As PlateauOptions has them. An empty `min_lr` is 0. Throws as ReduceLROnPlateau.
    explicit ReduceLROnPlateauScheduler(Optimizer &optimizer, SchedulerMode mode = min, double factor = 0.1,
                                        int64_t patience = 10, double threshold = 1e-4,
                                        ThresholdMode threshold_mode = rel, int64_t cooldown = 0,
                                        const std::vector<double> &min_lr = {}, double eps = 1e-8,
                                        Location loc = Location::current())
        : ReduceLROnPlateau(optimizer,
                            {.maximize = mode == max,
                             .factor = factor,
                             .patience = patience,
                             .threshold = threshold,
                             .absolute = threshold_mode == abs,
                             .cooldown = cooldown,
                             .min_lr = min_lr.empty() ? std::vector<double>{0} : min_lr,
                             .eps = eps},
                            loc) {}
};

} // namespace optim
} // namespace lz
