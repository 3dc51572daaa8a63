#pragma once
/// Copies that plan_memory found to be needed, as steps. Internal to it.

#include "ir/program/program.h"
#include "passes/memory/plan_memory.h"

#include <span>

namespace lz::passes {

/// Puts the copies among the steps, each on the stream of a step that it has to do with, else on the default
/// stream of its device.
void add_copies(ir::Program &program, std::span<const PlannedCopy> copies);

} // namespace lz::passes
