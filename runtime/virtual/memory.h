#pragma once
/// The address spaces of virtual GPUs. A device pointer lies in a range that nothing can read; the bytes lie
/// in a second range, at the same offset, that nobody knows but the device. So a host that follows a device
/// pointer faults, always, and so does a kernel that was not handed the bytes. Blocks are apart from each
/// other in both ranges, by gaps that cannot be read either.

#include "ir/types/type.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <span>
#include <vector>

namespace lz::runtime {

/// Addresses that were reserved and can be neither read nor written until they are opened.
class ReservedRange {
public:
    /// Throws Failure(OutOfMemory) when the system has no such range.
    explicit ReservedRange(size_t bytes);
    ~ReservedRange();
    ReservedRange(const ReservedRange &) = delete;
    ReservedRange &operator=(const ReservedRange &) = delete;

    char *begin() const { return begin_; }
    size_t size() const { return size_; }
    bool holds(const void *address) const {
        const auto *a = static_cast<const char *>(address);
        return a >= begin_ && a < begin_ + size_;
    }
    /// Makes pages readable and writable, or gives them back; false when the system refuses.
    bool open(size_t offset, size_t bytes);
    void close(size_t offset, size_t bytes) noexcept;

private:
    char *begin_;
    size_t size_;
};

/// Blocks of a range, none touching another. Any thread may call it.
class RangeBlocks {
public:
    explicit RangeBlocks(size_t size) : free_{{0, size}} {}

    /// The offset of a new block, or SIZE_MAX when no hole is large enough.
    size_t take(size_t bytes);
    /// The block is found no more, but its place stays taken. Returns its size; 0: there was none.
    size_t retire(size_t offset) noexcept;
    /// The place of a retired block of so many bytes can be taken again.
    void give_back(size_t offset, size_t bytes) noexcept;

    struct Found {
        size_t offset = 0, size = 0;
        bool ok = false;
    };
    /// The block that an offset is in, or just behind (where an empty array at its end is).
    Found find(size_t offset) const {
        const std::shared_lock lock(mutex_);
        return find_locked(offset);
    }
    /// Whether each of `count` offsets, offset(i), is in a block.
    template <class Offset>
    bool holds_all(size_t count, Offset offset) const {
        const std::shared_lock lock(mutex_);
        for (size_t i = 0; i < count; ++i)
            if (!find_locked(offset(i)).ok)
                return false;
        return true;
    }

private:
    static size_t place(size_t bytes);
    Found find_locked(size_t offset) const;

    mutable std::shared_mutex mutex_;
    std::map<size_t, size_t> free_; ///< holes by offset
    std::map<size_t, size_t> used_; ///< blocks by offset
};

/// Memory of one virtual GPU.
class DeviceSpace {
public:
    DeviceSpace(ir::Device device, size_t range)
        : device_(device), addresses_(range), bytes_(range), blocks_(range) {}

    ir::Device device() const { return device_; }
    /// Whether an address is one of this device's, in use or not.
    bool holds(const void *address) const { return addresses_.holds(address); }
    /// A device pointer; null when there is no room.
    void *allocate(size_t bytes);
    /// It is no device pointer any more; the bytes stay until they are released. Returns their number.
    size_t retire(void *memory) noexcept;
    void release(void *memory, size_t bytes) noexcept;
    /// Where the bytes of a device pointer are; null when it is in no block.
    void *bytes_at(const void *address) const;
    /// Likewise; how many there are from there to the end of the block.
    void *bytes_at(const void *address, size_t &left) const;
    /// Device pointers, none of them null, become where their bytes are. False, and nothing is changed, if
    /// one is in no block of this device.
    bool translate(std::span<void *> pointers) const;

private:
    size_t offset_of(const void *address) const {
        return static_cast<size_t>(static_cast<const char *>(address) - addresses_.begin());
    }
    const ir::Device device_;
    ReservedRange addresses_, bytes_;
    RangeBlocks blocks_;
};

/// Page-locked memory of the host, as a flag: a range of its own, ordinary bytes.
class PinnedSpace {
public:
    explicit PinnedSpace(size_t range) : range_(range), blocks_(range) {}
    void *allocate(size_t bytes);
    void free(void *memory) noexcept;
    bool holds(const void *address) const;
    /// Whether an address is in its range, in use or not.
    bool reserves(const void *address) const { return range_.holds(address); }

private:
    ReservedRange range_;
    RangeBlocks blocks_;
};

} // namespace lz::runtime
