#include "lazuli/nn/init.h"

#include "lazuli/lazuli.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numbers>
#include <span>
#include <vector>

namespace lz::nn::init {

namespace {

constexpr int64_t kAnyRank = 8;

void check_rank(const Tensor &tensor, int64_t least, int64_t most, const char *function, Location loc) {
    const int64_t rank = tensor.dim(loc);
    if (rank >= least && rank <= most)
        return;
    const std::string wanted = most == kAnyRank ? fmt::format("{} or more", least)
                               : least == most  ? fmt::format("{}", least)
                                                : fmt::format("{} to {}", least, most);
    throw ShapeError(fmt::format("{}: the tensor has {} axes; it takes {}", function, rank, wanted), loc);
}

void check_floats(const Tensor &tensor, const char *function, Location loc) {
    const DType dtype = tensor.dtype(loc);
    if (dtype != f16 && dtype != bf16 && dtype != f32 && dtype != f64)
        throw DTypeError(fmt::format("{}: fills tensors of floats, not of {}", function, name(dtype)), loc);
}

struct Fans {
    double in, out;
};

Fans fans(const Tensor &tensor, const char *function, Location loc) {
    check_rank(tensor, 2, kAnyRank, function, loc);
    double behind = 1;
    for (int64_t a = 2; a < tensor.dim(); ++a)
        behind *= static_cast<double>(tensor.size(a));
    return {static_cast<double>(tensor.size(1)) * behind, static_cast<double>(tensor.size(0)) * behind};
}

/// Of a weight without elements there is nothing to fill, and a fan of 0.
double kaiming_deviation(const Tensor &tensor, double a, std::string_view mode, std::string_view nonlinearity,
                         const char *function, Location loc) {
    if (mode != "fan_in" && mode != "fan_out")
        throw StateError(
            fmt::format("{}: the mode \"{}\" is unknown; it is \"fan_in\" or \"fan_out\"", function, mode),
            loc);
    const Fans both = fans(tensor, function, loc);
    const double fan = mode == "fan_in" ? both.in : both.out;
    const double gain = calculate_gain(nonlinearity, a, loc);
    return fan > 0 ? gain / std::sqrt(fan) : 0;
}

/// The inverse of the error function for |y| < 1: Giles' polynomials ("Approximating the erfinv function",
/// GPU Computing Gems 2012), relative error 1e-7 or less, and for f64 two steps of Newton's method.
Tensor inverse_erf(const Tensor &y, Location loc) {
    constexpr double central[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                  -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                  -0.00417768164,  0.246640727,    1.50140941};
    constexpr double tail[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                               -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
    const auto polynomial = [&](const double (&coefficients)[9], const Tensor &w) {
        Tensor p = full_like(w, coefficients[0], {}, loc);
        for (size_t i = 1; i < 9; ++i)
            p = add(mul(p, w, loc), coefficients[i], loc);
        return p;
    };
    const Tensor w = neg(log(mul(sub(1, y, loc), add(1, y, loc), loc), loc), loc);
    const Tensor root = sqrt(maximum(w, 0, loc), loc);
    Tensor x = mul(
        where(lt(w, 5, loc), polynomial(central, sub(w, 2.5, loc)), polynomial(tail, sub(root, 3, loc)), loc),
        y, loc);
    for (int step = 0; y.dtype() == f64 && step < 2; ++step) {
        const Tensor slope = mul(exp(neg(square(x, loc), loc), loc), 2 * std::numbers::inv_sqrtpi, loc);
        x = sub(x, div(sub(erf(x, loc), y, loc), slope, loc), loc);
    }
    return x;
}

/// The probability that a normal variable is below x.
double probability_below(double x) {
    return (1 + std::erf(x / std::numbers::sqrt2)) / 2;
}

/// Q of a matrix with at least as many rows as columns, by Householder's reflections (Golub and Van Loan,
/// section 5.2); columns of Q have the sign that makes R's diagonal not negative. `a` is [columns][rows], and
/// becomes Q.
void orthonormalize(std::vector<std::vector<double>> &a) {
    const size_t columns = a.size(), rows = columns ? a[0].size() : 0;
    const auto dot_from = [rows](const std::vector<double> &x, const std::vector<double> &y, size_t first) {
        double sum = 0;
        for (size_t i = first; i < rows; ++i)
            sum += x[i] * y[i];
        return sum;
    };
    std::vector<std::vector<double>> reflections(columns);
    std::vector<double> signs(columns);
    const auto reflect = [&](size_t j, std::vector<double> &x) {
        const std::vector<double> &v = reflections[j];
        const double scale = 2 * dot_from(v, x, j);
        for (size_t i = j; i < rows; ++i)
            x[i] -= scale * v[i];
    };
    for (size_t j = 0; j < columns; ++j) {
        std::vector<double> &v = reflections[j];
        v = a[j];
        const double length = std::sqrt(dot_from(v, v, j));
        // That of R's number on the diagonal.
        signs[j] = v[j] < 0 ? 1 : -1;
        v[j] -= signs[j] * length;
        const double of_v = std::sqrt(dot_from(v, v, j));
        for (size_t i = j; i < rows; ++i)
            v[i] = of_v > 0 ? v[i] / of_v : 0;
        for (size_t k = j; k < columns; ++k)
            reflect(j, a[k]);
    }
    for (size_t j = 0; j < columns; ++j) {
        a[j].assign(rows, 0);
        a[j][j] = signs[j];
        for (size_t k = j + 1; k-- > 0;)
            reflect(k, a[j]);
    }
}

constexpr const char *kOrthonormalized = "lazuli.nn.init.orthonormalized";

/// The call by that name: [rows, columns] of f64 gives the Q of it, or of its transpose transposed.
void register_orthonormalized() {
    [[maybe_unused]] static const bool once = [] {
        register_call(
            kOrthonormalized, [](std::span<const CallType> operands) { return std::vector{operands[0]}; },
            [](std::span<const CallInput> operands, std::span<const CallOutput> results) {
                const auto x = operands[0].values<double>();
                const auto y = results[0].values<double>();
                const auto rows = static_cast<size_t>(operands[0].shape[0]);
                const auto columns = static_cast<size_t>(operands[0].shape[1]);
                const bool tall = rows >= columns;
                const auto at = [&](size_t column, size_t i) {
                    return tall ? i * columns + column : column * columns + i;
                };
                std::vector<std::vector<double>> a(tall ? columns : rows,
                                                   std::vector<double>(tall ? rows : columns));
                for (size_t column = 0; column < a.size(); ++column)
                    for (size_t i = 0; i < a[column].size(); ++i)
                        a[column][i] = x[at(column, i)];
                orthonormalize(a);
                for (size_t column = 0; column < a.size(); ++column)
                    for (size_t i = 0; i < a[column].size(); ++i)
                        y[at(column, i)] = a[column][i];
            });
        return true;
    }();
}

} // namespace

double calculate_gain(std::string_view nonlinearity, std::optional<double> slope, Location loc) {
    for (const std::string_view linear : {"linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
                                          "conv_transpose2d", "conv_transpose3d", "sigmoid"})
        if (nonlinearity == linear)
            return 1;
    if (nonlinearity == "tanh")
        return 5.0 / 3;
    if (nonlinearity == "relu")
        return std::numbers::sqrt2;
    if (nonlinearity == "leaky_relu") {
        const double a = slope.value_or(0.01);
        return std::sqrt(2 / (1 + a * a));
    }
    if (nonlinearity == "selu")
        return 0.75;
    throw StateError(fmt::format("calculate_gain: the nonlinearity \"{}\" is unknown; it is \"linear\", "
                                 "\"sigmoid\", \"tanh\", \"relu\", \"leaky_relu\", \"selu\", or a "
                                 "convolution's name",
                                 nonlinearity),
                     loc);
}

Tensor uniform_(Tensor tensor, double a, double b, Location loc) {
    const NoGradGuard no_grad;
    return tensor.uniform_(a, b, loc);
}

Tensor normal_(Tensor tensor, double mean, double std, Location loc) {
    const NoGradGuard no_grad;
    return tensor.normal_(mean, std, loc);
}

Tensor trunc_normal_(Tensor tensor, double mean, double std, double a, double b, Location loc) {
    check_floats(tensor, "trunc_normal_", loc);
    if (!(std > 0) || !(a < b))
        throw StateError(
            fmt::format("trunc_normal_: the deviation is {} and the bounds are {} and {}; it must "
                        "be above 0, and the first bound below the second",
                        std, a, b),
            loc);
    const NoGradGuard no_grad;
    const double low = 2 * probability_below((a - mean) / std) - 1;
    const double high = 2 * probability_below((b - mean) / std) - 1;
    const DType working = tensor.dtype() == f64 ? f64 : f32;
    const double most = working == f64 ? 1 - 0x1p-53 : 1 - 0x1p-24; // 1 would be infinity
    const Tensor drawn = rand(tensor.sizes(), {.dtype = working, .device = tensor.device()}, loc);
    const Tensor y = add(mul(drawn, high - low, loc), low, loc);
    const Tensor x = inverse_erf(clamp(y, Scalar(-most), Scalar(most), loc), loc);
    const Tensor scaled = add(mul(x, std * std::numbers::sqrt2, loc), mean, loc);
    return tensor.copy_(clamp(scaled, Scalar(a), Scalar(b), loc), loc);
}

Tensor constant_(Tensor tensor, const Scalar &value, Location loc) {
    const NoGradGuard no_grad;
    return tensor.fill_(Operand(value, loc), loc);
}

Tensor ones_(Tensor tensor, Location loc) {
    return constant_(std::move(tensor), 1, loc);
}

Tensor zeros_(Tensor tensor, Location loc) {
    return constant_(std::move(tensor), 0, loc);
}

Tensor eye_(Tensor tensor, Location loc) {
    check_rank(tensor, 2, 2, "eye_", loc);
    const NoGradGuard no_grad;
    return tensor.copy_(
        eye(tensor.size(0), tensor.size(1), {.dtype = tensor.dtype(), .device = tensor.device()}, loc), loc);
}

Tensor dirac_(Tensor tensor, int64_t groups, Location loc) {
    check_rank(tensor, 3, 5, "dirac_", loc);
    const int64_t out = tensor.size(0);
    if (groups <= 0 || out % groups != 0)
        throw ShapeError(fmt::format("dirac_: {} output channels do not divide into {} groups", out, groups),
                         loc);
    const NoGradGuard no_grad;
    const int64_t rank = tensor.dim(), of_group = std::max<int64_t>(out / groups, 1);
    /// Positions along one axis.
    const auto along = [&](int64_t axis) {
        Sizes sizes(std::vector<int64_t>(static_cast<size_t>(rank), 1));
        sizes[static_cast<size_t>(axis)] = tensor.size(axis);
        return arange(tensor.size(axis), {.device = tensor.device()}, loc).reshape(sizes, loc);
    };
    Tensor is_one = eq(remainder(along(0), of_group, loc), along(1), loc);
    for (int64_t axis = 2; axis < rank; ++axis)
        is_one = logical_and(is_one, eq(along(axis), tensor.size(axis) / 2, loc), loc);
    return tensor.copy_(is_one, loc);
}

std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const Tensor &tensor, Location loc) {
    const Fans both = fans(tensor, "_calculate_fan_in_and_fan_out", loc);
    return {static_cast<int64_t>(both.in), static_cast<int64_t>(both.out)};
}

Tensor xavier_uniform_(Tensor tensor, double gain, Location loc) {
    const Fans both = fans(tensor, "xavier_uniform_", loc);
    const double bound = gain * std::sqrt(6 / std::max(both.in + both.out, 1.0));
    return uniform_(std::move(tensor), -bound, bound, loc);
}

Tensor xavier_normal_(Tensor tensor, double gain, Location loc) {
    const Fans both = fans(tensor, "xavier_normal_", loc);
    return normal_(std::move(tensor), 0, gain * std::sqrt(2 / std::max(both.in + both.out, 1.0)), loc);
}

Tensor kaiming_uniform_(Tensor tensor, double a, std::string_view mode, std::string_view nonlinearity,
                        Location loc) {
    const double std = kaiming_deviation(tensor, a, mode, nonlinearity, "kaiming_uniform_", loc);
    return uniform_(std::move(tensor), -std::numbers::sqrt3 * std, std::numbers::sqrt3 * std, loc);
}

Tensor kaiming_normal_(Tensor tensor, double a, std::string_view mode, std::string_view nonlinearity,
                       Location loc) {
    const double std = kaiming_deviation(tensor, a, mode, nonlinearity, "kaiming_normal_", loc);
    return normal_(std::move(tensor), 0, std, loc);
}

Tensor orthogonal_(Tensor tensor, double gain, Location loc) {
    check_rank(tensor, 2, kAnyRank, "orthogonal_", loc);
    check_floats(tensor, "orthogonal_", loc);
    if (tensor.numel() == 0)
        return tensor;
    register_orthonormalized();
    const NoGradGuard no_grad;
    const int64_t rows = tensor.size(0), columns = tensor.numel() / rows;
    const Tensor drawn = randn({rows, columns}, {.dtype = f64, .device = Device::cpu()}, loc);
    const Tensor q = call(kOrthonormalized, {drawn}, loc)[0];
    return tensor.copy_(mul(q, gain, loc).reshape(tensor.sizes(), loc), loc);
}

Tensor sparse_(Tensor tensor, double sparsity, double std, Location loc) {
    check_rank(tensor, 2, 2, "sparse_", loc);
    check_floats(tensor, "sparse_", loc);
    if (!(sparsity >= 0 && sparsity <= 1))
        throw StateError(fmt::format("sparse_: the sparsity is {}; it is out of [0, 1]", sparsity), loc);
    const NoGradGuard no_grad;
    const double zeros = std::ceil(sparsity * static_cast<double>(tensor.size(0)));
    // The rank of each element of a column among random numbers.
    const Tensor keys = rand(tensor.sizes(), {.dtype = f32, .device = tensor.device()}, loc);
    const Tensor ranks = argsort(argsort(keys, 0, false, loc), 0, false, loc);
    tensor.normal_(0, std, loc);
    return tensor.masked_fill_(lt(ranks, static_cast<int64_t>(zeros), loc), 0, loc);
}

} // namespace lz::nn::init
