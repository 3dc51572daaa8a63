#include "passes/schedule/cuda.h"

#include "ir/kernel/facts/row_memory.h"
#include "passes/schedule/narrow_indices.h"
#include "passes/schedule/split_reduction.h"
#include "passes/schedule/step_scheduler.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace lz::passes {

using namespace ir;

namespace {

constexpr int64_t kVectorBytes = 16;
/// Elements of a packet at most: registers of a thread are few.
constexpr int kMostVector = 8;
/// Bytes that a thread has under way, of all that it loads: with 2048 threads on an SM 64 KiB, where 40 KiB
/// are needed for 4.8 TB/s (Little's law with 700 ns on 132 SMs).
constexpr int64_t kThreadBytes = 32;
constexpr int kMostUnroll = 4;
/// Threads of a block whose points do not share anything. No measurement was kept; to measure:
/// the `chain` rows of bench_gpu.
constexpr int kThreads = 256;
/// Sides of the tiles in which operands are turned. A thread has a 256th of a tile: four elements of each
/// operand, or 16 of those of at most 2 bytes, 16 to 64 bytes under way. A tile is worth its barriers where
/// both axes fill a half of it.
constexpr int kTile = 32, kTileOfHalves = 64;
constexpr int64_t kLeastTile = kTile / 2;
/// Sixteen threads have 1024 elements of a row in registers, 64 each.
constexpr int64_t kRowChunk = kLaneChunk, kOwnElements = kRowChunk / kFoldThreads;
/// Registers of a thread for what it keeps of a row that it has alone, and elements of such a row.
constexpr int64_t kAloneRegisters = 48, kAloneRow = 8;
static_assert(kAloneRow <= kThreadRow);
/// Elements of a row that a thread has which shares it with few others, at most, and lanes: NVRTC 13.0 has 16
/// of these in local memory. Bytes of the neighbours that they read at a time: a sector of memory.
constexpr int64_t kFewElements = 16, kFewLanes = 8, kSectorBytes = 32;
/// Threads of a block that keeps its row in registers, and registers that each may keep. Of the first a
/// thread has 128 registers, of the second 255: with two rows of f32 in 128 of them NVRTC 13.0 spills 464
/// bytes of each of 512 threads, and 256 have 168 registers.
constexpr int64_t kMostRowThreads = 512, kHalfRowThreads = 256;
constexpr int64_t kMostKept = 96, kMostKeptByHalf = 128;
/// Threads of a block that keeps its row in memory, and registers of each: two such blocks fit on an SM, and
/// one has work while the other waits at a barrier. What keeps more than f32 of an element has half as many
/// threads: exponentials of f64 take 72 to 84 registers of each (NVRTC 13.0).
constexpr int kMemoryThreads = 512, kMemoryRegisters = 64;
/// Rows up to this length have room for the results of all their chunks at once.
constexpr int64_t kListedRow = 65536;
/// A longer row is one of any length (ir/kernel/verify.cpp).
constexpr int64_t kMostListed = 1 << 24;
/// Columns of a matrix with more rows than this are cut into chunks, as on the CPU. No measurement was kept;
/// to measure: sums over axis 0 of 128 to 4096 rows in bench_gpu.
constexpr int64_t kSplitRows = 512;
/// Rows that are longer than this are cut into chunks where whole rows leave SMs without work. No measurement
/// was kept; to measure: sums over axis 1 of 8 rows of 16384 to 1048576 elements in bench_gpu.
///
/// What has to read its rows again is not cut where a cluster holds a row, however few there are. In pieces
/// softmax of f32 is five launches (two reductions, each of chunks and then of their results, and what is
/// stored), which move 20 bytes an element, the exponentials being stored and read; a cluster moves 8. On an
/// H200 (132 SMs, 4.3 of 4.8 TB/s reached, so 33 GB/s for an SM when all read):
///
///     rows of 200,000   a cluster each                       in pieces, and five launches
///     64                8 SMs a row: 102 MB, 25 us           256 MB, 60 us
///     16                128 SMs: 25.6 MB, 6 us               64 MB, most of it in L2: 8 us
///     1                 8 SMs, 200 KB each: 6 us or less     4 MB in L2: 1 us
///
/// A launch in a graph costs its 1.5 us and as long again until its last block has ended, so five are some
/// 10 us: no number of rows is better off in pieces. A row that no cluster holds is cut: 4 of 1,048,576
/// would be 4 blocks, 8 MB of traffic each at 33 GB/s, 250 us; in pieces they are 84 MB, 20 us. These
/// times are estimates; to measure: softmax of 1 to 128 rows of 65,536 to 1,048,576 in bench_gpu.
constexpr int64_t kSplitLength = 65536;
/// Bytes of a permuted value from which on a kernel that reads its rows several times wants them dense: as on
/// the CPU. No measurement was kept; to measure: softmax over axis 1 of transposed matrices of side 128 to
/// 4096 in bench_gpu, where L2 (50 MB of an H200) may hold what is read again.
constexpr int64_t kLeastPermuted = 64 << 10;

class CudaScheduler : StepScheduler {
public:
    CudaScheduler(LoweredStep &step, const CudaLimits &limits) : StepScheduler(step), limits_(limits) {}

