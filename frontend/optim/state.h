#pragma once
/// What optimizers and schedulers are saved as: tensors by name, numbers as tensors without axes and lists of
/// them with one.

#include "lazuli/ops.h"
#include "lazuli/optim/optimizer.h"

#include <optional>
#include <string>
#include <vector>

namespace lz::optim {

/// On the CPU, in f64, i64 or bool.
Tensor number_tensor(double value);
Tensor number_tensor(int64_t value);
Tensor number_tensor(bool value);
Tensor numbers_tensor(const std::vector<double> &values);

namespace detail {
/// What does not fit of a dictionary: found first, thrown at once, loaded when there is none.
class Problems {
public:
    void missing(const std::string &name) { missing_.push_back('"' + name + '"'); }
    void unexpected(const std::string &name) { unexpected_.push_back('"' + name + '"'); }
    /// `what`: a sentence's end, as in "is f32[2] and no number".
    void wrong(const std::string &name, const std::string &what) {
        wrong_.push_back('"' + name + "\" " + what);
    }
    bool any() const { return !missing_.empty() || !unexpected_.empty() || !wrong_.empty(); }
    /// Throws StateError with all of them, if there are any: "`whose` ...; nothing was loaded".
    void check(const std::string &whose, Location loc) const;

private:
    std::vector<std::string> missing_, unexpected_, wrong_;
};
} // namespace detail
using detail::Problems;

/// Reads numbers of a dictionary.
class NumberReader {
public:
    NumberReader(const StateDict &state, Problems &problems, Location loc)
        : state_(state), problems_(problems), loc_(loc) {}

    bool has(const std::string &name) const { return state_.contains(name); }
    /// Empty where there is none; what is no number is a problem.
    std::optional<double> number(const std::string &name) const;
    /// The elements of a tensor with one axis.
    std::optional<std::vector<double>> list(const std::string &name) const;

private:
    const StateDict &state_;
    Problems &problems_;
    Location loc_;
};

/// Saves options.
class OptionWriter final : public OptionVisitor {
public:
    OptionWriter(StateDict &state, std::string prefix) : state_(state), prefix_(std::move(prefix)) {}
    void visit(const char *name, double &value) override {
        state_.insert(prefix_ + name, number_tensor(value));
    }
    void visit(const char *name, bool &value) override {
        state_.insert(prefix_ + name, number_tensor(value));
    }
    void visit(const char *name, int64_t &value) override {
        state_.insert(prefix_ + name, number_tensor(value));
    }
    void visit(const char *name, Betas &value) override {
        state_.insert(prefix_ + name, numbers_tensor({std::get<0>(value), std::get<1>(value)}));
    }

    void visit(const char *name, std::vector<double> &value) override {
        state_.insert(prefix_ + name, numbers_tensor(value));
    }

private:
    StateDict &state_;
    std::string prefix_;
};

/// Takes what the dictionary has. What it lacks is a problem, but for flags, which newer versions of PyTorch
/// have more of.
class OptionReader final : public OptionVisitor {
public:
    OptionReader(const NumberReader &numbers, std::string prefix, Problems &problems)
        : numbers_(numbers), prefix_(std::move(prefix)), problems_(problems) {}
    void visit(const char *name, double &value) override;
    void visit(const char *name, bool &value) override;
    void visit(const char *name, int64_t &value) override;
    void visit(const char *name, Betas &value) override;
    void visit(const char *name, std::vector<double> &value) override;
    /// The names that were asked for.
    const std::vector<std::string> &names() const { return names_; }

private:
    std::optional<double> number(const char *name);

    const NumberReader &numbers_;
    std::string prefix_;
    Problems &problems_;
    std::vector<std::string> names_;
};

} // namespace lz::optim
