#include "runtime/cuda/library/matmul.h"

#include "ir/diagnostic.h"
#include "ir/types/dtype.h"
#include "runtime/cuda/library/product.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace lz::runtime::cuda {

namespace {

/// The functions of the opened library.
struct CublasLt {
#define FUNCTION(name) decltype(&::name) name = nullptr;
#define FUNCTIONS                                                                                            \
    FUNCTION(cublasLtCreate)                                                                                 \
    FUNCTION(cublasLtDestroy)                                                                                \
    FUNCTION(cublasLtGetStatusString)                                                                        \
    FUNCTION(cublasLtGetVersion)                                                                             \
    FUNCTION(cublasLtMatmul)                                                                                 \
    FUNCTION(cublasLtMatmulAlgoCheck)                                                                        \
    FUNCTION(cublasLtMatmulAlgoGetHeuristic)                                                                 \
    FUNCTION(cublasLtMatmulDescCreate)                                                                       \
    FUNCTION(cublasLtMatmulDescDestroy)                                                                      \
    FUNCTION(cublasLtMatmulDescSetAttribute)                                                                 \
    FUNCTION(cublasLtMatmulPreferenceCreate)                                                                 \
    FUNCTION(cublasLtMatmulPreferenceDestroy)                                                                \
    FUNCTION(cublasLtMatmulPreferenceSetAttribute)                                                           \
    FUNCTION(cublasLtMatrixLayoutCreate)                                                                     \
    FUNCTION(cublasLtMatrixLayoutDestroy)                                                                    \
    FUNCTION(cublasLtMatrixLayoutSetAttribute)
    FUNCTIONS
#undef FUNCTION

    /// The first function that is missing; null where all are there.
    const char *fill(const Library &library) {
#define FUNCTION(name)                                                                                       \
    name = reinterpret_cast<decltype(name)>(library.find(#name));                                            \
    if (!name)                                                                                               \
        return #name;
        FUNCTIONS
#undef FUNCTION
        return nullptr;
    }
};

/// Opened when it is first asked for.
class OpenOnce {
public:
    static OpenOnce &get() {
        static auto *const one = new OpenOnce;
        return *one;
    }
    void prepare(const Search &search, const Library &driver, const Library &nvrtc) {
        const std::lock_guard lock(mutex_);
        wanted_ = {search, driver, nvrtc};
        opened_ = false;
        library_ = {};
    }
    /// Null where it is not there.
    const CublasLt *open() {
        const std::lock_guard lock(mutex_);
        return opened().missing.empty() ? &functions_ : nullptr;
    }
    /// What was found, or why it cannot be used.
    Library library() {
        const std::lock_guard lock(mutex_);
        return opened();
    }

private:
    const Library &opened() {
        if (std::exchange(opened_, true))
            return library_;
        if (!wanted_) {
            library_.missing = "No GPU of this process needs it.";
            return library_;
        }
        library_ = open_cublaslt(wanted_->search, wanted_->driver, wanted_->nvrtc);
        if (const char *const lacks = library_ ? functions_.fill(library_) : nullptr)
            library_.missing =
                fmt::format("The cuBLASLt at {} is damaged: it lacks {}.", library_.path, lacks);
        return library_;
    }

    struct Wanted {
        Search search;
        Library driver, nvrtc;
    };
    std::mutex mutex_;
    std::optional<Wanted> wanted_;
    bool opened_ = false;
    Library library_;
    CublasLt functions_;
};

/// Algorithms need the workspace aligned to this.
constexpr int64_t kWorkspaceAlignment = 256;
constexpr size_t kMostBatchAxes = 8;
/// Of a device. A program of shapes that change forgets those that it used longest ago.
constexpr size_t kMostPlans = 1024;

/// What a plan depends on.
struct Problem {
    ir::DType dtype{};
    int64_t m = 0, n = 0, k = 0;
    int64_t lhs_m = 0, lhs_k = 0, rhs_k = 0, rhs_n = 0;
    int64_t batches = 1, lhs_batch = 0, rhs_batch = 0;
    uint32_t lhs_alignment = 0, rhs_alignment = 0, out_alignment = 0;
    uint64_t workspace = 0;
    int64_t epilogue = 0;
    ir::MatmulPrecision precision{}; ///< of f32

    auto operator<=>(const Problem &) const = default;
};

cudaDataType type_of(ir::DType dtype) {
    switch (dtype) {
    case ir::DType::F16:
        return CUDA_R_16F;
    case ir::DType::BF16:
        return CUDA_R_16BF;
    case ir::DType::F64:
        return CUDA_R_64F;
    default:
        return CUDA_R_32F;
    }
}

cublasComputeType_t compute_type_of(const Problem &p) {
    if (p.dtype == ir::DType::F64)
        return CUBLAS_COMPUTE_64F;
    switch (p.precision) {
    case ir::MatmulPrecision::High:
        return CUBLAS_COMPUTE_32F_FAST_TF32;
    case ir::MatmulPrecision::Medium:
        return CUBLAS_COMPUTE_32F_FAST_16BF;
    default:
        return CUBLAS_COMPUTE_32F;
    }
}

cublasLtEpilogue_t epilogue_of(int64_t bits) {
    constexpr cublasLtEpilogue_t kWithBias[] = {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS,
                                                CUBLASLT_EPILOGUE_GELU_BIAS};
    constexpr cublasLtEpilogue_t kAlone[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU,
                                             CUBLASLT_EPILOGUE_GELU};
    const size_t function = (bits & kProductRelu) != 0 ? 1 : (bits & kProductGelu) != 0 ? 2 : 0;
    return ((bits & kProductBias) != 0 ? kWithBias : kAlone)[function];
}

/// Where the integers say what is done before the product is stored: behind the batch axes.
size_t epilogue_at(std::span<const int64_t> ints) {
    return 11 + 3 * static_cast<size_t>(ints[10]);
}

/// Of an address, as heuristics count it.
uint32_t alignment_of(const void *address) {
    const auto bits = reinterpret_cast<uintptr_t>(address) | 256;
    return uint32_t{1} << std::countr_zero(bits);
}

} // namespace

void prepare_cublaslt(const Search &search, const Library &driver, const Library &nvrtc) {
    OpenOnce::get().prepare(search, driver, nvrtc);
}

bool has_cublaslt() {
    return OpenOnce::get().open() != nullptr;
}

Library cublaslt() {
    return OpenOnce::get().library();
}

int64_t matmul_workspace_bytes(const ir::DeviceInfo &device) {
    // What NVIDIA's guide to cuBLAS recommends: 32 MiB from Hopper on, else 4 MiB.
    return (int64_t{device.cuda().sm >= 90 ? 32 : 4} << 20) + kWorkspaceAlignment;
}

KernelSource matmul_source(std::span<const int64_t> ints) {
    return product_source(static_cast<ir::DType>(ints[0]), ints[epilogue_at(ints)]);
}

/// cuBLASLt has matrices by columns; ours are by rows. So it computes the transposed product, rhs' * lhs'.
struct Multiplier::Impl {
    struct Plan {
        cublasLtMatmulDesc_t operation = nullptr;
        cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
        bool has_algorithm = false; ///< else the library has none
        cublasLtMatmulAlgo_t algorithm{};
        const CublasLt *functions;

