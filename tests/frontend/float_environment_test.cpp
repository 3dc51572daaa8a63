/// S66: whatever floating-point environment the user's threads have, kernels, library calls, compilation and
/// printing run in one of their own, and leave the user's as it was.

#include "lazuli/lazuli.h"
#include "runtime/api/parallel.h"
#include "tests/support/float_environments.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <chrono>
#include <cmath>
#include <sstream>
#include <thread>

namespace lz {
namespace {

using test::as_it_is;
using test::Environment;
using test::environments;

constexpr float kSubnormal = 0x1p-140F;

/// What depends on the rounding mode, on flushing or on traps: divisions, sums, subnormals, 0/0 and overflow;
/// elementwise, reduced, in a product, and by a library call.
std::vector<float> compute(int64_t n) {
    const Tensor x = arange(Scalar(n)).to(f32) * 0.1 + 0.3;
    std::vector<float> all = (x / 3.0).to_vector<float>();
    const auto add = [&](const Tensor &t) {
        const std::vector<float> more = t.reshape({-1}).to_vector<float>();
        all.insert(all.end(), more.begin(), more.end());
    };
    add(sum(x / 7.0));
    add(full({64}, kSubnormal) + full({64}, kSubnormal));
    add(zeros({64}) / zeros({64}));
    add(full({64}, 3e38F).eval() * 10.0);
    add(matmul(x.reshape({n / 64, 64}), full({64, 3}, 0.1F)));
    add(cumsum(x / 9.0, 0));
    const auto [sorted, order] = sort(x * -0.1);
    add(sorted);
    add(exp(x * -0.01));
    return all;
}

void expect_equal_bits(const std::vector<float> &got, const std::vector<float> &wanted, const char *where) {
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(wanted[i]))
            << where << ": element " << i << " is " << got[i] << " and not " << wanted[i];
}

TEST(Semantics, S66_kernels_run_in_one_floating_point_environment) {
    for (const int64_t n : {int64_t{128}, int64_t{1} << 19}) { // on the caller alone; on the pool
        const std::vector<float> wanted = compute(n);
        ASSERT_EQ(wanted[static_cast<size_t>(n) + 1], 2 * kSubnormal);
        for (const Environment &e : environments()) {
            compile_stats();
            std::vector<float> got;
            bool kept = false;
            std::thread([&] { // its own environment ends with it
                e.enter();
                const auto before = as_it_is();
                got = compute(n);
                kept = as_it_is() == before;
                e.leave();
            })
                .join();
            EXPECT_TRUE(kept) << e.name << ": the caller's environment is another one afterwards";
            expect_equal_bits(got, wanted, e.name);
        }
    }
}

TEST(FloatEnvironment, WorkersThatWereStartedByAnUnusualThreadComputeAsOthers) {
    const std::vector<float> wanted = compute(int64_t{1} << 19);
    const int before = num_threads();
    int threads = 3;
    for (const Environment &e : environments()) {
        std::vector<float> got;
        std::thread([&] {
            e.enter();
            set_num_threads(threads++); // a pool of this size is made here and now
            got = compute(int64_t{1} << 19);
            e.leave();
        }).join();
        expect_equal_bits(got, wanted, e.name);
        expect_equal_bits(compute(int64_t{1} << 19), wanted, e.name);
    }
    set_num_threads(before);
}

TEST(FloatEnvironment, IsTheCallersAgainWhenSomethingThrows) {
    for (const Environment &e : environments())
        std::thread([&] {
            e.enter();
            const auto before = as_it_is();
            Tensor x = full({3}, 1, {.dtype = i32}).eval() / full({3}, 0, {.dtype = i32}).eval();
            bool threw = false;
            try {
                floor_divide(full({3}, 1, {.dtype = i32}).eval(), full({3}, 0, {.dtype = i32}).eval())
                    .to_vector<int32_t>(); // waits, on a GPU too
            } catch (const Error &) {
                threw = true;
            }
            const bool kept = as_it_is() == before;
            e.leave();
            EXPECT_TRUE(threw);
            EXPECT_TRUE(kept) << e.name;
        }).join();
}

/// Wherever a loop of the library's is shared with other threads, also while something is compiled.
TEST(FloatEnvironment, TheCallersFlagsOutliveAParallelLoop) {
    for (const Environment &e : environments())
        std::thread([&] {
            e.enter();
#if defined(__x86_64__) // not by feraiseexcept, which raises it in the x87 unit
            _mm_setcsr(_mm_getcsr() | _MM_EXCEPT_INEXACT | _MM_EXCEPT_DENORM);
#else
            std::feraiseexcept(FE_INEXACT);
#endif
            const auto before = as_it_is();
            runtime::parallel_for(64, 1, [](int64_t begin, int64_t end) {
                std::this_thread::sleep_for(std::chrono::microseconds(10 * (end - begin)));
            });
            const bool kept = as_it_is() == before;
            e.leave();
            EXPECT_TRUE(kept) << e.name;
        }).join();
}

TEST(FloatEnvironment, LiteralsAreFoldedAsKernelsCompute) {
    // Literals of the library's own compositions meet while compiling: with a caller that rounds up too.
    std::thread([] {
        std::fesetround(FE_UPWARD);
        const std::vector<float> up = mean(arange(Scalar(7)).to(f32)).to_vector<float>();
        const std::vector<float> line = linspace(0, 1, 11).to_vector<float>();
        std::fesetround(FE_TONEAREST);
        EXPECT_EQ(up[0], 3.0F);
        EXPECT_EQ(line, linspace(0, 1, 11).to_vector<float>());
    }).join();
}

/// Elements that leave and numbers that enter by way of f64: `item`, a 0-dim CPU operand of a kernel (which
/// enters as a number), numbers beside tensors.
TEST(FloatEnvironment, OneNumberIsReadAndEntersAsItIs) {
    const std::vector<std::pair<Tensor, double>> ready = {
        {full({}, kSubnormal).eval(), kSubnormal},
        {full({1}, kSubnormal).eval(), kSubnormal},
        {full({}, 0x1p-130, {.dtype = bf16}).eval(), 0x1p-130},
        {full({}, 5e-324, {.dtype = f64}).eval(), 5e-324},
    };
    constexpr int64_t large = (int64_t{1} << 53) + 1; // between two numbers of f64
    for (const Environment &e : environments()) {
        std::vector<double> items;
        std::vector<float> narrow;
        std::vector<bool> truths;
        std::vector<Tensor> entered, integers;
        std::vector<uint8_t> filled;
        std::thread([&] {
            e.enter();
            for (const auto &[x, wanted] : ready) {
                items.push_back(x.item<double>());
                narrow.push_back(x.item<float>());
                truths.push_back(x.item<bool>());
                entered.push_back(
                    (where(ones({3}, {.dtype = boolean}), x, zeros({3}, {.dtype = x.dtype()}))).eval());
            }
            for (const int64_t sign : {1, -1}) {
                integers.push_back(full({2}, sign * large, {.dtype = f64}).eval());
                integers.push_back((ones({2}, {.dtype = f64}) * (sign * large)).eval());
                integers.push_back(
                    tensor({sign * large, sign * large, 0.5}, {.dtype = f64}).slice(0, 0, 2).eval());
            }
            filled = full({1}, 5e-324, {.dtype = boolean}).to(u8).to_vector<uint8_t>();
            e.leave();
        }).join();
        for (size_t k = 0; k < ready.size(); ++k) {
            EXPECT_EQ(items[k], ready[k].second) << e.name;
            EXPECT_EQ(narrow[k], static_cast<float>(ready[k].second)) << e.name;
            EXPECT_TRUE(truths[k]) << e.name;
            EXPECT_EQ(entered[k].to(f64).to_vector<double>(), std::vector<double>(3, ready[k].second))
                << e.name;
        }
        for (size_t k = 0; k < integers.size(); ++k)
            EXPECT_EQ(integers[k].to_vector<double>(),
                      std::vector<double>(2, (k < 3 ? 1 : -1) * static_cast<double>(large - 1)))
                << e.name << " " << k;
        EXPECT_EQ(filled, std::vector<uint8_t>{1}) << e.name;
    }
}

TEST(FloatEnvironment, PrintingRoundsToNearest) {
    const Tensor x = full({2}, 0.12345678F);
    std::ostringstream plain, up;
    plain << x << full({1}, kSubnormal);
    std::thread([&] {
        std::fesetround(FE_UPWARD);
        up << x << full({1}, kSubnormal);
        std::fesetround(FE_TONEAREST);
    }).join();
    EXPECT_EQ(up.str(), plain.str());
}

TEST(FloatEnvironment, FunctionsOfTheUsersRunAsKernelsDoAndCannotChangeIt) {
    register_call(
        "test.rounds_up",
        [](std::span<const CallType> in) { return std::vector<CallType>{{f32, in[0].shape}}; },
        [](std::span<const CallInput> in, std::span<const CallOutput> out) {
            out[0].values<float>()[0] = static_cast<float>(std::fegetround() == FE_TONEAREST);
            std::fesetround(FE_UPWARD);
            (void)in;
        });
    std::thread([] {
        std::fesetround(FE_DOWNWARD);
        const Tensor x = full({1}, 1.0F).eval();
        const Tensor y = call("test.rounds_up", {x})[0];
        const Tensor z = y / 3.0; // a kernel after it in the same run
        EXPECT_EQ(y.item<float>(), 1.0F);
        EXPECT_EQ(z.item<float>(), 1.0F / 3.0F > 0 ? 0x1.555556p-2F : 0);
        EXPECT_EQ(std::fegetround(), FE_DOWNWARD);
        std::fesetround(FE_TONEAREST);
    }).join();
}

} // namespace
} // namespace lz
