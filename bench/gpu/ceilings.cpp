#include "bench/gpu/ceilings.h"

#include "runtime/cuda/driver/libraries.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

namespace lz::bench {

namespace {

using runtime::cuda::Search;

/// 16 bytes at a time, four of them under way in each thread, stored past the caches.
constexpr const char *kSource = R"(
struct alignas(16) Word { unsigned x, y, z, w; };
extern "C" __global__ void __launch_bounds__(512) copy(const Word *from, Word *to, long long n) {
    const long long step = (long long)gridDim.x * 512;
    long long i = (long long)blockIdx.x * 512 + threadIdx.x;
    for (; i + 3 * step < n; i += 4 * step) {
        Word word[4];
#pragma unroll
        for (int u = 0; u < 4; ++u)
            word[u] = from[i + u * step];
#pragma unroll
        for (int u = 0; u < 4; ++u)
            to[i + u * step] = word[u];
    }
    for (; i < n; i += step)
        to[i] = from[i];
}
extern "C" __global__ void __launch_bounds__(512) read(const Word *from, Word *to, long long n) {
    const long long step = (long long)gridDim.x * 512;
    long long i = (long long)blockIdx.x * 512 + threadIdx.x;
    unsigned seen = 0;
    for (; i + 3 * step < n; i += 4 * step) {
        Word word[4];
#pragma unroll
        for (int u = 0; u < 4; ++u)
            word[u] = from[i + u * step];
#pragma unroll
        for (int u = 0; u < 4; ++u)
            seen |= word[u].x | word[u].y | word[u].z | word[u].w;
    }
    for (; i < n; i += step)
        seen |= from[i].x | from[i].y | from[i].z | from[i].w;
    if (seen == 0x5a5a5a5au) // never: memory is 0
        to[0].x = seen;
}
extern "C" __global__ void __launch_bounds__(256) add(const float *x, const float *y, float *to, long long n) {
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i < n)
        to[i] = x[i] + y[i];
}
)";

std::vector<char> compiled(const runtime::cuda::Library &library, int sm) {
    const codegen::Nvrtc n = codegen::load_nvrtc(library.handle);
    int count = 0;
    n.num_archs(&count);
    std::vector<int> archs(static_cast<size_t>(count));
    n.archs(archs.data());
    const bool known = std::ranges::find(archs, sm) != archs.end();
    const std::string option = "--gpu-architecture=" + std::string(known ? "sm_" : "compute_") +
                               std::to_string(known ? sm : archs.back());
    codegen::Nvrtc::Program program = nullptr;
    if (n.create(&program, kSource, "ceilings.cu", 0, nullptr, nullptr) != 0)
        throw std::runtime_error("NVRTC made no program of the ceilings.");
    const char *const options[] = {option.c_str(), "--fmad=false"};
    if (const int error = n.compile(program, 2, options)) {
        size_t bytes = 0;
        n.log_size(program, &bytes);
        std::string log(bytes, '\0');
        n.log(program, log.data());
        throw std::runtime_error(std::string(n.error(error)) + ": " + log);
    }
    size_t bytes = 0;
    (known ? n.cubin_size : n.ptx_size)(program, &bytes);
    std::vector<char> code(bytes);
    (known ? n.cubin : n.ptx)(program, code.data());
    n.destroy(&program);
    return code;
}

runtime::cuda::Library found(runtime::cuda::Library library) {
    if (!library)
        throw std::runtime_error(library.missing);
    return library;
}

} // namespace

GpuCeilings::GpuCeilings()
    : library_(found(runtime::cuda::open_driver(Search::from_environment()))),
      nvrtc_(found(runtime::cuda::open_nvrtc(Search::from_environment(), library_))), driver_(library_) {
    CUdevice device = 0;
    check(driver_.cuDeviceGet(&device, 0), "the device");
    char name[256] = {};
    check(driver_.cuDeviceGetName(name, sizeof name, device), "its name");
    device_ = name;
    const auto attribute = [&](CUdevice_attribute which) {
        int value = 0;
        check(driver_.cuDeviceGetAttribute(&value, which, device), "its attributes");
        return value;
    };
    multiprocessors_ = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    clock_hz_ = 1e3 * attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    const int sm = 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                   attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    check(driver_.cuDevicePrimaryCtxRetain(&context_, device), "its context");
    check(driver_.cuCtxSetCurrent(context_), "its context");
    check(driver_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0), "a stream");
    check(driver_.cuEventCreate(&begin_, CU_EVENT_DEFAULT), "an event");
    check(driver_.cuEventCreate(&end_, CU_EVENT_DEFAULT), "an event");
    const std::vector<char> code = compiled(nvrtc_, sm);
    check(driver_.cuLibraryLoadData(&code_, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), "code");
}

