#pragma once
/// One piece of work, timed in bursts. Knows nothing of Lazuli: processes beside ours (companion.h) time with
/// it, too.

#include <functional>
#include <vector>

namespace lz::bench {

/// Runs for a while that is not timed, since threads of another library, or of another process, spin for some
/// time after its last call; then for a few milliseconds, and gives the seconds of one run. A run that takes
/// more than a second is timed at once. Runs that are only enqueued are there when `finish` returns.
double burst(const std::function<void()> &run, const std::function<void()> &finish = {});

/// Of at least one number: the middle one, or the upper one of the two.
double median_of(std::vector<double> values);

} // namespace lz::bench
