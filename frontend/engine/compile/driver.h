#pragma once
/// One trip of a graph through the passes, with dumps on the way.

#include "codegen/cache/kernel_cache.h"
#include "codegen/compiler.h"
#include "frontend/engine/debug/dump.h"
#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "ir/target.h"
#include "passes/pipeline.h"

#include <string>
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

/// Dumps what a kernel was compiled to, below the lines of the user's that it computes.
void dump_code(const Dumper &dumper, const ir::Graph &graph, const ir::Program &program, size_t kernel,
               const codegen::CachedKernel &code, const codegen::Compiler::FileEndings &endings);

/// A sentence about a Program that verify_schedule has passed.
std::string what_was_verified(const ir::Program &program);

} // namespace lz::engine
