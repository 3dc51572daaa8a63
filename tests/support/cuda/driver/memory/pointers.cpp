// What the driver says of an address.

#include "tests/support/cuda/driver/memory/memory.h"

#include <fmt/format.h>

#include <cstring>

namespace lz::fake_cuda {
namespace {

template <class T>
void write(void *data, T value) {
    std::memcpy(data, &value, sizeof value);
}

/// False: the address has no such attribute. `block`: null for memory that the driver does not know.
bool write_attribute(void *data, CUpointer_attribute which, const Block *block, uint64_t address) {
    switch (which) {
    case CU_POINTER_ATTRIBUTE_MAPPED:
        write<char>(data, block != nullptr);
        return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        write<unsigned>(data, 0);
        return block != nullptr;
    default:
        break;
    }
    if (!block)
        return false;
    switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        write(data, block->kind == BlockKind::Mapped ? nullptr : context_of_device(block->device).handle);
        return block->kind != BlockKind::Mapped;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        write<unsigned>(data, block->on_host() ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        write<CUdeviceptr>(data, address);
        return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        write<uint64_t>(data, block->on_host() ? address : 0);
        return block->on_host();
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        write<unsigned long long>(data, block->id);
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        write<int>(data, block->device);
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        write<CUdeviceptr>(data, block->begin);
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        write<size_t>(data, block->end - block->begin);
        return true;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        write<char>(data, 0);
        return true;
    default:
        return false;
    }
}

bool is_known(CUpointer_attribute which) {
    return which >= CU_POINTER_ATTRIBUTE_CONTEXT && which <= CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID;
}

} // namespace
} // namespace lz::fake_cuda

using namespace lz::fake_cuda; // NOLINT

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute which, CUdeviceptr address) {
    return call(__func__, [&](Lock &) {
        current_context();
        need(data, "data");
        const auto block = address_space().find(address);
        if (!is_known(which) || !write_attribute(data, which, block ? &*block : nullptr, address))
            refuse(CUDA_ERROR_INVALID_VALUE,
                   fmt::format("0x{:x} has no attribute {}", address, static_cast<int>(which)));
    });
}

// Unlike for one attribute, an address that the driver does not know is no error: all are 0 then.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *which, void **data,
                                CUdeviceptr address) {
    return call(__func__, [&](Lock &) {
        current_context();
        need(which, "attributes");
        need(data, "data");
        const auto block = address_space().find(address);
        for (unsigned i = 0; i < count; ++i) {
            if (!is_known(which[i]))
                refuse(CUDA_ERROR_INVALID_VALUE,
                       fmt::format("attribute {} is not known", static_cast<int>(which[i])));
            if (write_attribute(data[i], which[i], block ? &*block : nullptr, address))
                continue;
            switch (which[i]) {
            case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            case CU_POINTER_ATTRIBUTE_IS_MANAGED:
                write<unsigned>(data[i], 0);
                break;
            case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
                write<int>(data[i], -2);
                break;
            case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
                write<char>(data[i], 0);
                break;
            default:
                write<uint64_t>(data[i], 0);
            }
        }
    });
}
