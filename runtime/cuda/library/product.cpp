#include "runtime/cuda/library/product.h"

#include "runtime/cuda/library/elements.h"
#include "runtime/cuda/library/matmul.h"

#include <fmt/format.h>

namespace lz::runtime::cuda {

namespace {

constexpr unsigned kThreads = 256;

/// As the kernel has it.
struct Shape {
    int64_t m, n, k, lhs_m, lhs_k, rhs_k, rhs_n, batches, lhs_batch, rhs_batch;
};

/// Before it: Element and what goes with it, kBias, kRelu and kGelu. The gelu is that by tanh,
/// x / (1 + e^(-2 u)); e^x is 2^k times the series of what is left, at most ln(2) / 2.
constexpr std::string_view kSource = R"(
struct Shape {
    long long m, n, k, lhs_m, lhs_k, rhs_k, rhs_n, batches, lhs_batch, rhs_batch;
};

__device__ __forceinline__ float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return __fma_rn(a, b, c); }

__device__ double exponential(double x) {
    x = x < -700 ? -700 : x > 700 ? 700 : x;
    const int k = (int)(x * 1.4426950408889634 + (x < 0 ? -0.5 : 0.5));
    const double r = x - k * 6.93147180369123816490e-01 - k * 1.90821492927058770002e-10;
    double sum = 1;
    for (int i = 13; i > 0; --i)
        sum = sum * r / i + 1;
    return sum * __longlong_as_double((long long)(k + 1023) << 52);
}

__device__ double gelu(double x) {
    return x / (1 + exponential(-2 * 0.79788456080286536 * (x + 0.044715 * x * x * x)));
}

extern "C" __global__ void product(const Element *lhs, const Element *rhs, const Element *bias, Element *out, Shape s) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < s.batches * s.m * s.n; at += step) {
        const long long j = at % s.n, i = at / s.n % s.m, b = at / s.n / s.m;
        const Element *const x = lhs + b * s.lhs_batch + i * s.lhs_m, *const y = rhs + b * s.rhs_batch + j * s.rhs_n;
        Running sum = 0;
        for (long long d = 0; d < s.k; ++d)
            sum = fused(widen(x[d * s.lhs_k]), widen(y[d * s.rhs_k]), sum);
        if (kBias)
            sum += widen(bias[j]);
        if (kRelu)
            sum = sum < 0 ? 0 : sum;
        if (kGelu)
            sum = (Running)gelu(sum);
        out[at] = narrow<Element>(sum);
    }
}
)";

std::string name_of(ir::DType dtype, int64_t epilogue) {
    const auto has = [&](int64_t bit) { return (epilogue & bit) != 0; };
    return fmt::format("products of {}{}{}{}", ir::name(dtype), has(kProductBias) ? ", bias" : "",
                       has(kProductRelu) ? ", relu" : "", has(kProductGelu) ? ", gelu" : "");
}

} // namespace

KernelSource product_source(ir::DType dtype, int64_t epilogue) {
    const auto has = [&](int64_t bit) { return (epilogue & bit) != 0; };
    return {name_of(dtype, epilogue),
            element_source(dtype) +
                fmt::format("const bool kBias = {}, kRelu = {}, kGelu = {};\n", has(kProductBias),
                            has(kProductRelu), has(kProductGelu)) +
                std::string(kSource),
            {"product"},
            true};
}

void put_product(const LibraryKernels &kernels, const Product &p, void *stream) {
    const Module &code =
        kernels.find(name_of(p.dtype, p.epilogue), [&] { return product_source(p.dtype, p.epilogue); });
    const KernelLauncher launch(kernels, code, stream);
    const Shape shape{p.m, p.n, p.k, p.lhs_m, p.lhs_k, p.rhs_k, p.rhs_n, p.batches, p.lhs_batch, p.rhs_batch};
    launch("product", (p.batches * p.m * p.n + kThreads - 1) / kThreads, kThreads, p.lhs, p.rhs, p.bias,
           p.out, shape);
}

} // namespace lz::runtime::cuda
