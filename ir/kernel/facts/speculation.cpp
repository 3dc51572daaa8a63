/// What may be computed where nobody asks for it, and what stands where it must not.

#include "ir/kernel/facts/speculation.h"

namespace lz::ir {

namespace {

/// An instruction counts in its region when a store, a bound of a loop or a reduction of the region needs it:
/// then it is computed for somebody whenever the region runs. What does not, and is read by loops inside of
/// the region, is computed for nobody where those run no time.
class Demand {
public:
    explicit Demand(const Kernel &kernel)
        : k_(kernel), region_(kernel.instrs.size(), 0), counts_(kernel.instrs.size(), false),
          inside_(kernel.instrs.size(), false) {}

    KValue run() {
        for (const Phase &phase : k_.phases)
            visit(phase.body, {});
        return found_;
    }

private:
    void visit(const Region &region, std::span<const Reduction> reductions) {
        const uint32_t here = ++regions_;
        for (const Stmt &stmt : region)
            if (stmt.kind == Stmt::Instruction)
                region_[stmt.id] = here;
        const auto need = [&](KValue v) {
            if (v != kNoValue)
                (region_[v] == here ? counts_ : inside_)[v] = true;
        };
        const auto need_inside = [&](KValue v) {
            if (v != kNoValue)
                inside_[v] = true;
        };
        for (const Reduction &r : reductions) {
            need(r.value);
            need(r.index);
        }
        for (auto stmt = region.rbegin(); stmt != region.rend(); ++stmt) { // readers before what they read
            if (stmt->kind == Stmt::Loop) {
                const Loop &loop = k_.loops[stmt->id];
                need(loop.begin);
                need(loop.end);
                visit(loop.body, loop.reductions);
                continue;
            }
            const Instr &instr = k_.instrs[stmt->id];
            if (instr.op == KOp::Store || counts_[stmt->id]) {
                for_operands(instr, need);
            } else if (inside_[stmt->id]) {
                if (!may_speculate(k_, stmt->id))
                    found_ = stmt->id;
                for_operands(instr, need_inside);
            }
        }
    }

    template <class F>
    void for_operands(const Instr &instr, F f) const {
        for (const KValue v : instr.operands)
            f(v);
        if (instr.access == kNoValue)
            return;
        const Access &access = k_.accesses[instr.access];
        f(access.predicate);
        for (const IndexTerm &term : access.terms)
            f(term.index);
    }

    const Kernel &k_;
    std::vector<uint32_t> region_;      // number of the region an instruction stands in
    std::vector<bool> counts_, inside_; // needed in its own region; needed by loops in it
    uint32_t regions_ = 0;
    KValue found_ = kNoValue;
};

} // namespace

bool may_speculate(const Kernel &kernel, KValue v) {
    const Instr &instr = kernel.instrs[v];
    if (instr.op == KOp::Load || info(instr.op).cls == KOpClass::Check)
        return false;
    if ((instr.op != KOp::Div && instr.op != KOp::Rem) || is_float(instr.dtype))
        return true;
    const Instr &divisor = kernel.instrs[instr.operands[1]];
    return divisor.op == KOp::CheckNonzero || (divisor.op == KOp::Const && divisor.bits != 0);
}

KValue find_speculated(const Kernel &kernel) {
    return Demand(kernel).run();
}

} // namespace lz::ir
