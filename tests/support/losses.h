#pragma once
/// Random programs some of whose operations fail.

#include "tests/support/random/graph.h"

#include <cstdint>
#include <functional>

namespace lz::test {

/// Runs random programs with divisors that are zero and indices out of range, from seed `first` on (0:
/// without end), and expects that all and only what depends on an operation that failed is lost, as the
/// interpreter says, which runs operation by operation (S26). What is wrong is shrunk and printed.
void expect_right_losses(int64_t programs, uint64_t first,
                         const std::function<RandomGraphOptions(uint64_t seed)> &options_of);

} // namespace lz::test