    void run() {
        if (splits())
            kernel_ = split_reduction(kernel_, step_.segments[0]);
        const bool streams = stored_bytes() > limits_.l2_bytes / 2;
        for (size_t p = 0; p < kernel_.phases.size(); ++p) {
            kernel_.phases[p].on_cuda().stores = streams ? StoreTier::Streaming : StoreTier::Cached;
            schedule_phase(p);
        }
        place_workers(worker_bytes); // in a part of a temporary, and where kernels are interpreted
        const bool narrow = std::ranges::all_of(
            step_.segments, [&](const LoweredSegment &s) { return has_narrow_indices(kernel_, s); });
        for (Phase &phase : kernel_.phases)
            phase.on_cuda().index32 = narrow;
        choose_segment_tier();
        finish();
    }

private:
    using StepScheduler::extent;
    /// The largest of all segments.
    int64_t extent(AxisId axis) const {
        int64_t most = 0;
        for (const LoweredSegment &segment : step_.segments)
            most = std::max(most, extent(segment, axis));
        return most;
    }
    int64_t points(const LoweredSegment &segment, const Phase &phase) const {
        int64_t n = 1;
        for (const AxisId axis : phase.grid)
            n *= extent(segment, axis);
        return n;
    }
    /// Of all segments together.
    int64_t points(const Phase &phase) const {
        int64_t all = 0;
        for (const LoweredSegment &segment : step_.segments)
            all += points(segment, phase);
        return all;
    }
    /// Threads that the device runs at once.
    int64_t device_threads() const { return int64_t{limits_.multiprocessors} * limits_.threads_per_sm; }

    /// Full reductions always, so that one of any length is the same kernel; others where blocks would be
    /// few.
    bool splits() const {
        if (step_.segments.size() != 1 || !can_split_reduction(kernel_))
            return false;
        const int64_t rows = points(kernel_.phases[0]);
        const Loop &loop = kernel_.loops[0];
        const int64_t length = extent(loop.axis);
        if (loop.order == LoopOrder::Sequential)
            return length > kSplitRows || (length > kSequentialChunk && rows < device_threads() / 4);
        return rows == 1 || (is_few(rows) && length > kSplitLength);
    }

    bool is_few(int64_t rows) const { return rows < limits_.multiprocessors; }

    int64_t stored_bytes() const {
        int64_t bytes = 0;
        for (const LoweredSegment &segment : step_.segments)
            for (const LoweredBuffer &b : segment.buffers)
                if (b.mode == BufferMode::Out || b.mode == BufferMode::InOut)
                    bytes += b.bytes;
        return bytes;
    }

    const Access *access_of(const Instr &instr) const {
        return instr.access == kNoValue ? nullptr : &kernel_.accesses[instr.access];
    }
    int bytes_of(const Access &a) const { return size_of(kernel_.buffers[a.buffer].dtype); }
    static const AxisStride *along(const Access &a, AxisId axis) {
        const auto found = std::ranges::find(a.strides, axis, &AxisStride::axis);
        return found == a.strides.end() ? nullptr : &*found;
    }
    static bool contiguous(const Access &a, AxisId axis) {
        const AxisStride *s = along(a, axis);
        return s && s->cls == StrideClass::Contiguous;
    }

