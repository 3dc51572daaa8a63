#include "passes/schedule/cpu.h"

#include "ir/math/expand.h"
#include "passes/schedule/contraction_tile.h"
#include "passes/schedule/split_reduction.h"
#include "passes/schedule/step_scheduler.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace lz::passes {

using namespace ir;

namespace {

/// Enough for a work item to be worth handing out, little enough for the first-level cache.
constexpr int64_t kItemBytes = 32 * 1024;
/// Columns of a work item that folds rows: wide enough for whole pages of each row to be worth opening.
constexpr int64_t kColumnBlock = 512;
/// And of columns whose chunks are folded apart, row by row: wide enough that rows are streams of memory.
constexpr int64_t kPartialColumnBlock = 1024;
/// Of a work item of tiles: they go down its rows, so that what is read ahead is used.
constexpr int64_t kTileColumns = 128, kTileRows = 512;
/// With fewer rows than this, rows that are longer than this are split among workers.
constexpr int64_t kFewRows = 16, kSplitLength = 32768;
/// Rows that are walked side by side are at least so many: what fills a register or two.
constexpr int64_t kLeastAcross = 16;
/// And so many of them are a work item where there are enough; with fewer for each thread, and rows that are
/// longer, rows are cut into chunks.
constexpr int64_t kAcrossBlock = 256, kSplitAcross = 4096;
/// Columns that are longer than this are.
constexpr int64_t kSplitRows = 512;
/// Elements of a matrix that is in no cache: what follows the sums of its long columns reads it anew.
constexpr int64_t kLargeMatrix = int64_t{1} << 20;
/// What one round of all pieces of a join writes, a part of a core's second-level cache; fitted on 1 MiB of
/// it, where 64 to 512 KiB are alike (`bench_memory_bound`, cat).
constexpr int64_t kRoundBytes = 256 << 10;
/// Pieces that are this long in memory need no rounds: their lines and pages are theirs alone.
constexpr int64_t kLongRun = 1024;
/// Runs of at least this many bytes are whole lines mostly: they may be stored past the caches.
constexpr int64_t kStreamedRun = 256;
constexpr int64_t kLine = 64;
/// Rows so long that the lines at their ends, which are written in parts, do not count.
constexpr int64_t kLongRow = 4096;
/// Operations for an element up to which a core waits for memory: 16 lanes and two of them a cycle are some
/// 90 in the time in which an element is read and written at 10 GB/s; half of it, for narrower vectors.
constexpr int kStreamedOperations = 48;
/// Of a random word, a quarter of a block of ten rounds.
constexpr int kPhiloxOperations = 20;
/// Of a last-level cache, what one core may find its data in again: larger ones are made of slices that
/// belong to groups of cores, and virtual machines report all of them (480 MiB were seen for two cores).
constexpr int64_t kMostCache = 32 << 20;

class CpuScheduler : StepScheduler {
public:
    CpuScheduler(LoweredStep &step, const Target &target) : StepScheduler(step), target_(target) {}

    void run() {
        split_ = splits();
        if (split_)
            kernel_ = split_reduction(kernel_, step_.segments[0]);
        choose_rounds();
        const bool bypass = may_bypass();
        for (size_t p = 0; p < kernel_.phases.size(); ++p) {
            kernel_.phases[p].on_cpu();
            if (kernel_.phases[p].contraction)
                schedule_contraction(p);
            else
                schedule_phase(kernel_.phases[p], bypass);
        }
        const std::vector<int64_t> scratch =
            place_workers([](const LoweredSegment &segment, size_t b) { // whole vectors end a row
                return (segment.buffers[b].bytes + 2 * kLaneBytes - 1) / kLaneBytes * kLaneBytes;
            });
        step_.worker_bytes = *std::ranges::max_element(scratch);
        finish();
    }

private:
    using StepScheduler::extent;
    int64_t extent(AxisId axis) const { return extent(step_.segments[0], axis); }

