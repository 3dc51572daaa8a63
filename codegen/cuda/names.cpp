#include "codegen/cuda/emitter.h"

#include "ir/diagnostic.h"
#include "ir/kernel/facts/index_width.h"

#include <algorithm>
#include <ranges>

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
    std::vector<KValue> written; // of this phase, in order
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
            written.push_back(stmt.id);
            for_each_operand(instr, use);
            if (instr.op == KOp::Store)
                stored_.insert(kernel_.accesses[instr.access].buffer);
        }
    };
    walk(phase_.body, kNoValue);
    if (has_row_alone())
        row_width_ = schedule_.row_elements;
    else if (entry == Entry::Any)
        row_width_ = 1;
    // Elements one by one, each beside its neighbour's, as many as the packets have. Neighbours share random
    // words, and the coordinates of a row.
    if (entry == Entry::Any && schedule_.shape == CudaShape::Points && phase_.grid.size() == 1 &&
        !has_loop(phase_.body) && !draws(phase_.body))
        schedule_.unroll *= std::exchange(schedule_.vector, 1);
    // What is only used by what nothing uses.
    for (const KValue v : written | std::views::reverse)
        if (is_dead(v))
            for_each_operand(kernel_.instrs[v], [&](KValue x) {
                if (x != kNoValue)
                    --uses_[x];
            });
}

/// Calls f for what the text of an instruction reads: operands (kNoValue among them), or what stands in their
/// place where several instructions are written as one.
void PhaseEmitter::for_each_operand(const Instr &instr, const std::function<void(KValue)> &f) const {
    if (const KValue wide = rounded(instr); wide != kNoValue) {
        f(wide);
    } else if (const Limited l = limited(instr); l.x != kNoValue) {
        f(l.x);
        f(l.limit);
    } else if (const KValue sum = power_sum(instr); sum != kNoValue) {
        f(instr.operands[0]);
        f(sum);
    } else {
        for (const KValue v : instr.operands)
            f(v);
    }
    if (instr.access == kNoValue)
        return;
    const Access &a = kernel_.accesses[instr.access];
    f(a.predicate);
    for (const IndexTerm &t : a.terms)
        f(t.index);
}

void PhaseEmitter::need(bool condition, std::string_view why) const {
    if (!condition)
        fail(kernel_, why);
}

std::string PhaseEmitter::buffer_name(const Kernel &kernel, uint16_t b) {
    constexpr std::string_view kPrefix[] = {"in", "out", "inout", "temp", "worker"};
    return fmt::format("{}{}", kPrefix[static_cast<size_t>(kernel.buffers[b].mode)], b);
}

/// `extent_i1`, `in0_stride_i1`, `in0_offset`, with the argument's number behind it where an earlier one is
/// called so, too; by what it is of an index that is computed, `factor3`.
std::string PhaseEmitter::arg_name(const Kernel &kernel, ArgId a) {
    std::vector<std::string> names(kernel.args.size());
    const auto call = [&](ArgId arg, const std::string &name) {
        if (arg != kNoArg && names[arg].empty())
            names[arg] = name;
    };
    for (size_t axis = 0; axis < kernel.axes.size(); ++axis)
        call(kernel.axes[axis].extent, fmt::format("extent_i{}", axis));
    const auto call_strides = [&](const Access &access) {
        const std::string of = buffer_name(kernel, access.buffer);
        for (const AxisStride &s : access.strides)
            call(s.stride, fmt::format("{}_stride_i{}", of, s.axis));
        for (const IndexTerm &t : access.terms)
            call(t.stride, of + "_stride");
        call(access.offset, of + "_offset");
    };
    for (const Access &access : kernel.accesses)
        call_strides(access);
    for (const Phase &phase : kernel.phases)
        if (phase.contraction) {
            call_strides(phase.contraction->lhs);
            call_strides(phase.contraction->rhs);
        }
    constexpr std::string_view kRoles[] = {"extent", "factor", "offset", "block", "number"};
    if (names[a].empty())
        return fmt::format("{}{}", kRoles[static_cast<size_t>(kernel.args[a].role)], a);
    const bool again = std::find(names.begin(), names.begin() + a, names[a]) != names.begin() + a;
    return again ? fmt::format("{}_{}", names[a], a) : names[a];
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
    return number == 0 ? "faults" : fmt::format("faults + {}", number);
}

std::string PhaseEmitter::value(KValue v) {
    if (names_.can_read(v))
        return names_[v].name;
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
        return product_;
    case KOp::LoopResult: {
        const Reduction &r = kernel_.loops[instr.index].reductions[instr.bits / 2];
        const std::string_view part = r.index == kNoValue ? "" : instr.bits % 2 == 1 ? ".index" : ".value";
        return result(instr.index, instr.bits / 2) + std::string(part);
    }
    default:
        internal_failure(__FILE__, __LINE__,
                         fmt::format("%{} of kernel {} is read where it is not written", v, kernel_.name));
    }
}

std::string PhaseEmitter::index(KValue v) {
    const std::string text = value(v);
    return schedule_.index32 && !is_index(v) ? "(int)" + text : text;
}

} // namespace lz::codegen::cuda
