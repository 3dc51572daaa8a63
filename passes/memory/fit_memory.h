#pragma once
/// fit_memory: gives up overlap, and then fusion, where a Program would need more memory than a GPU has.
///
/// Property: if planning without overlap, or with one operation a kernel, needs less than what was planned
/// and that is too much, the smaller plan is taken (S52). Without it a program that fits when run one
/// operation after the other would fail with OutOfMemory because it was made fast. Overlap is given up
/// between `assign_streams` and `plan_memory`, by asking the latter what each schedule would need; fusion at
/// the end, when it is known what the whole Program needs.

#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "ir/target.h"
#include "passes/streams/dependences.h"

namespace lz::passes {

/// Takes and leaves a Program at Stage::Streamed. Where it would take more than half of a GPU's memory:
/// streams without overlap, and if that still does not fit estimates as if copies waited for all steps before
/// them, as far as they need less.
void fit_memory(ir::Program &program, const Dependences &dependences, const ir::Target &target);

/// Bytes that the Program needs beyond the memory of GPUs.
int64_t missing_bytes(const ir::Program &program, const ir::Target &target);

/// Whether the values of the graph together are more than a GPU has: then it is worth to keep the graph as it
/// was before `fuse`.
bool may_not_fit(const ir::Graph &graph, const ir::Target &target);

} // namespace lz::passes
