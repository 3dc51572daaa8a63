#include "ir/kernel/verify.h"

#include "ir/diagnostic.h"
#include "ir/kernel/facts/speculation.h"
#include "ir/text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace lz::ir {

namespace {

/// Dtypes that an operation's result may have.
enum class Domain : uint8_t { Any, Number, Real, Single, Integral, Bits, Signed, Word };

Domain domain(KOp op) {
    switch (op) {
    case KOp::Fma:
    case KOp::Sqrt:
    case KOp::Floor:
    case KOp::Ceil:
    case KOp::Trunc:
    case KOp::Rint:
    case KOp::Scalb:
        return Domain::Real;
    case KOp::Add:
    case KOp::Sub:
    case KOp::Mul:
    case KOp::Div:
    case KOp::Neg:
    case KOp::Minimum:
    case KOp::Maximum:
        return Domain::Number;
    case KOp::Abs:
        return Domain::Signed;
    case KOp::Rem:
    case KOp::Shl:
    case KOp::Shr:
    case KOp::LShr:
    case KOp::IntPow:
    case KOp::CheckNonzero:
        return Domain::Integral;
    case KOp::And:
    case KOp::Or:
    case KOp::Xor:
    case KOp::Not:
        return Domain::Bits;
    case KOp::MulHiU:
        return Domain::Word;
#define LZ_MATH_HALF(E, ...) case KOp::E:
#include "ir/math/halves.def"
        return Domain::Single;
    default:
        return info(op).cls == KOpClass::Math ? Domain::Real : Domain::Any;
    }
}

bool admits(Domain domain, DType t) {
    switch (domain) {
    case Domain::Any:
        return true;
    case Domain::Number:
        return t != DType::Bool && !is_half(t);
    case Domain::Real:
        return is_float(t) && !is_half(t);
    case Domain::Single:
        return t == DType::F32;
    case Domain::Integral:
        return is_integer(t);
    case Domain::Bits:
        return is_integer(t) || t == DType::Bool;
    case Domain::Signed:
        return is_signed(t) && !is_half(t);
    case Domain::Word:
        return t == DType::I32;
    }
    return false;
}

class KernelVerifier {
public:
    explicit KernelVerifier(const Kernel &kernel)
        : k_(kernel), value_(kernel.instrs.size()), loop_(kernel.loops.size()), axis_(kernel.axes.size()) {}

    void run() {
        for (size_t i = 0; i < k_.buffers.size(); ++i) {
            const KBuffer &b = k_.buffers[i];
            check((b.mode == BufferMode::Worker) == (b.worker_offset != kNoArg),
                  "b{} has to have an offset in the worker's scratch exactly when it is a worker buffer", i);
            arg(b.worker_offset, true, "the offset of a worker buffer");
        }
        for (const KAxis &a : k_.axes)
            arg(a.extent, false, "the extent of an axis");
        for (const Phase &phase : k_.phases)
            verify_phase(phase);
        for (size_t i = 0; i < value_.size(); ++i)
            check(value_[i] != State::Unseen, "%{} stands in no region", i);
        for (size_t i = 0; i < loop_.size(); ++i)
            check(loop_[i] != State::Unseen, "l{} stands in no region", i);
        const KValue early = find_speculated(k_);
        check(early == kNoValue,
              "%{} = {} stands outside of the loops that read it, which may run no time: then it {}", early,
              early == kNoValue ? "" : info(k_.instrs[early].op).name,
              early == kNoValue                                  ? ""
              : info(k_.instrs[early].op).cls == KOpClass::Check ? "faults for nobody"
              : k_.instrs[early].op == KOp::Load                 ? "reads what may not be there"
                                                                 : "may divide by zero");
    }

private:
    enum class State : uint8_t { Unseen, Visible, Gone };

    template <class... Args>
    void check(bool good, fmt::format_string<Args...> what, Args &&...args) const {
        if (good) [[likely]]
            return;
        throw Failure(ErrorKind::Internal,
                      fmt::format("The kernel is malformed: {}.\n{}",
                                  fmt::format(what, std::forward<Args>(args)...), print(k_)));
    }

