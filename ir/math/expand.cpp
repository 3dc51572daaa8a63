#include "ir/math/expand.h"

#include "ir/diagnostic.h"
#include "ir/kernel/builder.h"
#include "ir/kernel/copier.h"
#include "ir/math/functions.h"

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

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

constexpr Expansion kFastExpansions[] = {
    {.op = KOp::Pow, .binary = math::fast::pow},
};

const Expansion *find(std::span<const Expansion> list, KOp op) {
    const auto found = std::ranges::find(list, op, &Expansion::op);
    return found == list.end() ? nullptr : &*found;
}

KValue expansion(KernelBuilder &b, const Instr &instr, Accuracy accuracy,
                 const std::function<KValue(KValue)> &value) {
    const auto operand = [&](int i) { return Expr{&b, value(instr.operands[i])}; };
    if (instr.op == KOp::Philox)
        return math::philox(operand(0), operand(1), operand(2)).id;
    const Expansion *e = accuracy == Accuracy::Fast ? find(kFastExpansions, instr.op) : nullptr;
    if (!e)
        e = find(kExpansions, instr.op);
    if (e)
        return (e->unary ? e->unary(operand(0)) : e->binary(operand(0), operand(1))).id;
    internal_failure(__FILE__, __LINE__, std::string(info(instr.op).name) + " has no expansion");
}

/// Puts straight-line arithmetic at the end of the open region in an order of its own: what an operand needs
/// stands before it, the first operand's first. C++ leaves open which argument of a call is evaluated first,
/// so that f(g(x), h(x)) would else be another text, another key of the cache and other registers with
/// another compiler. Instructions that nothing needs are left out.
class Ordering {
public:
    /// Of the instructions from `first` on.
    Ordering(KernelBuilder &b, KValue first)
        : kernel_(b.kernel()), region_(b.open_region()), first_(first),
          made_(kernel_.instrs.begin() + first, kernel_.instrs.end()), placed_(made_.size(), kNoValue) {
        kernel_.instrs.resize(first);
        region_.resize(region_.size() - made_.size());
    }

    /// The value's new number.
    KValue place(KValue value) {
        if (value == kNoValue || value < first_)
            return value;
        KValue &placed = placed_[value - first_];
        if (placed != kNoValue)
            return placed;
        Instr instr = made_[value - first_];
        for (KValue &operand : instr.operands)
            operand = place(operand);
        placed = static_cast<KValue>(kernel_.instrs.size());
        kernel_.instrs.push_back(instr);
        region_.push_back({Stmt::Instruction, placed});
        return placed;
    }

private:
    Kernel &kernel_;
    Region &region_;
    KValue first_;
    std::vector<Instr> made_;
    std::vector<KValue> placed_;
};

bool is_expanded(const Instr &instr, PhiloxForm philox) {
    return info(instr.op).cls == KOpClass::Math &&
           (instr.op != KOp::Philox || philox == PhiloxForm::Arithmetic);
}

Kernel expanded(const Kernel &from, MathForms forms) {
    KernelCopier copier(from, [&](const Instr &instr) {
        if (!is_expanded(instr, forms.philox))
            return kNoValue;
        KernelBuilder &b = copier.builder();
        const auto first = static_cast<KValue>(b.kernel().instrs.size());
        const KValue result = expansion(b, instr, forms.accuracy, [&](KValue v) { return copier.value(v); });
        return Ordering(b, first).place(result);
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

void expand_math(Kernel &kernel, MathForms forms) {
    for (const Instr &instr : kernel.instrs)
        if (is_expanded(instr, forms.philox)) {
            kernel = expanded(kernel, forms);
            return;
        }
}

} // namespace lz::ir
