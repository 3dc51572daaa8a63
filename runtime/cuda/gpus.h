#pragma once
/// The GPUs of this machine, or why there are none. No header of CUDA is needed to include this.

#include "runtime/api/backend.h"
#include "runtime/api/kernel_source.h"
#include "runtime/api/notes.h"
#include "runtime/cuda/driver/libraries.h"

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

/// `graphs`: runs that come again may be launched as graphs. `load_source` is called when a kernel of the
/// library is needed first. `notes` outlives the GPUs, or is null: then nothing is kept.
Gpus open_gpus(const Search &search, bool graphs, SourceLoader load_source, Notes *notes);

} // namespace lz::runtime::cuda
