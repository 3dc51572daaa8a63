#include "runtime/library/avx512.h"

#include <atomic>

namespace lz::runtime {

#if defined(LAZULI_AVX512)

namespace {

std::atomic<bool> allowed = true;

} // namespace

bool has_avx512() {
    static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512vl");
    return has && allowed.load(std::memory_order_relaxed);
}

void allow_avx512(bool allow) {
    allowed = allow;
}

#else

bool has_avx512() {
    return false;
}

void allow_avx512(bool /*allow*/) {}

#endif

} // namespace lz::runtime
