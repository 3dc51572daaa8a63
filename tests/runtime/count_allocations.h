#pragma once
/// operator new is counted in this test program, so that a test can say "allocates nothing"; and it fails
/// when a test says so.

#include <cstdint>

namespace lz::runtime::test {

int64_t allocations_of_this_thread();

/// While it lives, the n-th allocation of this thread from its construction on throws std::bad_alloc.
class FailingAllocation {
public:
    explicit FailingAllocation(int64_t n);
    ~FailingAllocation();
    FailingAllocation(const FailingAllocation &) = delete;
    FailingAllocation &operator=(const FailingAllocation &) = delete;

    /// Whether there were so many.
    bool failed() const;
    /// False where operator new is the sanitizer's own: then none fails.
    static bool possible();
};

} // namespace lz::runtime::test
