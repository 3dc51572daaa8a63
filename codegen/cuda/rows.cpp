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
// Short rows have fewer threads, so that few of these have nothing: a row of at most kThreadRow elements is
// one packet of a thread that has it alone, with a lane for each, and one of at most 32 is a packet of each
// of four or eight threads. Lanes that no element of such a row is in are left out: one more value of theirs
// would change nothing.

namespace {

/// Groups' parts that are under way when they are folded. With all of a large block's NVRTC 13.0 spills on
/// sm_100 and sm_120, where softmax of 100,000 f32 has 64 registers.
constexpr int kFoldUnroll = 8;
/// Bytes of a thread's round, of which kMostBatch are loaded at a time.
constexpr int kSmallRound = 8;

} // namespace

/// Lanes of a thread. Those of floats are as the language says; the order of all else cannot be seen.
int PhaseEmitter::accumulators(const Reduction &r) const {
    if (!is_float(r.dtype) || r.index != kNoValue)
        return row_width_;
    const auto lanes = static_cast<int>(kLaneBytes / size_of(r.dtype));
    return (schedule_.row_elements == 0 ? lanes : std::min(lanes, schedule_.row_elements)) / fold_threads();
}

std::string PhaseEmitter::folded_lanes(uint32_t loop, size_t reduction) const {
    const std::string op = reduce_op(kernel_.loops[loop].reductions[reduction]);
    if (has_row_alone())
        return fmt::format("fold_own_lanes<{}>(lanes{}_{})", op, loop, reduction);
    return fmt::format("fold_lanes<{}, {}{}>(lanes{}_{})", op, row_width_,
                       fold_threads() == kFoldThreads ? "" : fmt::format(", {}", fold_threads()), loop,
                       reduction);
}

std::string PhaseEmitter::shared_array(const std::string &type, int64_t bytes, int64_t count,
                                       const std::string &name) {
    const int rows = schedule_.threads / schedule_.row_threads;
    shared_bytes_ = (shared_bytes_ + 15) / 16 * 16;
    const std::string at = rows == 1 ? "" : fmt::format(" + row_of_block * {}", count);
    w_.line("{0} *const {1} = ({0} *)(row_memory + {2}){3};", type, name, shared_bytes_, at);
    shared_bytes_ += bytes * count * rows;
    return name;
}

void PhaseEmitter::sync_row() {
    if (has_row_alone())
        return;
    if (schedule_.row_threads < 32)
        w_.line("__syncwarp(neighbours<{}>());", schedule_.row_threads);
    else if (schedule_.row_threads == 32)
        w_.line("__syncwarp();");
    else
        w_.line("__syncthreads();");
}

