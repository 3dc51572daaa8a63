#pragma once
/// Looking at what the compiler does.

#include "lazuli/tensor.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lz {

/// The Graph IR of what is pending for `tensor`, as `lz-opt` reads it. Computes nothing. A tensor that is
/// ready gives a graph without operations.
LZ_API std::string dump(const Tensor &tensor, Location loc = Location::current());
/// The same for everything pending on this thread.
LZ_API std::string dump(Location loc = Location::current());

/// What the compiler makes of what is pending for `tensor`: kernels with what was fused into each, why a
/// neighbour was not, bytes moved, floating-point operations, planned peak memory; and what the operations
/// behind it keep for backward, by line. Runs the passes; generates and computes nothing.
LZ_API std::string explain(const Tensor &tensor, Location loc = Location::current());
/// The same for everything pending on this thread.
LZ_API std::string explain(Location loc = Location::current());

/// Scalar operations that computing what is pending for `tensor` takes as it was recorded, before any pass:
/// one an element of elementwise functions (exp counts as one) and of what is reduced, two a multiply-add of
/// products; casts, copies, views and lookups count nothing, nor does what leads to the tensors that are
/// `given`. Computes nothing; 0 for a tensor that is ready.
LZ_API double pending_flops(const Tensor &tensor, std::span<const Tensor> given = {},
                            Location loc = Location::current());

/// Compiles what is pending for `tensor` and proves that its Program orders every two accesses that conflict,
/// to the byte, reuse of memory included, and every pass's output well-formed (S46). Returns a sentence that
/// says what was checked; computes nothing. Throws InternalError with both accesses and your lines of them
/// where a sync is missing, which is a bug of ours.
LZ_API std::string verify_schedule(const Tensor &tensor, Location loc = Location::current());
/// The same for everything pending on this thread.
LZ_API std::string verify_schedule(Location loc = Location::current());

/// Counts of the process since its start or the last reset (S27).
struct CompileStats {
    int64_t programs_compiled = 0;   ///< recordings that were new: the passes ran
    int64_t programs_resized = 0;    ///< recordings of new sizes for which a Program was there
    int64_t programs_reused = 0;     ///< recordings whose Program was there
    int64_t kernels_compiled = 0;    ///< kernels for which code was generated
    int64_t kernels_from_memory = 0; ///< kernels of new programs that were there already
    int64_t kernels_from_disk = 0;   ///< kernels loaded from the cache directory
    int64_t kernel_launches = 0;
    double pass_seconds = 0;    ///< time in compiler passes
    double codegen_seconds = 0; ///< time in code generation and loading
};
/// The counts of now.
LZ_API CompileStats compile_stats();
/// All counts are 0 again.
LZ_API void reset_compile_stats();

/// Threads of the pool: LAZULI_THREADS, else what the container allows (S67).
LZ_API int num_threads();
/// LibTorch's name of `num_threads`.
inline int get_num_threads() {
    return num_threads();
}
/// Throws StateError unless n is at least 1.
LZ_API void set_num_threads(int n, Location loc = Location::current());

/// Whether products have one order on every device: LAZULI_REPRODUCIBLE=1, or what was set last.
LZ_API bool is_reproducible();
/// For the process, and for what is compiled from now on, also of what is recorded already: products of
/// floats
/// (`matmul`, `einsum`, `linear`) begin at 0 and take one fused multiply-add
/// after the other, in ascending order of what is summed over, in f32 (f64 for f64), and round once. So they
/// have equal bits on the CPU, virtual GPUs and CUDA devices, whatever the ISA, and with that everything that
/// is not said to differ (S29). On CUDA devices no library multiplies then, and a product of a matrix and a
/// vector is slower everywhere. LAZULI_FAST_MATH=1 still contracts what stands beside products.
LZ_API void set_reproducible(bool reproducible);

/// What products of f32 (`matmul`, `einsum`, `linear`) may round their operands to on CUDA devices, where
/// tensor cores are several times as fast with less; sums stay in f32, and so does the CPU, and products of
/// other dtypes.
enum class MatmulPrecision : uint8_t {
    Highest, ///< f32: nothing is rounded
    High,    ///< TF32, which has 10 bits of the fraction
    Medium,  ///< bf16, which has 7
};
/// LAZULI_FLOAT32_MATMUL_PRECISION=highest|high|medium, or what was set last.
LZ_API MatmulPrecision float32_matmul_precision();
/// For the process, and for what is compiled from now on. `set_reproducible(true)` goes before it: such
/// products are exact.
LZ_API void set_float32_matmul_precision(MatmulPrecision precision);
/// The same by PyTorch's names "highest", "high" and "medium"; throws StateError for another one.
LZ_API void set_float32_matmul_precision(std::string_view name, Location loc = Location::current());

} // namespace lz
