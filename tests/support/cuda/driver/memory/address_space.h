#pragma once
/// Addresses that device code may touch, and where their bytes are for the host. Device memory lies at
/// addresses that the host cannot read; page-locked memory has the host's own.

#include "tests/support/cuda/ptx/machine.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

namespace lz::fake_cuda {

enum class BlockKind : uint8_t {
    Device,     ///< cuMemAlloc
    Async,      ///< cuMemAllocAsync
    Variable,   ///< of a module
    Mapped,     ///< a piece of a reserved range with memory behind it
    Pinned,     ///< cuMemHostAlloc
    Registered, ///< cuMemHostRegister
};

struct Block {
    uint64_t begin = 0, end = 0;
    unsigned char *host = nullptr; ///< where `begin` is for the host
    BlockKind kind = BlockKind::Device;
    int device = 0;                      ///< whose memory it is, or whose context it was made in
    uint32_t readers = 0, writers = 0;   ///< Mapped: devices that were given access, one bit each
    unsigned flags = 0;                  ///< of host memory
    uint64_t id = 0;                     ///< counts blocks
    std::shared_ptr<unsigned char> keep; ///< the memory

    bool on_host() const { return kind == BlockKind::Pinned || kind == BlockKind::Registered; }
};

/// Zeroed pages of the host, given back with the last owner; null when there are none.
std::shared_ptr<unsigned char> host_pages(size_t bytes);

/// Any thread may call it.
class AddressSpace {
public:
    AddressSpace();

    /// Addresses that nobody has, with a gap behind them; 0 when there are none.
    uint64_t reserve(size_t bytes, size_t align);
    void release(uint64_t begin, size_t bytes);
    /// Whether an address is one of those that only devices can have.
    bool holds(uint64_t address) const { return address >= begin_ && address < end_; }

    uint64_t add(Block block); ///< Returns its id.
    /// The block that begins there; none when there is none.
    std::optional<Block> remove(uint64_t begin);
    std::optional<Block> find(uint64_t address) const;
    /// Whether any block has one of the addresses.
    bool overlaps(uint64_t begin, uint64_t end) const;
    /// Calls change(Block &) for the block that begins there.
    template <class F>
    bool change(uint64_t begin, F &&f) {
        const std::unique_lock lock(mutex_);
        const auto found = blocks_.find(begin);
        if (found == blocks_.end())
            return false;
        f(found->second);
        return true;
    }
    /// All blocks of a device, of some kinds: removes them.
    void remove_of(int device, std::initializer_list<BlockKind> kinds);
    uint64_t bytes_alive() const;

    /// What code of a device finds at an address. `reach`: devices whose memory its context may touch.
    bool find_for_kernel(uint64_t address, int device, uint32_t reach, ptx::Range &range) const;

private:
    uint64_t begin_ = 0, end_ = 0;
    mutable std::shared_mutex mutex_;
    std::map<uint64_t, uint64_t> holes_; ///< begin -> end
    uint64_t next_ = 0;                  ///< where to look first, so that addresses come back late
    std::map<uint64_t, Block> blocks_;
    uint64_t ids_ = 0;
};

/// Never destroyed: streams may still run when the process ends.
AddressSpace &address_space();

} // namespace lz::fake_cuda
