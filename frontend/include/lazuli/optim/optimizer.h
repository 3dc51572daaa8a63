#pragma once
/// Optimizer: changes parameters by their gradients. As in LibTorch:
///
///     lz::optim::AdamW optimizer(net->parameters(), lz::optim::AdamWOptions(1e-3).weight_decay(0.1));
///     for (auto [x, y] : loader) {
///         optimizer.zero_grad();
///         lz::mse_loss(net(x), y).backward();
///         optimizer.step();
///     }
///
/// A step is recorded like any other work and fused with it: all parameters of a device are one kernel. It
/// waits for nothing and reads nothing on the host, and no number of it is compiled in: another learning rate
/// or another step compiles nothing. What is promised when it fails stands at Optimizer::step.

#include "lazuli/autograd.h"
#include "lazuli/core/option.h"
#include "lazuli/core/ordered_dict.h"
#include "lazuli/tensor.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace lz::serialize {
class OutputArchive;
class InputArchive;
} // namespace lz::serialize

namespace lz {
namespace optim {

/// Two decay rates, of the mean of gradients and of the mean of their squares.
using Betas = std::tuple<double, double>;

/// Is shown the numbers of a group's options or of a schedule, by PyTorch's names. It may change them.
class LZ_API OptionVisitor {
public:
    virtual ~OptionVisitor();
    /// A number.
    virtual void visit(const char *name, double &value) = 0;
    /// A flag.
    virtual void visit(const char *name, bool &value) = 0;
    /// A count.
    virtual void visit(const char *name, int64_t &value) = 0;
    /// Decay rates.
    virtual void visit(const char *name, Betas &value) = 0;
    /// One number a group.
    virtual void visit(const char *name, std::vector<double> &value) = 0;
};

/// Base of the options of all optimizers, which a group of parameters has its own of.
class LZ_API OptimizerOptions {
public:
    virtual ~OptimizerOptions();
    /// The learning rate.
    double get_lr() const;
    /// Another learning rate, from the next step on.
    void set_lr(double lr);
    /// Shows all options to the visitor.
    virtual void each(OptionVisitor &visitor) = 0;
    /// Throws IndexError for a number out of PyTorch's limits.
    virtual void check(Location loc) const = 0;
    /// The same options once more.
    virtual std::unique_ptr<OptimizerOptions> clone() const = 0;

protected:
    OptimizerOptions() = default;
    OptimizerOptions(const OptimizerOptions &) = default;
    OptimizerOptions &operator=(const OptimizerOptions &) = default;
};

/// Base of the options Derived.
template <class Derived>
class ClonableOptions : public OptimizerOptions {
public:
    /// A copy, of its own type.
    std::unique_ptr<OptimizerOptions> clone() const override {
        return std::make_unique<Derived>(static_cast<const Derived &>(*this));
    }
};

struct Change;
struct StepNumbers;
namespace detail {
struct Rule;

/// What an optimizer remembers of a parameter: undefined tensors before its first step.
struct ParameterState {
    int64_t step = 0;            ///< how many steps were recorded
    double number = 0;           ///< one number that the rule has use for
    std::vector<Tensor> tensors; ///< in the order of the rule's table
    // From the first `step_unless` on, 0-dim, f64, beside the parameter; shared with other parameters:
    Tensor skipped;    ///< how many of the steps were skipped
    Tensor number_now; ///< in place of the number above
};
} // namespace detail

/// Parameters that share options.
class LZ_API OptimizerParamGroup {
public:
    /// With the optimizer's defaults.
    OptimizerParamGroup(std::vector<Tensor> params) : params_(std::move(params)) {} // NOLINT: converts
    /// With options of its own: of the optimizer's kind.
    OptimizerParamGroup(std::vector<Tensor> params, const OptimizerOptions &options)
        : params_(std::move(params)), options_(options.clone()) {}
    /// The same.
    OptimizerParamGroup(std::vector<Tensor> params, std::unique_ptr<OptimizerOptions> options)
        : params_(std::move(params)), options_(std::move(options)) {}
    OptimizerParamGroup(const OptimizerParamGroup &other);
    OptimizerParamGroup(OptimizerParamGroup &&other) noexcept;
    /// Takes what the other one has.
    OptimizerParamGroup &operator=(OptimizerParamGroup other) noexcept;
    ~OptimizerParamGroup();

    /// Its parameters.
    const std::vector<Tensor> &params() const { return params_; }
    /// Whether it has options: in an optimizer always.
    bool has_options() const { return options_ != nullptr; }
    /// Its options: `static_cast<AdamOptions &>(group.options()).eps(1e-6)`. Throws StateError where there
    /// are none.
    OptimizerOptions &options(Location loc = Location::current());
    const OptimizerOptions &options(Location loc = Location::current()) const;
    /// Other options, of the optimizer's kind.
    void set_options(std::unique_ptr<OptimizerOptions> options);
    /// The learning rate that schedulers begin with: empty before the first scheduler.
    std::optional<double> initial_lr() const { return initial_lr_; }
    /// Sets it.
    void set_initial_lr(std::optional<double> lr) { initial_lr_ = lr; }

private:
    friend class Optimizer;
    friend class LBFGS;
    std::vector<Tensor> params_;
    std::shared_ptr<OptimizerOptions> options_; ///< of this group alone
    std::optional<double> initial_lr_;
    std::vector<detail::ParameterState> states_; ///< one a parameter
};

/// Base of all optimizers. May be used by one thread at a time.
class LZ_API Optimizer {
public:
    /// Computes the loss and its gradients, once more.
    using LossClosure = std::function<Tensor()>;

