// The library's handle, its choice of algorithms, and products in streams.

#include "tests/support/cuda/cublaslt/fake_cublaslt.h"
#include "tests/support/cuda/cublaslt/problem.h"
#include "tests/support/cuda/driver/fake_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>

namespace lz::fake_cublaslt {
namespace {

struct StatusText {
    cublasStatus_t status;
    const char *name;
};
#define STATUS(status)                                                                                       \
    StatusText {                                                                                             \
        status, #status                                                                                      \
    }
constexpr std::array kStatus{
    STATUS(CUBLAS_STATUS_SUCCESS),        STATUS(CUBLAS_STATUS_NOT_INITIALIZED),
    STATUS(CUBLAS_STATUS_ALLOC_FAILED),   STATUS(CUBLAS_STATUS_INVALID_VALUE),
    STATUS(CUBLAS_STATUS_ARCH_MISMATCH),  STATUS(CUBLAS_STATUS_MAPPING_ERROR),
    STATUS(CUBLAS_STATUS_INTERNAL_ERROR), STATUS(CUBLAS_STATUS_EXECUTION_FAILED),
    STATUS(CUBLAS_STATUS_NOT_SUPPORTED),  STATUS(CUBLAS_STATUS_LICENSE_ERROR),
};
#undef STATUS

const char *name_of(cublasStatus_t status) {
    const auto *found = std::ranges::find(kStatus, status, &StatusText::status);
    return found == kStatus.end() ? "unrecognized cuBLAS status" : found->name;
}

/// Live handles.
struct Contexts {
    std::mutex mutex;
    std::set<uint64_t> live;
    uint64_t count = 0;
};
Contexts &contexts() {
    static auto *const c = new Contexts;
    return *c;
}

void check_handle(cublasLtHandle_t handle) {
    const std::lock_guard lock(contexts().mutex);
    if (!contexts().live.contains(reinterpret_cast<uint64_t>(handle)))
        refuse(CUBLAS_STATUS_NOT_INITIALIZED, "the handle was not made, or is destroyed");
}

/// An algorithm: what it was made for, and what it asks for.
struct Algorithm {
    uint32_t magic;
    uint32_t align_a, align_b, align_c, align_d;
    uint32_t scheme;
    uint64_t workspace;
    uint64_t problem;

    static constexpr uint32_t kMagic = 0x4c7a4d34;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

Algorithm algorithm_of(const cublasLtMatmulAlgo_t &algo) {
    Algorithm a;
    std::memcpy(&a, &algo, sizeof a);
    if (a.magic != Algorithm::kMagic)
        invalid("the algorithm was not chosen by the library");
    return a;
}

cublasLtMatmulHeuristicResult_t result_of(const Algorithm &a) {
    cublasLtMatmulHeuristicResult_t r{};
    std::memcpy(&r.algo, &a, sizeof a);
    r.workspaceSize = a.workspace;
    r.state = CUBLAS_STATUS_SUCCESS;
    r.wavesCount = 1;
    return r;
}

constexpr uint64_t kSplitWorkspace = uint64_t{4} << 20;

void check_alignment(uint64_t address, uint32_t element, uint32_t promised, const char *name) {
    if (address % element != 0)
        invalid(
            fmt::format("{}: 0x{:x} is no multiple of {}, the bytes of an element", name, address, element));
    if (promised != 0 && address % promised != 0)
        invalid(fmt::format("{}: 0x{:x} is no multiple of {}, which the preference promised", name, address,
                            promised));
}

double scalar(const void *at, int32_t type, const char *name) {
    if (!at)
        invalid(fmt::format("{} is null", name));
    switch (type) {
    case CUDA_R_16F: {
        _Float16 value;
        std::memcpy(&value, at, sizeof value);
        return static_cast<double>(value);
    }
    case CUDA_R_32I:
        return *static_cast<const int32_t *>(at);
    case CUDA_R_64F:
        return *static_cast<const double *>(at);
    default:
        return *static_cast<const float *>(at);
    }
}

/// A product that waits in a stream.
struct Pending {
    Problem problem;
    double alpha, beta;
    uint64_t a, b, c, d, workspace;
    size_t workspace_bytes;

