#pragma once
/// What may be computed where nobody asks for it.

#include "ir/kernel/kernel.h"

namespace lz::ir {

/// Whether the instruction may be computed where nobody asks for its value: true for arithmetic; false for
/// loads (the element may not be there), checks (the fault would be nobody's), and integer divisions whose
/// divisor is not known to differ from 0.
bool may_speculate(const Kernel &kernel, KValue v);
/// The first instruction that must not be computed where nobody asks for it and yet stands outside of every
/// loop that reads it: such a loop may run no time. kNoValue if there is none. `verify` rejects it.
KValue find_speculated(const Kernel &kernel);

} // namespace lz::ir
