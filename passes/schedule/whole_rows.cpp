#include "passes/schedule/whole_rows.h"

#include <algorithm>
#include <vector>

namespace lz::passes {

using namespace ir;

namespace {

// See cpu.cpp for what is said of each constant. Measure: `gpt2_token` and `product/f32_wide/1/768/3072` of
// bench_products, `matmul_f32/1/1000/1000` and `matmul_f32/1/4096/4096` of bench_matmul.

/// Bytes of a matrix from which on it is worth a second phase; and where rows do not begin at cache lines,
/// as many as the emitter does not walk lane by lane. Those are in the caches, and their sums in registers:
/// 768 x 768 of f32 takes 14 us either way, 1000 x 1000 26 and so 31 (Zen 5, two threads). With 16 registers
/// there is no room for such sums: 1000 x 1000 takes 69 us, and so 54 (Zen 3).
constexpr int64_t kLeastBytes = 2 << 20, kLeastUnaligned = (4 << 20) + 1;
constexpr int kManyRegisters = 32;
constexpr int64_t kLine = 64;
/// Bytes of a row below which it is too short for what there is to do for each. 96 matrices of [1024, 64] of
/// f32 took 255 us so and 197 otherwise, 100 of [256, 256] 227 and 255 (Zen 5, two threads).
constexpr int64_t kLeastRowBytes = 1024;
constexpr int64_t kBlockColumns = 64; ///< of which blocks of columns are multiples
/// Rows of each lane below which the lanes are too much beside the rows.
constexpr int64_t kLeastRowsOfLane = 4;
/// Chunks above which threads share those: 2 parts of so many have 32 partial results, as many as f64 has
/// lanes, which are the most that one fold of the second phase adds as it should.
constexpr int64_t kMostChunks = 16;
constexpr int kMostThreads = 16; ///< that share the lanes, of which f64 has 32

/// Bytes of rows behind each other that one thread reads before it leaves as many to others, and partial
/// results that it may make of each column for that: many beside what is asked for in vain at their end, few
/// enough to be added soon where each thread has a last-level cache of its own. [768, 2304] and [768, 768] of
/// f32 on two such threads (of a Zen 5) that read 80 GB/s: rows in turn 54 and 52, 12 KB of them 59 and 53,
/// 24 KB 66 and 58, 48 KB 68 and 59; from the caches 47 and 16 us, and so 48 and 16, 50 and 17, 55 and 20.
constexpr int64_t kRunBytes = 24 << 10, kMostPartials = 32;

/// Bytes of lanes beside what is read: half a MiB, if the second-level cache has as much, less where it is
/// greater than 1 MiB. Of 4096 x 4096 of f32 half of the rows at a time (256 KiB) takes 0.90 of the time of
/// all, of 2048 x 8192 a quarter 0.83, of 768 x 3072 half of them 0.96 (a Xeon of the Granite Rapids kind,
/// 2 MiB, two threads that read 55 GB/s); but 1.15, 1.02 and 1.0 of it (Zen 4, 1 MiB, 60 GB/s), and 1.1 of
/// each (Zen 3, 512 KiB, 24 GB/s).
int64_t sums_bytes(int64_t l2_bytes) {
    return l2_bytes > 1 << 20 ? 384 << 10 : std::min<int64_t>(l2_bytes, 512 << 10);
}

class Planner {
public:
    Planner(const Kernel &kernel, const LoweredSegment &segment, AxisId across, const CpuLimits &cpu)
        : k_(kernel), segment_(segment), across_(across), cpu_(cpu), loop_(kernel.loops[0]),
          varies_(kernel.instrs.size()) {}

