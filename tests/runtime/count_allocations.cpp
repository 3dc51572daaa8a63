#include "count_allocations.h"

#include <cstdlib>
#include <new>

namespace {
thread_local int64_t g_allocations = 0;
} // namespace

// Sanitizers bring an operator new of their own: there nothing is counted.
#if !defined(LAZULI_SANITIZE_THREAD) && !defined(LAZULI_SANITIZE_ADDRESS)
void *operator new(size_t bytes) {
    ++g_allocations;
    if (void *memory = std::malloc(bytes))
        return memory;
    throw std::bad_alloc();
}
void operator delete(void *memory) noexcept {
    std::free(memory);
}
void operator delete(void *memory, size_t) noexcept {
    std::free(memory);
}
#endif

namespace lz::runtime::test {

int64_t allocations_of_this_thread() {
    return g_allocations;
}

} // namespace lz::runtime::test
