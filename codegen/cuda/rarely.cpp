#include "codegen/cuda/emitter.h"

namespace lz::codegen::cuda {

using namespace ir;

// A branch takes three turns of an SM, and what stands before it is done before what stands behind it. So a
// packet asks once for all of its elements: its loop over them ends at the choice, and goes on behind it.
//
//     float v7[8], most7 = 87.0f;
//     for e: v7[e] = (the usual value); most7 = at_least(most7, x[e]);
//     if (!(most7 <= 87.0f))
//         for e: if (!(x[e] <= 87.0f)) v7[e] = (the rare one);
//     for e: ...

void PhaseEmitter::write_rarely(KValue v) {
    const Instr &instr = kernel_.instrs[v];
    const std::string name = fmt::format("v{}", v);
    w_.line("{} {} = {};", value_type(v), name, value(instr.operands[2]));
    w_.open("if ({})", value(instr.operands[0]));
    const bool was = std::exchange(in_rare_, true);
    for (const KValue x : rare_.of(v))
        write_instr(x);
    in_rare_ = was;
    w_.line("{} = {};", name, value(instr.operands[1]));
    w_.close();
    names_[v] = name;
}

/// What a choice asks: whether a value is beyond a constant, or NaN where it is written as !(x <= limit).
/// Nothing where it asks something else.
PhaseEmitter::Question PhaseEmitter::question(const Instr &choice) const {
    Question q{.comparison = choice.operands[0], .x = kNoValue, .limit = kNoValue, .or_nan = false};
    if (kernel_.instrs[q.comparison].op == KOp::Not) {
        q.comparison = kernel_.instrs[q.comparison].operands[0];
        q.or_nan = true;
    }
    const Instr &comparison = kernel_.instrs[q.comparison];
    const KValue x = comparison.operands[0], limit = comparison.operands[1];
    if (comparison.op == (q.or_nan ? KOp::Le : KOp::Gt) && kernel_.instrs[x].dtype == DType::F32 &&
        kernel_.instrs[limit].op == KOp::Const) {
        q.x = x;
        q.limit = limit;
    }
    return q;
}

/// The values that elements first ... last - 1 of a region compute and what stands behind `last` reads, or a
/// choice that stands there.
std::set<KValue> PhaseEmitter::read_behind(const Region &region, size_t first, size_t last) const {
    std::set<KValue> read;
    const auto reads = [&](KValue v) {
        const Instr &instr = kernel_.instrs[v];
        read.insert(std::begin(instr.operands), std::end(instr.operands));
        if (instr.access == kNoValue)
            return;
        const Access &a = kernel_.accesses[instr.access];
        read.insert(a.predicate);
        for (const IndexTerm &t : a.terms)
            read.insert(t.index);
    };
    for (size_t i = 0; i < region.size(); ++i)
        if (i > last || rare_.only_for(region[i].id))
            reads(region[i].id);
    if (const Instr &asks = kernel_.instrs[region[last].id]; asks.op == KOp::Rarely)
        read.insert({asks.operands[1], question(asks).x});
    for (const Loop &loop : kernel_.loops)
        for (const Reduction &r : loop.reductions)
            read.insert({r.value, r.index});
    std::set<KValue> across;
    for (size_t i = first; i < last; ++i) {
        const KValue v = region[i].id;
        const KOpClass cls = info(kernel_.instrs[v].op).cls;
        if (read.contains(v) && names_[v].empty() && !is_dead(v) && !rare_.only_for(v) &&
            cls != KOpClass::Leaf && cls != KOpClass::Control)
            across.insert(v);
    }
    return across;
}

/// Elements first ... choice of a packet's region: what stands before the choice, then the choice. `loop`
/// writes a loop over the packet's elements, `before` what stands before the choice in it.
void PhaseEmitter::write_choice(const Region &region, size_t first, size_t choice, int width,
                                const ElementLoop &loop, const std::function<void()> &before) {
    const KValue v = region[choice].id;
    const Instr &instr = kernel_.instrs[v];
    const Question q = question(instr);
    across_ = read_behind(region, first, choice);
    for (const KValue x : across_)
        w_.line("{} v{}[{}];", value_type(x), x, width);
    const std::string name = fmt::format("v{}[e]", v), most = fmt::format("most{}", v);
    w_.line("{} v{}[{}];", value_type(v), v, width);
    w_.line("float {} = {};", most, value(q.limit));
    for (const KValue asked : {instr.operands[0], q.comparison})
        if (uses_[asked] == 1)
            names_[asked] = "unread";
    loop([&] {
        before();
        w_.line("{} = {};", name, value(instr.operands[2]));
        w_.line("{0} = {1}({2}, {0});", most, q.or_nan ? "at_least" : "fmaxf", value(q.x));
    });
    across_.clear();
    w_.open(fmt::runtime(q.or_nan ? "if (!({} <= {}))" : "if ({} > {})"), most, value(q.limit));
    loop([&] {
        w_.open(fmt::runtime(q.or_nan ? "if (!({} <= {}))" : "if ({} > {})"), value(q.x), value(q.limit));
        const bool was = std::exchange(in_rare_, true);
        for (const KValue x : rare_.of(v))
            write_instr(x);
        in_rare_ = was;
        w_.line("{} = {};", name, value(instr.operands[1]));
        w_.close();
    });
    w_.close();
    names_[v] = name;
}

} // namespace lz::codegen::cuda
