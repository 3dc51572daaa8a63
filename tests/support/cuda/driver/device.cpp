// Devices and what they say of themselves: an H200, but for a compute capability that no compiler knows.

#include "tests/support/cuda/driver/context.h"
#include "tests/support/cuda/driver/modules/module.h"
#include "tests/support/cuda/driver/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace lz::fake_cuda {
namespace {

struct Attribute {
    CUdevice_attribute which;
    int value;
};

#define ATTRIBUTE(name, value)                                                                               \
    Attribute {                                                                                              \
        CU_DEVICE_ATTRIBUTE_##name, value                                                                    \
    }
constexpr std::array kAttributes{
    ATTRIBUTE(MAX_THREADS_PER_BLOCK, 1024),
    ATTRIBUTE(MAX_BLOCK_DIM_X, 1024),
    ATTRIBUTE(MAX_BLOCK_DIM_Y, 1024),
    ATTRIBUTE(MAX_BLOCK_DIM_Z, 64),
    ATTRIBUTE(MAX_GRID_DIM_X, 2147483647),
    ATTRIBUTE(MAX_GRID_DIM_Y, 65535),
    ATTRIBUTE(MAX_GRID_DIM_Z, 65535),
    ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10),
    ATTRIBUTE(TOTAL_CONSTANT_MEMORY, 64 << 10),
    ATTRIBUTE(WARP_SIZE, 32),
    ATTRIBUTE(MAX_PITCH, 2147483647),
    ATTRIBUTE(MAX_REGISTERS_PER_BLOCK, 65536),
    ATTRIBUTE(CLOCK_RATE, 1980000),
    ATTRIBUTE(GPU_OVERLAP, 1),
    ATTRIBUTE(MULTIPROCESSOR_COUNT, 132),
    ATTRIBUTE(KERNEL_EXEC_TIMEOUT, 0),
    ATTRIBUTE(INTEGRATED, 0),
    ATTRIBUTE(CAN_MAP_HOST_MEMORY, 1),
    ATTRIBUTE(COMPUTE_MODE, 0),
    ATTRIBUTE(CONCURRENT_KERNELS, 1),
    ATTRIBUTE(ECC_ENABLED, 1),
    ATTRIBUTE(PCI_DEVICE_ID, 0),
    ATTRIBUTE(PCI_DOMAIN_ID, 0),
    ATTRIBUTE(MEMORY_CLOCK_RATE, 3201000),
    ATTRIBUTE(GLOBAL_MEMORY_BUS_WIDTH, 6144),
    ATTRIBUTE(L2_CACHE_SIZE, 60 << 20),
    ATTRIBUTE(MAX_THREADS_PER_MULTIPROCESSOR, 2048),
    ATTRIBUTE(ASYNC_ENGINE_COUNT, 3),
    ATTRIBUTE(UNIFIED_ADDRESSING, 1),
    ATTRIBUTE(STREAM_PRIORITIES_SUPPORTED, 1),
    ATTRIBUTE(GLOBAL_L1_CACHE_SUPPORTED, 1),
    ATTRIBUTE(LOCAL_L1_CACHE_SUPPORTED, 1),
    ATTRIBUTE(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 << 10),
    ATTRIBUTE(MAX_REGISTERS_PER_MULTIPROCESSOR, 65536),
    ATTRIBUTE(MANAGED_MEMORY, 0),
    ATTRIBUTE(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2),
    ATTRIBUTE(PAGEABLE_MEMORY_ACCESS, 0),
    ATTRIBUTE(CONCURRENT_MANAGED_ACCESS, 0),
    ATTRIBUTE(COMPUTE_PREEMPTION_SUPPORTED, 1),
    ATTRIBUTE(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1),
    ATTRIBUTE(CAN_USE_STREAM_MEM_OPS_V1, 1),
    ATTRIBUTE(CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 1),
    ATTRIBUTE(CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 1),
    ATTRIBUTE(CAN_USE_64_BIT_STREAM_MEM_OPS, 1),
    ATTRIBUTE(CAN_USE_STREAM_WAIT_VALUE_NOR, 1),
    ATTRIBUTE(COOPERATIVE_LAUNCH, 0),
    ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 227 << 10),
    ATTRIBUTE(HOST_REGISTER_SUPPORTED, 1),
    ATTRIBUTE(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0),
    ATTRIBUTE(MAX_BLOCKS_PER_MULTIPROCESSOR, 32),
    ATTRIBUTE(RESERVED_SHARED_MEMORY_PER_BLOCK, 1024),
    ATTRIBUTE(MEMORY_POOLS_SUPPORTED, 1),
    ATTRIBUTE(UNIFIED_FUNCTION_POINTERS, 0),
    ATTRIBUTE(MULTICAST_SUPPORTED, 0),
};
#undef ATTRIBUTE

