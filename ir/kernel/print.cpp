#include "ir/kernel/text.h"
#include "ir/text/scanner.h"
#include "ir/text/text.h"

#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <iterator>

namespace lz::ir {

namespace {

template <size_t N, class E>
std::string_view word(const std::array<std::string_view, N> &names, E value) {
    const auto i = static_cast<size_t>(value);
    return i < N ? names[i] : std::string_view("?");
}

std::string arg_text(ArgId arg) {
    return arg == kNoArg ? "none" : fmt::format("a{}", arg);
}
std::string value_text(KValue v) {
    return v == kNoValue ? "%none" : fmt::format("%{}", v);
}

template <class T>
std::string float_text(T value, uint64_t bits, uint64_t quiet_nan) {
    if (std::isnan(value))
        return bits == quiet_nan ? "nan" : fmt::format("0x{:x}", bits);
    return fmt::format("{}", value);
}

/// Prints anything, malformed kernels too: verifiers put the text into their messages.
class KernelPrinter {
public:
    KernelPrinter(const Kernel &kernel, int indent, bool sources)
        : kernel_(kernel), depth_(indent), sources_(sources), seen_(kernel.loops.size()) {}

    std::string take() {
        line("kernel @{} {{", is_word(kernel_.name) ? kernel_.name : quoted(kernel_.name));
        depth_ += 2;
        declare("args", "a", kernel_.args,
                [](const KArg &a) { return std::string(word(kArgRoles, a.role)); });
        declare("scalars", "s", kernel_.scalars,
                [](const KScalar &s) { return std::string(ir::name(s.dtype)); });
        declare("buffers", "b", kernel_.buffers, [](const KBuffer &b) {
            std::string text = fmt::format("{} {}", word(kBufferModes, b.mode), ir::name(b.dtype));
            if (b.worker_offset != kNoArg)
                text += " at " + arg_text(b.worker_offset);
            return text;
        });
        declare("axes", "i", kernel_.axes, [](const KAxis &a) { return arg_text(a.extent); });
        for (const Phase &phase : kernel_.phases)
            print(phase);
        depth_ -= 2;
        line("}}");
        return std::move(out_);
    }

private:
    template <class... Args>
    void line(fmt::format_string<Args...> format, Args &&...args) {
        out_.append(static_cast<size_t>(depth_), ' ');
        fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
        out_ += '\n';
    }

    template <class T, class F>
    void declare(std::string_view what, std::string_view prefix, const std::vector<T> &items, F text) {
        if (items.empty())
            return;
        std::string all;
        for (size_t i = 0; i < items.size(); ++i)
            fmt::format_to(std::back_inserter(all), "{}{}{}: {}", i == 0 ? "" : ", ", prefix, i,
                           text(items[i]));
        line("{} {}", what, all);
    }

    std::string access_text(const Access &a) const {
        std::string sum;
        const auto plus = [&] { return sum.empty() ? "" : " + "; };
        if (a.offset != kNoArg)
            sum += arg_text(a.offset);
        for (const AxisStride &s : a.strides) {
            sum += fmt::format("{}i{}", plus(), s.axis);
            if (s.cls == StrideClass::Broadcast)
                sum += " * broadcast";
            else if (s.cls != StrideClass::Contiguous)
                sum += (s.cls == StrideClass::Reversed ? " * reversed " : " * ") + arg_text(s.stride);
        }
        for (const IndexTerm &t : a.terms) {
            sum += plus() + value_text(t.index);
            if (t.stride != kNoArg)
                sum += " * " + arg_text(t.stride);
        }
        std::string text = fmt::format("b{}[{}]", a.buffer, sum.empty() ? "0" : sum);
        if (a.predicate != kNoValue)
            text += " if " + value_text(a.predicate);
        return text;
    }

    static std::string digits_text(const std::vector<ContractionDigit> &digits) {
        std::string all;
        for (const ContractionDigit &d : digits)
            all += fmt::format("{}i{} of {} * {}", all.empty() ? "" : ", ", d.axis, arg_text(d.extent),
                               arg_text(d.stride));
        return all.empty() ? "" : fmt::format(" digits [{}]", all);
    }

