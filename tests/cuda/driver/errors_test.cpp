// What the fake driver refuses, with which error; each of its functions made to fail; and what it is like in
// other processes: without devices, older, after a fork.

#include "driver/driver.h"

#include <cstdlib>
#include <functional>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

namespace lz::test {
namespace {

TEST_F(CudaDriver, MisuseIsRefusedWithTheDocumentedError) {
    const CUstream s = make_stream();
    const CUevent event = make_event(), no_timing = make_event(CU_EVENT_DISABLE_TIMING);
    const CUdeviceptr p = allocate(1024);
    const uint64_t word = 0;
    uint32_t *const locked = pinned(4);
    CUstream gone = nullptr;
    CU_OK(cuStreamCreate, &gone, 0);
    CU_OK(cuStreamDestroy, gone);
    CUevent gone_event = nullptr;
    CU_OK(cuEventCreate, &gone_event, 0);
    CU_OK(cuEventDestroy, gone_event);
    CU_OK(cuEventRecord, event, s);
    CU_OK(cuEventSynchronize, event);
    CU_OK(cuCtxSetCurrent, context_[1]);
    const CUevent other_event = make_event();
    const CUstream other_stream = make_stream();
    CU_OK(cuEventRecord, other_event, other_stream);
    CU_OK(cuEventSynchronize, other_event);
    CU_OK(cuCtxSetCurrent, context_[0]);

    int value = 0;
    size_t size = 0;
    float ms = 0;
    CUdevice device = 0;
    CUstream stream = nullptr;
    CUevent made = nullptr;
    CUdeviceptr q = 0;
    void *host = nullptr;
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    CUgraph graph = nullptr;
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 9};
    CUmemGenericAllocationHandle memory = 0;
    const auto not_a = [](auto handle) { return reinterpret_cast<decltype(handle)>(0x1230); };

