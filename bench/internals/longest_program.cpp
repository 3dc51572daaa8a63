// The sync of as many nodes as S22 lets a thread record, once their Program is known, and what of it is the
// finding: the hash of the key, and the search with the comparison of all its words. `claim_ms` makes the
// key, `find_ms` finds by it, `sync_ms` is all of a sync: the same two, binding, running and letting go. Best
// rounds.
//
//   bench_longest_program
#include "frontend/engine/engine.h"
#include "frontend/record/access.h"
#include "frontend/record/recording/recording.h"

#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <limits>

namespace {

using Clock = std::chrono::steady_clock;

void longest_program(benchmark::State &state) {
    const auto additions = state.range(0);
    const lz::Tensor a = lz::ones({8});
    lz::sync();
    const auto recorded = [&] {
        lz::Tensor x = a;
        for (int64_t i = 0; i < additions; ++i)
            x = x + 1; // two nodes: the number is one
        return x;
    };
    recorded().eval(); // compiles
    double claim = std::numeric_limits<double>::max(), find = claim, sync = claim;
    size_t words = 0;
    for (auto _ : state) {
        lz::Tensor x = recorded();
        const auto begin = Clock::now();
        Clock::time_point claimed, found;
        {
            lz::detail::Recording recording;
            recording.claim(lz::detail::Access::node(x));
            recording.finish();
            recording.release_lock();
            claimed = Clock::now();
            words = recording.key.size();
            const uint64_t hash = XXH3_64bits(recording.key.data(), words * sizeof(uint64_t));
            if (!lz::engine::Engine::get().find(recording.key, hash))
                state.SkipWithError("the Program was not found");
            found = Clock::now();
            recording.unclaim();
        }
        const auto again = Clock::now();
        x.eval();
        const auto seconds = [](Clock::time_point from, Clock::time_point to) {
            return std::chrono::duration<double>(to - from).count();
        };
        const double took = seconds(again, Clock::now());
        state.SetIterationTime(took);
        claim = std::min(claim, seconds(begin, claimed));
        find = std::min(find, seconds(claimed, found));
        sync = std::min(sync, took);
    }
    state.counters["claim_ms"] = claim * 1e3;
    state.counters["find_ms"] = find * 1e3;
    state.counters["sync_ms"] = sync * 1e3;
    state.counters["key_words"] = static_cast<double>(words);
}
BENCHMARK(longest_program)->Arg(500)->Arg(32000)->UseManualTime()->Unit(benchmark::kMillisecond);

} // namespace

BENCHMARK_MAIN();
