#pragma once
/// cuBLASLt for machines without a GPU: the functions of libcublasLt that a tensor engine calls for matrix
/// products. It stands on the fake driver (tests/support/cuda/driver/fake_cuda.h), works in the order of its
/// streams, and is captured into its graphs:
///
///     LAZULI_CUDA_DRIVER=build/release/lib/liblazuli_fake_cuda.so
///     LAZULI_CUBLASLT=build/release/lib/liblazuli_fake_cublaslt.so ./train
///
/// **It checks what it is given** as the library's reference documents it ("cublasLtMatmul", CUDA 13): types
/// of the matrices, of the scale and of the computation against the table of those that go together; shapes,
/// orders, leading dimensions and batches against each other; that an algorithm is used for the problem that
/// it was asked for, with pointers aligned as was promised and the workspace that it needs, 256-byte aligned.
/// What is not supported is CUBLAS_STATUS_NOT_SUPPORTED, what is wrong CUBLAS_STATUS_INVALID_VALUE;
/// LAZULI_FAKE_CUDA_LOG=1 says why on stderr. Memory that a product touches outside of live allocations is
/// the driver's CUDA_ERROR_ILLEGAL_ADDRESS.
///
/// **Products** are summed in the type of the computation, ascending, and rounded once to the type of D.
///
/// Not there: 8-bit floats, complex numbers, orders other than by rows and by columns, auxiliary outputs and
/// gradients of epilogues, matrix transforms.
///
/// LAZULI_FAKE_CUBLASLT_VERSION, 120100 for 12.1.0, is what cublasLtGetVersion says. With
/// LAZULI_FAKE_CUBLASLT_ALGORITHMS=0 it has no algorithm for any problem.
///
/// Its functions can be made to fail like the driver's: lazuli_fake_cuda_fail("cublasLtMatmul", 1, 14) makes
/// the next call return that cublasStatus_t.

extern "C" {
/// Names of all functions that can fail, ended by null.
const char *const *lazuli_fake_cublaslt_functions();
}
