// Functions of one, two and three operands against plain C++.
#include "tests/support/tensor_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

namespace {

using namespace lz::test;
using lz::Tensor;

using Unary = Tensor (*)(const Tensor &, lz::Location);
struct UnaryCase {
    const char *name;
    Unary function;
    Tensor (Tensor::*method)(lz::Location) const &;
    Tensor &(Tensor::*in_place)(lz::Location) &;
    std::function<double(double)> oracle;
    Values inputs;
};

const Values kAny = {-2.5, -1, -0.5, 0, 0.25, 0.5, 1, 3.5};
const Values kPositive = {0.01, 0.5, 1, 2, 100};
const Values kUnit = {-0.9, -0.5, 0, 0.3, 0.99};

/// Of the logarithm of the gamma function in 64 bits, by steps that are as wide as its curve allows.
double digamma_by_differences(double x) {
    const long double h = 1e-4L * x;
    const auto slope = [&](long double step) {
        return (std::lgamma(x + step) - std::lgamma(x - step)) / (2 * step);
    };
    return static_cast<double>((4 * slope(h / 2) - slope(h)) / 3);
}

#define CASE(name, oracle, inputs) {#name, lz::name, &Tensor::name, &Tensor::name##_, oracle, inputs}
const std::vector<UnaryCase> &unary_cases() {
    static const std::vector<UnaryCase> cases = {
        CASE(
            exp, [](double x) { return std::exp(x); }, kAny),
        CASE(
            expm1, [](double x) { return std::expm1(x); }, kAny),
        CASE(
            log, [](double x) { return std::log(x); }, kPositive),
        CASE(
            log1p, [](double x) { return std::log1p(x); }, kPositive),
        CASE(
            log2, [](double x) { return std::log2(x); }, kPositive),
        CASE(
            sqrt, [](double x) { return std::sqrt(x); }, kPositive),
        CASE(
            rsqrt, [](double x) { return 1 / std::sqrt(x); }, kPositive),
        CASE(
            sin, [](double x) { return std::sin(x); }, kAny),
        CASE(
            cos, [](double x) { return std::cos(x); }, kAny),
        CASE(
            tan, [](double x) { return std::tan(x); }, kUnit),
        CASE(
            asin, [](double x) { return std::asin(x); }, kUnit),
        CASE(
            acos, [](double x) { return std::acos(x); }, kUnit),
        CASE(
            atan, [](double x) { return std::atan(x); }, kAny),
        CASE(
            sinh, [](double x) { return std::sinh(x); }, kAny),
        CASE(
            cosh, [](double x) { return std::cosh(x); }, kAny),
        CASE(
            tanh, [](double x) { return std::tanh(x); }, kAny),
        CASE(
            erf, [](double x) { return std::erf(x); }, kAny),
        CASE(
            sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, kAny),
        CASE(
            floor, [](double x) { return std::floor(x); }, kAny),
        CASE(
            ceil, [](double x) { return std::ceil(x); }, kAny),
        CASE(
            round, [](double x) { return std::nearbyint(x); }, kAny),
        CASE(
            trunc, [](double x) { return std::trunc(x); }, kAny),
        CASE(
            neg, [](double x) { return -x; }, kAny),
        CASE(
            abs, [](double x) { return std::fabs(x); }, kAny),
        CASE(
            sign, [](double x) { return (x > 0) - (x < 0); }, kAny),
        CASE(
            relu, [](double x) { return std::fmax(x, 0); }, kAny),
        CASE(
            silu, [](double x) { return x / (1 + std::exp(-x)); }, kAny),
        CASE(
            square, [](double x) { return x * x; }, kAny),
        CASE(
            reciprocal, [](double x) { return 1 / x; }, kPositive),
        CASE(
            log10, [](double x) { return std::log10(x); }, kPositive),
        CASE(
            exp2, [](double x) { return std::exp2(x); }, kAny),
        CASE(
            erfc, [](double x) { return std::erfc(x); }, kAny),
        CASE(
            lgamma, [](double x) { return std::lgamma(x); }, kPositive),
        CASE(digamma, digamma_by_differences, kPositive),
    };
    return cases;
}
#undef CASE

TEST(Elementwise, FunctionsOfOneOperandMeanWhatTheirNamesSay) {
    for (const UnaryCase &c : unary_cases()) {
        SCOPED_TRACE(c.name);
        const Tensor x = lz::tensor(c.inputs, {.dtype = lz::f32});
        Values expected;
        for (const double v : values(x))
            expected.push_back(c.oracle(v));
        const auto close = [&](const Tensor &y) {
            const Values found = values(y);
            ASSERT_EQ(found.size(), expected.size());
            for (size_t i = 0; i < found.size(); ++i) // 4 ULP of f32: two roundings and two of the function
                EXPECT_NEAR(found[i], expected[i], std::fabs(expected[i]) * 0x1p-21 + 1e-7);
        };
        close(c.function(x, lz::Location::current()));
        close((x.*c.method)(lz::Location::current()));
        Tensor y = x.clone();
        const Tensor alias = y;
        (y.*c.in_place)(lz::Location::current());
        close(alias);
    }
}

TEST(Elementwise, IntegersBecomeTheDefaultDtypeWhereFunctionsGiveFractions) {
    EXPECT_EQ(lz::exp(lz::arange(3)).dtype(), lz::f32);
    expect_tensor(lz::sqrt(lz::tensor({1, 4, 9})), {3}, lz::f32, {1, 2, 3});
    expect_tensor(lz::floor(lz::tensor({1, -4})), {2}, lz::i64, {1, -4});
    const lz::DefaultDTypeGuard guard(lz::f64);
    EXPECT_EQ(lz::exp(lz::arange(3)).dtype(), lz::f64);
}

TEST(Elementwise, RoundingAnIntegerGivesATensorOfItsOwn) {
    const Tensor x = lz::tensor({1, 2});
    Tensor y = lz::round(x);
    y.add_(1);
    expect_values(x, {1, 2});
}

TEST(Elementwise, ArithmeticOfFloats) {
    const Tensor a = lz::tensor({7.5, -7.5, 2.0}), b = lz::tensor({2.0, 2.0, -3.0});
    expect_values(a + b, {9.5, -5.5, -1});
    expect_values(a - b, {5.5, -9.5, 5});
    expect_values(a * b, {15, -15, -6});
    expect_values(a / b, {3.75, -3.75, -2.0 / 3}, 1e-7);
    expect_values(a % b, {1.5, 0.5, -1});
    expect_values(lz::fmod(a, b), {1.5, -1.5, 2});
    expect_values(lz::floor_divide(a, b), {3, -4, -1});
    expect_values(lz::pow(a, 2), {56.25, 56.25, 4});
    expect_values(lz::pow(2, b), {4, 4, 0.125});
    expect_values(lz::minimum(a, b), {2, -7.5, -3});
    expect_values(lz::maximum(a, 0), {7.5, 0, 2});
    expect_values(lz::atan2(a, b), {std::atan2(7.5, 2), std::atan2(-7.5, 2), std::atan2(2, -3)}, 1e-6);
    expect_values(-a, {-7.5, 7.5, -2});
    expect_values(10 - a, {2.5, 17.5, 8});
    expect_values(15 / a, {2, -2, 7.5});
}

TEST(Elementwise, ArithmeticOfIntegers) {
    const Tensor a = lz::tensor({7, -7, 6}), b = lz::tensor({2, 2, -4});
    expect_tensor(a / b, {3}, lz::f32, {3.5, -3.5, -1.5});
    expect_tensor(a % b, {3}, lz::i64, {1, 1, -2});
    expect_tensor(lz::fmod(a, b), {3}, lz::i64, {1, -1, 2});
    expect_tensor(lz::floor_divide(a, b), {3}, lz::i64, {3, -4, -2});
    expect_tensor(a & 3, {3}, lz::i64, {3, 1, 2});
    expect_tensor(a | b, {3}, lz::i64, {7 | 2, -7 | 2, 6 | -4});
    expect_tensor(a ^ b, {3}, lz::i64, {7 ^ 2, -7 ^ 2, 6 ^ -4});
    expect_tensor(~a, {3}, lz::i64, {~7, 6, ~6});
    expect_tensor(a << 2, {3}, lz::i64, {28, -28, 24});
    expect_tensor(a >> 1, {3}, lz::i64, {3, -4, 3});
    expect_tensor(lz::pow(a, 2), {3}, lz::i64, {49, 49, 36});
}

/// Powers that are written as a few operations, beside those of the C library.
TEST(Elementwise, PowersOfAFewOperationsAreThoseOfPow) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    std::vector<double> at = {0.0, -0.0, kInfinity, -kInfinity, std::nan(""), 1, -1, 2.5e-45, 1e-39};
    for (double x = 1e-38; x < 3e38; x *= 1.7)
        at.insert(at.end(), {x, -x});
    for (const lz::DType dtype : {lz::f32, lz::f64, lz::f16, lz::bf16}) {
        const Tensor base = lz::tensor<double>(at, {.dtype = dtype});
        const std::vector<double> bases = base.to(lz::f64).to_vector<double>();
        for (const double exponent : {3.0, 4.0, -1.0, -2.0, 0.5, -0.5}) {
            const Tensor power = lz::pow(base, exponent);
            EXPECT_EQ(power.dtype(), dtype);
            std::vector<double> expected(bases.size());
            std::ranges::transform(bases, expected.begin(), [&](double x) { return std::pow(x, exponent); });
            const auto found = power.to(lz::f64).to_vector<double>(),
                       rounded = lz::tensor<double>(expected).to(dtype).to(lz::f64).to_vector<double>();
            // Of the last place, and the smallest number.
            const auto [unit, least] = dtype == lz::f32    ? std::pair{0x1p-23, 0x1p-149}
                                       : dtype == lz::f64  ? std::pair{0x1p-52, 0x1p-1074}
                                       : dtype == lz::bf16 ? std::pair{0x1p-7, 0x1p-133}
                                                           : std::pair{0x1p-10, 0x1p-24};
            for (size_t i = 0; i < bases.size(); ++i) {
                const std::string what = std::to_string(bases[i]) + " to " + std::to_string(exponent);
                if (std::isnan(rounded[i]) || std::isinf(rounded[i]) || rounded[i] == 0) {
                    EXPECT_EQ(std::isnan(found[i]), std::isnan(rounded[i])) << what;
                    EXPECT_TRUE(std::isnan(rounded[i]) || found[i] == rounded[i]) << what << ' ' << found[i];
                    EXPECT_EQ(std::signbit(found[i]) && !std::isnan(found[i]),
                              std::signbit(rounded[i]) && !std::isnan(rounded[i]))
                        << what;
                } else {
                    EXPECT_NEAR(found[i], rounded[i], 2 * (unit * std::abs(rounded[i]) + least)) << what;
                }
            }
        }
    }
}

