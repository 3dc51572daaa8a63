#include "codegen/llvm/analysis.h"

#include "ir/diagnostic.h"
#include "ir/kernel/facts/speculation.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace lz::codegen {

using namespace ir;

namespace {

/// Operations of a random word, where four neighbours share a block.
constexpr int kPhiloxCost = 20;

} // namespace

const AxisStride *stride_along(const Access &access, AxisId axis) {
    for (const AxisStride &s : access.strides)
        if (s.axis == axis)
            return &s;
    return nullptr;
}

Analysis::Analysis(const Kernel &kernel, const Phase &phase)
    : k_(kernel), rare_(kernel), axes_(kernel.instrs.size()), written_(kernel.buffers.size()) {
    for (const AxisId axis : phase.grid)
        number(axis);
    visit(phase.body);
}

void Analysis::number(AxisId axis) {
    if (std::ranges::find(walked_, axis) == walked_.end())
        walked_.push_back(axis);
    LZ_CHECK(walked_.size() <= 64, "a phase walks at most 64 axes");
}

uint64_t Analysis::bit(AxisId axis) const {
    const auto at = std::ranges::find(walked_, axis);
    return at == walked_.end() ? 0 : uint64_t{1} << (at - walked_.begin());
}

void Analysis::visit(const Region &region) {
    for (const Stmt &stmt : region) {
        if (stmt.kind == Stmt::Loop) {
            const Loop &loop = k_.loops[stmt.id];
            if (loop.order == LoopOrder::Lanes) {
                one_lanes_axis_ = one_lanes_axis_ && (lanes_axis_ == kNoAxis || lanes_axis_ == loop.axis);
                lanes_axis_ = loop.axis;
            }
            number(loop.axis);
            visit(loop.body);
            continue;
        }
        const Instr &instr = k_.instrs[stmt.id];
        uint64_t set = 0;
        for (const KValue v : instr.operands)
            if (v != kNoValue)
                set |= axes_[v];
        if (instr.op == KOp::Axis)
            set |= bit(static_cast<AxisId>(instr.index));
        if (instr.op == KOp::Product)
            set = ~uint64_t{0};
        if (instr.access != kNoValue) {
            const Access &access = k_.accesses[instr.access];
            for (const AxisStride &s : access.strides)
                set |= bit(s.axis);
            for (const IndexTerm &t : access.terms)
                set |= axes_[t.index];
            if (access.predicate != kNoValue)
                set |= axes_[access.predicate];
            if (instr.op == KOp::Store)
                written_[access.buffer] = true;
        }
        if (instr.op == KOp::LoopResult) {
            const Loop &loop = k_.loops[instr.index];
            const Reduction &r = loop.reductions[instr.bits / 2];
            set |= axes_[r.value];
            if (r.index != kNoValue)
                set |= axes_[r.index];
            set &= ~bit(loop.axis);
            for (const KValue bound : {loop.begin, loop.end})
                if (bound != kNoValue)
                    set |= axes_[bound];
        }
        axes_[stmt.id] = set;
    }
}

bool Analysis::pure(KValue v) const {
    switch (info(k_.instrs[v].op).cls) {
    case KOpClass::Leaf:
    case KOpClass::Compare:
    case KOpClass::Convert:
    case KOpClass::Arith:
        return may_speculate(k_, v);
    case KOpClass::Math:
        return k_.instrs[v].op == KOp::Philox; // all others are expanded
    default:
        return false;
    }
}

int Analysis::cost(const Region &region, AxisId axis) const {
    int n = 0;
    for (const Stmt &stmt : region) {
        if (stmt.kind == Stmt::Loop)
            n += cost(k_.loops[stmt.id].body, axis) + static_cast<int>(k_.loops[stmt.id].reductions.size());
        else if (depends(stmt.id, axis) && !rare_.only_for(stmt.id) &&
                 info(k_.instrs[stmt.id].op).cls != KOpClass::Leaf)
            n += k_.instrs[stmt.id].op == KOp::Philox ? kPhiloxCost : 1;
    }
    return n;
}

