#pragma once
/// operator new is counted in this test program, so that a test can say "allocates nothing".

#include <cstdint>

namespace lz::runtime::test {

int64_t allocations_of_this_thread();

} // namespace lz::runtime::test
