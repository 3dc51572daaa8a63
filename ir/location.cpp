#include "ir/location.h"

#include <deque>
#include <mutex>
#include <string_view>
#include <unordered_map>
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

namespace {

struct Functions {
    std::mutex mutex;
    std::deque<std::string> names; // elements of a deque never move
    std::unordered_map<std::string_view, uint16_t> numbers;
    static Functions &get() {
        static Functions *const functions = new Functions;
        return *functions;
    }
};

} // namespace

uint16_t intern_function(std::string_view name) {
    Functions &functions = Functions::get();
    const std::lock_guard lock(functions.mutex);
    if (const auto known = functions.numbers.find(name); known != functions.numbers.end())
        return known->second;
    if (name.empty() || functions.names.size() == UINT16_MAX)
        return 0;
    const std::string &kept = functions.names.emplace_back(name);
    return functions.numbers[kept] = static_cast<uint16_t>(functions.names.size());
}

std::string_view function_name(uint16_t number) {
    if (number == 0)
        return {};
    Functions &functions = Functions::get();
    const std::lock_guard lock(functions.mutex);
    return functions.names[number - size_t{1}];
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
