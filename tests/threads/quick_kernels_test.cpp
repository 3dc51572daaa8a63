// Small kernels that are interpreted until another thread has made their code (codegen/quick.h), used by
// several threads while they change over.
#include "frontend/engine/engine.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using lz::Tensor;

/// What is done to a number, step by step; whole numbers stay whole.
using Chain = std::vector<unsigned>;
constexpr unsigned kSteps = 6;

Tensor apply(const Chain &chain, Tensor x) {
    for (const unsigned step : chain)
        switch (step) {
        case 0:
            x = x + 1;
            break;
        case 1:
            x = x * 2;
            break;
        case 2:
            x = relu(x);
            break;
        case 3:
            x = -x;
            break;
        case 4:
            x = abs(x);
            break;
        default:
            x = x - 3;
            break;
        }
    return x;
}

float apply(const Chain &chain, float x) {
    for (const unsigned step : chain)
        switch (step) {
        case 0:
            x += 1;
            break;
        case 1:
            x *= 2;
            break;
        case 2:
            x = std::max(x, 0.0F);
            break;
        case 3:
            x = -x;
            break;
        case 4:
            x = std::fabs(x);
            break;
        default:
            x -= 3;
            break;
        }
    return x;
}

/// A kernel that is on no disk: of 14 steps there are 78 billion chains.
Chain new_chain() {
    std::random_device random;
    Chain chain(14);
    for (unsigned &step : chain)
        step = random() % kSteps;
    return chain;
}

std::string text(const Chain &chain) {
    std::string digits;
    for (const unsigned step : chain)
        digits += std::to_string(step);
    return digits;
}

TEST(QuickKernels, AreUsedByThreadsWhileTheirCodeIsMadeAndForgotten) {
    constexpr int kThreads = 3, kCalls = 40;
    for (int round = 0; round < 12; ++round) {
        const Chain chain = new_chain();
        SCOPED_TRACE(text(chain));
        std::array<int, kThreads> wrong{};
        std::vector<std::thread> threads;
        for (int t = 0; t < kThreads; ++t)
            threads.emplace_back([&, t] {
                for (int i = 0; i < kCalls; ++i) {
                    const auto value = static_cast<float>(t * kCalls + i - 50);
                    const std::vector<float> found = apply(chain, lz::full({5}, value)).to_vector<float>();
                    for (const float element : found)
                        wrong[static_cast<size_t>(t)] += element != apply(chain, value);
                    if (t == 0 && round % 2 == 1 && i % 16 == 15)
                        lz::engine::Engine::get().clear_caches(); // the kernel is another one from here on
                }
            });
        for (std::thread &thread : threads)
            thread.join();
        EXPECT_EQ(wrong, (std::array<int, kThreads>{}));
    }
}

/// Each thread brings kernels of its own to the one beside.
TEST(QuickKernels, OfManyThreadsAreMadeByOneBeside) {
    constexpr int kThreads = 4;
    std::array<std::vector<Chain>, kThreads> chains;
    for (std::vector<Chain> &mine : chains)
        for (int k = 0; k < 5; ++k)
            mine.push_back(new_chain());
    std::array<int, kThreads> wrong{};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 400; ++i)
                for (const Chain &chain : chains[static_cast<size_t>(t)]) {
                    const auto value = static_cast<float>(i - 200);
                    wrong[static_cast<size_t>(t)] +=
                        apply(chain, lz::full({3}, value)).sum().item<float>() != 3 * apply(chain, value);
                }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong, (std::array<int, kThreads>{}));
}

} // namespace
