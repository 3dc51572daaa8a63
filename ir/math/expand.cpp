#include "ir/diagnostic.h"
#include "ir/math/functions.h"

namespace lz::ir {

namespace {

using math::Expr;

using UnaryFn = Expr (*)(Expr);
using BinaryFn = Expr (*)(Expr, Expr);
struct Expansion {
    KOp op;
    UnaryFn unary = nullptr;
    BinaryFn binary = nullptr;
};
constexpr Expansion kExpansions[] = {
#define LZ_MATH1(E, f, ...) {.op = KOp::E, .unary = math::f},
#define LZ_MATH2(E, f, ...) {.op = KOp::E, .binary = math::f},
#include "ir/kernel/math.def"
    {.op = KOp::Pow, .binary = math::pow},
    {.op = KOp::Fmod, .binary = math::fmod},
    {.op = KOp::IntPow, .binary = math::int_pow},
};

/// Writes the kernel anew, region by region; values, accesses and loops get new numbers in the order of the
/// text.
class Expander {
public:
    explicit Expander(Kernel &from) : from_(from), values_(from.instrs.size()), loops_(from.loops.size()) {
        Kernel &to = b_.kernel();
        to.name = from.name;
        to.args = from.args;
        to.scalars = from.scalars;
        to.buffers = from.buffers;
        to.axes = from.axes;
    }

    Kernel run() {
        for (Phase &phase : from_.phases) {
            const Region body = std::move(phase.body);
            phase.body.clear();
            b_.begin_phase(phase.grid, phase.vector_grid) = phase;
            copy(body);
            b_.end_phase();
        }
        return b_.take();
    }

private:
    KValue value(KValue v) const { return v == kNoValue ? v : values_[v]; }

    uint32_t copy(Access access) {
        for (IndexTerm &term : access.terms)
            term.index = value(term.index);
        access.predicate = value(access.predicate);
        b_.kernel().accesses.push_back(std::move(access));
        return static_cast<uint32_t>(b_.kernel().accesses.size() - 1);
    }

    KValue expand(const Instr &instr) {
        const auto operand = [&](int i) { return Expr{&b_, value(instr.operands[i])}; };
        if (instr.op == KOp::Philox)
            return math::philox(operand(0), operand(1), operand(2)).id;
        for (const Expansion &e : kExpansions)
            if (e.op == instr.op)
                return (e.unary ? e.unary(operand(0)) : e.binary(operand(0), operand(1))).id;
        internal_failure(__FILE__, __LINE__, std::string(info(instr.op).name) + " has no expansion");
    }

    void copy_instr(KValue id) {
        Instr instr = from_.instrs[id];
        b_.set_source(instr.source);
        if (info(instr.op).cls == KOpClass::Math) {
            values_[id] = expand(instr);
            return;
        }
        for (KValue &operand : instr.operands)
            operand = value(operand);
        if (instr.access != kNoValue)
            instr.access = copy(from_.accesses[instr.access]);
        if (instr.op == KOp::LoopResult)
            instr.index = loops_[instr.index];
        values_[id] = b_.emit(instr.op, instr.dtype);
        b_.kernel().instrs[values_[id]] = instr;
    }

    void copy_loop(uint32_t id) {
        const Loop &loop = from_.loops[id];
        loops_[id] = b_.begin_loop(loop.axis, loop.order, loop.chunk, value(loop.begin), value(loop.end));
        copy(loop.body);
        for (const Reduction &r : loop.reductions)
            b_.reduce(r.op, value(r.value), value(r.index));
        b_.end_loop();
    }

    void copy(const Region &region) {
        for (const Stmt &stmt : region) {
            if (stmt.kind == Stmt::Instruction)
                copy_instr(stmt.id);
            else
                copy_loop(stmt.id);
        }
    }

    Kernel &from_;
    KernelBuilder b_;
    std::vector<KValue> values_;
    std::vector<uint32_t> loops_;
};

} // namespace

void expand_math(Kernel &kernel) {
    for (const Instr &instr : kernel.instrs)
        if (info(instr.op).cls == KOpClass::Math) {
            kernel = Expander(kernel).run();
            return;
        }
}

} // namespace lz::ir
