#pragma once
/// The fake driver as a user of CUDA sees it: opened by its path, called by the names of cuda.h.

#include "tests/support/cuda/driver/fake_cuda.h"
#include "tests/support/cuda/nvrtc.h"

#include <cuda.h>
#include <cudaProfiler.h>
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lz::test {

/// Sets variables of the environment while it lives.
class EnvironmentVariables {
public:
    EnvironmentVariables(std::initializer_list<std::pair<const char *, std::string>> variables);
    ~EnvironmentVariables();
    EnvironmentVariables(const EnvironmentVariables &) = delete;
    EnvironmentVariables &operator=(const EnvironmentVariables &) = delete;

private:
    std::vector<std::pair<const char *, std::optional<std::string>>> before_;
};

/// Opens the driver once, with two devices of 512 MiB that reach each other.
void *driver_library();

template <class F>
F driver_function(const char *name) {
    return reinterpret_cast<F>(dlsym(driver_library(), name));
}

#define CU_TEXT(name) #name
#define CU_EXPANDED(name) CU_TEXT(name)
/// A function of cuda.h: CU(cuMemAlloc)(&address, bytes) calls what the macros of cuda.h make of the name.
#define CU(name)                                                                                             \
    ([] {                                                                                                    \
        static const auto function = ::lz::test::driver_function<decltype(&::name)>(CU_EXPANDED(name));      \
        return function;                                                                                     \
    }())
/// The same for the functions of fake_cuda.h.
#define FAKE(name) CU(name)
/// Succeeds, or the test ends.
#define CU_OK(name, ...) ASSERT_EQ(CU(name)(__VA_ARGS__), CUDA_SUCCESS) << #name

/// Primary contexts of two devices, retained and the first one current; all is given back and checked to be
/// gone at the end.
class CudaDriver : public testing::Test {
protected:
    void SetUp() override;
    void TearDown() override;

    CUstream make_stream(unsigned flags = CU_STREAM_NON_BLOCKING);
    CUevent make_event(unsigned flags = CU_EVENT_DEFAULT);
    CUdeviceptr allocate(size_t bytes);
    /// `count` words of page-locked memory, 0 at first.
    uint32_t *pinned(size_t count);
    /// Of PTX; unloaded at the end.
    CUfunction load(const std::string &ptx, const char *kernel);
    template <class T>
    CUdeviceptr upload(const std::vector<T> &values) {
        const CUdeviceptr to = allocate(values.size() * sizeof(T));
        EXPECT_EQ(CU(cuMemcpyHtoD)(to, values.data(), values.size() * sizeof(T)), CUDA_SUCCESS);
        EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_SUCCESS); // for streams that do not wait for the null stream
        return to;
    }
    template <class T>
    std::vector<T> download(CUdeviceptr from, size_t count) {
        std::vector<T> values(count);
        EXPECT_EQ(CU(cuMemcpyDtoH)(values.data(), from, count * sizeof(T)), CUDA_SUCCESS);
        return values;
    }
    template <class... A>
    static CUresult launch(CUfunction f, unsigned grid, unsigned block, CUstream stream, A... arguments) {
        void *parameters[] = {&arguments..., nullptr};
        return CU(cuLaunchKernel)(f, grid, 1, 1, block, 1, 1, 0, stream, parameters, nullptr);
    }
    static std::string last_message();

    CUcontext context_[2]{};
    std::vector<CUstream> streams_;
    std::vector<CUevent> events_;
    std::vector<CUdeviceptr> memory_;
    std::vector<void *> pinned_;
    std::vector<CUmodule> modules_;
};

/// One that needs kernels.
class CudaKernels : public CudaDriver {
protected:
    void SetUp() override {
        if (!why_no_nvrtc().empty())
            GTEST_SKIP() << why_no_nvrtc();
        CudaDriver::SetUp();
    }
    void TearDown() override {
        if (context_[0])
            CudaDriver::TearDown();
    }
};

constexpr int kChildPassed = 42;

/// Runs CudaChild.DISABLED_<test> in a process of its own, with other settings; whether it passed.
bool run_child(const char *test, std::initializer_list<std::pair<const char *, const char *>> environment);

/// Tests that other tests run in a child, where they end the process.
class CudaChild : public testing::Test {
protected:
    void TearDown() override;
};

} // namespace lz::test