    /// Full reductions always, so that one of any length is the same kernel.
    bool splits() const {
        if (step_.segments.size() != 1 || !can_split_reduction(kernel_))
            return false;
        int64_t rows = 1;
        for (const AxisId axis : kernel_.phases[0].grid)
            rows *= extent(axis);
        const Loop &loop = kernel_.loops[0];
        const int64_t length = extent(loop.axis);
        if (loop.order == LoopOrder::Sequential)
            return length > kSplitRows;
        if (across_axis(kernel_.phases[0]) >= 0)
            return length > kSplitAcross && rows < kAcrossBlock * target_.device(step_.device).cpu().threads;
        return rows == 1 || (rows < kFewRows && length > kSplitLength);
    }

    /// Pieces of a join take turns, so that a row is written while it is in the cache.
    void choose_rounds() {
        if (step_.joined_rows == 1 || step_.segments.size() < 2 || step_.joined_run >= kLongRun)
            return;
        int64_t bytes = 0; // of the largest result
        for (const LoweredBuffer &b : step_.segments[0].buffers)
            if (b.mode == BufferMode::Out)
                bytes = std::max(bytes, b.bytes);
        if (bytes >= 2 * kRoundBytes)
            step_.rounds = std::min(step_.joined_rows, (bytes + kRoundBytes - 1) / kRoundBytes);
    }

    /// Bytes of distinct results.
    int64_t stored_bytes() const {
        std::vector<ValueId> counted;
        int64_t bytes = 0;
        for (const LoweredSegment &segment : step_.segments)
            for (const LoweredBuffer &b : segment.buffers) {
                const bool stored = b.mode == BufferMode::Out || b.mode == BufferMode::InOut;
                if (!stored || std::ranges::find(counted, b.value) != counted.end())
                    continue;
                counted.push_back(b.value);
                bytes += b.bytes;
            }
        return bytes;
    }

    /// Whether results are too large for the caches, and lie in long enough runs.
    bool may_bypass() const {
        const bool whole_lines = step_.joined_rows == 1 || step_.joined_run >= kStreamedRun;
        return whole_lines && bypasses_caches(target_, step_.device, stored_bytes());
    }

    /// Results past the caches, where a phase waits for memory: not where it computes longer than that, nor
    /// where rows begin within lines, whose parts are written twice.
    StoreTier store_tier(const Phase &phase) const {
        return computes_long(phase) || !stores_whole_lines(phase) ? StoreTier::Cached : StoreTier::Streaming;
    }

    // --- what a phase does

    /// Operations for an element that is stored, functions expanded: what is computed once for a row whose
    /// elements are stored does not count.
    bool computes_long(const Phase &phase) const {
        Kernel one = kernel_;
        one.phases = {phase};
        expand_math(one, PhiloxForm::Whole);
        int in_loops = 0, outside = 0;
        bool stores_outside = false;
        const std::function<void(const Region &, bool)> count = [&](const Region &region, bool in_loop) {
            for (const Stmt &stmt : region) {
                if (stmt.kind == Stmt::Loop) {
                    count(one.loops[stmt.id].body, true);
                    continue;
                }
                const Instr &instr = one.instrs[stmt.id];
                (in_loop ? in_loops : outside) +=
                    instr.op == KOp::Philox ? kPhiloxOperations : info(instr.op).operands > 0;
                stores_outside = stores_outside || (!in_loop && instr.op == KOp::Store);
            }
        };
        count(one.phases[0].body, false);
        return in_loops + (stores_outside ? outside : 0) > kStreamedOperations;
    }

    /// Whether each row of what is stored begins at a line, if memory does, or is long.
    bool stores_whole_lines(const Phase &phase) const {
        bool whole = true;
        for_each_instr(phase.body, [&](const Instr &instr) {
            if (instr.op != KOp::Store)
                return;
            const Access &access = kernel_.accesses[instr.access];
            const int64_t bytes = size_of(kernel_.buffers[access.buffer].dtype);
            const auto contiguous =
                std::ranges::find(access.strides, StrideClass::Contiguous, &AxisStride::cls);
            if (contiguous == access.strides.end())
                return; // one element of a row
            for (const LoweredSegment &segment : step_.segments) {
                const int64_t row = extent(segment, contiguous->axis) * bytes;
                whole = whole && (access.strides.size() == 1 || row % kLine == 0 || row >= kLongRow);
            }
        });
        return whole;
    }

    int stored_element_bytes(const Phase &phase) const {
        int bytes = 1;
        for_each_instr(phase.body, [&](const Instr &instr) {
            if (instr.op == KOp::Store)
                bytes =
                    std::max(bytes, size_of(kernel_.buffers[kernel_.accesses[instr.access].buffer].dtype));
        });
        return bytes;
    }

