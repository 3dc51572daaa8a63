#pragma once
/// The state of a running block, for the handlers of instructions.

#include "tests/support/cuda/ptx/machine.h"

#include <bit>
#include <string>

namespace lz::ptx {

constexpr uint32_t kAllLanes = ~0u;

/// Calls f(lane) for each lane of a mask, in order.
template <class F>
void for_lanes(uint32_t mask, F &&f) {
    if (mask == kAllLanes) {
        for (uint32_t lane = 0; lane < kWarpSize; ++lane)
            f(lane);
    } else {
        for (; mask; mask &= mask - 1)
            f(static_cast<uint32_t>(std::countr_zero(mask)));
    }
}

/// The same where f touches only the lane's own values, so that the compiler may do several at once.
template <class F>
void for_values(uint32_t mask, F &&f) {
    if (mask == kAllLanes) {
#ifndef __clang__ // it looks at the addresses at run time
#pragma GCC ivdep
#endif
        for (uint32_t lane = 0; lane < kWarpSize; ++lane)
            f(lane);
    } else {
        for_lanes(mask, f);
    }
}

/// Lanes that are at the same instruction.
struct Fragment {
    enum class Wait : uint8_t {
        None,
        Warp,  ///< for lanes of its mask, at a shuffle, a vote or a warp's barrier
        Block, ///< at a barrier of the block
    };
    uint32_t pc = 0, lanes = 0;
    Wait wait = Wait::None;
    uint32_t missing = 0; ///< Warp: lanes that have to come
};

/// An asynchronous copy into shared memory that nobody has waited for.
struct PendingCopy {
    uint32_t lane, group, to, bytes, bytes_read;
    const unsigned char *from;
};

struct Warp {
    unsigned char *frame = nullptr; ///< see Operand
    unsigned char *local = nullptr; ///< Kernel::local_bytes of each lane
    std::vector<uint32_t> written;  ///< for each register, the lanes that have a value
    std::vector<Fragment> fragments;
    std::vector<PendingCopy> copies;
    std::array<uint32_t, kWarpSize> groups{}; ///< of copies, that each lane has committed
    uint32_t index = 0;                       ///< in the block
    uint32_t exist = 0, ended = 0;            ///< lanes
    uint32_t epoch = 0;                       ///< counts this warp's own barriers
    uint64_t executed = 0;

    template <class T>
    T *lanes(const Operand &o) {
        return reinterpret_cast<T *>(frame + o.at);
    }
    /// A predicate: one bit a lane.
    uint32_t predicate(const Operand &o) {
        const uint32_t bits = *lanes<uint32_t>(o);
        return o.negated ? ~bits : bits;
    }
    void set_predicate(const Operand &o, uint32_t bits, uint32_t mask) {
        uint32_t &to = *lanes<uint32_t>(o);
        to = (to & ~mask) | (bits & mask);
    }
    /// The value of an integer register, as many bits as it has.
    uint64_t bits(const Operand &o, uint32_t lane) {
        switch (o.size) {
        case 2:
            return lanes<uint16_t>(o)[lane];
        case 4:
            return lanes<uint32_t>(o)[lane];
        default:
            return lanes<uint64_t>(o)[lane];
        }
    }
    void set_bits(const Operand &o, uint32_t lane, uint64_t value) {
        switch (o.size) {
        case 2:
            lanes<uint16_t>(o)[lane] = static_cast<uint16_t>(value);
            break;
        case 4:
            lanes<uint32_t>(o)[lane] = static_cast<uint32_t>(value);
            break;
        default:
            lanes<uint64_t>(o)[lane] = value;
        }
    }
};

/// Shared memory of a block, and who touched each byte since the last barrier.
class SharedMemory {
public:
    explicit SharedMemory(uint32_t bytes) : bytes_(bytes), shadow_(bytes) {}

    uint32_t size() const { return static_cast<uint32_t>(bytes_.size()); }
    unsigned char *data() { return bytes_.data(); }
    /// A new block: nothing has been written.
    void begin_block() {
        ++block_;
        ++epoch_;
    }
    void barrier() { ++epoch_; }

