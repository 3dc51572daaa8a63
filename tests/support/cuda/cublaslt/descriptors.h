#pragma once
/// What is in the descriptors that the user gets, and how functions begin.

#pragma GCC visibility push(default)
#include <cublasLt.h>
#include <cuda.h>
#pragma GCC visibility pop

#include <cstdint>
#include <string>

namespace lz::fake_cublaslt {

struct Refused {
    cublasStatus_t status;
    std::string why;
};
[[noreturn]] void refuse(cublasStatus_t status, std::string why);
[[noreturn]] void invalid(std::string why);
[[noreturn]] void unsupported(std::string why);

/// What a call has to fail with, else success; counts it.
cublasStatus_t count_call(const char *function);
cublasStatus_t log_refused(const char *function, const Refused &refused);

template <class F>
cublasStatus_t call(const char *function, F &&body) {
    if (const cublasStatus_t injected = count_call(function))
        return injected;
    try {
        body();
        return CUBLAS_STATUS_SUCCESS;
    } catch (const Refused &refused) {
        return log_refused(function, refused);
    }
}

struct Layout {
    uint32_t magic;
    int32_t type; ///< cudaDataType
    int32_t order;
    int32_t batch;
    uint64_t rows, cols;
    int64_t ld, stride; ///< elements

    static constexpr uint32_t kMagic = 0x4c7a4d31;
};
static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));

struct Operation {
    uint32_t magic;
    int32_t compute, scale, pointer_mode;
    int32_t trans_a, trans_b, trans_c;
    uint32_t epilogue;
    uint64_t bias; ///< a device address
    int64_t bias_stride;
    int32_t bias_type; ///< -1: that of D
    int32_t sm_count;

    static constexpr uint32_t kMagic = 0x4c7a4d32;
};
static_assert(sizeof(Operation) <= sizeof(cublasLtMatmulDescOpaque_t));

struct Preference {
    uint32_t magic;
    uint32_t search_mode;
    uint64_t workspace;
    uint32_t schemes;
    uint32_t align_a, align_b, align_c, align_d;
    float waves;
    uint64_t implementations;

    static constexpr uint32_t kMagic = 0x4c7a4d33;
};
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));

/// What a descriptor holds; refuses one that was not made or was destroyed.
const Layout &layout_of(cublasLtMatrixLayout_t layout, const char *name);
const Operation &operation_of(cublasLtMatmulDesc_t operation);
const Preference &preference_of(cublasLtMatmulPreference_t preference);

/// Bytes of an element; refuses types that are not there.
uint32_t size_of(int32_t type);

} // namespace lz::fake_cublaslt
