#pragma once
/// Files of images, before they are tensors.

#include "lazuli/core/location.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lz::data {

/// Records of one file after the other.
struct ImageRecords {
    std::string pixels;          ///< 3x32x32 bytes of each
    std::vector<int64_t> labels; ///< of each
};

/// CIFAR's files, packed by gzip or not: records of `label_bytes` bytes, the last of which counts, and
/// 3x32x32 bytes. Throws IoError for a file that is not made of records, and for labels from `classes` on.
ImageRecords read_cifar(const std::vector<std::string> &paths, size_t label_bytes, int classes,
                        const char *function, Location loc);

} // namespace lz::data