Analysis::Chain Analysis::chain(const Region &region, AxisId axis, int lanes, int bytes) const {
    Chain chain = {.cost = cost(region, axis)};
    std::unordered_map<KValue, int> depth;       // of what varies
    std::unordered_map<KValue, size_t> last_use; // its place in the region
    std::unordered_set<KValue> uniform;
    const auto counts = [&](KValue v) { return depends(v, axis) && !rare_.only_for(v); };
    const auto for_operands = [&](const Instr &instr, const auto &f) {
        for (const KValue v : instr.operands)
            if (v != kNoValue)
                f(v);
        if (instr.access == kNoValue)
            return;
        for (const IndexTerm &term : k_.accesses[instr.access].terms)
            f(term.index);
        if (k_.accesses[instr.access].predicate != kNoValue)
            f(k_.accesses[instr.access].predicate);
    };
    for (size_t at = 0; at < region.size(); ++at) {
        const KValue id = region[at].id;
        const Instr &instr = k_.instrs[id];
        if (region[at].kind == Stmt::Loop || !counts(id))
            continue;
        const bool works = info(instr.op).cls != KOpClass::Leaf && info(instr.op).cls != KOpClass::Memory;
        chain.loads += instr.op == KOp::Load;
        int deepest = 0;
        for_operands(instr, [&](KValue v) {
            if (!depends(v, axis)) {
                if (k_.instrs[v].op != KOp::Const)
                    uniform.insert(v);
                return;
            }
            last_use[v] = at;
            if (const auto found = depth.find(v); found != depth.end())
                deepest = std::max(deepest, found->second);
        });
        depth[id] = deepest + works;
        chain.depth = std::max(chain.depth, deepest + works);
    }
    int live = 0;
    for (size_t at = 0; at < region.size(); ++at) {
        const KValue id = region[at].id;
        if (region[at].kind == Stmt::Loop || !counts(id))
            continue;
        const Instr &instr = k_.instrs[id];
        const auto registers = [&](KValue v) {
            const bool mask =
                k_.instrs[v].dtype == DType::Bool || info(k_.instrs[v].op).cls == KOpClass::Leaf;
            return mask ? 0 : std::max(1, lanes * size_of(k_.instrs[v].dtype) / bytes);
        };
        std::unordered_set<KValue> ending;
        for_operands(instr, [&](KValue v) {
            if (const auto found = last_use.find(v);
                found != last_use.end() && found->second == at && counts(v))
                ending.insert(v);
        });
        for (const KValue v : ending)
            live -= registers(v);
        if (last_use.contains(id))
            live += registers(id);
        chain.varying = std::max(chain.varying, live);
    }
    chain.uniform = static_cast<int>(uniform.size());
    return chain;
}

int Analysis::widest(const Region &region, AxisId axis) const {
    int bytes = 1;
    for (const Stmt &stmt : region) {
        if (stmt.kind == Stmt::Loop) {
            bytes = std::max(bytes, widest(k_.loops[stmt.id].body, axis));
            continue;
        }
        const Instr &instr = k_.instrs[stmt.id];
        if (depends(stmt.id, axis) && !rare_.only_for(stmt.id))
            bytes = std::max(bytes, size_of(instr.dtype));
    }
    return bytes;
}

bool Analysis::draws(const Region &region, AxisId axis) const {
    return std::ranges::any_of(region, [&](const Stmt &stmt) {
        return stmt.kind == Stmt::Loop ? draws(k_.loops[stmt.id].body, axis)
                                       : k_.instrs[stmt.id].op == KOp::Philox && depends(stmt.id, axis);
    });
}

bool Analysis::has_loop(const Region &region) {
    return std::any_of(region.begin(), region.end(), [](const Stmt &s) { return s.kind == Stmt::Loop; });
}

} // namespace lz::codegen
