// Functions of the user's own as operations, against plain C++.
#include "tests/support/tensor_values.h"

#include <lazuli/call.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace {

using namespace lz::test;
using lz::CallInput;
using lz::CallOutput;
using lz::CallType;
using lz::Tensor;

std::vector<CallType> like_the_first(std::span<const CallType> in) {
    return {in[0]};
}

/// Rows that are longer than a bound, which is a number, are cut to it; the second result says which.
const bool registered = [] {
    lz::register_call(
        "call_test.clip_rows",
        [](std::span<const CallType> in) {
            if (in.size() != 2 || in[0].shape.size() != 2)
                throw lz::ShapeError("it takes a matrix and a bound", {});
            if (in[0].dtype != lz::f32)
                throw lz::DTypeError("it takes f32", {});
            return std::vector<CallType>{in[0], {lz::boolean, {in[0].shape[0]}}};
        },
        [](std::span<const CallInput> in, std::span<const CallOutput> out) {
            const auto x = in[0].values<float>();
            const float bound = in[1].values<float>()[0];
            const auto y = out[0].values<float>();
            const auto cut = out[1].values<bool>();
            for (int64_t i = 0; i < in[0].shape[0]; ++i) {
                double square = 0;
                for (int64_t k = 0; k < in[0].shape[1]; ++k)
                    square += std::pow(x[static_cast<size_t>(i * in[0].strides[0] + k)], 2.0);
                cut[static_cast<size_t>(i)] = std::sqrt(square) > bound;
                const double factor = cut[static_cast<size_t>(i)] ? bound / std::sqrt(square) : 1;
                for (int64_t k = 0; k < in[0].shape[1]; ++k) {
                    const auto at = static_cast<size_t>(i * in[0].strides[0] + k);
                    y[at] = static_cast<float>(x[at] * factor);
                }
            }
        });
    lz::register_call("call_test.refuse_negative", like_the_first,
                      [](std::span<const CallInput> in, std::span<const CallOutput> out) {
                          const auto x = in[0].values<float>();
                          for (size_t i = 0; i < x.size(); ++i) {
                              if (x[i] < 0)
                                  throw std::domain_error("element " + std::to_string(i) + " is negative");
                              out[0].values<float>()[i] = std::sqrt(x[i]);
                          }
                      });
    lz::register_call(
        "call_test.wrong_dtype", like_the_first,
        [](std::span<const CallInput> in, std::span<const CallOutput>) { (void)in[0].values<double>(); });
    lz::register_call("call_test.no_result", [](auto) { return std::vector<CallType>(); }, [](auto, auto) {});
    lz::register_call(
        "call_test.nine_axes",
        [](auto) { return std::vector<CallType>{{lz::f32, std::vector<int64_t>(9, 1)}}; }, [](auto, auto) {});
    lz::register_call(
        "call_test.count", [](auto) { return std::vector<CallType>{{lz::i64, {5}}}; },
        [](std::span<const CallInput>, std::span<const CallOutput> out) {
            for (size_t i = 0; i < 5; ++i)
                out[0].values<int64_t>()[i] = static_cast<int64_t>(i);
        });
    return true;
}();

TEST(Call, ItIsAnOperationLikeAnyOther) {
    const Tensor x = lz::tensor({{3.0, 4.0}, {0.5, 0.0}, {0.0, -2.0}});
    const std::vector<Tensor> both = lz::call("call_test.clip_rows", {x * 2, lz::tensor(2.0)});
    ASSERT_EQ(both.size(), 2u);
    EXPECT_EQ(both[0].device(), x.device());
    expect_tensor(both[0] + 1, {3, 2}, lz::f32, {2.2, 2.6, 2, 1, 1, -1}, 1e-6);
    expect_tensor(both[1], {3}, lz::boolean, {1, 0, 1});
    expect_tensor(lz::call("call_test.count", {})[0] * 2, {5}, lz::i64, {0, 2, 4, 6, 8});
    // Views are dense when it sees them, and empty tensors are fine.
    expect_values(
        lz::call("call_test.refuse_negative", {x.permute({1, 0})[0] * lz::tensor({3.0, 2.0, 7.0})})[0],
        {3, 1, 0});
    EXPECT_EQ(lz::call("call_test.clip_rows", {lz::zeros({0, 4}), lz::tensor(1.0)})[0].numel(), 0);
}

