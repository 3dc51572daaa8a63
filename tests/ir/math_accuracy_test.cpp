/// Every expanded math function over all exponents and both signs, against libm in a wider format.

#include "ir/interpreter/kernel.h"
#include "ir/kernel/builder.h"
#include "ir/kernel/facts/rare.h"
#include "ir/kernel/verify.h"
#include "ir/math/expand.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

namespace lz::ir {
namespace {

template <class T>
constexpr DType kDType = sizeof(T) == 4 ? DType::F32 : DType::F64;
template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
/// A format with enough more digits than T, in which libm is exact for our purpose.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;

/// A kernel out[i] = op(x[i], y[i]), expanded.
Kernel elementwise(KOp op, DType dtype, Accuracy accuracy = Accuracy::TwoUlp) {
    KernelBuilder b(std::string(info(op).name));
    const AxisId i = b.axis();
    const auto access = [&](BufferMode mode) {
        Access a;
        a.buffer = b.buffer(dtype, mode);
        a.strides = {{i, StrideClass::Contiguous, kNoArg}};
        return a;
    };
    const Access x = access(BufferMode::In), y = access(BufferMode::In), out = access(BufferMode::Out);
    b.begin_phase({i}, true);
    const KValue v = b.load(x);
    const KValue w = info(op).operands == 2 ? b.load(y) : kNoValue;
    b.store(out, b.emit(op, dtype, v, w));
    b.end_phase();
    Kernel kernel = b.take();
    expand_math(kernel, {.accuracy = accuracy});
    verify(kernel);
    for (const Instr &instr : kernel.instrs)
        EXPECT_NE(info(instr.op).cls, KOpClass::Math) << info(instr.op).name << " is left after expand_math";
    return kernel;
}

template <class T>
std::vector<T> run(const Kernel &kernel, const std::vector<T> &x, const std::vector<T> &y) {
    std::vector<T> out(x.size());
    void *buffers[] = {const_cast<T *>(x.data()), const_cast<T *>(y.data()), out.data()};
    const int64_t args[] = {static_cast<int64_t>(x.size())};
    interpret(kernel, {.buffers = buffers, .args = args, .scalars = nullptr, .fault = nullptr});
    return out;
}

/// Distance in units of the last place of the correctly rounded result. Infinity stands where the next power
/// of two would; NaN is at distance 0 from NaN only.
template <class T>
double ulps(T got, Wide<T> exact) {
    const T rounded = static_cast<T>(exact);
    if (std::isnan(rounded) || std::isnan(got))
        return std::isnan(rounded) && std::isnan(got) ? 0 : std::numeric_limits<double>::infinity();
    if (got == rounded)
        return std::signbit(got) == std::signbit(rounded) ? 0.0 : std::numeric_limits<double>::infinity();
    constexpr int kDigits = std::numeric_limits<T>::digits;
    const Wide<T> past = std::ldexp(Wide<T>{1}, std::numeric_limits<T>::max_exponent);
    const auto finite = [past](auto v) -> Wide<T> {
        return std::isinf(v) ? std::copysign(past, static_cast<Wide<T>>(v)) : Wide<T>{v};
    };
    if (std::isinf(exact) && std::isinf(rounded) && !std::isinf(got))
        return std::numeric_limits<double>::infinity();
    int exponent = 0;
    std::frexp(std::min(std::fabs(finite(rounded)), static_cast<Wide<T>>(std::numeric_limits<T>::max())),
               &exponent);
    exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);
    return static_cast<double>(std::ldexp(
        std::fabs(finite(got) - (std::isinf(rounded) ? finite(rounded) : exact)), kDigits - exponent));
}

/// Arguments: every exponent, both signs, `count` random mantissas each, and the first and last mantissa.
template <class T>
std::vector<T> all_exponents(int count, uint64_t seed) {
    constexpr int kMantissa = std::numeric_limits<T>::digits - 1;
    constexpr int kExponents = sizeof(T) == 4 ? 255 : 2047;
    const uint64_t mask = (uint64_t{1} << kMantissa) - 1;
    std::mt19937_64 random(seed);
    std::vector<T> out;
    for (uint64_t e = 0; e < kExponents; ++e)
        for (uint64_t sign = 0; sign < 2; ++sign)
            for (int i = 0; i < count; ++i) {
                const uint64_t m = i == 0 ? 0 : i == 1 ? mask : random() & mask;
                const uint64_t bits = (sign * (kExponents + 1) + e) << kMantissa | m;
                out.push_back(std::bit_cast<T>(static_cast<Bits<T>>(bits)));
            }
    return out;
}

template <class T>
std::vector<T> specials() {
    using L = std::numeric_limits<T>;
    std::vector<T> out;
    for (const T v : {T{0}, L::denorm_min(), L::min(), L::epsilon(), T(0.5), T(1), T(1.5), T(2), T(3), T(4),
                      T(1023), T(131072), T(16777215), T(16777216), T(9007199254740991.0),
                      T(9007199254740992.0), L::max(), L::infinity(), L::quiet_NaN()})
        for (const T s : {v, -v}) {
            out.push_back(s);
            if (std::isfinite(s) && s != 0) {
                out.push_back(std::nextafter(s, T(0)));
                out.push_back(std::nextafter(s, s * 2));
            }
        }
    return out;
}

struct Unary {
    KOp op;
    double (*f32)(double);
    long double (*f64)(long double);
    double low = 0,
           high = 0; ///< where to look densely: the range in which the function is neither trivial nor done
};

#define LZ_LIBM(E, f, low, high)                                                                             \
    {KOp::E, [](double x) { return static_cast<double>(std::f(x)); },                                        \
     [](long double x) { return std::f(x); }, low, high}
const Unary kUnary[] = {
    LZ_LIBM(Exp, exp, -750, 712),
    LZ_LIBM(Expm1, expm1, -50, 712),
    LZ_LIBM(Log, log, 0.25, 4),
    LZ_LIBM(Log1p, log1p, -1, 4),
    LZ_LIBM(Log2, log2, 0.25, 4),
    LZ_LIBM(Log10, log10, 0.25, 4),
    {KOp::Rsqrt, [](double x) { return 1 / std::sqrt(x); }, [](long double x) { return 1 / std::sqrt(x); }, 0,
     4},
    LZ_LIBM(Sin, sin, -1000, 1000),
    LZ_LIBM(Cos, cos, -1000, 1000),
    LZ_LIBM(Tan, tan, -1000, 1000),
    LZ_LIBM(Asin, asin, -1, 1),
    LZ_LIBM(Acos, acos, -1, 1),
    LZ_LIBM(Atan, atan, -8, 8),
    LZ_LIBM(Sinh, sinh, -712, 712),
    LZ_LIBM(Cosh, cosh, -712, 712),
    LZ_LIBM(Tanh, tanh, -22, 22),
    LZ_LIBM(Erf, erf, -6.5, 6.5),
    {KOp::Sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); },
     [](long double x) { return 1 / (1 + std::exp(-x)); }, -750, 50},
};

