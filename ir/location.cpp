#include "ir/location.h"

#include <mutex>
#include <string_view>
#include <unordered_set>

namespace lz::ir {

const char *intern_file(std::string_view file) {
    struct Pool {
        std::mutex mutex;
        std::unordered_set<std::string> names; // nodes of the set never move
    };
    static Pool *const pool = new Pool;
    const std::lock_guard lock(pool->mutex);
    return pool->names.emplace(file).first->c_str();
}

std::string to_string(const Location &loc) {
    if (!loc.known())
        return "<unknown>";
    std::string_view file = loc.file;
    if (const size_t slash = file.find_last_of("/\\"); slash != std::string_view::npos)
        file.remove_prefix(slash + 1);
    return std::string(file) + ":" + std::to_string(loc.line);
}

} // namespace lz::ir
