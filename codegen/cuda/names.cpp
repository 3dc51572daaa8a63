#include "codegen/cuda/emitter.h"

#include "ir/diagnostic.h"
#include "ir/kernel/facts/index_width.h"

#include <algorithm>

namespace lz::codegen::cuda {

using namespace ir;

void fail(const Kernel &kernel, std::string_view why) {
    throw Failure(ErrorKind::Compile, fmt::format("Kernel {} has no CUDA: {}.", kernel.name, why));
}

PhaseEmitter::PhaseEmitter(const Kernel &kernel, size_t phase, Entry entry)
    : kernel_(kernel), phase_(kernel.phases[phase]), entry_(entry), schedule_(phase_.cuda()), rare_(kernel),
      names_(kernel.instrs.size()), uses_(kernel.instrs.size()), index_(index_values(kernel)),
      loop_of_(kernel.instrs.size(), kNoValue), around_(kernel.loops.size(), kNoValue) {
    if (entry == Entry::Any && schedule_.tier == RowTier::Registers && !has_row_alone())
        schedule_.tier = RowTier::Shared;
    const auto use = [&](KValue v) {
        if (v != kNoValue)
            ++uses_[v];
    };
    const auto use_access = [&](const Access &a) {
        use(a.predicate);
        for (const IndexTerm &t : a.terms)
            use(t.index);
    };
    const std::function<void(const Region &, uint32_t)> walk = [&](const Region &region, uint32_t loop) {
        for (const Stmt &stmt : region) {
            if (stmt.kind == Stmt::Loop) {
                const Loop &l = kernel_.loops[stmt.id];
                around_[stmt.id] = loop;
                use(l.begin);
                use(l.end);
                for (const Reduction &r : l.reductions) {
                    use(r.value);
                    use(r.index);
                    if (r.dtype == DType::F64 && r.index == kNoValue && l.order == LoopOrder::Lanes)
                        row_width_ = 2;
                }
                walk(l.body, stmt.id);
                continue;
            }
            const Instr &instr = kernel_.instrs[stmt.id];
            loop_of_[stmt.id] = loop;
            if (const KValue wide = rounded(instr); wide != kNoValue)
                use(wide);
            else
                for (const KValue v : instr.operands)
                    use(v);
            if (instr.access != kNoValue)
                use_access(kernel_.accesses[instr.access]);
            if (instr.op == KOp::Store)
                stored_.insert(kernel_.accesses[instr.access].buffer);
        }
    };
    walk(phase_.body, kNoValue);
    if (has_row_alone())
        row_width_ = schedule_.row_elements;
    drop_unused();
}

/// What is only used by what nothing uses: halves whose readers take what they were rounded from.
void PhaseEmitter::drop_unused() {
    for (KValue v = static_cast<KValue>(kernel_.instrs.size()); v-- > 0;)
        if (const Instr &half = kernel_.instrs[v];
            half.op == KOp::Cast && is_half(half.dtype) && uses_[v] == 0 && uses_[half.operands[0]] > 0)
            --uses_[half.operands[0]];
}

void PhaseEmitter::need(bool condition, std::string_view why) const {
    if (!condition)
        fail(kernel_, why);
}

std::string PhaseEmitter::buffer_name(const Kernel &kernel, uint16_t b) {
    constexpr std::string_view kPrefix[] = {"in", "out", "inout", "temp", "worker"};
    return fmt::format("{}{}", kPrefix[static_cast<size_t>(kernel.buffers[b].mode)], b);
}

std::string PhaseEmitter::arg_name(const Kernel &kernel, ArgId a) {
    constexpr std::string_view kPrefix[] = {"extent", "stride", "offset", "block", "arg"};
    return fmt::format("{}{}", kPrefix[static_cast<size_t>(kernel.args[a].role)], a);
}

std::string PhaseEmitter::buffer(uint16_t b) {
    if (kernel_.buffers[b].mode != BufferMode::Worker)
        used_.buffers.insert(b);
    return buffer_name(kernel_, b);
}

std::string PhaseEmitter::arg(ArgId a) {
    used_.args.insert(a);
    return arg_name(kernel_, a);
}

std::string PhaseEmitter::scalar(const Instr &instr) {
    used_.scalars.insert(static_cast<uint16_t>(instr.index));
    const std::string name = fmt::format("scalar{}", instr.index);
    if (is_float(instr.dtype) || instr.dtype == DType::I64)
        return name;
    return instr.dtype == DType::Bool ? "(" + name + " != 0)"
                                      : fmt::format("({}){}", c_type(instr.dtype), name);
}

/// The fault of a check, by its number in the kernel.
std::string PhaseEmitter::fault(KValue check) {
    used_.faults = true;
    const auto number = std::count_if(kernel_.instrs.begin(), kernel_.instrs.begin() + check,
                                      [](const Instr &i) { return info(i.op).cls == KOpClass::Check; });
    return fmt::format("faults + {}", number);
}

std::string PhaseEmitter::value(KValue v) {
    if (!names_[v].empty())
        return names_[v];
    const Instr &instr = kernel_.instrs[v];
    switch (instr.op) {
    case KOp::Const:
        return literal(instr.dtype, instr.bits);
    case KOp::Scalar:
        return scalar(instr);
    case KOp::Arg:
        return arg(static_cast<ArgId>(instr.index));
    case KOp::Axis:
        return axis(static_cast<AxisId>(instr.index));
    case KOp::Product:
        return "product";
    case KOp::LoopResult: {
        const Reduction &r = kernel_.loops[instr.index].reductions[instr.bits / 2];
        const std::string_view part = r.index == kNoValue ? "" : instr.bits % 2 == 1 ? ".index" : ".value";
        return result(instr.index, instr.bits / 2) + std::string(part);
    }
    default:
        internal_failure(__FILE__, __LINE__,
                         fmt::format("%{} of kernel {} is used before it is written", v, kernel_.name));
    }
}

std::string PhaseEmitter::index(KValue v) {
    const std::string text = value(v);
    return schedule_.index32 && !is_index(v) ? "(int)" + text : text;
}

} // namespace lz::codegen::cuda