    void schedule_phase(size_t p) {
        Phase &phase = kernel_.phases[p];
        CudaSchedule &cuda = phase.on_cuda();
        if (phase.contraction)
            return schedule_product(phase, cuda);
        if (!phase.vector_grid)
            return schedule_rows(p);
        if (has_loop(phase.body))
            return spread(phase, cuda);
        if (const int turned = turned_axis(phase); turned >= 0) {
            cuda.shape = CudaShape::Tiles;
            cuda.tile_axis = turned;
            cuda.tile_m = cuda.tile_n = loads_halves(phase) ? kTileOfHalves : kTile;
            return;
        }
        schedule_points(phase, cuda);
    }

    /// Few points: smaller blocks, on more SMs.
    void spread(const Phase &phase, CudaSchedule &cuda) const {
        cuda.threads = kThreads;
        while (cuda.threads > 32 &&
               points(phase) / cuda.vector < int64_t{cuda.threads} * limits_.multiprocessors)
            cuda.threads /= 2;
    }

    void schedule_points(const Phase &phase, CudaSchedule &cuda) const {
        const AxisId last = phase.grid.back();
        int smallest = 0;
        int64_t loaded = 0; // bytes of an element
        bool all = true;    // of what is stored
        bool several_axes = false;
        for_each_instr(phase.body, [&](const Instr &instr) {
            const Access *a = access_of(instr);
            if (!a)
                return;
            if (instr.op == KOp::Store)
                all = all && contiguous(*a, last);
            if (!contiguous(*a, last))
                return;
            smallest = smallest == 0 ? bytes_of(*a) : std::min(smallest, bytes_of(*a));
            several_axes = several_axes || a->strides.size() > 1;
            if (instr.op == KOp::Load)
                loaded += bytes_of(*a);
        });
        if (smallest > 0 && all) {
            int vector = static_cast<int>(std::min<int64_t>(kVectorBytes / smallest, kMostVector));
            // Rows that follow each other have to begin at a packet. Else only the last packet of a segment
            // is not whole, and a segment of few elements does not take them from the others.
            const auto fits = [&] {
                return several_axes ? std::ranges::all_of(step_.segments,
                                                          [&](const LoweredSegment &s) {
                                                              return extent(s, last) % vector == 0;
                                                          })
                                    : extent(last) >= vector;
            };
            while (vector > 1 && !fits())
                vector /= 2;
            cuda.vector = vector;
        }
        const int64_t packets = points(phase) / cuda.vector;
        if (loaded > 0 && packets >= 2 * device_threads())
            cuda.unroll =
                static_cast<int>(std::clamp<int64_t>(kThreadBytes / (loaded * cuda.vector), 1, kMostUnroll));
        if (cuda.unroll == 1)
            spread(phase, cuda);
    }

    /// A grid axis along which a load is contiguous that strides along the last one, both worth a tile; or
    /// -1.
    int turned_axis(const Phase &phase) const {
        int found = -1;
        if (phase.grid.size() < 2 || extent(phase.grid.back()) < kLeastTile)
            return found;
        for_each_instr(phase.body, [&](const Instr &instr) {
            const Access *a = access_of(instr);
            if (found >= 0 || instr.op != KOp::Load || !a->terms.empty() || a->predicate != kNoValue)
                return;
            const AxisStride *last = along(*a, phase.grid.back());
            if (!last || last->cls != StrideClass::Strided)
                return;
            for (const AxisStride &s : a->strides)
                if (s.cls == StrideClass::Contiguous && extent(s.axis) >= kLeastTile &&
                    std::ranges::find(phase.grid, s.axis) != phase.grid.end())
                    found = s.axis;
        });
        return found;
    }

