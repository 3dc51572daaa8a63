#pragma once
/// Words of the text form of Program that printer and parser share. Internal to `ir/program_*.cpp`.

#include "ir/program/program.h"

#include <array>
#include <string_view>

namespace lz::ir {

inline constexpr std::array<std::string_view, 3> kBufferKinds = {"input", "result", "arena"};
inline constexpr std::array<std::string_view, 6> kStepKinds = {"launch", "library", "copy",
                                                               "record", "wait",    "callback"};

} // namespace lz::ir
