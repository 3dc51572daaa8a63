#include "bench/support/turns.h"

#include "bench/support/burst.h"

#include <lazuli/lazuli.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <vector>

namespace lz::bench {

namespace {

double seconds_of(const Round &round) {
    const auto begin = std::chrono::steady_clock::now();
    round();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Between rounds of a peer's that take longer, threads of ours go to sleep, which such rounds notice.
constexpr double kShort = 2e-3;

/// Of a round among others of its own, whose threads are awake.
double time_alone(const Round &round, double best) {
    const int rounds = static_cast<int>(2 * kShort / best) + 1;
    std::vector<double> means;
    for (int turn = 0; turn < 4; ++turn) {
        const double took = seconds_of([&] {
            for (int i = 0; i < rounds; ++i)
                round();
        });
        if (turn > 0)
            means.push_back(took / rounds);
    }
    return median_of(means);
}

/// Arrays too large for any cache.
MemoryMeter &meter() {
    static MemoryMeter meter(int64_t{64} << 20, num_threads());
    return meter;
}

} // namespace

void take_turns(benchmark::State &state, const Round &round, const Round &peer, const Bound &bound) {
    round(); // compiles
    if (peer)
        peer();
    double ours = std::numeric_limits<double>::max(), theirs = ours;
    std::vector<double> fractions;
    for (auto _ : state) {
        const double ceiling = bound.bytes > 0 ? meter().pass(bound.traffic) : 0;
        const double took = seconds_of(round);
        state.SetIterationTime(took);
        ours = std::min(ours, took);
        if (ceiling > 0)
            fractions.push_back(bound.bytes / took / ceiling);
        if (peer)
            theirs = std::min(theirs, seconds_of(peer));
    }
    state.counters["best_ms"] = ours * 1e3;
    if (ours < kShort)
        state.counters["alone_ms"] = time_alone(round, ours) * 1e3;
    if (!fractions.empty()) {
        std::ranges::sort(fractions);
        state.counters["of_ceiling"] = fractions[fractions.size() / 2];
    }
    if (!peer)
        return;
    state.counters["torch_ms"] = theirs * 1e3;
    state.counters["ratio"] = theirs / ours;
}

} // namespace lz::bench
