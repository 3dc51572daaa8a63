// What the user registers for CUDA devices, on the driver without a GPU (faults_test.cpp sets it up).
#include "tests/support/cuda/nvrtc.h"

#include <lazuli/lazuli.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace lz;
using testing::HasSubstr;

const Device kGpu = Device::cuda(0);

std::vector<CallType> like_the_first(std::span<const CallType> in) {
    return {in[0]};
}

CudaLaunch a_thread_each(std::span<const CallInput> in, std::span<const CallOutput>) {
    return {.blocks = {static_cast<unsigned>((in[0].numel + 63) / 64)},
            .threads = {64},
            .arguments = {in[0].numel}};
}

constexpr const char *kTwice = R"(
extern "C" __global__ void twice(const float *x, float *y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 2 * x[i];
}
)";

class CudaCalls : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string &why = test::why_no_nvrtc(); !why.empty())
            GTEST_SKIP() << why;
    }
    /// The message of the error that `f` throws, which is an E of the line `line`.
    template <class E, class F>
    static std::string error_of(F &&f, uint32_t line = 0) {
        try {
            f();
        } catch (const E &error) {
            if (line != 0) {
                EXPECT_EQ(error.line(), line) << error.what();
            }
            return error.what();
        } catch (const std::exception &error) {
            ADD_FAILURE() << "another error: " << error.what();
            return "";
        }
        ADD_FAILURE() << "nothing was thrown";
        return "";
    }
};

/// Between kernels, in their order, with views that are dense when it sees them.
TEST_F(CudaCalls, AKernelGivenAsSourceIsAnOperation) {
    register_cuda_call("cuda_calls.twice", like_the_first,
                       CudaKernel{.source = kTwice, .entry = "twice", .launch = a_thread_each});
    const Tensor x = arange(0, 300, {.dtype = f32, .device = kGpu}).reshape({20, 15});
    const Tensor y = call("cuda_calls.twice", {x.permute({1, 0}) + 1})[0] - 3;
    EXPECT_EQ(y.device(), kGpu);
    const std::vector<float> values = y.cpu().to_vector<float>();
    ASSERT_EQ(values.size(), 300u);
    for (size_t i = 0; i < 300; ++i)
        EXPECT_EQ(values[i], 2 * static_cast<float>(i % 20 * 15 + i / 20 + 1) - 3) << i;
    EXPECT_EQ(call("cuda_calls.twice", {zeros({0}, {.device = kGpu})})[0].numel(), 0);
    EXPECT_THAT(registered_calls(), testing::Contains("cuda_calls.twice"));
    EXPECT_THAT(
        error_of<StateError>([&] { (void)call("cuda_calls.twice", {ones({3})})[0].to_vector<float>(); }),
        HasSubstr("`cuda_calls.twice` is registered for CUDA devices only"));
}

/// Two axes of blocks and of threads, shared memory that the launch sizes, and two results.
TEST_F(CudaCalls, AKernelMayHaveSharedMemoryAndSeveralResults) {
    register_cuda_call(
        "cuda_calls.transpose",
        [](std::span<const CallType> in) {
            return std::vector<CallType>{{in[0].dtype, {in[0].shape[1], in[0].shape[0]}}, {i32, {1}}};
        },
        CudaKernel{.source = R"(
extern "C" __global__ void transpose(const int *x, int *y, int *blocks, long long rows, long long columns) {
    extern __shared__ int tile[];
    const int i = threadIdx.x, j = threadIdx.y;
    const long long row = 16 * blockIdx.y, column = 16 * blockIdx.x;
    if (row + j < rows && column + i < columns)
        tile[j * 2048 + i] = x[(row + j) * columns + column + i];
    __syncthreads();
    if (column + j < columns && row + i < rows)
        y[(column + j) * rows + row + i] = tile[i * 2048 + j];
    if (blockIdx.x + blockIdx.y + i + j == 0)
        *blocks = gridDim.x * gridDim.y;
}
)",
                   .entry = "transpose",
                   .launch =
                       [](std::span<const CallInput> in, std::span<const CallOutput>) {
                           const int64_t rows = in[0].shape[0], columns = in[0].shape[1];
                           return CudaLaunch{.blocks = {static_cast<unsigned>((columns + 15) / 16),
                                                        static_cast<unsigned>((rows + 15) / 16)},
                                             .threads = {16, 16},
                                             .arguments = {rows, columns}};
                       },
                   .shared_bytes = 16 * 2048 * 4});
    const Tensor x = arange(0, 20 * 37, {.dtype = i32, .device = kGpu}).reshape({20, 37});
    const std::vector<Tensor> both = call("cuda_calls.transpose", {x});
    EXPECT_EQ(both[0].cpu().to_vector<int32_t>(), x.cpu().permute({1, 0}).to_vector<int32_t>());
    EXPECT_EQ(both[1].item<int32_t>(), 6);
}

