#include "count_allocations.h"

#include <cstdlib>
#include <new>

namespace {
thread_local int64_t g_allocations = 0, g_fail_at = 0;
} // namespace

// ThreadSanitizer brings an operator new of its own: there nothing is counted.
#if !defined(LAZULI_SANITIZE_THREAD)
void *operator new(size_t bytes, const std::nothrow_t &) noexcept {
    return ++g_allocations == g_fail_at ? nullptr : std::malloc(bytes ? bytes : 1);
}
void *operator new(size_t bytes) {
    if (void *memory = operator new(bytes, std::nothrow))
        return memory;
    throw std::bad_alloc();
}
void *operator new[](size_t bytes) {
    return operator new(bytes);
}
void *operator new[](size_t bytes, const std::nothrow_t &) noexcept {
    return operator new(bytes, std::nothrow);
}
void operator delete(void *memory) noexcept {
    std::free(memory);
}
void operator delete(void *memory, size_t) noexcept {
    std::free(memory);
}
void operator delete[](void *memory) noexcept {
    std::free(memory);
}
void operator delete[](void *memory, size_t) noexcept {
    std::free(memory);
}
#endif

namespace lz::runtime::test {

int64_t allocations_of_this_thread() {
    return g_allocations;
}

FailingAllocation::FailingAllocation(int64_t n) {
    g_fail_at = g_allocations + n;
}
FailingAllocation::~FailingAllocation() {
    g_fail_at = 0;
}
bool FailingAllocation::failed() const {
    return g_allocations >= g_fail_at;
}
bool FailingAllocation::possible() {
#ifdef LAZULI_SANITIZE_THREAD
    return false;
#else
    return true;
#endif
}

} // namespace lz::runtime::test
