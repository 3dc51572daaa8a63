#include "runtime/virtual/memory.h"

#include "ir/diagnostic.h"
#include "runtime/cpu/host_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <sys/mman.h>
#include <system_error>

namespace lz::runtime {

namespace {

/// Places are multiples of this, so that gaps are pages whatever their size is.
constexpr size_t kUnit = size_t{64} << 10;
constexpr size_t kGap = kUnit;

} // namespace

// --- ReservedRange

ReservedRange::ReservedRange(size_t bytes) : begin_(nullptr), size_(round_up(bytes, kHugePage)) {
    void *memory =
        mmap(nullptr, size_ + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        throw ir::Failure(
            ir::ErrorKind::OutOfMemory,
            fmt::format(
                "The system has no range of {} addresses for a virtual GPU ({}); less memory for each "
                "of them (LAZULI_VIRTUAL_MEMORY), fewer of them or a higher limit of addresses "
                "(ulimit -v) may help.",
                bytes, std::generic_category().message(errno)));
    auto *begin = static_cast<char *>(memory);
    const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
    if (before)
        munmap(begin, before);
    begin_ = begin + before;
    if (const size_t after = kHugePage - before)
        munmap(begin_ + size_, after);
}

ReservedRange::~ReservedRange() {
    munmap(begin_, size_);
}

bool ReservedRange::open(size_t offset, size_t bytes) {
    char *const at = begin_ + offset;
    if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0)
        return false;
    if (bytes >= kHugePage)
        madvise(at, bytes, MADV_HUGEPAGE); // refusal is fine
    return true;
}

void ReservedRange::close(size_t offset, size_t bytes) noexcept {
    mmap(begin_ + offset, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

// --- RangeBlocks

size_t RangeBlocks::place(size_t bytes) {
    return round_up(bytes, bytes >= kHugePage ? kHugePage : kUnit) + kGap;
}

size_t RangeBlocks::take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    const size_t unit = bytes >= kHugePage ? kHugePage : kUnit;
    for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
        const auto [begin, size] = *hole;
        const size_t at = round_up(begin, unit), end = at + place(bytes);
        if (end > begin + size)
            continue;
        free_.erase(hole);
        if (at > begin)
            free_[begin] = at - begin;
        if (begin + size > end)
            free_[end] = begin + size - end;
        used_[at] = bytes;
        return at;
    }
    return SIZE_MAX;
}

size_t RangeBlocks::retire(size_t offset) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(offset);
    if (found == used_.end())
        return 0;
    const size_t bytes = found->second;
    used_.erase(found);
    return bytes;
}

void RangeBlocks::give_back(size_t offset, size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    size_t begin = offset, end = offset + place(bytes);
    auto next = free_.lower_bound(begin);
    if (next != free_.end() && next->first == end) {
        end += next->second;
        next = free_.erase(next);
    }
    if (next != free_.begin())
        if (auto before = std::prev(next); before->first + before->second == begin) {
            before->second = end - before->first;
            return;
        }
    try {
        free_[begin] = end - begin;
    } catch (const std::bad_alloc &) {
        // These addresses are not used again.
    }
}

RangeBlocks::Found RangeBlocks::find_locked(size_t offset) const {
    auto next = used_.upper_bound(offset);
    if (next == used_.begin())
        return {};
    --next;
    if (offset > next->first + next->second)
        return {};
    return {next->first, next->second, true};
}

// --- DeviceSpace

void *DeviceSpace::allocate(size_t bytes) {
    const size_t offset = blocks_.take(bytes);
    if (offset == SIZE_MAX)
        return nullptr;
    if (!bytes_.open(offset, round_up(bytes, kUnit))) {
        blocks_.give_back(offset, blocks_.retire(offset));
        return nullptr;
    }
    return addresses_.begin() + offset;
}

size_t DeviceSpace::retire(void *memory) noexcept {
    return holds(memory) ? blocks_.retire(offset_of(memory)) : 0;
}

void DeviceSpace::release(void *memory, size_t bytes) noexcept {
    bytes_.close(offset_of(memory), round_up(bytes, kUnit));
    blocks_.give_back(offset_of(memory), bytes);
}

void *DeviceSpace::bytes_at(const void *address) const {
    size_t left = 0;
    return bytes_at(address, left);
}

void *DeviceSpace::bytes_at(const void *address, size_t &left) const {
    const size_t offset = offset_of(address);
    const RangeBlocks::Found found = blocks_.find(offset);
    if (!found.ok)
        return nullptr;
    left = found.offset + found.size - offset;
    return bytes_.begin() + offset;
}

bool DeviceSpace::translate(std::span<void *> pointers) const {
    if (!std::ranges::all_of(pointers, [&](const void *p) { return holds(p); }) ||
        !blocks_.holds_all(pointers.size(), [&](size_t i) { return offset_of(pointers[i]); }))
        return false;
    for (void *&pointer : pointers)
        pointer = bytes_.begin() + offset_of(pointer);
    return true;
}

// --- PinnedSpace

void *PinnedSpace::allocate(size_t bytes) {
    const size_t offset = blocks_.take(bytes);
    if (offset == SIZE_MAX)
        return nullptr;
    if (!range_.open(offset, round_up(bytes, kUnit))) {
        blocks_.give_back(offset, blocks_.retire(offset));
        return nullptr;
    }
    return range_.begin() + offset;
}

void PinnedSpace::free(void *memory) noexcept {
    if (!range_.holds(memory))
        return;
    const auto offset = static_cast<size_t>(static_cast<char *>(memory) - range_.begin());
    const size_t bytes = blocks_.retire(offset);
    if (bytes == 0)
        return;
    range_.close(offset, round_up(bytes, kUnit));
    blocks_.give_back(offset, bytes);
}

bool PinnedSpace::holds(const void *address) const {
    return range_.holds(address) &&
           blocks_.find(static_cast<size_t>(static_cast<const char *>(address) - range_.begin())).ok;
}

} // namespace lz::runtime
