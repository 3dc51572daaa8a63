#pragma once
/// Products by cuBLASLt; where that has no algorithm for one, by a kernel (product.h).

#include "runtime/api/library.h"
#include "runtime/api/persistent_store.h"
#include "runtime/cuda/driver/libraries.h"
#include "runtime/cuda/library/kernels.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lz::runtime::cuda {

/// Where cuBLASLt is to be looked for when the first product needs it. Said once, when the devices are found.
void prepare_cublaslt(const Search &search, const Library &driver, const Library &nvrtc);
/// Whether it is there; opens it, which can take a second, when that is asked first.
bool has_cublaslt();
/// It, or why it cannot be used. Opens it, too.
Library cublaslt();

/// What a product may use of the device's memory beside its operands: one size for all of a device, so that
/// heuristics that were asked for once hold for all.
int64_t matmul_workspace_bytes(const ir::DeviceInfo &device);

/// The kernel for products with these integers (Multiplier) that cuBLASLt has no algorithm for.
KernelSource matmul_source(std::span<const int64_t> ints);

/// What a product may do before it stores, as bits: the library's RELU, BIAS and GELU (by tanh).
inline constexpr int64_t kProductRelu = 1, kProductBias = 2, kProductGelu = 4;

/// The library's function `dot` of one device:
///
///     lhs, rhs, out[, bias] | dtype, m, n, k, lhs's strides along m and k, rhs's along k and n, offsets of
///                             lhs and rhs, number of batch axes, and of each its extent and the strides of
///                             lhs and rhs; what is done before it is stored (kProductRelu ...), and what
///                             f32 operands may be rounded to (ir::MatmulPrecision)
///
/// in elements. Of each operand's two strides one is 1 (or its extent is). `out` is dense: batches, m, n;
/// `bias` has n elements, which every row gets. The sum is made in f32 (f64 for f64), without
/// atomics, and rounded once: equal calls have equal bits.
class Multiplier {
public:
    /// Which algorithm is best for a problem on such a `model` of device is kept in `store`, unless that is
    /// null. Both outlive this.
    Multiplier(const LibraryKernels &kernels, std::string model, PersistentStore *store);
    ~Multiplier();
    Multiplier(const Multiplier &) = delete;
    Multiplier &operator=(const Multiplier &) = delete;

    /// Puts the product on args.driver_stream; the device's context is current. Throws Failure(Cuda), and
    /// Failure(Compile) where a kernel is needed and there is no compiler.
    void run(const LibraryArgs &args);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace lz::runtime::cuda
