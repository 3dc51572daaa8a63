#pragma once
/// Functions for AVX-512 beside others that run on every machine.

#if defined(__x86_64__)
#include <immintrin.h>
/// Compiled for AVX-512 whatever the rest is compiled for; called where has_avx512() says so.
#define LAZULI_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl")]]
#endif

namespace lz::runtime {

/// Whether this machine has AVX-512 (F, BW and VL) and it may be used.
bool has_avx512();

/// For tests, while nothing else uses the library: whether functions for AVX-512 may be taken where the
/// machine has it.
void allow_avx512(bool allow);

} // namespace lz::runtime
