#pragma once
/// Programs that users have, whose kernels are of every shape and tier of CUDA devices.

#include <string>
#include <vector>

namespace lz::test {

/// A graph, and what its kernels are called in tests.
struct CorpusEntry {
    std::string name, text;
    bool reproducible = false; ///< products are kernels of Lazuli's
};

std::vector<CorpusEntry> cuda_corpus();

} // namespace lz::test