    void arg(ArgId id, bool optional, std::string_view what) const {
        check(id < k_.args.size() || (optional && id == kNoArg), "{} is argument a{} of {}", what, id,
              k_.args.size());
    }
    void active(AxisId id, std::string_view what) const {
        check(id < k_.axes.size() && axis_[id],
              "{} moves along axis i{}, which no grid or loop around it walks", what, id);
    }
    DType value(KValue v, std::string_view what) const {
        check(v < k_.instrs.size() && value_[v] == State::Visible,
              "{} is %{}, which is not defined before it in its region or one around it", what, v);
        return k_.instrs[v].dtype;
    }
    void value(KValue v, DType dtype, std::string_view what) const {
        const DType found = value(v, what);
        check(found == dtype, "{} is %{} of dtype {}, not {}", what, v, ir::name(found), ir::name(dtype));
    }

    void verify_access(const Access &a, std::string_view what) const {
        check(a.buffer < k_.buffers.size(), "{} is of buffer b{} of {}", what, a.buffer, k_.buffers.size());
        arg(a.offset, true, "the offset of an access");
        for (const AxisStride &s : a.strides) {
            active(s.axis, what);
            check(s.cls != StrideClass::Broadcast, "{} lists axis i{}, along which it does not move", what,
                  s.axis);
            check((s.cls != StrideClass::Contiguous) == (s.stride != kNoArg),
                  "{} has to have a stride argument along i{} exactly when it is not contiguous", what,
                  s.axis);
            arg(s.stride, true, "a stride");
        }
        for (const IndexTerm &t : a.terms) {
            value(t.index, DType::I64, "an index term");
            arg(t.stride, true, "the stride of an index term");
        }
        if (a.predicate != kNoValue)
            value(a.predicate, DType::Bool, "the predicate of an access");
    }

    void verify_operands(KValue id, const Instr &instr) const {
        const std::string what = fmt::format("%{} = {}: operand", id, info(instr.op).name);
        const KValue *x = instr.operands;
        if (instr.op == KOp::Philox) {
            value(x[0], DType::I64, what);
            value(x[1], DType::I32, what);
            value(x[2], DType::I64, what);
            check(instr.dtype == DType::I32, "%{} = philox has dtype {}, not i32", id, ir::name(instr.dtype));
            return;
        }
        check(admits(domain(instr.op), instr.dtype), "%{} = {} is not defined on {}", id, info(instr.op).name,
              ir::name(instr.dtype));
        switch (info(instr.op).cls) {
        case KOpClass::Arith:
        case KOpClass::Math:
        case KOpClass::Check:
            for (int i = 0; i < info(instr.op).operands; ++i)
                value(x[i], is_choice(instr.op) && i == 0 ? DType::Bool : instr.dtype, what);
            break;
        case KOpClass::Compare: {
            const DType dtype = value(x[0], what);
            value(x[1], dtype, what);
            check(!is_half(dtype) && instr.dtype == DType::Bool,
                  "%{} compares {} and gives {}: only compute dtypes are compared, and the result is bool",
                  id, ir::name(dtype), ir::name(instr.dtype));
            break;
        }
        case KOpClass::Convert: {
            const DType from = value(x[0], what);
            check(instr.op == KOp::Cast || (size_of(from) == size_of(instr.dtype) && from != DType::Bool &&
                                            instr.dtype != DType::Bool),
                  "%{} bitcasts {} to {}", id, ir::name(from), ir::name(instr.dtype));
            break;
        }
        default:
            break;
        }
        check(instr.op != KOp::CheckIndex || instr.dtype == DType::I64, "%{} = check_index has to be i64",
              id);
        if (instr.guard() != kNoValue)
            value(instr.guard(), DType::Bool, "the guard of a check");
    }

