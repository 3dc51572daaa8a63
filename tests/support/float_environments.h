#pragma once
/// Floating-point environments that a user's thread may have.

#include <cfenv>
#include <functional>
#include <vector>

#if defined(__x86_64__)
#include <pmmintrin.h>
#include <xmmintrin.h>
#endif

namespace lz::test {

struct Environment {
    const char *name;
    std::function<void()> enter;
    std::function<void()> leave = [] { std::fesetenv(FE_DFL_ENV); };
};

inline std::vector<Environment> environments() {
    std::vector<Environment> all = {
        {"rounds up", [] { std::fesetround(FE_UPWARD); }},
        {"rounds down", [] { std::fesetround(FE_DOWNWARD); }},
        {"rounds to zero", [] { std::fesetround(FE_TOWARDZERO); }},
    };
#if defined(__GLIBC__)
    all.push_back({"traps", [] { feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW); }});
#endif
#if defined(__x86_64__)
    all.push_back({"flushes subnormals", [] {
                       _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
                       _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
                   }});
#endif
    return all;
}

/// Rounding mode, flags and, where they can be told, masks and flushing of the calling thread.
inline std::vector<unsigned> as_it_is() {
    std::vector<unsigned> state = {static_cast<unsigned>(std::fegetround()),
                                   static_cast<unsigned>(std::fetestexcept(FE_ALL_EXCEPT))};
#if defined(__GLIBC__)
    state.push_back(static_cast<unsigned>(fegetexcept()));
#endif
#if defined(__x86_64__)
    state.push_back(_mm_getcsr());
#endif
    return state;
}

} // namespace lz::test
