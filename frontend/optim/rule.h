#pragma once
/// What an optimizer is made of: a table of what it remembers of a parameter, and a formula.
///
/// A formula is computed in the parameter's dtype, f16 and bf16 in f32, and rounds where PyTorch stores a
/// tensor (`rounded`), so that both have the same bits but for the order of operations within one of
/// PyTorch's.

#include "frontend/optim/value.h"
#include "lazuli/optim/optimizer.h"

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <string_view>

namespace lz::optim {

class Update;

/// A tensor that is remembered of each parameter, in its shape, dtype and device.
struct StateTensor {
    std::string_view name; ///< PyTorch's
    /// Whether these options need it; null: all do.
    bool (*needed)(const OptimizerOptions &options) = nullptr;
    /// What its elements are before the first step; null: 0.
    double (*initial)(const OptimizerOptions &options) = nullptr;
};

/// Most state tensors of a rule.
inline constexpr size_t kMaxStateTensors = 3;

namespace detail {
struct Rule {
    std::string_view name; ///< of the class
    std::span<const StateTensor> state;
    void (*update)(Update &) = nullptr; ///< records the step of one parameter
    bool counts_steps = true;           ///< whether `step` is saved
    std::string_view number = {};       ///< name of the one number that is remembered, if any
    double initial_number = 0;
};
} // namespace detail

/// What one step changes of one parameter: recorded first, stored when that of all parameters is.
struct Change {
    size_t group = 0, index = 0; ///< in the group
    Tensor parameter;
    int64_t steps = 0;                              ///< that it has had
    std::array<Tensor, kMaxStateTensors> state;     ///< what is remembered now: of the state, or new
    std::array<bool, kMaxStateTensors> is_new = {}; ///< nothing was remembered there
    double number = 0;
    Tensor skipped, number_now;                    ///< as in ParameterState
    Tensor to;                                     ///< the parameter's new value
    std::array<Tensor, kMaxStateTensors> state_to; ///< empty where one stays as it is
    Tensor number_to;                              ///< the number's new value, where it is a tensor
    /// Replays: an earlier parameter made the numbers that depend on the counts of steps.
    bool shares_numbers = false;
};

/// Numbers of a step, in the order in which its formulas ask for them: what a replay of a compiled function
/// computes again (lazuli/compiled.h).
struct StepNumbers {
    struct Parameter {
        size_t group, index;
        std::array<bool, kMaxStateTensors> is_new;
        bool shares_numbers = false; ///< as in Change
        double number_before = 0;    ///< ParameterState::number, before the last replay
    };
    std::vector<Parameter> parameters; ///< that had a gradient
    std::vector<int64_t> settings;     ///< of the options of all groups: what a formula's form depends on
    std::vector<double> numbers;
    size_t count = 0; ///< of `numbers`, once all formulas have asked
};

class Numbers;

/// A number that depends on the count of steps: known to the host, or, where steps may have been skipped, a
/// 0-dim tensor of f64 (an empty one where a formula is gone through for its numbers alone).
class Number {
public:
    Number(double value) : host_(value) {} // NOLINT: converts as numbers do
    /// `numbers` makes the operands that a tensor meets.
    Number(Tensor tensor, Numbers &numbers, Location loc)
        : tensor_(std::move(tensor)), numbers_(&numbers), loc_(loc) {}

    bool is_tensor() const { return numbers_ != nullptr; }
    double host() const { return host_; }
    const Tensor &tensor() const { return tensor_; }

    friend Number operator+(const Number &a, const Number &b);
    friend Number operator-(const Number &a, const Number &b);
    friend Number operator*(const Number &a, const Number &b);
    friend Number operator/(const Number &a, const Number &b);
    friend Number pow(double base, const Number &exponent);
    friend Number sqrt(const Number &x);

private:
    using Operation = Tensor (*)(const Operand &, const Operand &, Location);
    static Number made(const Number &a, const Number &b, Operation operation);

    double host_ = 0;
    Tensor tensor_;
    Numbers *numbers_ = nullptr;
    Location loc_;
};

/// Numbers that a formula uses, as tensors: made once for all parameters that use the same ones.
class Numbers {
public:
    /// `step`: gets each number that a formula asks for, in order; null: nobody needs them.
    explicit Numbers(std::shared_ptr<StepNumbers> step = nullptr) : step_(std::move(step)) {}
    /// For a formula that is evaluated for its numbers alone, which `step` gets: no tensor is made.
    static Numbers without_tensors(StepNumbers &step);
    bool are_tensors() const { return only_ == nullptr; }
    /// The numbers asked for from here on are of another parameter, of this dtype. Whether an earlier
    /// parameter with the same counts of steps has made the numbers that depend on them.
    bool begin(DType dtype, const Change &change, Location loc);
    /// The next one; valid as long as this is.
    const Value &next(double value, Location loc);
    /// A number of the host as a tensor, to be combined with a tensor of this device. It is noted in `step`;
    /// without one the result is an empty tensor.
    Tensor told(double value, const Device &device, Location loc);
    /// The same where no tensor is made: the number is noted only.
    void told(double value) { only_->numbers.push_back(value); }

