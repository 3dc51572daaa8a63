#include "ir/saved/isa_level.h"

#include "ir/host/amx.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lz::ir {

std::string_view name(IsaLevel level) {
    constexpr std::string_view kNames[kIsaLevels] = {"x86-64-v3", "x86-64-v4", "x86-64-v4+bf16",
                                                     "x86-64-v4+amx"};
    return kNames[static_cast<uint8_t>(level)];
}

#if defined(__x86_64__)

namespace {

/// CPUID leaf 7, EDX bits 22 (bf16) and 25 (bytes; Intel SDM vol. 2A): the compiler's own names do not have
/// them yet.
bool has_amx() {
    constexpr unsigned kBoth = 1U << 22 | 1U << 25;
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kBoth) == kBoth;
}

} // namespace

bool runs_here(IsaLevel level) {
    if (__builtin_cpu_supports("x86-64-v3") == 0)
        return false;
    if (level >= IsaLevel::V4 && __builtin_cpu_supports("x86-64-v4") == 0)
        return false;
    if (level >= IsaLevel::V4Bf16 && __builtin_cpu_supports("avx512bf16") == 0)
        return false;
    return level < IsaLevel::V4Amx || (has_amx() && may_use_amx());
}

#else

bool runs_here(IsaLevel) {
    return false;
}

#endif

} // namespace lz::ir