void PhaseEmitter::write_rows() {
    const int rows = schedule_.threads / schedule_.row_threads;
    need(rows == 1 || schedule_.row_threads <= 32, "a block has several rows of more than a warp each");
    in_rows_ = true;
    std::string points = "1";
    for (const AxisId a : phase_.grid)
        points = points == "1" ? extent(a) : points + " * " + extent(a);
    if (rows == 1) {
        w_.line("const {} row = item;", index_type());
        w_.line("const int row_thread = threadIdx.x;");
    } else {
        w_.line("const int row_of_block = threadIdx.x / {0}, row_thread = threadIdx.x % {0};",
                schedule_.row_threads);
        w_.line("const {0} row = ({0})item * {1} + row_of_block;", index_type(), rows);
        w_.line("if (row >= {})", points);
        w_.indent();
        w_.line("return;");
        w_.outdent();
    }
    if (groups() > 1)
        w_.line("const int group = row_thread / {0}, lane = row_thread % {0} * {1};", kFoldThreads,
                row_width_);
    else
        w_.line("const int lane = row_thread * {};", row_width_);
    if (!phase_.grid.empty())
        write_coordinates("row", phase_.grid.size());
    declare_kept();
    write_region(phase_.body);
    if (shared_bytes_ > 0) {
        sync_row(); // it is written again for the next row
    }
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
    for (const uint16_t b : workers) {
        const KBuffer &worker = kernel_.buffers[b];
        const std::string type(c_type(worker.dtype));
        switch (schedule_.tier) {
        case RowTier::Registers:
            w_.line("Packet<{}, {}> {}[{}] = {{}};", type, row_width_, buffer(b), rounds_kept());
            break;
        case RowTier::Shared:
            shared_array(type, size_of(worker.dtype), schedule_.row_elements, buffer(b));
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
        arrays.push_back({a, fmt::format("x{}", v), ""});
        w_.line("Packet<{}, {}> x{}[{}] = {{}};", c_type(kernel_.instrs[v].dtype), row_width_, v,
                rounds_kept());
    }
    w_.plain("#pragma unroll");
    w_.open("for (int u = 0; u < {}; ++u)", rounds_kept());
    const AxisId a = kernel_.loops[loop_of_[kept[0]]].axis;
    w_.line("const {0} k = {1}({0})u * {2} + lane;", index_type(),
            groups() > 1 ? fmt::format("group * {} + ", rounds_kept() * round_elements()) : "",
            round_elements());
    w_.open("if (k < {})", extent(a));
    for (const KValue v : kept) {
        need(kernel_.loops[loop_of_[v]].axis == a, "loops over several axes are kept in registers");
        const bool whole = note_alignments(kernel_.loops[loop_of_[v]].body, a, row_width_, true);
        w_.line(
            "x{}[u] = {};", v,
            packet_load(v, {.axis = a, .width = row_width_, .first = "k", .end = extent(a), .whole = whole}));
    }
    w_.close();
    w_.close();
    kept_ = std::move(arrays);
}

void PhaseEmitter::declare_lanes(uint32_t id) {
    const Loop &loop = kernel_.loops[id];
    for (size_t r = 0; r < loop.reductions.size(); ++r) {
        const Reduction &red = loop.reductions[r];
        std::string all;
        for (int i = 0; i < accumulators(red); ++i)
            all += (i == 0 ? "" : ", ") + reduce_identity(red);
        w_.line("{} lanes{}_{}[{}] = {{{}}};", reduce_type(red), id, r, accumulators(red), all);
    }
}

/// Rounds of a group: those of the elements from `from` on, as many as `rounds` says, or until `end`.
void PhaseEmitter::write_rounds(uint32_t id, const std::string &from, int rounds, const std::string &end) {
    const Loop &loop = kernel_.loops[id];
    const bool whole_axis = loop.begin == kNoValue && loop.end == kNoValue;
    // Reductions with more lanes than a round has elements take turns.
    int turns = 1;
    for (const Reduction &r : loop.reductions)
        turns = std::max(turns, accumulators(r) / row_width_);
    int bytes = 0; // of a round
    for (const KValue v : early_loads(loop.body, loop.axis))
        bytes += row_width_ * size_of(kernel_.instrs[v].dtype);
    const int packets = bytes > 0 && bytes <= kSmallRound ? kMostBatch : kBatch;
    const int most = entry_ == Entry::Any ? turns : std::max(packets, turns);
    const int batch = rounds > 0 && (in_registers() || rounds < most) ? rounds : most;
    Packet packet{.axis = loop.axis, .width = row_width_, .first = "k", .end = end};
    packet.whole = note_alignments(loop.body, loop.axis, row_width_, whole_axis);
    const Reduce reduce = [&] {
        for (size_t r = 0; r < loop.reductions.size(); ++r) {
            const Reduction &red = loop.reductions[r];
            const int own = accumulators(red) / row_width_;
            const std::string lane = own == 1 ? fmt::format("lanes{}_{}[e]", id, r)
                                              : fmt::format("lanes{}_{}[{} % {} * {} + e]", id, r,
                                                            batch > 1 ? "u" : "0", own, row_width_);
            w_.line("{0} = {1}()({0}, {2});", lane, reduce_op(red), reduce_element(red));
        }
    };
    need(turns == 1 || batch % turns == 0, "its rounds do not take turns evenly");
    const bool one_batch = rounds > 0 && batch == rounds;
    if (!one_batch) {
        const std::string to = rounds > 0 ? fmt::format("{} + {}", from, rounds * round_elements()) : end;
        w_.open("for ({0} k0 = {1}; k0 < {2}{3}; k0 += {4})", index_type(), from, to,
                rounds > 0 ? fmt::format(" && k0 < {}", end) : "", batch * round_elements());
    }
    const auto place = [&](bool) -> std::string {
        w_.line("const {} k = {}{} + lane;", index_type(), one_batch ? from : "k0",
                batch > 1 ? fmt::format(" + u * {}", round_elements()) : "");
        return "k < " + end;
    };
    write_packets(loop.body, packet, batch, place, loop.reductions.empty() ? Reduce{} : reduce);
    if (!one_batch)
        w_.close();
}

void PhaseEmitter::write_row_loop(uint32_t id) {
    const Loop &loop = kernel_.loops[id];
    const bool whole_axis = loop.begin == kNoValue && loop.end == kNoValue;
    need(!in_registers() || (whole_axis && loops_open_ == 0), "a part of a row is kept in registers");
    for (size_t r = 0; r < loop.reductions.size(); ++r)
        w_.line("{} {};", reduce_type(loop.reductions[r]), result(id, r));
    w_.line("{{");
    w_.indent();
    begin_ = loop.begin == kNoValue ? "" : index(loop.begin);
    end_ = loop.end == kNoValue ? extent(loop.axis) : index(loop.end);
    const bool ordered = std::ranges::any_of(loop.reductions, is_ordered);
    if (loop.reductions.empty())
        store_each(id);
    else if (loop.chunk > 0)
        fold_in_chunks(id);
    else if (groups() > 1 && !ordered)
        fold_across_groups(id);
    else
        fold_in_one_group(id);
    w_.close();
    // Other threads may read what this loop stored.
    bool read_later = false;
    for (const Instr &instr : kernel_.instrs)
        read_later =
            read_later || (instr.op == KOp::Load && stored_.contains(kernel_.accesses[instr.access].buffer));
    const bool stores = std::ranges::any_of(loop.body, [&](const Stmt &s) {
        return s.kind == Stmt::Loop || kernel_.instrs[s.id].op == KOp::Store;
    });
    if (stores && read_later && !in_registers())
        sync_row();
}

/// No reductions: rounds go to the groups in turn, or stay where they are kept.
void PhaseEmitter::store_each(uint32_t id) {
    const std::string base = begin_.empty() ? "" : begin_ + " + ";
    if (in_registers()) {
        w_.line("const {0} from = {1};", index_type(),
                groups() > 1 ? fmt::format("group * {}", rounds_kept() * round_elements()) : "0");
        return write_rounds(id, "from", rounds_kept(), end_);
    }
    if (groups() == 1) {
        w_.line("const {} from = {};", index_type(), begin_.empty() ? "0" : begin_);
        return write_rounds(id, "from", 0, end_);
    }
    w_.open("for ({0} from = {1}group * {2}; from < {3}; from += {4})", index_type(), base,
            kBatch * round_elements(), end_, groups() * kBatch * round_elements());
    write_rounds(id, "from", kBatch, end_);
    w_.close();
}

/// All of it is one chunk, whose order allows no cut: sums in lanes of one group.
void PhaseEmitter::fold_in_one_group(uint32_t id) {
    const Loop &loop = kernel_.loops[id];
    const bool several = groups() > 1;
    std::vector<std::string> shared;
    if (several) {
        need(!in_registers(), "one group of a row's threads folds all of it");
        for (size_t r = 0; r < loop.reductions.size(); ++r) {
            const Reduction &red = loop.reductions[r];
            shared.push_back(shared_array(reduce_type(red), red.index == kNoValue ? size_of(red.dtype) : 16,
                                          1, fmt::format("whole{}_{}", id, r)));
        }
        if (loops_open_ > 0)
            sync_row();
        w_.open("if (group == 0)");
    }
    declare_lanes(id);
    w_.line("const {} from = {};", index_type(), begin_.empty() ? "0" : begin_);
    write_rounds(id, "from", in_registers() ? rounds_kept() : 0, end_);
    for (size_t r = 0; r < loop.reductions.size(); ++r)
        w_.line("{}{} = {};", several ? "*" : "", several ? shared[r] : result(id, r), folded_lanes(id, r));
    if (!several)
        return;
    w_.close();
    sync_row();
    for (size_t r = 0; r < loop.reductions.size(); ++r)
        w_.line("{} = *{};", result(id, r), shared[r]);
}

/// One chunk of reductions that may be cut where groups meet, but not reordered (of equal extremes -0 and 0
/// the last one of a lane counts): each group folds a part of the row in lanes, and these are joined in
/// order.
void PhaseEmitter::fold_across_groups(uint32_t id) {
    const Loop &loop = kernel_.loops[id];
    int turns = 1;
    for (size_t r = 0; r < loop.reductions.size(); ++r) {
        const Reduction &red = loop.reductions[r];
        turns = std::max(turns, accumulators(red) / row_width_);
        shared_array(reduce_type(red), red.index == kNoValue ? size_of(red.dtype) : 16,
                     int64_t{schedule_.row_threads} * accumulators(red), fmt::format("parts{}_{}", id, r));
    }
    if (loops_open_ > 0)
        sync_row();
    declare_lanes(id);
    if (in_registers()) {
        w_.line("const {} from = group * {};", index_type(), rounds_kept() * round_elements());
        write_rounds(id, "from", rounds_kept(), end_);
    } else {
        const std::string first = begin_.empty() ? "0" : begin_;
        const int unit = turns * round_elements();
        w_.line("const {0} length = {1} - {2}, share = (length + {3}) / {4} * {5};", index_type(), end_,
                first, groups() * unit - 1, groups() * unit, unit);
        w_.line("const {0} from = {1} + group * share, to = from + share < {2} ? from + share : {2};",
                index_type(), first, end_);
        write_rounds(id, "from", 0, "to");
    }
    for (size_t r = 0; r < loop.reductions.size(); ++r) {
        const int own = accumulators(loop.reductions[r]);
        w_.plain("#pragma unroll");
        w_.line("for (int i = 0; i < {}; ++i)", own);
        w_.indent();
        w_.line("parts{0}_{1}[row_thread * {2} + i] = lanes{0}_{1}[i];", id, r, own);
        w_.outdent();
    }
    sync_row();
    for (size_t r = 0; r < loop.reductions.size(); ++r) {
        const std::string op = reduce_op(loop.reductions[r]);
        const int own = accumulators(loop.reductions[r]);
        w_.plain("#pragma unroll");
        w_.open("for (int i = 0; i < {}; ++i)", own);
        w_.line("const int mine = row_thread % {} * {} + i;", kFoldThreads, own);
        w_.line("lanes{0}_{1}[i] = parts{0}_{1}[mine];", id, r);
        if (groups() > kFoldUnroll)
            w_.plain(fmt::format("#pragma unroll {}", kFoldUnroll));
        w_.line("for (int g = 1; g < {}; ++g)", groups());
        w_.indent();
        w_.line("lanes{0}_{1}[i] = {2}()(lanes{0}_{1}[i], parts{0}_{1}[g * {3} + mine]);", id, r, op,
                kFoldThreads * own);
        w_.outdent();
        w_.close();
        w_.line("{} = {};", result(id, r), folded_lanes(id, r));
    }
}

void PhaseEmitter::fold_in_chunks(uint32_t id) {
    const Loop &loop = kernel_.loops[id];
    need(loop.chunk == kLaneChunk, "a chunk of lanes has another number of elements");
    const int rounds = static_cast<int>(kLaneChunk) / round_elements();
    const std::string first = begin_.empty() ? "0" : begin_;
    if (schedule_.row_elements > 0 && schedule_.row_elements <= kLaneChunk) {
        // Rows of one chunk, which one group has.
        need(groups() == 1, "several groups share a chunk");
        declare_lanes(id);
        w_.line("const {} from = {};", index_type(), first);
        write_rounds(id, "from", in_registers() ? rounds_kept() : rounds, end_);
        for (size_t r = 0; r < loop.reductions.size(); ++r)
            w_.line("{} = {};", result(id, r), folded_lanes(id, r));
        return;
    }
    const bool any_length = schedule_.row_elements == 0;
    const int64_t most = any_length ? kRowList : schedule_.row_elements / kLaneChunk;
    for (size_t r = 0; r < loop.reductions.size(); ++r) {
        const Reduction &red = loop.reductions[r];
        const int bytes = red.index == kNoValue ? size_of(red.dtype) : 16;
        shared_array(reduce_type(red), bytes, most, fmt::format("parts{}_{}", id, r));
        if (any_length)
            shared_array(reduce_type(red), bytes, kRowLists, fmt::format("above{}_{}", id, r));
    }
    if (loops_open_ > 0)
        sync_row();
    const auto list = [&](const char *which, size_t r, const std::string &count, bool is_long) {
        const Reduction &red = loop.reductions[r];
        return fmt::format("fold_{}list<{}, {}>({}{}_{}, {}, {})", is_long ? "long_" : "", reduce_op(red),
                           accumulators(red), which, id, r, count, reduce_identity(red));
    };
    if (in_registers()) {
        need(rounds_kept() == rounds, "a group of a row's threads has no whole chunk");
        declare_lanes(id);
        w_.line("const {} from = group * {};", index_type(), kLaneChunk);
        write_rounds(id, "from", rounds, end_);
        for (size_t r = 0; r < loop.reductions.size(); ++r) {
            w_.line("const {} part{} = {};", reduce_type(loop.reductions[r]), r, folded_lanes(id, r));
            w_.line("if (lane == 0)");
            w_.indent();
            w_.line("parts{}_{}[group] = part{};", id, r, r);
            w_.outdent();
        }
        sync_row();
        w_.line("const int chunks = max(1, (int)(({} + {}) / {}));", end_, kLaneChunk - 1, kLaneChunk);
        for (size_t r = 0; r < loop.reductions.size(); ++r)
            w_.line("{} = {};", result(id, r), list("parts", r, "chunks", false));
        return;
    }
    // An empty row has one chunk without elements.
    w_.line("const {0} length = {1} - {2}, chunks = length > {3} ? (length + {4}) / {3} : 1;", index_type(),
            end_, first, kLaneChunk, kLaneChunk - 1);
    if (any_length) {
        w_.open("for ({0} top = 0; top < chunks; top += {1})", index_type(), kLaneChunk);
        w_.line("const int count = chunks - top < {0} ? (int)(chunks - top) : {0};", kLaneChunk);
    } else {
        w_.line("const int count = (int)chunks;");
    }
    if (groups() > 1) {
        w_.line("const int share = (count + {}) / {};", groups() - 1, groups());
        w_.open("for (int c = group * share; c < min(count, (group + 1) * share); ++c)");
    } else {
        w_.open("for (int c = 0; c < count; ++c)");
    }
    declare_lanes(id);
    w_.line("const {0} from = {1} + ({2}c) * {3}ll;", index_type(), first, any_length ? "top + " : "",
            kLaneChunk);
    write_rounds(id, "from", rounds, end_);
    for (size_t r = 0; r < loop.reductions.size(); ++r) {
        w_.line("const {} part{} = {};", reduce_type(loop.reductions[r]), r, folded_lanes(id, r));
        w_.line("if (lane == 0)");
        w_.indent();
        w_.line("parts{}_{}[c] = part{};", id, r, r);
        w_.outdent();
    }
    w_.close();
    sync_row();
    for (size_t r = 0; r < loop.reductions.size(); ++r)
        w_.line("{} = {};", result(id, r), list("parts", r, "count", false));
    if (!any_length)
        return;
    w_.open("if (chunks > {})", kLaneChunk);
    for (size_t r = 0; r < loop.reductions.size(); ++r) {
        w_.line("if (row_thread == 0)");
        w_.indent();
        w_.line("above{}_{}[top / {}] = {};", id, r, kLaneChunk, result(id, r));
        w_.outdent();
    }
    sync_row();
    w_.close();
    w_.close();
    w_.open("if (chunks > {})", kLaneChunk);
    w_.line("const int count = (int)((chunks + {}) / {});", kLaneChunk - 1, kLaneChunk);
    for (size_t r = 0; r < loop.reductions.size(); ++r)
        w_.line("{} = {};", result(id, r), list("above", r, "count", true));
    w_.close();
}

} // namespace lz::codegen::cuda
