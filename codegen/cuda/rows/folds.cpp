// What the lanes of a row's loops become: one value that all threads of the row have.
#include "codegen/cuda/emitter.h"
#include "ir/kernel/facts/row_memory.h"

#include <algorithm>

namespace lz::codegen::cuda {

using namespace ir;

namespace {

/// Groups' parts that are under way when they are folded. With all of a large block's NVRTC 13.0 spills on
/// sm_100 and sm_120, where softmax of 100,000 f32 has 64 registers.
constexpr int kFoldUnroll = 8;

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

void PhaseEmitter::declare_lanes(uint32_t id) {
    const Loop &loop = kernel_.loops[id];
    for (size_t r = 0; r < loop.reductions.size(); ++r) {
        const Reduction &red = loop.reductions[r];
        std::string all;
        for (int i = 0; i < accumulators(red); ++i)
            all += (i == 0 ? "" : ", ") + bare(reduce_identity(red));
        w_.line("{} lanes{}_{}[{}] = {{{}}};", reduce_type(red), id, r, accumulators(red), all);
    }
}

/// All of it is one chunk, whose order allows no cut: sums in lanes of one group.
void PhaseEmitter::fold_in_one_group(uint32_t id) {
    const Loop &loop = kernel_.loops[id];
    const bool several = groups() > 1;
    std::vector<std::string> shared;
    if (several) {
        need(!in_registers() && schedule_.cluster_blocks == 1,
             "one group of a row's threads folds all of it");
        for (size_t r = 0; r < loop.reductions.size(); ++r) {
            const Reduction &red = loop.reductions[r];
            shared.push_back(shared_array(reduce_type(red), red.index == kNoValue ? size_of(red.dtype) : 16,
                                          1, fmt::format("whole{}_{}", id, r)));
        }
        if (loops_open_ > 0)
            sync_row(kBeforeWrite);
        open("if (group == 0)");
    }
    declare_lanes(id);
    const std::string from = named(begin_.empty() ? "0" : begin_, "from");
    note_rounds(id, several ? "first group" : in_registers() ? "kept" : "lanes");
    write_rounds(id, from, in_registers() ? rounds_kept() : 0, end_);
    for (size_t r = 0; r < loop.reductions.size(); ++r)
        w_.line("{} = {};", result(id, r), folded_lanes(id, r));
    if (!several)
        return;
    for (size_t r = 0; r < loop.reductions.size(); ++r) {
        w_.line("if (lane == 0)");
        w_.indent();
        w_.line("*{} = {};", shared[r], result(id, r));
        w_.outdent();
        barriers_.write({shared[r]}, "first group");
    }
    close();
    sync_exchange();
    for (size_t r = 0; r < loop.reductions.size(); ++r) {
        w_.line("{} = *{};", result(id, r), shared[r]);
        barriers_.read({shared[r]});
    }
}

/// Joins what many groups have of each lane, in order, by sharing it among threads: would each join the lanes
/// of its own, that were 32 groups times four lanes for each of 512 threads, as many instructions as the 64
/// elements of a thread take. So the threads of a lane join some groups each, and one of them the rest:
///
///     parts[share] = parts[share] .. parts[share + 3]    for 8 shares of a lane
///     parts[0] = parts[0], parts[4] .. parts[28]         for each lane
///
/// False where groups are so few, or a thread has so few lanes, that this would be more work.
bool PhaseEmitter::join_by_shares(uint32_t id) {
    const Loop &loop = kernel_.loops[id];
    const bool all = std::ranges::all_of(loop.reductions, [&](const Reduction &r) {
        const int own = accumulators(r);
        return own > 1 && groups() >= 2 * own;
    });
    if (!all)
        return false;
    for (const bool last : {false, true}) {
        for (size_t r = 0; r < loop.reductions.size(); ++r) {
            const Reduction &red = loop.reductions[r];
            // As many groups share lanes as a thread has of them.
            const int share = accumulators(red), lanes = kFoldThreads * share;
            const std::string list = fmt::format("parts{}_{}", id, r);
            const char *const owners = last ? "lane" : "share";
            if (last)
                w_.line("if (row_thread < {})", lanes);
            open();
            w_.line("{} *const at = {} + row_thread % {}{};", reduce_type(red), list, lanes,
                    last ? "" : fmt::format(" + row_thread / {0} * {1}", lanes, share * lanes));
            w_.line("{} joined = at[0];", reduce_type(red));
            const int count = last ? groups() / share : share;
            if (count > kFoldUnroll)
                w_.plain(fmt::format("#pragma unroll {}", kFoldUnroll));
            w_.line("for (int g = 1; g < {}; ++g)", count);
            w_.indent();
            write_reduced(red, "joined", fmt::format("at[g * {}]", last ? share * lanes : lanes));
            w_.outdent();
            w_.line("at[0] = joined;");
            close();
            barriers_.read({.name = list}, owners);
            barriers_.write({.name = list}, owners);
        }
        sync_row(kExchange);
    }
    return true;
}

/// One chunk of reductions that may be cut where groups meet, but not reordered (of equal extremes -0 and 0
/// the last one of a lane counts): each group folds a part of the row in lanes, and these are joined in
/// order.
void PhaseEmitter::fold_across_groups(uint32_t id) {
    const Loop &loop = kernel_.loops[id];
    const int blocks = schedule_.cluster_blocks;
    int turns = 1;
    for (size_t r = 0; r < loop.reductions.size(); ++r) {
        const Reduction &red = loop.reductions[r];
        const int bytes = red.index == kNoValue ? size_of(red.dtype) : 16;
        turns = std::max(turns, accumulators(red) / row_width_);
        shared_array(reduce_type(red), bytes, int64_t{schedule_.row_threads} * accumulators(red),
                     fmt::format("parts{}_{}", id, r));
        if (blocks > 1)
            shared_array(reduce_type(red), bytes, int64_t{blocks} * kFoldThreads * accumulators(red),
                         fmt::format("of_blocks{}_{}", id, r));
    }
    if (loops_open_ > 0)
        sync_row(kBeforeWrite);
    declare_lanes(id);
    if (in_registers()) {
        const std::string from = named(first_kept(), "from");
        note_rounds(id, "kept");
        write_rounds(id, from, rounds_kept(), end_);
    } else {
        const std::string first = begin_.empty() ? "0" : begin_;
        const int unit = turns * round_elements();
        const std::string length = named(minus(end_, first), "length");
        w_.line("const {} share = ({} + {}) / {} * {};", index_type(), length, groups() * unit - 1,
                groups() * unit, unit);
        w_.line("const {0} from = {1}, to = from + share < {2} ? from + share : {2};", index_type(),
                plus({first, "group * share"}), end_);
        note_rounds(id, fmt::format("~shares of {}", unit));
        write_rounds(id, "from", 0, "to");
    }
    for (size_t r = 0; r < loop.reductions.size(); ++r) {
        const int own = accumulators(loop.reductions[r]);
        if (own == 1) {
            w_.line("parts{0}_{1}[row_thread] = lanes{0}_{1}[0];", id, r);
        } else {
            w_.plain("#pragma unroll");
            w_.line("for (int i = 0; i < {}; ++i)", own);
            w_.indent();
            w_.line("parts{0}_{1}[row_thread * {2} + i] = lanes{0}_{1}[i];", id, r, own);
            w_.outdent();
        }
        barriers_.write({fmt::format("parts{}_{}", id, r)}, "thread");
    }
    sync_row(kExchange);
    const bool shared = join_by_shares(id);
    // Lane `mine` of each of `count` that lie one behind the other, in order.
    const auto join = [&](size_t r, const std::string &list, int count, bool of_cluster) {
        const int own = accumulators(loop.reductions[r]);
        const std::string lane = fmt::format("lanes{}_{}[{}]", id, r, own == 1 ? "0" : "i");
        w_.line("{} = {}[mine];", lane, list);
        barriers_.read({.name = list, .of_cluster = of_cluster});
        if (count == 1)
            return;
        if (count > kFoldUnroll)
            w_.plain(fmt::format("#pragma unroll {}", kFoldUnroll));
        w_.line("for (int g = 1; g < {}; ++g)", count);
        w_.indent();
        write_reduced(loop.reductions[r], lane, fmt::format("{}[g * {} + mine]", list, kFoldThreads * own));
        w_.outdent();
    };
    const auto each_lane = [&](size_t r, auto &&write) {
        const int own = accumulators(loop.reductions[r]);
        if (own > 1) {
            w_.plain("#pragma unroll");
            open("for (int i = 0; i < {}; ++i)", own);
            w_.line("const int mine = row_thread % {} * {} + i;", kFoldThreads, own);
        } else {
            open();
            w_.line("const int mine = row_thread % {};", kFoldThreads);
        }
        write();
        close();
    };
    for (size_t r = 0; r < loop.reductions.size(); ++r) {
        each_lane(r, [&] {
            join(r, fmt::format("parts{}_{}", id, r), shared ? 1 : groups(), false);
            if (blocks == 1)
                return;
            const std::string list = fmt::format("of_blocks{}_{}", id, r);
            w_.line("if (group < {})", blocks);
            w_.indent();
            const int own = accumulators(loop.reductions[r]);
            w_.line("*in_block({} + rank * {} + mine, group) = lanes{}_{}[{}];", list, kFoldThreads * own, id,
                    r, own == 1 ? "0" : "i");
            w_.outdent();
            barriers_.write({.name = list, .of_cluster = true});
        });
        if (blocks == 1)
            w_.line("{} = {};", result(id, r), folded_lanes(id, r));
    }
    if (blocks == 1)
        return;
    sync_exchange();
    for (size_t r = 0; r < loop.reductions.size(); ++r) {
        each_lane(r, [&] { join(r, fmt::format("of_blocks{}_{}", id, r), blocks, true); });
        w_.line("{} = {};", result(id, r), folded_lanes(id, r));
    }
}

/// What a group has of a chunk goes to where the chunks' results lie, in each block.
void PhaseEmitter::give_chunk(uint32_t id, const std::string &chunk) {
    const Loop &loop = kernel_.loops[id];
    const int blocks = schedule_.cluster_blocks;
    for (size_t r = 0; r < loop.reductions.size(); ++r) {
        const std::string list = fmt::format("parts{}_{}", id, r);
        w_.line("const {} part{} = {};", reduce_type(loop.reductions[r]), r, folded_lanes(id, r));
        if (blocks > 1)
            w_.line("if (row_thread % {} < {})", kFoldThreads, blocks);
        else
            w_.line("if ({} == 0)", lane());
        w_.indent();
        if (blocks > 1)
            w_.line("*in_block({} + rank * {} + {}, row_thread % {}) = part{};", list,
                    part_elements_ / kLaneChunk, chunk, kFoldThreads, r);
        else
            w_.line("{}[{}] = part{};", list, chunk, r);
        w_.outdent();
    }
}

void PhaseEmitter::fold_in_chunks(uint32_t id) {
    const Loop &loop = kernel_.loops[id];
    need(loop.chunk == kLaneChunk, "a chunk of lanes has another number of elements");
    const bool one_chunk = schedule_.row_elements > 0 && schedule_.row_elements <= kLaneChunk;
    const int rounds = (one_chunk ? schedule_.row_elements : static_cast<int>(kLaneChunk)) / round_elements();
    const std::string first = begin_.empty() ? "0" : begin_;
    if (one_chunk) {
        // Rows of one chunk, which one group has.
        need(groups() == 1, "several groups share a chunk");
        declare_lanes(id);
        const std::string from = named(first, "from");
        note_rounds(id, in_registers() ? "kept" : "lanes");
        write_rounds(id, from, rounds, end_);
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
        sync_row(kBeforeWrite);
    const auto list = [&](const char *which, size_t r, const std::string &count, bool is_long) {
        const Reduction &red = loop.reductions[r];
        return fmt::format("fold_{}list<{}, {}>({}{}_{}, {}, {})", is_long ? "long_" : "", reduce_op(red),
                           accumulators(red), which, id, r, count, bare(reduce_identity(red)));
    };
    const auto note = [&](const char *which, bool writes, const char *owners = "") {
        for (size_t r = 0; r < loop.reductions.size(); ++r) {
            const RowBarriers::Array array{.name = fmt::format("{}{}_{}", which, id, r),
                                           .of_cluster = schedule_.cluster_blocks > 1};
            if (writes)
                barriers_.write(array, owners);
            else
                barriers_.read(array, owners);
        }
    };
    const std::string all_chunks = fmt::format(
        "max(1, {})", as_int(fmt::format("({} + {}) / {}", extent(loop.axis), kLaneChunk - 1, kLaneChunk)));
    if (in_registers()) {
        need(rounds_kept() == rounds, "a group of a row's threads has no whole chunk");
        declare_lanes(id);
        const std::string from = named(first_kept(), "from");
        note_rounds(id, "kept");
        write_rounds(id, from, rounds, end_);
        give_chunk(id, "group");
        note("parts", true, "kept");
        sync_exchange();
        w_.line("const int chunks = {};", all_chunks);
        for (size_t r = 0; r < loop.reductions.size(); ++r)
            w_.line("{} = {};", result(id, r), list("parts", r, "chunks", false));
        note("parts", false);
        return;
    }
    // An empty row has one chunk without elements.
    const std::string length = named(minus(end_, first), "length");
    const std::string chunks =
        fmt::format("{0} > {1} ? ({0} + {2}) / {1} : 1", length, kLaneChunk, kLaneChunk - 1);
    if (any_length) {
        w_.line("const {} chunks = {};", index_type(), chunks);
        open("for ({0} top = 0; top < chunks; top += {1})", index_type(), kLaneChunk);
        w_.line("const int count = chunks - top < {0} ? {1} : {0};", kLaneChunk, as_int("chunks - top"));
    } else {
        w_.line("const int count = {};", as_int(chunks));
    }
    if (groups() > 1) {
        w_.line("const int share = (count + {}) / {};", groups() - 1, groups());
        open("for (int c = group * share; c < min(count, (group + 1) * share); ++c)");
    } else {
        open("for (int c = 0; c < count; ++c)");
    }
    declare_lanes(id);
    w_.line("const {} from = {};", index_type(),
            plus({first, fmt::format("{} * {}", any_length ? "(top + c)" : widened("c"), kLaneChunk)}));
    const auto note_chunks = [&] {
        note_rounds(id, groups() == 1 ? "lanes" : "~chunks");
        note("parts", true);
    };
    note_chunks();
    write_rounds(id, "from", rounds, end_);
    give_chunk(id, "c");
    close();
    const size_t given = sync_exchange();
    const bool of_cluster = schedule_.cluster_blocks > 1;
    for (size_t r = 0; r < loop.reductions.size(); ++r)
        w_.line("{} = {};", result(id, r), list("parts", r, of_cluster ? all_chunks : "count", false));
    note("parts", false);
    if (!any_length)
        return;
    open("if (chunks > {})", kLaneChunk);
    for (size_t r = 0; r < loop.reductions.size(); ++r) {
        w_.line("if (row_thread == 0)");
        w_.indent();
        w_.line("above{}_{}[top / {}] = {};", id, r, kLaneChunk, result(id, r));
        w_.outdent();
    }
    // Only such rows come to the loop's begin again.
    barriers_.open_branch();
    note("above", true, "thread 0");
    const size_t listed = sync_row(kExchange);
    barriers_.open_loop();
    note_chunks();
    barriers_.repeat(given);
    note("parts", false);
    note("above", true, "thread 0");
    barriers_.repeat(listed);
    barriers_.close();
    close();
    close();
    open("if (chunks > {})", kLaneChunk);
    w_.line("const int count = {};", as_int(fmt::format("(chunks + {}) / {}", kLaneChunk - 1, kLaneChunk)));
    for (size_t r = 0; r < loop.reductions.size(); ++r)
        w_.line("{} = {};", result(id, r), list("above", r, "count", true));
    note("above", false);
    barriers_.close();
    close();
}

} // namespace lz::codegen::cuda
