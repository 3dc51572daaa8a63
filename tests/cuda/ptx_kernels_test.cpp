// Kernels as NVRTC compiles them, in the interpreter of PTX, against plain loops; and each of their barriers
// deleted, which has to be found. Needs NVRTC, and no GPU.

#include "tests/support/cuda/device_memory.h"
#include "tests/support/cuda/nvrtc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

namespace lz::test {
namespace {

using ptx::Fault;

class PtxKernels : public testing::Test {
protected:
    void SetUp() override {
        if (!why_no_nvrtc().empty())
            GTEST_SKIP() << why_no_nvrtc();
    }
};

std::vector<float> some_floats(size_t count, uint32_t seed = 1) {
    std::mt19937 rng(seed);
    std::vector<float> values(count);
    for (float &v : values)
        v = static_cast<float>(static_cast<int32_t>(rng()) >> 8) * 0x1p-20f;
    return values;
}

/// A kernel, how it is launched, and what it has to compute.
struct Sample {
    const char *name;
    const char *source;
    /// Runs it; whether the result is right.
    bool (*run)(PtxProgram &program);
};

const char *const kBlockSum = R"(
extern "C" __global__ void __launch_bounds__(256) k(const float *in, float *out, unsigned n) {
    __shared__ float part[8];
    float sum = 0;
    for (unsigned i = threadIdx.x; i < n; i += 256)
        sum += in[blockIdx.x * n + i];
    for (int h = 16; h > 0; h /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, h);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0;
    for (int w = 0; w < 8; ++w)
        total += part[w];
    __syncthreads(); // part is written again
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = total + threadIdx.x / 32;
    __syncthreads();
    if (threadIdx.x < 8)
        out[blockIdx.x * 8 + threadIdx.x] = part[7 - threadIdx.x];
})";
bool run_block_sum(PtxProgram &p) {
    constexpr uint32_t rows = 5, n = 1000;
    DeviceMemory memory;
    std::vector<float> in(rows * n);
    for (size_t i = 0; i < in.size(); ++i)
        in[i] = static_cast<float>(i % 17); // sums are exact in any order
    const uint64_t out = memory.put(std::vector<float>(rows * 8));
    p.run("k", {rows, 1, 1}, {256, 1, 1}, memory, memory.put(in), out, n);
    const auto got = memory.get<float>(out);
    for (uint32_t r = 0; r < rows; ++r)
        for (uint32_t i = 0; i < 8; ++i)
            if (got[r * 8 + i] != std::accumulate(in.begin() + r * n, in.begin() + (r + 1) * n, 0.0f) +
                                      static_cast<float>(7 - i))
                return false;
    return true;
}

const char *const kTranspose = R"(
extern "C" __global__ void __launch_bounds__(256) k(const float *in, float *out, unsigned rows, unsigned cols) {
    __shared__ float tile[32][33];
    const unsigned x = threadIdx.x % 32, y = threadIdx.x / 32;
    for (unsigned first = 0; first < cols; first += 32) {
        for (unsigned j = y; j < 32; j += 8)
            tile[j][x] = blockIdx.x * 32 + j < rows && first + x < cols ? in[(blockIdx.x * 32 + j) * cols + first + x] : 0;
        __syncthreads();
        for (unsigned j = y; j < 32; j += 8)
            if (first + j < cols && blockIdx.x * 32 + x < rows)
                out[(first + j) * rows + blockIdx.x * 32 + x] = tile[x][j];
        __syncthreads();
    }
})";
bool run_transpose(PtxProgram &p) {
    constexpr uint32_t rows = 70, cols = 45;
    DeviceMemory memory;
    const auto in = some_floats(rows * cols);
    const uint64_t out = memory.put(std::vector<float>(rows * cols));
    p.run("k", {3, 1, 1}, {256, 1, 1}, memory, memory.put(in), out, rows, cols);
    const auto got = memory.get<float>(out);
    for (uint32_t r = 0; r < rows; ++r)
        for (uint32_t c = 0; c < cols; ++c)
            if (got[c * rows + r] != in[r * cols + c])
                return false;
    return true;
}

