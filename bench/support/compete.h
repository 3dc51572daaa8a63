#pragma once
/// Contenders for one piece of work, timed in turn: in bursts, each after a while of its own that is not
/// timed, since threads of another library spin for some time after its last call.

#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <vector>

namespace lz::bench {

/// Seconds of one run (burst.h), here or in another process (companion.h).
using Burst = std::function<double()>;

struct Contender {
    std::string name;
    std::function<void()> run;
    bool rated = true; ///< our ratio is to the best of those
    std::vector<double> seconds = {};
    Burst elsewhere = {}; ///< instead of `run`: in another process

    /// Runs for a while, then adds the seconds of one run to `seconds`.
    void burst();
    double median();
};

/// Bursts of each contender, as many as benchmarks ask for with `->Iterations(kBursts)`.
inline constexpr int kBursts = 9;

/// What is multiplied. Nothing is known of the peak of `Other`, nor of bf16 where no unit multiplies it.
enum class Numbers { F32, F64, BF16, Other };

/// Fills the counters of a benchmark in manual time: GFLOP/s of each contender (medians of the bursts), the
/// `ratio` of the first, which is ours, to the best rated peer, and `of_peak`, its part of what the machine
/// multiplies of such numbers, where that is known. Adds the ratio to `ratios`. A peer that takes more than
/// ten times as long as we do, and a tenth of a second, has one burst.
void compete(benchmark::State &state, std::vector<Contender> contenders, double flops,
             std::vector<double> *ratios = nullptr, Numbers numbers = Numbers::F32);

/// Bursts of one piece of work of ours in turn with the same another way, in manual time: that of `ours`.
/// Fills `ratio`, how many times as long the other way takes (medians of the bursts).
void two_ways(benchmark::State &state, const Burst &ours, const Burst &other);

} // namespace lz::bench