    const struct {
        const char *what;
        CUresult expected;
        std::function<CUresult()> call;
    } misuses[] = {
        {"flags of cuInit", CUDA_ERROR_INVALID_VALUE, [&] { return CU(cuInit)(1); }},
        {"a device that is not there", CUDA_ERROR_INVALID_DEVICE,
         [&] { return CU(cuDeviceGet)(&device, 2); }},
        {"a negative device", CUDA_ERROR_INVALID_DEVICE, [&] { return CU(cuDeviceTotalMem)(&size, -1); }},
        {"an attribute that is not known", CUDA_ERROR_INVALID_VALUE,
         [&] { return CU(cuDeviceGetAttribute)(&value, CU_DEVICE_ATTRIBUTE_MAX, 0); }},
        {"a null result", CUDA_ERROR_INVALID_VALUE, [&] { return CU(cuDeviceGetCount)(nullptr); }},
        {"a context that is none", CUDA_ERROR_INVALID_CONTEXT,
         [&] { return CU(cuCtxSetCurrent)(not_a(CUcontext{})); }},
        {"a device as its own peer", CUDA_ERROR_INVALID_DEVICE,
         [&] { return CU(cuCtxEnablePeerAccess)(context_[0], 0); }},
        {"flags of peer access", CUDA_ERROR_INVALID_VALUE,
         [&] { return CU(cuCtxEnablePeerAccess)(context_[1], 1); }},
        {"peer access that is not enabled", CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
         [&] { return CU(cuCtxDisablePeerAccess)(context_[1]); }},
        {"no bytes", CUDA_ERROR_INVALID_VALUE, [&] { return CU(cuMemAlloc)(&q, 0); }},
        {"too many bytes", CUDA_ERROR_OUT_OF_MEMORY, [&] { return CU(cuMemAlloc)(&q, ~size_t{0}); }},
        {"the middle of an allocation is freed", CUDA_ERROR_INVALID_VALUE,
         [&] { return CU(cuMemFree)(p + 8); }},
        {"host memory is freed", CUDA_ERROR_INVALID_VALUE,
         [&] { return CU(cuMemFree)(reinterpret_cast<CUdeviceptr>(&word)); }},
        {"device memory is freed as page-locked", CUDA_ERROR_INVALID_VALUE,
         [&] { return CU(cuMemFreeHost)(reinterpret_cast<void *>(p)); }},
        {"flags of page-locked memory", CUDA_ERROR_INVALID_VALUE,
         [&] { return CU(cuMemHostAlloc)(&host, 8, 0x80); }},
        {"page-locked twice", CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
         [&] { return CU(cuMemHostRegister)(locked, 8, 0); }},
        {"not page-locked", CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
         [&] { return CU(cuMemHostUnregister)(&value); }},
        {"a copy beyond the end", CUDA_ERROR_INVALID_VALUE,
         [&] { return CU(cuMemcpyHtoD)(p + 1020, &word, 8); }},
        {"a copy to an address of nobody", CUDA_ERROR_INVALID_VALUE,
         [&] { return CU(cuMemcpyHtoD)(p + 4096, &word, 8); }},
        {"a copy from the host as a device", CUDA_ERROR_INVALID_VALUE,
         [&] { return CU(cuMemcpyDtoD)(p, reinterpret_cast<CUdeviceptr>(&word), 8); }},
        {"a fill beyond the end", CUDA_ERROR_INVALID_VALUE, [&] { return CU(cuMemsetD32)(p, 0, 257); }},
        {"a fill that is not aligned", CUDA_ERROR_INVALID_VALUE,
         [&] { return CU(cuMemsetD32)(p + 2, 0, 1); }},
        {"an address without an allocation", CUDA_ERROR_NOT_FOUND,
         [&] { return CU(cuMemGetAddressRange)(&q, &size, 64); }},
        {"flags of a stream", CUDA_ERROR_INVALID_VALUE, [&] { return CU(cuStreamCreate)(&stream, 4); }},
        {"a stream that was destroyed", CUDA_ERROR_INVALID_HANDLE,
         [&] { return CU(cuStreamSynchronize)(gone); }},
        {"a stream destroyed twice", CUDA_ERROR_INVALID_HANDLE, [&] { return CU(cuStreamDestroy)(gone); }},
        {"an event as a stream", CUDA_ERROR_INVALID_HANDLE,
         [&] { return CU(cuStreamQuery)(reinterpret_cast<CUstream>(event)); }},
        {"flags of an event", CUDA_ERROR_INVALID_VALUE, [&] { return CU(cuEventCreate)(&made, 64); }},
        {"an event that was destroyed", CUDA_ERROR_INVALID_HANDLE,
         [&] { return CU(cuEventQuery)(gone_event); }},
        {"an event on another device's stream", CUDA_ERROR_INVALID_HANDLE,
         [&] { return CU(cuEventRecord)(event, other_stream); }},
        {"the time between events of two devices", CUDA_ERROR_INVALID_HANDLE,
         [&] { return CU(cuEventElapsedTime)(&ms, event, other_event); }},
        {"the time of an event without", CUDA_ERROR_INVALID_HANDLE,
         [&] { return CU(cuEventElapsedTime)(&ms, event, no_timing); }},
        {"a wait with flags", CUDA_ERROR_INVALID_VALUE, [&] { return CU(cuStreamWaitEvent)(s, event, 8); }},
        {"a wait for an odd address", CUDA_ERROR_INVALID_VALUE,
         [&] { return CU(cuStreamWaitValue32)(s, p + 2, 0, 0); }},
        {"a wait for pageable memory", CUDA_ERROR_INVALID_VALUE,
         [&] { return CU(cuStreamWaitValue64)(s, reinterpret_cast<CUdeviceptr>(&word), 0, 0); }},
        {"a null callback", CUDA_ERROR_INVALID_VALUE,
         [&] { return CU(cuLaunchHostFunc)(s, nullptr, nullptr); }},
        {"no module", CUDA_ERROR_INVALID_IMAGE,
         [&] { return CU(cuModuleLoadData)(&module, "nothing at all"); }},
        {"PTX that is none", CUDA_ERROR_INVALID_PTX,
         [&] { return CU(cuModuleLoadData)(&module, ".version 8.0\n.target sm_80\n.visible nonsense"); }},
        {"PTX for another device alone", CUDA_ERROR_INVALID_PTX,
         [&] { return CU(cuModuleLoadData)(&module, ".version 8.0\n.target sm_90a\n.address_size 64\n"); }},
        {"PTX for a newer device", CUDA_ERROR_INVALID_PTX,
         [&] { return CU(cuModuleLoadData)(&module, ".version 8.0\n.target sm_1000\n.address_size 64\n"); }},
        {"machine code", CUDA_ERROR_NO_BINARY_FOR_GPU,
         [&] {
             char cubin[64] = {0x7f, 'E', 'L', 'F', 2, 1};
             cubin[18] = static_cast<char>(190);
             return CU(cuModuleLoadData)(&module, cubin);
         }},
        {"damaged machine code", CUDA_ERROR_INVALID_IMAGE,
         [&] {
             const char cubin[64] = {0x7f, 'E', 'L', 'F', 9, 9};
             return CU(cuModuleLoadData)(&module, cubin);
         }},
        {"a file that is not there", CUDA_ERROR_FILE_NOT_FOUND,
         [&] { return CU(cuModuleLoad)(&module, "/nonexistent/kernel.ptx"); }},
        {"a module that is none", CUDA_ERROR_INVALID_HANDLE,
         [&] { return CU(cuModuleGetFunction)(&function, not_a(CUmodule{}), "k"); }},
        {"a function that is none", CUDA_ERROR_INVALID_HANDLE,
         [&] { return CU(cuLaunchKernel)(not_a(CUfunction{}), 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr); }},
        {"flags of a graph", CUDA_ERROR_INVALID_VALUE, [&] { return CU(cuGraphCreate)(&graph, 1); }},
        {"a graph that is none", CUDA_ERROR_INVALID_HANDLE,
         [&] { return CU(cuGraphDestroy)(not_a(CUgraph{})); }},
        {"an instance that is none", CUDA_ERROR_INVALID_HANDLE,
         [&] { return CU(cuGraphLaunch)(not_a(CUgraphExec{}), s); }},
        {"memory of a device that is not there", CUDA_ERROR_INVALID_DEVICE,
         [&] { return CU(cuMemCreate)(&memory, 2 << 20, &properties, 0); }},
        {"addresses that are no multiple of the granularity", CUDA_ERROR_INVALID_VALUE,
         [&] { return CU(cuMemAddressReserve)(&q, 1000, 0, 0, 0); }},
        {"a mapping to what was not reserved", CUDA_ERROR_INVALID_VALUE,
         [&] { return CU(cuMemMap)(p, 2 << 20, 0, 1, 0); }},
        {"a handle of memory that is none", CUDA_ERROR_INVALID_VALUE, [&] { return CU(cuMemRelease)(1); }},
    };
    std::set<std::string> seen;
    for (const auto &m : misuses) {
        EXPECT_EQ(m.call(), m.expected) << m.what;
        EXPECT_TRUE(seen.insert(m.what).second) << m.what;
    }
    EXPECT_GE(seen.size(), 50u);
    // None of them leaves anything: the fixture counts what is alive. Nor does any end the context.
    EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_SUCCESS);
    // Without a context, nothing can be done.
    CU_OK(cuCtxSetCurrent, nullptr);
    EXPECT_EQ(CU(cuMemAlloc)(&q, 8), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(CU(cuStreamSynchronize)(s), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_INVALID_CONTEXT);
    CU_OK(cuCtxSetCurrent, context_[0]);
}

TEST_F(CudaKernels, LaunchesThatTheDriverRefuses) {
    const CUfunction f = load(compile_to_ptx(R"(
        extern "C" __global__ void __launch_bounds__(128) k(int *p) { if (p) *p = 1; })"),
                              "k");
    CUdeviceptr p = 0;
    void *parameters[] = {&p, nullptr};
    const auto launch = [&](unsigned gx, unsigned gy, unsigned bx, unsigned bz, unsigned shared,
                            void **args) {
        return CU(cuLaunchKernel)(f, gx, gy, 1, bx, 1, bz, shared, nullptr, args, nullptr);
    };
    EXPECT_EQ(launch(1, 1, 128, 1, 0, parameters), CUDA_SUCCESS);
    EXPECT_EQ(launch(0, 1, 128, 1, 0, parameters), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(1, 65536, 128, 1, 0, parameters), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(0x80000000u, 1, 128, 1, 0, parameters), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(1, 1, 129, 1, 0, parameters), CUDA_ERROR_INVALID_VALUE); // __launch_bounds__
    EXPECT_EQ(launch(1, 1, 1, 65, 0, parameters), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(1, 1, 128, 1, (48 << 10) + 1, parameters), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(launch(1, 1, 128, 1, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    CUfunction missing = nullptr;
    EXPECT_EQ(CU(cuModuleGetFunction)(&missing, modules_[0], "missing"), CUDA_ERROR_NOT_FOUND);
    CU_OK(cuCtxSetCurrent, context_[1]);
    EXPECT_EQ(launch(1, 1, 128, 1, 0, parameters), CUDA_ERROR_INVALID_HANDLE); // another context's function
    CU_OK(cuCtxSetCurrent, context_[0]);
    CU_OK(cuCtxSynchronize);
    // The compiler's log says what it did not like.
    char log[256] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
    CUmodule module = nullptr;
    EXPECT_EQ(CU(cuModuleLoadDataEx)(&module,
                                     ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n"
                                     ".reg .f32 %f<2>;\nsin.approx.f32 %f0, %f1;\nret;\n}\n",
                                     2, options, values),
              CUDA_ERROR_INVALID_PTX);
    EXPECT_NE(std::string(log).find("sin.approx"), std::string::npos) << log;
}

TEST_F(CudaDriver, CallbacksMayNotCallTheDriver) {
    CUresult inside = CUDA_SUCCESS;
    CU_OK(
        cuLaunchHostFunc, nullptr,
        [](void *p) {
            int count = 0;
            *static_cast<CUresult *>(p) = CU(cuDeviceGetCount)(&count);
        },
        &inside);
    CU_OK(cuStreamSynchronize, nullptr);
    EXPECT_EQ(inside, CUDA_ERROR_NOT_PERMITTED);
}

TEST_F(CudaDriver, EachFunctionCanBeMadeToFail) {
    const char *const *names = FAKE(lazuli_fake_cuda_functions)();
    size_t count = 0;
    for (; names[count]; ++count) {
        const char *const name = names[count];
        // Any signature: nothing is read before the failure. Sixteen zeros are more than any function takes.
        using Any = CUresult (*)(void *, void *, void *, void *, void *, void *, void *, void *, void *,
                                 void *, void *, void *, void *, void *, void *, void *);
        const auto function = driver_function<Any>(name);
        ASSERT_TRUE(function) << name;
        const uint64_t before = FAKE(lazuli_fake_cuda_calls)(name);
        FAKE(lazuli_fake_cuda_fail)(name, 1, CUDA_ERROR_SYSTEM_NOT_READY);
        void *const z = nullptr;
        EXPECT_EQ(function(z, z, z, z, z, z, z, z, z, z, z, z, z, z, z, z), CUDA_ERROR_SYSTEM_NOT_READY)
            << name;
        EXPECT_EQ(FAKE(lazuli_fake_cuda_calls)(name), before + 1) << name;
    }
    EXPECT_GE(count, 150u);
    // The third call, and no other.
    FAKE(lazuli_fake_cuda_fail)("cuMemAlloc_v2", 3, CUDA_ERROR_OUT_OF_MEMORY);
    CUdeviceptr p[4];
    const CUresult expected[] = {CUDA_SUCCESS, CUDA_SUCCESS, CUDA_ERROR_OUT_OF_MEMORY, CUDA_SUCCESS};
    for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(CU(cuMemAlloc)(&p[i], 64), expected[i]);
        if (expected[i] == CUDA_SUCCESS)
            memory_.push_back(p[i]);
    }
    // One that was set can be taken back, and the next of any function can fail.
    FAKE(lazuli_fake_cuda_fail)("cuMemFree_v2", 1, CUDA_ERROR_UNKNOWN);
    FAKE(lazuli_fake_cuda_fail)("cuMemFree_v2", 0, 0);
    FAKE(lazuli_fake_cuda_fail)("*", 2, CUDA_ERROR_UNKNOWN);
    CU_OK(cuCtxSynchronize);
    EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_UNKNOWN);
    const char *text = nullptr;
    CU_OK(cuGetErrorName, CUDA_ERROR_ILLEGAL_ADDRESS, &text);
    EXPECT_STREQ(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
    CU_OK(cuGetErrorString, CUDA_ERROR_ILLEGAL_ADDRESS, &text);
    EXPECT_STREQ(text, "an illegal memory access was encountered");
    EXPECT_EQ(CU(cuGetErrorName)(static_cast<CUresult>(998), &text), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaDriver, AfterAForkTheChildCannotUseIt) {
    CU_OK(cuStreamSynchronize, nullptr);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        CUdeviceptr p = 0;
        _exit(CU(cuMemAlloc)(&p, 8) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    CU_OK(cuStreamSynchronize, nullptr);
}

TEST_F(CudaChild, DISABLED_HasNoDevice) {
    EXPECT_EQ(CU(cuInit)(0), CUDA_ERROR_NO_DEVICE);
    int count = 0;
    EXPECT_EQ(CU(cuDeviceGetCount)(&count), CUDA_ERROR_NOT_INITIALIZED);
}

TEST_F(CudaChild, DISABLED_IsOldSmallAndAlone) {
    int value = 0, can = 1;
    CU_OK(cuInit, 0);
    CU_OK(cuDriverGetVersion, &value);
    EXPECT_EQ(value, 12000);
    CU_OK(cuDeviceGetCount, &value);
    EXPECT_EQ(value, 3);
    CU_OK(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
    EXPECT_EQ(value, 8);
    CU_OK(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
    EXPECT_EQ(value, 6);
    CU_OK(cuDeviceCanAccessPeer, &can, 0, 1);
    EXPECT_EQ(can, 0);
    CUcontext a = nullptr, b = nullptr;
    CU_OK(cuDevicePrimaryCtxRetain, &a, 0);
    CU_OK(cuDevicePrimaryCtxRetain, &b, 1);
    CU_OK(cuCtxSetCurrent, a);
    EXPECT_EQ(CU(cuCtxEnablePeerAccess)(b, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    CUdeviceptr p = 0;
    CU_OK(cuMemAlloc, &p, 1 << 20);
    EXPECT_EQ(CU(cuMemAlloc)(&p, 1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(CU(cuMemsetD8)(p, 0, 1), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuMemsetD8)(p, 0, 1), CUDA_ERROR_LAUNCH_FAILED); // LAZULI_FAKE_CUDA_FAIL
    void *f = nullptr;
    CUdriverProcAddressQueryResult status;
    EXPECT_EQ(CU(cuGetProcAddress)("cuStreamGetCaptureInfo", &f, 13000, 0, &status), CUDA_SUCCESS);
    EXPECT_EQ(f, dlsym(driver_library(), "cuStreamGetCaptureInfo_v2"));
    CUmodule module = nullptr;
    EXPECT_EQ(CU(cuModuleLoadData)(&module, ".version 8.1\n.target sm_80\n.address_size 64\n"),
              CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    EXPECT_EQ(CU(cuModuleLoadData)(&module, ".version 8.0\n.target sm_80\n.address_size 64\n"), CUDA_SUCCESS);
}

/// A driver whose version nobody set is as new as whatever wrote the PTX.
TEST_F(CudaDriver, ReadsPtxThatIsNewerThanTheHeaders) {
    CUmodule module = nullptr;
    CU_OK(cuModuleLoadData, &module, ".version 99.0\n.target sm_80\n.address_size 64\n");
    CU_OK(cuModuleUnload, module);
}

TEST(CudaSettings, AProcessCanHideAllDevices) {
    EXPECT_TRUE(run_child("HasNoDevice", {{"CUDA_VISIBLE_DEVICES", ""}}));
    EXPECT_TRUE(run_child("HasNoDevice", {{"CUDA_VISIBLE_DEVICES", "-1,0"}}));
    EXPECT_TRUE(run_child("HasNoDevice", {{"LAZULI_FAKE_CUDA_DEVICES", "0"}}));
}

TEST(CudaSettings, AProcessCanHaveAnOlderDriverAndSmallerDevices) {
    EXPECT_TRUE(run_child("IsOldSmallAndAlone", {{"LAZULI_FAKE_CUDA_VERSION", "12000"},
                                                 {"LAZULI_FAKE_CUDA_DEVICES", "4"},
                                                 {"CUDA_VISIBLE_DEVICES", "0,2,1,7,3"},
                                                 {"LAZULI_FAKE_CUDA_CAPABILITY", "8.6"},
                                                 {"LAZULI_FAKE_CUDA_MEMORY", "1M"},
                                                 {"LAZULI_FAKE_CUDA_PEERS", "0"},
                                                 {"LAZULI_FAKE_CUDA_FAIL", "cuMemsetD8_v2:2:719"}}));
}

} // namespace
} // namespace lz::test
