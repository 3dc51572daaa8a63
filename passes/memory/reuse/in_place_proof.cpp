#include "passes/memory/reuse/in_place_proof.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

bool same_spec(const ArgSpec &a, const ArgSpec &b) {
    return a.constant == b.constant && std::ranges::equal(a.terms, b.terms, [](const auto &x, const auto &y) {
               return x.word == y.word && x.coefficient == y.coefficient;
           });
}

/// The value of an optional argument against a default.
bool same_arg(const Segment &segment, ArgId a, ArgId b, int64_t absent) {
    if (a == b)
        return true;
    const ArgSpec none{absent, {}};
    return same_spec(a == kNoArg ? none : segment.args[a], b == kNoArg ? none : segment.args[b]);
}

const AxisStride *stride_along(const Access &access, AxisId axis) {
    const auto it = std::ranges::find(access.strides, axis, &AxisStride::axis);
    return it == access.strides.end() ? nullptr : &*it;
}

} // namespace

InPlaceProof::InPlaceProof(const Kernel &kernel)
    : kernel_(kernel), in_product_(kernel.buffers.size(), false) {
    std::vector<AxisId> loops;
    for (uint32_t p = 0; p < kernel.phases.size(); ++p) {
        const Phase &phase = kernel.phases[p];
        if (phase.contraction) {
            in_product_[phase.contraction->lhs.buffer] = true;
            in_product_[phase.contraction->rhs.buffer] = true;
        }
        walk(phase.body, p, loops);
    }
}

void InPlaceProof::walk(const Region &region, uint32_t phase, std::vector<AxisId> &loops) {
    for (const Stmt &stmt : region) {
        if (stmt.kind == Stmt::Loop) {
            loops.push_back(kernel_.loops[stmt.id].axis);
            walk(kernel_.loops[stmt.id].body, phase, loops);
            loops.pop_back();
            continue;
        }
        const Instr &instr = kernel_.instrs[stmt.id];
        if (instr.op == KOp::Load || instr.op == KOp::Store)
            uses_.push_back(
                {kernel_.accesses[instr.access].buffer, instr.op == KOp::Store, instr.access, phase, loops});
    }
}

bool InPlaceProof::same_map(const Segment &segment, const Access &a, const Access &b) {
    if (!a.terms.empty() || !b.terms.empty() || a.strides.size() != b.strides.size() ||
        !same_arg(segment, a.offset, b.offset, 0))
        return false;
    return std::ranges::all_of(a.strides, [&](const AxisStride &s) {
        const AxisStride *t = stride_along(b, s.axis);
        return t && same_arg(segment, s.stride, t->stride, 1);
    });
}

bool InPlaceProof::allowed(const Segment &segment, uint16_t in, uint16_t out) const {
    if (in_product_[in] || in_product_[out] ||
        size_of(kernel_.buffers[in].dtype) != size_of(kernel_.buffers[out].dtype))
        return false;
    const Use *first = nullptr;
    bool stored = false;
    for (const Use &use : uses_) {
        if (use.buffer != in && use.buffer != out)
            continue;
        const Access &access = kernel_.accesses[use.access];
        if (!first) {
            first = &use;
            if (!access.terms.empty())
                return false;
        } else if (use.phase != first->phase || !same_map(segment, kernel_.accesses[first->access], access)) {
            return false;
        }
        if (!std::ranges::all_of(use.loops,
                                 [&](AxisId axis) { return stride_along(access, axis) != nullptr; }))
            return false;
        if (!use.store && stored)
            return false;
        stored |= use.store;
    }
    return stored;
}

} // namespace lz::passes