    void verify_leaf(KValue id, const Instr &instr) const {
        const auto dtype = [&](DType wanted) {
            check(instr.dtype == wanted, "%{} = {} has dtype {}, not {}", id, info(instr.op).name,
                  ir::name(instr.dtype), ir::name(wanted));
        };
        switch (instr.op) {
        case KOp::Const: {
            const int width = 8 * size_of(instr.dtype);
            const uint64_t high = instr.dtype == DType::Bool ? instr.bits >> 1
                                  : width == 64              ? 0
                                                             : instr.bits >> width;
            check(high == 0, "%{} = const {:#x} is wider than {}", id, instr.bits, ir::name(instr.dtype));
            break;
        }
        case KOp::Scalar:
            check(instr.index < k_.scalars.size(), "%{} reads scalar s{} of {}", id, instr.index,
                  k_.scalars.size());
            dtype(info(k_.scalars[instr.index].dtype).compute);
            break;
        case KOp::Arg:
            check(instr.index < k_.args.size(), "%{} reads argument a{} of {}", id, instr.index,
                  k_.args.size());
            dtype(DType::I64);
            break;
        case KOp::Axis:
            check(instr.index < k_.axes.size(), "%{} reads axis i{} of {}", id, instr.index, k_.axes.size());
            active(static_cast<AxisId>(instr.index), "an axis index");
            dtype(DType::I64);
            break;
        case KOp::LoopResult: {
            check(instr.index < k_.loops.size() && loop_[instr.index] == State::Visible,
                  "%{} reads loop l{}, which has not ended before it in its region or one around it", id,
                  instr.index);
            const auto &reductions = k_.loops[instr.index].reductions;
            check(instr.bits / 2 < reductions.size(), "%{} reads reduction {} of l{}, which has {}", id,
                  instr.bits / 2, instr.index, reductions.size());
            const Reduction &r = reductions[instr.bits / 2];
            check(instr.bits % 2 == 0 || r.index != kNoValue,
                  "%{} reads the index of a reduction without one", id);
            dtype(instr.bits % 2 == 1 ? DType::I64 : r.dtype);
            break;
        }
        case KOp::Product:
            check(contraction_ != nullptr, "%{} is a product in a phase without contraction", id);
            break;
        default:
            break;
        }
    }

    void verify_memory(KValue id, const Instr &instr) const {
        const std::string what = fmt::format("%{} = {}", id, info(instr.op).name);
        check(instr.access < k_.accesses.size(), "{} has access {} of {}", what, instr.access,
              k_.accesses.size());
        const Access &access = k_.accesses[instr.access];
        verify_access(access, what);
        const KBuffer &buffer = k_.buffers[access.buffer];
        check(buffer.dtype == instr.dtype, "{} has dtype {}, its buffer b{} has {}", what,
              ir::name(instr.dtype), access.buffer, ir::name(buffer.dtype));
        if (instr.op == KOp::Store) {
            value(instr.operands[0], instr.dtype, "the stored value");
            check(buffer.mode != BufferMode::In, "{} writes b{}, which is read only", what, access.buffer);
        }
    }

    void verify_instr(KValue id) {
        check(id < k_.instrs.size() && value_[id] == State::Unseen, "%{} is not there, or there twice", id);
        const Instr &instr = k_.instrs[id];
        switch (info(instr.op).cls) {
        case KOpClass::Leaf:
        case KOpClass::Control:
            verify_leaf(id, instr);
            break;
        case KOpClass::Memory:
            verify_memory(id, instr);
            break;
        default:
            verify_operands(id, instr);
            break;
        }
        value_[id] = State::Visible;
    }

