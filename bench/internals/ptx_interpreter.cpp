// Instructions of threads that the interpreter of PTX runs in a second, on one thread of the host: of
// arithmetic, of streams through memory, of rows that go through shared memory and shuffles. At least 100 M.
//
//   bench_ptx_interpreter --benchmark_repetitions=5
#include "tests/support/cuda/device_memory.h"
#include "tests/support/cuda/nvrtc.h"

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

namespace {

using namespace lz;

constexpr const char *kSource = R"(
extern "C" __global__ void __launch_bounds__(256) arithmetic(float *out, unsigned n) {
    float x = threadIdx.x;
    unsigned y = threadIdx.x;
    for (unsigned i = 0; i < n; ++i) {
        x = x * 0.5f + 1.0f;
        y = y * 1664525u + 1013904223u ^ y >> 13;
    }
    out[blockIdx.x * 256 + threadIdx.x] = x + y;
}
extern "C" __global__ void __launch_bounds__(256) stream(float *data, unsigned n) {
    for (unsigned i = blockIdx.x * 256 + threadIdx.x; i < n / 4; i += gridDim.x * 256) {
        float4 v = ((float4 *)data)[i];
        v.x = v.x * 0.5f + 1.0f, v.y = v.y * 0.5f + 1.0f, v.z = v.z * 0.5f + 1.0f, v.w = v.w * 0.5f + 1.0f;
        ((float4 *)data)[i] = v;
    }
}
// Single elements.
extern "C" __global__ void __launch_bounds__(256) gather(float *data, unsigned n) {
    for (unsigned i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        data[i] = data[i] * 0.5f + 1.0f;
}
extern "C" __global__ void __launch_bounds__(256) rows(float *data, unsigned n) {
    __shared__ float row[1024], part[8];
    for (unsigned first = blockIdx.x * 1024; first < n; first += gridDim.x * 1024) {
        float sum = 0;
        for (unsigned i = threadIdx.x; i < 1024; i += 256) {
            row[i] = data[first + i];
            sum += row[i];
        }
        for (int h = 16; h > 0; h /= 2)
            sum += __shfl_xor_sync(0xffffffff, sum, h);
        if (threadIdx.x % 32 == 0)
            part[threadIdx.x / 32] = sum;
        __syncthreads();
        for (int w = 0; w < 8; ++w)
            sum += part[w];
        for (unsigned i = threadIdx.x; i < 1024; i += 256)
            data[first + i] = row[1023 - i] - sum;
        __syncthreads();
    }
}
)";

void interpret(benchmark::State &state, const char *kernel, unsigned n) {
    if (!test::why_no_nvrtc().empty()) {
        state.SkipWithError(test::why_no_nvrtc().c_str());
        return;
    }
    static test::PtxProgram program(test::compile_to_ptx(kSource));
    test::DeviceMemory memory;
    const uint64_t data = memory.put(std::vector<float>(1 << 18));
    int64_t instructions = 0;
    for (auto _ : state)
        instructions += static_cast<int64_t>(
            program.run(kernel, {8, 1, 1}, {256, 1, 1}, memory, data, n).thread_instructions);
    state.SetItemsProcessed(instructions);
}
BENCHMARK_CAPTURE(interpret, arithmetic, "arithmetic", 500);
BENCHMARK_CAPTURE(interpret, stream, "stream", 1 << 18);
BENCHMARK_CAPTURE(interpret, gather, "gather", 1 << 18);
BENCHMARK_CAPTURE(interpret, rows, "rows", 1 << 18);

} // namespace

BENCHMARK_MAIN();
