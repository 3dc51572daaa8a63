#pragma once
/// What every kernel is that anything but a parser may see.

#include "ir/kernel/kernel.h"

namespace lz::ir {

/// Well-formedness; throws Failure(Internal) with the printed kernel.
void verify(const Kernel &kernel);

} // namespace lz::ir