TEST(Elementwise, BoolAddsAsOrAndMultipliesAsAnd) {
    const Tensor a = lz::tensor({true, true, false}), b = lz::tensor({true, false, false});
    expect_tensor(a + b, {3}, lz::boolean, {1, 1, 0});
    expect_tensor(a * b, {3}, lz::boolean, {1, 0, 0});
    expect_tensor(a ^ b, {3}, lz::boolean, {0, 1, 0});
    expect_tensor(~a, {3}, lz::boolean, {0, 0, 1});
    expect_error<lz::DTypeError>([&] { a - b; }, {"sub", "bool", "logical_xor"});
}

TEST(Elementwise, PowersOfBoolAreIntegers) {
    const Tensor b = lz::tensor({true, false});
    expect_tensor(b.square(), {2}, lz::i64, {1, 0});
    expect_tensor(b.pow(2), {2}, lz::i64, {1, 0});
    expect_tensor(b.sign(), {2}, lz::boolean, {1, 0});
}

TEST(Elementwise, PowersOfIntegersKnowEveryExponent) {
    for (const int64_t e : {(int64_t{1} << 53) + 1, INT64_MAX - 2, INT64_MAX}) { // no doubles
        uint64_t wanted = 1;
        uint64_t power = 3;
        for (uint64_t left = static_cast<uint64_t>(e); left; left >>= 1, power *= power)
            if (left & 1)
                wanted *= power;
        Tensor x = lz::tensor({3, 1});
        EXPECT_EQ(lz::pow(x, e).to_vector<int64_t>(),
                  (std::vector<int64_t>{static_cast<int64_t>(wanted), 1}));
        x.pow_(e);
        EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{static_cast<int64_t>(wanted), 1}));
    }
}

