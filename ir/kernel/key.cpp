#include "ir/kernel/key.h"

namespace lz::ir {

namespace {

/// Serialises in the order of the text. Instructions and accesses are numbered as they come, so that kernels
/// that differ in the order of their pools only have one key.
class KeyWriter {
public:
    explicit KeyWriter(const Kernel &kernel)
        : kernel_(kernel), values_(kernel.instrs.size(), kNoValue), loops_(kernel.loops.size()) {}

    std::string take() {
        put(kernel_.args.size());
        put(kernel_.scalars.size());
        for (const KScalar &scalar : kernel_.scalars)
            put(scalar.dtype);
        put(kernel_.buffers.size());
        for (const KBuffer &buffer : kernel_.buffers) {
            put(buffer.dtype);
            put(buffer.mode);
            put(buffer.worker_offset);
        }
        put(kernel_.axes.size());
        for (const KAxis &axis : kernel_.axes)
            put(axis.extent);
        put(kernel_.phases.size());
        for (const Phase &phase : kernel_.phases)
            write(phase);
        return {out_.begin(), out_.end()};
    }

private:
    template <class T>
    void put(T value) {
        auto v = static_cast<uint64_t>(value);
        do { // LEB128
            out_.push_back(static_cast<char>((v & 127) | (v > 127 ? 128 : 0)));
            v >>= 7;
        } while (v != 0);
    }
    void value(KValue v) { put(v == kNoValue ? 0 : uint64_t{values_[v]} + 1); }

    void write(const Access &a) {
        put(a.buffer);
        put(a.offset);
        put(a.strides.size());
        for (const AxisStride &s : a.strides) {
            put(s.axis);
            put(s.cls);
            put(s.stride);
        }
        put(a.terms.size());
        for (const IndexTerm &t : a.terms) {
            value(t.index);
            put(t.stride);
        }
        value(a.predicate);
    }

    void write(const std::vector<ContractionDigit> &digits) {
        put(digits.size());
        for (const ContractionDigit &d : digits) {
            put(d.axis);
            put(d.extent);
            put(d.stride);
        }
    }

    void write_instr(KValue id) {
        const Instr &instr = kernel_.instrs[id];
        values_[id] = next_value_++;
        put(instr.op);
        put(instr.dtype);
        for (int i = 0; i < info(instr.op).operands; ++i)
            value(instr.operands[i]);
        if (info(instr.op).cls == KOpClass::Check)
            value(instr.guard());
        switch (instr.op) {
        case KOp::Const:
            put(instr.bits);
            break;
        case KOp::Scalar:
        case KOp::Arg:
        case KOp::Axis:
            put(instr.index);
            break;
        case KOp::LoopResult:
            put(loops_[instr.index]);
            put(instr.bits);
            break;
        case KOp::Load:
        case KOp::Store:
            write(kernel_.accesses[instr.access]);
            break;
        default:
            break;
        }
    }

    void write_loop(uint32_t id) {
        const Loop &loop = kernel_.loops[id];
        put(loop.axis);
        put(loop.order);
        put(loop.chunk);
        value(loop.begin);
        value(loop.end);
        put(loop.step);
        write(loop.body);
        put(loop.reductions.size());
        for (const Reduction &r : loop.reductions) {
            put(r.op);
            put(r.dtype);
            value(r.value);
            value(r.index);
        }
        loops_[id] = next_loop_++;
    }

    void write(const Region &region) {
        put(region.size());
        for (const Stmt &stmt : region) {
            put(stmt.kind);
            if (stmt.kind == Stmt::Instruction)
                write_instr(stmt.id);
            else
                write_loop(stmt.id);
        }
    }

    void write(const Phase &phase) {
        put(phase.grid.size());
        for (const AxisId axis : phase.grid)
            put(axis);
        put(phase.vector_grid);
        put(phase.contraction.has_value());
        if (const auto &c = phase.contraction) {
            put(c->m);
            put(c->n);
            put(c->k);
            put(c->dtype);
            put(c->accumulate);
            put(c->ascending);
            write(c->lhs);
            write(c->rhs);
            write(c->lhs_digits);
            write(c->rhs_digits);
        }
        write(phase.body);
        put(phase.schedule.index());
        if (const auto *cpu = std::get_if<CpuSchedule>(&phase.schedule))
            write(*cpu);
        if (const auto *cuda = std::get_if<CudaSchedule>(&phase.schedule))
            write(*cuda);
    }

    void write(const CpuSchedule &cpu) {
        put(cpu.inner);
        put(cpu.stores);
        put(cpu.block);
        put(cpu.tile_axis + 1);
        put(cpu.tile_block);
        put(cpu.across);
        put(cpu.one_chunk);
        put(cpu.whole_rows);
        put(cpu.partials);
        put(cpu.mr);
        put(cpu.nr);
        put(cpu.blocks);
        put(cpu.scratch);
    }

    void write(const CudaSchedule &cuda) {
        put(cuda.shape);
        put(cuda.segments);
        put(cuda.stores);
        put(cuda.index32);
        put(cuda.aligned);
        put(cuda.threads);
        put(cuda.vector);
        put(cuda.unroll);
        put(cuda.tier);
        put(cuda.row_threads);
        put(cuda.row_elements);
        put(cuda.scratch);
        put(cuda.scratch_bytes);
        put(cuda.most_blocks);
        put(cuda.cluster_blocks);
        put(cuda.tile_axis + 1);
        put(cuda.tile_m);
        put(cuda.tile_n);
    }

    const Kernel &kernel_;
    std::vector<char> out_;        // std::string's push_back is a call
    std::vector<uint32_t> values_; // number by KValue
    std::vector<uint32_t> loops_;  // number by loop id
    uint32_t next_value_ = 0, next_loop_ = 0;
};

} // namespace

std::string cache_key(const Kernel &kernel) {
    return KeyWriter(kernel).take();
}

} // namespace lz::ir
