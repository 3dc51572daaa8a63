#pragma once
/// Index spaces cut along several axes at once: stencils. A point of
///
///     out = x + roll(x, 1, axis 0) + roll(x, -1, axis 0) + roll(x, 1, axis 1) + roll(x, -1, axis 1)
///
/// is tested once for each roll, and its loads are made only where a test holds. Away from the border all
/// tests have one answer: there the loads are plain, and the rows of the interior are most of the space.
///
///     +-+-----------+-+
///     +-+-----------+-+     nine boxes, in each of which every roll is one slice of x
///     | |           | |     the rows of the interior:  out[i, j] = x[i, j] + x[i-1, j] + x[i+1, j] + ...
///     +-+-----------+-+
///     +-+-----------+-+
///
/// The same where paddings end: outside of them a box has nothing but the fill value. Boxes keep all axes
/// along which the space was cut, however few points a box has along them; so most of them have one kernel,
/// of which they are segments (bodies.h). Rows and boxes cost something, too: along which axes a space is cut
/// is what costs least by the device's account (PieceCosts).

#include "passes/lower/nest.h"

namespace lz::passes {

/// Lowers a loop cluster that reads joins or paddings at every point, if a cut along several axes, or around
/// paddings, makes it cheaper. False, and nothing done, for all others.
bool lower_in_boxes(const ClusterView &cluster, const ir::Target &target, LoweredStep &step);

} // namespace lz::passes
