#pragma once
/// What programs from files take and give: for `lz::load_program` (program.h) and for the library that runs
/// them without the rest (run.h).

#include "lazuli/core/dtype.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lz {

/// How a program is loaded.
struct LoadProgramOptions {
    /// Files with machine code are loaded when they belong to this user or to root and nobody else may write
    /// them. true: others', too. What they say is run with all rights of this process.
    bool from_anybody = false;
    /// Where the safetensors files are that a program refers to (SaveProgramOptions::weights): their folder,
    /// or, of a program that refers to one, that file. Empty: where they were beside the program file when
    /// it was saved. They hold no code: it does not matter whose they are.
    std::string weights = {};
    /// The elements that the program refers to are read and have to be those that it was saved with. false:
    /// names, dtypes and shapes are compared, and what is there is what is computed with.
    bool check_weights = true;
    /// Those elements are the file's own pages, which all processes that load it share, where they are
    /// aligned as their dtype; with `check_weights = false` they are read when they are first used. The file
    /// may be replaced or removed meanwhile (`lz::save` replaces), but must not be cut short or written to in
    /// place. false: they are read into memory at once.
    bool map_weights = true;
};

/// A tensor that a program takes or gives.
struct ProgramTensor {
    std::string name;           ///< as SaveProgramOptions gave it
    DType dtype = DType::F32;   ///< of its elements
    std::vector<int64_t> shape; ///< its extents
    std::string device = "cpu"; ///< where it is: `cpu`, `cuda:0`
};

/// One of the calls that a program was recorded for.
struct ProgramSignature {
    std::vector<ProgramTensor> inputs;  ///< in the order of the call
    std::vector<ProgramTensor> outputs; ///< in the order of the results
    /// The numbers of the call: nothing where any number does, else the one that was recorded.
    std::vector<std::optional<double>> numbers;
};

} // namespace lz
