#include "codegen/llvm/emitter.h"

#include "ir/diagnostic.h"

#include <algorithm>

namespace lz::codegen {

using namespace ir;

namespace {

constexpr int64_t kFrameFault = 24;
static_assert(offsetof(Fault, source) == 4 && offsetof(Fault, value) == 8 && offsetof(Fault, limit) == 16);

} // namespace

Emitted PhaseEmitter::check(KValue id) {
    const Instr &instr = k_.instrs[id];
    const bool varying = is_varying(id);
    const bool is_index = instr.op == KOp::CheckIndex;
    const Elem e = ssa_elem(instr.dtype);
    const auto get = [&](int i, int part) {
        return varying ? operand(instr.operands[i], part) : scalar(instr.operands[i]);
    };
    const auto of_part = [&](int part) {
        Value x = get(0, part);
        const int n = b_.lanes(x);
        // A negative index is larger than any extent, as unsigned.
        Value bad =
            is_index ? b_.compare(Pred::Uge, x, get(1, part)) : b_.compare(Pred::Eq, x, b_.zero(e, n));
        Value safe = b_.select(bad, is_index ? b_.zero(e, n) : b_.constant(e, 1, n), x);
        Value seen = varying && live(part) ? b_.bit_and(bad, live(part)) : bad;
        if (instr.guard() != kNoValue)
            seen = b_.bit_and(seen, get(2, part));
        b_.if_then(
            b_.any(seen),
            [&] {
                Value value = b_.i64(0), limit = b_.i64(0);
                if (is_index) {
                    Value lane = n == 1 ? nullptr : b_.count_trailing_zeros(b_.mask_bits(seen));
                    value = n == 1 ? x : b_.extract(x, lane);
                    Value bound = get(1, part);
                    limit = n == 1 ? bound : b_.extract(bound, lane);
                }
                const FaultCode code = is_index ? FaultCode::IndexOutOfRange : FaultCode::DivisionByZero;
                report_fault(code, id, value, limit);
            },
            -1);
        return safe;
    };
    return varying ? vary(of_part) : Emitted{{of_part(0)}, false};
}

/// Each check has a fault of its own. The first to claim its `code` fills in the rest; the launch reads it
/// when all have returned.
void PhaseEmitter::report_fault(FaultCode code, KValue check, Value value, Value limit) {
    const auto number = std::count_if(k_.instrs.begin(), k_.instrs.begin() + check, [](const Instr &instr) {
        return info(instr.op).cls == KOpClass::Check;
    });
    const uint32_t source = k_.instrs[check].source;
    Value faults = b_.load(Elem::Ptr, 1, b_.element(Elem::I8, params_.frame, b_.i64(kFrameFault)), 8);
    Value fault = b_.element(Elem::I8, faults, b_.i64(number * static_cast<int64_t>(sizeof(Fault))));
    Value mine = b_.compare_exchange_i32(fault, b_.i32(0), b_.i32(static_cast<int32_t>(code)));
    b_.if_then(mine, [&] {
        b_.store(b_.i32(static_cast<int32_t>(source)), b_.element(Elem::I8, fault, b_.i64(4)), 4);
        b_.store(value, b_.element(Elem::I8, fault, b_.i64(8)), 8);
        b_.store(limit, b_.element(Elem::I8, fault, b_.i64(16)), 8);
    });
}

} // namespace lz::codegen