    /// Whether no load has more than 2 bytes.
    bool loads_halves(const Phase &phase) const {
        bool all = true;
        for_each_instr(phase.body, [&](const Instr &instr) {
            all = all && (instr.op != KOp::Load || bytes_of(*access_of(instr)) <= 2);
        });
        return all;
    }

    void schedule_product(const Phase &phase, CudaSchedule &cuda) const {
        cuda.shape = CudaShape::Product;
        // Large tiles reuse more, small ones leave no SM without work.
        int64_t batches = 1;
        for (size_t i = 0; i + 2 < phase.grid.size(); ++i)
            batches *= extent(phase.grid[i]);
        const Contraction &c = *phase.contraction;
        LZ_CHECK(c.lhs_digits.empty() && c.rhs_digits.empty(), "a product's operand was not copied");
        const int64_t m = extent(c.m), n = extent(c.n);
        int tile = 64;
        while (tile > 16 &&
               batches * ((m + tile - 1) / tile) * ((n + tile - 1) / tile) < limits_.multiprocessors)
            tile /= 2;
        cuda.tile_m = cuda.tile_n = tile;
    }

    // --- rows

    struct RowFacts {
        int64_t length = 0;         ///< the longest
        int loops = 0;              ///< over whole rows
        bool whole = true;          ///< no loop has bounds, and none is in another
        bool parts = false;         ///< some loop has bounds
        bool chunks = false;        ///< some loop has
        bool uncut = false;         ///< a sum in one chunk
        int64_t first_bytes = 0;    ///< of an element, what the first loop loads of it
        int64_t worker_bytes = 0;   ///< of an element
        int64_t kept_registers = 0; ///< of a thread with kOwnElements, where most are kept at once
    };

    RowFacts row_facts(const Phase &phase) const {
        RowFacts f;
        std::vector<AxisId> axes;
        struct Use {
            uint16_t buffer;
            int loop; ///< in the order of the loops
        };
        std::vector<Use> loads, stores;
        const std::function<void(const Region &, int)> walk = [&](const Region &region, int depth) {
            for (const Stmt &stmt : region) {
                if (stmt.kind == Stmt::Instruction)
                    continue;
                const Loop &loop = kernel_.loops[stmt.id];
                if (loop.order == LoopOrder::Lanes) {
                    ++f.loops;
                    f.length = std::max(f.length, extent(loop.axis));
                    f.whole = f.whole && depth == 0 && loop.begin == kNoValue && loop.end == kNoValue &&
                              !has_loop(loop.body) && (axes.empty() || axes[0] == loop.axis);
                    f.parts = f.parts || loop.begin != kNoValue || loop.end != kNoValue;
                    axes.push_back(loop.axis);
                    for (const Reduction &r : loop.reductions) {
                        const bool sum =
                            is_float(r.dtype) && (r.op == ReduceOp::Add || r.op == ReduceOp::Mul);
                        f.uncut = f.uncut || (sum && loop.chunk == 0);
                    }
                    f.chunks = f.chunks || (loop.chunk > 0 && !loop.reductions.empty());
                    for (const Stmt &s : loop.body)
                        if (s.kind == Stmt::Instruction) {
                            const KOp op = kernel_.instrs[s.id].op;
                            if (op == KOp::Load || op == KOp::Store)
                                (op == KOp::Load ? loads : stores)
                                    .push_back({access_of(kernel_.instrs[s.id])->buffer, f.loops});
                        }
                }
                walk(loop.body, depth + 1);
            }
        };
        walk(phase.body, 0);
        // What is computed is kept from its loop on, what is read again from before the first one (rows.cpp),
        // until the last one that reads it: an element that is read for the last time makes room for one that
        // is computed from it.
        std::vector<int64_t> kept(static_cast<size_t>(f.loops) + 1); // behind each loop
        for (uint16_t b = 0; b < kernel_.buffers.size(); ++b) {
            const bool worker = kernel_.buffers[b].mode == BufferMode::Worker;
            int first = f.loops, last = 0;
            for (const Use &use : loads)
                if (use.buffer == b) {
                    first = std::min(first, use.loop);
                    last = std::max(last, use.loop);
                }
            for (const Use &use : stores)
                if (use.buffer == b && worker)
                    first = std::min(first, use.loop);
            if (!worker && first < last)
                first = 0;
            const int64_t bytes = size_of(kernel_.buffers[b].dtype);
            if (worker && last > 0)
                f.worker_bytes += bytes;
            for (int loop = first; loop < last; ++loop)
                kept[static_cast<size_t>(loop)] += kOwnElements * bytes / 4;
        }
        f.kept_registers = *std::ranges::max_element(kept);
        for (const Use &use : loads)
            if (use.loop == 1)
                f.first_bytes += size_of(kernel_.buffers[use.buffer].dtype);
        return f;
    }