/// And the functions of math.def that have no row here: their reference columns, densely where most functions
/// bend.
std::vector<Unary> functions_of_one() {
    std::vector<Unary> all(std::begin(kUnary), std::end(kUnary));
#define LZ_MATH1(E, f, cost, reference)                                                                      \
    if (std::ranges::find(kUnary, KOp::E, &Unary::op) == std::end(kUnary))                                   \
        all.push_back({KOp::E, [](double x) -> double { return reference; },                                 \
                       [](long double x) -> long double { return reference; }, -8, 8});
#include "ir/math/math.def"
    return all;
}

struct Worst {
    double ulp = 0;
    double x = 0, y = 0, got = 0, exact = 0;
    int64_t count = 0;
};

template <class T>
void add_range(std::vector<T> &x, double low, double high, int count, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> uniform(low, high);
    for (int i = 0; i < count; ++i) {
        x.push_back(static_cast<T>(uniform(random)));
        x.push_back(static_cast<T>(uniform(random) / 16));
    }
}

template <class T, class F>
Worst compare(KOp op, const std::vector<T> &x, const std::vector<T> &y, F exact) {
    const Kernel kernel = elementwise(op, kDType<T>);
    const std::vector<T> got = run(kernel, x, y);
    Worst worst;
    for (size_t i = 0; i < x.size(); ++i) {
        const Wide<T> e = exact(static_cast<Wide<T>>(x[i]), static_cast<Wide<T>>(y[i]));
        const double u = ulps<T>(got[i], e);
        if (u > worst.ulp || i == 0)
            worst = {u, static_cast<double>(x[i]), static_cast<double>(y[i]), static_cast<double>(got[i]),
                     static_cast<double>(e)};
    }
    worst.count = static_cast<int64_t>(x.size());
    int size = 0;
    const RareParts rare(kernel);
    for (KValue v = 0; v < kernel.instrs.size(); ++v) {
        const Instr &instr = kernel.instrs[v];
        size += info(instr.op).cls != KOpClass::Leaf && info(instr.op).cls != KOpClass::Memory &&
                instr.op != KOp::Bitcast && !rare.only_for(v);
    }
    std::printf("| %-8s | %s | %6.3f | %4d | %9lld | %a%s |\n", std::string(info(op).name).c_str(),
                sizeof(T) == 4 ? "f32" : "f64", worst.ulp, size, static_cast<long long>(worst.count), worst.x,
                info(op).operands == 2 ? (", " + std::to_string(worst.y)).c_str() : "");
    return worst;
}

