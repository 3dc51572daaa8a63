#include "passes/schedule/cpu.h"

#include "passes/schedule/contraction_tile.h"
#include "passes/schedule/split_reduction.h"
#include "passes/schedule/step_scheduler.h"
#include "passes/schedule/whole_rows.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lz::passes {

using namespace ir;

namespace {

// How large the pieces of work are that threads take. Each constant says what it decides and what to measure
// it with on another machine. Rows are of bench_memory_bound unless another bench is named, matrices of f32.
// Where no machine and no figure stand, the measurement was not kept.

/// Bytes of results that one work item stores: handing out a work item has to be cheap beside it, and it
/// should stay in the first-level cache. Measure: `multiply_add`, `gelu_erf`.
constexpr int64_t kItemBytes = 32 * 1024;
/// Columns that one work item reduces down whole rows of a matrix: of each row it reads 2 KiB. Measure: a sum
/// over axis 0 of [256, 65536] (no row has this shape; `sum_axis/0` is split, see kPartialColumnBlock).
constexpr int64_t kColumnBlock = 512;
/// The same where the rows are cut into chunks, each of which gives partial results (kSplitRows): 4 KiB of
/// each row, a page, so that memory is read ahead. Measure: `sum_axis/0`.
constexpr int64_t kPartialColumnBlock = 1024;
/// Columns and rows of a work item of an elementwise phase that reads an operand transposed. It has more rows
/// than columns: the next elements of the transposed operand's rows are then used soon. Measure:
/// `transpose_add`.
constexpr int64_t kTileColumns = 128, kTileRows = 512;
/// A reduction of fewer rows than the first, each longer than the second, is cut into chunks, because whole
/// rows would not give all threads work. Measure: a sum over axis 1 of [8, 2097152], beside `sum_all`.
constexpr int64_t kFewRows = 16, kSplitLength = 32768;
/// Rows are reduced side by side, one in each lane, where at least this many of them are neighbours in
/// memory: they fill one or two vector registers. Measure: the sum of `sum_rows_of_transposed` with 8, 16 and
/// 32 columns.
constexpr int64_t kLeastAcross = 16;
/// Rows of a work item that reduces rows side by side: at most the first, and as few as the second where more
/// items are shared by threads more evenly. Measure: `sum_rows_of_transposed`, `matmul_f32/1/4096/4096` of
/// bench_matmul, and `gpt2_token` of bench_products, whose products of 768 columns would be three items.
constexpr int64_t kAcrossBlock = 256, kLeastAcrossBlock = 64;
/// Such rows are cut into chunks where they are longer than this and there are fewer than kAcrossBlock of
/// them for each thread. Measure: `matmul_f32/1/4096/4096` of bench_matmul with k from 2048 to 65536.
constexpr int64_t kSplitAcross = 4096;
/// Columns of a matrix with more rows than this are cut into chunks. Measure: `sum_axis/0` with 128 to 4096
/// rows of 4096 columns.
constexpr int64_t kSplitRows = 512;
/// Elements of a matrix that no cache holds: an operation that follows the sums of its columns reads it from
/// memory again, so that it may as well be a kernel of its own, which reads whole rows. Measure: softmax over
/// axis 0 of square matrices of side 512 to 4096 (no row has this shape).
constexpr int64_t kLargeMatrix = int64_t{1} << 20;
/// With fewer rows than the first, rows longer than the second are shared by threads, and what follows their
/// reduction is another kernel. Measure: softmax over axis 1 of [1, 65536] to [4, 1048576] (no row has this
/// shape).
constexpr int64_t kFewWholeRows = 4, kLongWholeRow = 65536;
/// Bytes of a permuted value from which on a kernel that reads its rows several times wants them dense.
/// Softmax of a transposed matrix of 128x128 floats took 20 us as two kernels in place of 39 as one, of
/// 512x512 a half, of 4096x4096 a tenth; 64x64, which a first-level cache of 32 KiB holds, were a little
/// slower. Measure: softmax over axis 1 of transposed square matrices of side 64 to 512 (no row has this
/// shape).
constexpr int64_t kLeastPermuted = 64 << 10;
/// Bytes that one round of all pieces of a join writes: a part of a core's second-level cache. On a machine
/// with 1 MiB of it 64 to 512 KiB were alike. Measure: `cat` along axis 1.
constexpr int64_t kRoundBytes = 256 << 10;
/// Bytes of a piece of a join in one row of the result, from which on no rounds are made: few of its cache
/// lines are shared with its neighbours. Measure: `cat/2/1` to `cat/128/1`, whose pieces have 8 KiB to 128
/// bytes in a row.
constexpr int64_t kLongRun = 1024;
/// Bytes of a piece of a join in one row of the result, from which on it may be stored past the caches: most
/// of its cache lines are written whole. Measure: `cat/64/1`, whose pieces have 256 bytes in a row.
constexpr int64_t kStreamedRun = 256;
/// Nanoseconds of a test of one point; and what a row that begins, a segment of a launch and a phase cost, as
/// parts of what it takes to start a kernel. Measure: `heat_rolls` and `heat_slices` of bench_programs, with
/// 64 to 1024 rows and columns.
constexpr double kTestCost = 0.3, kRowPart = 0.008, kPiecePart = 0.1, kBodyPart = 2;
/// Bytes of a cache line.
constexpr int64_t kLine = 64;
/// Bytes of a row, from which on it is stored past the caches wherever it begins: the two lines at its ends,
/// which are written in parts, are few beside the rest. Softmax of 16,000 rows of 4000 bytes takes 0.84 of
/// the time so (Zen 5). Measure: `softmax` of bench_scaling, whose rows have 4000 bytes.
constexpr int64_t kLongRow = 1024;
/// What part of the elements narrow pieces of a space may be that is stored past the caches all the same.
constexpr int64_t kBorder = 64;
/// The most bytes of a last-level cache in which one core finds its data again. Larger caches are made of
/// slices that belong to groups of cores, and virtual machines report all slices (a Sapphire Rapids Xeon
/// reports 480 MiB to a machine of two cores). Measure: `multiply_add` with 1 to 64 MiB of results, with
/// stores past the caches and without.
constexpr int64_t kMostCache = 32 << 20;

/// Whether results of so many bytes in all are stored past the caches of the device.
bool bypasses_caches(const Target &target, Device device, int64_t bytes) {
    if (!target.modes.streaming_stores)
        return false;
    const int64_t cache = std::min(target.device(device).cpu().cache_bytes, kMostCache);
    return cache > 0 && bytes > cache / 2;
}

class CpuScheduler : StepScheduler {
public:
    CpuScheduler(LoweredStep &step, const Target &target) : StepScheduler(step), target_(target) {}

