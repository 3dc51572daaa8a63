#pragma once
/// Where in the user's program something was recorded.

#include <cstdint>
#include <string>
#include <string_view>

namespace lz::ir {

/// A line of the user's source. `file` is never owned here: it points to a string literal of the user's
/// program
/// (`std::source_location`), or it was interned.
struct Location {
    const char *file = nullptr;
    uint32_t line = 0;

    bool known() const { return file != nullptr && line != 0; }
};

/// A copy of a file name that is never freed, for parsed locations: they travel in failures, which outlive
/// every graph. Equal names are one copy. Any thread.
const char *intern_file(std::string_view file);

/// `train.cpp:31`, with the file's last path component only; `<unknown>` when it is not known.
std::string to_string(const Location &loc);

} // namespace lz::ir