        explicit Plan(const CublasLt *of) : functions(of) {}
        ~Plan() {
            for (const cublasLtMatrixLayout_t layout : {a, b, d})
                if (layout)
                    functions->cublasLtMatrixLayoutDestroy(layout);
            if (operation)
                functions->cublasLtMatmulDescDestroy(operation);
        }
        Plan(const Plan &) = delete;
        Plan &operator=(const Plan &) = delete;
    };
    /// Whoever uses a plan keeps it, if others push it out meanwhile.
    using PlanPtr = std::shared_ptr<const Plan>;

    Impl(const LibraryKernels &of, std::string model_, PersistentStore *kept)
        : kernels(of), device(of.device()), store(kept), model(std::move(model_)) {
        functions = OpenOnce::get().open();
        LZ_CHECK(functions, "a product by a library that is not there");
        check(functions->cublasLtCreate(&handle), "making cuBLASLt ready");
    }
    ~Impl() {
        plans.clear();
        latest.clear();
        functions->cublasLtDestroy(handle);
    }

    void check(cublasStatus_t status, const char *what) const {
        if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
            return;
        throw ir::Failure(status == CUBLAS_STATUS_ALLOC_FAILED ? ir::ErrorKind::OutOfMemory
                                                               : ir::ErrorKind::Cuda,
                          fmt::format("{}: {} failed: {}.", device.name(), what,
                                      functions->cublasLtGetStatusString(status)));
    }

    cublasLtMatrixLayout_t layout(const Problem &p, int64_t rows, int64_t columns, int64_t leading,
                                  int64_t batch_stride) const {
        cublasLtMatrixLayout_t made = nullptr;
        check(functions->cublasLtMatrixLayoutCreate(&made, type_of(p.dtype), static_cast<uint64_t>(rows),
                                                    static_cast<uint64_t>(columns), std::max(leading, rows)),
              "describing a matrix");
        const auto batches = static_cast<int32_t>(p.batches);
        check(functions->cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches,
                                                          sizeof(batches)),
              "describing a matrix");
        check(functions->cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                          &batch_stride, sizeof(batch_stride)),
              "describing a matrix");
        return made;
    }

    void set(const Plan &plan, cublasLtMatmulDescAttributes_t which, const auto &value) const {
        check(functions->cublasLtMatmulDescSetAttribute(plan.operation, which, &value, sizeof(value)),
              "describing a product");
    }

