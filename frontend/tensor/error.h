#pragma once
/// Failures as a program sees them.

#include "ir/diagnostic.h"
#include "lazuli/core/error.h"
#include "lazuli/core/location.h"

#include <string>

namespace lz::detail {

/// Turns a failure of the engine into the public error. Never returns.
[[noreturn]] void throw_public(const ir::Failure &failure, Location fallback);
/// Throws an error of the same class whose message ends with `during` and this location. Never returns.
[[noreturn]] void throw_again(const Error &error, const std::string &during, Location loc);
/// While `error` is handled: throws it again, with the name of the in-place form `name_` where it is about
/// the function `name` of this line. Never returns.
[[noreturn]] void throw_in_place(const Error &error, const char *name, Location loc);

} // namespace lz::detail