/// It puts a copy by the driver on the stream, behind what computes its operand.
TEST_F(CudaCalls, AFunctionGetsAddressesAndTheStream) {
    static int device = -1;
    register_cuda_call(
        "cuda_calls.copy", like_the_first,
        [](std::span<const CallInput> in, std::span<const CallOutput> out, const CudaCallStream &on) {
            const char *const library = std::getenv("LAZULI_CUDA_DRIVER");
            static void *const driver = ::dlopen(library ? library : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
            const auto copy = reinterpret_cast<int (*)(uint64_t, uint64_t, size_t, void *)>(
                ::dlsym(driver, "cuMemcpyDtoDAsync_v2"));
            device = on.device;
            if (copy(reinterpret_cast<uint64_t>(out[0].data), reinterpret_cast<uint64_t>(in[0].data),
                     static_cast<size_t>(in[0].numel) * 4, on.stream) != 0)
                throw std::runtime_error("the copy failed");
        });
    const int last = std::min(cuda::device_count() - 1, 2);
    const Tensor x = arange(0, 1000, {.dtype = f32, .device = Device::cuda(last)});
    const std::vector<float> y = (call("cuda_calls.copy", {x * 3})[0] + 1).cpu().to_vector<float>();
    EXPECT_EQ(device, last);
    for (size_t i = 0; i < y.size(); ++i)
        ASSERT_EQ(y[i], 3 * static_cast<float>(i) + 1);
}

/// The function of the host stays for the CPU.
TEST_F(CudaCalls, ACallMayHaveBoth) {
    register_call("cuda_calls.both", like_the_first,
                  [](std::span<const CallInput> in, std::span<const CallOutput> out) {
                      for (size_t i = 0; i < out[0].values<float>().size(); ++i)
                          out[0].values<float>()[i] = in[0].values<float>()[i] * 10;
                  });
    register_cuda_call("cuda_calls.both",
                       CudaKernel{.source = kTwice, .entry = "twice", .launch = a_thread_each});
    const Tensor x = arange(0, 5, {.dtype = f32});
    EXPECT_EQ(call("cuda_calls.both", {x})[0].to_vector<float>(), (std::vector<float>{0, 10, 20, 30, 40}));
    EXPECT_EQ(call("cuda_calls.both", {x.to(kGpu)})[0].cpu().to_vector<float>(),
              (std::vector<float>{0, 2, 4, 6, 8}));
}

TEST_F(CudaCalls, WhatItThrowsIsTheErrorOfItsLine) {
    static bool throws = true;
    register_cuda_call("cuda_calls.throws", like_the_first,
                       [](std::span<const CallInput>, std::span<const CallOutput>, const CudaCallStream &) {
                           if (throws)
                               throw std::domain_error("not today");
                       });
    register_cuda_call("cuda_calls.no_launch", like_the_first,
                       CudaKernel{.source = kTwice, .entry = "twice", .launch = [](auto, auto) -> CudaLaunch {
                                      throw std::domain_error("no grid");
                                  }});
    const Tensor x = ones({4}, {.device = kGpu});
    const uint32_t line = __LINE__ + 1;
    const Tensor y = call("cuda_calls.throws", {x})[0], after = y + 1, fine = x + 1;
    for (int again = 0; again < 2; ++again)
        EXPECT_THAT(
            error_of<StateError>([&] { (void)after.cpu().to_vector<float>(); }, line),
            HasSubstr("cuda_calls.throws: the registered function threw: not today, at calls_test.cpp"));
    EXPECT_EQ(fine.cpu().to_vector<float>(), std::vector<float>(4, 2));
    EXPECT_THAT(
        error_of<StateError>([&] { (void)call("cuda_calls.no_launch", {x})[0].cpu().to_vector<float>(); }),
        HasSubstr("cuda_calls.no_launch: the registered function threw: no grid"));
    throws = false;
    (void)call("cuda_calls.throws", {x})[0].cpu().to_vector<float>();
}

TEST_F(CudaCalls, ASourceThatDoesNotFitIsACompileErrorOfItsLine) {
    const Tensor x = ones({4}, {.device = kGpu});
    const auto says = [&](const char *name, CudaKernel kernel, const char *what) {
        register_cuda_call(name, like_the_first, std::move(kernel));
        const uint32_t line = __LINE__ + 1;
        const Tensor y = call(name, {x})[0];
        EXPECT_THAT(error_of<CompileError>([&] { (void)y.cpu().to_vector<float>(); }, line), HasSubstr(what));
    };
    says("cuda_calls.syntax",
         {.source = "extern \"C\" __global__ void wrong(float *x, float *y, int n) { y = nothing; }",
          .entry = "wrong",
          .launch = a_thread_each},
         "identifier \"nothing\" is undefined");
    says("cuda_calls.entry", {.source = kTwice, .entry = "thrice", .launch = a_thread_each},
         "identifier \"thrice\" is undefined");
    says("cuda_calls.parameters",
         {.source = kTwice,
          .entry = "twice",
          .launch = [](std::span<const CallInput>,
                       std::span<const CallOutput>) { return CudaLaunch{.arguments = {1, 2}}; }},
         "`twice` is launched with 4 parameters: 2 addresses and 2 integers");
    EXPECT_EQ((x + 1).cpu().to_vector<float>(), std::vector<float>(4, 2));
}

TEST_F(CudaCalls, ALaunchThatTheDeviceRefusesIsACudaError) {
    register_cuda_call("cuda_calls.too_many", like_the_first,
                       CudaKernel{.source = kTwice,
                                  .entry = "twice",
                                  .launch = [](std::span<const CallInput> in, std::span<const CallOutput>) {
                                      return CudaLaunch{.threads = {4096}, .arguments = {in[0].numel}};
                                  }});
    const Tensor x = ones({4}, {.device = kGpu});
    EXPECT_THAT(
        error_of<CudaError>([&] { (void)call("cuda_calls.too_many", {x})[0].cpu().to_vector<float>(); }),
        HasSubstr("a launch of `twice` failed"));
    EXPECT_EQ((x + 1).cpu().to_vector<float>(), std::vector<float>(4, 2));
}

TEST_F(CudaCalls, MistakesAreThrownWhereItIsRegistered) {
    const CudaKernel good{.source = kTwice, .entry = "twice", .launch = a_thread_each};
    const auto nothing = [](std::span<const CallInput>, std::span<const CallOutput>, const CudaCallStream &) {
    };
    register_cuda_call("cuda_calls.taken", like_the_first, good);
    EXPECT_THAT(
        error_of<StateError>([&] { register_cuda_call("cuda_calls.taken", like_the_first, nothing); }),
        HasSubstr("`cuda_calls.taken` is registered already"));
    EXPECT_THAT(error_of<StateError>([&] {
                    register_call("cuda_calls.taken", like_the_first,
                                  [](std::span<const CallInput>, std::span<const CallOutput>) {});
                }),
                HasSubstr("`cuda_calls.taken` is registered already"));
    EXPECT_THAT(error_of<StateError>([&] { register_cuda_call("cuda_calls.unknown", good); }),
                HasSubstr("No call is registered as `cuda_calls.unknown`"));
    EXPECT_THAT(error_of<StateError>([&] { register_cuda_call("", like_the_first, good); }),
                HasSubstr("empty"));
    EXPECT_THAT(error_of<StateError>([&] { register_cuda_call("cuda_calls.types", CallTypes(), good); }),
                HasSubstr("needs a function for its types"));
    CudaKernel none = good;
    none.entry = "";
    EXPECT_THAT(error_of<StateError>([&] { register_cuda_call("cuda_calls.none", like_the_first, none); }),
                HasSubstr("without a function, and without a kernel"));
    EXPECT_THAT(error_of<StateError>(
                    [&] { register_cuda_call("cuda_calls.none", like_the_first, CudaCallFunction()); }),
                HasSubstr("without a function, and without a kernel"));
}

} // namespace
