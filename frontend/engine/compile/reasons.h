#pragma once
/// The words for why a compile was needed.

#include "ir/graph/graph.h"

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace lz::engine {

/// Remembers what was compiled, to say why another compile happened (LAZULI_LOG=compile).
class CompileReasons {
public:
    /// A clause such as `a new structure` or `other sizes of program 3's structure`.
    std::string why(const ir::Graph &graph);

private:
    std::mutex mutex_;
    std::unordered_map<uint64_t, int64_t> seen_; ///< structure without extents and dtypes -> times
};

} // namespace lz::engine
