#pragma once
/// Where in the user's program something was recorded.

#include <cstdint>
#include <string>

namespace lz::ir {

/// A line of the user's source. `file` is never owned here: it points to a string literal of the user's
/// program
/// (`std::source_location`) or into the string pool of the Graph that was parsed.
struct Location {
    const char *file = nullptr;
    uint32_t line = 0;

    bool known() const { return file != nullptr && line != 0; }
};

/// `train.cpp:31`, with the file's last path component only; `<unknown>` when it is not known.
std::string to_string(const Location &loc);

} // namespace lz::ir
