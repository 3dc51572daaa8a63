#pragma once
/// Where in the user's program something was recorded.

#include <cstdint>
#include <string>
#include <string_view>

namespace lz::ir {

/// A line of the user's source. `file` is never owned here: it points to a string literal of the user's
/// program (`std::source_location`), or it was interned.
struct Location {
    const char *file = nullptr;
    uint32_t line = 0;
    /// The function that the user called there, where it is made of several operations or bears another name
    /// than they (intern_function); 0: what was called is the operation itself.
    uint16_t function = 0;
    /// Tells apart calls of one function in one line, as in a loop. No part of the text form.
    uint16_t call = 0;

    bool known() const { return file != nullptr && line != 0; }
};

/// A copy of a file name that is never freed, for parsed locations: they travel in failures, which outlive
/// every graph. Equal names are one copy. Any thread.
const char *intern_file(std::string_view file);

/// The number of a function's name, for Location::function. Equal names have one number; 0 when 65535 names
/// are taken. Any thread.
uint16_t intern_function(std::string_view name);
/// The name of a number that intern_function gave; empty for 0. Never freed. Any thread.
std::string_view function_name(uint16_t number);

/// Whether two operations are parts of one call of a function that has a name.
inline bool same_call(const Location &a, const Location &b) {
    return a.function != 0 && a.function == b.function && a.call == b.call && a.line == b.line &&
           a.file == b.file;
}

/// `train.cpp:31`, with the file's last path component only; `<unknown>` when it is not known.
std::string to_string(const Location &loc);

} // namespace lz::ir
