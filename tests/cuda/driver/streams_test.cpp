// Streams, events, copies, values in memory and memory itself, through the fake driver as a user of CUDA
// would. No kernels, so no compiler.

#include "driver/driver.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

namespace lz::test {
namespace {

std::vector<uint32_t> counting(size_t count, uint32_t from) {
    std::vector<uint32_t> v(count);
    std::iota(v.begin(), v.end(), from);
    return v;
}

TEST_F(CudaDriver, DevicesSayWhatTheyAre) {
    int count = 0, major = 0, warp = 0, version = 0;
    CU_OK(cuDeviceGetCount, &count);
    EXPECT_EQ(count, 2);
    CU_OK(cuDriverGetVersion, &version);
    EXPECT_EQ(version, CUDA_VERSION);
    CU_OK(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 1);
    EXPECT_EQ(major, 99);
    CU_OK(cuDeviceGetAttribute, &warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0);
    EXPECT_EQ(warp, 32);
    char name[64];
    CU_OK(cuDeviceGetName, name, sizeof name, 0);
    EXPECT_STREQ(name, "Lazuli fake GPU");
    CU_OK(cuDeviceGetName, name, 7, 0);
    EXPECT_STREQ(name, "Lazuli");
    CUuuid a, b;
    CU_OK(cuDeviceGetUuid, &a, 0);
    CU_OK(cuDeviceGetUuid_v2, &b, 1);
    EXPECT_NE(std::memcmp(&a, &b, sizeof a), 0);
    size_t total = 0, free = 0, all = 0;
    CU_OK(cuDeviceTotalMem, &total, 0);
    EXPECT_EQ(total, size_t{512} << 20);
    const CUdeviceptr p = allocate(1000);
    CU_OK(cuMemGetInfo, &free, &all);
    EXPECT_EQ(all, total);
    EXPECT_EQ(free, total - 1024);
    EXPECT_EQ(p % 256, 0u);
}

TEST_F(CudaDriver, FunctionsAreFoundByNameAndVersion) {
    void *f = nullptr;
    CUdriverProcAddressQueryResult status;
    CU_OK(cuGetProcAddress, "cuMemAlloc", &f, 12000, 0, &status);
    EXPECT_EQ(f, dlsym(driver_library(), "cuMemAlloc_v2"));
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
    CU_OK(cuGetProcAddress, "cuEventElapsedTime", &f, 12000, 0, &status);
    EXPECT_EQ(f, dlsym(driver_library(), "cuEventElapsedTime"));
#if CUDA_VERSION >= 12080
    CU_OK(cuGetProcAddress, "cuEventElapsedTime", &f, 13000, 0, &status);
    EXPECT_EQ(f, dlsym(driver_library(), "cuEventElapsedTime_v2"));
#endif
    CU_OK(cuGetProcAddress, "cuGraphInstantiate", &f, 12000, 0, nullptr);
    EXPECT_EQ(f, dlsym(driver_library(), "cuGraphInstantiateWithFlags"));
    EXPECT_EQ(CU(cuGetProcAddress)("cuLibraryLoadData", &f, 11000, 0, &status), CUDA_ERROR_NOT_FOUND);
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    EXPECT_EQ(CU(cuGetProcAddress)("cuNothing", &f, 13000, 0, &status), CUDA_ERROR_NOT_FOUND);
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    EXPECT_EQ(f, nullptr);
}

TEST_F(CudaDriver, WhatIsPutOnAStreamRunsInOrder) {
    constexpr size_t n = 1000;
    const CUstream s = make_stream();
    const CUdeviceptr a = allocate(n * 4), b = allocate(n * 4);
    uint32_t *const to = pinned(n);
    for (uint32_t round = 0; round < 50; ++round) {
        CU_OK(cuMemsetD32Async, a, round, n, s);
        CU_OK(cuMemcpyDtoDAsync, b, a, n * 4, s);
        CU_OK(cuMemsetD32Async, a, ~round, n, s);
        CU_OK(cuMemcpyDtoHAsync, to, b, n * 4, s);
        CU_OK(cuStreamSynchronize, s);
        EXPECT_EQ(to[0], round);
        EXPECT_EQ(to[n - 1], round);
    }
    CU_OK(cuMemsetD8, a, 0xab, 3);
    CU_OK(cuMemsetD16, b, 0x1234, 2);
    EXPECT_EQ(download<uint8_t>(a, 4), (std::vector<uint8_t>{0xab, 0xab, 0xab, 0xff}));
    EXPECT_EQ(download<uint32_t>(b, 1)[0], 0x12341234u);
}

TEST_F(CudaDriver, EventsOrderStreams) {
    constexpr size_t n = 4096;
    const CUstream first = make_stream(), second = make_stream();
    const CUdeviceptr p = allocate(n * 4);
    const CUevent done = make_event(CU_EVENT_DISABLE_TIMING), taken = make_event(CU_EVENT_DISABLE_TIMING);
    std::vector<uint32_t *> seen;
    constexpr uint32_t rounds = 100;
    for (uint32_t round = 0; round < rounds; ++round) {
        uint32_t *to = seen.emplace_back(pinned(1));
        CU_OK(cuMemsetD32Async, p, round, n, first);
        CU_OK(cuEventRecord, done, first); // each wait is for the record before it
        CU_OK(cuStreamWaitEvent, second, done, 0);
        CU_OK(cuMemcpyDtoHAsync, to, p + (n - 1) * 4, 4, second);
        CU_OK(cuEventRecord, taken, second);
        CU_OK(cuStreamWaitEvent, first, taken, 0);
    }
    CU_OK(cuEventSynchronize, taken);
    EXPECT_EQ(CU(cuEventQuery)(done), CUDA_SUCCESS);
    for (uint32_t round = 0; round < rounds; ++round)
        EXPECT_EQ(*seen[round], round);
}

TEST_F(CudaDriver, EventsHaveTimes) {
    const CUstream s = make_stream();
    const CUevent begin = make_event(), end = make_event();
    float ms = -1;
    EXPECT_EQ(CU(cuEventQuery)(begin), CUDA_SUCCESS); // never recorded
    CU_OK(cuEventRecord, begin, s);
    CU_OK(
        cuLaunchHostFunc, s, [](void *) { std::this_thread::sleep_for(std::chrono::milliseconds(3)); },
        nullptr);
    CU_OK(cuEventRecord, end, s);
    CU_OK(cuEventSynchronize, end);
    CU_OK(cuEventElapsedTime, &ms, begin, end);
    EXPECT_GE(ms, 3.0f);
    CU_OK(cuEventElapsedTime, &ms, end, begin);
    EXPECT_LE(ms, -3.0f);
}

TEST_F(CudaDriver, TheNullStreamComesAfterAllThatBlockAndBeforeAllThatFollow) {
    const CUstream blocking = make_stream(CU_STREAM_DEFAULT), other = make_stream(CU_STREAM_DEFAULT);
    uint32_t *const word = pinned(1);
    const auto add = [](void *p) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        *static_cast<uint32_t *>(p) = *static_cast<uint32_t *>(p) * 10 + 1;
    };
    const auto twice = [](void *p) { *static_cast<uint32_t *>(p) *= 2; };
    CU_OK(cuLaunchHostFunc, blocking, add, word);
    CU_OK(cuLaunchHostFunc, nullptr, twice, word);
    CU_OK(cuLaunchHostFunc, other, add, word);
    CU_OK(cuLaunchHostFunc, CU_STREAM_LEGACY, twice, word);
    CU_OK(cuStreamSynchronize, nullptr);
    EXPECT_EQ(*word, 42u);
}

TEST_F(CudaDriver, CopiesOfPageableMemoryBehaveAsDocumented) {
    constexpr size_t n = 50'000;
    const CUstream s = make_stream();
    const CUdeviceptr p = allocate(n * 4);
    uint32_t *const gate = pinned(1);
    CU_OK(cuStreamWaitValue32, s, reinterpret_cast<CUdeviceptr>(gate), 1, CU_STREAM_WAIT_VALUE_EQ);
    auto values = counting(n, 5);
    // It is taken out of the way before the call returns, though the stream stands.
    CU_OK(cuMemcpyHtoDAsync, p, values.data(), n * 4, s);
    std::ranges::fill(values, 0u);
    EXPECT_EQ(CU(cuStreamQuery)(s), CUDA_ERROR_NOT_READY);
    __atomic_store_n(gate, 1u, __ATOMIC_RELEASE);
    // It is there when the call returns.
    CU_OK(cuMemcpyDtoHAsync, values.data(), p, n * 4, s);
    EXPECT_EQ(values, counting(n, 5));
    // Page-locked memory is read when the stream comes to it.
    uint32_t *const locked = pinned(1);
    *locked = 1;
    __atomic_store_n(gate, 0u, __ATOMIC_RELEASE);
    CU_OK(cuStreamWaitValue32, s, reinterpret_cast<CUdeviceptr>(gate), 1, CU_STREAM_WAIT_VALUE_EQ);
    CU_OK(cuMemcpyHtoDAsync, p, locked, 4, s);
    *locked = 2;
    __atomic_store_n(gate, 1u, __ATOMIC_RELEASE);
    CU_OK(cuStreamSynchronize, s);
    EXPECT_EQ(download<uint32_t>(p, 1)[0], 2u);
    // Memory of the program's own can be page-locked, too.
    CU_OK(cuMemHostRegister, values.data(), n * 4, 0);
    CU_OK(cuMemcpyHtoDAsync, p, values.data(), n * 4, s);
    CU_OK(cuStreamSynchronize, s);
    CU_OK(cuMemHostUnregister, values.data());
    EXPECT_EQ(download<uint32_t>(p, n), values);
}

TEST_F(CudaDriver, StreamsWaitForValuesAndWriteThem) {
    const CUstream a = make_stream(), b = make_stream();
    uint32_t *const word = pinned(4);
    const auto at = reinterpret_cast<CUdeviceptr>(word);
    CU_OK(cuStreamWaitValue32, a, at, 3, CU_STREAM_WAIT_VALUE_GEQ);
    CU_OK(cuStreamWriteValue32, a, at + 4, 8, CU_STREAM_WRITE_VALUE_DEFAULT);
    CU_OK(cuStreamWaitValue32, b, at + 4, 8, CU_STREAM_WAIT_VALUE_AND);
    CU_OK(cuStreamWriteValue64, b, at + 8, ~uint64_t{0}, CU_STREAM_WRITE_VALUE_DEFAULT);
    EXPECT_EQ(CU(cuStreamQuery)(b), CUDA_ERROR_NOT_READY);
    std::thread host([&] { __atomic_store_n(word, 4u, __ATOMIC_RELEASE); });
    CU_OK(cuStreamSynchronize, b);
    host.join();
    EXPECT_EQ(word[1], 8u);
    EXPECT_EQ(word[2], ~0u);
    EXPECT_EQ(word[3], ~0u);
    // The comparison goes round: 2 comes after 0xffffffff.
    *word = 2;
    CU_OK(cuStreamWaitValue32, a, at, ~0u, CU_STREAM_WAIT_VALUE_GEQ);
    CU_OK(cuStreamWaitValue64, a, at + 8, ~uint64_t{0} - 1, CU_STREAM_WAIT_VALUE_GEQ);
    CU_OK(cuStreamWaitValue32, a, at, 1, CU_STREAM_WAIT_VALUE_NOR);
    CU_OK(cuStreamSynchronize, a);
}

TEST_F(CudaDriver, AWaitThatNobodyCanEndIsReported) {
    const CUstream a = make_stream(), b = make_stream();
    uint32_t *const word = pinned(2);
    const auto at = reinterpret_cast<CUdeviceptr>(word);
    // Each would write what the other waits for.
    CU_OK(cuStreamWaitValue32, a, at, 1, CU_STREAM_WAIT_VALUE_EQ);
    CU_OK(cuStreamWriteValue32, a, at + 4, 1, CU_STREAM_WRITE_VALUE_DEFAULT);
    CU_OK(cuStreamWaitValue32, b, at + 4, 1, CU_STREAM_WAIT_VALUE_EQ);
    CU_OK(cuStreamWriteValue32, b, at, 1, CU_STREAM_WRITE_VALUE_DEFAULT);
    EXPECT_EQ(CU(cuStreamSynchronize)(a), CUDA_ERROR_LAUNCH_TIMEOUT);
    EXPECT_NE(last_message().find("waits for the value 1 at"), std::string::npos) << last_message();
    EXPECT_EQ(CU(cuStreamSynchronize)(b), CUDA_ERROR_LAUNCH_TIMEOUT);
    CU_OK(cuDevicePrimaryCtxReset, 0);
    streams_.clear();
    pinned_.clear();
    CU_OK(cuDevicePrimaryCtxRelease, 0);
    CU_OK(cuDevicePrimaryCtxRetain, &context_[0], 0);
}

TEST_F(CudaDriver, MemoryIsUnreadableApartAndLimited) {
    const CUdeviceptr a = allocate(100), b = allocate(100);
    EXPECT_GE(b > a ? b - a : a - b, CUdeviceptr{64} << 10);
    GTEST_FLAG_SET(death_test_style, "threadsafe"); // streams have threads
    EXPECT_DEATH(std::printf("%d", *reinterpret_cast<volatile int *>(a)), "");
    CUdeviceptr big = 0;
    EXPECT_EQ(CU(cuMemAlloc)(&big, size_t{513} << 20), CUDA_ERROR_OUT_OF_MEMORY);
    CU_OK(cuMemAlloc, &big, size_t{511} << 20);
    CUdeviceptr more = 0;
    EXPECT_EQ(CU(cuMemAlloc)(&more, size_t{2} << 20), CUDA_ERROR_OUT_OF_MEMORY);
    CU_OK(cuMemFree, big);
    CU_OK(cuMemAlloc, &more, size_t{2} << 20);
    EXPECT_NE(more, big); // an address comes back late
    CU_OK(cuMemFree, more);
    EXPECT_EQ(download<uint8_t>(a, 1)[0], 0xff);
}

TEST_F(CudaDriver, MemoryOfAStreamIsFreedInItsOrder) {
    const CUstream s = make_stream();
    CUdeviceptr p = 0;
    CU_OK(cuMemAllocAsync, &p, 4096, s);
    CU_OK(cuMemsetD8Async, p, 7, 4096, s);
    uint32_t *const to = pinned(1);
    CU_OK(cuMemcpyDtoHAsync, to, p, 4, s);
    CU_OK(cuMemFreeAsync, p, s);
    CU_OK(cuStreamSynchronize, s);
    EXPECT_EQ(*to, 0x07070707u);
    EXPECT_EQ(CU(cuMemFreeAsync)(p, s), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaDriver, PointersSayWhereTheyAre) {
    const CUdeviceptr p = allocate(1000);
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CU_OK(cuMemGetAddressRange, &base, &bytes, p + 999);
    EXPECT_EQ(base, p);
    EXPECT_EQ(bytes, 1000u);
    unsigned type = 0;
    CU_OK(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p);
    EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
    uint32_t *const locked = pinned(1);
    int device = -1;
    CUdeviceptr as_device = 0;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
    void *values[] = {&type, &device, &as_device};
    CU_OK(cuPointerGetAttributes, 3, which, values, reinterpret_cast<CUdeviceptr>(locked));
    EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_HOST));
    EXPECT_EQ(device, 0);
    EXPECT_EQ(as_device, reinterpret_cast<CUdeviceptr>(locked));
    CU_OK(cuPointerGetAttributes, 3, which, values, reinterpret_cast<CUdeviceptr>(&type));
    EXPECT_EQ(type, 0u);
    EXPECT_EQ(CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        reinterpret_cast<CUdeviceptr>(&type)),
              CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaDriver, MemoryIsMappedIntoReservedAddresses) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    size_t unit = 0;
    CU_OK(cuMemGetAllocationGranularity, &unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    CUdeviceptr range = 0;
    CU_OK(cuMemAddressReserve, &range, 4 * unit, 0, 0, 0);
    CUmemGenericAllocationHandle parts[2];
    CUmemAccessDesc access{};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    for (size_t i = 0; i < 2; ++i) {
        CU_OK(cuMemCreate, &parts[i], unit, &properties, 0);
        CU_OK(cuMemMap, range + i * unit, unit, 0, parts[i], 0);
    }
    EXPECT_EQ(CU(cuMemsetD8)(range, 1, 1), CUDA_ERROR_INVALID_VALUE); // no access yet
    CU_OK(cuMemSetAccess, range, 2 * unit, &access, 1);
    // One range, across the seam.
    const auto values = counting(1000, 3);
    CU_OK(cuMemcpyHtoD, range + unit - 2000, values.data(), 4000);
    EXPECT_EQ(download<uint32_t>(range + unit - 2000, 1000), values);
    EXPECT_EQ(CU(cuMemsetD8)(range + 2 * unit - 1, 1, 2), CUDA_ERROR_INVALID_VALUE);
    // The same memory at another address, and after its handle was released.
    CU_OK(cuMemMap, range + 2 * unit, unit, 0, parts[1], 0);
    CU_OK(cuMemSetAccess, range + 2 * unit, unit, &access, 1);
    CU_OK(cuMemRelease, parts[1]);
    EXPECT_EQ(download<uint32_t>(range + 2 * unit, 1)[0], values[500]);
    CU_OK(cuMemUnmap, range + unit, unit);
    EXPECT_EQ(download<uint32_t>(range + 2 * unit, 1)[0], values[500]);
    size_t free = 0, total = 0;
    CU_OK(cuMemGetInfo, &free, &total);
    EXPECT_EQ(total - free, 2 * unit);
    EXPECT_EQ(CU(cuMemAddressFree)(range, 4 * unit), CUDA_ERROR_INVALID_VALUE);
    CU_OK(cuMemUnmap, range, unit);
    CU_OK(cuMemUnmap, range + 2 * unit, unit);
    CU_OK(cuMemRelease, parts[0]);
    CU_OK(cuMemAddressFree, range, 4 * unit);
    CU_OK(cuMemGetInfo, &free, &total);
    EXPECT_EQ(free, total);
}