TEST(Call, OneResultMayBeAskedForWithoutTheOther) {
    std::vector<Tensor> both = lz::call("call_test.clip_rows", {lz::ones({2, 4}), lz::tensor(1.0)});
    expect_values(both[1], {1, 1});
    expect_values(both[0], std::vector<double>(8, 0.5));
    both = lz::call("call_test.clip_rows", {lz::ones({2, 4}), lz::tensor(4.0)});
    both.erase(both.begin());
    expect_values(both[0], {0, 0});
}

TEST(Call, ALoopCompilesItOnce) {
    Tensor x = lz::ones({4, 4});
    x.eval();
    const auto step = [&](double bound) {
        x = lz::call("call_test.clip_rows", {x * 3, lz::full({}, bound)})[0];
        x.eval();
        lz::sync(); // what may still fail is not overwritten: that would be another program
    };
    step(100);
    step(50);
    const int64_t compiled = lz::compile_stats().programs_compiled;
    for (int i = 0; i < 5; ++i)
        step(10 - i);
    EXPECT_EQ(lz::compile_stats().programs_compiled, compiled);
    expect_values(x, std::vector<double>(16, 3.0));
}

TEST(Call, NothingIsFusedIntoIt) {
    const Tensor x = lz::ones({4, 4}), bound = lz::ones({1});
    lz::eval({x, bound});
    const Tensor y = lz::call("call_test.clip_rows", {x * 2 + 1, bound})[0] * 2 + 1;
    const std::string text = lz::explain(y);
    EXPECT_NE(text.find("2 kernels and 1 library call"), std::string::npos) << text;
    EXPECT_NE(text.find("call call_test.clip_rows"), std::string::npos) << text;
    EXPECT_NE(lz::verify_schedule(y).find("Every two conflicting accesses are ordered"), std::string::npos);
}

TEST(Call, MistakesAreThrownAtItsLine) {
    const Tensor x = lz::ones({2, 2});
    const uint32_t line = __LINE__ + 2;
    try {
        lz::call("call_test.clip_rows", {x});
        ADD_FAILURE();
    } catch (const lz::ShapeError &error) {
        EXPECT_EQ(error.line(), line);
        EXPECT_NE(std::string(error.what()).find("call_test.clip_rows: it takes a matrix and a bound, at"),
                  std::string::npos)
            << error.what();
    }
    expect_error<lz::DTypeError>([&] { lz::call("call_test.clip_rows", {x.to(lz::f64), x}); },
                                 {"it takes f32"});
    expect_error<lz::StateError>([&] { lz::call("call_test.clip", {x}); },
                                 {"No call is registered as `call_test.clip`", "`call_test.count`",
                                  "`call_test.clip_rows`", "call_test.cpp"});
    expect_error<lz::StateError>([&] { lz::call("call_test.no_result", {x}); }, {"at least one"});
    expect_error<lz::ShapeError>([&] { lz::call("call_test.nine_axes", {x}); }, {"9 axes"});
    expect_error<lz::StateError>([&] { lz::call("call_test.count", {Tensor()}); }, {"call", "empty"});
    const auto nothing = [](std::span<const CallInput>, std::span<const CallOutput>) {};
    expect_error<lz::StateError>([&] { lz::register_call("call_test.count", like_the_first, nothing); },
                                 {"`call_test.count`", "already"});
    expect_error<lz::StateError>([&] { lz::register_call("", like_the_first, nothing); }, {"empty"});
    expect_error<lz::StateError>([&] { lz::register_call("call_test.none", like_the_first, {}); },
                                 {"`call_test.none`"});
    const std::vector<std::string> names = lz::registered_calls();
    EXPECT_TRUE(std::ranges::is_sorted(names));
    EXPECT_EQ(std::ranges::count(names, "call_test.count"), 1);
    EXPECT_EQ(std::ranges::count(names, "call_test.none"), 0);
}

