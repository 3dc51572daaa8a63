#pragma once
/// Which public error a failure is.

#include "ir/diagnostic.h"
#include "lazuli/core/location.h"

#include <string>

namespace lz::detail {

/// Throws the public error of this kind. Never returns.
[[noreturn]] void throw_kind(ir::ErrorKind kind, const std::string &message, Location loc);

} // namespace lz::detail
