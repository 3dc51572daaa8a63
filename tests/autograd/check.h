#pragma once
/// Gradients beside central differences in f64, for functions of any number of tensors.

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace lz::test {

using Inputs = std::vector<Tensor>;
/// Any shape; of f64 tensors, which it does not change.
using Function = std::function<Tensor(const Inputs &)>;

/// Distinct numbers in [low, high] in no order, f64, on the default device or the one given.
Tensor numbers(const Sizes &sizes, double low = -2, double high = 2,
               const Device &device = get_default_device());

struct CheckOptions {
    double tolerance =
        1e-6; ///< of a gradient, relative to its size or absolute; differences are wrong by about 1e-9
    bool second = true; ///< gradients of gradients, too
};

/// The gradient of a weighted sum of `function`, and of a weighted sum of that, equals what a small change of
/// each element of each input shows. Inputs that are not of f64 have no gradient.
void check_gradients(const Function &function, const Inputs &inputs, const CheckOptions &options = {});

/// Many of them: what fails is named. Where the default device is one of several GPUs, those of several
/// inputs are checked again with each input on a device of its own, which the function brings home, and with
/// inputs without axes on the CPU.
struct Case {
    std::string name;
    Function function;
    Inputs inputs;
    CheckOptions options = {};
};
void check_all(const std::vector<Case> &cases);

} // namespace lz::test
