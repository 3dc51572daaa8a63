#include "codegen/cuda/emitter.h"

namespace lz::codegen::cuda {

using namespace ir;

// A branch takes three turns of an SM, and what stands before it is done before what stands behind it. So a
// packet asks once for all of its elements: its loop over them ends at the choice, and goes on behind it.
//
//     float v7[8], most7 = 87.0f;
//     for e: v7[e] = (the usual value); most7 = maximum(most7, x[e]);
//     if (!(most7 <= 87.0f))
//         for e: if (!(x[e] <= 87.0f)) v7[e] = (the rare one);
//     for e: ...

/// The rare value of a choice, into what is named so, and what it alone needs.
void PhaseEmitter::write_rare(KValue choice, const std::string &name) {
    const bool was = std::exchange(in_rare_, true);
    for (const KValue x : rare_.of(choice))
        write_instr(x);
    in_rare_ = was;
    w_.line("{} = {};", name, value(kernel_.instrs[choice].operands[1]));
}

void PhaseEmitter::write_rarely(KValue v) {
    const Instr &instr = kernel_.instrs[v];
    const bool across = across_.contains(v);
    const std::string name = fmt::format("v{}{}", v, across ? "[e]" : "");
    w_.line("{}{} = {};", across ? "" : fmt::format("{} ", value_type(v)), name, value(instr.operands[2]));
    open("if ({})", value(instr.operands[0]));
    write_rare(v, name);
    close();
    names_.give(v, {.name = name, .of_element = in_element_});
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

void PhaseEmitter::for_each_read(KValue v, const std::function<void(KValue)> &f) const {
    const Instr &instr = kernel_.instrs[v];
    if (rounded(instr) != kNoValue && names_.can_read(instr.operands[0]))
        f(instr.operands[0]);
    else
        for_each_operand(instr, f);
    const KValue x = instr.operands[0];
    if (instr.op == KOp::Rarely)
        f(question(instr).x);
    else if (instr.op == KOp::Store && names_.has(x) && !names_.can_read(x)) // rounded with its neighbour
        f(kernel_.instrs[x].operands[0]);
}

/// The values that statements first ... last - 1 of a region compute and that are read behind the loop in
/// which they stand: by what follows statement `last`, and by what is rarely needed there.
std::set<KValue> PhaseEmitter::read_behind(const Region &region, size_t first, size_t last) const {
    std::set<KValue> read;
    const auto mark = [&](KValue x) { read.insert(x); };
    for (size_t i = 0; i < region.size(); ++i) {
        const KValue v = region[i].id;
        const Instr &instr = kernel_.instrs[v];
        if (i == last && instr.op == KOp::Rarely) // the usual value is read with what stands before
            read.insert({instr.operands[1], question(instr).x});
        if (i <= last && !rare_.only_for(v))
            continue;
        for_each_read(v, mark);
        // A half of several readers is rounded once.
        read.insert(std::begin(instr.operands), std::end(instr.operands));
    }
    for (const Loop &loop : kernel_.loops)
        for (const Reduction &r : loop.reductions)
            read.insert({r.value, r.index});
    std::set<KValue> across;
    for (size_t i = first; i < last; ++i) {
        const KValue v = region[i].id;
        const KOpClass cls = info(kernel_.instrs[v].op).cls;
        if (read.contains(v) && !names_.has(v) && !is_dead(v) && !rare_.only_for(v) &&
            cls != KOpClass::Leaf && cls != KOpClass::Control)
            across.insert(v);
    }
    return across;
}

/// Statements first ... last - 1 of a packet's region in one loop over its elements, which `element` writes;
/// what is read behind them is kept for all elements.
void PhaseEmitter::write_segment(const Region &region, size_t first, size_t last, int width,
                                 const ElementLoop &loop, const std::function<void()> &element) {
    across_ = read_behind(region, first, last);
    for (const KValue x : across_)
        w_.line("{} v{}[{}];", value_type(x), x, width);
    loop(element);
    for (const KValue x : std::exchange(across_, {})) {
        Written written = names_[x];
        written.name = fmt::format("v{}[e]", x);
        written.of_element = true;
        names_.give(x, std::move(written));
    }
}

/// Statements first ... choice of a packet's region: what stands before the choice, then the choice. `loop`
/// writes a loop over the packet's elements, `before` what stands before the choice in it.
void PhaseEmitter::write_choice(const Region &region, size_t first, size_t choice, int width,
                                const ElementLoop &loop, const std::function<void()> &before) {
    const KValue v = region[choice].id;
    const Instr &instr = kernel_.instrs[v];
    const Question q = question(instr);
    const std::string name = fmt::format("v{}[e]", v), most = fmt::format("most{}", v);
    w_.line("{} v{}[{}];", value_type(v), v, width);
    w_.line("float {} = {};", most, value(q.limit));
    if (const KValue asked = instr.operands[0]; uses_[asked] == 1) {
        names_.leave_unread(asked);
        if (asked != q.comparison && uses_[q.comparison] == 1)
            names_.leave_unread(q.comparison);
    }
    write_segment(region, first, choice, width, loop, [&] {
        before();
        w_.line("{} = {};", name, value(instr.operands[2]));
        w_.line("{0} = {1}({2}, {0});", most, q.or_nan ? "maximum" : "fmaxf", value(q.x));
    });
    open(fmt::runtime(q.or_nan ? "if (!({} <= {}))" : "if ({} > {})"), most, value(q.limit));
    loop([&] {
        open(fmt::runtime(q.or_nan ? "if (!({} <= {}))" : "if ({} > {})"), value(q.x), value(q.limit));
        write_rare(v, name);
        close();
    });
    close();
    names_.give(v, {.name = name, .of_element = true});
}

} // namespace lz::codegen::cuda
