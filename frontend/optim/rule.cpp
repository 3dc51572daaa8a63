#include "frontend/optim/rule.h"

#include "lazuli/compiled.h"

#include <fmt/format.h>

#include <cmath>

namespace lz::optim {

Numbers Numbers::without_tensors(StepNumbers &step) {
    Numbers numbers;
    numbers.only_ = &step;
    numbers.others_.emplace_back(Tensor(), Location());
    return numbers;
}

void Numbers::begin(DType dtype, const Device &device, int64_t step) {
    at_ = 0;
    if (only_)
        return;
    for (row_ = 0; row_ < rows_.size(); ++row_)
        if (rows_[row_].dtype == dtype && rows_[row_].step == step && rows_[row_].device == device)
            return;
    rows_.push_back({dtype, device, step, {}});
}

Value Numbers::made(double value, Location loc) const {
    const TensorOptions options{.dtype = rows_[row_].dtype, .device = rows_[row_].device};
    if (!step_)
        return {full({}, value, options, loc), loc};
    const auto again = [step = step_, at = step_->numbers.size() - 1] { return step->numbers[at]; };
    return {replayed_number(value, again, options, loc), loc};
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
      is_half_(dtype_ == f16 || dtype_ == bf16) {
    numbers_.begin(is_half_ ? f32 : dtype_, change.parameter.device(loc), change.steps);
}

Value Update::set(size_t i, const Value &value) {
    if (value.is_empty())
        return value;
    change_.slots_to[i] = stored(value);
    return entered(change_.slots_to[i]);
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