template <class T>
void sweep_unary(int per_exponent, int dense) {
    std::printf("| function | dtype | max ULP | operations | arguments | worst at |\n");
    for (const Unary &row : functions_of_one()) {
        std::vector<T> x = all_exponents<T>(per_exponent, 1);
        const std::vector<T> edges = specials<T>();
        x.insert(x.end(), edges.begin(), edges.end());
        add_range(x, row.low, row.high, dense, 2);
        const Worst w = compare<T>(row.op, x, x, [&](Wide<T> v, Wide<T>) {
            if constexpr (sizeof(T) == 4)
                return row.f32(v);
            else
                return row.f64(v);
        });
        EXPECT_LE(w.ulp, 2) << info(row.op).name << "(" << w.x << ") = " << w.got << ", exactly " << w.exact;
    }
}

TEST(MathAccuracy, F32FunctionsAreWithinTwoUlp) {
    sweep_unary<float>(1 << 10, 1 << 18);
}
TEST(MathAccuracy, F64FunctionsAreWithinTwoUlp) {
    sweep_unary<double>(1 << 5, 1 << 16);
}

/// Also of negative powers, which are rounded: the exact result is off a whole number by less than it shows.
template <class T>
void expect_whole_logarithms() {
    std::vector<T> x, exponents;
    for (int k = std::numeric_limits<T>::min_exponent10; k <= std::numeric_limits<T>::max_exponent10; ++k) {
        x.push_back(static_cast<T>(std::strtold(("1e" + std::to_string(k)).c_str(), nullptr)));
        exponents.push_back(static_cast<T>(k));
    }
    EXPECT_EQ(run(elementwise(KOp::Log10, kDType<T>), x, x), exponents);
}
TEST(MathAccuracy, LogarithmsOfPowersOfTenAreWholeNumbers) {
    expect_whole_logarithms<float>();
    expect_whole_logarithms<double>();
}

/// The numbers nearest to quarter and half turns, where all of the argument cancels but its last places.
TEST(MathAccuracy, ArgumentsNextToMultiplesOfAQuarterTurn) {
    std::vector<double> x;
    const long double quarter =
        1.57079632679489661923132169163975144L; // and 2^-65 more, of which n is left out
    for (int n = 1; n < (1 << 18); n += n < 4096 ? 1 : 7) {
        const auto nearest = static_cast<double>(quarter * n);
        for (const double v : {std::nextafter(nearest, 0.0), nearest, std::nextafter(nearest, 1e9)})
            x.insert(x.end(), {v, -v});
    }
    for (const Unary &row : functions_of_one()) {
        if (row.op != KOp::Sin && row.op != KOp::Cos && row.op != KOp::Tan)
            continue;
        const Worst w = compare<double>(row.op, x, x, [&](long double v, long double) { return row.f64(v); });
        EXPECT_LE(w.ulp, 2) << info(row.op).name << "(" << w.x << ") = " << w.got << ", exactly " << w.exact;
    }
}

// --- two operands

template <class T>
struct Pairs {
    std::vector<T> x, y;
};

