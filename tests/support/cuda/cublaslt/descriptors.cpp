#include "tests/support/cuda/cublaslt/descriptors.h"

#include <fmt/format.h>

#include <cstring>
#include <span>

namespace lz::fake_cublaslt {
namespace {

struct Attribute {
    int id;
    size_t at, size;
};

#define ATTRIBUTE(id, type, member)                                                                          \
    Attribute {                                                                                              \
        id, offsetof(type, member), sizeof(type::member)                                                     \
    }
constexpr Attribute kLayoutAttributes[] = {
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_TYPE, Layout, type),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_ORDER, Layout, order),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_ROWS, Layout, rows),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_COLS, Layout, cols),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_LD, Layout, ld),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, Layout, batch),
    ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, Layout, stride),
};
constexpr Attribute kOperationAttributes[] = {
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, Operation, compute),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_SCALE_TYPE, Operation, scale),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_POINTER_MODE, Operation, pointer_mode),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSA, Operation, trans_a),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSB, Operation, trans_b),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSC, Operation, trans_c),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE, Operation, epilogue),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_POINTER, Operation, bias),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, Operation, bias_stride),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, Operation, bias_type),
    ATTRIBUTE(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, Operation, sm_count),
};
constexpr Attribute kPreferenceAttributes[] = {
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_SEARCH_MODE, Preference, search_mode),
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, Preference, workspace),
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, Preference, schemes),
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, Preference, align_a),
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, Preference, align_b),
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, Preference, align_c),
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, Preference, align_d),
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, Preference, waves),
    ATTRIBUTE(CUBLASLT_MATMUL_PREF_IMPL_MASK, Preference, implementations),
};
#undef ATTRIBUTE

template <class T, class O>
T &held(O *opaque, const char *name) {
    T *object = reinterpret_cast<T *>(opaque);
    if (!object || object->magic != T::kMagic)
        invalid(fmt::format("{} was not made, or is destroyed", name));
    return *object;
}

const Attribute &find(std::span<const Attribute> table, int id) {
    for (const Attribute &a : table)
        if (a.id == id)
            return a;
    invalid(fmt::format("attribute {} is not known here", id));
}

template <class T>
void set(T &object, std::span<const Attribute> table, int id, const void *from, size_t size) {
    const Attribute &a = find(table, id);
    if (!from || size != a.size)
        invalid(fmt::format("attribute {} has {} bytes, not {}", id, a.size, size));
    std::memcpy(reinterpret_cast<char *>(&object) + a.at, from, size);
}

template <class T>
void get(const T &object, std::span<const Attribute> table, int id, void *to, size_t size, size_t *written) {
    const Attribute &a = find(table, id);
    if (size == 0) {
        if (!written)
            invalid("neither a value nor its size is asked for");
        *written = a.size;
        return;
    }
    if (!to || size < a.size)
        invalid(fmt::format("attribute {} has {} bytes, not {}", id, a.size, size));
    std::memcpy(to, reinterpret_cast<const char *>(&object) + a.at, a.size);
    if (written)
        *written = a.size;
}

/// Makes the object inside of the opaque memory.
template <class T, class O>
void init(O *opaque, size_t size, const T &value, const char *name) {
    if (!opaque || size < sizeof(T))
        invalid(fmt::format("{}: no room for it", name));
    std::memset(opaque, 0, sizeof(O));
    std::memcpy(opaque, &value, sizeof value);
}

template <class T, class O>
void create(O **opaque, const T &value) {
    if (!opaque)
        invalid("a null pointer for what is made");
    *opaque = new O;
    init(*opaque, sizeof(O), value, "it");
}

template <class T, class O>
void destroy(O *opaque, const char *name) {
    held<T>(opaque, name).magic = 0;
    delete opaque;
}

Layout new_layout(cudaDataType type, uint64_t rows, uint64_t cols, int64_t ld) {
    return {Layout::kMagic, type, CUBLASLT_ORDER_COL, 1, rows, cols, ld, 0};
}

Operation new_operation(cublasComputeType_t compute, cudaDataType_t scale) {
    return {Operation::kMagic,
            compute,
            scale,
            CUBLASLT_POINTER_MODE_HOST,
            CUBLAS_OP_N,
            CUBLAS_OP_N,
            CUBLAS_OP_N,
            CUBLASLT_EPILOGUE_DEFAULT,
            0,
            0,
            -1,
            0};
}

Preference new_preference() {
    return {Preference::kMagic, 0, 0, CUBLASLT_REDUCTION_SCHEME_MASK, 256, 256, 256, 256, 0, ~uint64_t{0}};
}

} // namespace

const Layout &layout_of(cublasLtMatrixLayout_t layout, const char *name) {
    return held<Layout>(layout, name);
}
const Operation &operation_of(cublasLtMatmulDesc_t operation) {
    return held<Operation>(operation, "the descriptor of the operation");
}
const Preference &preference_of(cublasLtMatmulPreference_t preference) {
    return held<Preference>(preference, "the preference");
}

uint32_t size_of(int32_t type) {
    switch (type) {
    case CUDA_R_8I:
        return 1;
    case CUDA_R_16F:
    case CUDA_R_16BF:
        return 2;
    case CUDA_R_32F:
    case CUDA_R_32I:
        return 4;
    case CUDA_R_64F:
        return 8;
    default:
        unsupported(fmt::format("type {} is not there", type));
    }
}

} // namespace lz::fake_cublaslt

using namespace lz::fake_cublaslt; // NOLINT

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t cols,
                                                 int64_t ld) {
    return call(__func__, [&] { init(layout, size, new_layout(type, rows, cols, ld), "a layout"); });
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld) {
    return call(__func__, [&] { create(layout, new_layout(type, rows, cols, ld)); });
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    return call(__func__, [&] { destroy<Layout>(layout, "the layout"); });
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t id, const void *from,
                                                size_t size) {
    return call(__func__,
                [&] { set(held<Layout>(layout, "the layout"), kLayoutAttributes, id, from, size); });
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t id, void *to, size_t size,
                                                size_t *written) {
    return call(__func__,
                [&] { get(held<Layout>(layout, "the layout"), kLayoutAttributes, id, to, size, written); });
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t operation, size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
    return call(__func__, [&] { init(operation, size, new_operation(compute, scale), "an operation"); });
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    return call(__func__, [&] { create(operation, new_operation(compute, scale)); });
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
    return call(__func__, [&] { destroy<Operation>(operation, "the operation"); });
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t id, const void *from,
                                              size_t size) {
    return call(__func__, [&] {
        set(held<Operation>(operation, "the operation"), kOperationAttributes, id, from, size);
    });
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t id, void *to, size_t size,
                                              size_t *written) {
    return call(__func__, [&] {
        get(held<Operation>(operation, "the operation"), kOperationAttributes, id, to, size, written);
    });
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t size) {
    return call(__func__, [&] { init(preference, size, new_preference(), "a preference"); });
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    return call(__func__, [&] { create(preference, new_preference()); });
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    return call(__func__, [&] { destroy<Preference>(preference, "the preference"); });
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t id, const void *from,
                                                    size_t size) {
    return call(__func__, [&] {
        set(held<Preference>(preference, "the preference"), kPreferenceAttributes, id, from, size);
    });
}
cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t id, void *to,
                                                    size_t size, size_t *written) {
    return call(__func__, [&] {
        get(held<Preference>(preference, "the preference"), kPreferenceAttributes, id, to, size, written);
    });
}
