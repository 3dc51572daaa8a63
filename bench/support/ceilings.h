#pragma once
/// What the machine itself can do, measured in the run that uses it: the ceilings that results are fractions
/// of.

#include <cstdint>
#include <memory>

namespace lz::bench {

enum class Traffic {
    Copy,  ///< a = b, streaming stores: bytes read plus written
    Triad, ///< a = b + s * c, streaming stores
    Read,  ///< the sum of one array
};

/// Each ceiling can be measured in two ways that share no code: what they disagree on is not a ceiling.
/// `bench_ceilings` prints both.
enum class Way { First, Second };

/// Passes over arrays of the meter's own with all threads of the process, f32. One pass is short, so that it
/// can take turns with what is compared to it: other users of the machine's memory meet both.
class MemoryMeter {
public:
    /// Arrays of `bytes` each.
    MemoryMeter(int64_t bytes, int threads);
    ~MemoryMeter();
    MemoryMeter(const MemoryMeter &) = delete;
    MemoryMeter &operator=(const MemoryMeter &) = delete;

    /// Bytes a second of one pass.
    double pass(Traffic traffic, Way way = Way::First);

private:
    struct Arrays;
    std::unique_ptr<Arrays> arrays_;
};

/// What multiplies and adds: vectors of numbers, or of pairs of bf16, or tiles of bf16 (AMX).
enum class Unit { F32, F64, Bf16Pairs, Bf16Tiles };

/// Whether the processor has it, and the system lets this process use it.
bool has(Unit unit);

/// Operations per second of the whole machine: a multiplication and an addition are two. `unit` is there.
double measure_flops(int threads, Way way = Way::First, Unit unit = Unit::F32);

} // namespace lz::bench
