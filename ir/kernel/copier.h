#pragma once
/// Writes a kernel anew from another: regions are copied in the order of the text, values, accesses and loops
/// get new numbers. What stands around the copies is the caller's, by the builder.

#include "ir/kernel/builder.h"

#include <functional>
#include <vector>

namespace lz::ir {

class KernelCopier {
public:
    /// `replace` is asked for each instruction, whose operands are still those of `from`: the value that
    /// stands in its place, or kNoValue to have it copied. Both have to outlive the copier.
    explicit KernelCopier(const Kernel &from, std::function<KValue(const Instr &)> replace = {});

    KernelBuilder &builder() { return b_; }
    /// The copy of a value.
    KValue value(KValue v) const { return v == kNoValue ? v : values_[v]; }
    /// From now on `to`, which the builder made, stands for `from`.
    void define(KValue from, KValue to) { values_[from] = to; }

    void copy(const Region &region);
    void copy(KValue instr);
    void copy_loop(uint32_t id);
    /// The reductions of a loop, added to the one that is open.
    void copy_reductions(const Loop &loop);

private:
    const Kernel &from_;
    std::function<KValue(const Instr &)> replace_;
    KernelBuilder b_;
    std::vector<KValue> values_;
    std::vector<uint32_t> loops_;
};

} // namespace lz::ir
