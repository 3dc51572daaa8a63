#include "bench/support/burst.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace lz::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSettleSeconds = 40e-3, kBurstSeconds = 4e-3;
/// What a run has to take to stand for itself: others' threads spin for a small part of it.
constexpr double kLongSeconds = 1;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

} // namespace

double burst(const std::function<void()> &run, const std::function<void()> &finish) {
    const auto settle = Clock::now();
    int rounds = 0;
    do {
        run();
        if (finish)
            finish();
        ++rounds;
    } while (seconds_since(settle) < kSettleSeconds);
    const double one = seconds_since(settle) / rounds;
    if (one > kLongSeconds)
        return one;
    rounds = std::max(1, static_cast<int>(kBurstSeconds / one));
    const auto start = Clock::now();
    for (int i = 0; i < rounds; ++i)
        run();
    if (finish)
        finish();
    return seconds_since(start) / rounds;
}

double median_of(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

} // namespace lz::bench
