#pragma once
/// Words of the text form of Program that printer and parser share. Internal to `ir/program_*.cpp`.

#include "ir/program/program.h"

#include <array>
#include <string_view>

namespace lz::ir {

inline constexpr std::array<std::string_view, 6> kBufferKinds = {"input", "result",  "arena",
                                                                 "value", "scratch", "staging"};
/// A Program that does not say its stage is final.
inline constexpr std::array<std::string_view, 5> kStages = {"lowered", "streamed", "planned", "ordered",
                                                            "final"};
/// What a library or an effect does with an operand.
inline constexpr std::array<std::string_view, 3> kOperandModes = {"in", "out", "inout"};
inline constexpr std::array<std::string_view, 6> kStepKinds = {"launch", "library", "copy",
                                                               "record", "wait",    "callback"};

} // namespace lz::ir