TEST_F(CudaDriver, DevicesCopyToEachOther) {
    const auto values = counting(10'000, 9);
    const CUdeviceptr here = upload(values);
    CU_OK(cuCtxSetCurrent, context_[1]);
    const CUdeviceptr there = allocate(values.size() * 4);
    const CUstream s = make_stream();
    CU_OK(cuMemcpyPeerAsync, there, context_[1], here, context_[0], values.size() * 4, s);
    CU_OK(cuStreamSynchronize, s);
    EXPECT_EQ(download<uint32_t>(there, values.size()), values);
    int can = 0;
    CU_OK(cuDeviceCanAccessPeer, &can, 0, 1);
    EXPECT_EQ(can, 1);
    CU_OK(cuDeviceGetP2PAttribute, &can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1);
    EXPECT_EQ(can, 1);
    // An event of one device holds up a stream of the other.
    CU_OK(cuCtxSetCurrent, context_[0]);
    const CUstream first = make_stream();
    const CUevent e = make_event(CU_EVENT_DISABLE_TIMING);
    CU_OK(cuMemsetD32Async, here, 77, values.size(), first);
    CU_OK(cuEventRecord, e, first);
    CU_OK(cuCtxSetCurrent, context_[1]);
    CU_OK(cuStreamWaitEvent, s, e, 0);
    CU_OK(cuMemcpyDtoDAsync, there, here, values.size() * 4, s);
    CU_OK(cuStreamSynchronize, s);
    EXPECT_EQ(download<uint32_t>(there, values.size()), std::vector<uint32_t>(values.size(), 77));
}

TEST_F(CudaDriver, ManyThreadsUseOneDevice) {
    constexpr size_t threads = 6, n = 2000;
    std::atomic<unsigned> wrong{0};
    std::vector<std::thread> all;
    for (size_t t = 0; t < threads; ++t)
        all.emplace_back([&, t] {
            const auto ok = [&](CUresult r) { wrong += r != CUDA_SUCCESS; };
            ok(CU(cuCtxSetCurrent)(context_[t % 2]));
            CUstream s = nullptr;
            ok(CU(cuStreamCreateWithPriority)(&s, CU_STREAM_NON_BLOCKING, t % 2 ? -1 : 0));
            for (uint32_t round = 0; round < 20; ++round) {
                CUdeviceptr p = 0;
                ok(CU(cuMemAllocAsync)(&p, n * 4, s));
                const auto values = counting(n, static_cast<uint32_t>(t * 1000 + round));
                ok(CU(cuMemcpyHtoDAsync)(p, values.data(), n * 4, s));
                std::vector<uint32_t> back(n);
                ok(CU(cuMemcpyDtoHAsync)(back.data(), p, n * 4, s));
                wrong += back != values;
                ok(CU(cuMemFreeAsync)(p, s));
            }
            ok(CU(cuStreamSynchronize)(s));
            ok(CU(cuStreamDestroy)(s));
        });
    for (std::thread &t : all)
        t.join();
    EXPECT_EQ(wrong, 0u);
}

TEST_F(CudaDriver, AStreamDestroyedFinishesItsWork) {
    CUstream s = nullptr;
    CU_OK(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
    std::atomic<int> ran{0};
    for (int i = 0; i < 20; ++i)
        CU_OK(cuLaunchHostFunc, s, [](void *p) { ++*static_cast<std::atomic<int> *>(p); }, &ran);
    CU_OK(cuStreamDestroy, s);
    CU_OK(cuCtxSynchronize);
    EXPECT_EQ(ran, 20);
}

} // namespace
} // namespace lz::test