    std::string operands_text(const Instr &instr) const {
        std::string text;
        for (int i = 0; i < info(instr.op).operands; ++i)
            text += (i == 0 ? "" : ", ") + value_text(instr.operands[i]);
        if (instr.guard() != kNoValue)
            text += " if " + value_text(instr.guard());
        const auto with_access = [&](const std::string &first) {
            if (instr.access >= kernel_.accesses.size())
                return first + fmt::format("access {} that is not there", instr.access);
            return first + access_text(kernel_.accesses[instr.access]);
        };
        switch (instr.op) {
        case KOp::Const:
            return constant_text(instr.dtype, instr.bits);
        case KOp::Scalar:
            return fmt::format("s{}", instr.index);
        case KOp::Arg:
            return fmt::format("a{}", instr.index);
        case KOp::Axis:
            return fmt::format("i{}", instr.index);
        case KOp::LoopResult:
            return fmt::format("l{}, {}{}", instr.index, instr.bits / 2,
                               instr.bits % 2 == 1 ? ", index" : "");
        case KOp::Load:
            return with_access("");
        case KOp::Store:
            return with_access(text + ", ");
        default:
            return text;
        }
    }

    void print_instr(KValue id) {
        if (id >= kernel_.instrs.size()) {
            line("%{} that is not there", id);
            return;
        }
        const Instr &instr = kernel_.instrs[id];
        std::string text;
        // A store has no value to name; its position is written only where it is not the next one.
        if (instr.op != KOp::Store || id != next_)
            text = fmt::format("%{} = ", id);
        next_ = id + 1;
        text += info(instr.op).name;
        if (const std::string operands = operands_text(instr); !operands.empty())
            text += " " + operands;
        text += fmt::format(" : {}", ir::name(instr.dtype));
        if (sources_ && instr.source != kNoValue)
            text += fmt::format(" !{}", instr.source);
        line("{}", text);
    }

    void print_loop(uint32_t id) {
        if (id >= kernel_.loops.size() || seen_[id]) {
            line("loop l{} that is not there, or there twice", id);
            return;
        }
        seen_[id] = true;
        const Loop &loop = kernel_.loops[id];
        std::string head = fmt::format("loop l{} i{} {}", id, loop.axis, word(kLoopOrders, loop.order));
        if (loop.chunk != 0)
            head += fmt::format(" chunk {}", loop.chunk);
        if (loop.begin != kNoValue)
            head += " from " + value_text(loop.begin);
        if (loop.end != kNoValue)
            head += " to " + value_text(loop.end);
        if (loop.step != 1)
            head += fmt::format(" step {}", loop.step);
        line("{} {{", head);
        depth_ += 2;
        print(loop.body);
        for (const Reduction &r : loop.reductions) {
            const std::string at = r.index == kNoValue ? "" : " at " + value_text(r.index);
            line("reduce {} {}{} : {}", word(kReduceOps, r.op), value_text(r.value), at, ir::name(r.dtype));
        }
        depth_ -= 2;
        line("}}");
    }

    void print(const Region &region) {
        for (const Stmt &stmt : region) {
            if (stmt.kind == Stmt::Instruction)
                print_instr(stmt.id);
            else
                print_loop(stmt.id);
        }
    }

    static std::string schedule_text(const CpuSchedule &cpu, bool contraction) {
        std::string text = " cpu";
        if (cpu.inner != InnerTier::Any)
            text += fmt::format(" inner {}", word(kInnerTiers, cpu.inner));
        if (cpu.stores != StoreTier::Cached)
            text += fmt::format(" stores {}", word(kStoreTiers, cpu.stores));
        if (cpu.block != kNoArg)
            text += " block " + arg_text(cpu.block);
        if (cpu.tile_axis >= 0)
            text += fmt::format(" tile i{}", cpu.tile_axis);
        if (cpu.tile_block != kNoArg)
            text += " by " + arg_text(cpu.tile_block);
        if (cpu.across)
            text += " across";
        if (cpu.one_chunk)
            text += " one-chunk";
        if (cpu.whole_rows != 0)
            text += fmt::format(" whole-rows {} in b{}", cpu.whole_rows, cpu.scratch);
        if (cpu.partials)
            text += " partials";
        if (contraction)
            text += fmt::format(" microkernel {} x {} blocks {} scratch b{}", cpu.mr, cpu.nr,
                                arg_text(cpu.blocks), cpu.scratch);
        return text;
    }