    void make(Plan &plan, const Problem &p, const void *bias) const {
        check(functions->cublasLtMatmulDescCreate(&plan.operation, compute_type_of(p),
                                                  p.dtype == ir::DType::F64 ? CUDA_R_64F : CUDA_R_32F),
              "describing a product");
        const auto transpose = [&](cublasLtMatmulDescAttributes_t which) { set(plan, which, CUBLAS_OP_T); };
        if (p.epilogue != 0)
            set(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p.epilogue));
        if (bias)
            set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
        if (p.rhs_n == 1 || p.n == 1) {
            plan.a = layout(p, p.n, p.k, p.rhs_k, p.rhs_batch);
        } else {
            plan.a = layout(p, p.k, p.n, p.rhs_n, p.rhs_batch);
            transpose(CUBLASLT_MATMUL_DESC_TRANSA);
        }
        if (p.lhs_k == 1 || p.k == 1) {
            plan.b = layout(p, p.k, p.m, p.lhs_m, p.lhs_batch);
        } else {
            plan.b = layout(p, p.m, p.k, p.lhs_k, p.lhs_batch);
            transpose(CUBLASLT_MATMUL_DESC_TRANSB);
        }
        plan.d = layout(p, p.n, p.m, p.n, p.m * p.n);
        plan.has_algorithm = recall(plan, p);
        if (!plan.has_algorithm && choose(plan, p)) {
            plan.has_algorithm = true;
            if (store)
                store->keep(note_of(p), std::as_bytes(std::span(&plan.algorithm, 1)));
        }
    }

    /// All that the choice depends on.
    std::string note_of(const Problem &p) const {
        return fmt::format("cublasLt {} on {}\n{} {}x{}x{} {} {} {} {} {} {} {} {} {} {} {} {} {}",
                           functions->cublasLtGetVersion(), model, ir::name(p.dtype), p.m, p.n, p.k, p.lhs_m,
                           p.lhs_k, p.rhs_k, p.rhs_n, p.batches, p.lhs_batch, p.rhs_batch, p.lhs_alignment,
                           p.rhs_alignment, p.out_alignment, p.workspace, p.epilogue,
                           static_cast<int>(p.precision));
    }

    /// What was chosen before, if the library still takes it.
    bool recall(Plan &plan, const Problem &p) const {
        const auto kept = store ? store->find(note_of(p)) : std::nullopt;
        if (!kept || kept->size() != sizeof(plan.algorithm))
            return false;
        std::memcpy(&plan.algorithm, kept->data(), sizeof(plan.algorithm));
        cublasLtMatmulHeuristicResult_t needs{};
        return functions->cublasLtMatmulAlgoCheck(handle, plan.operation, plan.a, plan.b, plan.d, plan.d,
                                                  &plan.algorithm, &needs) == CUBLAS_STATUS_SUCCESS &&
               needs.workspaceSize <= p.workspace;
    }

    /// False where the library has no algorithm for it.
    bool choose(Plan &plan, const Problem &p) const {
        cublasLtMatmulPreference_t preference = nullptr;
        int count = 0;
        check(functions->cublasLtMatmulPreferenceCreate(&preference), "asking for an algorithm");
        const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
            check(functions->cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof(value)),
                  "asking for an algorithm");
        };
        try {
            set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, p.workspace);
            // Sums of parts of k are added in f32, in a fixed order: no atomics, and one rounding.
            set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
            set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.rhs_alignment);
            set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.lhs_alignment);
            set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.out_alignment);
            set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.out_alignment);
            cublasLtMatmulHeuristicResult_t found{};
            const cublasStatus_t status = functions->cublasLtMatmulAlgoGetHeuristic(
                handle, plan.operation, plan.a, plan.b, plan.d, plan.d, preference, 1, &found, &count);
            if (status == CUBLAS_STATUS_NOT_SUPPORTED)
                count = 0;
            else
                check(status, "asking for an algorithm");
            plan.algorithm = found.algo;
        } catch (...) {
            functions->cublasLtMatmulPreferenceDestroy(preference);
            throw;
        }
        functions->cublasLtMatmulPreferenceDestroy(preference);
        return count > 0;
    }

    /// Under the lock.
    PlanPtr plan(const Problem &problem, const void *bias) {
        if (const auto found = plans.find(problem); found != plans.end()) {
            latest.splice(latest.begin(), latest, found->second);
            return latest.front().second;
        }
        const auto made = std::make_shared<Plan>(functions);
        make(*made, problem, bias);
        latest.emplace_front(problem, made);
        plans.emplace(problem, latest.begin());
        if (latest.size() > kMostPlans) {
            plans.erase(latest.back().first);
            latest.pop_back();
        }
        return made;
    }

    const LibraryKernels &kernels;
    const CudaDevice &device;
    PersistentStore *const store;
    const std::string model;
    const CublasLt *functions = nullptr;
    cublasLtHandle_t handle = nullptr;
    std::mutex mutex;
    using Latest = std::list<std::pair<Problem, PlanPtr>>;
    Latest latest; ///< the one that was used last first
    std::map<Problem, Latest::iterator> plans;
};