    void run() {
        whole_ = reads_whole_rows();
        split_ = whole_ || splits();
        if (split_)
            kernel_ =
                split_reduction(kernel_, step_.segments[0],
                                whole_ ? Split{whole_->parts, whole_->chunks, whole_->across} : Split{});
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
        step_.worker_bytes = 0;
        for (const int64_t bytes : scratch)
            step_.worker_bytes = std::max(step_.worker_bytes, bytes);
        finish();
    }

private:
    using StepScheduler::extent;
    int64_t extent(AxisId axis) const { return extent(step_.segments[0], axis); }

    /// Whether the reduction is cut into chunks that threads share. A full reduction is where it has threads;
    /// below that, one phase that needs no memory for partial results is faster (a sum of 4000 elements by
    /// 0.2 us).
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
        return rows == 1 ? step_.cost >= kAloneCost : rows < kFewRows && length > kSplitLength;
    }

    std::optional<WholeRows> reads_whole_rows() const {
        if (step_.segments.size() != 1 || !can_split_reduction(kernel_))
            return {};
        const int axis = across_axis(kernel_.phases[0]);
        return axis < 0 ? std::nullopt
                        : plan_whole_rows(kernel_, step_.segments[0], static_cast<AxisId>(axis),
                                          target_.device(step_.device).cpu());
    }

