#include "codegen/llvm/emitter.h"

#include <algorithm>
#include <bit>
#include <utility>

// Rows that lie side by side in memory, as those of a transposed matrix do: a register has a column of them,
// and a loop walks down. Its order is that of lanes along the row all the same (ir/kernel/kernel.h), so each
// row has its lanes in memory, lane by lane for all rows of a step: element k is added to lane k mod L of
// each.

namespace lz::codegen {

using namespace ir;

namespace {

/// Rows ahead that are asked for where rows are walked down side by side: each lies in a page of its own,
/// where the processor does not look ahead. Into the second-level cache: where rows are powers of two long,
/// all that is walked falls into a few sets of the first one, which hold no more than a dozen rows beside the
/// sums (`bench_products`, m = 1, on a Xeon of the Sapphire Rapids kind: 1x4096x4096 in 2.8 ms; 16 rows into
/// the first-level cache 4.4).
constexpr int64_t kRowsAhead = 48;

} // namespace

/// Elements from what is read of a row to what is asked for: the same of a row below or, near the end, the
/// first rows of the columns that are walked next. Rows behind the last one are nobody's.
Value PhaseEmitter::rows_ahead(const AxisStride &down, uint32_t access, int part) {
    if (part > 0 && walk_.access == access)
        return walk_.skip;
    Value length = b_.sub(walk_.end, walk_.begin), ahead = b_.smin(b_.i64(kRowsAhead), length);
    Value stride = arg(down.stride), below = b_.add(bound_.back().second, ahead);
    Value beside = b_.add(b_.mul(stride, b_.sub(ahead, length)), b_.i64(int64_t{ctx_.width} * ctx_.parts));
    walk_.access = access;
    walk_.skip = b_.select(b_.compare(Pred::Slt, below, walk_.end), b_.mul(stride, ahead), beside);
    return walk_.skip;
}

/// The lanes of a reduction whose order can be seen.
struct PhaseEmitter::LaneRows {
    const Reduction *reduction;
    size_t index; ///< in its loop
    Elem elem;
    int width, parts;       ///< registers of a lane
    int64_t step;           ///< of the loop
    Value elements, chunks; ///< memory: of the elements of a chunk, and of the results of chunks
    int64_t lanes() const { return lanes_of(*reduction) / step; }
};

Value PhaseEmitter::lane_row(const LaneRows &rows, Value memory, Value lane) {
    return b_.element(rows.elem, memory, b_.mul(lane, b_.i64(int64_t{rows.width} * rows.parts)));
}

void PhaseEmitter::clear_lanes(const LaneRows &rows, Value memory, Value count) {
    const Reduction &r = *rows.reduction;
    Value identity = emit_identity(b_, r.op, r.dtype, rows.width);
    b_.loop(b_.i64(0), count, b_.i64(1), {}, [&](Value lane, std::span<const Value>) -> Values {
        Value row = lane_row(rows, memory, lane);
        for (int part = 0; part < rows.parts; ++part)
            b_.store(identity, b_.element(rows.elem, row, b_.i64(int64_t{part} * rows.width)),
                     bytes_of(rows.elem));
        return {};
    });
}

void PhaseEmitter::add_to_lane(const LaneRows &rows, Value memory, Value lane, const Values &values) {
    Value row = lane_row(rows, memory, lane);
    for (int part = 0; part < rows.parts; ++part) {
        Value at = b_.element(rows.elem, row, b_.i64(int64_t{part} * rows.width));
        Value sum = b_.load(rows.elem, rows.width, at, bytes_of(rows.elem));
        combine(*rows.reduction, sum, nullptr, values[static_cast<size_t>(part)], nullptr, nullptr);
        b_.store(sum, at, bytes_of(rows.elem));
    }
}

/// By halves, from half of the lanes down; of `count` lanes, as those behind hold nothing.
PhaseEmitter::Values PhaseEmitter::fold_lanes(const LaneRows &rows, Value memory, Value count) {
    const auto load_lane = [&](Value lane) {
        Value row = lane_row(rows, memory, lane);
        Values values;
        for (int part = 0; part < rows.parts; ++part)
            values.push_back(b_.load(rows.elem, rows.width,
                                     b_.element(rows.elem, row, b_.i64(int64_t{part} * rows.width)),
                                     bytes_of(rows.elem)));
        return values;
    };
    const int turns = std::countr_zero(static_cast<uint64_t>(rows.lanes()));
    const Values first = {b_.i64(rows.lanes() / 2), count};
    b_.loop(b_.i64(0), b_.i64(turns), b_.i64(1), first, [&](Value, std::span<const Value> carried) -> Values {
        Value half = carried[0], left = carried[1];
        b_.loop(b_.i64(0), b_.sub(left, half), b_.i64(1), {},
                [&](Value lane, std::span<const Value>) -> Values {
                    add_to_lane(rows, memory, lane, load_lane(b_.add(lane, half)));
                    return {};
                });
        return {b_.udiv(half, b_.i64(2)), b_.smin(left, half)};
    });
    return load_lane(b_.i64(0));
}

/// Fills the lanes of a chunk one after the other: elements `lane`, `lane` + L and so on.
void PhaseEmitter::fill_lane_by_lane(const Loop &loop, std::span<const LaneRows> lanes, Value begin,
                                     Value end, const std::function<void()> &preheader) {
    const int64_t count = lanes.front().lanes();
    const Value used = used_lanes(lanes.front(), begin, end);
    const auto each_lane = [&](Value lane, std::span<const Value>) -> Values {
        const Partials sums = fold_steps(loop, b_.add(begin, lane), end, count, identities(loop), {});
        for (const LaneRows &rows : lanes)
            for (int part = 0; part < rows.parts; ++part)
                b_.store(sums[rows.index][static_cast<size_t>(part)],
                         b_.element(rows.elem, lane_row(rows, rows.elements, lane),
                                    b_.i64(int64_t{part} * rows.width)),
                         bytes_of(rows.elem));
        return {};
    };
    b_.loop(b_.i64(0), b_.smax(used, b_.i64(1)), b_.i64(1), {}, each_lane, preheader);
}

/// Likewise down the rows, in the order of memory. What has no order is returned.
PhaseEmitter::Partials PhaseEmitter::fill_downwards(const Loop &loop, std::span<const LaneRows> lanes,
                                                    const Partials &start, Value begin, Value end,
                                                    const std::function<void()> &preheader) {
    for (const LaneRows &rows : lanes)
        clear_lanes(rows, rows.elements, b_.smax(used_lanes(rows, begin, end), b_.i64(1)));
    const auto step = [&](Value index, std::span<const Value> carried) {
        const Mark inside = mark();
        Partials partials = regroup(carried, start);
        bind_axis(loop.axis, index);
        emit_region(loop.body);
        auto rows = lanes.begin();
        for (size_t i = 0; i < partials.size(); ++i) {
            const Reduction &r = loop.reductions[i];
            if (rows == lanes.end() || rows->index != i) {
                combine(r, partials[i], element_of(r));
                continue;
            }
            Value element = b_.udiv(b_.sub(index, begin), b_.i64(loop.step));
            Value lane = b_.bit_and(element, b_.i64(rows->lanes() - 1));
            add_to_lane(*rows, rows->elements, lane, element_of(r));
            ++rows;
        }
        unbind_axis(loop.axis);
        forget(inside);
        return flatten(partials);
    };
    return regroup(b_.loop(begin, end, b_.i64(loop.step), flatten(start), step, preheader), start);
}

Value PhaseEmitter::used_lanes(const LaneRows &rows, Value begin, Value end) {
    const Value elements = b_.add(b_.smax(b_.sub(end, begin), b_.i64(0)), b_.i64(rows.step - 1));
    return b_.smin(b_.udiv(elements, b_.i64(rows.step)), b_.i64(rows.lanes()));
}

/// One chunk, from `begin` on.
PhaseEmitter::Partials PhaseEmitter::fold_across(const Loop &loop, std::span<const LaneRows> lanes,
                                                 const Partials &start, Value begin, Value end,
                                                 const std::function<void()> &preheader) {
    Partials results = start;
    if (lane_by_lane_) {
        const Walk downwards = std::exchange(walk_, {});
        fill_lane_by_lane(loop, lanes, begin, end, preheader);
        walk_ = downwards;
    } else {
        results = fill_downwards(loop, lanes, start, begin, end, preheader);
    }
    for (const LaneRows &rows : lanes)
        results[rows.index] = fold_lanes(rows, rows.elements, used_lanes(rows, begin, end));
    return results;
}

/// Of the widest matrix that is walked down in rows side by side which may be walked lane by lane, those of
/// one number of lanes. Null where they may not.
Value PhaseEmitter::bytes_walked_down(const Region &region) {
    Value bytes = nullptr;
    for (const Stmt &stmt : region) {
        if (stmt.kind != Stmt::Loop)
            continue;
        const Loop &loop = k_.loops[stmt.id];
        const auto alike = [&](const Reduction &r) {
            return has_order(r) && lanes_of(r) == lanes_of(loop.reductions.front());
        };
        if (!s_.across || loop.order != LoopOrder::Lanes || loop.reductions.empty() ||
            loop.begin != kNoValue || loop.end != kNoValue || loop.step != 1 ||
            !std::ranges::all_of(loop.reductions, alike))
            return nullptr;
        Value walked = bytes_of_rows(loop, extent(loop.axis));
        if (!walked)
            return nullptr;
        bytes = bytes ? b_.smax(bytes, walked) : walked;
    }
    return bytes;
}

bool PhaseEmitter::one_chunk_each(const Region &region) const {
    return s_.one_chunk || std::ranges::all_of(region, [&](const Stmt &stmt) {
               return stmt.kind != Stmt::Loop || k_.loops[stmt.id].chunk == 0;
           });
}

/// Of so many rows of the widest matrix that a loop walks down; null where it walks none.
Value PhaseEmitter::bytes_of_rows(const Loop &loop, Value rows) {
    Value most = nullptr;
    for (const Stmt &stmt : loop.body) {
        if (stmt.kind != Stmt::Instruction)
            return nullptr;
        const Instr &instr = k_.instrs[stmt.id];
        if (instr.op != KOp::Load)
            continue;
        const Access &access = k_.accesses[instr.access];
        const AxisStride *down = stride_along(access, loop.axis);
        if (!down || down->cls != StrideClass::Strided)
            continue;
        const int64_t size = bytes_of(storage_elem(k_.buffers[access.buffer].dtype));
        const Value bytes = b_.mul(b_.mul(arg(down->stride), b_.i64(size)), rows);
        most = most ? b_.smax(most, bytes) : bytes;
    }
    return most;
}

void PhaseEmitter::emit_across(const Loop &loop, uint32_t id, Value begin, Value end) {
    const Mark before = mark();
    const Walk outer = std::exchange(walk_, {loop.axis, begin, end});
    const Partials start = identities(loop);
    const bool one = s_.one_chunk || loop.chunk == 0;
    std::vector<LaneRows> lanes;
    for (size_t i = 0; i < loop.reductions.size(); ++i) {
        const Reduction &r = loop.reductions[i];
        if (!has_order(r))
            continue;
        LaneRows rows{&r,
                      i,
                      ssa_elem(r.dtype),
                      varies(r) ? ctx_.width : 1,
                      varies(r) ? ctx_.parts : 1,
                      loop.step,
                      nullptr,
                      nullptr};
        const int64_t size = rows.lanes() * rows.width * rows.parts;
        rows.elements = b_.stack(rows.elem, size);
        if (!one)
            rows.chunks = b_.stack(rows.elem, size);
        lanes.push_back(rows);
    }
    const auto preheader = [&] { hoist(loop.body, true); };
    Partials totals;
    if (one) {
        totals = fold_across(loop, lanes, start, begin, end, preheader);
    } else {
        Value chunk = b_.i64(loop.chunk);
        Value chunks =
            b_.udiv(b_.add(b_.smax(b_.sub(end, begin), b_.i64(0)), b_.sub(chunk, b_.i64(1))), chunk);
        const auto used = [&](const LaneRows &rows) { return b_.smin(chunks, b_.i64(rows.lanes())); };
        for (const LaneRows &rows : lanes)
            clear_lanes(rows, rows.chunks, b_.smax(used(rows), b_.i64(1)));
        const auto step = [&](Value lo, std::span<const Value> carried) {
            Partials next = regroup(carried, start);
            const Partials part = fold_across(loop, lanes, start, lo, b_.smin(b_.add(lo, chunk), end), {});
            auto rows = lanes.begin();
            for (size_t i = 0; i < part.size(); ++i) {
                if (rows == lanes.end() || rows->index != i) {
                    combine(loop.reductions[i], next[i], part[i]);
                    continue;
                }
                Value lane = b_.bit_and(b_.udiv(b_.sub(lo, begin), chunk), b_.i64(rows->lanes() - 1));
                add_to_lane(*rows, rows->chunks, lane, part[i]);
                ++rows;
            }
            return flatten(next);
        };
        totals = regroup(b_.loop(begin, end, chunk, flatten(start), step, preheader), start);
        for (const LaneRows &rows : lanes)
            totals[rows.index] = fold_lanes(rows, rows.chunks, used(rows));
    }
    walk_ = outer;
    forget(before);
    set_results(loop, id, totals);
}

} // namespace lz::codegen