    static std::string schedule_text(const CudaSchedule &cuda) {
        std::string text = fmt::format(" cuda {} threads {}", word(kCudaShapes, cuda.shape), cuda.threads);
        if (cuda.segments != SegmentTier::One)
            text += fmt::format(" segments {}", word(kSegmentTiers, cuda.segments));
        if (cuda.stores != StoreTier::Cached)
            text += fmt::format(" stores {}", word(kStoreTiers, cuda.stores));
        if (cuda.index32)
            text += " index32";
        if (!cuda.aligned)
            text += " unaligned";
        if (cuda.vector != 1)
            text += fmt::format(" vector {}", cuda.vector);
        if (cuda.unroll != 1)
            text += fmt::format(" unroll {}", cuda.unroll);
        if (cuda.row_threads != 0)
            text += fmt::format(" row {} by {} in {}", cuda.row_elements, cuda.row_threads,
                                word(kRowTiers, cuda.tier));
        if (cuda.cluster_blocks != 1)
            text += fmt::format(" cluster {}", cuda.cluster_blocks);
        if (cuda.scratch_bytes != kNoArg)
            text += fmt::format(" scratch b{} of {}", cuda.scratch, arg_text(cuda.scratch_bytes));
        if (cuda.most_blocks != 0)
            text += fmt::format(" blocks {}", cuda.most_blocks);
        if (cuda.tile_axis >= 0)
            text += fmt::format(" tile i{}", cuda.tile_axis);
        if (cuda.tile_m != 0 || cuda.tile_n != 0)
            text += fmt::format(" tile {} x {}", cuda.tile_m, cuda.tile_n);
        return text;
    }

    void print(const Phase &phase) {
        std::string grid;
        for (const AxisId axis : phase.grid)
            grid += fmt::format("{}i{}", grid.empty() ? "" : ", ", axis);
        std::string head = fmt::format("phase [{}] {}", grid, phase.vector_grid ? "vector" : "scalar");
        if (const auto *cpu = std::get_if<CpuSchedule>(&phase.schedule))
            head += schedule_text(*cpu, phase.contraction.has_value());
        else if (const auto *cuda = std::get_if<CudaSchedule>(&phase.schedule))
            head += schedule_text(*cuda);
        line("{} {{", head);
        depth_ += 2;
        if (const auto &c = phase.contraction) {
            line("contraction {} to {}{}, m i{}, n i{}, k i{}, lhs {}{}, rhs {}{}", ir::name(c->dtype),
                 ir::name(c->accumulate), c->ascending ? " ascending" : "", c->m, c->n, c->k,
                 access_text(c->lhs), digits_text(c->lhs_digits), access_text(c->rhs),
                 digits_text(c->rhs_digits));
        }
        print(phase.body);
        depth_ -= 2;
        line("}}");
    }

    const Kernel &kernel_;
    int depth_;
    bool sources_;
    std::vector<bool> seen_; // loops, so that a region that holds itself ends
    KValue next_ = 0;
    std::string out_;
};

} // namespace

std::string constant_text(DType dtype, uint64_t bits) {
    switch (dtype) {
    case DType::Bool:
        return bits == 0 ? "false" : "true";
    case DType::U8:
        return fmt::format("{}", static_cast<uint8_t>(bits));
    case DType::I8:
        return fmt::format("{}", static_cast<int8_t>(bits));
    case DType::I16:
        return fmt::format("{}", static_cast<int16_t>(bits));
    case DType::I32:
        return fmt::format("{}", static_cast<int32_t>(bits));
    case DType::I64:
        return fmt::format("{}", static_cast<int64_t>(bits));
    case DType::F16:
        return float_text(half_to_float(static_cast<uint16_t>(bits)), bits, 0x7e00);
    case DType::BF16:
        return float_text(bfloat_to_float(static_cast<uint16_t>(bits)), bits, 0x7fc0);
    case DType::F32:
        return float_text(std::bit_cast<float>(static_cast<uint32_t>(bits)), bits, 0x7fc00000);
    case DType::F64:
        return float_text(std::bit_cast<double>(bits), bits, 0x7ff8000000000000);
    }
    return "?";
}

std::string print_kernel_block(const Kernel &kernel, int indent, bool sources) {
    return KernelPrinter(kernel, indent, sources).take();
}

std::string print(const Kernel &kernel, const PrintOptions &options) {
    return (options.header ? "lazuli 1\n" : "") + print_kernel_block(kernel, 0, options.locations);
}

} // namespace lz::ir
