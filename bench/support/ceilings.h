#pragma once
/// What the machine itself can do, measured in the run that uses it: the ceilings that results are fractions
/// of.

#include <cstdint>

namespace lz::bench {

struct Ceilings {
    double copy;  ///< bytes per second, read plus written, streaming stores
    double triad; ///< bytes per second of a = b + s * c, streaming stores
    double read;  ///< bytes per second of a sum over one array
};

/// Medians over `repeats` passes with all threads of the process, arrays of `bytes` each. f32.
Ceilings measure_ceilings(int64_t bytes, int threads, int repeats = 9);

/// Fused multiply-adds per second of the whole machine in f32, times two.
double measure_flops(int threads);

} // namespace lz::bench
