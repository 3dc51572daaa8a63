#pragma once
/// Random programs some of whose operations fail.

#include "tests/support/random/graph.h"

#include <cstdint>
#include <functional>
#include <string>

namespace lz::test {

/// What is lost of the graph and should not be, or the other way round, as below; "" where nothing is wrong.
std::string wrong_losses(const ir::Graph &graph);

/// Runs random programs with divisors that are zero and indices out of range, from seed `first` on (0:
/// without end), and expects that all and only what depends on an operation that failed is lost, as the
/// interpreter says, which runs operation by operation (S26). What is wrong is shrunk and printed.
void expect_right_losses(int64_t programs, uint64_t first,
                         const std::function<RandomGraphOptions(uint64_t seed)> &options_of);

} // namespace lz::test