TEST(Elementwise, LogicLooksAtWhetherElementsAreZero) {
    const Tensor a = lz::tensor({0.0, 0.5, 2.0}), b = lz::tensor({1, 0, 3});
    expect_tensor(lz::logical_and(a, b), {3}, lz::boolean, {0, 0, 1});
    expect_tensor(lz::logical_or(a, b), {3}, lz::boolean, {1, 1, 1});
    expect_tensor(lz::logical_xor(a, b), {3}, lz::boolean, {1, 1, 0});
    expect_tensor(lz::logical_not(a), {3}, lz::boolean, {1, 0, 0});
}

TEST(Elementwise, ComparisonsGiveBool) {
    const Tensor a = lz::tensor({1.0, 2.0, 3.0});
    expect_tensor(a == 2, {3}, lz::boolean, {0, 1, 0});
    expect_tensor(a != 2, {3}, lz::boolean, {1, 0, 1});
    expect_tensor(a < 2, {3}, lz::boolean, {1, 0, 0});
    expect_tensor(a <= 2, {3}, lz::boolean, {1, 1, 0});
    expect_tensor(2 < a, {3}, lz::boolean, {0, 0, 1});
    expect_tensor(a >= lz::tensor({1.0, 5.0, 3.0}), {3}, lz::boolean, {1, 0, 1});
    expect_tensor(a.gt(1.5).logical_not(), {3}, lz::boolean, {1, 0, 0});
}

