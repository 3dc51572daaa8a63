#pragma once
/// How a number that a call is given becomes a word of a Program.

#include <cstdint>

namespace lz::ir {

enum class NumberForm : uint8_t { Itself, Negated, Inverse, FromOne };
inline constexpr uint8_t kNumberForms = 4;
inline constexpr NumberForm kEachNumberForm[kNumberForms] = {NumberForm::Itself, NumberForm::Negated,
                                                             NumberForm::Inverse, NumberForm::FromOne};

/// `value`, `-value`, `1 / value` or `1 - value`.
constexpr double in_form(double value, NumberForm form) {
    switch (form) {
    case NumberForm::Itself:
        return value;
    case NumberForm::Negated:
        return -value;
    case NumberForm::Inverse:
        return 1 / value;
    case NumberForm::FromOne:
        return 1 - value;
    }
    return value;
}

} // namespace lz::ir