/// All pairs of special values, random exponents of both, and pairs for which the result is neither 0 nor
/// infinite.
template <class T>
Pairs<T> pairs(KOp op, int count) {
    Pairs<T> out;
    const auto add = [&](T x, T y) {
        out.x.push_back(x);
        out.y.push_back(y);
    };
    for (const T x : specials<T>())
        for (const T y : specials<T>())
            add(x, y);
    const std::vector<T> a = all_exponents<T>(sizeof(T) == 4 ? 64 : 8, 3),
                         b = all_exponents<T>(sizeof(T) == 4 ? 64 : 8, 4);
    std::mt19937_64 random(5);
    std::uniform_real_distribution<double> unit(-1, 1);
    const double span = sizeof(T) == 4 ? 150 : 1075;
    for (int i = 0; i < count; ++i) {
        const T x = a[random() % a.size()], y = b[random() % b.size()];
        add(x, y);
        // One near the other, small integers, and near 1.
        add(x, static_cast<T>(x * static_cast<T>(1 + unit(random))));
        add(static_cast<T>(std::floor(40 * unit(random))), static_cast<T>(std::floor(40 * unit(random))));
        add(static_cast<T>(40 * unit(random)), static_cast<T>(unit(random)));
        add(static_cast<T>(1 + unit(random) / 1024), static_cast<T>(1e5 * unit(random)));
        if (op == KOp::Fmod) { // whole multiples, what lies beside them, and quotients of 2^22 and 2^51
            const int shift = i % 3 == 0 ? 0 : sizeof(T) == 4 ? 17 : 46;
            const T n = static_cast<T>(std::ldexp(std::floor(40 * unit(random)), shift)), whole = n * y;
            for (const T beside : {whole, std::nextafter(whole, T(0)), std::nextafter(whole, whole * 2)})
                add(beside, y);
        }
        if (op == KOp::Pow && x != 0 && std::isfinite(x))
            add(std::fabs(x),
                static_cast<T>(span * unit(random) / (std::log2(std::fabs(static_cast<double>(x))) + 1e-9)));
        if (op == KOp::Pow && i % 8 == 0 && x != 0 && std::isfinite(x)) // results around 2^14 and 2^-14
            add(std::fabs(x), static_cast<T>(std::copysign(14 + unit(random) * 0x1p-10, unit(random)) /
                                             (std::log2(std::fabs(static_cast<double>(x))) + 1e-9)));
    }
    return out;
}

template <class T>
void sweep_binary(int count) {
    std::printf("| function | dtype | max ULP | operations | arguments | worst at |\n");
    const auto check = [&](KOp op, auto exact, double limit) {
        const Pairs<T> p = pairs<T>(op, count);
        const Worst w = compare<T>(op, p.x, p.y, exact);
        EXPECT_LE(w.ulp, limit) << info(op).name << "(" << w.x << ", " << w.y << ") = " << w.got
                                << ", exactly " << w.exact;
    };
    using W = Wide<T>;
    check(KOp::Pow, [](W x, W y) { return std::pow(x, y); }, 2);
#define LZ_MATH2(E, f, cost, reference) check(KOp::E, [](W x, W y) -> W { return reference; }, 2);
#include "ir/math/math.def"
    check(
        KOp::Fmod, [](W x, W y) { return static_cast<W>(std::fmod(static_cast<T>(x), static_cast<T>(y))); },
        0);
}

TEST(MathAccuracy, F32FunctionsOfTwoAreWithinTwoUlp) {
    sweep_binary<float>(1 << 16);
}
TEST(MathAccuracy, F64FunctionsOfTwoAreWithinTwoUlp) {
    sweep_binary<double>(1 << 14);
}

/// What LAZULI_FAST_MATH leaves of pow's accuracy; zeros, infinities and NaN are where they were.
template <class T>
void expect_fast_pow() {
    const Pairs<T> p = pairs<T>(KOp::Pow, sizeof(T) == 4 ? 1 << 15 : 1 << 13);
    const std::vector<T> fast = run(elementwise(KOp::Pow, kDType<T>, Accuracy::Fast), p.x, p.y),
                         right = run(elementwise(KOp::Pow, kDType<T>), p.x, p.y);
    constexpr double kUnit = std::numeric_limits<T>::epsilon() / 2, kLeast = std::numeric_limits<T>::min();
    double worst = 0;
    for (size_t i = 0; i < fast.size(); ++i) {
        const double got = fast[i], exact = right[i], x = p.x[i], y = p.y[i];
        const std::string what =
            "pow(" + std::to_string(x) + ", " + std::to_string(y) + ") = " + std::to_string(got);
        if (std::isnan(exact)) {
            EXPECT_TRUE(std::isnan(got)) << what;
        } else if (std::isinf(exact) || exact == 0 || std::abs(exact) < 2 * kLeast) {
            const bool beside = std::isinf(exact) ? std::abs(got) > std::numeric_limits<T>::max() / 2
                                                  : std::abs(got) < 4 * kLeast;
            EXPECT_TRUE(beside && std::signbit(got) == std::signbit(exact)) << what << ", exactly " << exact;
        } else if (std::isinf(got)) {
            EXPECT_GT(std::abs(exact), std::numeric_limits<T>::max() * (1 - 256 * kUnit)) << what;
        } else {
            const double error = std::abs(got - exact) / std::abs(exact) / kUnit;
            worst = std::max(worst, error / (4 + 2 * std::abs(y * std::log2(std::abs(x)))));
        }
    }
    EXPECT_LE(worst, 1);
    EXPECT_GT(worst, 0.01); // it is another function
}
TEST(MathAccuracy, FastPowIsAsRightAsItsExponent) {
    expect_fast_pow<float>();
    expect_fast_pow<double>();
}

} // namespace
} // namespace lz::ir
