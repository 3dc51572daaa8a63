#pragma once
/// Checks that a Program is well formed. Only parsers see Programs that are not.

#include "ir/program/program.h"

namespace lz::ir {

/// Well-formedness of a Program at its stage (indices, ranges inside buffers, arguments as the kernels want
/// them, what draft.h says of the stage).
void verify(const Program &program);

} // namespace lz::ir
