#pragma once
/// A program file's Programs, ready to run: no compiler takes part.

#include "ir/saved/saved_program.h"
#include "runtime/executor/executor.h"

#include <memory>
#include <vector>

namespace lz::runtime {

/// The Program of a plan for this processor, with its code loaded. Throws Failure(Io) where the file does not
/// fit together, and Failure(Compile) where it has no code for this processor, or code that cannot be loaded.
std::shared_ptr<const LoadedProgram> load_program(const ir::SavedPlan &plan, const ir::SavedProgram &program,
                                                  const std::vector<DeviceSlot> &devices);

} // namespace lz::runtime
