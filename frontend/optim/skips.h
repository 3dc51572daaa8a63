#pragma once
/// Counters of steps that were skipped (Optimizer::step_unless): 0-dim tensors beside the parameters, which
/// the host never reads. A counter, and the number that a rule remembers, belong to several parameters; they
/// are changed in place, so that a step which is replayed (lazuli/compiled.h) changes them as well.

#include "frontend/optim/rule.h"

#include <unordered_map>
#include <vector>

namespace lz::optim {

/// How many parameters of the optimizer have each counter, by its id.
using CounterOwners = std::unordered_map<const void *, size_t>;

/// Gives parameters without one a counter of skipped steps, one for all of a device that begin together, and
/// with the same number where the rule remembers one. `made` gets new tensors.
void begin_counting_skips(std::vector<Change> &changes, bool has_number, std::vector<Tensor> &made,
                          Location loc);

/// Gives parameters whose counter belongs to others, too, which have no part in this step, one of their own.
void part_counters(std::vector<Change> &changes, const CounterOwners &owners, std::vector<Tensor> &made,
                   Location loc);

/// Counters and numbers after the step: `skip` as in step_unless, or empty.
void count_skips(const std::vector<Change> &changes, const Tensor &skip, Location loc);

} // namespace lz::optim