    /// In how many rounds the pieces of a join are copied. In each round every piece copies some rows, so
    /// that the parts of one row are written while its cache lines are still in the cache.
    void choose_rounds() {
        if (step_.joined_rows == 1 || step_.segments.size() < 2 || step_.shortest_run >= kLongRun)
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
        std::unordered_set<ValueId> counted;
        int64_t bytes = 0;
        for (const LoweredSegment &segment : step_.segments)
            for (const LoweredBuffer &b : segment.buffers)
                if ((b.mode == BufferMode::Out || b.mode == BufferMode::InOut) &&
                    counted.insert(b.value).second)
                    bytes += b.bytes;
        return bytes;
    }

    /// Whether results are too large for the caches, and lie in long enough runs.
    bool may_bypass() const {
        const bool whole_lines = step_.joined_rows == 1 || step_.joined_run >= kStreamedRun;
        return whole_lines && bypasses_caches(target_, step_.device, stored_bytes());
    }

    /// Stores go past the caches, however much is computed: of long chains, too, few lines are asked for
    /// ahead of what is computed (`pow` of 16 M elements takes 4.5 ms so on Zen 5, and 10.9 otherwise;
    /// `sin` 2.5 and 3.5, `randn` 13 and 16). They do not where rows begin in the middle of a cache line:
    /// such a line would be written to memory twice, once by each row.
    StoreTier store_tier(const Phase &phase) const {
        return stores_whole_lines(phase) ? StoreTier::Streaming : StoreTier::Cached;
    }

    // --- what a phase does

