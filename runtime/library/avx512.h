#pragma once
/// Functions for AVX-512 beside others that run on every x86-64.

#if defined(__x86_64__)
#include <immintrin.h>
/// Compiled for AVX-512 whatever the rest is compiled for; called where the machine has it.
#define LAZULI_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl")]]
#endif
