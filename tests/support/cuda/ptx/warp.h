#pragma once
/// The state of a running block, for the handlers of instructions.

#include "tests/support/cuda/ptx/machine.h"

#include <array>
#include <bit>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

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

constexpr uint32_t kMostClusterBlocks = 16, kMostThreads = 1024;

/// Shared addresses of other blocks: the block's rank and one more times this, and the place in its memory.
constexpr uint64_t kSharedOfBlock = uint64_t{1} << 24;

/// Lanes that are at the same instruction.
struct Fragment {
    enum class Wait : uint8_t {
        None,
        Warp,    ///< for lanes of its mask, at a shuffle, a vote or a warp's barrier
        Block,   ///< at a barrier of the block
        Cluster, ///< at one of the cluster
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
    std::vector<uint32_t> written;  ///< for each register, the lanes that have a value, a whole one
    /// The lanes that have a value in each 16 bits of a register: where one was made of parts not all of
    /// which had been written.
    using Parts = std::array<uint32_t, 4>;
    std::unordered_map<uint32_t, Parts> partly;
    std::vector<Fragment> fragments;
    std::vector<PendingCopy> copies;
    std::array<uint32_t, kWarpSize> groups{}; ///< of copies, that each lane has committed
    uint32_t block = 0;                       ///< its rank in the cluster
    uint32_t index = 0;                       ///< in the block
    uint32_t exist = 0, ended = 0;            ///< lanes
    /// Lanes between arriving at a cluster's barrier and waiting at it: before all others have come, and
    /// after.
    uint32_t arrived = 0, released = 0;
    uint64_t executed = 0;
    uint32_t time = 1; ///< counts this warp's own barriers

    /// These lanes meet at a barrier: each knows what any of them did or knew.
    void meet(uint32_t mask);
    /// Whether what another lane did at a time is ordered before what the lane does now.
    bool knows(uint32_t lane, uint32_t other, uint32_t at) const {
        return at < all_met || at < met[lane][other];
    }

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

private:
    using Times = std::array<uint32_t, kWarpSize>;
    uint32_t all_met = 0;               ///< the time of the last barrier of all lanes
    std::array<Times, kWarpSize> met{}; ///< of each lane: until when it knows what each other did
};

enum class Access : uint8_t { Read, Write, Atomic };

/// The barriers of the blocks that run. What threads do is stamped with the last one of their block.
struct Barriers {
    uint32_t now = 0;
    uint32_t begin = 0;                               ///< of these blocks
    uint32_t cluster = 0;                             ///< the last one of all of them
    std::array<uint32_t, kMostClusterBlocks> block{}; ///< the last one of each, or of all of them

    void begin_blocks() {
        pass_cluster();
        begin = now;
    }
    void pass_block(uint32_t rank) { block[rank] = ++now; }
    void pass_cluster() {
        cluster = ++now;
        block.fill(now);
    }
};

/// Who touched each byte of a memory. Two accesses by two threads, one of which writes, are a race where
/// nothing orders them: no barrier of their block, of their cluster, or of lanes that both were among.
class Shadows {
public:
    /// Shared memory belongs to the blocks that run, and holds nothing when they begin.
    Shadows(uint64_t bytes, bool is_shared) : bytes_(bytes), is_shared_(is_shared) {}

    enum class Wrong : uint8_t { Nothing, Uninitialized, Race, InFlight };
    /// Who else touched a byte: a block of the cluster and its thread, or not one that can be named.
    struct Other {
        bool is_known = false, is_of_these = true;
        uint32_t block = 0, thread = 0;
    };
    /// Notes an access by a lane of a warp; what is wrong with it, and whom it races with. `used` has a bit
    /// for each byte, of at most 32: others are left out.
    Wrong touch(const Barriers &barriers, uint64_t at, uint32_t bytes, uint32_t used, Access access,
                const Warp &w, uint32_t lane, Other &other);
    /// An asynchronous copy into it has begun, or has ended.
    void set_in_flight(uint64_t at, uint32_t bytes, bool in_flight);

private:
    /// Whose reads are noted: those of some lanes of a warp, of warps of a block, of blocks of the cluster.
    enum class Readers : uint8_t { Lanes, Warps, Blocks };
    struct Byte {
        uint32_t write_barrier = 0, read_barrier = 0; ///< 0: nobody did
        uint32_t write_time = 0, read_time = 0;       ///< of the warp
        uint32_t read_lanes = 0;
        uint16_t writer = 0;      ///< thread_number
        uint16_t reader_warp = 0; ///< warp_number
        Readers readers = Readers::Lanes;
        bool atomic = false, in_flight = false;
        bool read_before = false; ///< by blocks that ran before
    };
    static uint16_t thread_number(const Warp &w, uint32_t lane) {
        return static_cast<uint16_t>(w.block * kMostThreads + w.index * kWarpSize + lane);
    }
    static uint16_t warp_number(const Warp &w) {
        return static_cast<uint16_t>(w.block * (kMostThreads / kWarpSize) + w.index);
    }
    bool is_write_ordered(const Barriers &barriers, const Byte &b, const Warp &w, uint32_t lane) const;
    bool are_reads_ordered(const Barriers &barriers, const Byte &b, const Warp &w, uint32_t lane) const;
    static void note_read(const Barriers &barriers, Byte &b, const Warp &w, uint32_t lane, bool ordered);
    Wrong touch(const Barriers &barriers, Byte &b, Access access, const Warp &w, uint32_t lane,
                Other &other) const;

