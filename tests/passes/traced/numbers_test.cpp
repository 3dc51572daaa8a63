#include "passes/traced/real.h"

#include <gtest/gtest.h>

#include <vector>

namespace lz::traced {
namespace {

/// Numbers of one test, written on its tape.
class Numbers : public testing::Test {
protected:
    Numbers() { current_tape = &tape_; }
    ~Numbers() override { current_tape = nullptr; }

    Int parameter(uint32_t k, int64_t value) { return {value, tape_.parameter(k)}; }
    bool holds(std::vector<int64_t> parameters) { return tape_.play(parameters, values_); }
    int64_t at(Int number, std::vector<int64_t> parameters) {
        EXPECT_TRUE(holds(std::move(parameters)));
        return number.expression() == kConstant ? number.value() : values_[number.expression()];
    }

    Tape tape_;
    std::vector<int64_t> values_;
};

TEST_F(Numbers, ArithmeticIsTheSameForOtherParameters) {
    const Int n = parameter(0, 10), m = parameter(1, 3);
    const auto all = [](auto n, auto m) {
        return std::vector<decltype(n)>{n + m,  n - m,  n * m, n / m, n % m,
                                        n << 2, n >> 1, n & m, n | m, n ^ m,
                                        -n,     ~n,     n + 0, n * 1, (n + 63) / 64 * 64};
    };
    const std::vector<Int> traced = all(n, m);
    for (const int64_t other : {10, 77, 1000}) {
        const std::vector<int64_t> plain = all(other, other / 2 + 1);
        for (size_t k = 0; k < plain.size(); ++k)
            EXPECT_EQ(at(traced[k], {other, other / 2 + 1}), plain[k]) << k;
    }
    EXPECT_EQ(at(minimum(n, Int(64)), {100, 1}), 64);
    EXPECT_EQ(at(maximum(n, m), {100, 101}), 101);
    EXPECT_EQ(at(greatest_divisor(n, Int(12)), {18, 1}), 6);
    EXPECT_EQ(tape_.conditions(), 0u);
}

TEST_F(Numbers, ConstantsAreNotWritten) {
    const size_t before = tape_.size();
    const Int sum = Int(3) * Int(4) + Int(5);
    EXPECT_TRUE(sum == 17 && sum > 2 && static_cast<int>(sum) == 17);
    EXPECT_EQ(tape_.size(), before);
}

TEST_F(Numbers, ComparisonsAreConditions) {
    const Int n = parameter(0, 10);
    EXPECT_TRUE(n > 4);
    EXPECT_FALSE(n == 12);
    EXPECT_TRUE(n % 2 == 0);
    EXPECT_EQ(tape_.conditions(), 3u);
    EXPECT_TRUE(n > 4); // nothing new
    EXPECT_EQ(tape_.conditions(), 3u);
    EXPECT_TRUE(holds({10}));
    EXPECT_TRUE(holds({14}));
    EXPECT_FALSE(holds({4}));
    EXPECT_FALSE(holds({12}));
    EXPECT_FALSE(holds({15}));
}

TEST_F(Numbers, EqualExpressionsNeedNoCondition) {
    const Int n = parameter(0, 10);
    EXPECT_TRUE(n * 4 + 1 == 1 + 4 * n);
    EXPECT_TRUE(n <= n);
    EXPECT_EQ(tape_.conditions(), 0u);
}

TEST_F(Numbers, ConversionsPin) {
    const Int n = parameter(0, 10);
    EXPECT_EQ(static_cast<size_t>(n + 1), 11u);
    EXPECT_TRUE(holds({10}));
    EXPECT_FALSE(holds({11}));
}

TEST_F(Numbers, EstimatesAreComparedAndNotPinned) {
    const Int n = parameter(0, 100);
    const Real seconds = static_cast<Real>(n) * 8 / 1e9;
    EXPECT_LT(seconds, Real(1e-6));
    EXPECT_TRUE(holds({124}));
    EXPECT_FALSE(holds({126}));
    EXPECT_EQ(at(static_cast<Int>(seconds * 1e9), {50}), 400);
}

TEST_F(Numbers, FunctionsAreCalledAgain) {
    const Int n = parameter(0, 10);
    const Int twice = n * 2;
    const Tape::Argument arguments[] = {{twice.expression(), twice.value()}, {kConstant, 3}};
    Expression sum = tape_.call([](auto given, auto result) { result[0] = given[0] + given[1]; }, arguments);
    EXPECT_EQ(at(Int(23, sum), {10}), 23);
    Expression *kept[] = {&sum};
    tape_.finish(kept);
    EXPECT_EQ(at(Int(23, sum), {50}), 103);
}

TEST_F(Numbers, FunctionsOfSeveralNumbersAreCalledOnce) {
    const Int n = parameter(0, 10);
    const Tape::Argument arguments[] = {{n.expression(), n.value()}};
    int calls = 0;
    const Expression first = tape_.call(
        [&calls](auto given, auto results) {
            ++calls;
            results[0] = given[0] + 1;
            results[1] = given[0] * 2;
            results[2] = -given[0];
        },
        arguments, 3);
    Int of_second = Int(20, first + 1) + n, third(-10, first + 2);
    EXPECT_LT(third, n);
    Expression name = of_second.expression();
    Expression *kept[] = {&name};
    tape_.finish(kept);
    EXPECT_EQ(at(Int(0, name), {50}), 150);
    EXPECT_EQ(calls, 1);
    EXPECT_FALSE(holds({-50}));
}

TEST_F(Numbers, OneConditionSaysLessOrEqual) {
    const Real seconds = static_cast<Real>(parameter(0, 10)) / 4;
    EXPECT_TRUE(seconds <= 2.5);
    EXPECT_TRUE(seconds >= 1.0);
    EXPECT_TRUE(holds({4}));
    EXPECT_TRUE(holds({9}));
    EXPECT_FALSE(holds({3}));
    EXPECT_FALSE(holds({11}));
}

TEST_F(Numbers, WhatIsNotNeededIsForgotten) {
    const Int n = parameter(0, 10);
    Int kept = n * 3, lost = n * 5 + 7;
    EXPECT_LT(n, 100);
    Expression name = kept.expression();
    Expression *names[] = {&name};
    const size_t before = tape_.size();
    tape_.finish(names);
    EXPECT_LT(tape_.size(), before);
    EXPECT_EQ(at(Int(0, name), {20}), 60);
    EXPECT_FALSE(holds({100}));
    EXPECT_NE(lost.expression(), kConstant);
}

} // namespace
} // namespace lz::traced
