#include "runtime/allocator/fault_slabs.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace lz::runtime {

namespace {
constexpr size_t kSlabBytes = size_t{64} << 10;

size_t class_of(size_t count) {
    return static_cast<size_t>(std::bit_width(std::max<size_t>(count, 1) - 1));
}
size_t bytes_of(size_t size_class) {
    return sizeof(ir::Fault) << size_class;
}
} // namespace

void *FaultSlabs::take(size_t count) {
    const size_t size_class = class_of(count), bytes = bytes_of(size_class);
    if (bytes > kSlabBytes / 2)
        return allocate_(bytes);
    const std::lock_guard lock(mutex_);
    if (Unused *const again = unused_[size_class]) {
        unused_[size_class] = again->next;
        return again;
    }
    if (static_cast<size_t>(end_ - next_) < bytes) {
        auto *const slab = static_cast<std::byte *>(allocate_(kSlabBytes));
        if (!slab)
            return nullptr;
        next_ = slab; // what is left of the slab before is less than this block
        end_ = slab + kSlabBytes;
    }
    return std::exchange(next_, next_ + bytes);
}

void FaultSlabs::give_back(void *faults, size_t count) noexcept {
    const size_t size_class = class_of(count);
    if (bytes_of(size_class) > kSlabBytes / 2)
        return free_slab_(faults);
    const std::lock_guard lock(mutex_);
    unused_[size_class] = new (faults) Unused{unused_[size_class]};
}

} // namespace lz::runtime