    static int64_t power_of_two(int64_t n) {
        int64_t power = 1;
        while (power < n)
            power *= 2;
        return power;
    }

    /// Threads that share a short row: as few as have kThreadBytes of it under way each, for whom there are
    /// registers. kFoldThreads: the row is not a short one.
    static int64_t threads_of_short_row(const RowFacts &f) {
        const int64_t bytes = std::max<int64_t>(f.first_bytes, 1);
        int64_t elements = std::clamp<int64_t>(kThreadBytes / bytes, 4, kFewElements);
        while (elements > 4 && f.kept_registers * elements / kOwnElements > kAloneRegisters / 2)
            elements /= 2;
        const int64_t length = power_of_two(f.length), lanes = std::min(length, kLaneBytes / 4);
        const int64_t least = std::max({kSectorBytes / 4 / bytes, lanes / kFewLanes, int64_t{2}});
        return std::clamp<int64_t>(length / power_of_two(elements), least, kFoldThreads);
    }

    void schedule_rows(size_t p) {
        const RowFacts f = row_facts(kernel_.phases[p]);
        choose_row_tier(p, f);
        fit_shared_memory(p, f);
    }

    /// Where a block would take more shared memory than the device has: fewer rows a block, then rows in a
    /// temporary, then fewer threads a row, and lists of results that are no longer than these rows'.
    void fit_shared_memory(size_t p, const RowFacts &f) {
        CudaSchedule &cuda = kernel_.phases[p].on_cuda();
        const auto is_too_much = [&] {
            return row_shared_bytes(kernel_, kernel_.phases[p]) > limits_.shared_per_block;
        };
        while (is_too_much() && cuda.threads > std::max(cuda.row_threads, 32))
            cuda.threads /= 2;
        if (is_too_much() && f.worker_bytes > 0 && cuda.tier != RowTier::Memory)
            keep_in_memory(p, cuda.row_threads, f);
        while (is_too_much() && cuda.tier != RowTier::Registers && cuda.row_threads > 32)
            cuda.threads = cuda.row_threads /= 2;
        const int64_t listed = power_of_two(std::max(f.length, 2 * kRowChunk));
        if (is_too_much() && cuda.row_elements == 0 && listed <= kMostListed)
            cuda.row_elements = static_cast<int>(listed);
    }

