#include "runtime/cuda/device.h"

#include "runtime/api/parallel.h"
#include "runtime/streams/threads.h"

#include <fmt/format.h>

#include <algorithm>

namespace lz::runtime::cuda {

CudaDevice::CudaDevice(const Driver &driver, int ordinal, int index)
    : driver_(driver), ordinal_(ordinal), index_(index), name_(fmt::format("cuda:{}", index)),
      group_(std::make_shared<StreamGroup>(name_, ir::ErrorKind::Cuda)) {
    check(driver_.cuDeviceGet(&handle_, ordinal), "finding the device");
}

CUcontext CudaDevice::make_context() const {
    check_not_forked();
    const std::lock_guard lock(context_mutex_);
    if (const CUcontext made = context_.load(std::memory_order_relaxed))
        return made;
    CUcontext context = nullptr;
    check(driver_.cuDevicePrimaryCtxRetain(&context, handle_), "making its context");
    try {
        const Current current(driver_, context);
        check(current.result(), "entering its context");
        words_ = static_cast<uint64_t *>(allocate_pinned(2 * ir::kMaxStreams * sizeof(uint64_t)));
    } catch (...) {
        driver_.cuDevicePrimaryCtxRelease(handle_);
        throw;
    }
    std::fill_n(words_, 2 * ir::kMaxStreams, uint64_t{0});
    context_.store(context, std::memory_order_release);
    return context;
}

CudaDevice::~CudaDevice() {
    if (!context_ || in_forked_child())
        return;
    free_pinned(words_);
    driver_.cuDevicePrimaryCtxRelease(handle_);
}

void CudaDevice::check(CUresult result, std::string_view what) const {
    group_->check();
    if (result == CUDA_SUCCESS) [[likely]]
        return;
    if (is_sticky(result)) {
        group_->lose(fmt::format("{} failed with {}.", what, describe(driver_, result)));
        group_->check();
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        throw ir::Failure(ir::ErrorKind::OutOfMemory,
                          fmt::format("{}: {} failed, because there is not enough memory.", name_, what));
    throw ir::Failure(ir::ErrorKind::Cuda,
                      fmt::format("{}: {} failed with {}.", name_, what, describe(driver_, result)));
}

void CudaDevice::note(CUresult result, std::string_view what) const noexcept {
    try {
        if (result != CUDA_SUCCESS && !group_->lost())
            group_->lose(fmt::format("{} failed with {}.", what, describe(driver_, result)));
    } catch (...) { // no memory for the sentence: the next call finds the same error
    }
}

int CudaDevice::attribute(CUdevice_attribute which) const {
    int value = 0;
    check(driver_.cuDeviceGetAttribute(&value, which, handle_), "asking for its attributes");
    return value;
}

void *CudaDevice::allocate_pinned(size_t bytes) const {
    void *memory = nullptr;
    check(driver_.cuMemHostAlloc(&memory, std::max<size_t>(bytes, 1),
                                 CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
          fmt::format("getting {} bytes of pinned memory", bytes));
    return memory;
}

void CudaDevice::free_pinned(void *memory) const noexcept {
    if (!memory)
        return;
    const Current current(driver_, context_);
    driver_.cuMemFreeHost(memory); // of a lost device it is gone
}

} // namespace lz::runtime::cuda
