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
