#include "bench/support/compete.h"

#include "bench/support/burst.h"
#include "bench/support/ceilings.h"

#include <lazuli/lazuli.h>

#include <algorithm>
#include <utility>

namespace lz::bench {

namespace {

/// Operations per second, 0 where it is not known.
double peak_of(Numbers numbers) {
    double peak = 0;
    for (const auto &[of, unit] :
         {std::pair{Numbers::F32, Unit::F32}, std::pair{Numbers::F64, Unit::F64},
          std::pair{Numbers::BF16, Unit::Bf16Pairs}, std::pair{Numbers::BF16, Unit::Bf16Tiles}})
        if (of == numbers && has(unit))
            peak = std::max(peak, measure_flops(num_threads(), Way::First, unit));
    return peak;
}

/// Whether one burst of a peer says enough: of products in bf16 PyTorch does half a GFLOP/s where the
/// processor has no instruction for them, and nine bursts would take longer than all else together.
bool is_out_of_the_race(double seconds, double ours) {
    return seconds > 0.1 && seconds > 10 * ours;
}

} // namespace

void Contender::burst() {
    seconds.push_back(elsewhere ? elsewhere() : lz::bench::burst(run));
}

double Contender::median() {
    return median_of(seconds);
}

void compete(benchmark::State &state, std::vector<Contender> contenders, double flops,
             std::vector<double> *ratios, Numbers numbers) {
    std::vector<double> peaks; // of each turn: the processor's clock is not the same in all of them
    for (auto _ : state) {
        for (Contender &c : contenders)
            if (c.seconds.empty() || !is_out_of_the_race(c.seconds[0], contenders[0].seconds[0]))
                c.burst();
        peaks.push_back(peak_of(numbers));
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
    if (const double peak = median_of(peaks); peak > 0)
        state.counters["of_peak"] = flops / ours / peak;
}

void two_ways(benchmark::State &state, const Burst &ours, const Burst &other) {
    std::vector<double> seconds, others;
    for (auto _ : state) {
        others.push_back(other());
        seconds.push_back(ours());
        state.SetIterationTime(seconds.back());
    }
    if (!seconds.empty())
        state.counters["ratio"] = median_of(others) / median_of(seconds);
}

} // namespace lz::bench