    /// Whether each row that is stored begins at a cache line (if the buffer does) or is long; but for the
    /// narrow pieces of a space that are its border.
    bool stores_whole_lines(const Phase &phase) const {
        bool whole = true;
        const auto index = static_cast<size_t>(&phase - kernel_.phases.data());
        for_each_instr(phase.body, [&](const Instr &instr) {
            if (instr.op != KOp::Store)
                return;
            const Access &access = kernel_.accesses[instr.access];
            const int64_t bytes = size_of(kernel_.buffers[access.buffer].dtype);
            const auto contiguous =
                std::ranges::find(access.strides, StrideClass::Contiguous, &AxisStride::cls);
            if (contiguous == access.strides.end())
                return; // it stores one element a row
            // Elements, of all rows and of those that fill lines in part.
            int64_t all = 0, in_parts = 0;
            for (const LoweredSegment &segment : step_.segments) {
                if (index < segment.absent.size() && segment.absent[index])
                    continue;
                int64_t elements = 1;
                for (const AxisId axis : phase.grid)
                    elements *= extent(segment, axis);
                const int64_t row = extent(segment, contiguous->axis) * bytes;
                all += elements;
                if (access.strides.size() > 1 && row % kLine != 0 && row < kLongRow)
                    in_parts += elements;
            }
            whole = whole && in_parts <= all / kBorder;
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

    /// The grid axis along which some load is contiguous while it strides along the last grid axis: that load
    /// reads its operand transposed. -1: there is none.
    int turned_axis(const Phase &phase) const {
        int found = -1;
        if (!phase.vector_grid || phase.grid.size() < 2 || has_loop(phase.body))
            return found;
        for_each_instr(phase.body, [&](const Instr &instr) {
            if (found >= 0 || instr.op != KOp::Load || !kernel_.accesses[instr.access].terms.empty())
                return;
            const auto &strides = kernel_.accesses[instr.access].strides;
            const auto along = std::ranges::find(strides, phase.grid.back(), &AxisStride::axis);
            if (along == strides.end() || along->cls != StrideClass::Strided)
                return;
            for (const AxisStride &s : strides)
                if (s.cls == StrideClass::Contiguous)
                    found = s.axis;
        });
        return found;
    }

    /// Whether the axis is tiny in all segments, which makes a kernel of its own class. In a split reduction
    /// no axis counts as tiny: the number of chunks must not make another kernel.
    bool tiny_everywhere(AxisId axis) const {
        return !split_ && std::ranges::all_of(step_.segments, [&](const LoweredSegment &segment) {
            return inner_tier(extent(segment, axis)) == InnerTier::Tiny;
        });
    }

    /// Whether every loop of the phase, those that others stand in too, has sums of at most one chunk. Only
    /// sums have chunks; a phase without sums gives false, since the answer makes a kernel of its own class.
    bool reduces_one_chunk(const Phase &phase) const {
        bool sums = false;
        for (const Stmt &stmt : phase.body) {
            if (stmt.kind != Stmt::Loop)
                continue;
            for (const Loop *loop = &kernel_.loops[stmt.id]; loop; loop = inside(*loop)) {
                sums = sums || loop->chunk > 0;
                for (const LoweredSegment &segment : step_.segments)
                    if (split_ || extent(segment, loop->axis) > chunk_of(loop->order))
                        return false;
            }
        }
        return sums;
    }

    /// The grid axis along which the rows of the phase lie side by side in memory, so that they can be
    /// reduced one in each lane; -1: there is none. Each load that changes along the reduced axis must be
    /// contiguous along this one, or the same for all of its rows.
    int across_axis(const Phase &phase) const {
        if (phase.vector_grid)
            return -1;
        int found = -1;
        bool fits = true;
        std::vector<const Access *> shared; // by rows, so far
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
                if (instr.op != KOp::Load || kernel_.buffers[access.buffer].mode == BufferMode::Worker) {
                    fits = false;
                    return;
                }
                if (!strides_along(access, loop.axis) || access.strides.size() == 1)
                    return;
                const auto near =
                    std::ranges::find(access.strides, StrideClass::Contiguous, &AxisStride::cls);
                fits = fits && access.terms.empty();
                if (near == access.strides.end() || near->axis == loop.axis) {
                    shared.push_back(&access);
                } else {
                    fits = fits && (found < 0 || found == near->axis);
                    found = near->axis;
                }
            });
        }
        if (!fits || found < 0)
            return -1;
        const auto axis = static_cast<AxisId>(found);
        const auto is_shared = [&](const Access *access) { return !strides_along(*access, axis); };
        const auto wide = [&](const LoweredSegment &segment) {
            return extent(segment, axis) >= kLeastAcross;
        };
        return std::ranges::all_of(shared, is_shared) && std::ranges::all_of(step_.segments, wide) ? found
                                                                                                   : -1;
    }
    static bool strides_along(const Access &access, AxisId axis) {
        return std::ranges::find(access.strides, axis, &AxisStride::axis) != access.strides.end();
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
        if (whole_ && !cpu.partials)
            return schedule_whole_rows(cpu);
        const AxisId last = phase.grid.back();
        cpu.tile_axis = turned_axis(phase);
        const bool tiled = cpu.tile_axis >= 0, folds = has_loop(phase.body);
        const int64_t elements = std::max<int64_t>(kItemBytes / stored_element_bytes(phase), 1);
        const int64_t in_round = (step_.joined_rows + step_.rounds - 1) / step_.rounds;
        cpu.block = add_arg(ArgRole::Block, [&](const LoweredSegment &segment) {
            const int64_t inner = std::max<int64_t>(extent(segment, last), 1);
            const int64_t most = cpu.across ? across_block(segment, phase)
                                 : folds    ? column_block(phase)
                                            : elements;
            const int64_t block = tiled ? kTileColumns : std::min(inner, most);
            return step_.rounds > 1 && phase.grid.size() == 1 ? std::min(block, in_round) : block;
        });
        if (tiled)
            cpu.tile_block = add_arg(ArgRole::Block, [](const LoweredSegment &) { return kTileRows; });
        if (phase.grid.size() > 1 && tiny_everywhere(last))
            cpu.inner = InnerTier::Tiny;
    }

    void schedule_whole_rows(CpuSchedule &cpu) {
        cpu.whole_rows = whole_->together;
        cpu.block = add_arg(ArgRole::Block, [&](const LoweredSegment &) { return whole_->block; });
        cpu.scratch = static_cast<uint16_t>(kernel_.buffers.size());
        kernel_.buffers.push_back(
            {.dtype = kernel_.loops[0].reductions[0].dtype, .mode = BufferMode::Worker});
        step_.segments[0].buffers.push_back({BufferMode::Worker, kNone, kNone, whole_->lane_bytes});
        step_.cost *= kProductRate; // it has scratch, and is no faster for it
    }