TEST(Elementwise, FloatTests) {
    const Tensor x = lz::tensor({1.0, NAN, INFINITY, -INFINITY});
    expect_values(lz::isnan(x), {0, 1, 0, 0});
    expect_values(x.isinf(), {0, 0, 1, 1});
    expect_values(x.isfinite(), {1, 0, 0, 0});
    expect_tensor(lz::isfinite(lz::tensor({1, 2})), {2}, lz::boolean, {1, 1});
    expect_values(lz::isnan(lz::tensor({1, 2})), {0, 0});
}

TEST(Elementwise, Selection) {
    const Tensor x = lz::tensor({-1.0, 0.5, 9.0});
    expect_values(lz::where(x > 0, x, -5), {-5, 0.5, 9});
    expect_tensor(lz::where(x > 0, 1, 2), {3}, lz::i64, {2, 1, 1});
    expect_values(lz::masked_fill(x, x > 0, 7), {-1, 7, 7});
    expect_values(lz::clamp(x, 0, 1), {0, 0.5, 1});
    expect_values(x.clamp(std::nullopt, 1), {-1, 0.5, 1});
    expect_values(lz::clamp(x, lz::tensor({0.0, 0.0, 10.0}), Tensor()), {0, 0.5, 10});
    expect_values(lz::clamp(lz::tensor({NAN}), 0, 1), {NAN});
    expect_values(lz::lerp(x, x + 4, 0.25), {0, 1.5, 10});
    expect_values(lz::lerp(x, lz::tensor({3.0, 3.0, 3.0}), 1), {3, 3, 3});
    expect_error<lz::DTypeError>([&] { lz::where(x, x, x); }, {"where", "f32", "bool"});
    expect_error<lz::DTypeError>([&] { lz::masked_fill(x, x, 1); }, {"masked_fill", "bool"});
    expect_error<lz::StateError>([&] { lz::clamp(x, std::nullopt); }, {"clamp", "bound"});
}

