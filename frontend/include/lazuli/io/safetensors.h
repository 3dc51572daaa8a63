#pragma once
/// What a safetensors file says of itself.

#include "lazuli/io.h"

#include <map>
#include <string>
#include <vector>

namespace lz::io {

/// One tensor of a file, without its elements.
struct TensorInfo {
    /// Its name in the file.
    std::string name;
    /// Its element type.
    DType dtype = DType::F32;
    /// Its extents.
    Sizes sizes;
};

/// The head of a safetensors file: reads no elements.
struct SafetensorsInfo {
    /// In the order of the file.
    std::vector<TensorInfo> tensors;
    /// The text beside the tensors.
    std::map<std::string, std::string> metadata;
};

/// Reads the head of a safetensors file, or those of all files that an index names. Throws as `load`.
[[nodiscard]] LZ_API SafetensorsInfo safetensors_info(const std::string &path,
                                                      Location loc = Location::current());

} // namespace lz::io