    /// A grid axis along which a load is contiguous that strides along the last one, or -1.
    int turned_axis(const Phase &phase) const {
        int found = -1;
        if (!phase.vector_grid || phase.grid.size() < 2 || has_loop(phase.body))
            return found;
        for_each_instr(phase.body, [&](const Instr &instr) {
            if (found >= 0 || instr.op != KOp::Load || !kernel_.accesses[instr.access].terms.empty())
                return;
            const auto &strides = kernel_.accesses[instr.access].strides;
            const auto along = std::ranges::find(strides, phase.grid.back(), &AxisStride::axis);
            if (along == strides.end() || along->cls == StrideClass::Contiguous)
                return;
            for (const AxisStride &s : strides)
                if (s.cls == StrideClass::Contiguous)
                    found = s.axis;
        });
        return found;
    }

    /// Of a reduction that is split neither phase: how many chunks there are is no class.
    bool tiny_everywhere(AxisId axis) const {
        return !split_ && std::ranges::all_of(step_.segments, [&](const LoweredSegment &segment) {
            return inner_tier(extent(segment, axis)) == InnerTier::Tiny;
        });
    }

    /// Whether all loops, which walk the same rows, reduce at most one chunk. Only sums have chunks: of
    /// others it would be a class without need.
    bool reduces_one_chunk(const Phase &phase) const {
        bool sums = false;
        for (const Stmt &stmt : phase.body) {
            if (stmt.kind != Stmt::Loop)
                continue;
            const Loop &loop = innermost(kernel_.loops[stmt.id]);
            sums = sums || loop.chunk > 0;
            for (const LoweredSegment &segment : step_.segments)
                if (split_ || extent(segment, loop.axis) > chunk_of(loop.order))
                    return false;
        }
        return sums;
    }

    /// A grid axis along which loads are contiguous that stride along what is reduced, or -1: rows along it
    /// are walked side by side where that is all that the phase reads of its operands.
    int across_axis(const Phase &phase) const {
        if (phase.vector_grid)
            return -1;
        int found = -1;
        bool fits = true;
        for (const Stmt &stmt : phase.body) {
            if (stmt.kind != Stmt::Loop)
                continue;
            const Loop &loop = innermost(kernel_.loops[stmt.id]);
            for (const LoweredSegment &segment : step_.segments)
                fits = fits && (loop.begin != kNoValue ||
                                extent(segment, loop.axis) <= chunk_of(loop.order) * chunk_of(loop.order));
            fits = fits && loop.order == LoopOrder::Lanes && !loop.reductions.empty();
            for_each_instr(loop.body, [&](const Instr &instr) {
                if (instr.access == kNoValue)
                    return;
                const Access &access = kernel_.accesses[instr.access];
                const auto along = std::ranges::find(access.strides, loop.axis, &AxisStride::axis);
                if (instr.op != KOp::Load || kernel_.buffers[access.buffer].mode == BufferMode::Worker) {
                    fits = false;
                } else if (along != access.strides.end() && access.strides.size() > 1) {
                    const auto near =
                        std::ranges::find(access.strides, StrideClass::Contiguous, &AxisStride::cls);
                    fits = fits && near != access.strides.end() && near->axis != loop.axis &&
                           access.terms.empty() && (found < 0 || found == near->axis);
                    found = near == access.strides.end() ? -1 : near->axis;
                }
            });
        }
        const auto wide = [&](const LoweredSegment &segment) {
            return extent(segment, static_cast<AxisId>(found)) >= kLeastAcross;
        };
        return fits && found >= 0 && std::ranges::all_of(step_.segments, wide) ? found : -1;
    }

