#pragma once
/// One piece of work and the same of a peer's, whose rounds take turns, so that what else the machine does
/// meets both.

#include "bench/support/ceilings.h"

#include <benchmark/benchmark.h>

#include <functional>

namespace lz::bench {

using Round = std::function<void()>;

/// What bounds a round: the memory that it moves. 0 bytes: nothing that is measured here.
struct Bound {
    double bytes = 0;
    Traffic traffic = Traffic::Copy;
};

/// Times rounds in turn with the peer's (which may be empty) and with passes of the bound, in manual time.
/// Fills `best_ms`, and with a peer `torch_ms`, its best round, and `ratio`, how many times as long that
/// takes as our best; with a bound `of_ceiling`, the median of the rounds' parts of it. Where a round is
/// short, `alone_ms` is its time among others of ours, without the peer between them: peers in other
/// processes are timed so.
void take_turns(benchmark::State &state, const Round &round, const Round &peer = {}, const Bound &bound = {});

} // namespace lz::bench
