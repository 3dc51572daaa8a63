// The engine's devices on the fake driver: which there are, and what is said where something is missing.

#include "driver/driver.h"

#include "codegen/cuda/nvrtc.h"
#include "frontend/engine/devices.h"

#include <lazuli/lazuli.h>

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace lz::test {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

engine::Options no_virtual_gpus() {
    engine::Options options;
    options.virtual_gpus = 0;
    return options;
}

constexpr ir::Device kCpu{}, kFirst{ir::DeviceKind::Cuda, 0}, kSecond{ir::DeviceKind::Cuda, 1};

TEST(CudaDevices, GpusOfOneArchitectureShareTheirCompiler) {
    if (!why_no_nvrtc().empty())
        GTEST_SKIP() << why_no_nvrtc();
    driver_library();
    const EnvironmentVariables environment{{"LAZULI_CUDA_DRIVER", LAZULI_FAKE_CUDA},
                                           {"LAZULI_CUBLASLT", LAZULI_FAKE_CUBLASLT}};
    const engine::Devices devices(no_virtual_gpus());
    ASSERT_EQ(devices.gpus(), 2u) << devices.why_no_gpu();
    EXPECT_EQ(devices.cuda_compiler(kCpu), nullptr);
    EXPECT_NE(devices.cuda_compiler(kFirst), nullptr);
    EXPECT_EQ(devices.cuda_compiler(kFirst), devices.cuda_compiler(kSecond));
    EXPECT_EQ(devices.cuda_compiler(kFirst)->endings().text, "cu");
    EXPECT_EQ(devices.cuda_compiler(kFirst)->endings().assembly, "ptx");
}

TEST(CudaDevices, TheCpuGoesOnWhereNvrtcIsDamaged) {
    driver_library();
    const EnvironmentVariables environment{{"LAZULI_CUDA_DRIVER", LAZULI_FAKE_CUDA},
                                           {"LAZULI_CUBLASLT", LAZULI_FAKE_CUBLASLT},
                                           {"LAZULI_NVRTC", LAZULI_NVRTC_WITHOUT_COMPILER}};
    const engine::Devices devices(no_virtual_gpus());
    EXPECT_EQ(devices.gpus(), 0u);
    EXPECT_EQ(devices.infos().size(), 1u);
    EXPECT_EQ(devices.cuda_compiler(kFirst), nullptr);
    EXPECT_THAT(devices.cuda_availability(), HasSubstr("has no function nvrtcGetNumSupportedArchs."));
    EXPECT_THAT(devices.why_no_gpu(), HasSubstr(devices.cuda_availability()));
    EXPECT_THAT(devices.why_no_gpu(), HasSubstr("LAZULI_VIRTUAL_GPUS=2"));
}

// --- what is missing, in processes of their own: programs of the public API

/// What availability() says; on the way a product on cuda:0, if it is there, and on the CPU in any case.
std::string availability_beside_a_product() {
    const std::vector<float> right{19, 22, 43, 50};
    const auto product = [](const Device &device) {
        return matmul(tensor({{1.0f, 2.0f}, {3.0f, 4.0f}}, {.device = device}),
                      tensor({{5.0f, 6.0f}, {7.0f, 8.0f}}, {.device = device}))
            .flatten()
            .to_vector<float>();
    };
    if (cuda::is_available()) {
        EXPECT_EQ(product("cuda:0"), right);
    } else {
        try {
            product("cuda:0");
            ADD_FAILURE() << "a device that is not there computed something";
        } catch (const DeviceError &error) {
            EXPECT_THAT(error.what(), HasSubstr(cuda::availability()));
        }
    }
    EXPECT_EQ(product(Device::cpu()), right);
    return cuda::availability();
}

/// Of the NVRTC that is here, and one that it does not go with.
int nvrtc_major() {
    int major = 0, minor = 0;
    codegen::load_nvrtc(nvrtc_library()).version(&major, &minor);
    return major;
}
int another_major() {
    return nvrtc_major() == 12 ? 13 : 12;
}

TEST_F(CudaChild, DISABLED_ProductsAreByCublasLt) {
    const std::string made = ". Products are made by cuBLASLt " + std::to_string(nvrtc_major()) + ".";
    EXPECT_THAT(availability_beside_a_product(),
                AllOf(StartsWith("CUDA is available: driver "), HasSubstr(made),
                      HasSubstr("(" LAZULI_FAKE_CUBLASLT ").")));
}

TEST_F(CudaChild, DISABLED_ThereIsNoCublasLt) {
    EXPECT_THAT(availability_beside_a_product(),
                AllOf(StartsWith("CUDA is available: driver "),
                      HasSubstr(". Products are made by kernels of Lazuli's, which are slower than cuBLASLt. "
                                "LAZULI_CUBLASLT is set: /nowhere.so cannot be opened: ")));
}

TEST_F(CudaChild, DISABLED_CublasLtIsOfAnotherMajorVersion) {
    EXPECT_THAT(
        availability_beside_a_product(),
        AllOf(StartsWith("CUDA is available: driver "),
              HasSubstr(". Products are made by kernels of Lazuli's, which are slower than cuBLASLt. "
                        "LAZULI_CUBLASLT is set: The cuBLASLt at " LAZULI_FAKE_CUBLASLT " is of CUDA " +
                        std::to_string(another_major()) + " and "),
              HasSubstr("they have to be of one major version.")));
}

TEST_F(CudaChild, DISABLED_TheDriverIsOlderThanNvrtc) {
    EXPECT_THAT(availability_beside_a_product(), AllOf(StartsWith("LAZULI_NVRTC is set: The NVRTC at "),
                                                       EndsWith("newer than the driver, which is of 12.8.")));
}

TEST_F(CudaChild, DISABLED_AllDevicesAreHidden) {
    EXPECT_THAT(availability_beside_a_product(),
                EndsWith("CUDA_VISIBLE_DEVICES is \"7\", which hides all others."));
}

TEST_F(CudaChild, DISABLED_AllDevicesAreTooOld) {
    EXPECT_EQ(availability_beside_a_product(),
              "The driver's device 1 has compute capability 7.5; 8.0 is the oldest that Lazuli uses.");
}

TEST_F(CudaChild, DISABLED_TheSecondDeviceIsCuda0) {
    EXPECT_THAT(availability_beside_a_product(), StartsWith("CUDA is available: driver "));
    EXPECT_EQ(cuda::device_count(), 1);
    EXPECT_EQ(cuda::get_device_properties(0).major, 99);
}

/// A program of several kernels, whose code is in the cache from the second process on.
TEST_F(CudaChild, DISABLED_KernelsAreLoaded) {
    const Tensor x = arange(0, 4, {.device = "cuda:0"}).to(f32);
    const Tensor sum = (x * 2 + 1).sum(), rows = softmax(x.view({2, 2}), 1);
    EXPECT_EQ(sum.item<float>(), 16);
    EXPECT_NEAR(rows.sum().item<float>(), 2, 1e-6);
    const bool cached = std::getenv("LAZULI_TEST_CACHED"), fails = std::getenv("LAZULI_FAKE_CUDA_FAIL");
    if (!fails) {
        EXPECT_EQ(compile_stats().kernels_compiled == 0, cached);
    }
    if (cached && !fails) {
        EXPECT_GT(compile_stats().kernels_from_disk, 0);
    }
}

/// The library has the approximation by tanh, which is at most 0.0005 beside gelu's own.
TEST_F(CudaChild, DISABLED_TheLibraryComputesGelu) {
    const int64_t m = 9, n = 6, k = 5;
    for (const DType dtype : {DType::F32, DType::BF16}) {
        const auto numbers = [&](int64_t count, int64_t seed) {
            return (remainder(arange(count) * 37 + seed, 7) - 3).to(dtype);
        };
        const Tensor x = numbers(m * k, 1).view({m, k}), w = numbers(n * k, 2).view({n, k}),
                     b = numbers(n, 3);
        const Tensor exact = linear(x.to(f64), w.to(f64), b.to(f64)).eval();
        const Tensor x1 = x.cuda(), w1 = w.cuda(), b1 = b.cuda();
        sync();
        cuda::synchronize();
        reset_compile_stats();
        const Tensor there = gelu(linear(x1, w1, b1)).eval();
        EXPECT_EQ(compile_stats().kernel_launches, 1) << dtype;
        const std::vector<double> before = exact.flatten().to_vector<double>(),
                                  after = there.cpu().to(f64).flatten().to_vector<double>();
        for (size_t i = 0; i < before.size(); ++i) {
            const double right = before[i] / 2 * (1 + std::erf(before[i] / std::sqrt(2)));
            EXPECT_NEAR(after[i], right, 0.001 + (dtype == DType::BF16 ? std::abs(right) / 256 : 0)) << dtype;
        }
    }
}

TEST_F(CudaChild, DISABLED_VirtualGpusStandIn) {
    EXPECT_EQ(availability_beside_a_product(), "");
    EXPECT_EQ(cuda::device_count(), 3);
    EXPECT_TRUE(cuda::get_device_properties("cuda:2").is_virtual);
    EXPECT_EQ(FAKE(lazuli_fake_cuda_calls)("*"), 0u);
}

using Settings = std::initializer_list<std::pair<const char *, const char *>>;

/// Runs a test of CudaChild on the fake driver.
bool run_on_fake_driver(const char *test, Settings more) {
    driver_library(); // two devices
    const EnvironmentVariables environment{{"LAZULI_CUDA_DRIVER", LAZULI_FAKE_CUDA},
                                           {"LAZULI_CUBLASLT", LAZULI_FAKE_CUBLASLT},
                                           {"LAZULI_VIRTUAL_GPUS", ""}};
    return run_child(test, more);
}

TEST(CudaDevices, WhatMakesProductsIsSaid) {
    if (!why_no_nvrtc().empty())
        GTEST_SKIP() << why_no_nvrtc();
    const std::string same = std::to_string(nvrtc_major()) + "0100",
                      another = std::to_string(another_major()) + "0402";
    EXPECT_TRUE(
        run_on_fake_driver("ProductsAreByCublasLt", {{"LAZULI_FAKE_CUBLASLT_VERSION", same.c_str()}}));
    EXPECT_TRUE(run_on_fake_driver("ThereIsNoCublasLt", {{"LAZULI_CUBLASLT", "/nowhere.so"}}));
    EXPECT_TRUE(run_on_fake_driver("CublasLtIsOfAnotherMajorVersion",
                                   {{"LAZULI_FAKE_CUBLASLT_VERSION", another.c_str()}}));
}

TEST(CudaDevices, UnderFastMathTheLibraryComputesGelu) {
    if (!why_no_nvrtc().empty())
        GTEST_SKIP() << why_no_nvrtc();
    EXPECT_TRUE(run_on_fake_driver("TheLibraryComputesGelu", {{"LAZULI_FAST_MATH", "1"}}));
}

TEST(CudaDevices, WhyThereIsNoGpuIsSaidAndTheCpuGoesOn) {
    EXPECT_TRUE(
        run_on_fake_driver("TheDriverIsOlderThanNvrtc", {{"LAZULI_NVRTC", LAZULI_NVRTC_WITHOUT_COMPILER},
                                                         {"LAZULI_FAKE_CUDA_VERSION", "12080"}}));
    EXPECT_TRUE(run_on_fake_driver("AllDevicesAreHidden", {{"CUDA_VISIBLE_DEVICES", "7"}}));
}

TEST(CudaDevices, ThoseThatAreTooOldAreLeftOut) {
    if (!why_no_nvrtc().empty())
        GTEST_SKIP() << why_no_nvrtc();
    EXPECT_TRUE(run_on_fake_driver("AllDevicesAreTooOld", {{"LAZULI_FAKE_CUDA_CAPABILITY", "7.5"}}));
    EXPECT_TRUE(run_on_fake_driver("TheSecondDeviceIsCuda0", {{"LAZULI_FAKE_CUDA_CAPABILITY", "7.5,99.0"}}));
}

/// Code that is kept between processes and that the driver does not take is compiled again, without a word.
TEST(CudaDevices, CodeOfTheCacheThatTheDriverRefusesIsMadeAgain) {
    if (!why_no_nvrtc().empty())
        GTEST_SKIP() << why_no_nvrtc();
    const auto cache =
        std::filesystem::temp_directory_path() / ("lazuli-refused-" + std::to_string(getpid()));
    const std::string folder = cache.string();
    EXPECT_TRUE(run_on_fake_driver("KernelsAreLoaded", {{"LAZULI_CACHE_DIR", folder.c_str()}}));
    // CUDA_ERROR_NO_BINARY_FOR_GPU, as for a damaged cubin.
    EXPECT_TRUE(
        run_on_fake_driver("KernelsAreLoaded", {{"LAZULI_CACHE_DIR", folder.c_str()},
                                                {"LAZULI_TEST_CACHED", "1"},
                                                {"LAZULI_FAKE_CUDA_FAIL", "cuLibraryLoadData:1:209"}}));
    EXPECT_TRUE(run_on_fake_driver("KernelsAreLoaded",
                                   {{"LAZULI_CACHE_DIR", folder.c_str()}, {"LAZULI_TEST_CACHED", "1"}}));
    std::filesystem::remove_all(cache);
}

TEST(CudaDevices, VirtualGpusWinOverThoseOfADriver) {
    EXPECT_TRUE(run_on_fake_driver("VirtualGpusStandIn", {{"LAZULI_VIRTUAL_GPUS", "3"}}));
}

} // namespace
} // namespace lz::test
