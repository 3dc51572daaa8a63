#include "ir/kernel/copier.h"

#include <utility>

namespace lz::ir {

KernelCopier::KernelCopier(const Kernel &from, std::function<KValue(const Instr &)> replace)
    : from_(from), replace_(std::move(replace)), values_(from.instrs.size(), kNoValue),
      loops_(from.loops.size()) {
    Kernel &to = b_.kernel();
    to.name = from.name;
    to.args = from.args;
    to.scalars = from.scalars;
    to.buffers = from.buffers;
    to.axes = from.axes;
}

void KernelCopier::copy(KValue id) {
    Instr instr = from_.instrs[id];
    b_.set_source(instr.source);
    if (replace_)
        if (const KValue other = replace_(instr); other != kNoValue)
            return define(id, other);
    for (KValue &operand : instr.operands)
        operand = value(operand);
    if (instr.access != kNoValue) {
        Access access = from_.accesses[instr.access];
        for (IndexTerm &term : access.terms)
            term.index = value(term.index);
        access.predicate = value(access.predicate);
        b_.kernel().accesses.push_back(std::move(access));
        instr.access = static_cast<uint32_t>(b_.kernel().accesses.size() - 1);
    }
    if (instr.op == KOp::LoopResult)
        instr.index = loops_[instr.index];
    values_[id] = b_.emit(instr.op, instr.dtype);
    b_.kernel().instrs[values_[id]] = instr;
}

void KernelCopier::copy_loop(uint32_t id) {
    const Loop &loop = from_.loops[id];
    loops_[id] =
        b_.begin_loop(loop.axis, loop.order, loop.chunk, value(loop.begin), value(loop.end), loop.step);
    copy(loop.body);
    copy_reductions(loop);
    b_.end_loop();
}

void KernelCopier::copy_reductions(const Loop &loop) {
    for (const Reduction &r : loop.reductions)
        b_.reduce(r.op, value(r.value), value(r.index));
}

void KernelCopier::copy(const Region &region) {
    for (const Stmt &stmt : region) {
        if (stmt.kind == Stmt::Instruction)
            copy(stmt.id);
        else
            copy_loop(stmt.id);
    }
}

} // namespace lz::ir