    void choose_row_tier(size_t p, const RowFacts &f) {
        CudaSchedule &cuda = kernel_.phases[p].on_cuda();
        cuda.shape = CudaShape::Rows;
        const int64_t chunks = std::max<int64_t>((f.length + kRowChunk - 1) / kRowChunk, 1);
        const auto threads_for = [&](int64_t most) {
            return static_cast<int>(std::min<int64_t>(kFoldThreads * power_of_two(chunks), most));
        };
        const auto share = [&](int row_threads) {
            cuda.row_threads = row_threads;
            cuda.threads = row_threads > 32 ? row_threads : 128;
        };
        const int64_t kept = f.kept_registers * kAloneRow / kOwnElements;
        if (f.whole && f.loops > 0 && f.length <= kAloneRow && kept <= kAloneRegisters) {
            cuda.tier = RowTier::Registers;
            cuda.row_threads = 1;
            cuda.threads = 128;
            cuda.row_elements = static_cast<int>(std::max<int64_t>(power_of_two(f.length), 4));
            return;
        }
        if (const int64_t few = threads_of_short_row(f); f.whole && f.loops > 0 && few < kFoldThreads) {
            cuda.tier = RowTier::Registers;
            cuda.row_threads = static_cast<int>(few);
            cuda.threads = 128;
            cuda.row_elements = static_cast<int>(std::max(power_of_two(f.length), 4 * few));
            return;
        }
        const bool reads_again = f.loops > 1 && f.whole && !(f.uncut && chunks > 1);
        const int64_t most = threads_that_keep(f.kept_registers);
        if (reads_again && chunks <= most / kFoldThreads) {
            cuda.tier = RowTier::Registers;
            share(threads_for(most));
            const int64_t least = 4 * kFoldThreads;
            cuda.row_elements = static_cast<int>(chunks > 1 ? cuda.row_threads * kOwnElements
                                                            : std::max(power_of_two(f.length), least));
            return;
        }
        if (reads_again && most > 0 && give_cluster(cuda, f.length, most * kOwnElements)) {
            cuda.tier = RowTier::Registers;
            share(static_cast<int>(most));
            return;
        }
        if (f.worker_bytes == 0) {
            // Nothing is kept; few rows are read again by the SMs of a cluster, where one would take long,
            // and short ones need no room for results of chunks.
            if (reads_again && f.length > kSplitLength && is_few(points(kernel_.phases[p])) &&
                give_cluster(cuda, f.length, kListedRow)) {
                cuda.tier = RowTier::Shared;
                share(kMemoryThreads);
                return;
            }
            if (f.uncut || (f.whole && chunks == 1)) {
                share(static_cast<int>(kFoldThreads));
                if (f.whole && chunks == 1) {
                    cuda.tier = RowTier::Shared;
                    cuda.row_elements = static_cast<int>(kRowChunk);
                }
            } else {
                share(std::max(threads_for(256), 32));
                if (!f.parts && f.length <= kListedRow) {
                    cuda.tier = RowTier::Shared;
                    cuda.row_elements = static_cast<int>(kListedRow);
                }
            }
            return;
        }
        const int64_t room = limits_.shared_per_block - (16 << 10); // results of chunks have some, too
        const auto capacity = [&](int64_t row_threads) {
            const int64_t rows = row_threads > 32 ? 1 : 128 / row_threads;
            int64_t elements = std::max(kRowChunk, power_of_two(f.length));
            if (elements * f.worker_bytes * rows > room) {
                const int64_t whole = std::max(row_threads * 16, kRowChunk); // packets of all threads, chunks
                elements = room / (f.worker_bytes * rows * whole) * whole;
            }
            return elements;
        };
        const int row_threads = f.uncut && chunks == 1 ? static_cast<int>(kFoldThreads) : threads_for(1024);
        share(row_threads);
        if (const int64_t elements = capacity(row_threads);
            f.length <= elements && f.worker_bytes * elements <= room) {
            cuda.tier = RowTier::Shared;
            cuda.row_elements = static_cast<int>(elements);
            return;
        }
        if (reads_again && give_cluster(cuda, f.length, capacity(kMemoryThreads))) {
            cuda.tier = RowTier::Shared;
            share(kMemoryThreads);
            return;
        }
        keep_in_memory(p, row_threads, f);
    }

    /// The most threads of a block that may each keep so many registers of their rows; 0: none may.
    int64_t threads_that_keep(int64_t registers) const {
        const int64_t of_thread = limits_.registers_per_sm / kMostRowThreads;
        return registers <= std::min(kMostKept, of_thread)         ? kMostRowThreads
               : registers <= std::min(kMostKeptByHalf, of_thread) ? kHalfRowThreads
                                                                   : 0;
    }

