#pragma once
/// Updates of most of a value by what is read of it elsewhere, as a step of Jacobi's iteration:
///
///     u[1:-1, 1:-1] = f(u[:-2, 1:-1], u[2:, 1:-1], ...)
///
/// cannot be made in place: neighbours of a point are read after it would have been written. A copy of all of
/// `u` that is then updated moves it twice. Made apart, the result has memory of its own, the part that is
/// replaced is computed into it, and only what lies around that part is copied:
///
///     +---------------+    beside it along axis 0: whole rows
///     +-+-----------+-+
///     | | replaced  | |    beside it along axis 1, in the rows that are replaced
///     +-+-----------+-+
///     +---------------+
///
/// Where the part begins is known at run time only, but not how much lies around it: what is beside it along
/// an axis begins behind the part and goes on at the axis's beginning, (start + size + k) mod extent.

#include "passes/lower/nest.h"

namespace lz::passes {

class NestDomain;

/// Lowers a cluster that is one update, whose whole domain was chosen, if it reads what it replaces elsewhere
/// and what is left of the old value is little. False, and nothing done, for all others.
bool lower_update_apart(const ClusterView &cluster, const NestDomain &whole, const ir::Target &target,
                        LoweredStep &step);

} // namespace lz::passes
