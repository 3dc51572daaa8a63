// The fake cuBLASLt: products against plain loops, what it refuses, the order of streams; and its descriptors
// against those of the real library, which can be made without a GPU.

#include "driver/driver.h"

#include <cublasLt.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <deque>

namespace lz::test {
namespace {

void *open_cublaslt() {
    driver_library(); // with its settings
    static void *const library = dlopen(LAZULI_FAKE_CUBLASLT, RTLD_NOW | RTLD_LOCAL);
    EXPECT_TRUE(library) << dlerror();
    return library;
}

template <class F>
F cublaslt_function(void *library, const char *name) {
    return reinterpret_cast<F>(dlsym(library, name));
}

#define LT(name) (cublaslt_function<decltype(&::name)>(open_cublaslt(), #name))
#define LT_OK(name, ...) ASSERT_EQ(LT(name)(__VA_ARGS__), CUBLAS_STATUS_SUCCESS) << #name

/// Values of any type in memory.
struct Bytes {
    cudaDataType type;
    std::vector<unsigned char> bytes;

    Bytes(cudaDataType t, size_t count) : type(t), bytes(count * size()) {}
    size_t size() const {
        return type == CUDA_R_64F                          ? 8
               : type == CUDA_R_8I                         ? 1
               : type == CUDA_R_16F || type == CUDA_R_16BF ? 2
                                                           : 4;
    }
    double get(size_t i) const {
        const unsigned char *at = bytes.data() + i * size();
        const auto as = [&]<class T>(T value) {
            std::memcpy(&value, at, sizeof value);
            return value;
        };
        switch (type) {
        case CUDA_R_64F:
            return as(double{});
        case CUDA_R_32F:
            return as(float{});
        case CUDA_R_32I:
            return as(int32_t{});
        case CUDA_R_8I:
            return as(int8_t{});
        case CUDA_R_16F:
            return static_cast<double>(as(_Float16{}));
        default:
            return std::bit_cast<float>(uint32_t{as(uint16_t{})} << 16);
        }
    }
    /// Values that every type holds.
    void set(size_t i, int value) {
        unsigned char *at = bytes.data() + i * size();
        const auto as = [&](auto v) { std::memcpy(at, &v, sizeof v); };
        switch (type) {
        case CUDA_R_64F:
            return as(static_cast<double>(value));
        case CUDA_R_32F:
            return as(static_cast<float>(value));
        case CUDA_R_32I:
            return as(value);
        case CUDA_R_8I:
            return as(static_cast<int8_t>(value));
        case CUDA_R_16F:
            return as(static_cast<_Float16>(static_cast<float>(value)));
        default:
            return as(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
        }
    }
};

struct Matrix {
    cublasLtOrder_t order = CUBLASLT_ORDER_COL;
    uint64_t rows, cols;
    int64_t ld, stride;
    size_t at(int64_t batch, uint64_t r, uint64_t c) const {
        const uint64_t outer = order == CUBLASLT_ORDER_COL ? c : r,
                       inner = order == CUBLASLT_ORDER_COL ? r : c;
        return static_cast<size_t>(batch * stride) + outer * static_cast<uint64_t>(ld) + inner;
    }
    size_t elements(int64_t batches) const { return at(batches - 1, rows - 1, cols - 1) + 1; }
};

Matrix matrix(uint64_t rows, uint64_t cols, cublasLtOrder_t order, int64_t pad) {
    const uint64_t inner = order == CUBLASLT_ORDER_COL ? rows : cols, outer = rows * cols / inner;
    const auto ld = static_cast<int64_t>(inner) + pad;
    return {order, rows, cols, ld, ld * static_cast<int64_t>(outer) + pad};
}

class CudaCublasLt : public CudaDriver {
protected:
    void SetUp() override {
        CudaDriver::SetUp();
        LT_OK(cublasLtCreate, &handle_);
        LT_OK(cublasLtMatmulPreferenceCreate, &preference_);
    }
    void TearDown() override {
        LT_OK(cublasLtMatmulPreferenceDestroy, preference_);
        LT_OK(cublasLtDestroy, handle_);
        CudaDriver::TearDown();
    }
    cublasLtMatrixLayout_t layout(const Matrix &m, cudaDataType type, int32_t batches) {
        auto &l = layouts_.emplace_back();
        cublasLtMatrixLayout_t made = &l;
        EXPECT_EQ(LT(cublasLtMatrixLayoutInit_internal)(made, sizeof l, type, m.rows, m.cols, m.ld),
                  CUBLAS_STATUS_SUCCESS);
        const auto set = [&](cublasLtMatrixLayoutAttribute_t id, const void *value, size_t size) {
            EXPECT_EQ(LT(cublasLtMatrixLayoutSetAttribute)(made, id, value, size), CUBLAS_STATUS_SUCCESS);
        };
        const auto order = static_cast<int32_t>(m.order);
        set(CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order);
        set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches);
        set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.stride, sizeof m.stride);
        return made;
    }
    template <class T>
    static void set(cublasLtMatmulDesc_t op, cublasLtMatmulDescAttributes_t id, T value) {
        EXPECT_EQ(LT(cublasLtMatmulDescSetAttribute)(op, id, &value, sizeof value), CUBLAS_STATUS_SUCCESS);
    }
    template <class T>
    void prefer(cublasLtMatmulPreferenceAttributes_t id, T value) {
        EXPECT_EQ(LT(cublasLtMatmulPreferenceSetAttribute)(preference_, id, &value, sizeof value),
                  CUBLAS_STATUS_SUCCESS);
    }