    /// Sets the remembered number to f(number of this step, from 1; the number remembered until now).
    template <class F>
    const Number &remember(F &&f) {
        Row &row = rows_[row_];
        if (!row.has_remembered && !is_told_) {
            row.remembered = f(row.step_number, row.remembered);
            row.has_remembered = true;
        }
        return row.remembered;
    }
    /// The next one that depends on them. All parameters of a row ask for the same ones in the same order.
    template <class F>
    const Value &next_of_step(F &&f, Location loc) {
        Row &row = rows_[row_];
        if (!row.step_number.is_tensor())
            return next(f(row.step_number, row.remembered).host(), loc);
        const size_t at = at_of_step_++;
        if (at < row.of_step.size())
            return row.of_step[at];
        if (is_told_)
            return others_.front();
        return row.of_step.emplace_back(as_value(f(row.step_number, row.remembered), row, loc));
    }

private:
    /// Parameters with the same numbers.
    struct Row {
        DType dtype;
        Device device;
        int64_t step;
        double number;
        const void *skipped, *number_now; ///< which tensors
        Number step_number, remembered;
        bool has_remembered = false;
        std::deque<std::pair<double, Value>> numbers;
        std::deque<Value> of_step;
    };
    std::deque<Row> rows_;
    std::deque<Value> others_; ///< of one parameter alone
    size_t row_ = 0, at_ = 0, at_of_step_ = 0;
    bool is_told_ = false; ///< without tensors: an earlier parameter has noted the numbers of its row
    std::shared_ptr<StepNumbers> step_;
    StepNumbers *only_ = nullptr;

    void add_row(DType dtype, const Device &device, const Change &change, Location loc);
    Value made(double value, Location loc) const;
    Tensor replayed(double value, const TensorOptions &options, Location loc) const;
    static DType dtype_of_numbers(DType dtype) { return dtype == f16 || dtype == bf16 ? f32 : dtype; }
    static Value as_value(const Number &number, const Row &row, Location loc) {
        const Tensor &x = number.tensor();
        return {x.defined() ? x.to(dtype_of_numbers(row.dtype), loc) : x, loc};
    }
};

/// One parameter in one step: what its formula reads, and where it stores.
class Update {
public:
    Update(Change &change, const OptimizerOptions &options, Numbers &numbers, Location loc);

    template <class Options>
    const Options &options() const {
        return static_cast<const Options &>(options_);
    }
    /// Whether the parameter is f16 or bf16.
    bool is_half() const { return is_half_; }
    /// Whether nothing was remembered there: this is the first step that needs it.
    bool is_new(size_t i) const { return change_.is_new[i]; }
    /// Whether an earlier parameter made the numbers that depend on the counts of steps.
    bool shares_numbers() const { return shares_numbers_; }
    /// The one number that is remembered becomes f(number of this step from 1, what it was).
    template <class F>
    void remember(F &&f) {
        const Number &now = numbers_.remember(f);
        if (now.is_tensor())
            change_.number_to = now.tensor();
        else
            change_.number = now.host();
    }

    Value parameter() const {
        return read([&] { return change_.parameter; });
    }
    Value gradient() const {
        return read([&] { return change_.parameter.grad(loc_); });
    }
    Value state(size_t i) const {
        return read([&] { return change_.state[i]; });
    }
    /// A number of this step: never compiled in.
    const Value &number(double value) { return numbers_.next(value, loc_); }
    /// f(number of this step from 1, the number that is remembered), which is computed once for all
    /// parameters with these numbers.
    template <class F>
    const Value &number_of_step(F &&f) {
        return numbers_.next_of_step(f, loc_);
    }

    /// As stored in the parameter's dtype.
    Value rounded(const Value &value) const { return value.is_empty() ? value : entered(stored(value)); }
    /// The same, and the new value of the state tensor or the parameter.
    Value set(size_t i, const Value &value);
    void set_parameter(const Value &value) {
        if (!value.is_empty())
            change_.to = stored(value);
    }

private:
    template <class F>
    Value read(F &&tensor) const {
        return numbers_.are_tensors() ? entered(tensor()) : Value(Tensor(), loc_);
    }
    Value entered(const Tensor &x) const { return {is_half_ ? x.to(f32, loc_) : x, loc_}; }
    Tensor stored(const Value &value) const {
        return is_half_ ? value.tensor().to(dtype_, loc_) : value.tensor();
    }

    Change &change_;
    const OptimizerOptions &options_;
    Numbers &numbers_;
    const Location loc_;
    const DType dtype_;
    const bool is_half_, shares_numbers_;
};

/// a + weight * (b - a), counted from the nearer end as PyTorch does.
Value lerp(Update &u, const Value &a, const Value &b, double weight);

/// Throws IndexError unless `holds`: "SGD: momentum is -1; it must be at least 0".
void check_option(bool holds, const char *optimizer, const char *option, double value, const char *must,
                  Location loc);

} // namespace lz::optim
