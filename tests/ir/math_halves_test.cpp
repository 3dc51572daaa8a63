/// Functions that are rounded to a half at once, on every number of their half type, against libm in long
/// double.

#include "ir/interpreter/kernel.h"
#include "ir/kernel/builder.h"
#include "ir/kernel/verify.h"
#include "ir/math/expand.h"

#include <cmath>
#include <cstdio>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

namespace lz::ir {
namespace {

/// What the test knows of the two types, by itself: digits of the significand, and the lowest exponent e of
/// numbers 2^e that have all of them.
struct HalfType {
    DType dtype;
    int digits, lowest;
    long double value(uint16_t bits) const {
        const int exponent_bits = 16 - digits, bias = (1 << (exponent_bits - 1)) - 1;
        const int field = (bits & 0x7fff) >> (digits - 1), all = (1 << exponent_bits) - 1;
        const long double fraction = bits & ((1 << (digits - 1)) - 1);
        long double v = 0;
        if (field == all)
            v = fraction != 0 ? std::numeric_limits<long double>::quiet_NaN()
                              : std::numeric_limits<long double>::infinity();
        else if (field == 0)
            v = std::ldexp(fraction, lowest - digits + 1);
        else
            v = std::ldexp(std::ldexp(1.0L, digits - 1) + fraction, field - bias - digits + 1);
        return (bits & 0x8000) != 0 ? -v : v;
    }
    /// The distance of neighbours at v.
    long double unit(long double v) const {
        int exponent = 0;
        std::frexp(v, &exponent);
        return std::ldexp(1.0L, std::max(v == 0 ? lowest : exponent - 1, lowest) - digits + 1);
    }
};
constexpr HalfType kF16{DType::F16, 11, -14}, kBF16{DType::BF16, 8, -126};

long double sigmoid(long double x) {
    return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

struct Row {
    KOp op;
    const HalfType &half;
    long double (*exact)(long double);
    /// How many of the results may be the second nearest number, and how far in units of the last place the
    /// worst may be: 1/2 were exact.
    int second;
    double worst;
};
const Row kRows[] = {
    {KOp::ExpF16, kF16, [](long double x) { return std::exp(x); }, 60, 0.51},
    {KOp::ExpBF16, kBF16, [](long double x) { return std::exp(x); }, 110, 0.54},
    {KOp::SigmoidF16, kF16, sigmoid, 320, 0.52},
    {KOp::SigmoidBF16, kBF16, sigmoid, 70, 0.54},
    {KOp::TanhF16, kF16, [](long double x) { return std::tanh(x); }, 450, 0.56},
    {KOp::TanhBF16, kBF16, [](long double x) { return std::tanh(x); }, 30, 0.53},
    {KOp::ErfF16, kF16, [](long double x) { return std::erf(x); }, 45, 0.51},
    {KOp::ErfBF16, kBF16, [](long double x) { return std::erf(x); }, 30, 0.53},
};

/// out[i] = half(op(f32(x[i]))) for x[i] the number of bits i.
std::vector<uint16_t> of_all(KOp op, DType half) {
    KernelBuilder b(std::string(info(op).name));
    const AxisId i = b.axis();
    const auto access = [&](BufferMode mode) {
        Access a;
        a.buffer = b.buffer(half, mode);
        a.strides = {{i, StrideClass::Contiguous, kNoArg}};
        return a;
    };
    const Access x = access(BufferMode::In), y = access(BufferMode::Out);
    b.begin_phase({i}, true);
    b.store(y, b.cast(b.emit(op, DType::F32, b.cast(b.load(x), DType::F32)), half));
    b.end_phase();
    Kernel kernel = b.take();
    verify(kernel);
    expand_math(kernel);
    verify(kernel);
    std::vector<uint16_t> in(1 << 16), out(1 << 16);
    for (size_t bits = 0; bits < in.size(); ++bits)
        in[bits] = static_cast<uint16_t>(bits);
    void *buffers[] = {in.data(), out.data()};
    const int64_t args[] = {int64_t{1} << 16};
    interpret(kernel, {.buffers = buffers, .args = args, .scalars = nullptr, .fault = nullptr});
    return out;
}

TEST(MathHalves, ResultsAreOneOfTheTwoNearestNumbersAndNearlyAllTheNearest) {
    std::printf("| function | worst ULP | at | second nearest, of 65,536 |\n");
    for (const Row &row : kRows) {
        const std::string name(info(row.op).name);
        const std::vector<uint16_t> results = of_all(row.op, row.half.dtype);
        double worst = 0;
        int second = 0;
        uint16_t at = 0;
        // Beyond the largest number infinity stands where the next one would.
        const long double past = std::ldexp(1.0L, row.half.digits == 11 ? 16 : 128);
        for (uint32_t bits = 0; bits < results.size(); ++bits) {
            const long double x = row.half.value(static_cast<uint16_t>(bits));
            const long double got = row.half.value(results[bits]), exact = row.exact(x);
            if (std::isnan(x)) {
                EXPECT_TRUE(std::isnan(got)) << name << " of the NaN " << bits;
                continue;
            }
            ASSERT_FALSE(std::isnan(got)) << name << "(" << x << ")";
            ASSERT_EQ(std::signbit(got), std::signbit(exact)) << name << "(" << x << ") = " << got;
            if (std::isinf(exact) || exact == 0 || std::fabs(exact) >= past) {
                const long double limit =
                    std::fabs(exact) >= past ? std::numeric_limits<long double>::infinity() : exact;
                ASSERT_EQ(got, limit) << name << "(" << x << ")";
                continue;
            }
            const long double finite = std::isinf(got) ? past : got;
            const long double error = std::fabs(finite - exact), unit = row.half.unit(exact);
            second += error > unit / 2;
            if (error > worst * unit) {
                worst = static_cast<double>(error / unit);
                at = static_cast<uint16_t>(bits);
            }
        }
        std::printf("| %-12s | %.3f | %a | %d |\n", name.c_str(), worst,
                    static_cast<double>(row.half.value(at)), second);
        EXPECT_LT(worst, row.worst) << name << "(" << row.half.value(at) << ")";
        EXPECT_LE(second, row.second) << name;
        EXPECT_GT(worst, 0.25) << name << ": is it computed?";
    }
}

/// They are shorter than those of f32 and have no second path.
TEST(MathHalves, ExpansionsAreShort) {
    const auto size = [](KOp op) {
        KernelBuilder b(std::string(info(op).name));
        const AxisId i = b.axis();
        Access in, out;
        in.buffer = b.buffer(DType::F32, BufferMode::In);
        out.buffer = b.buffer(DType::F32, BufferMode::Out);
        in.strides = out.strides = {{i, StrideClass::Contiguous, kNoArg}};
        b.begin_phase({i}, true);
        b.store(out, b.emit(op, DType::F32, b.load(in)));
        b.end_phase();
        Kernel kernel = b.take();
        expand_math(kernel);
        int operations = 0;
        for (const Instr &instr : kernel.instrs) {
            EXPECT_NE(instr.op, KOp::Rarely) << info(op).name;
            operations += info(instr.op).cls != KOpClass::Leaf && info(instr.op).cls != KOpClass::Memory &&
                          instr.op != KOp::Bitcast;
        }
        return operations;
    };
    const struct {
        KOp op;
        int most;
    } rows[] = {{KOp::ExpF16, 13},  {KOp::ExpBF16, 13},  {KOp::SigmoidF16, 22}, {KOp::SigmoidBF16, 21},
                {KOp::TanhF16, 19}, {KOp::TanhBF16, 14}, {KOp::ErfF16, 14},     {KOp::ErfBF16, 11}};
    for (const auto &[op, most] : rows) {
        std::printf("%s: %d operations\n", std::string(info(op).name).c_str(), size(op));
        EXPECT_LE(size(op), most) << info(op).name;
        EXPECT_GE(size(op), most / 2) << info(op).name << ": is it computed?";
    }
}

} // namespace
} // namespace lz::ir
