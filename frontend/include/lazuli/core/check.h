#pragma once
/// LAZULI_CHECK: what a program demands, with its own words.

#include "lazuli/core/error.h"
#include "lazuli/core/text.h"

namespace lz {
namespace detail {
/// Throws Error with the message, or where there is none with the condition's text.
[[noreturn]] LZ_API void fail_check(const char *condition, const std::string &message, Location loc);
} // namespace detail
} // namespace lz

/// Throws lz::Error, with this line, unless the condition holds: `LAZULI_CHECK(n > 0, "n is ", n)`. What
/// follows is written one after the other as by lz::str, and computed only then. LibTorch's programs have it
/// with
/// `#define TORCH_CHECK LAZULI_CHECK`.
#define LAZULI_CHECK(condition, ...)                                                                         \
    do {                                                                                                     \
        if (!(condition)) [[unlikely]]                                                                       \
            ::lz::detail::fail_check(#condition, ::lz::str(__VA_ARGS__),                                     \
                                     ::lz::Location(__FILE__, __LINE__));                                    \
    } while (false)
