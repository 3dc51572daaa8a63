#include "frontend/engine/compile/driver.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <fstream>
#include <unistd.h>

namespace lz::engine {
namespace {

/// Operations, their wiring and their structural words, without extents and dtypes of inputs.
uint64_t skeleton(const ir::Graph &graph, bool with_words) {
    std::vector<int64_t> words;
    for (const ir::Node &node : graph.nodes()) {
        words.push_back(static_cast<int64_t>(node.op));
        for (const ir::ValueId operand : graph.operands(node))
            words.push_back(operand);
        if (with_words)
            for (const int64_t word : graph.attrs(node).structural)
                words.push_back(word);
    }
    return XXH3_64bits(words.data(), words.size() * sizeof(int64_t));
}

} // namespace

std::string CompileReasons::why(const ir::Graph &graph) {
    const std::lock_guard lock(mutex_);
    const bool wiring_seen = seen_[skeleton(graph, false)]++ > 0;
    const bool words_seen = seen_[skeleton(graph, true) ^ 1]++ > 0;
    if (!wiring_seen)
        return "a new sequence of operations";
    return words_seen
               ? "known operations on inputs of other sizes, dtypes or ownership, or other results wanted"
               : "known operations with other shapes or structural attributes";
}

// The C library may add up what all sockets' or core groups' caches hold; the kernel tells what this core
// reaches.
int64_t host_cache_bytes() {
    int64_t kib = 0;
    std::ifstream("/sys/devices/system/cpu/cpu0/cache/index3/size") >> kib;
    if (kib > 0)
        return kib << 10;
    const long bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? bytes : int64_t{8} << 20;
}

} // namespace lz::engine