    enum class Access : uint8_t { Read, Write, Atomic };
    enum class Wrong : uint8_t { Nothing, Uninitialized, Race, InFlight };
    /// Notes an access by a thread (its number in the block) of a warp that has passed `warp_epoch` barriers
    /// of its own; what is wrong with it. `other`: the thread that it races with.
    Wrong touch(uint32_t at, uint32_t bytes, Access access, uint32_t thread, uint32_t warp_epoch,
                uint32_t &other);
    /// An asynchronous copy into it has begun, or has ended.
    void set_in_flight(uint32_t at, uint32_t bytes, bool in_flight);

private:
    struct Shadow {
        uint32_t block = 0;                       ///< in which it was written last
        uint32_t write_epoch = 0, read_epoch = 0; ///< the block's barriers
        uint32_t write_warp_epoch = 0, read_warp_epoch = 0;
        uint16_t writer = 0, reader = 0;
        bool atomic = false, in_flight = false;
    };
    /// Readers of several threads of one warp, or of several warps.
    static constexpr uint16_t kSeveralWarps = 0xffff, kSeveralLanes = 0x8000;

    std::vector<unsigned char> bytes_;
    std::vector<Shadow> shadow_;
    uint32_t block_ = 0, epoch_ = 0;
};

class Machine {
public:
    Machine(const Kernel &kernel, const Launch &launch);
    Counts run();

    /// Host memory for `bytes` at an address of an access; faults when there is none. The space of the
    /// instruction, or what a generic address says.
    unsigned char *access(Warp &w, const Instr &x, uint32_t lane, const Operand &address, uint32_t bytes,
                          SharedMemory::Access kind) {
        const uint64_t base =
            address.size == 4 ? w.lanes<uint32_t>(address)[lane] : w.lanes<uint64_t>(address)[lane];
        return resolve(w, x, lane, x.space, base + static_cast<uint64_t>(address.offset), bytes, kind);
    }
    unsigned char *resolve(Warp &w, const Instr &x, uint32_t lane, Space space, uint64_t at, uint32_t bytes,
                           SharedMemory::Access kind);

    [[noreturn]] void fault(Fault::Kind kind, const Warp &w, const Instr &x, uint32_t lane,
                            const std::string &what) const;

    std::mt19937_64 &rng() { return rng_; }
    SharedMemory &shared() { return shared_; }
    /// Counts the bank conflicts of a warp's access to shared memory, where they are wanted.
    void count_banks(Warp &w, const Instr &x, uint32_t mask, uint32_t bytes);

private:
    void begin_block(uint64_t block);
    void run_block();
    /// Until each of its lanes ended or waits.
    void run_warp(Warp &w);
    void run_fragment(Warp &w, size_t fragment);
    void check_sources(Warp &w, const Instr &x, uint32_t mask);
    /// Lanes of `mask` that may pass a shuffle now; the others' fragment keeps waiting.
    uint32_t pass_warp_sync(Warp &w, const Instr &x, uint32_t mask, uint32_t &missing);
    void release_barrier();
    void wait_copies(Warp &w, const Instr &x, uint32_t mask);
    uint32_t thread_of(const Warp &w, uint32_t lane) const { return w.index * kWarpSize + lane; }
    Dim thread_index(uint32_t thread) const;
    const Instr &at(uint32_t pc) const { return kernel_.code[pc]; }
    [[noreturn]] void stuck();

    const Kernel &kernel_;
    const Launch &launch_;
    std::mt19937_64 rng_;
    SharedMemory shared_;
    std::vector<Warp> warps_;
    std::vector<unsigned char> frames_, locals_;
    std::vector<uint64_t> counts_; ///< by instruction
    uint64_t bank_conflicts_ = 0;
    std::array<Range, 4> ranges_; ///< found lately
    size_t next_range_ = 0;
    Dim block_;
};

/// Fills the registers of lanes' own numbers before a warp starts.
void set_special(Warp &w, const Operand &to, uint32_t which, const Launch &launch, Dim block);

} // namespace lz::ptx
