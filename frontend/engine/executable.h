#pragma once
/// A compiled recording: what the Program cache holds.

#include "frontend/engine/compile/quick_kernels.h"
#include "ir/graph/graph.h"
#include "ir/target.h"
#include "runtime/executor/executor.h"

#include <memory>
#include <utility>
#include <vector>

namespace lz::engine {

class Executable {
public:
    std::shared_ptr<const runtime::LoadedProgram> program; ///< its flights keep it
    ir::Graph graph;                                       ///< as recorded, for explain
    QuickKernels quick;                                    ///< of the program's
    std::vector<int> donors; ///< by result: the input whose memory it takes over, or -1
    /// What it was compiled for, and with `graph` what its explanation is made of; null for one of a file,
    /// whose notes say it.
    std::shared_ptr<const ir::Target> target;
    int64_t number = 0; ///< of the Program, in the order of compiling
    /// Of one of a file: GPUs of which the first has to have access to the memory of the second.
    std::vector<std::pair<ir::Device, ir::Device>> peers = {};
};

} // namespace lz::engine