GpuCeilings::~GpuCeilings() {
    for (const auto &[at, bytes] : memory_)
        driver_.cuMemFree(at);
    driver_.cuLibraryUnload(code_);
    driver_.cuEventDestroy(begin_);
    driver_.cuEventDestroy(end_);
    driver_.cuStreamDestroy(stream_);
}

void GpuCeilings::check(CUresult result, const char *what) const {
    if (result != CUDA_SUCCESS)
        throw std::runtime_error(std::string("The driver did not give ") + what + ": " +
                                 runtime::cuda::describe(driver_, result));
}

CUfunction GpuCeilings::function(const char *name) const {
    CUkernel kernel = nullptr;
    CUfunction found = nullptr;
    check(driver_.cuLibraryGetKernel(&kernel, code_, name), name);
    check(driver_.cuKernelGetFunction(&found, kernel), name);
    return found;
}

CUdeviceptr GpuCeilings::memory(size_t which, size_t bytes) {
    if (memory_.size() <= which)
        memory_.resize(which + 1);
    auto &[at, size] = memory_[which];
    if (size >= bytes)
        return at;
    if (at)
        check(driver_.cuMemFree(at), "memory back");
    at = 0, size = 0;
    check(driver_.cuMemAlloc(&at, bytes), "memory");
    size = bytes;
    const std::vector<char> zeros(std::min(bytes, size_t{1} << 20));
    for (size_t done = 0; done < bytes; done += zeros.size())
        check(driver_.cuMemcpyAsync(at + done, reinterpret_cast<CUdeviceptr>(zeros.data()),
                                    std::min(zeros.size(), bytes - done), stream_),
              "a copy");
    check(driver_.cuStreamSynchronize(stream_), "a copy");
    return at;
}

double GpuCeilings::time(const Put &put) {
    constexpr int kRuns = 5;
    put(stream_);
    check(driver_.cuEventRecord(begin_, stream_), "a moment");
    for (int i = 0; i < kRuns; ++i)
        put(stream_);
    check(driver_.cuEventRecord(end_, stream_), "a moment");
    check(driver_.cuEventSynchronize(end_), "what was measured");
    float milliseconds = 0;
    check(driver_.cuEventElapsedTime(&milliseconds, begin_, end_), "a time");
    return static_cast<double>(milliseconds) * 1e-3 / kRuns;
}

/// The best of several grids.
double GpuCeilings::pass(const char *name, int64_t bytes) {
    CUdeviceptr from = memory(0, static_cast<size_t>(bytes)), to = memory(1, static_cast<size_t>(bytes));
    int64_t words = bytes / 16;
    const CUfunction kernel = function(name);
    void *parameters[] = {&from, &to, &words};
    const int64_t whole = std::max<int64_t>((words + 2047) / 2048, 1);
    double best = 0;
    for (const int64_t blocks : {whole, int64_t{4} * multiprocessors_, int64_t{16} * multiprocessors_}) {
        const double seconds = time([&](CUstream stream) {
            check(driver_.cuLaunchKernel(kernel, static_cast<unsigned>(std::min(blocks, whole)), 1, 1, 512, 1,
                                         1, 0, stream, parameters, nullptr),
                  "a launch");
        });
        best = best == 0 ? seconds : std::min(best, seconds);
    }
    return best;
}

double GpuCeilings::copy(int64_t bytes) {
    return pass("copy", bytes);
}
double GpuCeilings::read(int64_t bytes) {
    return pass("read", bytes);
}