    std::optional<WholeRows> run() {
        const int64_t columns = extent(across_), rows = extent(loop_.axis);
        if (loop_.order != LoopOrder::Lanes || !fits() || columns * widest_ < kLeastRowBytes)
            return {};
        const int size = size_of(loop_.reductions[0].dtype);
        const int64_t lanes = kLaneBytes / size;
        if (rows < kLeastRowsOfLane * lanes || rows > kMostChunks * kLaneChunk)
            return {};
        int64_t products = 1;
        for (const AxisId axis : k_.phases[0].grid)
            products *= axis == across_ ? 1 : extent(axis);
        const bool in_registers = pitch_ % kLine != 0 && cpu_.isa.vector_registers >= kManyRegisters;
        const int64_t least = in_registers ? kLeastUnaligned : kLeastBytes;
        if (products == 0 || bytes_ < least)
            return {};
        WholeRows plan{.across = across_};
        while (plan.chunks * kLaneChunk < rows)
            plan.chunks *= 2;
        const bool enough = products % cpu_.threads == 0 || products >= int64_t{4} * cpu_.threads;
        int shared = 1; // by threads
        while (!enough && cpu_.threads % (2 * shared) == 0 && shared < kMostThreads &&
               2 * shared * plan.chunks <= lanes)
            shared *= 2;
        while (shared > 1 && plan.together * columns * widest_ < kRunBytes &&
               2 * plan.together * shared * plan.chunks <= kMostPartials)
            plan.together *= 2;
        plan.parts = shared * plan.together;
        const int64_t column_bytes = lanes / shared * size * static_cast<int64_t>(loop_.reductions.size());
        const int64_t most = sums_bytes(cpu_.l2_bytes) / column_bytes;
        if (most < kBlockColumns)
            return {};
        int64_t blocks = (columns + most - 1) / most;
        if (!enough)
            blocks = std::max<int64_t>(blocks, cpu_.threads / shared);
        plan.block = ((columns + blocks - 1) / blocks + kBlockColumns - 1) / kBlockColumns * kBlockColumns;
        plan.lane_bytes = plan.block * column_bytes;
        return plan;
    }

private:
    int64_t extent(AxisId axis) const { return segment_.args[k_.axes[axis].extent].constant; }

    /// Whether all there is beside the loop's sums is the same for all columns, and these are not.
    bool fits() {
        const DType dtype = loop_.reductions.empty() ? DType::Bool : loop_.reductions[0].dtype;
        for (const Stmt &stmt : k_.phases[0].body) {
            if (stmt.kind == Stmt::Loop)
                break;
            if (note(stmt.id))
                return false;
        }
        for (const Stmt &stmt : loop_.body) {
            if (stmt.kind == Stmt::Loop || k_.instrs[stmt.id].op == KOp::Philox)
                return false;
            note(stmt.id);
        }
        return std::ranges::all_of(loop_.reductions, [&](const Reduction &r) {
            return (r.op == ReduceOp::Add || r.op == ReduceOp::Mul) && is_float(r.dtype) &&
                   r.dtype == dtype && varies_[r.value];
        });
    }

    /// Whether an instruction, of which those before it are known, is another one for each column.
    bool note(KValue v) {
        const Instr &instr = k_.instrs[v];
        const auto varies = [&](KValue x) { return x != kNoValue && varies_[x]; };
        bool found =
            std::ranges::any_of(instr.operands, varies) || (instr.op == KOp::Axis && instr.index == across_);
        if (instr.access != kNoValue) {
            const Access &access = k_.accesses[instr.access];
            const auto along = [&](AxisId axis) {
                return std::ranges::find(access.strides, axis, &AxisStride::axis);
            };
            found = found || along(across_) != access.strides.end() || varies(access.predicate) ||
                    std::ranges::any_of(access.terms, [&](const IndexTerm &t) { return varies(t.index); });
            if (along(across_) != access.strides.end() && along(loop_.axis) != access.strides.end())
                note_matrix(access, *along(loop_.axis));
        }
        varies_[v] = found;
        return found;
    }

    /// What is read of it, and how far its rows are from each other; of the widest one.
    void note_matrix(const Access &access, const AxisStride &down) {
        const int size = size_of(k_.buffers[access.buffer].dtype);
        int64_t bytes = size;
        for (const AxisStride &s : access.strides)
            bytes *= extent(s.axis);
        bytes_ = std::max(bytes_, bytes);
        if (size <= widest_)
            return;
        widest_ = size;
        pitch_ = down.stride == kNoArg ? size : size * segment_.args[down.stride].constant;
    }

    const Kernel &k_;
    const LoweredSegment &segment_;
    const AxisId across_;
    const CpuLimits &cpu_;
    const Loop &loop_;
    std::vector<bool> varies_; ///< by instruction
    int widest_ = 0;           ///< bytes of an element of the matrix
    int64_t bytes_ = 0, pitch_ = 0;
};

} // namespace

std::optional<WholeRows> plan_whole_rows(const Kernel &kernel, const LoweredSegment &segment, AxisId across,
                                         const CpuLimits &cpu) {
    return Planner(kernel, segment, across, cpu).run();
}

} // namespace lz::passes
