#include "runtime/cuda/segments.h"

#include "runtime/api/parallel.h"
#include "runtime/streams/threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lz::runtime::cuda {

namespace {

/// As PyTorch's: a call of the driver takes some microseconds, and a piece of which anything is used stays.
constexpr size_t kPieceBytes = size_t{20} << 20;

CUdeviceptr address(const void *memory) {
    return reinterpret_cast<CUdeviceptr>(memory);
}
char *pointer(CUdeviceptr memory) {
    return reinterpret_cast<char *>(memory); // NOLINT: addresses of the device are the host's size
}

} // namespace

bool Segments::supported() {
    const std::lock_guard lock(mutex_);
    if (std::exchange(asked_, true))
        return supported_;
    const Driver &driver = device_.driver();
    int there = 0;
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_.handle()};
    supported_ = driver.cuDeviceGetAttribute(&there, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                             device_.handle()) == CUDA_SUCCESS &&
                 there != 0 &&
                 driver.cuMemGetAllocationGranularity(&unit_, &properties_,
                                                      CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) == CUDA_SUCCESS &&
                 unit_ != 0 && unit_ <= kPieceBytes;
    return supported_;
}

CUmemAccessDesc Segments::access_of(CUdevice device, bool enable) const {
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    access.flags = enable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return access;
}

char *Segments::reserve() {
    check_not_forked();
    const Entered entered(device_, "reserving addresses");
    CUdeviceptr begin = 0;
    const CUresult result = device_.driver().cuMemAddressReserve(&begin, addresses(), 0, 0, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return nullptr;
    device_.check(result, "reserving addresses");
    return pointer(begin);
}

void Segments::release(char *begin) noexcept {
    if (in_forked_child())
        return;
    const Current current(device_.driver(), device_.context());
    const std::lock_guard lock(mutex_);
    unmap_all(address(begin), address(begin) + addresses());
    device_.driver().cuMemAddressFree(address(begin), addresses()); // of a lost device it is gone
}

void Segments::map(char *at, size_t bytes) {
    check_not_forked();
    const Entered entered(device_, "an allocation");
    const std::lock_guard lock(mutex_);
    const CUdeviceptr begin = address(at), end = begin + bytes;
    CUresult result = CUDA_SUCCESS;
    try {
        for (CUdeviceptr piece = begin; piece < end && result == CUDA_SUCCESS;
             piece += kPieceBytes / unit_ * unit_)
            result = map_piece(piece, std::min<size_t>(end - piece, kPieceBytes / unit_ * unit_));
        if (result == CUDA_SUCCESS) {
            std::vector<CUmemAccessDesc> access = {access_of(device_.handle(), true)};
            for (const CUdevice reader : readers_)
                access.push_back(access_of(reader, true));
            result = device_.driver().cuMemSetAccess(begin, bytes, access.data(), access.size());
        }
        if (result == CUDA_ERROR_OUT_OF_MEMORY)
            throw ir::Failure(
                ir::ErrorKind::OutOfMemory,
                fmt::format("{} has no {} bytes for a segment that grows.", device_.name(), bytes));
        device_.check(result, "an allocation");
    } catch (...) { // nothing used it yet
        unmap_all(begin, end);
        throw;
    }
}

CUresult Segments::map_piece(CUdeviceptr at, size_t bytes) {
    const auto piece = pieces_.emplace(at, bytes).first;
    const Driver &driver = device_.driver();
    CUmemGenericAllocationHandle handle = 0;
    CUresult result = driver.cuMemCreate(&handle, bytes, &properties_, 0);
    if (result == CUDA_SUCCESS) {
        result = driver.cuMemMap(at, bytes, 0, handle, 0);
        driver.cuMemRelease(handle); // the memory stays as long as it is mapped
    }
    if (result != CUDA_SUCCESS)
        pieces_.erase(piece);
    return result;
}

ExpandableMemory::Range Segments::pieces(char *at, size_t bytes) noexcept {
    if (in_forked_child())
        return {};
    Range range;
    const CUdeviceptr begin = address(at), end = begin + bytes;
    const std::lock_guard lock(mutex_);
    for (auto piece = pieces_.lower_bound(begin);
         piece != pieces_.end() && piece->first + piece->second <= end; ++piece) {
        if (!range.begin)
            range.begin = pointer(piece->first);
        range.bytes += piece->second;
    }
    return range;
}

void Segments::unmap(char *at, size_t bytes) noexcept {
    if (in_forked_child() || bytes == 0)
        return;
    finish_();
    const Current current(device_.driver(), device_.context());
    const std::lock_guard lock(mutex_);
    unmap_all(address(at), address(at) + bytes);
}

/// The context is current, and nothing uses them.
void Segments::unmap_all(CUdeviceptr begin, CUdeviceptr end) noexcept {
    for (auto piece = pieces_.lower_bound(begin);
         piece != pieces_.end() && piece->first + piece->second <= end; piece = pieces_.erase(piece))
        device_.driver().cuMemUnmap(piece->first, piece->second); // of a lost device it is gone
}

void Segments::set_access(CUdevice other, bool enable) {
    const std::lock_guard lock(mutex_);
    const CUmemAccessDesc access = access_of(other, enable);
    for (const auto &[at, bytes] : pieces_)
        device_.check(device_.driver().cuMemSetAccess(at, bytes, &access, 1), "changing peer access");
    std::erase(readers_, other);
    if (enable)
        readers_.push_back(other);
}

} // namespace lz::runtime::cuda
