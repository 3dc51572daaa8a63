// Compiled functions called from several threads: S28, S90.
#include <lazuli/compiled.h>
#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace {

using lz::Tensor;

/// Some of its results stay alive until the others are dropped on another thread, while one thread forgets
/// all that was compiled.
TEST(Semantics, S28_threads_may_call_one_compiled_function_and_forget_its_plans_meanwhile) {
    auto f = lz::compile([](const Tensor &x) { return std::pair(x * 2 + 1, (x * x).sum()); });
    constexpr int kThreads = 3, kCalls = 60;
    std::array<std::vector<Tensor>, kThreads> given;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
            auto &mine = given[static_cast<size_t>(t)];
            for (int i = 0; i < kCalls; ++i) {
                const float value = static_cast<float>(t * kCalls + i);
                auto [line, square] = f(lz::full({8}, value));
                EXPECT_EQ(line.to_vector<float>()[7], value * 2 + 1);
                EXPECT_EQ(square.item<float>(), 8 * value * value);
                if (i % 3 == 0)
                    mine.push_back(line);
                if (i % 20 == 19)
                    mine.clear();
                if (t == 0 && i % 15 == 14)
                    f.clear();
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    std::thread([&] { given = {}; }).join();
    EXPECT_GT(f.stats().replays, 0);
    EXPECT_EQ(f(lz::ones({8})).second.item<float>(), 8);
}

/// Results outlive the function that they came from: their memory goes back to nobody.
TEST(Semantics, S28_results_of_a_compiled_function_may_be_dropped_while_it_is_destroyed) {
    for (int round = 0; round < 40; ++round) {
        std::optional f = lz::compile([](const Tensor &x) { return x + 3; });
        std::vector<Tensor> results;
        for (int i = 0; i < 6; ++i)
            results.push_back((*f)(lz::full({4}, 1.0 * i)));
        std::thread other([&] { results.clear(); });
        f.reset();
        other.join();
    }
    EXPECT_EQ((lz::ones({4}) + 1).sum().item<float>(), 8);
}

/// What a plan holds goes when the plan is forgotten: at once, or at the end of the call that forgets it.
TEST(Semantics, S91_what_a_plan_holds_goes_with_it) {
    for (const bool inside : {false, true}) {
        auto held = std::make_shared<int>(0);
        const std::weak_ptr<int> seen = held;
        bool forget = false;
        std::function<void()> clear;
        const auto f = lz::compile([&](const Tensor &x) {
            lz::on_replay([&, held] {
                if (forget)
                    clear();
            });
            return x + 1;
        });
        clear = [&] { f.clear(); };
        for (int i = 0; i < 5; ++i)
            f(lz::ones({2}));
        EXPECT_GT(f.stats().replays, 0);
        held = nullptr;
        EXPECT_FALSE(seen.expired());
        forget = true;
        if (inside)
            EXPECT_EQ(f(lz::ones({2})).to_vector<float>(), (std::vector<float>{2, 2}));
        else
            clear();
        EXPECT_TRUE(seen.expired()) << inside;
    }
}

/// What is destroyed with a plan may call the function.
TEST(Semantics, S91_a_plan_that_is_forgotten_may_call_its_function) {
    std::function<void()> at_the_end = [] {};
    struct Caller {
        std::function<void()> *what;
        ~Caller() { (*what)(); }
    };
    auto f = lz::compile([&](const Tensor &x) {
        if (x.size(0) == 2)
            lz::on_replay([caller = std::make_shared<Caller>(&at_the_end)] {});
        return x * 2;
    });
    for (int i = 0; i < 5; ++i)
        f(lz::ones({2}));
    int calls = 0;
    at_the_end = [&] {
        EXPECT_EQ(f(lz::ones({3})).sum().item<float>(), 6);
        ++calls;
    };
    f.clear();
    EXPECT_GT(calls, 0);
    at_the_end = [] {};
}

/// Two signatures by two threads: neither is given the other's plan.
TEST(Semantics, S97_threads_call_one_compiled_function_with_two_signatures) {
    const auto f = lz::compile([](const Tensor &x) { return x * 2 + 1; });
    std::vector<std::thread> threads;
    for (const int64_t size : {3, 5})
        threads.emplace_back([&f, size] {
            for (int i = 0; i < 200; ++i) {
                const Tensor y = f(lz::full({size}, static_cast<float>(i)));
                EXPECT_EQ(y.to_vector<float>(),
                          std::vector<float>(static_cast<size_t>(size), static_cast<float>(i * 2 + 1)));
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    const lz::CompiledStats stats = f.stats();
    EXPECT_EQ(stats.replays + stats.recordings + stats.uncompiled, 400);
    EXPECT_GT(stats.replays, 300);
}

} // namespace
