#pragma once
/// Checks that a kernel is well formed. Only parsers see kernels that are not.

#include "ir/kernel/kernel.h"

namespace lz::ir {

/// Well-formedness; throws Failure(Internal) with the printed kernel.
void verify(const Kernel &kernel);

} // namespace lz::ir