TEST(Elementwise, WholeTensorsAreCompared) {
    const Tensor a = lz::tensor({1.0, INFINITY, NAN}), b = lz::tensor({1.0 + 1e-6, INFINITY, NAN});
    expect_values(lz::isclose(a, b), {1, 1, 0});
    expect_values(lz::isclose(a, b, 1e-5, 1e-8, true), {1, 1, 1});
    EXPECT_FALSE(lz::allclose(lz::tensor({1.0}), lz::tensor({INFINITY})));
    EXPECT_TRUE(lz::ones({3}).allclose(lz::ones({3}) + 1e-7));
    EXPECT_TRUE(lz::equal(lz::ones({2, 2}), lz::ones({2, 2})));
    EXPECT_FALSE(lz::equal(lz::ones({2, 2}), lz::ones({4})));
    EXPECT_FALSE(lz::ones({2}).equal(lz::zeros({2})));
}

TEST(Elementwise, EqualAndAllcloseTakeOneDtype) {
    const Tensor i = lz::tensor({1, 2}), f = lz::tensor({1.0, 2.0});
    expect_error<lz::DTypeError>([&] { lz::equal(i, f); }, {"equal", "i64", "f32"});
    expect_error<lz::DTypeError>([&] { lz::allclose(i, f); }, {"allclose", "i64", "f32"});
}

TEST(Elementwise, AlphaAndScaledProducts) {
    const Tensor x = lz::tensor({1.0, 2.0}), a = lz::tensor({3.0, 4.0}), b = lz::tensor({2.0, 8.0});
    expect_values(lz::add(x, a, 2), {7, 10});
    expect_values(x.sub(a, 0.5), {-0.5, 0});
    expect_values(lz::addcmul(x, a, b, 0.5), {4, 18});
    expect_values(lz::addcdiv(x, a, b, 2), {4, 3});
}

TEST(Semantics, S24_in_place_forms_are_seen_by_every_handle_and_keep_dtype_and_shape) {
    Tensor a = lz::tensor({1.0, 2.0});
    const Tensor b = a, c = a + 0;
    a.add_(1).mul_(2);
    a -= lz::tensor({1.0});
    expect_values(b, {3, 5});
    expect_values(c, {1, 2});
    a += lz::tensor({1.0, 1.0}, {.dtype = lz::f64});
    EXPECT_EQ(a.dtype(), lz::f32);
    a.fill_(4).sqrt_();
    a /= 4;
    expect_values(b, {0.5, 0.5});
    a.zero_().add_(lz::tensor({2.0, 4.0}), -0.5);
    expect_values(b, {-1, -2});
    a.copy_(lz::tensor({9}));
    expect_tensor(b, {2}, lz::f32, {9, 9});
    a.addcmul_(a, a).addcdiv_(a, a).lerp_(lz::zeros({2}), 0.5).clamp_(0, 40).masked_fill_(b > 1000, 0);
    expect_values(b, {40, 40});
    Tensor n = lz::tensor({5, 6});
    n %= 4;
    n <<= 2;
    n |= 1;
    n &= 13;
    n ^= 1;
    n >>= 2;
    expect_tensor(n, {2}, lz::i64, {1, 2});
}

template <class T>
concept ChangesInPlace = requires(T t) { static_cast<T>(t).add_(1); };
template <class T>
concept Fills = requires(T t) { static_cast<T>(t).fill_(1); };
template <class T>
concept Accumulates = requires(T t) { static_cast<T>(t) += 1; };

TEST(Semantics, S24_in_place_forms_on_a_temporary_do_not_compile) {
    static_assert(ChangesInPlace<Tensor &> && !ChangesInPlace<Tensor &&>);
    static_assert(Fills<Tensor &> && !Fills<Tensor &&>);
    static_assert(Accumulates<Tensor &> && !Accumulates<Tensor &&>);
}

