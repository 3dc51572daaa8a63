#pragma once
/// Functions of Kernel IR as arithmetic.

#include "ir/kernel/kernel.h"

#include <cstdint>

namespace lz::ir {

/// What becomes of KOp::Philox: arithmetic of one element, like the functions, or itself, for an emitter that
/// makes neighbouring elements of the four words of one block.
enum class PhiloxForm : uint8_t { Arithmetic, Whole };

/// How near functions are to the correctly rounded result.
enum class Accuracy : uint8_t {
    TwoUlp,
    Fast ///< LAZULI_FAST_MATH: of pow the exponent y log2(x) is rounded, and subnormal results are 0
};

struct MathForms {
    PhiloxForm philox = PhiloxForm::Arithmetic;
    Accuracy accuracy = Accuracy::TwoUlp;
};

/// Replaces every instruction of class Math (Philox as `forms` say) by arithmetic, in place of it. f32 and
/// f64; at most 2 ULP against the correctly rounded result (Pow and Atan2 included); those of halves.def less
/// than 1 ULP of their half once rounded to it. The one place where functions are approximated.
void expand_math(Kernel &kernel, MathForms forms = {});

} // namespace lz::ir
