#pragma once
/// What every Program is that anything but a parser may see.

#include "ir/program/program.h"

namespace lz::ir {

/// Well-formedness of a Program at its stage (indices, ranges inside buffers, arguments as the kernels want
/// them, what draft.h says of the stage).
void verify(const Program &program);

} // namespace lz::ir
