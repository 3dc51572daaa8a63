#include "ir/kernel/append.h"

#include <utility>
#include <variant>
#include <vector>

namespace lz::ir {

namespace {

class Appender {
public:
    explicit Appender(Kernel &into)
        : k_(into), args_(static_cast<ArgId>(into.args.size())), axes_(static_cast<AxisId>(into.axes.size())),
          instrs_(static_cast<KValue>(into.instrs.size())),
          accesses_(static_cast<uint32_t>(into.accesses.size())),
          loops_(static_cast<uint32_t>(into.loops.size())),
          scalars_(static_cast<uint32_t>(into.scalars.size())) {}

    void append(Kernel from, std::span<const uint16_t> same) {
        k_.args.insert(k_.args.end(), from.args.begin(), from.args.end());
        k_.scalars.insert(k_.scalars.end(), from.scalars.begin(), from.scalars.end());
        for (size_t b = 0; b < from.buffers.size(); ++b) {
            if (!same.empty() && same[b] != kOwnBuffer) {
                buffers_.push_back(same[b]);
                continue;
            }
            buffers_.push_back(static_cast<uint16_t>(k_.buffers.size()));
            arg(k_.buffers.emplace_back(from.buffers[b]).worker_offset);
        }
        for (KAxis a : from.axes) {
            arg(a.extent);
            k_.axes.push_back(a);
        }
        for (Instr &i : from.instrs)
            move(i);
        for (Access &a : from.accesses)
            move(a);
        for (Loop &l : from.loops) {
            move(l);
            k_.loops.push_back(std::move(l));
        }
        for (Phase &p : from.phases) {
            move(p);
            k_.phases.push_back(std::move(p));
        }
    }

private:
    void arg(ArgId &a) const { a = a == kNoArg ? a : static_cast<ArgId>(a + args_); }
    void axis(AxisId &a) const { a = static_cast<AxisId>(a + axes_); }
    void tile(int &a) const { a += a < 0 ? 0 : axes_; }
    void value(KValue &v) const { v = v == kNoValue ? v : v + instrs_; }

    void move(Instr &i) {
        for (KValue &v : i.operands)
            value(v);
        switch (i.op) {
        case KOp::Scalar:
            i.index += scalars_;
            break;
        case KOp::Arg:
            i.index += args_;
            break;
        case KOp::Axis:
            i.index += axes_;
            break;
        case KOp::LoopResult:
            i.index += loops_;
            break;
        default:
            break;
        }
        if (i.access != kNoValue)
            i.access += accesses_;
        k_.instrs.push_back(i);
    }
    void move(Access &a) {
        move_parts(a);
        k_.accesses.push_back(std::move(a));
    }
    void move_parts(Access &a) const {
        a.buffer = buffers_[a.buffer];
        arg(a.offset);
        for (AxisStride &s : a.strides) {
            axis(s.axis);
            arg(s.stride);
        }
        for (IndexTerm &t : a.terms) {
            value(t.index);
            arg(t.stride);
        }
        value(a.predicate);
    }
    void move(Region &region) const {
        for (Stmt &s : region)
            s.id += s.kind == Stmt::Loop ? loops_ : instrs_;
    }
    void move(Loop &l) const {
        axis(l.axis);
        value(l.begin);
        value(l.end);
        move(l.body);
        for (Reduction &r : l.reductions) {
            value(r.value);
            value(r.index);
        }
    }
    void move(Phase &p) const {
        for (AxisId &a : p.grid)
            axis(a);
        move(p.body);
        if (p.contraction) {
            for (AxisId *a : {&p.contraction->m, &p.contraction->n, &p.contraction->k})
                axis(*a);
            move_parts(p.contraction->lhs);
            move_parts(p.contraction->rhs);
            for (auto *digits : {&p.contraction->lhs_digits, &p.contraction->rhs_digits})
                for (ContractionDigit &d : *digits) {
                    axis(d.axis);
                    arg(d.extent);
                    arg(d.stride);
                }
        }
        if (auto *cpu = std::get_if<CpuSchedule>(&p.schedule)) {
            for (ArgId *a : {&cpu->block, &cpu->tile_block, &cpu->blocks})
                arg(*a);
            tile(cpu->tile_axis);
            if (p.contraction || cpu->whole_rows != 0)
                cpu->scratch = buffers_[cpu->scratch];
        }
        if (auto *cuda = std::get_if<CudaSchedule>(&p.schedule)) {
            if (cuda->scratch_bytes != kNoArg)
                cuda->scratch = buffers_[cuda->scratch];
            arg(cuda->scratch_bytes);
            tile(cuda->tile_axis);
        }
    }

    Kernel &k_;
    const ArgId args_;
    const AxisId axes_;
    const KValue instrs_;
    const uint32_t accesses_, loops_, scalars_;
    std::vector<uint16_t> buffers_; // by buffer of what is appended: its number in k_
};

} // namespace

void append(Kernel &into, Kernel from, std::span<const uint16_t> same) {
    Appender(into).append(std::move(from), same);
}

} // namespace lz::ir