const char *const kScan = R"(
extern "C" __global__ void __launch_bounds__(128) k(const double *in, double *out, unsigned n) {
    __shared__ double last[4];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    double before = 0;
    for (unsigned first = 0; first < n; first += 128) {
        const unsigned i = first + threadIdx.x;
        double v = i < n ? in[i] : 0;
        for (int h = 1; h < 32; h *= 2) {
            const double left = __shfl_up_sync(0xffffffff, v, h);
            if (lane >= h)
                v = left + v;
        }
        if (lane == 31)
            last[warp] = v;
        __syncthreads();
        double offset = before;
        for (unsigned w = 0; w < 4; ++w) {
            if (w < warp)
                offset = offset + last[w];
            before = before + last[w];
        }
        if (i < n)
            out[i] = offset + v;
        __syncthreads();
    }
})";
bool run_scan(PtxProgram &p) {
    constexpr uint32_t n = 1000;
    DeviceMemory memory;
    std::vector<double> in(n), sums(n);
    for (uint32_t i = 0; i < n; ++i)
        in[i] = i % 13;
    std::partial_sum(in.begin(), in.end(), sums.begin());
    const uint64_t out = memory.put(std::vector<double>(n));
    p.run("k", {1, 1, 1}, {128, 1, 1}, memory, memory.put(in), out, n);
    return memory.get<double>(out) == sums;
}

const char *const kSort = R"(
extern "C" __global__ void __launch_bounds__(256) k(const int *in, int *out, short *where, unsigned n) {
    __shared__ int key[512];
    __shared__ short index[512];
    for (unsigned i = threadIdx.x; i < 512; i += 256) {
        key[i] = i < n ? in[i] : 0x7fffffff;
        index[i] = i;
    }
    for (unsigned width = 2; width <= 512; width *= 2)
        for (unsigned step = width / 2; step > 0; step /= 2) {
            __syncthreads();
            const unsigned a = (threadIdx.x / step) * step * 2 + threadIdx.x % step, b = a + step;
            const bool up = (a & width) == 0;
            const bool after = key[a] > key[b] || (key[a] == key[b] && index[a] > index[b]);
            if (after == up) {
                const int k = key[a]; key[a] = key[b]; key[b] = k;
                const short i = index[a]; index[a] = index[b]; index[b] = i;
            }
        }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += 256) {
        out[i] = key[i];
        where[i] = index[i];
    }
})";
bool run_sort(PtxProgram &p) {
    constexpr uint32_t n = 500;
    DeviceMemory memory;
    std::vector<int> in(n);
    std::mt19937 rng(3);
    for (int &v : in)
        v = static_cast<int>(rng() % 100);
    std::vector<int16_t> order(n);
    std::iota(order.begin(), order.end(), int16_t{0});
    std::ranges::sort(order, {}, [&](int16_t i) { return std::pair(in[static_cast<size_t>(i)], i); });
    const uint64_t out = memory.put(std::vector<int>(n)), where = memory.put(std::vector<int16_t>(n));
    p.run("k", {1, 1, 1}, {256, 1, 1}, memory, memory.put(in), out, where, n);
    return memory.get<int16_t>(where) == order;
}

const char *const kLastBlock = R"(
extern "C" __global__ void __launch_bounds__(64) k(const int *in, int *part, int *out, unsigned *count, unsigned n) {
    __shared__ int sums[64];
    __shared__ bool last;
    int sum = 0;
    for (unsigned i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64)
        sum += in[i];
    sums[threadIdx.x] = sum;
    for (unsigned h = 32; h > 0; h /= 2) {
        __syncthreads();
        if (threadIdx.x < h)
            sums[threadIdx.x] += sums[threadIdx.x + h];
    }
    if (threadIdx.x == 0) {
        part[blockIdx.x] = sums[0];
        __threadfence();
        last = atomicAdd(count, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int total = 0;
        for (unsigned b = 0; b < gridDim.x; ++b)
            total += part[b];
        *out = total;
    }
})";
bool run_last_block(PtxProgram &p) {
    constexpr uint32_t n = 5000, blocks = 7;
    DeviceMemory memory;
    std::vector<int> in(n);
    std::iota(in.begin(), in.end(), -700);
    const uint64_t out = memory.put(std::vector<int>(1));
    p.run("k", {blocks, 1, 1}, {64, 1, 1}, memory, memory.put(in), memory.put(std::vector<int>(blocks)), out,
          memory.put(std::vector<uint32_t>(1)), n);
    return memory.get<int>(out)[0] == std::accumulate(in.begin(), in.end(), 0);
}