    virtual ~Optimizer();
    Optimizer(const Optimizer &) = delete;
    Optimizer &operator=(const Optimizer &) = delete;

    /// Records one step of all parameters that have a gradient; the others stay as they are. Returns an empty
    /// tensor. Throws DTypeError, ShapeError, DeviceError for a gradient that is not as its parameter is,
    /// IndexError for options out of their limits, and then nothing has changed; memory for the state is
    /// taken in the first step (OutOfMemoryError).
    ///
    /// Where what was recorded fails later, at a sync, and nothing of it has been launched, parameters, state
    /// and counts of steps are as before the step. Else what one launch changes is all as before or all as
    /// after it: parameters of one device and dtype with their state, up to 256 of them; the error says which
    /// (docs/optimizers.md).
    Tensor step(Location loc = Location::current());
    /// Calls `closure` first, with gradients on, and returns what it returns.
    Tensor step(const LossClosure &closure, Location loc = Location::current());
    /// A step that changes no parameter and nothing of the state where `skip`, a 0-dim tensor of bool, is
    /// true, which is decided when it runs; nor is it counted (the bias corrections of Adam, the decay of
    /// Adagrad). Throws StateError for another tensor, and for an optimizer that reads losses (LBFGS); else
    /// as `step`.
    void step_unless(const Tensor &skip, Location loc = Location::current());
    /// Forgets the gradients of all parameters, or sets them to 0.
    void zero_grad(bool set_to_none = true, Location loc = Location::current());

    /// The groups, in the order in which they came.
    std::vector<OptimizerParamGroup> &param_groups() noexcept { return groups_; }
    const std::vector<OptimizerParamGroup> &param_groups() const noexcept { return groups_; }
    /// Another group. Throws StateError for a parameter that is empty, no leaf, or there already, IndexError
    /// for options out of their limits; then nothing was added.
    void add_param_group(OptimizerParamGroup group, Location loc = Location::current());
    /// The options of groups that have none of their own.
    const OptimizerOptions &defaults() const noexcept { return *defaults_; }

    /// How many parameters all groups have together.
    size_t size() const noexcept;
    /// What is remembered of each parameter that made a step, by the names of state_dict without their first
    /// part: `0.exp_avg`, `0.step`. Later steps do not show in it.
    StateDict state() const;

    /// The state and the options, in PyTorch's layout with names joined by dots: `state.0.exp_avg`,
    /// `state.0.step`, `param_groups.0.lr`, `param_groups.0.betas`, `param_groups.0.params`. Parameters are
    /// numbered through all groups. Numbers are 0-dim tensors, lists of them have one axis. Later steps do
    /// not show in it.
    StateDict state_dict() const;
    /// State and options become those of the dictionary, in the parameters' dtype and on their devices:
    /// `load_state_dict(lz::load("optimizer.pt"))` of what PyTorch saved. Throws StateError that lists all
    /// that is missing, unexpected and of other shapes; then nothing was loaded. Sync point where the
    /// dictionary's numbers are pending.
    void load_state_dict(const StateDict &state, Location loc = Location::current());
    /// Writes the state and the options to the archive (io/archive.h), by the names of `state_dict`. Throws
    /// StateError for a name that is there already; then nothing was written.
    void save(serialize::OutputArchive &archive, Location loc = Location::current()) const;
    /// State and options become those of the archive, which may have more than these. Else as
    /// load_state_dict.
    void load(const serialize::InputArchive &archive, Location loc = Location::current());

protected:
    /// Takes the groups, as add_param_group.
    Optimizer(const detail::Rule &rule, std::vector<OptimizerParamGroup> groups,
              const OptimizerOptions &defaults, Location loc);
    /// The step itself.
    virtual Tensor run(const LossClosure &closure, Location loc);
    /// Adds what there is beside the tensors of the table to the state of a parameter.
    virtual void save_more(StateDict &state, const std::string &prefix) const;
    /// Reads it: the entries of the first parameter that the table does not have.
    virtual void load_more(const StateDict &entries, Location loc);

private:
    std::vector<Change> changes(Location loc) const;
    void prepare_counters(std::vector<Change> &all, std::vector<Tensor> &made, Location loc) const;
    void store(const Change &change, Location loc);
    std::shared_ptr<StepNumbers> prepare_replays(const std::vector<Change> &all);
    void replay(StepNumbers &step);
    void take_back(const StepNumbers &step);
    struct Counts;
    void note_counts(const Change &change, Location loc);
    void settle_counts() const;
    void forget_counts();
    void check_options(const OptimizerParamGroup &group, size_t number, Location loc) const;

    const detail::Rule &rule_;
    std::unique_ptr<OptimizerOptions> defaults_;
    std::vector<OptimizerParamGroup> groups_;
    Tensor skip_; ///< while step_unless runs
    std::unique_ptr<Counts> counts_;
};

} // namespace optim
} // namespace lz
