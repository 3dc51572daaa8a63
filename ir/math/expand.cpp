#include "ir/math/expand.h"

#include "ir/diagnostic.h"
#include "ir/kernel/builder.h"
#include "ir/kernel/copier.h"
#include "ir/math/functions.h"

#include <functional>

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
#include "ir/math/math.def"
#define LZ_MATH_HALF(E, f, function, half) {.op = KOp::E, .unary = math::f},
#include "ir/math/halves.def"
    {.op = KOp::Pow, .binary = math::pow},
    {.op = KOp::Fmod, .binary = math::fmod},
    {.op = KOp::IntPow, .binary = math::int_pow},
};

KValue expansion(KernelBuilder &b, const Instr &instr, const std::function<KValue(KValue)> &value) {
    const auto operand = [&](int i) { return Expr{&b, value(instr.operands[i])}; };
    if (instr.op == KOp::Philox)
        return math::philox(operand(0), operand(1), operand(2)).id;
    for (const Expansion &e : kExpansions)
        if (e.op == instr.op)
            return (e.unary ? e.unary(operand(0)) : e.binary(operand(0), operand(1))).id;
    internal_failure(__FILE__, __LINE__, std::string(info(instr.op).name) + " has no expansion");
}

bool is_expanded(const Instr &instr, PhiloxForm philox) {
    return info(instr.op).cls == KOpClass::Math &&
           (instr.op != KOp::Philox || philox == PhiloxForm::Arithmetic);
}

Kernel expanded(const Kernel &from, PhiloxForm philox) {
    KernelCopier copier(from, [&](const Instr &instr) {
        return is_expanded(instr, philox)
                   ? expansion(copier.builder(), instr, [&](KValue v) { return copier.value(v); })
                   : kNoValue;
    });
    for (const Phase &phase : from.phases) {
        Phase &to = copier.builder().begin_phase(phase.grid, phase.vector_grid);
        to.contraction = phase.contraction;
        to.schedule = phase.schedule;
        copier.copy(phase.body);
        copier.builder().end_phase();
    }
    return copier.builder().take();
}

} // namespace

void expand_math(Kernel &kernel, PhiloxForm philox) {
    for (const Instr &instr : kernel.instrs)
        if (is_expanded(instr, philox)) {
            kernel = expanded(kernel, philox);
            return;
        }
}

} // namespace lz::ir