Multiplier::Multiplier(const LibraryKernels &kernels, std::string model, PersistentStore *store)
    : impl_(std::make_unique<Impl>(kernels, std::move(model), store)) {}
Multiplier::~Multiplier() = default;

void Multiplier::run(const LibraryArgs &args) {
    const std::span<const int64_t> ints = args.ints;
    Problem p;
    p.dtype = static_cast<ir::DType>(ints[0]);
    p.m = ints[1];
    p.n = ints[2];
    p.k = ints[3];
    p.lhs_m = ints[4];
    p.lhs_k = ints[5];
    p.rhs_k = ints[6];
    p.rhs_n = ints[7];
    const auto size = static_cast<int64_t>(ir::size_of(p.dtype));
    struct Axis {
        int64_t extent, lhs, rhs;
    };
    const auto axes = static_cast<size_t>(ints[10]);
    LZ_CHECK(axes <= kMostBatchAxes, "a product of too many batch axes");
    const auto axis = [&](size_t a) { return Axis{ints[11 + 3 * a], ints[12 + 3 * a], ints[13 + 3 * a]}; };
    // The last axis is the library's batch, the others are turns of a loop.
    int64_t turns = 1;
    for (size_t a = 0; a + 1 < axes; ++a)
        turns *= axis(a).extent;
    if (axes > 0) {
        p.batches = axis(axes - 1).extent;
        p.lhs_batch = axis(axes - 1).lhs;
        p.rhs_batch = axis(axes - 1).rhs;
    }
    std::byte *workspace = args.scratch.data();
    const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(workspace) % kWorkspaceAlignment);
    workspace += past ? kWorkspaceAlignment - past : 0;
    p.workspace = args.scratch.size() - kWorkspaceAlignment;
    p.epilogue = ints[epilogue_at(ints)];
    if (p.dtype == ir::DType::F32)
        p.precision = static_cast<ir::MatmulPrecision>(ints[epilogue_at(ints) + 1]);
    const void *const bias = (p.epilogue & kProductBias) != 0 ? args.buffers[3] : nullptr;

    for (int64_t turn = 0; turn < turns; ++turn) {
        int64_t lhs_at = ints[8], rhs_at = ints[9];
        int64_t rest = turn;
        for (size_t a = axes; a-- > 1;) {
            const Axis outer = axis(a - 1);
            lhs_at += rest % outer.extent * outer.lhs;
            rhs_at += rest % outer.extent * outer.rhs;
            rest /= outer.extent;
        }
        const auto *const lhs = static_cast<const std::byte *>(args.buffers[0]) + lhs_at * size;
        const auto *const rhs = static_cast<const std::byte *>(args.buffers[1]) + rhs_at * size;
        auto *const out = static_cast<std::byte *>(args.buffers[2]) + turn * p.batches * p.m * p.n * size;
        p.lhs_alignment = alignment_of(lhs);
        p.rhs_alignment = alignment_of(rhs);
        p.out_alignment = alignment_of(out);
        std::unique_lock lock(impl_->mutex);
        // The library counts batches in 32 bits.
        const Impl::PlanPtr kept = p.batches <= INT32_MAX ? impl_->plan(p, bias) : nullptr;
        if (!kept || !kept->has_algorithm) {
            lock.unlock();
            put_product(impl_->kernels,
                        {p.dtype, p.m, p.n, p.k, p.lhs_m, p.lhs_k, p.rhs_k, p.rhs_n, p.batches, p.lhs_batch,
                         p.rhs_batch, p.epilogue, lhs, rhs, bias, out},
                        args.driver_stream);
            continue;
        }
        const Impl::Plan &plan = *kept;
        if (bias) // a plan names one at a time
            impl_->set(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
        else
            lock.unlock();
        const double one64 = 1, zero64 = 0;
        const float one32 = 1, zero32 = 0;
        const bool f64 = p.dtype == ir::DType::F64;
        impl_->check(impl_->functions->cublasLtMatmul(
                         impl_->handle, plan.operation, f64 ? static_cast<const void *>(&one64) : &one32, rhs,
                         plan.a, lhs, plan.b, f64 ? static_cast<const void *>(&zero64) : &zero32, out, plan.d,
                         out, plan.d, &plan.algorithm, workspace, p.workspace,
                         static_cast<CUstream>(args.driver_stream)),
                     "a product");
    }
}

} // namespace lz::runtime::cuda