std::vector<GpuCeilings::Graph> GpuCeilings::additions(int kernels, int64_t elements, int launches) {
    using Begin = decltype(&::cuStreamBeginCapture);
    using End = decltype(&::cuStreamEndCapture);
    const auto begin = reinterpret_cast<Begin>(library_.find("cuStreamBeginCapture_v2"));
    const auto end = reinterpret_cast<End>(library_.find("cuStreamEndCapture"));
    if (!begin || !end)
        return std::vector<Graph>(static_cast<size_t>(launches));
    const auto bytes = static_cast<size_t>(elements) * 4;
    CUdeviceptr x = memory(2, bytes), y = memory(3, bytes), z = memory(4, bytes);
    void *there[] = {&x, &y, &z, &elements}, *back[] = {&z, &y, &x, &elements};
    const CUfunction add = function("add");
    check(begin(stream_, CU_STREAM_CAPTURE_MODE_RELAXED), "a capture");
    for (int k = 0; k < kernels; ++k)
        check(driver_.cuLaunchKernel(add, static_cast<unsigned>((elements + 255) / 256), 1, 1, 256, 1, 1, 0,
                                     stream_, k % 2 == 0 ? there : back, nullptr),
              "a launch");
    CUgraph graph = nullptr;
    CUgraphExec run = nullptr;
    check(end(stream_, &graph), "a graph");
    check(driver_.cuGraphInstantiateWithFlags(&run, graph, 0), "a graph");
    std::vector<Graph> out;
    check(driver_.cuGraphLaunch(run, stream_), "a launch"); // the first one takes longer
    check(driver_.cuStreamSynchronize(stream_), "a launch");
    for (int launch = 0; launch < launches; ++launch) {
        const auto from = std::chrono::steady_clock::now();
        check(driver_.cuGraphLaunch(run, stream_), "a launch");
        const double host = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
        check(driver_.cuStreamSynchronize(stream_), "a launch");
        const double whole = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
        out.push_back({host, whole});
    }
    driver_.cuGraphExecDestroy(run);
    driver_.cuGraphDestroy(graph);
    return out;
}

double GpuCeilings::product(int64_t n, Operands of) {
    const runtime::cuda::Library library =
        runtime::cuda::open_cublaslt(Search::from_environment(), library_, nvrtc_);
    if (!library)
        return 0;
#define LT(name) const auto name##_ = reinterpret_cast<decltype(&::name)>(library.find(#name))
    LT(cublasLtCreate);
    LT(cublasLtDestroy);
    LT(cublasLtMatmul);
    LT(cublasLtMatmulDescCreate);
    LT(cublasLtMatmulDescDestroy);
    LT(cublasLtMatrixLayoutCreate);
    LT(cublasLtMatrixLayoutDestroy);
    LT(cublasLtMatmulPreferenceCreate);
    LT(cublasLtMatmulPreferenceDestroy);
    LT(cublasLtMatmulPreferenceSetAttribute);
    LT(cublasLtMatmulAlgoGetHeuristic);
#undef LT
    const auto need = [](cublasStatus_t status) {
        if (status != CUBLAS_STATUS_SUCCESS)
            throw std::runtime_error("cuBLASLt failed with " + std::to_string(static_cast<int>(status)));
    };
    constexpr int kProposals = 8;
    constexpr size_t kWorkspace = size_t{32} << 20;
    const auto bytes = static_cast<size_t>((of == Operands::Floats ? 4 : 2) * n * n);
    const CUdeviceptr x = memory(2, bytes), y = memory(3, bytes), z = memory(4, bytes),
                      space = memory(5, kWorkspace);
    const auto pointer = [](CUdeviceptr at) { return reinterpret_cast<void *>(at); };
    cublasLtHandle_t handle = nullptr;
    cublasLtMatmulDesc_t product = nullptr;
    cublasLtMatrixLayout_t layout = nullptr;
    cublasLtMatmulPreference_t preference = nullptr;
    need(cublasLtCreate_(&handle));
    need(cublasLtMatmulDescCreate_(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const auto extent = static_cast<uint64_t>(n);
    need(cublasLtMatrixLayoutCreate_(&layout, of == Operands::Floats ? CUDA_R_32F : CUDA_R_16BF, extent,
                                     extent, n));
    need(cublasLtMatmulPreferenceCreate_(&preference));
    need(cublasLtMatmulPreferenceSetAttribute_(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &kWorkspace, sizeof kWorkspace));
    cublasLtMatmulHeuristicResult_t proposals[kProposals];
    int count = 0;
    need(cublasLtMatmulAlgoGetHeuristic_(handle, product, layout, layout, layout, layout, preference,
                                         kProposals, proposals, &count));
    const float one = 1, zero = 0;
    double best = 0;
    for (int i = 0; i < count; ++i) {
        const double seconds = time([&](CUstream stream) {
            need(cublasLtMatmul_(handle, product, &one, pointer(x), layout, pointer(y), layout, &zero,
                                 pointer(z), layout, pointer(z), layout, &proposals[i].algo, pointer(space),
                                 kWorkspace, stream));
        });
        best = best == 0 ? seconds : std::min(best, seconds);
    }
    cublasLtMatmulPreferenceDestroy_(preference);
    cublasLtMatrixLayoutDestroy_(layout);
    cublasLtMatmulDescDestroy_(product);
    cublasLtDestroy_(handle);
    return best;
}

} // namespace lz::bench