    std::vector<Byte> bytes_;
    const bool is_shared_;
};

/// Shared memory of a block.
class SharedMemory {
public:
    explicit SharedMemory(uint32_t bytes) : bytes_(bytes), shadows_(bytes, true) {}

    uint32_t size() const { return static_cast<uint32_t>(bytes_.size()); }
    unsigned char *data() { return bytes_.data(); }
    Shadows &shadows() { return shadows_; }

private:
    std::vector<unsigned char> bytes_;
    Shadows shadows_;
};

class Machine {
public:
    Machine(const Kernel &kernel, const Launch &launch);
    Counts run();

    /// Host memory for `bytes` at an address of an access; faults when there is none. The space of the
    /// instruction, or what a generic address says.
    unsigned char *access(Warp &w, const Instr &x, uint32_t lane, const Operand &address, uint32_t bytes,
                          Access kind) {
        const uint64_t base =
            address.size == 4 ? w.lanes<uint32_t>(address)[lane] : w.lanes<uint64_t>(address)[lane];
        return resolve(w, x, lane, x.space, base + static_cast<uint64_t>(address.offset), bytes, kind);
    }
    unsigned char *resolve(Warp &w, const Instr &x, uint32_t lane, Space space, uint64_t at, uint32_t bytes,
                           Access kind);

    [[noreturn]] void fault(Fault::Kind kind, const Warp &w, const Instr &x, uint32_t lane,
                            const std::string &what) const;

    std::mt19937_64 &rng() { return rng_; }
    SharedMemory &shared_of(const Warp &w) { return blocks_[w.block].shared; }
    uint32_t blocks() const { return static_cast<uint32_t>(blocks_.size()); } ///< of a cluster
    /// Counts the bank conflicts of a warp's access to shared memory, where they are wanted.
    void count_banks(Warp &w, const Instr &x, uint32_t mask, uint32_t bytes);

private:
    struct Block {
        Dim index;
        SharedMemory shared;
        std::span<Warp> warps;
    };
    struct FoundRange {
        Range range;
        Shadows *shadows = nullptr; ///< where races are looked for
    };
    /// Something that another block's end has to come after.
    struct RemoteAccess {
        const Warp *warp = nullptr; ///< null: there was none
        const Instr *instr = nullptr;
        uint32_t lane = 0, block = 0;
    };

    void begin_blocks(uint64_t cluster);
    void run_blocks();
    /// Until each of its lanes ended or waits.
    void run_warp(Warp &w);
    void run_fragment(Warp &w, size_t fragment);
    void check_sources(Warp &w, const Instr &x, uint32_t mask);
    /// Which parts of its results a move has written. Faults where there is nothing to be moved.
    void note_move(Warp &w, const Instr &x, uint32_t mask);
    /// Lanes of `mask` that may pass a shuffle now; the others' fragment keeps waiting.
    uint32_t pass_warp_sync(Warp &w, const Instr &x, uint32_t mask, uint32_t &missing);
    /// Whether all of a block waited at one barrier, and goes on.
    bool release_block(Block &block);
    /// Whether all threads had come to a barrier of the cluster.
    bool release_cluster();
    void arrive(Warp &w, const Instr &x, uint32_t mask);
    /// Lanes that need not wait: all others had arrived.
    uint32_t pass_cluster_wait(Warp &w, const Instr &x, uint32_t mask);
    void touch(Warp &w, const Instr &x, uint32_t lane, Shadows &shadows, uint64_t at, uint32_t bytes,
               Access kind, std::string_view memory, uint64_t address);
    unsigned char *resolve_shared(Warp &w, const Instr &x, uint32_t lane, Space space, uint64_t at,
                                  uint32_t bytes, Access kind);
    const FoundRange &find_range(Warp &w, const Instr &x, uint32_t lane, uint64_t address, uint32_t bytes);
    void wait_copies(Warp &w, const Instr &x, uint32_t mask);
    uint32_t thread_of(const Warp &w, uint32_t lane) const { return w.index * kWarpSize + lane; }
    Dim thread_index(uint32_t thread) const;
    const Instr &at(uint32_t pc) const { return kernel_.code[pc]; }
    [[noreturn]] void stuck();

    const Kernel &kernel_;
    const Launch &launch_;
    std::mt19937_64 rng_;
    Barriers barriers_;
    std::vector<Block> blocks_; ///< of a cluster
    std::vector<Warp> warps_;   ///< of all of them
    RemoteAccess remote_;       ///< the first since the last barrier of the cluster
    std::vector<unsigned char> frames_, locals_;
    std::vector<uint64_t> counts_; ///< by instruction
    uint64_t bank_conflicts_ = 0;
    std::array<FoundRange, 4> ranges_; ///< found lately
    size_t next_range_ = 0;
    std::map<uint64_t, Shadows> shadows_; ///< of ranges, by their begin
};

/// Fills the registers of lanes' own numbers before a warp starts.
void set_special(Warp &w, const Operand &to, uint32_t which, const Launch &launch, Dim block);

} // namespace lz::ptx
