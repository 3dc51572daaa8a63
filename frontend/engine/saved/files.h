#pragma once
/// Programs on their way into files and out of them.

#include "frontend/engine/engine.h"
#include "ir/saved/saved_program.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace lz::engine {

/// The name of the first function of the user's (`lz::call`) that the graph calls; empty: there is none.
std::string called_function(const Executable &executable);

/// The graph of an executable, as text.
std::string graph_text(const Executable &executable);

/// The file's bytes; `path` as the runtime writes and reads (runtime/saved/program_file.h): throws
/// Failure(Io), a sentence that goes on after the path.
void write_file(const std::string &path, const ir::SavedProgram &program);
std::vector<std::byte> read_file(const std::string &path, bool from_anybody);
/// Lets constants that are in a safetensors file be references to it; and finds those of a loaded file again
/// (runtime/saved/weights.h).
void refer_to_weights(ir::SavedProgram &program, const std::string &path, const std::string &weights);
std::vector<std::shared_ptr<const void>> find_weights(ir::SavedProgram &program, const std::string &path,
                                                      const std::string &weights, bool check, bool map);
/// What made the files of this process.
std::string made_by();

/// Loads the Programs of a file, which stays as long as this.
class SavedLoader {
public:
    /// Throws Failure(Device) where a GPU of the file is not there.
    explicit SavedLoader(const ir::SavedProgram &program);
    ~SavedLoader();
    SavedLoader(const SavedLoader &) = delete;
    SavedLoader &operator=(const SavedLoader &) = delete;
    /// What runs a plan on this machine, its code loaded. Throws Failure(Io) where the file does not fit
    /// together, Failure(Compile) where it has no code for this processor or code that cannot be loaded, and
    /// Failure(Device) where a GPU cannot run it.
    ExecutablePtr load(const ir::SavedPlan &plan);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// Throws Failure(Device) where a GPU has no access any more to the memory of another that the Program needs.
void check_peers(const Executable &executable);

} // namespace lz::engine
