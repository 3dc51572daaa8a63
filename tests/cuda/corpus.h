#pragma once
/// Programs that users have, whose kernels are of every shape and tier of CUDA devices.

#include <string>
#include <vector>

namespace lz::test {

/// A graph, and what its kernels are called in tests.
struct CorpusEntry {
    std::string name, text;
    bool reproducible = false; ///< products are kernels of Lazuli's
    int multiprocessors = 132; ///< of the device that it is for
};

enum class CorpusExtents {
    Users,
    /// As few elements as an interpreter runs in no time, on devices with fewer multiprocessors where that
    /// makes the kernels those of Users on an H200.
    Few,
};

std::vector<CorpusEntry> cuda_corpus(CorpusExtents extents = CorpusExtents::Users);

} // namespace lz::test