const char *const kProduct = R"(
extern "C" __global__ void __launch_bounds__(256) k(const float *a, const float *b, float *c, unsigned n) {
    __shared__ float ta[16][17], tb[16][17];
    const unsigned x = threadIdx.x % 16, y = threadIdx.x / 16, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0;
    for (unsigned k0 = 0; k0 < n; k0 += 16) {
        ta[y][x] = row < n && k0 + x < n ? a[row * n + k0 + x] : 0;
        tb[y][x] = k0 + y < n && col < n ? b[(k0 + y) * n + col] : 0;
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            sum = __fmaf_rn(ta[y][k], tb[k][x], sum);
        __syncthreads();
    }
    if (row < n && col < n)
        c[row * n + col] = sum;
})";
bool run_product(PtxProgram &p) {
    constexpr uint32_t n = 50;
    DeviceMemory memory;
    const auto a = some_floats(n * n, 5), b = some_floats(n * n, 6);
    const uint64_t out = memory.put(std::vector<float>(n * n));
    p.run("k", {4, 4, 1}, {256, 1, 1}, memory, memory.put(a), memory.put(b), out, n);
    const auto got = memory.get<float>(out);
    for (uint32_t i = 0; i < n; ++i)
        for (uint32_t j = 0; j < n; ++j) {
            float sum = 0;
            for (uint32_t k = 0; k < n; ++k)
                sum = std::fma(a[i * n + k], b[k * n + j], sum);
            if (got[i * n + j] != sum)
                return false;
        }
    return true;
}

const char *const kHistogram = R"(
extern "C" __global__ void __launch_bounds__(128) k(const unsigned char *in, unsigned *out, unsigned n) {
    extern __shared__ unsigned bins[];
    for (unsigned i = threadIdx.x; i < 256; i += 128)
        bins[i] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128)
        atomicAdd(&bins[in[i]], 1u);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < 256; i += 128)
        atomicAdd(&out[i], bins[i]);
})";
bool run_histogram(PtxProgram &p) {
    constexpr uint32_t n = 3000;
    DeviceMemory memory;
    std::vector<uint8_t> in(n);
    std::vector<uint32_t> bins(256);
    for (uint32_t i = 0; i < n; ++i)
        ++bins[in[i] = static_cast<uint8_t>(i * i % 251)];
    const uint64_t out = memory.put(std::vector<uint32_t>(256));
    p.dynamic_shared = 1024;
    p.run("k", {3, 1, 1}, {128, 1, 1}, memory, memory.put(in), out, n);
    return memory.get<uint32_t>(out) == bins;
}

// Two stages of asynchronous copies: one is in flight while the other is read.
const char *const kAsync = R"(
__device__ __forceinline__ void copy16(void *to, const void *from) {
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}
extern "C" __global__ void __launch_bounds__(64) k(const float *in, float *out, unsigned stages) {
    __shared__ alignas(16) float buffer[2][256];
    copy16(&buffer[0][threadIdx.x * 4], in + threadIdx.x * 4);
    asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll 1 // a barrier of the last round alone would not be missed
    for (unsigned s = 0; s < stages; ++s) {
        if (s + 1 < stages)
            copy16(&buffer[(s + 1) % 2][threadIdx.x * 4], in + (s + 1) * 256 + threadIdx.x * 4);
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        for (unsigned e = 0; e < 4; ++e)
            out[s * 256 + e * 64 + threadIdx.x] = buffer[s % 2][255 - (e * 64 + threadIdx.x)];
        __syncthreads();
    }
})";
bool run_async(PtxProgram &p) {
    constexpr uint32_t stages = 5;
    DeviceMemory memory;
    const auto in = some_floats(stages * 256);
    const uint64_t out = memory.put(std::vector<float>(stages * 256));
    p.run("k", {1, 1, 1}, {64, 1, 1}, memory, memory.put(in), out, stages);
    const auto got = memory.get<float>(out);
    for (uint32_t s = 0; s < stages; ++s)
        for (uint32_t i = 0; i < 256; ++i)
            if (got[s * 256 + i] != in[s * 256 + 255 - i])
                return false;
    return true;
}

