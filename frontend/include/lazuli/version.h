#pragma once
/// Which Lazuli this is. CMake reads the numbers from here; they stand nowhere else.

#include "lazuli/core/export.h"

#include <string_view>

#define LAZULI_VERSION_MAJOR 0
#define LAZULI_VERSION_MINOR 1
#define LAZULI_VERSION_PATCH 0

namespace lz {

/// The version of the library that is running, as "0.1.0": of liblazuli.so, which need not be the one whose
/// headers a program was compiled with. Minor versions differ in their binary interface while the major one
/// is 0.
LZ_API std::string_view version();

} // namespace lz
