#pragma once
/// Facts about one phase that decide where its values are computed and in which form.

#include "ir/kernel/facts/rare.h"
#include "ir/kernel/kernel.h"

#include <cstdint>
#include <vector>

namespace lz::codegen {

inline constexpr ir::AxisId kNoAxis = UINT8_MAX;

class Analysis {
public:
    Analysis(const ir::Kernel &kernel, const ir::Phase &phase);

    /// The axes that a value depends on, a bit of each. A loop's result does not depend on the loop's axis.
    uint64_t axes(ir::KValue v) const { return axes_[v]; }
    /// The bit of an axis that the phase walks; 0 for others. Kernels of many phases have many axes.
    uint64_t bit(ir::AxisId axis) const;
    bool depends(ir::KValue v, ir::AxisId axis) const { return (axes_[v] & bit(axis)) != 0; }
    /// Whether the phase stores to the buffer: loads from it stay where they are.
    bool written(uint16_t buffer) const { return written_[buffer]; }
    /// Computable anywhere where its operands are, at any time, without effect or fault.
    bool pure(ir::KValue v) const;
    /// Operations of the region, those of nested loops too, that work on vectors along `axis`, but for what
    /// is rarely computed.
    int cost(const ir::Region &region, ir::AxisId axis) const;
    /// Of a region without loops, whose values are in registers of `bytes` that have `lanes` each.
    struct Chain {
        int cost = 0;    ///< as of `cost`
        int depth = 0;   ///< the most of these of which each needs the result of the one before it
        int loads = 0;   ///< from memory along `axis`
        int varying = 0; ///< registers that are needed at a time for a register of elements
        int uniform = 0; ///< values that are the same for all elements and no constants
    };
    Chain chain(const ir::Region &region, ir::AxisId axis, int lanes, int bytes) const;
    /// Size of the largest value that varies along `axis`; indices into memory count as 4.
    int widest(const ir::Region &region, ir::AxisId axis) const;
    /// What only the first value of a Rarely needs.
    const ir::RareParts &rare() const { return rare_; }
    /// Whether random words that vary along `axis` are drawn in the region or in loops of it.
    bool draws(const ir::Region &region, ir::AxisId axis) const;
    /// Whether a region holds a loop.
    static bool has_loop(const ir::Region &region);
    /// Whether every Lanes loop of the phase is over one axis, so that Phase::inner speaks of each.
    bool one_lanes_axis() const { return one_lanes_axis_; }

private:
    void number(ir::AxisId axis);
    void visit(const ir::Region &region);

    const ir::Kernel &k_;
    ir::RareParts rare_;
    std::vector<ir::AxisId> walked_; ///< in the order of their bits
    std::vector<uint64_t> axes_;
    std::vector<bool> written_;
    ir::AxisId lanes_axis_ = kNoAxis;
    bool one_lanes_axis_ = true;
};

/// The stride of an access along an axis, or nullptr where it does not move along it.
const ir::AxisStride *stride_along(const ir::Access &access, ir::AxisId axis);

} // namespace lz::codegen
