#pragma once
/// A compiled recording: what the Program cache holds.

#include "ir/graph/graph.h"
#include "runtime/executor/executor.h"

#include <memory>
#include <string>
#include <vector>

namespace lz::engine {

class Executable {
public:
    /// Compiled code; null in builds without the CPU JIT, where the interpreter runs `graph`.
    std::unique_ptr<runtime::LoadedProgram> program;
    /// The graph as recorded: for the interpreter, and for explain.
    ir::Graph graph;
    std::vector<int> donors; ///< by result: the input whose memory it takes over, or -1
    std::string explanation;
    int64_t number = 0; ///< of the Program, in the order of compiling
};

} // namespace lz::engine
