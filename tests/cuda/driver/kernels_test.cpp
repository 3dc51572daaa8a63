// Kernels that NVRTC compiled, launched through the fake driver, against plain loops. What they do wrong
// becomes an error that stays with the context.

#include "driver/driver.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <ostream>

namespace lz::test {
namespace {

const char *const kSource = R"(
extern "C" __global__ void add(const float *a, const float *b, float *to, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = a[i] + b[i];
}
extern "C" __global__ void __launch_bounds__(256) block_sum(const float *in, float *out, unsigned n) {
    __shared__ float part[8];
    float sum = 0;
    for (unsigned i = threadIdx.x; i < n; i += 256)
        sum += in[blockIdx.x * n + i];
    for (int h = 16; h > 0; h /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, h);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w)
            sum += part[w];
        out[blockIdx.x] = sum;
    }
}
// The last block to finish sums what the others left.
extern "C" __global__ void __launch_bounds__(64) last_block(const unsigned *in, unsigned *parts, unsigned *ready, unsigned *out) {
    __shared__ unsigned last;
    atomicAdd(&parts[blockIdx.x], in[blockIdx.x * 64 + threadIdx.x]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicInc(ready, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x == 0) {
        unsigned sum = 0;
        for (unsigned i = 0; i < gridDim.x; ++i)
            sum += atomicAdd(&parts[i], 0);
        *out = sum;
    }
}
__device__ unsigned variable[4] = {1, 2, 3, 4};
extern "C" __global__ void use_variable(unsigned *out) {
    out[threadIdx.x] = variable[threadIdx.x];
    variable[threadIdx.x] += 10;
}
extern "C" __global__ void dynamic_shared(unsigned *out, unsigned n) {
    extern __shared__ unsigned words[];
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        words[i] = i;
    __syncthreads();
    if (threadIdx.x == 0)
        *out = words[n - 1];
}
extern "C" __global__ void store(unsigned *to, unsigned value) { to[threadIdx.x] = value; }
extern "C" __global__ void store_at(char *to, unsigned offset) { *(unsigned *)(to + offset) = 1; }
extern "C" __global__ void stop() { __trap(); }
extern "C" __global__ void race(unsigned *out) {
    __shared__ unsigned words[64];
    words[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = words[63 - threadIdx.x];
}
extern "C" __global__ void busy(unsigned *out, unsigned rounds) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned i = 0; i < rounds; ++i) {
        x = x * 1664525u + 1013904223u;
        x ^= x >> 13;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
)";

const std::string &ptx() {
    static const std::string text = compile_to_ptx(kSource);
    return text;
}

std::vector<float> numbers(size_t count, unsigned seed) {
    std::vector<float> v(count);
    for (size_t i = 0; i < count; ++i)
        v[i] = static_cast<float>((i * 7919 + seed) % 1000) / 8;
    return v;
}

TEST_F(CudaKernels, AddsTwoVectors) {
    const CUfunction add = load(ptx(), "add");
    const CUstream s = make_stream();
    for (const unsigned n : {1u, 255u, 256u, 257u, 100'000u}) {
        const auto a = numbers(n, 1), b = numbers(n, 2);
        const CUdeviceptr out = allocate(n * 4);
        ASSERT_EQ(launch(add, (n + 255) / 256, 256, s, upload(a), upload(b), out, n), CUDA_SUCCESS);
        CU_OK(cuStreamSynchronize, s);
        const auto got = download<float>(out, n);
        for (unsigned i = 0; i < n; ++i)
            ASSERT_EQ(got[i], a[i] + b[i]) << i << " of " << n;
    }
}

TEST_F(CudaKernels, SumsRowsWithShufflesAndSharedMemory) {
    const CUfunction sum = load(ptx(), "block_sum");
    constexpr unsigned rows = 37, n = 1000;
    std::vector<float> in(rows * n);
    for (size_t i = 0; i < in.size(); ++i)
        in[i] = static_cast<float>(i % 17); // sums are exact in any order
    const CUdeviceptr out = allocate(rows * 4);
    ASSERT_EQ(launch(sum, rows, 256, nullptr, upload(in), out, n), CUDA_SUCCESS);
    const auto got = download<float>(out, rows);
    for (unsigned r = 0; r < rows; ++r)
        EXPECT_EQ(got[r], std::accumulate(in.begin() + r * n, in.begin() + (r + 1) * n, 0.0f)) << r;
}

TEST_F(CudaKernels, TheLastOfManyBlocksSeesWhatAllOthersWrote) {
    const CUfunction last = load(ptx(), "last_block");
    constexpr unsigned blocks = 300;
    std::vector<unsigned> in(blocks * 64);
    std::iota(in.begin(), in.end(), 5u);
    const CUdeviceptr parts = upload(std::vector<unsigned>(blocks)), ready = upload(std::vector<unsigned>(1)),
                      out = allocate(4);
    ASSERT_EQ(launch(last, blocks, 64, nullptr, upload(in), parts, ready, out), CUDA_SUCCESS);
    EXPECT_EQ(download<unsigned>(out, 1)[0], std::accumulate(in.begin(), in.end(), 0u));
    EXPECT_EQ(download<unsigned>(ready, 1)[0], 0u);
}

TEST_F(CudaKernels, VariablesOfAModuleLiveInDeviceMemory) {
    const CUfunction use = load(ptx(), "use_variable");
    CUdeviceptr variable = 0;
    size_t bytes = 0;
    CU_OK(cuModuleGetGlobal, &variable, &bytes, modules_[0], "variable");
    EXPECT_EQ(bytes, 16u);
    const CUdeviceptr out = allocate(16);
    for (unsigned round = 0; round < 2; ++round) {
        ASSERT_EQ(launch(use, 1, 4, nullptr, out), CUDA_SUCCESS);
        EXPECT_EQ(download<unsigned>(out, 4),
                  (std::vector<unsigned>{1 + 10 * round, 2 + 10 * round, 3 + 10 * round, 4 + 10 * round}));
    }
    EXPECT_EQ(download<unsigned>(variable, 4), (std::vector<unsigned>{21, 22, 23, 24}));
    // Another load of the module has variables of its own.
    const CUfunction other = load(ptx(), "use_variable");
    ASSERT_EQ(launch(other, 1, 4, nullptr, out), CUDA_SUCCESS);
    EXPECT_EQ(download<unsigned>(out, 4), (std::vector<unsigned>{1, 2, 3, 4}));
}

TEST_F(CudaKernels, DynamicSharedMemoryBeyond48KNeedsToBeAskedFor) {
    const CUfunction f = load(ptx(), "dynamic_shared");
    CUdeviceptr out = allocate(4);
    const auto run = [&](unsigned bytes) {
        unsigned words = bytes / 4;
        void *parameters[] = {&out, &words};
        return CU(cuLaunchKernel)(f, 1, 1, 1, 128, 1, 1, bytes, nullptr, parameters, nullptr);
    };
    EXPECT_EQ(run(48 << 10), CUDA_SUCCESS);
    EXPECT_EQ(download<unsigned>(out, 1)[0], (48u << 10) / 4 - 1);
    EXPECT_EQ(run((48 << 10) + 4), CUDA_ERROR_INVALID_VALUE);
    int limit = 0;
    CU_OK(cuDeviceGetAttribute, &limit, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0);
    EXPECT_EQ(CU(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, limit + 1),
              CUDA_ERROR_INVALID_VALUE);
    CU_OK(cuFuncSetAttribute, f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, limit);
    EXPECT_EQ(run(static_cast<unsigned>(limit)), CUDA_SUCCESS);
    EXPECT_EQ(download<unsigned>(out, 1)[0], static_cast<unsigned>(limit) / 4 - 1);
}

TEST_F(CudaKernels, AttributesAndOccupancyFollowTheKernel) {
    const CUfunction f = load(ptx(), "block_sum");
    int value = 0;
    CU_OK(cuFuncGetAttribute, &value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f);
    EXPECT_EQ(value, 256);
    CU_OK(cuFuncGetAttribute, &value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f);
    EXPECT_EQ(value, 32);
    int blocks = 0;
    CU_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, f, 256, 0);
    EXPECT_GE(blocks, 1);
    EXPECT_LE(blocks, 8); // 2048 threads
    CU_OK(cuFuncSetAttribute, f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10);
    CU_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, f, 256, 100 << 10);
    EXPECT_EQ(blocks, 2); // 228 KiB of an SM
    CU_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, f, 512, 0);
    EXPECT_EQ(blocks, 0);
}

