#include "tests/support/cuda/driver/memory/address_space.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <sys/mman.h>

namespace lz::fake_cuda {
namespace {

constexpr uint64_t kGap = 64 << 10;

uint64_t round_up(uint64_t value, uint64_t to) {
    return (value + to - 1) / to * to;
}

} // namespace

std::shared_ptr<unsigned char> host_pages(size_t bytes) {
    constexpr size_t kSmall = 64 << 10;
    if (bytes < kSmall) {
        auto *memory =
            static_cast<unsigned char *>(::operator new(bytes, std::align_val_t{512}, std::nothrow));
        if (!memory)
            return nullptr;
        std::fill_n(memory, bytes, static_cast<unsigned char>(0));
        return {memory, [](unsigned char *p) { ::operator delete(p, std::align_val_t{512}); }};
    }
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return nullptr;
    madvise(memory, bytes, MADV_HUGEPAGE); // it is filled: that takes a fault each 2 MiB, not each 4 KiB
    return {static_cast<unsigned char *>(memory), [bytes](unsigned char *p) { munmap(p, bytes); }};
}

AddressSpace::AddressSpace() {
    for (size_t bytes = size_t{1} << 40; bytes >= size_t{1} << 30; bytes /= 2) {
        void *memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            continue;
        begin_ = reinterpret_cast<uint64_t>(memory);
        end_ = begin_ + bytes;
        next_ = begin_;
        holes_[begin_] = end_;
        return;
    }
}

uint64_t AddressSpace::reserve(size_t bytes, size_t align) {
    const std::unique_lock lock(mutex_);
    const auto take = [&](uint64_t from) -> uint64_t {
        for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
            const auto [begin, end] = *hole;
            const uint64_t at = round_up(std::max(begin, from), align);
            const uint64_t stop = round_up(at + bytes, kGap) + kGap;
            if (stop > end || stop < at)
                continue;
            holes_.erase(hole);
            if (at > begin)
                holes_[begin] = at;
            if (stop < end)
                holes_[stop] = end;
            next_ = stop;
            return at;
        }
        return 0;
    };
    const uint64_t at = take(next_);
    return at ? at : take(begin_);
}

void AddressSpace::release(uint64_t begin, size_t bytes) {
    const std::unique_lock lock(mutex_);
    uint64_t end = round_up(begin + bytes, kGap) + kGap;
    auto next = holes_.lower_bound(begin);
    if (next != holes_.end() && next->first == end) {
        end = next->second;
        next = holes_.erase(next);
    }
    if (next != holes_.begin())
        if (auto before = std::prev(next); before->second == begin) {
            before->second = end;
            return;
        }
    holes_[begin] = end;
}

uint64_t AddressSpace::add(Block block) {
    const std::unique_lock lock(mutex_);
    block.id = ++ids_;
    const uint64_t begin = block.begin;
    blocks_[begin] = std::move(block);
    return ids_;
}

std::optional<Block> AddressSpace::remove(uint64_t begin) {
    const std::unique_lock lock(mutex_);
    const auto found = blocks_.find(begin);
    if (found == blocks_.end())
        return std::nullopt;
    Block block = std::move(found->second);
    blocks_.erase(found);
    return block;
}

std::optional<Block> AddressSpace::find(uint64_t address) const {
    const std::shared_lock lock(mutex_);
    auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin() || address >= (--after)->second.end)
        return std::nullopt;
    return after->second;
}

bool AddressSpace::overlaps(uint64_t begin, uint64_t end) const {
    const std::shared_lock lock(mutex_);
    auto after = blocks_.lower_bound(end);
    return after != blocks_.begin() && std::prev(after)->second.end > begin;
}

void AddressSpace::remove_of(int device, std::initializer_list<BlockKind> kinds) {
    std::vector<Block> removed;
    {
        const std::unique_lock lock(mutex_);
        std::erase_if(blocks_, [&](const auto &entry) {
            const Block &b = entry.second;
            if (b.device != device || std::ranges::find(kinds, b.kind) == kinds.end())
                return false;
            removed.push_back(b);
            return true;
        });
    }
    for (const Block &b : removed)
        if (!b.on_host())
            release(b.begin, b.end - b.begin);
}

uint64_t AddressSpace::bytes_alive() const {
    const std::shared_lock lock(mutex_);
    uint64_t bytes = 0;
    for (const auto &[begin, block] : blocks_)
        if (block.kind != BlockKind::Variable)
            bytes += block.end - begin;
    return bytes;
}

bool AddressSpace::find_for_kernel(uint64_t address, int device, uint32_t reach, ptx::Range &range) const {
    const std::shared_lock lock(mutex_);
    auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin())
        return false;
    const Block &b = (--after)->second;
    if (address >= b.end)
        return false;
    const uint32_t self = 1u << device;
    if (b.kind == BlockKind::Mapped ? !(b.readers & self) : !b.on_host() && !(reach >> b.device & 1))
        return false;
    range = {b.begin, b.end, b.host, b.kind != BlockKind::Mapped || (b.writers & self) != 0};
    return true;
}

AddressSpace &address_space() {
    static auto *const space = new AddressSpace;
    return *space;
}

} // namespace lz::fake_cuda