    void verify_loop(uint32_t id) {
        check(id < k_.loops.size() && loop_[id] == State::Unseen, "loop l{} is not there, or there twice",
              id);
        loop_[id] = State::Gone; // its own result is not visible inside it
        const Loop &loop = k_.loops[id];
        check(loop.axis < k_.axes.size() && !axis_[loop.axis],
              "loop l{} walks axis i{}, which is not there or walked already", id, loop.axis);
        check(loop.chunk >= 0 && loop.chunk != 1, "loop l{} has chunk {}", id, loop.chunk);
        check(loop.order == LoopOrder::Sequential || loop.reductions.empty() || !vector_grid_,
              "loop l{} folds in lanes where the grid is the vector", id);
        if (loop.begin != kNoValue)
            value(loop.begin, DType::I64, "the begin of a loop");
        if (loop.end != kNoValue)
            value(loop.end, DType::I64, "the end of a loop");
        check(loop.step > 0 && std::has_single_bit(static_cast<uint64_t>(loop.step)), "loop l{} has step {}",
              id, loop.step);
        check(loop.step == 1 || folds_parts_, "loop l{} has a step, and its rows do not lie side by side",
              id);
        check(loop.step == 1 || (loop.order == LoopOrder::Lanes && loop.chunk == 0),
              "loop l{} has a step, and not lanes and one chunk", id);
        axis_[loop.axis] = true;
        verify_region(loop.body, [&] {
            for (const Reduction &r : loop.reductions) {
                check(lanes_of(loop, r) >= 1, "l{} has a step of more than its lanes", id);
                const bool arg = r.op == ReduceOp::ArgMax || r.op == ReduceOp::ArgMin;
                value(r.value, r.dtype, "the value of a reduction");
                check(!is_half(r.dtype), "l{} accumulates in {}", id, ir::name(r.dtype));
                check(arg == (r.index != kNoValue), "l{} has to carry an index exactly in its arg reductions",
                      id);
                if (arg)
                    value(r.index, DType::I64, "the index of a reduction");
            }
        });
        axis_[loop.axis] = false;
        loop_[id] = State::Visible;
    }

    /// What a region defines is visible until it ends; `at_end` runs just before.
    template <class F>
    void verify_region(const Region &region, F at_end) {
        for (const Stmt &stmt : region) {
            if (stmt.kind == Stmt::Instruction)
                verify_instr(stmt.id);
            else
                verify_loop(stmt.id);
        }
        at_end();
        for (const Stmt &stmt : region)
            (stmt.kind == Stmt::Instruction ? value_ : loop_)[stmt.id] = State::Gone;
    }

    void verify_digits(const Contraction &c, const Access &access,
                       const std::vector<ContractionDigit> &digits, AxisId own) const {
        for (size_t i = 0; i < digits.size(); ++i) {
            const ContractionDigit &d = digits[i];
            check(d.axis == own || d.axis == c.k, "an operand's digit {} is of axis i{}, not of i{} or i{}",
                  i, d.axis, own, c.k);
            check(i == 0 || d.axis == c.k || digits[i - 1].axis == own,
                  "an operand's digit {} of axis i{} stands behind those of k", i, d.axis);
            check(std::ranges::find(access.strides, d.axis, &AxisStride::axis) == access.strides.end(),
                  "an operand has a stride along axis i{}, and digits of it", d.axis);
            arg(d.extent, false, "the extent of a digit");
            arg(d.stride, false, "the stride of a digit");
        }
        check(digits.empty() || size_of(c.accumulate) == size_of(c.dtype),
              "an operand of {}, which is converted to {}, has digits", ir::name(c.dtype),
              ir::name(c.accumulate));
    }

