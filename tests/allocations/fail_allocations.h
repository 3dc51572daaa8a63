#pragma once
/// operator new of this test program: one allocation, counted from a moment on all threads together, can be
/// made to fail.
///
/// The narrow rule of what never fails: an allocation with a frame of LLVM's library or of the dynamic loader
/// on its stack. LLVM is built without exceptions and ends the process when it gets no memory; the loader
/// does not expect one.

#include <cstdint>

namespace lz::test {

/// From now on the allocation after so many others throws std::bad_alloc, once.
void fail_allocation_after(int64_t others);
/// What became of that.
enum class Outcome : uint8_t {
    NotReached, ///< there were not so many
    Failed,     ///< it was thrown
    Spared,     ///< it was LLVM's or the loader's
};
/// Allocations succeed again.
Outcome stop_failing();
/// Whether this build counts at all: under sanitizers operator new is theirs.
bool allocations_can_fail();

} // namespace lz::test
