#pragma once
/// The GPUs of this machine, or why there are none. No header of CUDA is needed to include this.

#include "runtime/api/backend.h"
#include "runtime/cuda/libraries.h"

#include <memory>
#include <string>
#include <vector>

namespace lz::runtime::cuda {

struct Gpus {
    std::vector<std::unique_ptr<Backend>> backends; ///< cuda:0, cuda:1, ...
    Library nvrtc;                                  ///< that compiles for them
    /// What was found, or why there is none: a whole sentence.
    std::string availability;
};

/// `graphs`: runs that come again may be launched as graphs.
Gpus open_gpus(const Search &search, bool graphs);

} // namespace lz::runtime::cuda
