#pragma once
/// Where in the user's program an operation was written.

#include <cstdint>

// clang has what the standard library's source_location needs from version 16 on.
#if defined(__clang__) && __clang_major__ < 16
#define LZ_SOURCE_LOCATION 0
#else
#define LZ_SOURCE_LOCATION 1
#include <source_location>
#endif

namespace lz {

/// File and line of a call. Public functions take one as their last argument, by default the caller's own
/// place.
struct Location {
    const char *file = nullptr; ///< as the compiler spells it; a string literal
    /// From 1.
    uint32_t line = 0;
    /// Of the library: which function was called there, for what it is made of (ir/location.h).
    uint16_t function = 0;
    uint16_t call = 0; ///< Of the library: likewise.

    constexpr Location() = default;
    /// A place given by hand.
    constexpr Location(const char *file, uint32_t line) : file(file), line(line) {}
#if LZ_SOURCE_LOCATION
    /// A place that the compiler gave.
    constexpr Location(const std::source_location &at)
        : file(at.file_name()), line(at.line()) {} // NOLINT: converts

    /// The place of the call.
    // Not consteval: GCC 12 would then take this line for the caller's.
    static constexpr Location current(const std::source_location &at = std::source_location::current()) {
        return at;
    }
#else
    /// The place of the call.
    static constexpr Location current(const char *file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
        return {file, line};
    }
#endif
};

} // namespace lz

#undef LZ_SOURCE_LOCATION
