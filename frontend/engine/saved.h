#pragma once
/// Programs on their way into files and out of them.

#include "frontend/engine/engine.h"
#include "ir/saved/saved_program.h"

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lz::engine {

/// Machine code of the kernels of several Programs, each once.
class SavedCode {
public:
    /// The Program of an executable's graph, and its code, for each of the levels that are saved: this
    /// machine's, and x86-64-v3. Throws Failure(Compile) where there is no compiler or no such code, and what
    /// the passes throw.
    std::vector<ir::SavedVariant> variants_of(const Executable &executable);
    std::vector<ir::CompiledKernel> take() { return std::move(code_); }

private:
    ir::SavedVariant variant_of(const Executable &executable, ir::IsaLevel level);

    std::vector<ir::CompiledKernel> code_;
    std::map<std::string, uint32_t> known_; ///< by level and kernel
};

/// The name of the first function of the user's (`lz::call`) that the graph calls; empty: there is none.
std::string called_function(const Executable &executable);

/// The graph of an executable, as text.
std::string graph_text(const Executable &executable);

/// The file's bytes; `path` as the runtime writes and reads (runtime/saved/program_file.h): throws
/// Failure(Io), a sentence that goes on after the path.
void write_file(const std::string &path, const ir::SavedProgram &program);
std::vector<std::byte> read_file(const std::string &path, bool from_anybody);
/// What made the files of this process.
std::string made_by();

/// What runs a plan on this processor, its code loaded. Throws Failure(Io) where the file does not fit
/// together, Failure(Compile) where it has no code for this processor or code that cannot be loaded.
ExecutablePtr load_saved(const ir::SavedPlan &plan, const ir::SavedProgram &program);

} // namespace lz::engine