// Four blocks give each other what they have; the first one reads what is left from the last one's memory.
const char *const kCluster = R"(
template <class T> __device__ T *in_block(T *mine, unsigned rank) { return (T *)__cluster_map_shared_rank(mine, rank); }
__device__ void sync_cluster() { __cluster_barrier_arrive(); __cluster_barrier_wait(); }
extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(64) k(const int *in, int *out, unsigned rows) {
    __shared__ int parts[4], last;
    const unsigned rank = blockIdx.x % 4;
#pragma unroll 1 // the first barrier is missed in rows that follow, too
    for (unsigned row = blockIdx.x / 4; row < rows; row += gridDim.x / 4) {
        sync_cluster();
        const int sum = __reduce_add_sync(0xffffffff, in[(row * 4 + rank) * 32 + threadIdx.x % 32]);
        if (threadIdx.x < 4)
            *in_block(parts + rank, threadIdx.x) = sum;
        if (threadIdx.x == 32)
            last = sum;
        sync_cluster();
        const int all = parts[0] + parts[1] + parts[2] + parts[3] + *in_block(&last, 3);
        if (threadIdx.x == 0)
            out[row * 4 + rank] = all;
    }
    sync_cluster();
})";
bool run_cluster(PtxProgram &p) {
    constexpr uint32_t rows = 5;
    DeviceMemory memory;
    std::vector<int> in(rows * 128);
    std::iota(in.begin(), in.end(), -300);
    const uint64_t out = memory.put(std::vector<int>(rows * 4));
    p.run("k", {8, 1, 1}, {64, 1, 1}, memory, memory.put(in), out, rows);
    const auto got = memory.get<int>(out);
    for (uint32_t i = 0; i < rows * 4; ++i) {
        const auto row = in.begin() + i / 4 * 128;
        if (got[i] != std::accumulate(row, row + 128, 0) + std::accumulate(row + 96, row + 128, 0))
            return false;
    }
    return true;
}

const Sample kSamples[] = {
    {"block sum", kBlockSum, run_block_sum},
    {"transpose", kTranspose, run_transpose},
    {"scan", kScan, run_scan},
    {"sort", kSort, run_sort},
    {"last block", kLastBlock, run_last_block},
    {"product", kProduct, run_product},
    {"histogram", kHistogram, run_histogram},
    {"asynchronous copies", kAsync, run_async},
    {"a cluster", kCluster, run_cluster},
};

TEST_F(PtxKernels, ComputeWhatPlainLoopsDoInAnyOrderOfBlocksAndWarps) {
    for (const Sample &s : kSamples) {
        PtxProgram program(compile_to_ptx(s.source));
        for (uint64_t seed = 0; seed < 5; ++seed) {
            program.seed = seed;
            EXPECT_TRUE(s.run(program)) << s.name << ", seed " << seed;
        }
    }
}

/// The fault of a run, or what else was wrong with it; nothing if all was right.
std::optional<std::string> what_is_wrong(const Sample &s, PtxProgram &program) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
        program.seed = seed;
        try {
            if (!s.run(program))
                return "the result is wrong";
        } catch (const Fault &fault) {
            return fault.what();
        }
    }
    return std::nullopt;
}

TEST_F(PtxKernels, EachBarrierThatIsDeletedIsMissed) {
    int deleted = 0;
    for (const Sample &s : kSamples) {
        const std::string text = compile_to_ptx(s.source);
        for (const char *what : {"bar.sync", "cp.async.wait_group", "barrier.cluster.arrive"})
            for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
                std::string mutated = text;
                mutated.erase(at, mutated.find(';', at) + 1 - at);
                if (const size_t wait = mutated.find("barrier.cluster.wait", at);
                    std::string_view(what) == "barrier.cluster.arrive") // both halves
                    mutated.erase(wait, mutated.find(';', wait) + 1 - wait);
                PtxProgram program(mutated);
                EXPECT_TRUE(what_is_wrong(s, program))
                    << s.name << ": nobody misses the `" << what << "` at byte " << at << "\n"
                    << mutated;
                ++deleted;
            }
    }
    EXPECT_GE(deleted, 20);
}