TEST(Call, WhatItThrowsIsTheErrorOfItsLineAtTheSync) {
    const Tensor good = lz::tensor({4.0, 9.0}), bad = lz::tensor({4.0, -9.0});
    const Tensor fine = lz::call("call_test.refuse_negative", {good})[0];
    const uint32_t line = __LINE__ + 1;
    const Tensor failed = lz::call("call_test.refuse_negative", {bad})[0];
    const Tensor after = failed + 1;
    for (int again = 0; again < 2; ++again)
        try {
            (void)after.to_vector<float>();
            ADD_FAILURE();
        } catch (const lz::StateError &error) {
            EXPECT_EQ(error.line(), line) << error.what();
            EXPECT_EQ(std::string(error.what()),
                      "call_test.refuse_negative: the registered function threw: element 1 is negative, at "
                      "call_test.cpp:" +
                          std::to_string(line));
        }
    expect_values(fine, {2, 3});
    expect_error<lz::StateError>(
        [&] { (void)lz::call("call_test.wrong_dtype", {good})[0].to_vector<float>(); },
        {"call_test.wrong_dtype: the registered function threw: ", "f64", "f32"});
    expect_values(lz::call("call_test.refuse_negative", {good})[0], {2, 3});
}

TEST(Call, AFunctionThatSaysItsNameIsNamedOnce) {
    lz::register_call(
        "call_test.polite",
        [](std::span<const CallType> in) {
            if (in.size() != 1)
                throw lz::ShapeError("call_test.polite: it takes one operand", {});
            return std::vector{in[0]};
        },
        [](std::span<const CallInput>, std::span<const CallOutput>) {
            throw std::runtime_error("call_test.polite: not today");
        });
    const auto says = [](auto &&f, const std::string &what) {
        try {
            f();
            ADD_FAILURE() << "nothing was thrown";
        } catch (const lz::Error &error) {
            EXPECT_TRUE(std::string(error.what()).starts_with(what + ", at call_test.cpp:")) << error.what();
        }
    };
    says([] { lz::call("call_test.polite", {}); }, "call_test.polite: it takes one operand");
    says([] { lz::call("call_test.polite", {lz::ones({1})})[0].item<float>(); },
         "call_test.polite: the registered function threw: not today");
}

// The README's words; what it leaves out computes.
TEST(Call, TheReadmesFunctionCompilesAndRuns) {
    lz::register_call(
        "demo.mandelbrot",
        [](std::span<const lz::CallType> in) {
            if (in[0].dtype != lz::f32)
                throw lz::DTypeError("it takes f32", {});
            return std::vector<lz::CallType>{{lz::i32, in[0].shape}};
        },
        [](std::span<const lz::CallInput> in, std::span<const lz::CallOutput> out) {
            std::span<const float> x = in[0].values<float>();
            std::span<int32_t> steps = out[0].values<int32_t>();
            for (size_t i = 0; i < x.size(); ++i) {
                float z = 0;
                for (steps[i] = 0; steps[i] < 9 && std::abs(z) <= 2; ++steps[i])
                    z = z * z + x[i];
            }
        });
    const Tensor points = lz::tensor({0.0F, 3.0F, 1.0F});
    lz::Tensor steps = lz::call("demo.mandelbrot", {points})[0];
    expect_tensor(steps, {3}, lz::i32, {9, 1, 3}); // 1: 1, 2, 5
    expect_error<lz::DTypeError>([&] { lz::call("demo.mandelbrot", {lz::tensor({1})}); }, {"it takes f32"});
}

TEST(Call, OperandsOnDifferentDevicesAreRejected) {
    if (!lz::cuda::is_available())
        GTEST_SKIP() << "needs a GPU";
    const Tensor here = lz::ones({2, 2}, {.device = "cuda:0"}), there = lz::ones({2}, {.device = "cpu"});
    const Tensor result = lz::call("call_test.clip_rows", {here, there})[0];
    EXPECT_EQ(result.device(), lz::Device::cuda(0));
    expect_error<lz::DeviceError>([&] { (void)result.cpu().to_vector<float>(); }, {"call", "cuda:0", "cpu"});
    // A number of the CPU goes with anything.
    expect_values(
        lz::call("call_test.clip_rows", {here, lz::full({}, 4, {.dtype = lz::f32, .device = "cpu"})})[0],
        {1, 1, 1, 1});
}

} // namespace
