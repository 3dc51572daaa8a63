#pragma once
/// Functions of Kernel IR as arithmetic.

#include "ir/kernel/kernel.h"

#include <cstdint>

namespace lz::ir {

/// What becomes of KOp::Philox: arithmetic of one element, like the functions, or itself, for an emitter that
/// makes neighbouring elements of the four words of one block.
enum class PhiloxForm : uint8_t { Arithmetic, Whole };

/// What an emitter takes best. Results have the same bits in each.
struct MathForm {
    PhiloxForm philox = PhiloxForm::Arithmetic;
    /// Scalb is one instruction: exp is scaled by it and needs no second path for what is rare.
    bool scales = false;
};

/// Replaces every instruction of class Math (Philox as `form` says) by arithmetic, in place of it. f32 and
/// f64; at most 2 ULP against the correctly rounded result (Pow and Atan2 included); those of halves.def less
/// than 1 ULP of their half once rounded to it. The one place where functions are approximated.
void expand_math(Kernel &kernel, const MathForm &form = {});

} // namespace lz::ir