TEST_F(PtxKernels, ARegisterThatWasNeverWrittenIsNotRead) {
    const std::string text =
        compile_to_ptx("extern \"C\" __global__ void k(float *o) { o[threadIdx.x] = o[threadIdx.x] + 1; }");
    const size_t at = text.find("ld.global.f32");
    ASSERT_NE(at, std::string::npos);
    std::string mutated = text;
    mutated.erase(at, mutated.find(';', at) + 1 - at);
    PtxProgram program(mutated);
    DeviceMemory memory;
    try {
        program.run("k", {1, 1, 1}, {32, 1, 1}, memory, memory.put(std::vector<float>(32)));
        FAIL();
    } catch (const Fault &fault) {
        EXPECT_EQ(fault.kind, Fault::Kind::Uninitialized);
        EXPECT_NE(std::string(fault.what()).find("is read before it was written"), std::string::npos)
            << fault.what();
    }
}

TEST_F(PtxKernels, ALaunchThatADriverWouldRefuseIsRefused) {
    PtxProgram program(compile_to_ptx(
        "extern \"C\" __global__ void __launch_bounds__(64) k(float *o) { o[threadIdx.x] = 1; }"));
    DeviceMemory memory;
    const uint64_t data = memory.put(std::vector<float>(1024));
    EXPECT_THROW(program.run("k", {1, 1, 1}, {128, 1, 1}, memory, data), std::invalid_argument);
    EXPECT_THROW(program.run("k", {0, 1, 1}, {64, 1, 1}, memory, data), std::invalid_argument);
    program.dynamic_shared = 1 << 20;
    EXPECT_THROW(program.run("k", {1, 1, 1}, {64, 1, 1}, memory, data), std::invalid_argument);
    PtxProgram clusters(compile_to_ptx(
        "extern \"C\" __global__ void __cluster_dims__(2, 1, 1) k(float *o) { o[threadIdx.x] = 1; }"));
    EXPECT_THROW(clusters.run("k", {3, 1, 1}, {32, 1, 1}, memory, data), std::invalid_argument);
    clusters.run("k", {4, 1, 1}, {32, 1, 1}, memory, data);
}

/// Words that lie `apart` words from each other, of 4, 8 and 16 bytes.
TEST_F(PtxKernels, CountsTurnsOfBanks) {
    PtxProgram program(compile_to_ptx(R"(
template <class T> __device__ void copy(T *shared, float *out, unsigned apart) {
    shared[threadIdx.x * apart] = T{};
    __syncthreads();
    out[threadIdx.x] = *reinterpret_cast<float *>(&shared[threadIdx.x * apart]);
}
extern "C" __global__ void of4(float *out, unsigned apart) {
    __shared__ float shared[32 * 33];
    copy(shared, out, apart);
}
extern "C" __global__ void of16(float *out, unsigned apart) {
    __shared__ float4 shared[32 * 9];
    copy(shared, out, apart);
}
)"));
    program.count_bank_conflicts = true;
    const auto conflicts = [&](const char *kernel, uint32_t apart) {
        DeviceMemory memory;
        return program.run(kernel, {1, 1, 1}, {32, 1, 1}, memory, memory.put(std::vector<float>(32)), apart)
            .bank_conflicts;
    };
    EXPECT_EQ(conflicts("of4", 1), 0u);
    EXPECT_EQ(conflicts("of4", 33), 0u);
    EXPECT_EQ(conflicts("of4", 2), 2u * 1);
    EXPECT_EQ(conflicts("of4", 32), 2u * 31);
    // A quarter of the warp at a time, which has eight packets; they are read again by single words.
    EXPECT_EQ(conflicts("of16", 1), 3u);
    EXPECT_EQ(conflicts("of16", 8), 4u * 7 + 31);
}

TEST_F(PtxKernels, CountsInstructionsByName) {
    PtxProgram program(compile_to_ptx(
        "extern \"C\" __global__ void k(float *o) { o[threadIdx.x] = o[threadIdx.x] * 3.0f; }"));
    DeviceMemory memory;
    const ptx::Counts counts =
        program.run("k", {2, 1, 1}, {32, 1, 1}, memory, memory.put(std::vector<float>(32)));
    const ptx::Kernel &k = program.module().kernels.at("k");
    const auto at = std::ranges::find(k.names, "mul.rn.f32");
    ASSERT_NE(at, k.names.end());
    EXPECT_EQ(counts.by_name[static_cast<size_t>(at - k.names.begin())], 64u);
    EXPECT_EQ(counts.thread_instructions, 64 * k.code.size());
}

} // namespace
} // namespace lz::test
