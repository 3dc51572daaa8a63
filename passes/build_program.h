#pragma once
/// build_program: joins steps and memory plan into the Program that the executor runs.
///
/// Property: the Program refers to memory by buffer and to numbers by runtime word only, so it can run any
/// number of times with other pointers and words; equal kernels are there once; each step says which bytes it
/// reads and writes.
///
/// It stands last of the passes that decide anything: nothing after it may change what runs, only check it.

#include "ir/program/program.h"
#include "passes/memory/plan_memory.h"
#include "passes/streams/insert_syncs.h"

namespace lz::passes {

/// Consumes the steps: their kernels move into the Program. `user_streams` are those that the recording
/// names.
ir::Program build_program(const ir::Graph &graph, std::vector<LoweredStep> steps, const MemoryPlan &plan,
                          const Syncs &syncs, std::vector<ir::StreamRef> user_streams);

} // namespace lz::passes
