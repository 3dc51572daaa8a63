#include "check.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace lz::test {
namespace {

std::vector<double> values(const Tensor &x) {
    return x.to(f64).to_vector<double>();
}

/// As weights of the elements of a result: no two alike, so that no two errors cancel.
Tensor weights(const Tensor &like) {
    std::vector<double> out(static_cast<size_t>(like.numel()));
    for (size_t i = 0; i < out.size(); ++i)
        out[i] = 0.5 + std::fmod(static_cast<double>(i + 1) * 0.61803398875, 1.0);
    return lz::tensor<double>(out, like.sizes(), {.device = like.device()});
}

bool has_gradient(const Tensor &x) {
    return x.dtype() == f64;
}

/// The inputs as leaves.
Inputs leaves(const Inputs &inputs) {
    Inputs out;
    for (const Tensor &x : inputs)
        out.push_back(has_gradient(x) ? x.clone().requires_grad_() : x);
    return out;
}

Inputs with_gradient(const Inputs &inputs) {
    Inputs out;
    std::ranges::copy_if(inputs, std::back_inserter(out), has_gradient);
    return out;
}

using Scalar64 = std::function<double(const Inputs &)>;

/// d function / d each element, by differences.
std::vector<std::vector<double>> differences(const Scalar64 &function, const Inputs &inputs, double step) {
    std::vector<std::vector<double>> out;
    for (size_t k = 0; k < inputs.size(); ++k) {
        if (!has_gradient(inputs[k]))
            continue;
        std::vector<double> at = values(inputs[k]), slope;
        for (double &element : at) {
            const double before = element;
            const auto value = [&](double moved) {
                element = moved;
                Inputs changed = inputs;
                changed[k] = lz::tensor<double>(at, inputs[k].sizes(), {.device = inputs[k].device()});
                return function(changed);
            };
            slope.push_back((value(before + step) - value(before - step)) / (2 * step));
            element = before;
        }
        out.push_back(slope);
    }
    return out;
}

void expect_near(const std::vector<Tensor> &found, const std::vector<std::vector<double>> &expected,
                 double tolerance, const char *what) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t k = 0; k < found.size(); ++k) {
        const std::vector<double> got = values(found[k]);
        ASSERT_EQ(got.size(), expected[k].size()) << what << " of input " << k;
        for (size_t i = 0; i < got.size(); ++i)
            EXPECT_NEAR(got[i], expected[k][i], tolerance * std::max(1.0, std::fabs(expected[k][i])))
                << what << " of input " << k << ", element " << i;
    }
}

/// sum(x * weights), a number on the device of x.
Tensor weighed(const Tensor &x) {
    return (x * weights(x)).sum();
}

} // namespace

Tensor numbers(const Sizes &sizes, double low, double high, const Device &device) {
    int64_t count = 1;
    for (const int64_t extent : sizes)
        count *= extent;
    std::vector<double> out(static_cast<size_t>(count));
    // Steps of a golden ratio's fraction never meet.
    for (size_t i = 0; i < out.size(); ++i)
        out[i] = low + (high - low) * std::fmod(0.37 + static_cast<double>(i) * 0.61803398875, 1.0);
    return lz::tensor<double>(out, sizes, {.device = device});
}

void check_gradients(const Function &function, const Inputs &inputs, const CheckOptions &options) {
    const Scalar64 value = [&](const Inputs &at) {
        const NoGradGuard off;
        return weighed(function(at)).item<double>();
    };
    const Inputs at = leaves(inputs), wanted = with_gradient(at);
    const std::vector<Tensor> gradients =
        autograd::grad(std::span<const Tensor>(std::vector<Tensor>{weighed(function(at))}), wanted);
    for (size_t k = 0; k < wanted.size(); ++k) {
        EXPECT_EQ(gradients[k].sizes(), wanted[k].sizes());
        EXPECT_EQ(gradients[k].dtype(), wanted[k].dtype());
        EXPECT_EQ(gradients[k].device(), wanted[k].device());
        EXPECT_FALSE(gradients[k].requires_grad());
    }
    expect_near(gradients, differences(value, inputs, 1e-5), options.tolerance, "gradient");
    if (!options.second)
        return;
    // sum over inputs of sum(gradient * weights), whose gradient is compared with its differences.
    const auto slope = [&](const Inputs &x, bool create_graph) {
        const Inputs of = with_gradient(x);
        const std::vector<Tensor> result = {weighed(function(x))};
        Tensor sum;
        for (const Tensor &g :
             autograd::grad(std::span<const Tensor>(result), of, {}, create_graph, create_graph)) {
            const Tensor part = weighed(g).cpu();
            sum = sum.defined() ? sum + part : part;
        }
        return sum;
    };
    const Tensor first = slope(at, true);
    std::vector<Tensor> second;
    if (first.requires_grad())
        second = autograd::grad(std::span<const Tensor>(&first, 1), wanted, {}, std::nullopt, false, true);
    else
        second.resize(wanted.size());
    for (size_t k = 0; k < second.size(); ++k)
        if (!second[k].defined())
            second[k] = zeros_like(wanted[k]);
    const Scalar64 slope_at = [&](const Inputs &x) { return slope(leaves(x), false).item<double>(); };
    expect_near(second, differences(slope_at, inputs, 1e-5), 10 * options.tolerance, "second gradient");
}

namespace {

void check_one(const Case &one, const std::string &where) {
    SCOPED_TRACE(one.name + where);
    try {
        check_gradients(one.function, one.inputs, one.options);
    } catch (const std::exception &error) {
        ADD_FAILURE() << error.what();
    }
}

/// The same with each input on a device of its own, from which the function brings it home.
Case spread(const Case &one) {
    const Device home = get_default_device(), places[] = {"cuda:1", "cpu", "cuda:0"};
    Case apart = one;
    for (size_t k = 0; k < apart.inputs.size(); ++k)
        apart.inputs[k] = one.inputs[k].to(places[k % 3]);
    apart.function = [function = one.function, home](const Inputs &x) {
        Inputs here;
        for (const Tensor &input : x)
            here.push_back(input.to(home));
        return function(here);
    };
    return apart;
}

/// The same with inputs without axes on the CPU, beside which the others may be anywhere. None where there is
/// no such input beside others.
std::optional<Case> with_numbers_on_the_cpu(const Case &one) {
    Case mixed = one;
    size_t moved = 0;
    for (Tensor &input : mixed.inputs)
        if (input.dim() == 0) {
            input = input.cpu();
            ++moved;
        }
    if (moved == 0 || moved == mixed.inputs.size())
        return std::nullopt;
    return mixed;
}

} // namespace

void check_all(const std::vector<Case> &cases) {
    const bool has_devices = get_default_device().is_cuda() && cuda::device_count() >= 2;
    for (const Case &one : cases) {
        check_one(one, "");
        if (!has_devices || one.inputs.size() < 2)
            continue;
        check_one(spread(one), ", inputs on several devices");
        if (const std::optional<Case> mixed = with_numbers_on_the_cpu(one))
            check_one(*mixed, ", numbers on the CPU");
    }
}

} // namespace lz::test
