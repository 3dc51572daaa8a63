#pragma once
/// Running a plan: the call path of a compiled function.

#include "frontend/compiled/plan.h"
#include "lazuli/compiled.h"

namespace lz::detail {

/// Binds what the plan reads to the tensors of this call and of now, launches it, and gives its values to
/// where they belong. False, and nothing has changed: what has to hold for this plan does not.
/// Throws what fails while it runs; nothing has changed then, either.
bool replay(const CompiledPlan &plan, const CompiledArguments &arguments, CompiledResults &results);

} // namespace lz::detail