    void verify_contraction(const Phase &phase, const Contraction &c) {
        check(c.m < k_.axes.size() && axis_[c.m] && c.n < k_.axes.size() && axis_[c.n] && c.m != c.n,
              "the contraction's m and n (i{}, i{}) have to be two axes of the grid", c.m, c.n);
        check(c.k < k_.axes.size() && !axis_[c.k], "the contraction's k is i{}, which the grid walks", c.k);
        axis_[c.k] = true;
        for (const Access *access : {&c.lhs, &c.rhs}) {
            verify_access(*access, "an operand of the contraction");
            check(access->terms.empty() && access->predicate == kNoValue,
                  "an operand of the contraction is not affine in {} terms", access->terms.size());
            check(k_.buffers[access->buffer].dtype == c.dtype, "an operand of the contraction is {}, not {}",
                  ir::name(k_.buffers[access->buffer].dtype), ir::name(c.dtype));
        }
        axis_[c.k] = false;
        verify_digits(c, c.lhs, c.lhs_digits, c.m);
        verify_digits(c, c.rhs, c.rhs_digits, c.n);
        check(phase.grid.size() >= 2 && phase.grid.back() == c.n && phase.grid[phase.grid.size() - 2] == c.m,
              "the grid of a contraction does not end in its m and n (i{}, i{})", c.m, c.n);
    }

    void verify_whole_rows(const Phase &phase, const CpuSchedule &cpu) {
        check(cpu.across && cpu.block != kNoArg && phase.grid.size() >= 3 && cpu.whole_rows > 0,
              "whole rows do not lie side by side in blocks, behind axes of parts and chunks");
        check(cpu.scratch < k_.buffers.size() && k_.buffers[cpu.scratch].mode == BufferMode::Worker,
              "the scratch b{} of whole rows is not a worker buffer", cpu.scratch);
        const auto is_loop = [](const Stmt &s) { return s.kind == Stmt::Loop; };
        const auto at = std::ranges::find_if(phase.body, is_loop);
        check(std::ranges::count_if(phase.body, is_loop) == 1 &&
                  std::ranges::none_of(k_.loops[at->id].body, is_loop),
              "whole rows are not read by one loop without loops in it");
        const Loop &loop = k_.loops[at->id];
        const auto ordered = [&](const Reduction &r) {
            return (r.op == ReduceOp::Add || r.op == ReduceOp::Mul) && is_float(r.dtype) &&
                   r.dtype == loop.reductions[0].dtype;
        };
        check(loop.step % cpu.whole_rows == 0, "l{} has {} rows of {} behind each other", at->id,
              cpu.whole_rows, loop.step);
        check(loop.order == LoopOrder::Lanes && loop.begin != kNoValue && loop.end != kNoValue &&
                  loop.chunk == 0 && !loop.reductions.empty() &&
                  std::ranges::all_of(loop.reductions, ordered),
              "l{} reads whole rows and is no chunk of sums of floats of one dtype", at->id);
        verify_parts(phase, loop);
    }

    /// Nothing that a work item computes for all its parts at once is another one for each.
    void verify_parts(const Phase &phase, const Loop &loop) {
        const AxisId parts = phase.grid[phase.grid.size() - 3];
        std::vector<bool> moves(k_.instrs.size());
        const auto moved = [&](KValue v) { return v != kNoValue && v < moves.size() && moves[v]; };
        const auto note = [&](const Stmt &stmt) {
            const Instr &instr = k_.instrs[stmt.id];
            bool found =
                std::ranges::any_of(instr.operands, moved) || (instr.op == KOp::Axis && instr.index == parts);
            if (instr.access != kNoValue) {
                const Access &access = k_.accesses[instr.access];
                found = found || moved(access.predicate) ||
                        std::ranges::find(access.strides, parts, &AxisStride::axis) != access.strides.end() ||
                        std::ranges::any_of(access.terms, [&](const IndexTerm &t) { return moved(t.index); });
            }
            moves[stmt.id] = found;
            return found;
        };
        for (const Stmt &stmt : phase.body) {
            if (stmt.kind == Stmt::Loop)
                break;
            note(stmt);
        }
        check(!moved(loop.end) && std::ranges::none_of(loop.body, note),
              "what whole rows fold moves along i{}, the axis of parts", parts);
    }