    void schedule_phase(Phase &phase, bool bypass) {
        CpuSchedule &cpu = phase.on_cpu();
        if (bypass)
            cpu.stores = store_tier(phase);
        cpu.one_chunk = reduces_one_chunk(phase);
        cpu.partials = split_ && &phase != &kernel_.phases[0];
        if (const int across = across_axis(phase); across >= 0) {
            cpu.across = true;
            const auto axis = std::ranges::find(phase.grid, static_cast<AxisId>(across));
            std::rotate(axis, axis + 1, phase.grid.end());
        }
        if (!phase.vector_grid && !cpu.across) {
            for (const Stmt &stmt : phase.body)
                if (stmt.kind == Stmt::Loop && tiny_everywhere(innermost(kernel_.loops[stmt.id]).axis))
                    cpu.inner = InnerTier::Tiny;
            return;
        }
        const AxisId last = phase.grid.back();
        cpu.tile_axis = turned_axis(phase);
        const bool tiled = cpu.tile_axis >= 0, folds = has_loop(phase.body);
        const int64_t elements = std::max<int64_t>(kItemBytes / stored_element_bytes(phase), 1);
        const int64_t in_round = (step_.joined_rows + step_.rounds - 1) / step_.rounds;
        cpu.block = add_arg(ArgRole::Block, [&](const LoweredSegment &segment) {
            const int64_t inner = std::max<int64_t>(extent(segment, last), 1);
            const int64_t most = cpu.across ? kAcrossBlock : folds ? column_block(phase) : elements;
            const int64_t block = tiled ? kTileColumns : std::min(inner, most);
            return step_.rounds > 1 && phase.grid.size() == 1 ? std::min(block, in_round) : block;
        });
        if (tiled)
            cpu.tile_block = add_arg(ArgRole::Block, [](const LoweredSegment &) { return kTileRows; });
        if (phase.grid.size() > 1 && tiny_everywhere(last))
            cpu.inner = InnerTier::Tiny;
    }

    int64_t column_block(const Phase &phase) const {
        return split_ && &phase == &kernel_.phases[0] ? kPartialColumnBlock : kColumnBlock;
    }

    const Loop &innermost(const Loop &loop) const {
        const auto inner = std::ranges::find(loop.body, Stmt::Loop, &Stmt::kind);
        return inner == loop.body.end() ? loop : innermost(kernel_.loops[inner->id]);
    }

    // --- products

    int64_t stride(const LoweredSegment &segment, const Access &access, AxisId axis) const {
        for (const AxisStride &s : access.strides)
            if (s.axis == axis)
                return s.cls == StrideClass::Contiguous ? 1 : value_of(segment, s.stride);
        return 0;
    }

    ContractionSizes sizes(const LoweredSegment &segment, const Phase &phase) const {
        const Contraction &c = *phase.contraction;
        ContractionSizes sizes{.dtype = c.dtype,
                               .m = extent(segment, c.m),
                               .n = extent(segment, c.n),
                               .k = extent(segment, c.k),
                               .lhs_m = stride(segment, c.lhs, c.m),
                               .lhs_k = stride(segment, c.lhs, c.k),
                               .rhs_k = stride(segment, c.rhs, c.k),
                               .rhs_n = stride(segment, c.rhs, c.n),
                               .ascending = c.ascending};
        for (size_t i = 0; i + 2 < phase.grid.size(); ++i)
            sizes.batches *= extent(segment, phase.grid[i]);
        return sizes;
    }

    void schedule_contraction(size_t p) {
        const auto &[isa, threads, cache] = target_.device(step_.device).cpu();
        declare_contraction(kernel_, p, isa);
        for (LoweredSegment &segment : step_.segments) {
            const ContractionBlocks blocks =
                contraction_blocks(sizes(segment, kernel_.phases[p]), isa, threads);
            for (const int64_t value : blocks.args)
                segment.args.push_back({value, {}});
            segment.buffers.push_back({BufferMode::Worker, kNone, kNone, blocks.scratch_bytes});
        }
    }

    const Target &target_;
    bool split_ = false;
};

} // namespace

void schedule_cpu(LoweredStep &step, const Target &target) {
    CpuScheduler(step, target).run();
}

RowLimits cpu_row_limits() {
    return {.few_rows = 4, .long_row = 65536, .long_column = kSplitRows, .large_matrix = kLargeMatrix};
}

bool bypasses_caches(const Target &target, Device device, int64_t bytes) {
    if (!target.modes.streaming_stores || target.device(device).runs_cuda())
        return false;
    const int64_t cache = std::min(target.device(device).cpu().cache_bytes, kMostCache);
    return cache > 0 && bytes > cache / 2;
}

} // namespace lz::passes
