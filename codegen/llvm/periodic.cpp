// Indices that begin again: an axis divided by an extent, as in a sum over all elements of a matrix to which
// a row is added. Their lanes are found by one scalar division a step, and where none of them begins again,
// what is read by them are neighbours in memory (the remainder) or one element (the quotient).
#include "codegen/llvm/emitter.h"

#include <algorithm>

namespace lz::codegen {

using namespace ir;

/// Of the lanes of one register: what does not change from step to step.
const PhaseEmitter::Period &PhaseEmitter::period(ArgId extent) {
    const int width = ctx_.width;
    for (const Period &p : periods_)
        if (p.extent == extent && b_.lanes(p.remainders) == width)
            return p;
    Period p{.extent = extent};
    p.length = b_.at_entry([&] { return b_.smax(arg(extent), b_.i64(1)); });
    p.step_turns = b_.at_entry([&] { return b_.udiv(b_.i64(width), p.length); });
    p.step = b_.at_entry([&] { return b_.sub(b_.i64(width), b_.mul(p.step_turns, p.length)); });
    // Lanes are few: their quotients are exact in 16 bits, for which there is a short division.
    Value turns = b_.at_entry([&] {
        Value length = b_.truncate(b_.smin(p.length, b_.i64(INT16_MAX)), Elem::I16);
        return emit_op(b_, target_, KOp::Div, DType::I16, DType::I16, b_.iota(Elem::I16, width),
                       b_.splat(length, width), nullptr);
    });
    p.turns = b_.at_entry([&] { return b_.sext(turns, Elem::I64); });
    p.remainders = b_.at_entry(
        [&] { return b_.sub(b_.iota(Elem::I64, width), b_.mul(p.turns, b_.splat(p.length, width))); });
    return periods_.emplace_back(p);
}

/// Quotient and remainder of the first lane of each part.
const PhaseEmitter::Turns &PhaseEmitter::turns(const Period &p) {
    const auto known = std::find_if(turns_.rbegin(), turns_.rend(), [&](const Turns &t) {
        return t.extent == p.extent && t.first == ctx_.first;
    });
    if (known != turns_.rend())
        return *known;
    Turns t{p.extent, ctx_.first, {}, {}};
    Value quotient = b_.udiv(ctx_.first, p.length);
    Value remainder = b_.sub(ctx_.first, b_.mul(quotient, p.length));
    for (int part = 0; part < ctx_.parts; ++part) {
        t.quotients.push_back(quotient);
        t.remainders.push_back(remainder);
        Value next = b_.add(remainder, p.step);
        Value again = b_.compare(Pred::Sge, next, p.length);
        remainder = b_.select(again, b_.sub(next, p.length), next);
        quotient = b_.add(b_.add(quotient, p.step_turns), b_.zext(again, Elem::I64));
    }
    return turns_.emplace_back(std::move(t));
}

/// Whether the value is the vector axis divided by an extent, or the remainder.
bool PhaseEmitter::is_periodic(KValue v) const {
    const Instr &instr = k_.instrs[v];
    if ((instr.op != KOp::Rem && instr.op != KOp::Div) || instr.dtype != DType::I64 || ctx_.axis == kNoAxis ||
        ctx_.width == 1)
        return false;
    const Instr &of = k_.instrs[instr.operands[0]], &by = k_.instrs[instr.operands[1]];
    return of.op == KOp::Axis && of.index == ctx_.axis && by.op == KOp::Arg;
}

Emitted PhaseEmitter::periodic(KValue v) {
    const Instr &instr = k_.instrs[v];
    const Period &p = period(static_cast<ArgId>(k_.instrs[instr.operands[1]].index));
    const Turns &t = turns(p);
    return vary([&](int part) {
        const auto i = static_cast<size_t>(part);
        const int width = ctx_.width;
        Value length = b_.splat(p.length, width);
        Value lanes = b_.add(b_.splat(t.remainders[i], width), p.remainders); // less than twice the length
        Value again = b_.compare(Pred::Sge, lanes, length);
        if (instr.op == KOp::Rem)
            return b_.select(again, b_.sub(lanes, length), lanes);
        Value quotients = b_.add(b_.splat(t.quotients[i], width), p.turns);
        return b_.add(quotients, b_.zext(again, Elem::I64));
    });
}

/// The term of an access by which alone its lanes differ, if it is periodic.
const IndexTerm *PhaseEmitter::periodic_term(const Access &access) const {
    const IndexTerm *found = nullptr;
    for (const IndexTerm &t : access.terms) {
        if (!is_varying(t.index))
            continue;
        if (found || !is_periodic(t.index) || (k_.instrs[t.index].op == KOp::Rem && t.stride != kNoArg))
            return nullptr;
        found = &t;
    }
    return found && !stride_along(access, ctx_.axis) ? found : nullptr;
}

Value PhaseEmitter::load_periodic(const Access &access, const IndexTerm &term, const Address &at, Elem e,
                                  int part) {
    const Instr &index = k_.instrs[term.index];
    const Period &p = period(static_cast<ArgId>(k_.instrs[index.operands[1]].index));
    const Turns &t = turns(p);
    const auto i = static_cast<size_t>(part);
    Value end = b_.add(t.remainders[i], b_.i64(ctx_.width));
    CodeBlock near = b_.block("near"), apart = b_.block("apart"), after = b_.block("after");
    b_.branch(b_.compare(Pred::Sle, end, p.length), near, apart);
    b_.set_block(near);
    Value together = nullptr;
    if (index.op == KOp::Rem) {
        const Value first = b_.element(e, at.common, t.remainders[i]);
        together = load_part(access, {Address::Contiguous, first}, e, part);
    } else {
        Value moved = term.stride == kNoArg ? t.quotients[i] : b_.mul(t.quotients[i], arg(term.stride));
        together = load_part(access, {Address::One, b_.element(e, at.common, moved)}, e, part);
    }
    CodeBlock near_end = b_.current();
    b_.jump(after);
    b_.set_block(apart);
    Value gathered = load_part(access, at, e, part);
    CodeBlock apart_end = b_.current();
    b_.jump(after);
    b_.set_block(after);
    Value result = b_.phi(together, together, near_end);
    b_.add_incoming(result, gathered, apart_end);
    return result;
}

} // namespace lz::codegen
