#include "codegen/llvm/emitter.h"

#include <algorithm>
#include <bit>
#include <utility>

/// Rows side by side of a matrix that is larger than the caches, a few whole rows of one lane at a time:
///
///     for each lane of L, in the order in which they meet
///         for each kRowsAtOnce rows of it, L apart
///             for each register of columns
///                 sums[column] = those of the rows, one after the other, added to it
///         the sums meet those that wait for them
///
/// Whole rows are read in few streams, and a sum is read and written once for several elements. The order of
/// each sum is that of lanes (across.cpp): lane l meets lane l + L/2, what they make that of l + L/4 and
/// l + 3L/4, and so on. In bit-reversed order of lanes, those that meet follow each other, so that no more
/// than one row of sums waits at each level.

namespace lz::codegen {

using namespace ir;

namespace {

/// Rows that are read beside each other, while those that come next are asked for, into the second-level
/// cache: a row, or a thread's part of it, is too short for the processor to read far ahead by itself. A row
/// times [768, 3072] of f32, plain loops on two threads of a Zen 4 machine, GB/s from memory (where reading
/// alone does 31, and 50 while nobody else is on the machine) and from the last-level cache: nothing asked
/// for, 4 rows 25 to 26 and 112, 8 rows 26 to 27 (25) and 97 to 102; the next rows, 4 rows 28 to 30 (34) and
/// 97 to 102, 8 rows 28 (35) and 76 to 80; all lanes of 64 columns, as in across.cpp, 24 and 75 to 80.
constexpr int64_t kRowsAtOnce[] = {4, 1};
/// Rows of a lane below which its sums meet too often.
constexpr int64_t kLeastRows = 8;
/// Bytes of a row below which it is no stream: half a page.
constexpr int64_t kLeastRowBytes = 2048;
/// Bytes of sums of one level, of all reductions together, which stay in the first-level cache. All levels
/// and chunks lie on the stack: at most 15 times as many.
constexpr int64_t kSumBytes = 8 << 10;
/// Of rows; their sums wait for each other in as much memory.
constexpr int64_t kMostChunks = 8;

} // namespace

/// Rows `first`, `first` + lanes and so on.
struct PhaseEmitter::RowsOfLane {
    Value first;
    int64_t count;
    Value begins; ///< whether nothing was added to their sums before
    Value ahead;  ///< rows from each of them to the one that is asked for meanwhile
};

/// What is known of an element of each of the rows that are read together, but for its column.
struct PhaseEmitter::RowOfLane {
    Value index; ///< of the row
    std::vector<std::pair<KValue, Emitted>> values;
    std::vector<Memo> memos;
};

PhaseEmitter::RowOfLane PhaseEmitter::prepare_row(const Loop &loop, AxisId axis, Value index) {
    RowOfLane row{index, {}, {}};
    const Mark before = mark();
    bind_axis(loop.axis, index);
    hoist(loop.body, true);
    prepare(loop.body, axis);
    for (size_t i = before.defined; i < defined_.size(); ++i)
        row.values.emplace_back(defined_[i], values_[defined_[i]]);
    row.memos.assign(memos_.begin() + static_cast<ptrdiff_t>(before.memos), memos_.end());
    unbind_axis(loop.axis);
    forget(before);
    return row;
}

/// The loop whose rows may be read whole in a region for steps along `axis`, or null.
const Loop *PhaseEmitter::loop_of_whole_rows(const Region &region, AxisId axis) const {
    const auto stmt = std::ranges::find(region, Stmt::Loop, &Stmt::kind);
    if (stmt == region.end() ||
        std::count_if(region.begin(), region.end(), [](const Stmt &s) { return s.kind == Stmt::Loop; }) != 1)
        return nullptr;
    const Loop &loop = k_.loops[stmt->id];
    const auto known = [&](const Stmt &s) {
        return !values_[s.id].empty() || analysis_.rare().only_for(s.id);
    };
    const auto along = [&](const Reduction &r) { return analysis_.depends(r.value, axis); };
    const bool fits = options_.isa.vector_registers >= 32 && std::all_of(region.begin(), stmt, known) &&
                      !Analysis::has_loop(loop.body) && !analysis_.draws(region, axis) &&
                      std::ranges::all_of(loop.reductions, along);
    return fits ? &loop : nullptr;
}

/// Runs the region for columns [lo, hi) of a matrix of so many bytes, but for those that fill no register, if
/// it is worth it. The first column that is left to do.
Value PhaseEmitter::whole_rows(const Region &region, AxisId axis, Value lo, Value hi, Value bytes) {
    const Loop *const loop = loop_of_whole_rows(region, axis);
    if (!loop)
        return lo;
    const Reduction &first = loop->reductions.front();
    const int64_t lanes = lanes_of(first), size = bytes_of(ssa_elem(first.dtype));
    const bool one = s_.one_chunk || loop->chunk == 0;
    const Value columns = b_.sub(hi, lo), rows = extent(loop->axis);
    const auto both = [&](Value x, Value y) { return b_.bit_and(x, y); };
    Value worth = b_.compare(Pred::Slt, b_.i64(kLaneByLaneBytes), bytes);
    worth = both(worth, b_.compare(Pred::Sle, b_.i64(kLeastRowBytes / size), columns));
    worth = both(worth, b_.compare(Pred::Sle, b_.i64(kLeastRows * lanes), rows));
    if (!one) {
        const Value left = b_.urem(b_.sub(rows, b_.i64(1)), b_.i64(loop->chunk)); // but one, of the last one
        worth = both(worth, b_.compare(Pred::Sle, rows, b_.i64(kMostChunks * loop->chunk)));
        worth = both(worth, b_.compare(Pred::Sle, b_.i64(lanes - 1), left));
    }
    const Value end = b_.add(lo, b_.bit_and(columns, b_.i64(-int64_t{width_})));

    const auto sets = static_cast<int64_t>(std::bit_ceil(loop->reductions.size()));
    const int64_t block = std::max<int64_t>(kSumBytes / size / sets, width_);
    const int64_t levels = std::countr_zero(static_cast<uint64_t>(lanes)) + 1;
    std::vector<Value> sums;
    for (const Reduction &r : loop->reductions)
        sums.push_back(b_.stack(ssa_elem(r.dtype), (levels + (one ? 0 : kMostChunks)) * block));
    const auto emit_block = [&](Value from, std::span<const Value>) -> Values {
        const Mark inside = mark();
        const WholeRows whole{*loop, axis,  from,   b_.smin(b_.add(from, b_.i64(block)), end),
                              sums,  block, levels, lanes};
        if (one)
            sum_chunk(whole, b_.i64(0), rows);
        else
            sum_chunks(whole, rows);
        each_register(whole, [&](Value column) {
            Partials totals;
            for (size_t i = 0; i < sums.size(); ++i)
                totals.push_back({load_sum(whole, i, b_.i64(one ? levels - 1 : levels), column)});
            bind_axis(axis, column);
            set_results(*loop, static_cast<uint32_t>(loop - k_.loops.data()), totals);
            for (const Stmt &stmt : region)
                if (stmt.kind == Stmt::Instruction)
                    emit_region(Region{stmt});
            unbind_axis(axis);
        });
        forget(inside);
        return {};
    };
    b_.if_then(worth, [&] { b_.loop(lo, end, b_.i64(block), {}, emit_block); });
    return b_.select(worth, end, lo);
}

/// The columns' sums of all rows, in the first place behind the levels.
void PhaseEmitter::sum_chunks(const WholeRows &whole, Value rows) {
    const Value length = b_.i64(whole.loop.chunk);
    const Value chunks = b_.udiv(b_.add(rows, b_.sub(length, b_.i64(1))), length);
    const auto place = [&](Value chunk) { return b_.add(chunk, b_.i64(whole.levels)); };
    b_.loop(b_.i64(0), chunks, b_.i64(1), {}, [&](Value chunk, std::span<const Value>) -> Values {
        const Value begin = b_.mul(chunk, length);
        sum_chunk(whole, begin, b_.smin(b_.add(begin, length), rows));
        each_register(whole, [&](Value column) {
            Partials lane = identities(whole.loop);
            for (size_t i = 0; i < lane.size(); ++i) {
                combine(whole.loop.reductions[i], lane[i],
                        {load_sum(whole, i, b_.i64(whole.levels - 1), column)});
                store_sum(whole, i, place(chunk), column, lane[i].front());
            }
        });
        return {};
    });
    Value left = chunks;
    for (int64_t half = kMostChunks / 2; half > 0; half /= 2) {
        b_.loop(b_.i64(0), b_.sub(left, b_.i64(half)), b_.i64(1), {},
                [&](Value chunk, std::span<const Value>) -> Values {
                    add_sums(whole, place(chunk), place(b_.add(chunk, b_.i64(half))), place(chunk));
                    return {};
                });
        left = b_.smin(left, b_.i64(half));
    }
}

/// The columns' sums of the rows [begin, end), at the last level.
void PhaseEmitter::sum_chunk(const WholeRows &whole, Value begin, Value end) {
    const Value lanes = b_.i64(whole.lanes), rows = b_.sub(end, begin);
    b_.loop(b_.i64(0), lanes, b_.i64(1), {}, [&](Value turn, std::span<const Value>) -> Values {
        const Value lane = b_.lshr(b_.reverse_bits(turn), b_.i64(64 - (whole.levels - 1)));
        // As many levels meet at this turn as its number ends in ones.
        const Value level = b_.count_trailing_zeros(b_.bit_not(turn));
        // Where the rows begin that are read after those of this lane.
        const Value after = b_.add(turn, b_.i64(1));
        const Value next =
            b_.select(b_.compare(Pred::Eq, after, lanes), end,
                      b_.add(begin, b_.lshr(b_.reverse_bits(after), b_.i64(64 - (whole.levels - 1)))));
        const Value of_lane = b_.udiv(b_.add(b_.sub(rows, lane), b_.i64(whole.lanes - 1)), lanes);
        const auto sum_rows = [&](Value first, Value last, int64_t at_once) {
            b_.loop(first, last, b_.i64(at_once), {}, [&](Value row, std::span<const Value>) -> Values {
                const Value begins = b_.compare(Pred::Eq, row, b_.i64(0));
                const Value from = b_.add(b_.add(begin, lane), b_.mul(row, lanes));
                const Value below = b_.compare(Pred::Slt, b_.add(row, b_.i64(at_once)), of_lane);
                const Value ahead = b_.select(below, b_.i64(at_once * whole.lanes), b_.sub(next, from));
                sum_rows_of_lane(whole, level, {from, at_once, begins, ahead});
                return {};
            });
        };
        Value done = b_.i64(0);
        for (const int64_t at_once : kRowsAtOnce) {
            const Value last = b_.bit_and(of_lane, b_.i64(-at_once));
            sum_rows(done, last, at_once);
            done = last;
        }
        b_.loop(b_.i64(0), level, b_.i64(1), {}, [&](Value other, std::span<const Value>) -> Values {
            add_sums(whole, other, level, level);
            return {};
        });
        return {};
    });
}

/// Sums at `to`: of those at `first` and `second`.
void PhaseEmitter::add_sums(const WholeRows &whole, Value first, Value second, Value to) {
    each_register(whole, [&](Value column) {
        for (size_t i = 0; i < whole.sums.size(); ++i) {
            Values sum = {load_sum(whole, i, first, column)};
            combine(whole.loop.reductions[i], sum, {load_sum(whole, i, second, column)});
            store_sum(whole, i, to, column, sum.front());
        }
    });
}

/// Rows of a lane to the sums of a level.
void PhaseEmitter::sum_rows_of_lane(const WholeRows &whole, Value level, const RowsOfLane &these) {
    const Loop &loop = whole.loop;
    std::vector<RowOfLane> rows;
    for (int64_t r = 0; r < these.count; ++r)
        rows.push_back(prepare_row(loop, whole.axis, b_.add(these.first, b_.i64(r * whole.lanes))));
    const Walk outer = std::exchange(walk_, {.axis = loop.axis, .rows = these.ahead});
    each_register(whole, [&](Value column) {
        Partials sums = identities(loop);
        for (size_t i = 0; i < sums.size(); ++i)
            sums[i] = {b_.select(these.begins, sums[i].front(), load_sum(whole, i, level, column))};
        for (const RowOfLane &row : rows) {
            const Mark inside = mark();
            bind_axis(loop.axis, row.index);
            for (const auto &[value, emitted] : row.values) {
                values_[value] = emitted;
                defined_.push_back(value);
            }
            memos_.insert(memos_.end(), row.memos.begin(), row.memos.end());
            bind_axis(whole.axis, column);
            emit_region(loop.body);
            for (size_t i = 0; i < sums.size(); ++i)
                combine(loop.reductions[i], sums[i], element_of(loop.reductions[i]));
            unbind_axis(whole.axis);
            unbind_axis(loop.axis);
            forget(inside);
        }
        for (size_t i = 0; i < sums.size(); ++i)
            store_sum(whole, i, level, column, sums[i].front());
    });
    walk_ = outer;
}

void PhaseEmitter::each_register(const WholeRows &whole, const std::function<void(Value column)> &body) {
    b_.loop(whole.from, whole.to, b_.i64(width_), {}, [&](Value column, std::span<const Value>) -> Values {
        const Mark inside = mark();
        Context context = vector_context(whole.axis, column, width_, 1);
        std::swap(ctx_, context);
        body(column);
        std::swap(ctx_, context);
        forget(inside);
        return {};
    });
}

/// Where the sums of a register of columns lie.
Value PhaseEmitter::sum_place(const WholeRows &whole, size_t reduction, Value level, Value column) {
    const Value index = b_.add(b_.mul(level, b_.i64(whole.block)), b_.sub(column, whole.from));
    return b_.element(ssa_elem(whole.loop.reductions[reduction].dtype), whole.sums[reduction], index);
}
Value PhaseEmitter::load_sum(const WholeRows &whole, size_t reduction, Value level, Value column) {
    const Elem e = ssa_elem(whole.loop.reductions[reduction].dtype);
    return b_.load(e, width_, sum_place(whole, reduction, level, column), bytes_of(e));
}
void PhaseEmitter::store_sum(const WholeRows &whole, size_t reduction, Value level, Value column, Value sum) {
    const Elem e = ssa_elem(whole.loop.reductions[reduction].dtype);
    b_.store(sum, sum_place(whole, reduction, level, column), bytes_of(e));
}

} // namespace lz::codegen
