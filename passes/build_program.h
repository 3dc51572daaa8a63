#pragma once
/// build_program: finishes the Program that the executor runs.
///
/// Property: the Program refers to memory by buffer and to numbers by runtime word only, so it can run any
/// number of times with other pointers and words; each step says which bytes it reads and writes; nothing
/// that only passes know is left in it.
///
/// It stands last of the passes that decide anything: nothing after it may change what runs, only check it.

#include "ir/program/program.h"

namespace lz::passes {

/// Takes a Program at Stage::Ordered and leaves one at Stage::Final.
void build_program(ir::Program &program);

} // namespace lz::passes