    CUresult run() const {
        const auto bytes = [](uint64_t address, size_t count) {
            return static_cast<unsigned char *>(lazuli_fake_cuda_bytes(address, count));
        };
        const Problem &p = problem;
        Pointers at{bytes(a, span_bytes(p.a)),
                    bytes(b, span_bytes(p.b)),
                    nullptr,
                    nullptr,
                    bytes(d, span_bytes(p.d)),
                    alpha,
                    beta};
        bool ok = at.a && at.b && at.d;
        if (beta != 0)
            ok = (at.c = bytes(c, span_bytes(p.c))) && ok;
        if (p.op.epilogue & CUBLASLT_EPILOGUE_BIAS) {
            const auto batches = static_cast<uint64_t>(p.d.batch - 1);
            ok = (at.bias = bytes(p.op.bias, (batches * static_cast<uint64_t>(p.op.bias_stride) + p.m) *
                                                 size_of(p.d.type))) &&
                 ok;
        }
        unsigned char *scratch = workspace_bytes ? bytes(workspace, workspace_bytes) : nullptr;
        if (!ok || (workspace_bytes && !scratch)) {
            std::fprintf(stderr,
                         "fake cuBLASLt: a product of %llux%llux%llu touches memory that is not allocated.\n",
                         static_cast<unsigned long long>(p.m), static_cast<unsigned long long>(p.n),
                         static_cast<unsigned long long>(p.k));
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
        if (scratch) // what lay there is gone
            std::memset(scratch, 0xff, workspace_bytes);
        multiply(p, at);
        return CUDA_SUCCESS;
    }
};

void check_workspace(const Algorithm &algo, const void *workspace, size_t bytes) {
    if (algo.workspace > bytes || (algo.workspace != 0 && !workspace))
        invalid(fmt::format("{} bytes of workspace; the algorithm needs {}", bytes, algo.workspace));
    if (algo.workspace != 0 && reinterpret_cast<uint64_t>(workspace) % 256 != 0)
        invalid("the workspace is not aligned to 256 bytes");
}

const char *const kFunctions[] = {"cublasLtCreate",
                                  "cublasLtDestroy",
                                  "cublasLtGetProperty",
                                  "cublasLtMatrixLayoutInit_internal",
                                  "cublasLtMatrixLayoutCreate",
                                  "cublasLtMatrixLayoutDestroy",
                                  "cublasLtMatrixLayoutSetAttribute",
                                  "cublasLtMatrixLayoutGetAttribute",
                                  "cublasLtMatmulDescInit_internal",
                                  "cublasLtMatmulDescCreate",
                                  "cublasLtMatmulDescDestroy",
                                  "cublasLtMatmulDescSetAttribute",
                                  "cublasLtMatmulDescGetAttribute",
                                  "cublasLtMatmulPreferenceInit_internal",
                                  "cublasLtMatmulPreferenceCreate",
                                  "cublasLtMatmulPreferenceDestroy",
                                  "cublasLtMatmulPreferenceSetAttribute",
                                  "cublasLtMatmulPreferenceGetAttribute",
                                  "cublasLtMatmulAlgoGetHeuristic",
                                  "cublasLtMatmulAlgoCheck",
                                  "cublasLtMatmul",
                                  nullptr};

} // namespace

void refuse(cublasStatus_t status, std::string why) {
    throw Refused{status, std::move(why)};
}
void invalid(std::string why) {
    refuse(CUBLAS_STATUS_INVALID_VALUE, std::move(why));
}
void unsupported(std::string why) {
    refuse(CUBLAS_STATUS_NOT_SUPPORTED, std::move(why));
}

cublasStatus_t count_call(const char *function) {
    return static_cast<cublasStatus_t>(lazuli_fake_cuda_count(function));
}

cublasStatus_t log_refused(const char *function, const Refused &refused) {
    const char *log = std::getenv("LAZULI_FAKE_CUDA_LOG");
    if (log && *log == '1')
        std::fprintf(stderr, "fake cuBLASLt: %s: %s: %s.\n", function, name_of(refused.status),
                     refused.why.c_str());
    return refused.status;
}

} // namespace lz::fake_cublaslt

using namespace lz::fake_cublaslt; // NOLINT

extern "C" __attribute__((visibility("default"))) const char *const *lazuli_fake_cublaslt_functions() {
    return kFunctions;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    return call(__func__, [&] {
        if (!handle)
            invalid("a null pointer for the handle");
        CUcontext context = nullptr;
        if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
            refuse(CUBLAS_STATUS_NOT_INITIALIZED, "the driver is not initialized, or no context is current");
        const std::lock_guard lock(contexts().mutex);
        const uint64_t made = uint64_t{0xcb} << 56 | ++contexts().count << 4;
        contexts().live.insert(made);
        *handle = reinterpret_cast<cublasLtHandle_t>(made);
    });
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    return call(__func__, [&] {
        check_handle(handle);
        const std::lock_guard lock(contexts().mutex);
        contexts().live.erase(reinterpret_cast<uint64_t>(handle));
    });
}

size_t cublasLtGetVersion() {
    const char *text = std::getenv("LAZULI_FAKE_CUBLASLT_VERSION");
    return text && *text ? std::strtoull(text, nullptr, 10) : CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion() {
    return CUDA_VERSION;
}

cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int *value) {
    return call(__func__, [&] {
        if (!value)
            invalid("a null pointer for the value");
        switch (type) {
        case MAJOR_VERSION:
            *value = CUBLAS_VER_MAJOR;
            break;
        case MINOR_VERSION:
            *value = CUBLAS_VER_MINOR;
            break;
        case PATCH_LEVEL:
            *value = CUBLAS_VER_PATCH;
            break;
        default:
            invalid("the property is not known");
        }
    });
}

const char *cublasLtGetStatusName(cublasStatus_t status) {
    return name_of(status);
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
    return name_of(status);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t results[], int *count) {
    return call(__func__, [&] {
        check_handle(handle);
        if (asked < 1 || !results || !count)
            invalid("no algorithm is asked for, or there is no room for it");
        *count = 0;
        const Problem problem = check_problem(operation, a, b, c, d);
        const char *const none = std::getenv("LAZULI_FAKE_CUBLASLT_ALGORITHMS");
        if (none && std::strcmp(none, "0") == 0)
            return;
        const Preference &p = preference_of(preference);
        Algorithm algo{Algorithm::kMagic, p.align_a, p.align_b, p.align_c,
                       p.align_d,         0,         0,         problem.fingerprint()};
        // Sums of parts of k are kept in the workspace, where there is enough of it; then without.
        const bool splits = problem.k >= 512 && p.workspace >= kSplitWorkspace;
        if (splits && p.schemes & CUBLASLT_REDUCTION_SCHEME_INPLACE)
            invalid("sums may be made in place, by atomics: equal calls would not have equal bits");
        if (splits && p.schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) {
            algo.scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
            algo.workspace = kSplitWorkspace;
            results[(*count)++] = result_of(algo);
        }
        if (*count < asked) {
            algo.scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
            algo.workspace = 0;
            results[(*count)++] = result_of(algo);
        }
    });
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result) {
    return call(__func__, [&] {
        check_handle(handle);
        if (!algo || !result)
            invalid("the algorithm or the result is null");
        const Algorithm chosen = algorithm_of(*algo);
        if (chosen.problem != check_problem(operation, a, b, c, d).fingerprint())
            unsupported("the algorithm was chosen for another problem");
        *result = result_of(chosen);
    });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
    return call(__func__, [&] {
        check_handle(handle);
        const Problem p = check_problem(operation, a_layout, b_layout, c_layout, d_layout);
        const auto address = [](const void *pointer) { return reinterpret_cast<uint64_t>(pointer); };
        Pending job{p,
                    scalar(alpha, p.op.scale, "alpha"),
                    scalar(beta, p.op.scale, "beta"),
                    address(a),
                    address(b),
                    address(c),
                    address(d),
                    0,
                    0};
        if (!a || !b || !d || (job.beta != 0 && !c))
            invalid("a matrix is null");
        Algorithm chosen{};
        if (algo) {
            chosen = algorithm_of(*algo);
            if (chosen.problem != p.fingerprint())
                invalid("the algorithm was chosen for another problem");
            check_workspace(chosen, workspace, workspace_bytes);
            job.workspace = address(workspace);
            job.workspace_bytes = chosen.workspace;
        }
        const uint32_t least = p.a.type == CUDA_R_8I ? 4 : 1;
        check_alignment(job.a, std::max(least, size_of(p.a.type)), chosen.align_a, "A");
        check_alignment(job.b, std::max(least, size_of(p.b.type)), chosen.align_b, "B");
        check_alignment(job.d, std::max(least, size_of(p.d.type)), chosen.align_d, "D");
        if (job.beta != 0)
            check_alignment(job.c, std::max(least, size_of(p.c.type)), chosen.align_c, "C");
        if (job.beta != 0 && job.c == job.d && std::memcmp(&p.c, &p.d, sizeof p.c) != 0)
            invalid("C and D are in one place with different layouts");
        if (p.op.epilogue & CUBLASLT_EPILOGUE_BIAS) {
            if (p.op.bias == 0)
                invalid("the bias is null");
            check_alignment(p.op.bias, size_of(p.d.type), 0, "the bias");
        }
        const int failed = lazuli_fake_cuda_enqueue(
            stream, [](void *job) { return static_cast<int>(static_cast<Pending *>(job)->run()); },
            [](void *job) { delete static_cast<Pending *>(job); }, new Pending(job));
        if (failed)
            refuse(CUBLAS_STATUS_EXECUTION_FAILED, fmt::format("the driver returned {}", failed));
    });
}