    /// The grid is open.
    void verify_schedule(const Phase &phase, const CpuSchedule &cpu) {
        arg(cpu.block, true, "the block of a phase");
        arg(cpu.tile_block, true, "the tile block of a phase");
        if (cpu.tile_axis >= 0) {
            const auto axis = static_cast<size_t>(cpu.tile_axis);
            check(axis < k_.axes.size() && axis_[axis] && phase.grid.back() != axis,
                  "the tile axis i{} is not an axis of the grid before the last", cpu.tile_axis);
        }
        check(cpu.tile_axis >= -1, "the tile axis of a phase is {}; without one it is -1", cpu.tile_axis);
        check((cpu.tile_axis >= 0) == (cpu.tile_block != kNoArg),
              "a phase has to have a tile block exactly when it has a tile axis");
        check(!cpu.across ||
                  (!phase.vector_grid && !phase.grid.empty() && cpu.tile_axis < 0 && !phase.contraction),
              "rows are folded side by side in a phase that has none");
        if (!phase.contraction) {
            check(cpu.mr == 0 && cpu.nr == 0 && cpu.blocks == kNoArg &&
                      (cpu.scratch == 0 || cpu.whole_rows != 0),
                  "a phase without a product has a microkernel of {} x {}", cpu.mr, cpu.nr);
            return;
        }
        check(cpu.mr > 0 && cpu.nr > 0 && cpu.mr <= 4096 && cpu.nr <= 4096,
              "the contraction's microkernel is {} x {}", cpu.mr, cpu.nr);
        check(cpu.blocks + size_t{kContractionArgs} <= k_.args.size(),
              "a contraction's {} block arguments start at a{} of {}", kContractionArgs, cpu.blocks,
              k_.args.size());
        check(cpu.scratch < k_.buffers.size() && k_.buffers[cpu.scratch].mode == BufferMode::Worker,
              "a contraction's scratch b{} is not a worker buffer", cpu.scratch);
    }

    /// The grid is open.
    void verify_schedule(const Phase &phase, const CudaSchedule &cuda) {
        const auto power_of_two = [](int n) { return n > 0 && (n & (n - 1)) == 0; };
        check(cuda.threads >= 32 && cuda.threads <= 1024 && cuda.threads % 32 == 0,
              "a block of {} threads is not whole warps of at most 1024", cuda.threads);
        check(power_of_two(cuda.vector) && cuda.vector <= 64 && cuda.unroll >= 1 && cuda.unroll <= 64,
              "a thread takes {} packets of {} elements", cuda.unroll, cuda.vector);
        const bool rows = cuda.shape == CudaShape::Rows, tiles = cuda.shape == CudaShape::Tiles,
                   product = cuda.shape == CudaShape::Product;
        check(rows || phase.vector_grid, "a grid of rows is done as {}", name(cuda.shape));
        check(!rows || !phase.vector_grid, "a grid with a vector axis is done as rows");
        const bool alone = cuda.row_threads == 1 && cuda.tier == RowTier::Registers &&
                           power_of_two(cuda.row_elements) && cuda.row_elements <= kThreadRow;
        const bool few = cuda.row_threads >= 2 && cuda.row_threads <= 8 && cuda.tier == RowTier::Registers &&
                         power_of_two(cuda.row_elements) && cuda.row_elements >= 4 * cuda.row_threads &&
                         cuda.row_elements <= 16 * cuda.row_threads;
        check(rows ? (cuda.row_threads % 16 == 0 || alone || few) && power_of_two(cuda.row_threads) &&
                         cuda.threads % cuda.row_threads == 0 && cuda.row_elements >= 0 &&
                         cuda.row_elements <= 1 << 24 && cuda.row_elements % cuda.row_threads == 0
                   : cuda.row_threads == 0 && cuda.row_elements == 0 && cuda.tier == RowTier::Memory,
              "{} threads of a block of {} share a row of {} elements", cuda.row_threads, cuda.threads,
              cuda.row_elements);
        check(cuda.tier == RowTier::Memory || cuda.row_elements > 0,
              "rows of any length are kept on the chip");
        check(cuda.scratch_bytes == kNoArg
                  ? cuda.scratch == 0
                  : rows && cuda.tier == RowTier::Memory && cuda.most_blocks > 0 &&
                        cuda.scratch < k_.buffers.size() && k_.buffers[cuda.scratch].mode == BufferMode::Temp,
              "blocks keep rows in b{}, which is no temporary of so many blocks", cuda.scratch);
        arg(cuda.scratch_bytes, true, "the scratch of a block");
        check(cuda.most_blocks >= 0, "a launch has at most {} blocks", cuda.most_blocks);
        check(cuda.cluster_blocks == 1 ||
                  (rows && cuda.tier != RowTier::Memory && power_of_two(cuda.cluster_blocks) &&
                   cuda.cluster_blocks <= 16 && cuda.row_threads == cuda.threads &&
                   cuda.row_threads >= 16 * cuda.cluster_blocks && cuda.most_blocks == 0 &&
                   cuda.row_elements % (int{kLaneChunk} * cuda.cluster_blocks) == 0),
              "a cluster of {} blocks of {} threads has a row of {} elements", cuda.cluster_blocks,
              cuda.threads, cuda.row_elements);
        check(tiles ? cuda.tile_axis >= 0 && axis_[static_cast<size_t>(cuda.tile_axis)] &&
                          phase.grid.back() != cuda.tile_axis
                    : cuda.tile_axis == -1,
              "the tile axis i{} is not an axis of the grid before the last", cuda.tile_axis);
        check(product == phase.contraction.has_value(), "a contraction is done exactly as a product");
        check(!product || (phase.contraction->lhs_digits.empty() && phase.contraction->rhs_digits.empty()),
              "an operand of a product on a CUDA device has digits: it has to be copied before");
        check(product ? cuda.tile_m > 0 && cuda.tile_m <= 1024 && cuda.tile_n > 0 && cuda.tile_n <= 1024
              : tiles ? (cuda.tile_m == 32 || cuda.tile_m == 64) && cuda.tile_n == cuda.tile_m &&
                            cuda.threads >= cuda.tile_m && cuda.threads % cuda.tile_m == 0
                      : cuda.tile_m == 0 && cuda.tile_n == 0,
              "a tile is {} x {}", cuda.tile_m, cuda.tile_n);
    }

