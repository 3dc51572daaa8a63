#pragma once
/// Runs a kernel of a PTX module on the host, a warp's 32 lanes at a time, and finds what a GPU would not
/// say.
///
/// **What it reports**, with kernel, PTX line, block and thread: addresses outside live allocations or
/// without access, misaligned ones, registers and shared memory read before they were written, two threads
/// that touch the same shared byte (one of them writing) with no barrier between, or one of global memory
/// (Launch::check_global_races), lanes that a shuffle's mask names and that ended or wait elsewhere, threads
/// of a block that wait at different barriers, asynchronous copies read before they were waited for, another
/// block's shared memory that is touched before all blocks of the cluster have begun or after one may have
/// ended, and kernels that do not end.
///
/// What is ordered is exact, and nothing of it depends on the order of a run: by a barrier of the block, by
/// one of the cluster, and among the lanes of a mask by a warp's barrier; shuffles and votes order no memory.
///
/// **Order.** Blocks, or clusters of them, run one after the other in an order drawn from the seed, and so do
/// warps between barriers. Several threads may each run a part of the blocks (Launch::parts): global memory
/// is shared among them as among blocks of a GPU, and atomic operations on it are atomic. Lanes that took
/// different ways run apart, those furthest behind first, and meet again where their ways do.
///
/// **Arithmetic** is IEEE's, done by the host; the result of f16, bf16 and f32 operations that is not a
/// number is the canonical one of the PTX document.

#include "tests/support/cuda/ptx/module.h"

#include <atomic>
#include <functional>
#include <random>
#include <span>

namespace lz::ptx {

struct Dim {
    uint32_t x = 1, y = 1, z = 1;
    uint64_t count() const { return uint64_t{x} * y * z; }
};

/// A piece of memory that device code may touch.
struct Range {
    uint64_t begin = 0, end = 0;   ///< device addresses
    unsigned char *host = nullptr; ///< where `begin` is for the host
    bool writable = true;
};

/// What the kernel did wrong. The message names it, the kernel, the line of the PTX, block and thread.
struct Fault : std::runtime_error {
    enum class Kind : uint8_t { Address, Misaligned, Uninitialized, Race, Synchronization, Trap, Endless };
    Fault(Kind kind, const std::string &text) : std::runtime_error(text), kind(kind) {}
    Kind kind;
};

struct Launch {
    Dim grid, block;
    Dim cluster; ///< blocks of a cluster, which run side by side: 16 at most
    uint32_t dynamic_shared = 0;
    std::span<const unsigned char>
        parameters; ///< Kernel::parameter_bytes, laid out as Kernel::parameters says
    /// The range that holds a device address. False: there is none. Called by whoever called run().
    std::function<bool(uint64_t address, Range &)> find;
    uint64_t seed = 0;
    uint64_t max_instructions = uint64_t{1} << 36; ///< of a warp; beyond it the kernel does not end
    uint32_t shared_limit = 227 << 10;             ///< bytes of a block
    /// Run only every `parts`-th block (or cluster) of the order, from `part` on. All parts have one seed.
    unsigned part = 0, parts = 1;
    uint64_t first = 0; ///< block (or cluster) along x: those before it are left out, as if they had been run
    const std::atomic<bool> *stop = nullptr; ///< when it is set, no other block is begun
    bool count_bank_conflicts = false;       ///< Counts::bank_conflicts is made
    /// Races in global memory are found, too, among threads of a block and among blocks; `parts` is 1. Every
    /// byte of each range that is touched takes 28 bytes more. What only atomic operations order is reported.
    bool check_global_races = false;
};

struct Counts {
    uint64_t thread_instructions = 0;
    std::vector<uint64_t> by_name; ///< thread instructions, as Kernel::names
    /// Turns that loads and stores of warps took in shared memory beyond the one that each needs, because
    /// lanes wanted other words of one bank. There are 32 banks of 4 bytes; of accesses of 8 bytes a half of
    /// the warp comes at a time, of 16 a quarter.
    uint64_t bank_conflicts = 0;
};

/// Runs the kernel to its end. Throws Fault, and std::invalid_argument for a launch that a driver would
/// refuse. A kernel that was compiled for clusters of a size has them whatever Launch::cluster says.
Counts run(const Kernel &kernel, const Launch &launch);

// Generic addresses: shared, local and parameter memory lie in windows far above all global memory.
constexpr uint64_t kSharedWindow = uint64_t{1} << 60, kLocalWindow = uint64_t{2} << 60,
                   kParamWindow = uint64_t{3} << 60;

} // namespace lz::ptx
