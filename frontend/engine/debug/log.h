#pragma once
/// Lines for the person at the terminal: to stderr, each whole and with its topic, `lazuli compile: ...`.

#include <string>
#include <string_view>

namespace lz::engine {

/// Prints one line at once (lines of several threads do not mix).
void log_line(std::string_view topic, const std::string &sentence);

} // namespace lz::engine