int attribute(CUdevice_attribute which, int device) {
    if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        return settings().capabilities[static_cast<size_t>(device)] / 10;
    if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        return settings().capabilities[static_cast<size_t>(device)] % 10;
    if (which == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
        return device + 1;
    if (which == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
        return settings().vmm;
    if (which == CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)
        return settings().capabilities[static_cast<size_t>(device)] >= kFirstWithClusters;
    const auto *found = std::ranges::find(kAttributes, which, &Attribute::which);
    if (found != kAttributes.end())
        return found->value;
    if (which < 1 || which >= CU_DEVICE_ATTRIBUTE_MAX)
        refuse(CUDA_ERROR_INVALID_VALUE, fmt::format("attribute {} is not known", static_cast<int>(which)));
    return 0; // what a device may or may not have, this one has not
}

void uuid_of(CUuuid *uuid, CUdevice device) {
    need(uuid, "uuid");
    context_of_device(device);
    const std::string text = fmt::format("lazuli-fake-{:04}", device);
    static_assert(sizeof uuid->bytes == 16);
    std::memcpy(uuid->bytes, text.data(), 16);
}

} // namespace
} // namespace lz::fake_cuda

using namespace lz::fake_cuda; // NOLINT

CUresult cuInit(unsigned flags) {
    return call_without_init(__func__, [&](Lock &) {
        if (flags != 0)
            refuse(CUDA_ERROR_INVALID_VALUE, "flags have to be 0");
        if (device_count() == 0)
            refuse(CUDA_ERROR_NO_DEVICE, "LAZULI_FAKE_CUDA_DEVICES or CUDA_VISIBLE_DEVICES leave no device");
        set_initialized();
    });
}

CUresult cuDriverGetVersion(int *version) {
    return call_without_init(__func__, [&](Lock &) {
        need(version, "driverVersion");
        *version = settings().version;
    });
}

CUresult cuDeviceGetCount(int *count) {
    return call(__func__, [&](Lock &) {
        need(count, "count");
        *count = device_count();
    });
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    return call(__func__, [&](Lock &) {
        need(device, "device");
        *device = context_of_device(ordinal).device;
    });
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    return call(__func__, [&](Lock &) {
        need(name, "name");
        context_of_device(device);
        if (length <= 0)
            refuse(CUDA_ERROR_INVALID_VALUE, "no room for the name");
        const std::string text = "Lazuli fake GPU";
        const size_t count = std::min(text.size(), static_cast<size_t>(length) - 1);
        std::memcpy(name, text.data(), count);
        name[count] = '\0';
    });
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    return call(__func__, [&](Lock &) { uuid_of(uuid, device); });
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    return call(__func__, [&](Lock &) { uuid_of(uuid, device); });
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device) {
    return call(__func__, [&](Lock &) {
        need(text, "pciBusId");
        context_of_device(device);
        const std::string id = fmt::format("0000:{:02x}:00.0", device + 1);
        if (length <= static_cast<int>(id.size()))
            refuse(CUDA_ERROR_INVALID_VALUE, "no room for the identifier");
        std::memcpy(text, id.c_str(), id.size() + 1);
    });
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    return call(__func__, [&](Lock &) {
        need(bytes, "bytes");
        context_of_device(device);
        *bytes = settings().memory;
    });
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
    return call(__func__, [&](Lock &) {
        need(value, "pi");
        context_of_device(device);
        *value = attribute(which, device);
    });
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    return call(__func__, [&](Lock &) {
        need(can, "canAccessPeer");
        context_of_device(device);
        context_of_device(peer);
        *can = device != peer && settings().peers;
    });
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute which, CUdevice from, CUdevice to) {
    return call(__func__, [&](Lock &) {
        need(value, "value");
        context_of_device(from);
        context_of_device(to);
        if (from == to)
            refuse(CUDA_ERROR_INVALID_DEVICE, "a device is no peer of its own");
        switch (which) {
        case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
            *value = 0;
            break;
        case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
        case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
            *value = settings().peers;
            break;
        case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
            *value = 0;
            break;
        default:
            refuse(CUDA_ERROR_INVALID_VALUE, "the attribute is not known");
        }
    });
}

// Nothing is profiled.
CUresult cuProfilerStart() {
    return call(__func__, [](Lock &) { current_context(); });
}

CUresult cuProfilerStop() {
    return call(__func__, [](Lock &) { current_context(); });
}