    /// The largest block of those with which the busiest thread has least to do.
    int64_t across_block(const LoweredSegment &segment, const Phase &phase) const {
        const int64_t threads = target_.device(step_.device).cpu().threads;
        int64_t best = kAcrossBlock, least = INT64_MAX;
        for (int64_t block = kAcrossBlock; block >= kLeastAcrossBlock; block /= 2) {
            int64_t items = 1;
            for (const AxisId axis : phase.grid) {
                const int64_t rows = extent(segment, axis);
                items *= axis == phase.grid.back() ? (rows + block - 1) / block : rows;
            }
            const int64_t busiest = (items + threads - 1) / threads * block;
            if (busiest < least) {
                best = block;
                least = busiest;
            }
        }
        return best;
    }

    int64_t column_block(const Phase &phase) const {
        return split_ && &phase == &kernel_.phases[0] ? kPartialColumnBlock : kColumnBlock;
    }

    /// The loop that stands in this one, or null.
    const Loop *inside(const Loop &loop) const {
        const auto inner = std::ranges::find(loop.body, Stmt::Loop, &Stmt::kind);
        return inner == loop.body.end() ? nullptr : &kernel_.loops[inner->id];
    }
    const Loop &innermost(const Loop &loop) const {
        const Loop *const inner = inside(loop);
        return inner ? innermost(*inner) : loop;
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
                               .accumulate = c.accumulate,
                               .m = extent(segment, c.m),
                               .n = extent(segment, c.n),
                               .k = extent(segment, c.k),
                               .lhs_m = stride(segment, c.lhs, c.m),
                               .lhs_k = stride(segment, c.lhs, c.k),
                               .rhs_k = stride(segment, c.rhs, c.k),
                               .rhs_n = stride(segment, c.rhs, c.n),
                               .ascending = c.ascending,
                               .lhs_digits = !c.lhs_digits.empty(),
                               .rhs_digits = !c.rhs_digits.empty()};
        for (size_t i = 0; i + 2 < phase.grid.size(); ++i)
            sizes.batches *= extent(segment, phase.grid[i]);
        return sizes;
    }

    void schedule_contraction(size_t p) {
        const ir::CpuLimits &cpu = target_.device(step_.device).cpu();
        declare_contraction(kernel_, p, cpu.isa);
        for (LoweredSegment &segment : step_.segments) {
            const ContractionBlocks blocks = contraction_blocks(sizes(segment, kernel_.phases[p]), cpu);
            for (const int64_t value : blocks.args)
                segment.args.push_back({value, {}});
            segment.buffers.push_back({BufferMode::Worker, kNone, kNone, blocks.scratch_bytes});
        }
    }

    const Target &target_;
    bool split_ = false;
    std::optional<WholeRows> whole_; ///< which is a split, too
};

} // namespace

void schedule_cpu(LoweredStep &step, const Target &target) {
    if (step.kind == StepKind::Library) { // a join, whose result is its last operand
        step.ints[kConcatBypasses] = {bypasses_caches(target, step.device, step.operands.back().bytes), {}};
        return;
    }
    CpuScheduler(step, target).run();
}

// Fewer and longer rows than these are cut into chunks that all threads share: a sum over axis 1 of [2,
// 4194304] beside one of [4, 2097152] shows what that is worth (no row of bench_memory_bound has these
// shapes).
RowLimits cpu_row_limits() {
    return {.few_rows = kFewWholeRows,
            .long_row = kLongWholeRow,
            .long_column = kSplitRows,
            .large_matrix = kLargeMatrix,
            .least_permuted = kLeastPermuted};
}

PieceCosts cpu_piece_costs(const DeviceRates &rates) {
    const double start = 1e9 * rates.launch_seconds;
    return {
        .test = kTestCost, .row = kRowPart * start, .piece = kPiecePart * start, .body = kBodyPart * start};
}

} // namespace lz::passes
