#include "bench/support/compete.h"

#include "bench/support/ceilings.h"

#include <lazuli/lazuli.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

namespace lz::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSettleSeconds = 40e-3, kBurstSeconds = 4e-3;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Operations per second, 0 where it is not known. Measured once.
double peak_of(Numbers numbers) {
    static std::map<Numbers, double> known;
    const auto [entry, is_new] = known.try_emplace(numbers, 0);
    if (!is_new)
        return entry->second;
    for (const auto &[of, unit] :
         {std::pair{Numbers::F32, Unit::F32}, std::pair{Numbers::F64, Unit::F64},
          std::pair{Numbers::BF16, Unit::Bf16Pairs}, std::pair{Numbers::BF16, Unit::Bf16Tiles}})
        if (of == numbers && has(unit))
            entry->second = std::max(entry->second, measure_flops(num_threads(), Way::First, unit));
    return entry->second;
}

} // namespace

void Contender::burst() {
    const auto settle = Clock::now();
    int rounds = 0;
    do {
        run();
        ++rounds;
    } while (seconds_since(settle) < kSettleSeconds);
    const double one = seconds_since(settle) / rounds;
    rounds = std::max(1, static_cast<int>(kBurstSeconds / one));
    const auto start = Clock::now();
    for (int i = 0; i < rounds; ++i)
        run();
    seconds.push_back(seconds_since(start) / rounds);
}

double Contender::median() {
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<int64_t>(seconds.size() / 2),
                     seconds.end());
    return seconds[seconds.size() / 2];
}

void compete(benchmark::State &state, std::vector<Contender> contenders, double flops,
             std::vector<double> *ratios, Numbers numbers) {
    const double peak = peak_of(numbers);
    for (auto _ : state) {
        for (Contender &c : contenders)
            c.burst();
        state.SetIterationTime(contenders[0].seconds.back());
    }
    const double ours = contenders[0].median();
    double best_peer = 0;
    for (Contender &c : contenders) {
        state.counters[c.name] = flops / c.median() * 1e-9;
        if (&c != contenders.data() && c.rated)
            best_peer = std::max(best_peer, 1 / c.median());
    }
    if (best_peer > 0) {
        state.counters["ratio"] = 1 / ours / best_peer;
        if (ratios)
            ratios->push_back(1 / ours / best_peer);
    }
    if (peak > 0)
        state.counters["of_peak"] = flops / ours / peak;
}

} // namespace lz::bench