TEST(Elementwise, AnInPlaceFormThatFailsChangesNothing) {
    Tensor a = lz::tensor({1.0, 2.0}), n = lz::tensor({1, 2});
    expect_error<lz::ShapeError>([&] { a.add_(lz::ones({3})); }, {"add_: shapes [2] and [3]"});
    expect_error<lz::ShapeError>([&] { a *= lz::ones({3}); }, {"mul_: shapes [2] and [3]"});
    expect_error<lz::StateError>([&] { a -= Tensor(); }, {"sub_: ", "empty"});
    expect_error<lz::ShapeError>([&] { a.add_(lz::ones({2, 2})); }, {"add_", "[2,2]", "[2]"});
    expect_error<lz::DTypeError>([&] { n.add_(0.5); }, {"add_", "f32", "i64"});
    expect_error<lz::DTypeError>([&] { n /= 2; }, {"div_", "f32", "i64"});
    expect_error<lz::ShapeError>([&] { a.copy_(lz::ones({3})); }, {"copy_", "[3]", "[2]"});
    expect_error<lz::ShapeError>([&] { a.fill_(lz::ones({3})); }, {"fill_", "[3]"});
    expect_values(a, {1, 2});
    expect_values(n, {1, 2});
}

TEST(Elementwise, EmptyHandlesAreNamed) {
    const Tensor none, x = lz::ones({2});
    expect_error<lz::StateError>([&] { none + x; }, {"add", "empty"});
    expect_error<lz::StateError>([&] { x *none; }, {"mul", "empty"});
    expect_error<lz::StateError>([&] { lz::exp(none); }, {"exp", "empty"});
    Tensor moved = x;
    const Tensor taken = std::move(moved);
    expect_error<lz::StateError>([&] { moved.sum(); },
                                 {"sum", "empty"}); // NOLINT: used after move on purpose
}

TEST(Elementwise, OperatorsKnowTheirLine) {
    const Tensor a = lz::ones({2, 3}), b = lz::ones({4});
    const auto line_of = [](const std::function<void()> &f) -> int {
        try {
            f();
        } catch (const lz::Error &error) {
            return static_cast<int>(error.line());
        }
        return -1;
    };
    EXPECT_EQ(line_of([&] { a + b; }), __LINE__);
    EXPECT_EQ(line_of([&] { a.mul(b); }), __LINE__);
    EXPECT_EQ(line_of([&] { lz::eq(a, b); }), __LINE__);
    EXPECT_EQ(line_of([&] { a[5]; }), __LINE__);
    EXPECT_EQ(line_of([&] { a.at({0, 7}); }), __LINE__);
    EXPECT_EQ(line_of([&] { lz::sum(a, 4); }), __LINE__);
}

TEST(Elementwise, TypeErrorsNameWhatWasCalled) {
    const Tensor a = lz::ones({2}), b = lz::ones({3}), whole = lz::ones({2}, {.dtype = lz::i64});
    expect_error<lz::ShapeError>([&] { lz::where(a > 0, a, b); },
                                 {"where: shapes [2] and [3] do not broadcast (axis 0: 2 against 3), at "});
    expect_error<lz::ShapeError>([&] { lz::logical_and(a, b); }, {"logical_and: shapes [2] and [3]"});
    expect_error<lz::ShapeError>([&] { lz::floor_divide(whole, b.to(lz::i64)); },
                                 {"floor_divide: shapes [2] and [3]"});
    expect_error<lz::ShapeError>([&] { lz::mse_loss(a, b); }, {"mse_loss: shapes [2] and [3]"});
    expect_error<lz::DTypeError>([&] { ~a; }, {"bitwise_not: takes bool or integers, not f32"});
    expect_error<lz::DTypeError>([&] { a & a; }, {"bitwise_and: takes bool or integers"});
    expect_error<lz::DTypeError>([&] { a << 2; }, {"bitwise_left_shift: takes integers"});
    expect_error<lz::ShapeError>([&] { lz::floor_divide(a, b); }, {"floor_divide: shapes [2] and [3]"});
    expect_error<lz::StateError>([&] { lz::addcmul(a, Tensor(), a); }, {"addcmul: the tensor is empty"});
}

} // namespace
