// Compiled functions called from several threads: S28, S90.
#include <lazuli/compiled.h>
#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <array>
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

} // namespace
