// Fits a physical model to a measurement, with the uncertainty of each parameter: a pendulum that is damped,
//
//   y(t) = a exp(-g t) cos(w t + p) + c
//
// measured 400 times with an error of known size. Levenberg's and Marquardt's method; the derivatives of the
// model come from jvp, one column for each of the five parameters.
//
//   regression [--device cuda]
#include <lazuli/lazuli.h>
#include <lazuli/optim.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

using lz::Tensor;

constexpr std::array kNames = {"amplitude", "damping", "frequency", "phase", "offset"};
constexpr std::array kTruth = {2.0, 0.3, 4.0, 0.5, -0.1};
constexpr double kSigma = 0.05; ///< of one measurement
constexpr size_t kParameters = kNames.size();
using Matrix = std::array<std::array<double, kParameters>, kParameters>;

Tensor model(const Tensor &t, const Tensor &p) {
    const std::vector<Tensor> of = p.unbind();
    return of[0] * lz::exp(-of[1] * t) * lz::cos(of[2] * t + of[3]) + of[4];
}

/// The inverse of a symmetric positive definite matrix, by Gauss's and Jordan's elimination.
Matrix inverse(Matrix a) {
    Matrix out{};
    for (size_t i = 0; i < kParameters; ++i)
        out[i][i] = 1;
    for (size_t k = 0; k < kParameters; ++k) {
        const double pivot = a[k][k];
        for (size_t j = 0; j < kParameters; ++j) {
            a[k][j] /= pivot;
            out[k][j] /= pivot;
        }
        for (size_t i = 0; i < kParameters; ++i) {
            const double factor = a[i][k];
            for (size_t j = 0; i != k && j < kParameters; ++j) {
                a[i][j] -= factor * a[k][j];
                out[i][j] -= factor * out[k][j];
            }
        }
    }
    return out;
}

/// What the fit needs at some parameters: the sum of squared residuals in units of their errors, J^T J, J^T
/// r.
struct Point {
    double chi2 = 0;
    Matrix curvature{};
    std::array<double, kParameters> slope{};
};

Point look(const Tensor &t, const Tensor &y, const Tensor &p) {
    const auto residuals = [&](const std::vector<Tensor> &at) { return (model(t, at[0]) - y) / kSigma; };
    std::vector<Tensor> columns; // d residual / d parameter, and last the residuals
    const Tensor directions = lz::eye(static_cast<int64_t>(kParameters), {.device = p.device()});
    for (size_t k = 0; k < kParameters; ++k)
        columns.push_back(lz::jvp(residuals, {p}, {directions.select(0, static_cast<int64_t>(k))}).second);
    columns.push_back(residuals({p}));
    const Tensor j = lz::stack(columns);
    const std::vector<double> products = lz::matmul(j, j.t()).to_vector<double>(); // one program
    const size_t n = kParameters + 1;
    Point out;
    out.chi2 = products[n * n - 1];
    for (size_t i = 0; i < kParameters; ++i) {
        out.slope[i] = products[i * n + kParameters];
        for (size_t k = 0; k < kParameters; ++k)
            out.curvature[i][k] = products[i * n + k];
    }
    return out;
}

int main(int argc, char **argv) try {
    const bool on_device = argc == 3 && std::string(argv[1]) == "--device";
    const lz::Device device(on_device ? argv[2] : "cpu");
    lz::set_default_dtype(lz::f64);
    lz::manual_seed(11);
    const Tensor truth = lz::tensor(std::vector<double>(kTruth.begin(), kTruth.end()), {.device = device});
    const Tensor t = lz::linspace(0, 8, 400, {.device = device});
    const Tensor y = model(t, truth) + kSigma * lz::randn({400}, {.device = device});

    Tensor p = lz::tensor({1.5, 0.2, 3.8, 0.2, 0.0}, {.device = device}); // a guess
    Point at = look(t, y, p);
    double damping = 1e-3;
    int steps = 0;
    for (bool moving = true; moving && steps < 50; ++steps) {
        Matrix raised = at.curvature;
        for (size_t i = 0; i < kParameters; ++i)
            raised[i][i] *= 1 + damping;
        const Matrix solution = inverse(raised);
        std::vector<double> step(kParameters);
        for (size_t i = 0; i < kParameters; ++i)
            for (size_t k = 0; k < kParameters; ++k)
                step[i] -= solution[i][k] * at.slope[k];
        const Tensor next = p + lz::tensor(step, {.device = device});
        const Point there = look(t, y, next);
        moving = std::abs(there.chi2 - at.chi2) > 1e-9 * at.chi2;
        damping *= there.chi2 < at.chi2 ? 0.1 : 10;
        if (there.chi2 <= at.chi2) {
            p = next;
            at = there;
        }
    }

    const Matrix covariance = inverse(at.curvature);
    const std::vector<double> found = p.to_vector<double>();
    std::printf("after less than 20 steps: %s\n", steps < 20 ? "yes" : "no");
    double farthest = 0;
    for (size_t i = 0; i < kParameters; ++i) {
        const double sigma = std::sqrt(covariance[i][i]), pull = (found[i] - kTruth[i]) / sigma;
        std::printf("%-10s %8.4f +- %.4f   (truth %7.4f, %+.1f sigma)\n", kNames[i], found[i], sigma,
                    kTruth[i], pull);
        farthest = std::max(farthest, std::abs(pull));
    }
    // The same minimum by a method that asks for nothing but the gradient.
    Tensor q = lz::tensor({1.5, 0.2, 3.8, 0.2, 0.0}, {.device = device, .requires_grad = true});
    lz::optim::LBFGS optimizer({q}, lz::optim::LBFGSOptions(1).max_iter(100).line_search_fn("strong_wolfe"));
    optimizer.step([&] {
        optimizer.zero_grad();
        const Tensor chi2 = ((model(t, q) - y) / kSigma).square().sum();
        chi2.backward();
        return chi2;
    });
    const std::vector<double> other = q.to_vector<double>();
    double apart = 0; // in standard deviations
    for (size_t i = 0; i < kParameters; ++i)
        apart = std::max(apart, std::abs(other[i] - found[i]) / std::sqrt(covariance[i][i]));
    std::printf("L-BFGS finds the same to 0.01 sigma: %s\n", apart < 0.01 ? "yes" : "no");

    const double freedom = 400 - static_cast<double>(kParameters);
    std::printf("chi2 of %.0f degrees of freedom: %.1f\n", freedom, at.chi2);

    // Without derivatives of derivatives the curvature is J^T J; the whole Hessian of chi2/2 is not far.
    const Tensor whole =
        lz::hessian([&](const Tensor &x) { return ((model(t, x) - y) / kSigma).square().sum() / 2; }, p);
    double difference = 0;
    const std::vector<double> exact = whole.to_vector<double>();
    for (size_t i = 0; i < kParameters; ++i)
        difference = std::max(difference, std::abs(exact[i * kParameters + i] / at.curvature[i][i] - 1));
    std::printf("J^T J is the Hessian to 5 %%: %s\n", difference < 0.05 ? "yes" : "no");
    return farthest < 4 && apart < 0.01 && std::abs(at.chi2 - freedom) < 4 * std::sqrt(2 * freedom) &&
                   difference < 0.05
               ? 0
               : 1;
} catch (const lz::Error &error) {
    std::cerr << "regression: " << error.what() << '\n';
    return 1;
}