    void verify_phase(const Phase &phase) {
        for (const AxisId axis : phase.grid) {
            check(axis < k_.axes.size() && !axis_[axis],
                  "the grid has axis i{}, which is not there or there twice", axis);
            axis_[axis] = true;
        }
        check(!phase.vector_grid || !phase.grid.empty(), "a vector grid has no axis");
        if (const auto *cpu = std::get_if<CpuSchedule>(&phase.schedule))
            verify_schedule(phase, *cpu);
        if (const auto *cuda = std::get_if<CudaSchedule>(&phase.schedule)) {
            check(cuda->tile_axis < static_cast<int>(k_.axes.size()), "the tile axis i{} is not there",
                  cuda->tile_axis);
            verify_schedule(phase, *cuda);
        }
        contraction_ = phase.contraction ? &*phase.contraction : nullptr;
        vector_grid_ = phase.vector_grid;
        const auto *const cpu = std::get_if<CpuSchedule>(&phase.schedule);
        folds_parts_ = cpu ? cpu->across : std::holds_alternative<std::monostate>(phase.schedule);
        if (contraction_)
            verify_contraction(phase, *contraction_);
        verify_region(phase.body, [] {});
        if (cpu && cpu->whole_rows != 0)
            verify_whole_rows(phase, *cpu);
        for (const AxisId axis : phase.grid)
            axis_[axis] = false;
    }

    const Kernel &k_;
    std::vector<State> value_, loop_;
    std::vector<bool> axis_; // walked by the grid or a loop around
    const Contraction *contraction_ = nullptr;
    bool vector_grid_ = false; // of the open phase
    bool folds_parts_ = false; // likewise: whether its loops may have a step
};

} // namespace

void verify(const Kernel &kernel) {
    KernelVerifier(kernel).run();
}

} // namespace lz::ir
