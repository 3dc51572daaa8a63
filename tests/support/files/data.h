#pragma once
/// Files that tests read.

#include <cstdlib>
#include <string>

namespace lz::test {

/// `/inputs/x` in the folder of the tests that a program is of: of the source, or of a bundle, where
/// tests/gpu/run.sh says which.
inline std::string test_data(const std::string &name) {
    const char *const folder = std::getenv("LAZULI_TEST_DATA");
    return (folder ? folder : LAZULI_TEST_DATA) + name;
}

} // namespace lz::test
