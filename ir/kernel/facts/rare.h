#pragma once
/// What is computed for few elements.

#include "ir/kernel/kernel.h"

#include <span>
#include <vector>

namespace lz::ir {

/// For each Rarely of a kernel the operations that nothing but its first value needs. They stand in one
/// region with it and have no effect, so an emitter may leave them out where no element wants that value.
class RareParts {
public:
    explicit RareParts(const Kernel &kernel);

    /// Whether the value is needed by the first value of one Rarely alone.
    bool only_for(KValue v) const { return owner_[v] != kNoValue; }
    /// These values of a Rarely, in the order of the region.
    std::span<const KValue> of(KValue rarely) const;

private:
    std::vector<KValue> owner_;           ///< by value: the Rarely, or kNoValue
    std::vector<KValue> values_, owners_; ///< those with an owner, sorted by it
};

} // namespace lz::ir
