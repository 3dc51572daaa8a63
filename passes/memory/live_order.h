#pragma once
/// In which order steps leave the fewest bytes alive at once: what order_steps and recompute share.

#include "ir/target.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace lz::passes {

/// Which buffers steps write and read, of those that take memory between steps. Filled step by step, in an
/// order in which they may run.
class Traffic {
public:
    explicit Traffic(size_t buffers);

    void begin_step();
    void add_scratch(int64_t bytes) { scratch.back() += bytes; }
    void add_made(uint32_t buffer);
    void add_read(uint32_t buffer);
    void end();

    size_t steps() const { return scratch.size(); }
    std::span<const uint32_t> made_by(uint32_t step) const { return part(made_, made_begin_, step); }
    std::span<const uint32_t> read_by(uint32_t step) const { return part(read_, read_begin_, step); }

    std::vector<int64_t> bytes;            ///< by buffer: 0 where no value lies in it between steps
    std::vector<int64_t> scratch;          ///< by step: bytes
    std::vector<uint32_t> makers, readers; ///< by buffer: how many steps

private:
    static std::span<const uint32_t> part(const std::vector<uint32_t> &all,
                                          const std::vector<uint32_t> &begin, uint32_t step) {
        return std::span(all).subspan(begin[step], begin[step + 1] - begin[step]);
    }
    std::vector<uint32_t> made_, read_, made_begin_, read_begin_;
    std::vector<uint32_t> seen_made_, seen_read_; // by buffer: the last step
};

/// The first step comes before the second.
using StepEdge = std::pair<uint32_t, uint32_t>;

/// The most bytes of values and of scratch that are alive at once in this order, if nothing is written over
/// what it is computed from.
int64_t peak_of(const Traffic &traffic, std::span<const uint32_t> order);

/// Bytes that have to be alive at once for what order_steps and recompute do about it: 48 MiB, or a 64th of
/// the device's memory, where that is less. Fewer are less than the code of the process takes, and what is
/// done about them changes with the sizes, by one value after the other: steps of a transformer of two layers
/// with Adam were 15 Programs for 256 lengths where 1 MiB was enough, and are 8. They take as long.
int64_t least_alive(const ir::DeviceInfo &device);

/// An order with a lower peak than that of the steps' numbers, by at least a 64th part of it; else, and where
/// that peak is below `least` bytes, nothing. O(n log n) in the number of operands and edges. It is looked
/// for again for other sizes (found_again.h).
std::vector<uint32_t> find_order(const Traffic &traffic, std::span<const StepEdge> edges, int64_t least);

} // namespace lz::passes
