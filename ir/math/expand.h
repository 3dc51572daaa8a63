#pragma once
/// Functions of Kernel IR as arithmetic.

#include "ir/kernel/kernel.h"

#include <cstdint>

namespace lz::ir {

/// What becomes of KOp::Philox: arithmetic of one element, like the functions, or itself, for an emitter that
/// makes neighbouring elements of the four words of one block.
enum class PhiloxForm : uint8_t { Arithmetic, Whole };

/// Replaces every instruction of class Math (Philox as `philox` says) by arithmetic, in place of it. f32 and
/// f64; at most 2 ULP against the correctly rounded result (Pow and Atan2 included); those of halves.def less
/// than 1 ULP of their half once rounded to it. The one place where functions are approximated.
void expand_math(Kernel &kernel, PhiloxForm philox = PhiloxForm::Arithmetic);

} // namespace lz::ir