    cublasLtHandle_t handle_ = nullptr;
    cublasLtMatmulPreference_t preference_ = nullptr;
    std::deque<cublasLtMatrixLayoutOpaque_t> layouts_;
};

struct Case {
    cublasComputeType_t compute;
    cudaDataType scale, ab, cd;
};

TEST_F(CudaCublasLt, ProductsOfAllTypesOrdersAndBatchesAreThoseOfPlainLoops) {
    const Case cases[] = {
        {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
        {CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
        {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F},
        {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF},
        {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F},
        {CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F},
        {CUBLAS_COMPUTE_16F, CUDA_R_16F, CUDA_R_16F, CUDA_R_16F},
        {CUBLAS_COMPUTE_32I, CUDA_R_32I, CUDA_R_8I, CUDA_R_32I},
        {CUBLAS_COMPUTE_32I, CUDA_R_32F, CUDA_R_8I, CUDA_R_8I},
    };
    const CUstream s = make_stream();
    constexpr uint64_t m = 8, n = 5, k = 12;
    int runs = 0;
    for (const Case &c : cases)
        for (int shape = 0; shape < 32; ++shape) {
            const bool ta = shape & 1, tb = shape & 2;
            const auto order_a = shape & 4 ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
            const auto order_d = shape & 8 ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
            const int32_t batches = shape & 16 ? 3 : 1;
            const bool integers = c.ab == CUDA_R_8I;
            if (integers && (!ta || tb || order_d == CUBLASLT_ORDER_ROW)) // n is no multiple of 4
                continue;
            const int64_t pad = shape % 3 * 4;
            const Matrix a = ta ? matrix(k, m, order_a, pad) : matrix(m, k, order_a, pad),
                         b = tb ? matrix(n, k, CUBLASLT_ORDER_COL, 0) : matrix(k, n, CUBLASLT_ORDER_COL, pad),
                         d = matrix(m, n, order_d, pad);
            Bytes va(c.ab, a.elements(batches)), vb(c.ab, b.elements(batches)), vc(c.cd, d.elements(batches)),
                bias(c.cd, m);
            // Small whole numbers: every sum is exact in every type.
            for (size_t i = 0; i < va.bytes.size() / va.size(); ++i)
                va.set(i, static_cast<int>(i * 7 % 5) - 2);
            for (size_t i = 0; i < vb.bytes.size() / vb.size(); ++i)
                vb.set(i, static_cast<int>(i * 5 % 7) - 3);
            for (size_t i = 0; i < vc.bytes.size() / vc.size(); ++i)
                vc.set(i, static_cast<int>(i % 4));
            for (size_t i = 0; i < m; ++i)
                bias.set(i, static_cast<int>(i) - 3);
            const CUdeviceptr pa = upload(va.bytes), pb = upload(vb.bytes), pd = upload(vc.bytes),
                              pbias = upload(bias.bytes);
            cublasLtMatmulDesc_t op = nullptr;
            LT_OK(cublasLtMatmulDescCreate, &op, c.compute, c.scale);
            set(op, CUBLASLT_MATMUL_DESC_TRANSA, static_cast<int32_t>(ta ? CUBLAS_OP_T : CUBLAS_OP_N));
            set(op, CUBLASLT_MATMUL_DESC_TRANSB, static_cast<int32_t>(tb ? CUBLAS_OP_T : CUBLAS_OP_N));
            const bool with_bias = order_d == CUBLASLT_ORDER_COL && c.cd != CUDA_R_32I && c.cd != CUDA_R_64F;
            if (with_bias) {
                set(op, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(CUBLASLT_EPILOGUE_RELU_BIAS));
                set(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<void *>(pbias));
            }
            const auto la = layout(a, c.ab, batches), lb = layout(b, c.ab, batches),
                       ld = layout(d, c.cd, batches);
            cublasLtMatmulHeuristicResult_t result{};
            int count = 0;
            LT_OK(cublasLtMatmulAlgoGetHeuristic, handle_, op, la, lb, ld, ld, preference_, 1, &result,
                  &count);
            ASSERT_EQ(count, 1);
            Bytes alpha(c.scale, 1), beta(c.scale, 1);
            alpha.set(0, 2);
            beta.set(0, -1);
            const auto at = [](CUdeviceptr p) { return reinterpret_cast<void *>(p); };
            LT_OK(cublasLtMatmul, handle_, op, alpha.bytes.data(), at(pa), la, at(pb), lb, beta.bytes.data(),
                  at(pd), ld, at(pd), ld, &result.algo, nullptr, 0, reinterpret_cast<cudaStream_t>(s));
            CU_OK(cuStreamSynchronize, s);
            Bytes got(c.cd, d.elements(batches));
            CU_OK(cuMemcpyDtoH, got.bytes.data(), pd, got.bytes.size());
            for (int64_t batch = 0; batch < batches; ++batch)
                for (uint64_t i = 0; i < m; ++i)
                    for (uint64_t j = 0; j < n; ++j) {
                        double sum = 0;
                        for (uint64_t l = 0; l < k; ++l)
                            sum += va.get(ta ? a.at(batch, l, i) : a.at(batch, i, l)) *
                                   vb.get(tb ? b.at(batch, j, l) : b.at(batch, l, j));
                        double want = 2 * sum - vc.get(d.at(batch, i, j));
                        if (with_bias)
                            want = std::max(0.0, want + bias.get(i));
                        ASSERT_EQ(got.get(d.at(batch, i, j)), want)
                            << "compute " << c.compute << " shape " << shape << " at " << i << "," << j;
                    }
            LT_OK(cublasLtMatmulDescDestroy, op);
            ++runs;
        }
    EXPECT_GE(runs, 7 * 32);
}

TEST_F(CudaCublasLt, ProductsFollowTheirStreamAndGraphsHoldThem) {
    const Matrix a = matrix(4, 4, CUBLASLT_ORDER_COL, 0);
    const auto l = layout(a, CUDA_R_32F, 1);
    cublasLtMatmulDesc_t op = nullptr;
    LT_OK(cublasLtMatmulDescCreate, &op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const CUstream s = make_stream();
    const CUdeviceptr x = allocate(64), y = allocate(64);
    const float one = 1, zero = 0;
    const auto product = [&](CUdeviceptr to, CUdeviceptr from) {
        return LT(cublasLtMatmul)(handle_, op, &one, reinterpret_cast<void *>(from), l,
                                  reinterpret_cast<void *>(from), l, &zero, nullptr, l,
                                  reinterpret_cast<void *>(to), l, nullptr, nullptr, 0,
                                  reinterpret_cast<cudaStream_t>(s));
    };
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    CU_OK(cuStreamBeginCapture, s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    CU_OK(cuMemsetD32Async, x, std::bit_cast<uint32_t>(0.5f), 16, s);
    ASSERT_EQ(product(y, x), CUBLAS_STATUS_SUCCESS); // 4 * 0.25
    ASSERT_EQ(product(x, y), CUBLAS_STATUS_SUCCESS); // 4
    CU_OK(cuStreamEndCapture, s, &graph);
    CU_OK(cuGraphInstantiate, &exec, graph, 0);
    for (int i = 0; i < 10; ++i) {
        CU_OK(cuMemsetD8Async, x, 0, 64, s);
        CU_OK(cuGraphLaunch, exec, s);
        ASSERT_EQ(product(y, x), CUBLAS_STATUS_SUCCESS); // 64
        CU_OK(cuStreamSynchronize, s);
        EXPECT_EQ(download<float>(x, 16), std::vector<float>(16, 4.0f));
        EXPECT_EQ(download<float>(y, 16), std::vector<float>(16, 64.0f));
    }
    CU_OK(cuGraphExecDestroy, exec);
    CU_OK(cuGraphDestroy, graph);
    // Memory that is too small is found when it runs.
    const CUdeviceptr small = allocate(60);
    ASSERT_EQ(product(small, x), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(CU(cuStreamSynchronize)(s), CUDA_ERROR_ILLEGAL_ADDRESS);
    LT_OK(cublasLtMatmulDescDestroy, op);
    CU_OK(cuDevicePrimaryCtxReset, 0);
    streams_.clear();
    memory_.clear();
    CU_OK(cuDevicePrimaryCtxRelease, 0);
    CU_OK(cuDevicePrimaryCtxRetain, &context_[0], 0);
}

TEST_F(CudaCublasLt, WorkspaceIsAskedForAndChecked) {
    const Matrix a = matrix(16, 1024, CUBLASLT_ORDER_ROW, 0), b = matrix(1024, 16, CUBLASLT_ORDER_COL, 0),
                 d = matrix(16, 16, CUBLASLT_ORDER_COL, 0);
    const auto la = layout(a, CUDA_R_32F, 1), lb = layout(b, CUDA_R_32F, 1), ld = layout(d, CUDA_R_32F, 1);
    cublasLtMatmulDesc_t op = nullptr;
    LT_OK(cublasLtMatmulDescCreate, &op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatmulHeuristicResult_t results[4];
    int count = 0;
    const auto ask = [&] {
        return LT(cublasLtMatmulAlgoGetHeuristic)(handle_, op, la, lb, ld, ld, preference_, 4, results,
                                                  &count);
    };
    ASSERT_EQ(ask(), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(results[0].workspaceSize, 0u); // none is allowed
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{32} << 20);
    EXPECT_EQ(ask(), CUBLAS_STATUS_INVALID_VALUE) << "atomics are allowed unless a preference says otherwise";
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    ASSERT_EQ(ask(), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(count, 2);
    const size_t needs = results[0].workspaceSize;
    EXPECT_GT(needs, 0u);
    const auto split = results[0].algo;
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
    ASSERT_EQ(ask(), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(count, 1);
    EXPECT_EQ(results[0].workspaceSize, 0u);
    const CUdeviceptr x = upload(std::vector<float>(16 * 1024, 1.0f)), out = allocate(1024),
                      scratch = allocate(needs + 512);
    const float one = 1, zero = 0;
    const auto run = [&](CUdeviceptr from, const cublasLtMatmulAlgo_t &algo, CUdeviceptr workspace,
                         size_t bytes) {
        return LT(cublasLtMatmul)(handle_, op, &one, reinterpret_cast<void *>(from), la,
                                  reinterpret_cast<void *>(x), lb, &zero, nullptr, ld,
                                  reinterpret_cast<void *>(out), ld, &algo,
                                  reinterpret_cast<void *>(workspace), bytes, nullptr);
    };
    EXPECT_EQ(run(x, split, scratch, needs), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(download<float>(out, 256), std::vector<float>(256, 1024.0f));
    EXPECT_EQ(run(x, split, scratch, needs - 1), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(run(x, split, 0, needs), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(run(x, split, scratch + 128, needs), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(run(x + 4, split, scratch, needs), CUBLAS_STATUS_INVALID_VALUE); // 256 bytes were promised
    EXPECT_EQ(run(x, cublasLtMatmulAlgo_t{}, scratch, needs), CUBLAS_STATUS_INVALID_VALUE);
    // An algorithm is for one problem.
    cublasLtMatmulHeuristicResult_t checked;
    EXPECT_EQ(LT(cublasLtMatmulAlgoCheck)(handle_, op, la, lb, ld, ld, &split, &checked),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(checked.workspaceSize, needs);
    set(op, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(CUBLASLT_EPILOGUE_RELU));
    EXPECT_EQ(run(x, split, scratch, needs), CUBLAS_STATUS_INVALID_VALUE);
    LT_OK(cublasLtMatmulDescDestroy, op);
}

TEST_F(CudaCublasLt, WhatIsWrongOrNotSupportedIsRefused) {
    cublasLtMatmulDesc_t op = nullptr, halves = nullptr, integers = nullptr;
    LT_OK(cublasLtMatmulDescCreate, &op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    LT_OK(cublasLtMatmulDescCreate, &halves, CUBLAS_COMPUTE_16F, CUDA_R_16F);
    LT_OK(cublasLtMatmulDescCreate, &integers, CUBLAS_COMPUTE_32I, CUDA_R_32I);
    const Matrix square = matrix(4, 4, CUBLASLT_ORDER_COL, 0), tall = matrix(8, 4, CUBLASLT_ORDER_COL, 0);
    const auto f32 = layout(square, CUDA_R_32F, 1), f64 = layout(square, CUDA_R_64F, 1),
               i8 = layout(square, CUDA_R_8I, 1), i32 = layout(square, CUDA_R_32I, 1),
               long_one = layout(tall, CUDA_R_32F, 1), twice = layout(square, CUDA_R_32F, 2);
    auto narrow = square;
    narrow.ld = 3;
    const auto bad_ld = layout(narrow, CUDA_R_32F, 1);
    auto overlapping = square;
    overlapping.stride = 0;
    const auto one_place = layout(overlapping, CUDA_R_32F, 2);
    cublasLtMatrixLayoutOpaque_t nothing{};
    const auto ask = [&](cublasLtMatmulDesc_t o, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                         cublasLtMatrixLayout_t d) {
        cublasLtMatmulHeuristicResult_t result;
        int count = 0;
        return LT(cublasLtMatmulAlgoGetHeuristic)(handle_, o, a, b, d, d, preference_, 1, &result, &count);
    };
    const auto with = [&](cublasLtMatmulDescAttributes_t id, auto value) {
        cublasLtMatmulDesc_t o = nullptr;
        EXPECT_EQ(LT(cublasLtMatmulDescCreate)(&o, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
        set(o, id, value);
        const auto status = ask(o, f32, f32, f32);
        EXPECT_EQ(LT(cublasLtMatmulDescDestroy)(o), CUBLAS_STATUS_SUCCESS);
        return status;
    };
    EXPECT_EQ(ask(op, f32, f32, f32), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(ask(op, f64, f64, f64), CUBLAS_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(ask(op, f32, f32, f64), CUBLAS_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(ask(halves, f32, f32, f32), CUBLAS_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(ask(integers, i8, i8, i32), CUBLAS_STATUS_NOT_SUPPORTED); // A is not transposed
    EXPECT_EQ(ask(op, long_one, long_one, long_one), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(ask(op, long_one, f32, f32), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(ask(op, bad_ld, f32, f32), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(ask(op, twice, f32, f32), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(ask(op, twice, twice, one_place), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(ask(op, one_place, twice, twice), CUBLAS_STATUS_SUCCESS); // one A for all
    EXPECT_EQ(ask(op, &nothing, f32, f32), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(ask(op, nullptr, f32, f32), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(with(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{7}), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(with(CUBLASLT_MATMUL_DESC_TRANSC, int32_t{CUBLAS_OP_T}), CUBLAS_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(with(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(CUBLASLT_EPILOGUE_DGELU)),
              CUBLAS_STATUS_NOT_SUPPORTED);
    const int64_t wide = 0;
    EXPECT_EQ(LT(cublasLtMatmulDescSetAttribute)(op, CUBLASLT_MATMUL_DESC_TRANSA, &wide, sizeof wide),
              CUBLAS_STATUS_INVALID_VALUE);
    const float one = 1;
    const CUdeviceptr x = allocate(64);
    const auto run = [&](const float *alpha, CUdeviceptr a, CUdeviceptr c) {
        return LT(cublasLtMatmul)(handle_, op, alpha, reinterpret_cast<void *>(a), f32,
                                  reinterpret_cast<void *>(x), f32, &one, reinterpret_cast<void *>(c), f32,
                                  reinterpret_cast<void *>(x), f32, nullptr, nullptr, 0, nullptr);
    };
    EXPECT_EQ(run(nullptr, x, x), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(run(&one, 0, x), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(run(&one, x, 0), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(run(&one, x + 2, x), CUBLAS_STATUS_INVALID_VALUE);
    set(op, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(CUBLASLT_EPILOGUE_BIAS));
    EXPECT_EQ(run(&one, x, x), CUBLAS_STATUS_INVALID_VALUE); // no bias is given
    EXPECT_EQ(LT(cublasLtDestroy)(reinterpret_cast<cublasLtHandle_t>(0x10)), CUBLAS_STATUS_NOT_INITIALIZED);
    for (const auto o : {op, halves, integers})
        LT_OK(cublasLtMatmulDescDestroy, o);
    CU_OK(cuCtxSetCurrent, nullptr);
    cublasLtHandle_t handle = nullptr;
    EXPECT_EQ(LT(cublasLtCreate)(&handle), CUBLAS_STATUS_NOT_INITIALIZED);
    CU_OK(cuCtxSetCurrent, context_[0]);
}

TEST_F(CudaCublasLt, EachFunctionCanBeMadeToFail) {
    const auto names =
        cublaslt_function<const char *const *(*)()>(open_cublaslt(), "lazuli_fake_cublaslt_functions")();
    size_t count = 0;
    for (; names[count]; ++count) {
        using Any = int (*)(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *,
                            void *, void *, void *, void *, void *, void *);
        const auto function = cublaslt_function<Any>(open_cublaslt(), names[count]);
        ASSERT_TRUE(function) << names[count];
        FAKE(lazuli_fake_cuda_fail)(names[count], 1, CUBLAS_STATUS_INTERNAL_ERROR);
        void *const z = nullptr;
        EXPECT_EQ(function(z, z, z, z, z, z, z, z, z, z, z, z, z, z, z, z), CUBLAS_STATUS_INTERNAL_ERROR)
            << names[count];
    }
    EXPECT_GE(count, 20u);
    int value = 0;
    LT_OK(cublasLtGetProperty, MAJOR_VERSION, &value);
    EXPECT_EQ(value, CUBLAS_VER_MAJOR);
    EXPECT_EQ(LT(cublasLtGetVersion)(), static_cast<size_t>(CUBLAS_VERSION));
}

/// What descriptors say before anything is set, and how large each attribute is.
using Defaults = std::vector<std::pair<int, std::vector<unsigned char>>>;

template <class Get>
void add_defaults(Defaults &to, int offset, std::initializer_list<int> ids, Get &&get) {
    for (const int id : ids) {
        size_t size = 0;
        EXPECT_EQ(get(id, nullptr, 0, &size), CUBLAS_STATUS_SUCCESS) << offset + id;
        std::vector<unsigned char> value(size);
        EXPECT_EQ(get(id, value.data(), size, &size), CUBLAS_STATUS_SUCCESS) << offset + id;
        to.emplace_back(offset + id, std::move(value));
    }
}

#define IN(library, name) (cublaslt_function<decltype(&::name)>(library, #name))
Defaults defaults_of(void *library) {
    Defaults all;
    cublasLtMatrixLayout_t layout = nullptr;
    EXPECT_EQ(IN(library, cublasLtMatrixLayoutCreate)(&layout, CUDA_R_16BF, 30, 20, 32),
              CUBLAS_STATUS_SUCCESS);
    add_defaults(all, 1000, {0, 1, 2, 3, 4, 5, 6}, [&](int id, void *to, size_t size, size_t *written) {
        return IN(library, cublasLtMatrixLayoutGetAttribute)(
            layout, static_cast<cublasLtMatrixLayoutAttribute_t>(id), to, size, written);
    });
    IN(library, cublasLtMatrixLayoutDestroy)(layout);
    cublasLtMatmulDesc_t op = nullptr;
    EXPECT_EQ(IN(library, cublasLtMatmulDescCreate)(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    add_defaults(all, 2000, {0, 1, 2, 3, 4, 5, 7, 8, 10, 15, 26},
                 [&](int id, void *to, size_t size, size_t *written) {
                     return IN(library, cublasLtMatmulDescGetAttribute)(
                         op, static_cast<cublasLtMatmulDescAttributes_t>(id), to, size, written);
                 });
    IN(library, cublasLtMatmulDescDestroy)(op);
    cublasLtMatmulPreference_t preference = nullptr;
    EXPECT_EQ(IN(library, cublasLtMatmulPreferenceCreate)(&preference), CUBLAS_STATUS_SUCCESS);
    add_defaults(
        all, 3000, {0, 1, 3, 5, 6, 7, 8, 9, 12}, [&](int id, void *to, size_t size, size_t *written) {
            return IN(library, cublasLtMatmulPreferenceGetAttribute)(
                preference, static_cast<cublasLtMatmulPreferenceAttributes_t>(id), to, size, written);
        });
    IN(library, cublasLtMatmulPreferenceDestroy)(preference);
    return all;
}

TEST(CudaCublasLtReal, DescriptorsAreAsThoseOfTheRealLibrary) {
    void *real = nullptr;
    for (const char *name : {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"})
        if (!real)
            real = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!real)
        GTEST_SKIP() << "The real libcublasLt.so.13 was not found: " << dlerror();
    const Defaults expected = defaults_of(real), got = defaults_of(open_cublaslt());
    EXPECT_GE(expected.size(), 27u);
    EXPECT_EQ(got, expected);
}

} // namespace
} // namespace lz::test
