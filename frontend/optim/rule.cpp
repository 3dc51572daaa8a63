#include "frontend/optim/rule.h"

#include "lazuli/compiled.h"

#include <fmt/format.h>

#include <cmath>

namespace lz::optim {

// --- numbers of a step

Number Number::made(const Number &a, const Number &b, Operation operation) {
    const Number &tensor = a.is_tensor() ? a : b;
    Numbers &numbers = *tensor.numbers_;
    const Location loc = tensor.loc_;
    if (!numbers.are_tensors()) {
        for (const Number *x : {&a, &b})
            if (!x->is_tensor())
                numbers.told(x->host_);
        return {Tensor(), numbers, loc};
    }
    const auto tensor_of = [&](const Number &x) {
        return x.is_tensor() ? x.tensor_ : numbers.told(x.host_, tensor.tensor_.device(), loc);
    };
    const Tensor left = tensor_of(a), right = tensor_of(b);
    return {operation(left.defined() ? Operand(left, loc) : Operand(a.host_, loc),
                      right.defined() ? Operand(right, loc) : Operand(b.host_, loc), loc),
            numbers, loc};
}

Number operator+(const Number &a, const Number &b) {
    if (!a.is_tensor() && !b.is_tensor())
        return a.host_ + b.host_;
    return Number::made(a, b, [](auto &x, auto &y, Location loc) { return add(x, y, loc); });
}
Number operator-(const Number &a, const Number &b) {
    if (!a.is_tensor() && !b.is_tensor())
        return a.host_ - b.host_;
    return Number::made(a, b, [](auto &x, auto &y, Location loc) { return sub(x, y, loc); });
}
Number operator*(const Number &a, const Number &b) {
    if (!a.is_tensor() && !b.is_tensor())
        return a.host_ * b.host_;
    return Number::made(a, b, [](auto &x, auto &y, Location loc) { return mul(x, y, loc); });
}
Number operator/(const Number &a, const Number &b) {
    if (!a.is_tensor() && !b.is_tensor())
        return a.host_ / b.host_;
    return Number::made(a, b, [](auto &x, auto &y, Location loc) { return div(x, y, loc); });
}
Number pow(double base, const Number &exponent) {
    if (!exponent.is_tensor())
        return std::pow(base, exponent.host_);
    return Number::made(base, exponent, [](auto &x, auto &y, Location loc) { return lz::pow(x, y, loc); });
}
Number sqrt(const Number &x) {
    if (!x.is_tensor())
        return std::sqrt(x.host_);
    return {x.tensor_.defined() ? lz::sqrt(x.tensor_, x.loc_) : x.tensor_, *x.numbers_, x.loc_};
}

Numbers Numbers::without_tensors(StepNumbers &step) {
    Numbers numbers;
    numbers.only_ = &step;
    numbers.others_.emplace_back(Tensor(), Location());
    return numbers;
}

bool Numbers::begin(DType dtype, const Change &change, Location loc) {
    at_ = at_of_step_ = 0;
    const Device device = change.parameter.device(loc);
    if (only_) {
        is_told_ = change.shares_numbers && change.skipped.defined();
        if (!is_told_) {
            rows_.clear();
            add_row(dtype, device, change, loc);
        }
        return change.shares_numbers;
    }
    const void *const skipped = change.skipped.id(), *const number_now = change.number_now.id();
    for (row_ = 0; row_ < rows_.size(); ++row_) {
        const Row &row = rows_[row_];
        if (row.dtype == dtype && row.step == change.steps && row.number == change.number &&
            row.skipped == skipped && row.number_now == number_now && row.device == device)
            return true;
    }
    add_row(dtype, device, change, loc);
    return false;
}

void Numbers::add_row(DType dtype, const Device &device, const Change &change, Location loc) {
    Number step(static_cast<double>(change.steps + 1)), remembered(change.number);
    if (change.skipped.defined())
        step = step - Number(only_ ? Tensor() : change.skipped, *this, loc);
    if (change.number_now.defined())
        remembered = Number(only_ ? Tensor() : change.number_now, *this, loc);
    rows_.push_back({.dtype = dtype,
                     .device = device,
                     .step = change.steps,
                     .number = change.number,
                     .skipped = change.skipped.id(),
                     .number_now = change.number_now.id(),
                     .step_number = step,
                     .remembered = remembered,
                     .numbers = {},
                     .of_step = {}});
}

Tensor Numbers::replayed(double value, const TensorOptions &options, Location loc) const {
    const auto again = [step = step_, at = step_->numbers.size() - 1] { return step->numbers[at]; };
    return replayed_number(value, again, options, loc);
}

Value Numbers::made(double value, Location loc) const {
    const Row &row = rows_[row_];
    const TensorOptions options{.dtype = dtype_of_numbers(row.dtype), .device = row.device};
    return {step_ ? replayed(value, options, loc) : full({}, value, options, loc), loc};
}

Tensor Numbers::told(double value, const Device &device, Location loc) {
    if (!step_)
        return {};
    step_->numbers.push_back(value);
    return replayed(value, {.dtype = f64, .device = device}, loc);
}

const Value &Numbers::next(double value, Location loc) {
    if (only_) {
        only_->numbers.push_back(value);
        return others_.front();
    }
    if (step_)
        step_->numbers.push_back(value);
    Row &row = rows_[row_];
    const size_t at = at_++;
    if (at < row.numbers.size() && row.numbers[at].first == value)
        return row.numbers[at].second;
    Value number = made(value, loc);
    if (at == row.numbers.size())
        return row.numbers.emplace_back(value, std::move(number)).second;
    return others_.emplace_back(std::move(number)); // those after it may be the same again
}

Update::Update(Change &change, const OptimizerOptions &options, Numbers &numbers, Location loc)
    : change_(change), options_(options), numbers_(numbers), loc_(loc), dtype_(change.parameter.dtype(loc)),
      is_half_(dtype_ == f16 || dtype_ == bf16), shares_numbers_(numbers.begin(dtype_, change, loc)) {}

Value Update::set(size_t i, const Value &value) {
    if (value.is_empty())
        return value;
    change_.state_to[i] = stored(value);
    return entered(change_.state_to[i]);
}

Value lerp(Update &u, const Value &a, const Value &b, double weight) {
    if (std::fabs(weight) < 0.5)
        return a + u.number(weight) * (b - a);
    return b - (b - a) * u.number(1 - weight);
}

void check_option(bool holds, const char *optimizer, const char *option, double value, const char *must,
                  Location loc) {
    if (!holds)
        throw IndexError(fmt::format("{}: {} is {}; it must be {}", optimizer, option, value, must), loc);
}

} // namespace lz::optim
