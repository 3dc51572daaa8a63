#pragma once
/// Functions of Kernel IR as arithmetic.

#include "ir/kernel/kernel.h"

namespace lz::ir {

/// Replaces every instruction of class Math (and Philox) by arithmetic, in place of it. f32 and f64; at most
/// 2 ULP against the correctly rounded result (Pow and Atan2 included). The one place where functions are
/// approximated.
void expand_math(Kernel &kernel);

} // namespace lz::ir
