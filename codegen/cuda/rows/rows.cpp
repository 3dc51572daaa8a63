#include "codegen/cuda/emitter.h"
#include "ir/kernel/facts/row_memory.h"

#include <algorithm>

namespace lz::codegen::cuda {

using namespace ir;

// Threads of a row come in groups of sixteen, half a warp, that hold the lanes of a fold: thread t of a group
// has the lanes [t * row_width_, (t + 1) * row_width_), which are a packet in memory. A round is a packet of
// each thread; 1024 elements of f32 are 16 rounds. Where a loop has chunks each chunk is folded by one group,
// and the chunks' results lie in shared memory, where every group folds them again, so that all threads have
// the result.
//
// Where packets would not be aligned a round is one element of each thread (PhaseEmitter::row_width_), so
// that the threads of a group still read and write neighbours at a time. A thread then has every sixteenth
// lane, which folds in the same order.
//
// Short rows have fewer threads, so that few of these have nothing: a row of at most kThreadRow elements is
// one packet of a thread that has it alone, with a lane for each, and a longer one is some packets of each of
// two, four or eight threads. Lanes that no element of such a row is in are left out: one more value of
// theirs would change nothing.
//
// Rows that no block has room for are a cluster's: each of its blocks has a part of as many chunks, as it
// would have a row, and what the groups and chunks of one give to a reduction it writes to all others' shared
// memory.
//
//     arrive at the cluster's barrier   load the part   wait there
//     part = ...   parts[chunk] of every block = part   arrive and wait   ... = fold(parts)
//
// By the first barrier of a row all blocks have begun, and have read what they were given for the row before;
// it costs nothing, for the loads take longer. Behind the last one a block touches its own memory alone, so
// no block ends too early.

namespace {

/// Bytes of a thread's round, of which kMostBatch are loaded at a time.
constexpr int kSmallRound = 8;
/// Bytes that an SM needs under way, its shared memory, and threads that it has at least where nothing else
/// is in their way: they have 48 registers each. With twice as much of each thread NVRTC 13.0 spills for sums
/// on sm_80.
constexpr int64_t kSmBytes = 40 << 10, kSharedOfSm = 228 << 10, kOwnThreads = 1280;

} // namespace

std::string PhaseEmitter::shared_array(const std::string &type, int64_t bytes, int64_t count,
                                       const std::string &name, std::string_view from) {
    const int rows = schedule_.threads / schedule_.row_threads;
    shared_bytes_ = (shared_bytes_ + 15) / 16 * 16;
    const std::string at = rows == 1 ? "" : " + " + times("row_of_block", count);
    const std::string begin =
        shared_bytes_ == 0 ? "row_memory" : fmt::format("(row_memory + {})", shared_bytes_);
    w_.line("{0} *const {1} = ({0} *){2}{3}{4};", type, name, begin, at, from);
    shared_bytes_ += bytes * count * rows;
    return name;
}

size_t PhaseEmitter::sync_row(Rank rank, bool of_cluster) {
    const size_t from = w_.size();
    if (of_cluster)
        w_.line("sync_cluster();");
    else if (schedule_.row_threads < 32)
        w_.line("__syncwarp(neighbours<{}>());", schedule_.row_threads);
    else if (schedule_.row_threads == 32)
        w_.line("__syncwarp();");
    else
        w_.line("__syncthreads();");
    barrier_lines_.emplace_back(from, w_.size() - from);
    return barriers_.place(rank, of_cluster);
}

/// Where values are given to all threads of the row.
size_t PhaseEmitter::sync_exchange() {
    return sync_row(kExchange, schedule_.cluster_blocks > 1);
}

void PhaseEmitter::leave_out_barriers() {
    const std::vector<bool> needed = barriers_.needed(schedule_.segments != SegmentTier::One);
    for (size_t b = needed.size(); b-- > 0;)
        if (!needed[b])
            w_.erase(barrier_lines_[b].first, barrier_lines_[b].second);
}

/// Buffers in memory that threads of a row store to and load from.
void PhaseEmitter::find_row_buffers() {
    const std::function<void(const Region &)> walk = [&](const Region &region) {
        for (const Stmt &stmt : region) {
            if (stmt.kind == Stmt::Loop) {
                walk(kernel_.loops[stmt.id].body);
                continue;
            }
            const Instr &instr = kernel_.instrs[stmt.id];
            if (instr.op != KOp::Load || is_dead(stmt.id))
                continue;
            const uint16_t b = kernel_.accesses[instr.access].buffer;
            const bool in_thread = kernel_.buffers[b].mode == BufferMode::Worker && in_registers();
            if (stored_.contains(b) && !in_thread)
                row_buffers_.insert(b);
        }
    };
    if (!has_row_alone())
        walk(phase_.body);
}

/// Tells the barriers of an access to such a buffer. `owners`: which threads have which elements of a loop
/// whose packets these are; empty for all else.
void PhaseEmitter::note_row_access(const Instr &instr, const std::string &owners) {
    if (instr.access == kNoValue)
        return;
    const Access &a = kernel_.accesses[instr.access];
    if (!row_buffers_.contains(a.buffer))
        return;
    std::string elements;
    if (!owners.empty() && a.terms.empty()) {
        elements = fmt::format("{} of {}", owners, a.offset);
        for (const AxisStride &s : a.strides)
            elements += fmt::format(", i{} {} {}", s.axis, static_cast<int>(s.cls), s.stride);
    }
    const bool is_worker = kernel_.buffers[a.buffer].mode == BufferMode::Worker;
    const RowBarriers::Array array{.name = buffer_name(kernel_, a.buffer),
                                   .of_cluster = !is_worker && schedule_.cluster_blocks > 1,
                                   .of_row = !is_worker};
    if (instr.op == KOp::Store)
        barriers_.write(array, elements);
    else
        barriers_.read(array, elements);
}

/// What the rounds of a loop touch, whose elements threads have as `owners` says.
void PhaseEmitter::note_rounds(uint32_t id, const std::string &owners) {
    const Loop &loop = kernel_.loops[id];
    const bool whole_axis = loop.begin == kNoValue && loop.end == kNoValue;
    const std::function<void(const Region &, bool)> walk = [&](const Region &region, bool inner) {
        for (const Stmt &stmt : region) {
            if (stmt.kind == Stmt::Loop) {
                walk(kernel_.loops[stmt.id].body, true);
                continue;
            }
            const Instr &instr = kernel_.instrs[stmt.id];
            if (instr.access == kNoValue || (instr.op == KOp::Load && is_dead(stmt.id)))
                continue;
            const bool own = !inner && whole_axis && is_packet(kernel_.accesses[instr.access], loop.axis);
            note_row_access(instr, own ? owners : "");
        }
    };
    walk(loop.body, false);
}

void PhaseEmitter::write_rows() {
    const int rows = schedule_.threads / schedule_.row_threads, blocks = schedule_.cluster_blocks;
    need(rows == 1 || schedule_.row_threads <= 32, "a block has several rows of more than a warp each");
    need(blocks == 1 || (rows == 1 && groups() >= blocks), "a cluster has rows of few threads");
    in_rows_ = true;
    const int threads = schedule_.row_threads;
    std::string points;
    for (const AxisId a : phase_.grid)
        points = points.empty() ? extent(a) : points + " * " + extent(a);
    if (phase_.grid.size() == 1) // the row is the index itself
        axis_names_[phase_.grid[0]] = "row";
    if (rows == 1) {
        item_ = phase_.grid.size() == 1 ? "row" : "item";
        w_.line("const int row_thread = threadIdx.x;");
    } else {
        const std::string of_block = has_row_alone() ? "threadIdx.x" : "row_of_block";
        if (!has_row_alone())
            w_.line("const int row_of_block = threadIdx.x / {0}, row_thread = threadIdx.x % {0};", threads);
        w_.line("const {} row = item * {} + {};", index_type(), rows, of_block);
        w_.line("if (row >= {})", points.empty() ? "1" : points);
        w_.indent();
        w_.line("return;");
        w_.outdent();
    }
    if (groups() > 1)
        w_.line("const int group = row_thread / {0}, lane = {1};", kFoldThreads,
                times(fmt::format("row_thread % {}", kFoldThreads), row_width_));
    else if (lane() == "lane")
        w_.line("const int lane = {};", times("row_thread", row_width_));
    if (phase_.grid.size() > 1)
        write_coordinates(rows == 1 ? "item" : "row", "row", phase_.grid.size());
    find_row_buffers();
    if (blocks > 1)
        open_cluster_row();
    declare_kept();
    if (blocks > 1) {
        w_.line("__cluster_barrier_wait();");
        barriers_.barrier();
    }
    write_region(phase_.body);
    if (has_row_alone())
        return;
    sync_row(kEndOfRow); // what they share is written again for the next row
    leave_out_barriers();
}

/// Which part of the row is this block's.
void PhaseEmitter::open_cluster_row() {
    const auto is_row = [&](const Stmt &s) {
        return s.kind == Stmt::Loop && kernel_.loops[s.id].order == LoopOrder::Lanes;
    };
    const auto loop = std::ranges::find_if(phase_.body, is_row);
    need(loop != phase_.body.end(), "a cluster has a row without loops");
    part_elements_ = schedule_.row_elements / schedule_.cluster_blocks;
    w_.line("__cluster_barrier_arrive();");
    w_.line("const int rank = blockIdx.x % {};", schedule_.cluster_blocks);
    w_.line("const {} part_begin = {} * {};", index_type(), widened("rank"), part_elements_);
    if (in_registers())
        return;
    const std::string end = extent(kernel_.loops[loop->id].axis);
    w_.line("const {0} part_end = {1} < part_begin ? part_begin : {1} - part_begin < {2} ? {1} : part_begin "
            "+ {2};",
            index_type(), end, part_elements_);
}

/// Where the phase's Worker buffers are, and the packets of a row that several loops read.
void PhaseEmitter::declare_kept() {
    std::set<uint16_t> workers; // other phases of the kernel have their own
    const std::function<void(const Region &)> walk = [&](const Region &region) {
        for (const Stmt &stmt : region) {
            if (stmt.kind == Stmt::Loop) {
                walk(kernel_.loops[stmt.id].body);
                continue;
            }
            const uint32_t access = kernel_.instrs[stmt.id].access;
            if (access == kNoValue)
                continue;
            const uint16_t b = kernel_.accesses[access].buffer;
            if (kernel_.buffers[b].mode == BufferMode::Worker)
                workers.insert(b);
        }
    };
    walk(phase_.body);
    const int rows = schedule_.threads / schedule_.row_threads;
    const bool single = in_registers() && rounds_kept() == 1;
    const std::string of_rounds = in_registers() && !single ? fmt::format("[{}]", rounds_kept()) : "";
    for (const uint16_t b : workers) {
        const KBuffer &worker = kernel_.buffers[b];
        const std::string type(c_type(worker.dtype));
        switch (schedule_.tier) {
        case RowTier::Registers:
            w_.line("{} {}{} = {{}};", packet_type(worker.dtype, row_width_), buffer(b), of_rounds);
            break;
        case RowTier::Shared:
            shared_array(type, size_of(worker.dtype), schedule_.row_elements / schedule_.cluster_blocks,
                         buffer(b), schedule_.cluster_blocks > 1 ? " - part_begin" : "");
            break;
        case RowTier::Memory:
            need(schedule_.scratch_bytes != kNoArg && rows == 1, "it keeps rows and has no memory for them");
            w_.line("{0} *const {1} = ({0} *)({2} + (long long)blockIdx.x * {3} + {4});", type, buffer(b),
                    buffer(schedule_.scratch), arg(schedule_.scratch_bytes), arg(worker.worker_offset));
            break;
        }
    }
    if (!in_registers())
        return;
    // Loads of whole rows that more than one loop has.
    std::vector<KValue> loads;
    const auto equal = [&](KValue x, KValue y) {
        const Access &a = kernel_.accesses[kernel_.instrs[x].access],
                     &b = kernel_.accesses[kernel_.instrs[y].access];
        return a.buffer == b.buffer && a.offset == b.offset &&
               std::ranges::equal(a.strides, b.strides, [](const AxisStride &s, const AxisStride &t) {
                   return s.axis == t.axis && s.cls == t.cls && s.stride == t.stride;
               });
    };
    for (const Stmt &stmt : phase_.body) {
        if (stmt.kind != Stmt::Loop || kernel_.loops[stmt.id].order != LoopOrder::Lanes)
            continue;
        const Loop &loop = kernel_.loops[stmt.id];
        for (const KValue v : early_loads(loop.body, loop.axis)) {
            const Access &a = kernel_.accesses[kernel_.instrs[v].access];
            if (a.terms.empty() && a.predicate == kNoValue && !stored_.contains(a.buffer))
                loads.push_back(v);
        }
    }
    std::vector<KValue> kept;
    for (size_t i = 0; i < loads.size(); ++i) {
        const auto is_it = [&](KValue v) { return equal(v, loads[i]); };
        const auto other_loop = [&](KValue v) { return is_it(v) && loop_of_[v] != loop_of_[loads[i]]; };
        if (std::ranges::any_of(loads, other_loop) && std::ranges::none_of(kept, is_it))
            kept.push_back(loads[i]);
    }
    if (kept.empty())
        return;
    std::vector<KeptPackets> arrays;
    for (const KValue v : kept) {
        const Access &a = kernel_.accesses[kernel_.instrs[v].access];
        arrays.push_back({a, fmt::format("x{}", v), "", single});
        w_.line("{} x{}{} = {{}};", packet_type(kernel_.instrs[v].dtype, row_width_), v, of_rounds);
    }
    if (!single) {
        w_.plain("#pragma unroll");
        open("for (int u = 0; u < {}; ++u)", rounds_kept());
    }
    const AxisId a = kernel_.loops[loop_of_[kept[0]]].axis;
    std::string k = plus({first_kept(), single ? "" : fmt::format("u * {}", round_elements()), lane()});
    if (single && k != "0" && !is_name(k))
        open();
    k = named(k, "k");
    open("if ({})", less(k, extent(a)));
    for (const KValue v : kept) {
        need(kernel_.loops[loop_of_[v]].axis == a, "loops over several axes are kept in registers");
        const bool whole = note_alignments(kernel_.loops[loop_of_[v]].body, a, row_width_, true);
        w_.line(
            "x{}{} = {};", v, single ? "" : "[u]",
            packet_load(v, {.axis = a, .width = row_width_, .first = k, .end = extent(a), .whole = whole}));
    }
    close();
    if (!single || k == "k")
        close();
    kept_ = std::move(arrays);
}

/// Rounds of single elements that are loaded before the first of them is used: as many as are 40 KiB of an
/// SM's threads, of which some have no room beside the rows that blocks keep. What is near takes a quarter of
/// the time: rows that a block keeps, which it read before, and what all rows read.
int PhaseEmitter::single_rounds(int bytes, bool near) const {
    const int64_t blocks = kSharedOfSm / (row_shared_bytes(kernel_, phase_) + (1 << 10));
    const int64_t threads = std::clamp<int64_t>(blocks * schedule_.threads, schedule_.threads, kOwnThreads);
    int rounds = kBatch;
    while (bytes > 0 && threads * rounds * bytes < (near ? kSmBytes / 4 : kSmBytes))
        rounds *= 2; // a chunk is some batches
    return schedule_.row_elements > 0 ? std::min(rounds, schedule_.row_elements / round_elements()) : rounds;
}

/// Rounds of a group: those of the elements from `from` on, as many as `rounds` says, or until `end`.
void PhaseEmitter::write_rounds(uint32_t id, const std::string &from, int rounds, const std::string &end) {
    const Loop &loop = kernel_.loops[id];
    const bool whole_axis = loop.begin == kNoValue && loop.end == kNoValue;
    // Reductions with more lanes than a round has elements take turns.
    int turns = 1;
    for (const Reduction &r : loop.reductions)
        turns = std::max(turns, accumulators(r) / row_width_);
    int bytes = 0;    // of a round
    bool near = true; // it is in the device's cache
    for (const KValue v : early_loads(loop.body, loop.axis)) {
        const Instr &instr = kernel_.instrs[v];
        if (entry_ == Entry::Any && in_shared_memory(instr))
            continue;
        const Access &a = kernel_.accesses[instr.access];
        const bool again = !row_loads_.insert(a.buffer).second && phase_.cuda().tier == RowTier::Registers;
        near = near && (again || (whole_axis && a.strides.size() == 1));
        bytes += row_width_ * size_of(instr.dtype);
    }
    const int most = std::max(turns, entry_ == Entry::Any                ? single_rounds(bytes, near)
                                     : bytes > 0 && bytes <= kSmallRound ? kMostBatch
                                                                         : kBatch);
    const int batch = rounds > 0 && (in_registers() || rounds < most) ? rounds : most;
    const bool one_batch = rounds > 0 && batch == rounds;
    // Single elements are called as their axis.
    std::string k = row_width_ == 1 ? axis(loop.axis) : "k";
    const std::string of_batch =
        plus({one_batch ? from : "k0", batch > 1 ? fmt::format("u * {}", round_elements()) : "", lane()});
    const bool has_name = of_batch == "0" || is_name(of_batch);
    if (has_name)
        k = of_batch;
    if (has_name && row_width_ == 1)
        axis_names_[loop.axis] = k;
    Packet packet{.axis = loop.axis, .width = row_width_, .first = k, .end = end};
    packet.whole = note_alignments(loop.body, loop.axis, row_width_, whole_axis);
    const Reduce reduce = [&] {
        for (size_t r = 0; r < loop.reductions.size(); ++r) {
            const Reduction &red = loop.reductions[r];
            const int own = accumulators(red) / row_width_;
            const std::string turn = own == 1 || batch == 1 ? "0"
                                     : batch <= own         ? "u"
                                                            : fmt::format("u % {}", own);
            const std::string at =
                row_width_ == 1 ? turn : plus({turn == "0" ? "" : times(turn, row_width_), "e"});
            write_reduced(red, fmt::format("lanes{}_{}[{}]", id, r, at), reduce_element(red));
        }
    };
    need(turns == 1 || batch % turns == 0, "its rounds do not take turns evenly");
    if (!one_batch) {
        const std::string to = rounds > 0 ? plus({from, std::to_string(rounds * round_elements())}) : end;
        open("for ({0} k0 = {1}; k0 < {2}{3}; k0 += {4})", index_type(), from, to,
             rounds > 0 ? fmt::format(" && k0 < {}", end) : "", batch * round_elements());
    }
    const auto place = [&](bool) -> std::string {
        if (!has_name)
            w_.line("const {} {} = {};", index_type(), k, of_batch);
        return less(k, end);
    };
    write_packets(loop.body, packet, batch, place, loop.reductions.empty() ? Reduce{} : reduce);
    axis_names_.erase(loop.axis);
    if (!one_batch)
        close();
}

void PhaseEmitter::write_row_loop(uint32_t id) {
    const Loop &loop = kernel_.loops[id];
    const bool whole_axis = loop.begin == kNoValue && loop.end == kNoValue;
    need(loop.step == 1, "a loop has a part of the lanes");
    need(!in_registers() || (whole_axis && loops_open_ == 0), "a part of a row is kept in registers");
    for (size_t r = 0; r < loop.reductions.size(); ++r)
        w_.line("{} {};", reduce_type(loop.reductions[r]), result(id, r));
    open();
    begin_ = loop.begin == kNoValue ? "" : index(loop.begin);
    end_ = loop.end == kNoValue ? extent(loop.axis) : index(loop.end);
    if (schedule_.cluster_blocks > 1) {
        need(whole_axis && loops_open_ == 0, "a cluster has a part of a row");
        begin_ = "part_begin";
        end_ = in_registers() ? end_ : "part_end";
    }
    const bool ordered = std::ranges::any_of(loop.reductions, is_ordered);
    in_row_loop_ = true;
    if (loop.reductions.empty())
        store_each(id);
    else if (loop.chunk > 0)
        fold_in_chunks(id);
    else if (groups() > 1 && !ordered)
        fold_across_groups(id);
    else
        fold_in_one_group(id);
    close();
    in_row_loop_ = false;
    if (row_buffers_.empty())
        return;
    // Other threads may read what it stored, or store what it read; what is no worker's is the whole
    // cluster's.
    const bool all_workers = std::ranges::all_of(
        row_buffers_, [&](uint16_t b) { return kernel_.buffers[b].mode == BufferMode::Worker; });
    sync_row(kAfterLoop, !all_workers && schedule_.cluster_blocks > 1);
}

/// No reductions: rounds go to the groups in turn, or stay where they are kept.
void PhaseEmitter::store_each(uint32_t id) {
    const std::string base = begin_.empty() ? "" : begin_ + " + ";
    if (in_registers()) {
        const std::string from = named(first_kept(), "from");
        note_rounds(id, "kept");
        return write_rounds(id, from, rounds_kept(), end_);
    }
    if (groups() == 1) {
        const std::string from = named(begin_.empty() ? "0" : begin_, "from");
        note_rounds(id, "lanes");
        return write_rounds(id, from, 0, end_);
    }
    const int rounds = entry_ == Entry::Any ? 4 * kBatch : kBatch;
    open("for ({0} from = {1}group * {2}; from < {3}; from += {4})", index_type(), base,
         rounds * round_elements(), end_, groups() * rounds * round_elements());
    note_rounds(id, "turns");
    write_rounds(id, "from", rounds, end_);
    close();
}

/// Where a group's part of a row in registers begins.
std::string PhaseEmitter::first_kept() const {
    return plus({schedule_.cluster_blocks > 1 ? "part_begin" : "",
                 groups() > 1 ? fmt::format("group * {}", rounds_kept() * round_elements()) : ""});
}

} // namespace lz::codegen::cuda