    /// As many blocks as have room for a row, each for so many elements. False: no cluster has.
    ///
    /// What a cluster saves is memory. A row in a temporary is read, again by each loop that needs it, and
    /// its temporary is written and read: softmax of f32 moves 20 bytes an element, and L2 takes little of
    /// them (a row of 100,000 and its temporary are 800 KB, of which 264 are under way on an H200, four times
    /// its L2). A cluster moves 8. Its barriers cost some 300 ns each, of which the two behind reductions are
    /// waited for: a seventh of what two SMs need for the shortest such row (262 KB at 1/66 of 4.3 TB/s, 4
    /// us), less of longer ones. These times are estimates; to measure: softmax of 40,000 to 250,000 in
    /// bench_gpu.
    bool give_cluster(CudaSchedule &cuda, int64_t length, int64_t elements_of_block) const {
        int blocks = 2;
        while (blocks < limits_.cluster_blocks && length > blocks * elements_of_block)
            blocks *= 2;
        if (blocks > limits_.cluster_blocks || length > blocks * elements_of_block)
            return false;
        cuda.cluster_blocks = blocks;
        cuda.row_elements = static_cast<int>(blocks * elements_of_block);
        return true;
    }

    /// Each block has a part of a temporary, which its rows take one after another.
    void keep_in_memory(size_t p, int row_threads, const RowFacts &f) {
        row_threads = std::clamp(row_threads, 64, f.worker_bytes > 4 ? kMemoryThreads / 2 : kMemoryThreads);
        CudaSchedule &cuda = kernel_.phases[p].on_cuda();
        cuda.tier = RowTier::Memory;
        cuda.row_elements = 0;
        cuda.cluster_blocks = 1;
        cuda.threads = cuda.row_threads = row_threads;
        const int threads = std::min(limits_.threads_per_sm, limits_.registers_per_sm / kMemoryRegisters);
        cuda.most_blocks = limits_.multiprocessors * std::max(threads / row_threads, 1);
        cuda.scratch = static_cast<uint16_t>(kernel_.buffers.size());
        kernel_.buffers.push_back({DType::U8, BufferMode::Temp});
        const auto bytes = [&](const LoweredSegment &segment) {
            int64_t all = 0;
            for (size_t b = 0; b < kernel_.buffers.size() - 1; ++b)
                if (kernel_.buffers[b].mode == BufferMode::Worker)
                    all += worker_bytes(segment, b);
            return all;
        };
        cuda.scratch_bytes = add_arg(ArgRole::Stride, bytes);
        for (LoweredSegment &segment : step_.segments) {
            const int64_t rows = std::min<int64_t>(points(segment, kernel_.phases[p]), cuda.most_blocks);
            segment.buffers.push_back(
                {BufferMode::Temp, kNone, kNone, std::max<int64_t>(bytes(segment) * rows, 1)});
        }
    }

    static int64_t worker_bytes(const LoweredSegment &segment, size_t b) {
        return (segment.buffers[b].bytes + kLaneBytes - 1) / kLaneBytes * kLaneBytes;
    }

    /// How a launch gets at its segments.
    void choose_segment_tier() {
        // A record has what a kernel may use, of 8 bytes at most.
        const auto record = static_cast<int64_t>(
            8 * (kernel_.buffers.size() + kernel_.args.size() + kernel_.scalars.size() + 2));
        const auto segments = static_cast<int64_t>(step_.segments.size());
        const int64_t bytes = segments * record + 8;
        const SegmentTier tier = segments == 1                                        ? SegmentTier::One
                                 : bytes <= 4096                                      ? SegmentTier::Table
                                 : bytes <= 32764 && limits_.parameter_bytes >= 32764 ? SegmentTier::Large
                                                                                      : SegmentTier::Memory;
        for (Phase &phase : kernel_.phases)
            phase.on_cuda().segments = tier;
    }

    const CudaLimits &limits_;
};

} // namespace

void schedule_cuda(LoweredStep &step, const CudaLimits &limits) {
    CudaScheduler(step, limits).run();
}

RowLimits cuda_row_limits(const CudaLimits &limits) {
    constexpr int64_t of_block = kMostRowThreads * kOwnElements * 4;
    return {.few_rows = limits.multiprocessors,
            .long_row = kSplitLength,
            .kept_row = limits.cluster_blocks > 1 ? limits.cluster_blocks * of_block : 0,
            .least_permuted = kLeastPermuted};
}

// Tests are a few instructions while memory is waited for.
PieceCosts cuda_piece_costs() {
    return {};
}

} // namespace lz::passes
