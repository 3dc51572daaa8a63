#pragma once
/// One trip of a graph through the passes, with dumps on the way, and the words for why it was needed.

#include "frontend/engine/debug/dump.h"
#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "ir/target.h"
#include "passes/pipeline.h"

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace lz::engine {

struct Compiled {
    ir::Program program;
    std::vector<int> donors; ///< by graph result: the input whose memory it takes over, or -1
    std::string explanation; ///< explain's text, if that was wanted
};

/// Runs the pipeline; throws what the passes throw. Dumps that show notes are explained, too.
Compiled compile_graph(const ir::Graph &graph, const ir::Target &target, const Dumper &dumper,
                       passes::Explained explained);

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
