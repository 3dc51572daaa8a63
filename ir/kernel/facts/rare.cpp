#include "ir/kernel/facts/rare.h"

#include "ir/kernel/facts/speculation.h"

#include <algorithm>
#include <utility>

namespace lz::ir {

namespace {

/// Who needs a value: nobody yet, one Rarely, or others too.
class Needs {
public:
    explicit Needs(const Kernel &kernel)
        : k_(kernel), owner_(kernel.instrs.size(), kNobody), region_(kernel.instrs.size(), 0) {}

    void run() {
        for (const Phase &phase : k_.phases)
            visit(phase.body);
        for (KValue v = 0; v < owner_.size(); ++v)
            owner_[v] = owner_of(v);
    }
    std::vector<KValue> owners() { return std::move(owner_); }
    /// The instructions, later ones of a region first.
    const std::vector<KValue> &visited() const { return visited_; }

private:
    static constexpr KValue kNobody = kNoValue - 1;

    KValue owner_of(KValue v) const {
        const KOpClass cls = info(k_.instrs[v].op).cls;
        const bool movable =
            (cls == KOpClass::Arith || cls == KOpClass::Compare || cls == KOpClass::Convert) &&
            may_speculate(k_, v);
        const KValue owner = owner_[v];
        return movable && owner < kNobody && region_[owner] == region_[v] ? owner : kNoValue;
    }

    void need(KValue v, KValue by) {
        if (v != kNoValue)
            owner_[v] = owner_[v] == kNobody || owner_[v] == by ? by : kNoValue;
    }

    /// Readers come before what they read.
    void visit(const Region &region) {
        const uint32_t here = ++regions_;
        for (const Stmt &stmt : region)
            if (stmt.kind == Stmt::Instruction)
                region_[stmt.id] = here;
        for (auto stmt = region.rbegin(); stmt != region.rend(); ++stmt) {
            if (stmt->kind == Stmt::Loop) {
                const Loop &loop = k_.loops[stmt->id];
                need(loop.begin, kNoValue);
                need(loop.end, kNoValue);
                for (const Reduction &r : loop.reductions) {
                    need(r.value, kNoValue);
                    need(r.index, kNoValue);
                }
                visit(loop.body);
                continue;
            }
            visited_.push_back(stmt->id);
            const Instr &instr = k_.instrs[stmt->id];
            const KValue mine = owner_of(stmt->id);
            for (size_t i = 0; i < std::size(instr.operands); ++i)
                need(instr.operands[i], instr.op == KOp::Rarely && i == 1 ? stmt->id : mine);
            if (instr.access == kNoValue)
                continue;
            const Access &access = k_.accesses[instr.access];
            need(access.predicate, kNoValue);
            for (const IndexTerm &term : access.terms)
                need(term.index, kNoValue);
        }
    }

    const Kernel &k_;
    std::vector<KValue> owner_, visited_;
    std::vector<uint32_t> region_; // number of the region an instruction stands in
    uint32_t regions_ = 0;
};

} // namespace

RareParts::RareParts(const Kernel &kernel) {
    if (std::ranges::find(kernel.instrs, KOp::Rarely, &Instr::op) == kernel.instrs.end()) {
        owner_.assign(kernel.instrs.size(), kNoValue);
        return;
    }
    Needs needs(kernel);
    needs.run();
    owner_ = needs.owners();
    std::vector<size_t> place(owner_.size());
    for (const KValue v : needs.visited()) {
        place[v] = owner_.size() - values_.size();
        if (only_for(v))
            values_.push_back(v);
    }
    std::ranges::sort(values_, {}, [&](KValue v) { return std::pair(owner_[v], place[v]); });
    for (const KValue v : values_)
        owners_.push_back(owner_[v]);
}

std::span<const KValue> RareParts::of(KValue rarely) const {
    const auto [first, last] = std::ranges::equal_range(owners_, rarely);
    return std::span(values_).subspan(static_cast<size_t>(first - owners_.begin()),
                                      static_cast<size_t>(last - first));
}

} // namespace lz::ir
