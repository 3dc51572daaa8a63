#pragma once
/// May a kernel write an output over an input that dies with it? Proven from the kernel's accesses.

#include "ir/program/program.h"

#include <vector>

namespace lz::passes {

/// What one kernel does to its buffers, gathered once and asked for pairs of them.
class InPlaceProof {
public:
    explicit InPlaceProof(const ir::Kernel &kernel);

    /// True when buffer `out` may have the memory of buffer `in` in this segment, whatever its arguments are:
    /// each element of `in` is read only by the grid point and loop iteration that writes the same element of
    /// `out`, and before it does. That is so when, of both buffers,
    ///  - all accesses stand in one phase and go through the same affine map (offset and strides; there are
    ///    no index terms),
    ///  - the map moves along every loop around them, so that no iteration meets the element of another,
    ///  - in program order every load stands before the first store.
    /// Grid points meet no element of each other, because a store that two of them made would be a race
    /// already.
    bool allowed(const ir::Segment &segment, uint16_t in, uint16_t out) const;

private:
    struct Use {
        uint16_t buffer;
        bool store;
        uint32_t access;
        uint32_t phase;
        std::vector<ir::AxisId> loops; // around it
    };
    void walk(const ir::Region &region, uint32_t phase, std::vector<ir::AxisId> &loops);
    static bool same_map(const ir::Segment &segment, const ir::Access &a, const ir::Access &b);

    const ir::Kernel &kernel_;
    std::vector<Use> uses_;        // in program order
    std::vector<bool> in_product_; // by buffer: read tile by tile, ahead of the epilogue
};

} // namespace lz::passes
