#pragma once
/// Whether recordings of one function are the same, and what may differ from call to call.

#include "frontend/compiled/plan.h"

#include <string>

namespace lz::detail {

/// Whether two recordings of one signature would be replayed alike. If so `now` may learn of `before`: that
/// an argument or a number is not always the same one. `why` says what differs.
bool learn(CompiledPlan &now, const CompiledPlan &before, std::string &why);

/// Whether a call that was recorded as `now` could have been a replay of the plan, as far as that can be
/// seen.
bool would_hold(const CompiledPlan &plan, const CompiledPlan &now);

} // namespace lz::detail
