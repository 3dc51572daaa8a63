#pragma once
/// Products by a kernel of the library's own, where cuBLASLt has no algorithm.

#include "ir/types/dtype.h"
#include "runtime/cuda/library/kernels.h"

#include <cstdint>

namespace lz::runtime::cuda {

/// Strides are in elements; `out` is dense: batches, m, n. `bias` has n elements, or is null.
struct Product {
    ir::DType dtype{};
    int64_t m = 0, n = 0, k = 0;
    int64_t lhs_m = 0, lhs_k = 0, rhs_k = 0, rhs_n = 0;
    int64_t batches = 1, lhs_batch = 0, rhs_batch = 0;
    int64_t epilogue = 0; ///< kProductRelu ... (matmul.h)
    const void *lhs = nullptr, *rhs = nullptr, *bias = nullptr;
    void *out = nullptr;
};

/// The kernel of products of a dtype, with what is done before they are stored.
KernelSource product_source(ir::DType dtype, int64_t epilogue);

/// Puts it on a stream. A sum is made in f32 (f64 for f64) by multiply-adds in ascending k, and rounded once.
/// A thread makes an element and reads its row and column from memory: right for every shape, and slow.
/// Throws Failure(Compile) where there is no compiler, and Failure(Cuda).
void put_product(const LibraryKernels &kernels, const Product &product, void *stream);

} // namespace lz::runtime::cuda
