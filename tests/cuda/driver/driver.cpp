#include "driver/driver.h"

#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

namespace lz::test {

EnvironmentVariables::EnvironmentVariables(
    std::initializer_list<std::pair<const char *, std::string>> variables) {
    for (const auto &[name, value] : variables) {
        const char *const before = std::getenv(name);
        before_.push_back({name, before ? std::optional<std::string>(before) : std::nullopt});
        setenv(name, value.c_str(), 1);
    }
}

EnvironmentVariables::~EnvironmentVariables() {
    for (const auto &[name, value] : before_)
        value ? setenv(name, value->c_str(), 1) : unsetenv(name);
}

void *driver_library() {
    static void *const library = [] {
        const auto otherwise = [](const char *name, const char *value) { setenv(name, value, 0); };
        otherwise("LAZULI_FAKE_CUDA_DEVICES", "2");
        otherwise("LAZULI_FAKE_CUDA_MEMORY", "512M");
        otherwise("LAZULI_FAKE_CUDA_THREADS", "4"); // whatever the machine has
        otherwise("LAZULI_FAKE_CUDA_DEADLOCK_MS", "1500");
        otherwise("LAZULI_FAKE_CUDA_SEED", "7");
        void *opened = dlopen(LAZULI_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
        EXPECT_TRUE(opened) << dlerror();
        return opened;
    }();
    return library;
}

void CudaDriver::SetUp() {
    CU_OK(cuInit, 0);
    for (int i = 0; i < 2; ++i)
        CU_OK(cuDevicePrimaryCtxRetain, &context_[i], i);
    CU_OK(cuCtxSetCurrent, context_[0]);
}

void CudaDriver::TearDown() {
    CU_OK(cuCtxSetCurrent, context_[0]);
    for (const CUmodule m : modules_)
        EXPECT_EQ(CU(cuModuleUnload)(m), CUDA_SUCCESS);
    for (const CUdeviceptr p : memory_)
        EXPECT_EQ(CU(cuMemFree)(p), CUDA_SUCCESS);
    for (void *p : pinned_)
        EXPECT_EQ(CU(cuMemFreeHost)(p), CUDA_SUCCESS);
    for (const CUevent e : events_)
        EXPECT_EQ(CU(cuEventDestroy)(e), CUDA_SUCCESS);
    for (const CUstream s : streams_)
        EXPECT_EQ(CU(cuStreamDestroy)(s), CUDA_SUCCESS);
    uint64_t handles = 0, bytes = 0;
    FAKE(lazuli_fake_cuda_live)(&handles, &bytes);
    EXPECT_EQ(handles, 0u);
    EXPECT_EQ(bytes, 0u);
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(CU(cuDevicePrimaryCtxRelease)(i), CUDA_SUCCESS);
}

CUstream CudaDriver::make_stream(unsigned flags) {
    CUstream s = nullptr;
    EXPECT_EQ(CU(cuStreamCreate)(&s, flags), CUDA_SUCCESS);
    return streams_.emplace_back(s);
}

CUevent CudaDriver::make_event(unsigned flags) {
    CUevent e = nullptr;
    EXPECT_EQ(CU(cuEventCreate)(&e, flags), CUDA_SUCCESS);
    return events_.emplace_back(e);
}

CUdeviceptr CudaDriver::allocate(size_t bytes) {
    CUdeviceptr p = 0;
    EXPECT_EQ(CU(cuMemAlloc)(&p, bytes), CUDA_SUCCESS);
    return memory_.emplace_back(p);
}

uint32_t *CudaDriver::pinned(size_t count) {
    void *p = nullptr;
    EXPECT_EQ(CU(cuMemHostAlloc)(&p, count * sizeof(uint32_t), CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
    std::memset(p, 0, count * sizeof(uint32_t));
    pinned_.push_back(p);
    return static_cast<uint32_t *>(p);
}

CUfunction CudaDriver::load(const std::string &ptx, const char *kernel) {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    EXPECT_EQ(CU(cuModuleLoadData)(&module, ptx.c_str()), CUDA_SUCCESS);
    if (module)
        modules_.push_back(module);
    EXPECT_EQ(CU(cuModuleGetFunction)(&function, module, kernel), CUDA_SUCCESS);
    return function;
}

std::string CudaDriver::last_message() {
    std::string text(4096, '\0');
    text.resize(std::min(FAKE(lazuli_fake_cuda_message)(text.data(), text.size()), text.size() - 1));
    return text;
}

bool run_child(const char *test, std::initializer_list<std::pair<const char *, const char *>> environment) {
    const std::string argument = std::string("--gtest_filter=CudaChild.DISABLED_") + test;
    const pid_t child = fork();
    if (child == 0) {
        for (const auto &[name, value] : environment)
            setenv(name, value, 1);
        execl("/proc/self/exe", "test_cuda", argument.c_str(), "--gtest_also_run_disabled_tests",
              "--gtest_brief=1", nullptr);
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == kChildPassed;
}

void CudaChild::TearDown() {
    _exit(HasFailure() ? 1 : kChildPassed);
}

} // namespace lz::test
