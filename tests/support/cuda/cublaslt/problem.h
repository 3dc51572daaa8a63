#pragma once
/// A product that was checked, and its computation on the host.

#include "tests/support/cuda/cublaslt/descriptors.h"

namespace lz::fake_cublaslt {

struct Problem {
    Operation op;
    Layout a, b, c, d;
    uint64_t m, n, k;

    /// Which numbers a product depends on: equal for problems that one algorithm is for.
    uint64_t fingerprint() const;
};

/// Reads and checks the descriptors against each other. Refuses what is invalid or not supported.
Problem check_problem(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                      cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d);

/// Bytes from the first element of a matrix to behind its last, all batches.
size_t span_bytes(const Layout &layout);

struct Pointers {
    const unsigned char *a, *b, *c, *bias; ///< c is null where beta is 0
    unsigned char *d;
    double alpha, beta;
};
/// D = epilogue(alpha * op(A) op(B) + beta * C).
void multiply(const Problem &problem, const Pointers &p);

} // namespace lz::fake_cublaslt
