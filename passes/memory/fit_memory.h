#pragma once
/// fit_memory: gives up overlap where a Program would need more memory than a GPU has.
///
/// Property: if planning without overlap needs less than what was planned and that is too much, the smaller
/// plan is taken (S52). Without it a program that fits when run one operation after the other would fail with
/// OutOfMemory because it was made fast. It stands between `assign_streams` and `plan_memory`, and asks the
/// latter what each schedule would need. Where that is not enough, fit_fusion gives up fusion.

#include "ir/program/program.h"
#include "ir/target.h"
#include "passes/streams/dependences.h"

namespace lz::passes {

/// Takes and leaves a Program at Stage::Streamed. Where it would take more than half of a GPU's memory:
/// streams without overlap, and if that still does not fit estimates as if copies waited for all steps before
/// them, as far as they need less.
void fit_memory(ir::Program &program, const Dependences &dependences, const ir::Target &target);

} // namespace lz::passes
