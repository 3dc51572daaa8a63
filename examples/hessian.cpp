// Second derivatives: Newton's method on Rosenbrock's function of n numbers, with gradient and Hessian by
// lz::hessian, which are compared with their closed forms.
//
//   hessian [n [device]]
#include <lazuli/lazuli.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <utility>
#include <vector>

using lz::Tensor;

/// sum over i of 100 (x[i+1] - x[i]^2)^2 + (1 - x[i])^2 (Rosenbrock 1960), which is 0 at x = 1.
Tensor rosenbrock(const Tensor &x) {
    const Tensor a = x.slice(0, 0, -1), b = x.slice(0, 1);
    return (100 * (b - a * a).square() + (1 - a).square()).sum();
}

/// Its Hessian, as one finds it with pen and paper: tridiagonal.
Tensor closed_form(const Tensor &x) {
    const std::vector<double> at = x.to_vector<double>();
    const size_t n = at.size();
    std::vector<double> h(n * n);
    for (size_t i = 0; i + 1 < n; ++i) {
        h[i * n + i] += 1200 * at[i] * at[i] - 400 * at[i + 1] + 2;
        h[(i + 1) * n + i + 1] += 200;
        h[i * n + i + 1] = h[(i + 1) * n + i] = -400 * at[i];
    }
    return lz::tensor(h).view({x.size(0), x.size(0)});
}

/// The solution of a x = b, by elimination with the largest pivot.
Tensor solve(const Tensor &matrix, const Tensor &right) {
    std::vector<double> a = matrix.to_vector<double>(), b = right.to_vector<double>();
    const size_t n = b.size();
    for (size_t k = 0; k < n; ++k) {
        size_t pivot = k;
        for (size_t i = k + 1; i < n; ++i)
            if (std::abs(a[i * n + k]) > std::abs(a[pivot * n + k]))
                pivot = i;
        for (size_t j = 0; j < n; ++j)
            std::swap(a[k * n + j], a[pivot * n + j]);
        std::swap(b[k], b[pivot]);
        for (size_t i = k + 1; i < n; ++i) {
            const double factor = a[i * n + k] / a[k * n + k];
            for (size_t j = k; j < n; ++j)
                a[i * n + j] -= factor * a[k * n + j];
            b[i] -= factor * b[k];
        }
    }
    for (size_t k = n; k-- > 0;) {
        for (size_t j = k + 1; j < n; ++j)
            b[k] -= a[k * n + j] * b[j];
        b[k] /= a[k * n + k];
    }
    return lz::tensor(b);
}

int main(int argc, char **argv) try {
    const int64_t n = argc > 1 ? std::atoll(argv[1]) : 6;
    lz::set_default_device(argc > 2 ? argv[2] : "cpu");
    lz::set_default_dtype(lz::f64);
    Tensor x = lz::linspace(-1.2, 1.2, n);

    const Tensor exact = closed_form(x), found = lz::hessian(rosenbrock, x);
    const double error = ((found - exact).abs().max() / exact.abs().max()).item<double>();
    std::printf("Hessian of %lld x %lld: differs from the closed form by less than 1e-14: %s\n",
                static_cast<long long>(n), static_cast<long long>(n), error < 1e-14 ? "yes" : "no");
    const Tensor v = lz::ones({n});
    // The Hessian times a vector costs two backwards, whatever n is.
    const auto gradient = [](const std::vector<Tensor> &at) { return lz::jacobian(rosenbrock, at[0]); };
    const Tensor product = lz::jvp(gradient, {x}, {v}).second;
    std::printf("the Hessian times a vector without the Hessian: %s\n",
                product.allclose(lz::matmul(exact, v), 1e-12, 1e-9) ? "the same" : "another");

    // Newton's method. Where the whole step does not help, as the Hessian has a negative eigenvalue,
    // something is added to its diagonal.
    double value = rosenbrock(x).item<double>(), shift = 0;
    int steps = 0;
    for (; steps < 200; ++steps) {
        const Tensor slopes = lz::value_and_grad(rosenbrock)(x).second[0];
        if (slopes.abs().max().item<double>() < 1e-11)
            break;
        const Tensor next = x - solve(lz::hessian(rosenbrock, x) + shift * lz::eye(n), slopes);
        const double there = rosenbrock(next).item<double>();
        shift = there > value ? std::max(10 * shift, 1.0) : shift < 1e-2 ? 0 : shift / 10;
        if (there <= value) {
            x = next;
            value = there;
        }
    }
    const double distance = (x - 1).abs().max().item<double>();
    std::printf("Newton: at the minimum to 1e-12 after less than 80 steps: %s\n",
                distance < 1e-12 && steps < 80 ? "yes" : "no");
    std::cout << "x = " << x << '\n';
    if (!(error < 1e-14 && distance < 1e-12))
        return 1;
} catch (const lz::Error &error) {
    std::cerr << "hessian: " << error.what() << '\n';
    return 1;
}
