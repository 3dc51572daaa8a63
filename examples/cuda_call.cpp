// An operation of one's own, on every device: a function for the CPU, and a kernel as text for GPUs. It runs
// on a machine without a GPU too (docs/cuda-without-a-gpu.md).
//
//   cuda_call [device]     on the CPU, or, for instance, on cuda:0
#include <lazuli/lazuli.h>

#include <iostream>

namespace {

// Steps until z * z + c leaves the disk of radius 2.
constexpr const char *kSource = R"(
extern "C" __global__ void escape_steps(const float *re, const float *im, int *steps, long long count) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float x = 0, y = 0;
    int n = 0;
    for (; n < 30 && x * x + y * y <= 4; ++n) {
        const float next = x * x - y * y + re[i];
        y = 2 * x * y + im[i];
        x = next;
    }
    steps[i] = n;
}
)";

void register_escape_steps() {
    lz::register_call(
        "example.escape_steps",
        [](std::span<const lz::CallType> in) {
            if (in.size() != 2 || in[0].dtype != lz::f32 || in[0].shape != in[1].shape)
                throw lz::ShapeError("it takes two f32 tensors of one shape", {});
            return std::vector<lz::CallType>{{lz::i32, in[0].shape}};
        },
        [](std::span<const lz::CallInput> in, std::span<const lz::CallOutput> out) {
            const auto re = in[0].values<float>(), im = in[1].values<float>();
            const auto steps = out[0].values<int32_t>();
            for (size_t i = 0; i < steps.size(); ++i) {
                float x = 0, y = 0;
                int32_t &n = steps[i] = 0;
                for (; n < 30 && x * x + y * y <= 4; ++n) {
                    const float next = x * x - y * y + re[i];
                    y = 2 * x * y + im[i];
                    x = next;
                }
            }
        });
    lz::register_cuda_call(
        "example.escape_steps",
        lz::CudaKernel{.source = kSource,
                       .entry = "escape_steps",
                       .launch = [](std::span<const lz::CallInput> in, std::span<const lz::CallOutput>) {
                           const int64_t count = in[0].numel;
                           return lz::CudaLaunch{.blocks = {static_cast<unsigned>((count + 127) / 128)},
                                                 .threads = {128},
                                                 .arguments = {count}};
                       }});
}

} // namespace

int main(int argc, char **argv) {
    const lz::Device device = argc > 1 ? lz::Device(argv[1]) : lz::Device();
    register_escape_steps();

    const int64_t rows = 11, columns = 40;
    const lz::Tensor x = lz::arange(0, columns, 1, {.dtype = lz::f32, .device = device}) * 0.0625 - 2.0;
    const lz::Tensor y = lz::arange(0, rows, 1, {.dtype = lz::f32, .device = device}) * 0.25 - 1.25;
    const lz::Tensor re = x.reshape({1, columns}).expand({rows, columns});
    const lz::Tensor im = y.reshape({rows, 1}).expand({rows, columns});
    // Recorded like any operation; what it reads is computed by a kernel before it, and what reads it after.
    const lz::Tensor steps = lz::call("example.escape_steps", {re, im})[0];
    const std::vector<int64_t> level = ((steps + 4) / 5).to(lz::i64).to_vector<int64_t>();
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column)
            std::cout << " .:-=+#"[level[static_cast<size_t>(row * columns + column)]];
        std::cout << '\n';
    }
    std::cout << steps.to(lz::i64).sum().item<int64_t>() << " steps\n";
}