TEST_F(CudaKernels, ALibraryIsLoadedForEachContextThatUsesIt) {
    CUlibrary library = nullptr;
    CU_OK(cuLibraryLoadData, &library, ptx().c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    CUkernel kernel = nullptr;
    CU_OK(cuLibraryGetKernel, &kernel, library, "store");
    EXPECT_EQ(CU(cuLibraryGetKernel)(&kernel, library, "nothing"), CUDA_ERROR_NOT_FOUND);
    for (int device = 0; device < 2; ++device) {
        CU_OK(cuCtxSetCurrent, context_[device]);
        const CUdeviceptr out = allocate(16);
        ASSERT_EQ(launch(reinterpret_cast<CUfunction>(kernel), 1, 4, nullptr, out, 7u + device),
                  CUDA_SUCCESS);
        EXPECT_EQ(download<unsigned>(out, 4), std::vector<unsigned>(4, 7u + device));
        CUfunction f = nullptr;
        CU_OK(cuKernelGetFunction, &f, kernel);
        ASSERT_EQ(launch(f, 1, 4, nullptr, out, 9u), CUDA_SUCCESS);
        EXPECT_EQ(download<unsigned>(out, 4), std::vector<unsigned>(4, 9u));
    }
    CU_OK(cuLibraryUnload, library);
}

/// What goes wrong in a kernel, and the error that stays.
struct Broken {
    const char *name, *kernel;
    unsigned threads;
    CUresult error;
    const char *told;
    friend std::ostream &operator<<(std::ostream &to, const Broken &b) { return to << b.name; }
};

class CudaBrokenKernels : public CudaKernels, public testing::WithParamInterface<Broken> {};

TEST_P(CudaBrokenKernels, LeaveAnErrorUntilTheContextIsReset) {
    const Broken &b = GetParam();
    CUmodule module = nullptr;
    CU_OK(cuModuleLoadData, &module, ptx().c_str());
    CUfunction f = nullptr;
    CU_OK(cuModuleGetFunction, &f, module, b.kernel);
    CUdeviceptr out = 0;
    CU_OK(cuMemAlloc, &out, 64);
    CUstream s = nullptr;
    CU_OK(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
    CUevent event = nullptr;
    CU_OK(cuEventCreate, &event, 0);
    ASSERT_EQ(launch(f, 1, b.threads, s, out, 2u), CUDA_SUCCESS); // of launches nobody knows yet
    EXPECT_EQ(CU(cuStreamSynchronize)(s), b.error);
    EXPECT_NE(last_message().find(b.told), std::string::npos) << last_message();
    EXPECT_NE(last_message().find("block (0,0,0), thread ("), std::string::npos) << last_message();
    // It stays, whatever is called.
    CUdeviceptr more = 0;
    uint32_t word = 0;
    EXPECT_EQ(CU(cuMemAlloc)(&more, 64), b.error);
    EXPECT_EQ(CU(cuMemcpyDtoH)(&word, out, 4), b.error);
    EXPECT_EQ(launch(f, 1, 1, s, out, 0u), b.error);
    EXPECT_EQ(CU(cuCtxSynchronize)(), b.error);
    EXPECT_EQ(CU(cuEventQuery)(event), b.error);
    EXPECT_EQ(CU(cuMemFree)(out), b.error);
    // The other device goes on.
    CU_OK(cuCtxSetCurrent, context_[1]);
    CU_OK(cuMemAlloc, &more, 64);
    CU_OK(cuMemFree, more);
    // A reset takes everything with it, and a context of the device can be had again.
    CU_OK(cuDevicePrimaryCtxReset, 0);
    CU_OK(cuCtxSetCurrent, context_[1]);
    EXPECT_EQ(CU(cuCtxSetCurrent)(context_[0]), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CU_OK(cuDevicePrimaryCtxRelease, 0);
    CU_OK(cuDevicePrimaryCtxRetain, &context_[0], 0);
    CU_OK(cuCtxSetCurrent, context_[0]);
    EXPECT_EQ(CU(cuStreamSynchronize)(s), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(CU(cuMemFree)(out), CUDA_ERROR_INVALID_VALUE);
    CU_OK(cuMemAlloc, &out, 64);
    CU_OK(cuMemFree, out);
}

INSTANTIATE_TEST_SUITE_P(
    All, CudaBrokenKernels,
    testing::Values(Broken{"OutOfBounds", "store", 17, CUDA_ERROR_ILLEGAL_ADDRESS,
                           "is in no live allocation"},
                    Broken{"Misaligned", "store_at", 1, CUDA_ERROR_MISALIGNED_ADDRESS, "is no multiple of 4"},
                    Broken{"Trap", "stop", 1, CUDA_ERROR_LAUNCH_FAILED, "stopped itself"},
                    Broken{"Race", "race", 64, CUDA_ERROR_LAUNCH_FAILED, "shared memory"}),
    [](const auto &info) { return info.param.name; });

TEST_F(CudaKernels, AnothersMemoryIsReachedOnlyAsAPeer) {
    const CUfunction store = load(ptx(), "store");
    CU_OK(cuCtxSetCurrent, context_[1]);
    const CUdeviceptr there = upload(std::vector<unsigned>(4));
    CU_OK(cuCtxSetCurrent, context_[0]);
    CU_OK(cuCtxEnablePeerAccess, context_[1], 0);
    ASSERT_EQ(launch(store, 1, 4, nullptr, there, 3u), CUDA_SUCCESS);
    CU_OK(cuCtxSynchronize);
    EXPECT_EQ(download<unsigned>(there, 4), std::vector<unsigned>(4, 3u));
    CU_OK(cuCtxDisablePeerAccess, context_[1]);
    ASSERT_EQ(launch(store, 1, 4, nullptr, there, 4u), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
    // The other direction was never enabled, and memory of the device that failed is gone with a reset.
    CU_OK(cuDevicePrimaryCtxReset, 0);
    CU_OK(cuCtxSetCurrent, context_[1]);
    modules_.clear();
    EXPECT_EQ(download<unsigned>(there, 4), std::vector<unsigned>(4, 3u));
    CU_OK(cuDevicePrimaryCtxRelease, 0);
    CU_OK(cuDevicePrimaryCtxRetain, &context_[0], 0);
}

TEST_F(CudaKernels, ParametersCanComeInOneBuffer) {
    const CUfunction store = load(ptx(), "store");
    struct {
        CUdeviceptr to;
        unsigned value;
    } buffer{allocate(16), 5};
    size_t size = sizeof buffer;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CU_OK(cuLaunchKernel, store, 1, 1, 1, 4, 1, 1, 0, nullptr, nullptr, extra);
    EXPECT_EQ(download<unsigned>(buffer.to, 4), std::vector<unsigned>(4, 5u));
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 4;
    config.blockDimY = config.blockDimZ = 1;
    buffer.value = 6;
    CU_OK(cuLaunchKernelEx, &config, store, nullptr, extra);
    EXPECT_EQ(download<unsigned>(buffer.to, 4), std::vector<unsigned>(4, 6u));
}

/// A size that the kernel was compiled for, or that the launch asks for; in a stream and in a graph.
TEST_F(CudaKernels, BlocksComeInClusters) {
    const std::string text = compile_to_ptx(R"(
template <int dims> __device__ void rank_of(unsigned *out) {
    __shared__ unsigned given;
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
    const unsigned rank = __clusterRelativeBlockRank(), size = __clusterSizeInBlocks();
    if (threadIdx.x == 0)
        *(unsigned *)__cluster_map_shared_rank(&given, (rank + 1) % size) = 100 * size + rank;
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
    out[blockIdx.x] = given;
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) of_two(unsigned *out) { rank_of<2>(out); }
extern "C" __global__ void of_any(unsigned *out) { rank_of<0>(out); }
)");
    const CUfunction of_two = load(text, "of_two"), of_any = load(text, "of_any");
    int width = 0;
    CU_OK(cuFuncGetAttribute, &width, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, of_two);
    EXPECT_EQ(width, 2);
    CU_OK(cuDeviceGetAttribute, &width, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0);
    EXPECT_EQ(width, 1);
    CUdeviceptr out = allocate(64);
    const std::vector<unsigned> pairs{201, 200, 201, 200};
    ASSERT_EQ(launch(of_two, 4, 32, nullptr, out), CUDA_SUCCESS);
    EXPECT_EQ(download<unsigned>(out, 4), pairs);
    EXPECT_EQ(launch(of_two, 3, 32, nullptr, out), CUDA_ERROR_INVALID_VALUE);

    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    CUlaunchConfig config{};
    config.gridDimX = 8;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 32;
    config.attrs = &attribute;
    config.numAttrs = 1;
    void *parameters[] = {&out, nullptr};
    const auto of = [&](CUfunction f, unsigned size) {
        attribute.value.clusterDim.x = size;
        return CU(cuLaunchKernelEx)(&config, f, parameters, nullptr);
    };
    EXPECT_EQ(of(of_any, 4), CUDA_SUCCESS);
    EXPECT_EQ(download<unsigned>(out, 8), (std::vector<unsigned>{403, 400, 401, 402, 403, 400, 401, 402}));
    EXPECT_EQ(of(of_two, 2), CUDA_SUCCESS);
    EXPECT_EQ(download<unsigned>(out, 4), pairs);
    EXPECT_EQ(of(of_two, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(of(of_any, 16), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    EXPECT_EQ(of(of_any, 3), CUDA_ERROR_INVALID_VALUE);

    CUDA_KERNEL_NODE_PARAMS params{};
    params.func = of_two;
    params.gridDimX = 4;
    params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
    params.blockDimX = 32;
    params.kernelParams = parameters;
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    CUgraphExec exec = nullptr;
    CU_OK(cuGraphCreate, &graph, 0);
    CU_OK(cuGraphAddKernelNode, &node, graph, nullptr, 0, &params);
    CU_OK(cuGraphInstantiateWithFlags, &exec, graph, 0);
    CU_OK(cuMemsetD32, out, 0, 4);
    CU_OK(cuGraphLaunch, exec, nullptr);
    CU_OK(cuCtxSynchronize);
    EXPECT_EQ(download<unsigned>(out, 4), pairs);
    CU_OK(cuGraphExecDestroy, exec);
    CU_OK(cuGraphDestroy, graph);
}

TEST_F(CudaKernels, InstructionsAreCounted) {
    const CUfunction busy = load(ptx(), "busy");
    const CUdeviceptr out = allocate(64 * 128 * 4);
    const uint64_t before = FAKE(lazuli_fake_cuda_instructions)();
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(launch(busy, 64, 128, nullptr, out, 500u), CUDA_SUCCESS);
    CU_OK(cuCtxSynchronize);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    const auto count = static_cast<double>(FAKE(lazuli_fake_cuda_instructions)() - before);
    EXPECT_GE(count, 64.0 * 128 * 500 * 3);
    RecordProperty("million_per_second", std::to_string(count / seconds.count() * 1e-6));
    constexpr unsigned launches = 1000;
    const auto begin_launches = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < launches; ++i)
        ASSERT_EQ(launch(busy, 1, 32, nullptr, out, 1u), CUDA_SUCCESS);
    CU_OK(cuCtxSynchronize);
    const std::chrono::duration<double, std::micro> each = std::chrono::steady_clock::now() - begin_launches;
    RecordProperty("us_a_launch", std::to_string(each.count() / launches));
    const auto got = download<unsigned>(out, 64 * 128);
    for (unsigned t : {0u, 1u, 31u, 8191u}) {
        unsigned x = t;
        for (unsigned i = 0; i < (t < 32 ? 1u : 500u); ++i) {
            x = x * 1664525u + 1013904223u;
            x ^= x >> 13;
        }
        EXPECT_EQ(got[t], x) << t;
    }
}

} // namespace
} // namespace lz::test
