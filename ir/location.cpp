#include "ir/location.h"

#include <string_view>

namespace lz::ir {

std::string to_string(const Location &loc) {
    if (!loc.known())
        return "<unknown>";
    std::string_view file = loc.file;
    if (const size_t slash = file.find_last_of("/\\"); slash != std::string_view::npos)
        file.remove_prefix(slash + 1);
    return std::string(file) + ":" + std::to_string(loc.line);
}

} // namespace lz::ir
