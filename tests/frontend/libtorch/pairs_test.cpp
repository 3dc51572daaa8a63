// Programs over pairs and windows, beside plain loops in double: bodies that attract each other, the nearest
// of some centers, a convolution as a product.
#include "tests/support/tensor_values.h"

#include <algorithm>
#include <cmath>

namespace {

using namespace lz::test;
using lz::Tensor;

Tensor random(const lz::Sizes &sizes) {
    Tensor x = lz::rand(sizes);
    x.eval();
    return x;
}

TEST(Pairs, BodiesAttractEachOther) {
    lz::manual_seed(1);
    for (const int64_t n : {5, 40, 200}) {
        const Tensor place = random({n, 3}), mass = random({n});
        const Tensor between = place.unsqueeze(0) - place.unsqueeze(1);
        const Tensor squares = (between * between).sum(2) + 0.01;
        const Tensor strength = mass / (squares * lz::sqrt(squares));
        const Values found = values((between * strength.unsqueeze(2)).sum(1));
        const Values p = values(place), m = values(mass);
        const auto at = [&](int64_t i, int64_t k) { return p[static_cast<size_t>(3 * i + k)]; };
        for (int64_t i = 0; i < n; ++i)
            for (int64_t k = 0; k < 3; ++k) {
                double sum = 0, size = 0;
                for (int64_t j = 0; j < n; ++j) {
                    double square = 0.01;
                    for (int64_t c = 0; c < 3; ++c)
                        square += (at(j, c) - at(i, c)) * (at(j, c) - at(i, c));
                    const double term =
                        (at(j, k) - at(i, k)) * m[static_cast<size_t>(j)] / (square * std::sqrt(square));
                    sum += term;
                    size += std::abs(term);
                }
                EXPECT_NEAR(found[static_cast<size_t>(3 * i + k)], sum, 1e-5 * size) << i << ' ' << k;
            }
    }
}

TEST(Pairs, DistancesAndTheirGradients) {
    lz::manual_seed(2);
    Tensor x = random({30, 4}), y = random({20, 4});
    x.requires_grad_();
    const Tensor squares = lz::square(x.unsqueeze(1) - y.unsqueeze(0)).sum(-1);
    const Tensor weights = random({30, 20});
    (squares * weights).sum().backward();
    const Values a = values(x.detach()), b = values(y), w = values(weights), found = values(squares.detach()),
                 gradient = values(x.grad());
    for (size_t i = 0; i < 30; ++i)
        for (size_t k = 0; k < 4; ++k) {
            double wanted = 0;
            for (size_t j = 0; j < 20; ++j) {
                double square = 0;
                for (size_t c = 0; c < 4; ++c)
                    square += (a[4 * i + c] - b[4 * j + c]) * (a[4 * i + c] - b[4 * j + c]);
                EXPECT_NEAR(found[20 * i + j], square, 1e-5 * (1 + square));
                wanted += 2 * w[20 * i + j] * (a[4 * i + k] - b[4 * j + k]);
            }
            EXPECT_NEAR(gradient[4 * i + k], wanted, 1e-4 * (1 + std::abs(wanted)));
        }
}

TEST(Pairs, TheNearestOfSomeCenters) {
    lz::manual_seed(3);
    for (const int64_t n : {100, 1500}) {
        const Tensor x = random({n, 8}), centers = random({16, 8});
        const Tensor distances =
            (x * x).sum({1}, true) - 2 * lz::matmul(x, centers.t()) + (centers * centers).sum(1);
        const Values found = values(distances.argmin(1)), a = values(x), c = values(centers);
        const auto distance = [&](size_t i, size_t j) {
            double square = 0;
            for (size_t k = 0; k < 8; ++k)
                square += (a[8 * i + k] - c[8 * j + k]) * (a[8 * i + k] - c[8 * j + k]);
            return square;
        };
        for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
            double least = distance(i, 0);
            for (size_t j = 1; j < 16; ++j)
                least = std::min(least, distance(i, j));
            EXPECT_NEAR(distance(i, static_cast<size_t>(found[i])), least, 1e-5) << i;
        }
    }
}

TEST(Pairs, AConvolutionIsAProductOfWindows) {
    lz::manual_seed(4);
    const Tensor x = random({2, 3, 9, 11}), w = random({3 * 3 * 2, 5});
    const Tensor windows = x.unfold(2, 3, 2).unfold(3, 2, 1).permute({0, 2, 3, 1, 4, 5});
    const Tensor y = lz::relu(lz::matmul(windows.reshape({-1, 18}), w) - 4);
    ASSERT_EQ(y.sizes(), (lz::Sizes{2 * 4 * 10, 5}));
    const Values from = values(x), by = values(w), found = values(y);
    size_t at = 0;
    for (size_t n = 0; n < 2; ++n)
        for (size_t i = 0; i < 4; ++i)
            for (size_t j = 0; j < 10; ++j)
                for (size_t o = 0; o < 5; ++o) {
                    double sum = -4;
                    for (size_t c = 0, k = 0; c < 3; ++c)
                        for (size_t a = 0; a < 3; ++a)
                            for (size_t b = 0; b < 2; ++b, ++k)
                                sum += from[((n * 3 + c) * 9 + 2 * i + a) * 11 + j + b] * by[5 * k + o];
                    EXPECT_NEAR(found[at++], std::max(sum, 0.0), 1e-5);
                }
}

} // namespace
