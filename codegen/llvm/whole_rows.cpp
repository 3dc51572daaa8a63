#include "codegen/llvm/emitter.h"

#include <algorithm>
#include <bit>
#include <utility>

/// A chunk of rows side by side, read in the order of memory:
///
///     for each kRowsAtOnce rows of each lane
///         for each lane
///             for each register of columns
///                 sums[lane, column] = those of the rows, one after the other, added to it
///     fold the lanes by halves
///
/// What is read is as many streams as rows are read at once, each of them as long as the matrix, which the
/// processor reads ahead by itself; the sums of all lanes lie in the worker's scratch, a part of the
/// second-level cache, and are read and written once for several elements.
///
/// [768, 3072] of f32 times a row, plain loops on two threads of a Zen 5 machine, GB/s from memory, when
/// reading alone did 79 (and 47, while both threads were cores of one last-level cache): columns shared among
/// threads, the rows of a lane after each other, 51 (44), and with what comes next asked for 53 (41); half of
/// each 64 rows to each thread, in the order of memory, 2 rows at once 71 (43), 3 rows 76 (46), 4 rows 70
/// (45), 6 rows 77 (46); what comes next asked for as well 68 (40). From the last-level cache 4 rows did
/// best, 150 to 220. How many rows behind each other a thread has: passes/schedule/whole_rows.cpp.

namespace lz::codegen {

using namespace ir;

namespace {

constexpr int64_t kRowsAtOnce[] = {4, 1};
/// Registers of columns that are under way at once.
constexpr int kRegisters = 2;

} // namespace

/// What is known of an element of each of the rows that are read together, but for its column.
struct PhaseEmitter::RowOfLane {
    Value index; ///< of the row
    std::vector<std::pair<KValue, Emitted>> values;
    std::vector<Memo> memos;
};

/// A work item.
struct PhaseEmitter::WholeRows {
    uint32_t id; ///< of the loop
    const Loop &loop;
    AxisId axis;
    Value from, to;                       ///< columns, whole registers
    Value first, parts;                   ///< along the axis of parts
    int64_t together;                     ///< parts of a full work item
    int64_t lanes;                        ///< of a part
    Value begin = nullptr, end = nullptr; ///< of the first part's rows
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

void PhaseEmitter::grid_whole_rows() {
    const size_t last = p_.grid.size() - 1, part = last - 2;
    const AxisId parts = p_.grid[part], axis = p_.grid[last];
    const uint32_t id = std::ranges::find(p_.body, Stmt::Loop, &Stmt::kind)->id;
    const Loop &loop = k_.loops[id];
    const Value together = b_.i64(s_.whole_rows);
    Values counts;
    for (size_t i = 0; i < last; ++i)
        counts.push_back(i == part ? b_.udiv(b_.add(extent(parts), b_.i64(s_.whole_rows - 1)), together)
                                   : extent(p_.grid[i]));
    counts.push_back(blocks_of(axis, s_.block));
    walk(counts, [&](std::span<const Value> index) {
        for (size_t i = 0; i < last; ++i)
            if (i != part)
                bind_axis(p_.grid[i], index[i]);
        const Value lo = b_.mul(index[last], arg(s_.block));
        const Value hi = b_.smin(b_.add(lo, arg(s_.block)), extent(axis));
        const Value to = b_.add(lo, b_.bit_and(b_.sub(hi, lo), b_.i64(-int64_t{width_})));
        const Value first = b_.mul(index[part], together);
        const WholeRows whole{.id = id,
                              .loop = loop,
                              .axis = axis,
                              .from = lo,
                              .to = to,
                              .first = first,
                              .parts = b_.smin(together, b_.sub(extent(parts), first)),
                              .together = s_.whole_rows,
                              .lanes = ir::lanes_of(loop, loop.reductions.front())};
        b_.if_then(b_.compare(Pred::Slt, lo, to), [&] { whole_rows(whole); });
        b_.if_then(b_.compare(Pred::Slt, to, hi), [&] { // columns that fill no register
            b_.loop(b_.i64(0), whole.parts, b_.i64(1), {},
                    [&](Value place, std::span<const Value>) -> Values {
                        const Mark before = mark();
                        bind_axis(parts, b_.add(first, place));
                        hoist(p_.body, true);
                        prepare(p_.body, axis);
                        masked_steps(p_.body, axis, to, hi);
                        unbind_axis(parts);
                        forget(before);
                        return {};
                    });
        });
        for (size_t i = last; i-- > 0;)
            if (i != part)
                unbind_axis(p_.grid[i]);
    });
}

void PhaseEmitter::whole_rows(const WholeRows &item) {
    const AxisId parts = p_.grid[p_.grid.size() - 3];
    WholeRows whole = item;
    const Mark before = mark();
    bind_axis(parts, whole.first);
    hoist(p_.body, true);
    whole.begin = scalar(whole.loop.begin);
    whole.end = scalar(whole.loop.end);
    sum_all_rows(whole);
    unbind_axis(parts);
    forget(before);
    b_.loop(b_.i64(0), whole.parts, b_.i64(1), {}, [&](Value part, std::span<const Value>) -> Values {
        fold_lanes(whole, part);
        const Mark inside = mark();
        bind_axis(parts, b_.add(whole.first, part));
        hoist(p_.body, true);
        prepare(p_.body, whole.axis);
        const Value none = b_.compare(Pred::Eq, rows_of_part(whole, part), b_.i64(0));
        const Values sums = sums_of_lane(whole, part);
        each_step(whole, [&](Value column) {
            const Partials totals = load_unless(none, whole, sums, column);
            bind_axis(whole.axis, b_.add(column, whole.from));
            set_results(whole.loop, whole.id, totals);
            for (const Stmt &stmt : p_.body)
                if (stmt.kind == Stmt::Instruction)
                    emit_region(Region{stmt});
            unbind_axis(whole.axis);
        });
        unbind_axis(parts);
        forget(inside);
        return {};
    });
}

Value PhaseEmitter::rows_of_part(const WholeRows &whole, Value part) {
    const Value length = b_.sub(whole.end, b_.add(whole.begin, part));
    const Value step = b_.i64(whole.loop.step);
    return b_.udiv(b_.add(b_.smax(length, b_.i64(0)), b_.sub(step, b_.i64(1))), step);
}

/// What the rows of each lane of each part add up to.
void PhaseEmitter::sum_all_rows(const WholeRows &whole) {
    const Value lanes = b_.i64(whole.lanes), together = b_.i64(whole.together);
    // The last part has fewest rows. Beside turns in which each lane has one there is a last one.
    const Value all = b_.udiv(rows_of_part(whole, b_.sub(whole.parts, b_.i64(1))), lanes);
    const Value behind = b_.sub(rows_of_part(whole, b_.i64(0)), b_.mul(all, lanes));
    const auto sum = [&](Value turn, Value to, int64_t at_once) {
        const Value begins = b_.compare(Pred::Eq, turn, b_.i64(0));
        b_.loop(b_.i64(0), to, b_.i64(1), {}, [&](Value lane, std::span<const Value>) -> Values {
            const Value row = b_.add(b_.mul(turn, lanes), lane);
            const Value first = b_.add(whole.begin, b_.mul(row, b_.i64(whole.loop.step)));
            const Value parts = b_.smin(whole.parts, b_.sub(whole.end, first));
            b_.loop(b_.i64(0), parts, b_.i64(1), {}, [&](Value part, std::span<const Value>) -> Values {
                const Value place = b_.add(b_.mul(lane, together), part);
                sum_rows_of_lane(whole, place, b_.add(first, part), at_once, begins);
                return {};
            });
            return {};
        });
    };
    Value done = b_.i64(0);
    for (const int64_t at_once : kRowsAtOnce) {
        const bool last = at_once == 1;
        const Value to = last ? b_.add(all, b_.i64(1)) : b_.bit_and(all, b_.i64(-at_once));
        b_.loop(done, to, b_.i64(at_once), {}, [&](Value turn, std::span<const Value>) -> Values {
            sum(turn, last ? b_.select(b_.compare(Pred::Eq, turn, all), behind, lanes) : lanes, at_once);
            return {};
        });
        done = to;
    }
}

/// The lanes of a part to the first one of them, by halves; of lanes that have nothing there is none.
void PhaseEmitter::fold_lanes(const WholeRows &whole, Value part) {
    const Value together = b_.i64(whole.together);
    const int turns = std::countr_zero(static_cast<uint64_t>(whole.lanes));
    const Values first = {b_.i64(whole.lanes / 2), b_.smin(rows_of_part(whole, part), b_.i64(whole.lanes))};
    b_.loop(b_.i64(0), b_.i64(turns), b_.i64(1), first, [&](Value, std::span<const Value> carried) -> Values {
        const Value half = carried[0], used = carried[1];
        b_.loop(
            b_.i64(0), b_.sub(used, half), b_.i64(1), {}, [&](Value lane, std::span<const Value>) -> Values {
                const Values to = sums_of_lane(whole, b_.add(b_.mul(lane, together), part));
                const Values from = sums_of_lane(whole, b_.add(b_.mul(b_.add(lane, half), together), part));
                each_step(whole, [&](Value column) {
                    Partials sums = load_sums(whole, to, column);
                    const Partials others = load_sums(whole, from, column);
                    for (size_t i = 0; i < sums.size(); ++i)
                        combine(whole.loop.reductions[i], sums[i], others[i]);
                    store_sums(whole, to, column, sums);
                });
                return {};
            });
        return {b_.udiv(half, b_.i64(2)), b_.smin(used, half)};
    });
}

/// Row `first` and those after it of a lane, as many as `count`, to the sums in its place.
void PhaseEmitter::sum_rows_of_lane(const WholeRows &whole, Value place, Value first, int64_t count,
                                    Value begins) {
    const Loop &loop = whole.loop;
    std::vector<RowOfLane> rows;
    for (int64_t r = 0; r < count; ++r)
        rows.push_back(prepare_row(loop, whole.axis, b_.add(first, b_.i64(r * whole.lanes * loop.step))));
    const Values places = sums_of_lane(whole, place);
    each_step(whole, [&](Value column) {
        Partials sums = load_unless(begins, whole, places, column);
        for (const RowOfLane &row : rows) {
            const Mark inside = mark();
            bind_axis(loop.axis, row.index);
            for (const auto &[value, emitted] : row.values) {
                values_[value] = emitted;
                defined_.push_back(value);
            }
            memos_.insert(memos_.end(), row.memos.begin(), row.memos.end());
            bind_axis(whole.axis, b_.add(column, whole.from));
            emit_region(loop.body);
            for (size_t i = 0; i < sums.size(); ++i)
                combine(loop.reductions[i], sums[i], element_of(loop.reductions[i]));
            unbind_axis(whole.axis);
            unbind_axis(loop.axis);
            forget(inside);
        }
        store_sums(whole, places, column, sums);
    });
}

void PhaseEmitter::each_step(const WholeRows &whole, const std::function<void(Value column)> &body) {
    Value from = whole.from;
    for (const int registers : {kRegisters, 1}) {
        const int64_t step = int64_t{width_} * registers;
        const Value to = b_.add(from, b_.bit_and(b_.sub(whole.to, from), b_.i64(-step)));
        b_.loop(from, to, b_.i64(step), {}, [&](Value column, std::span<const Value>) -> Values {
            const Mark inside = mark();
            Context context = vector_context(whole.axis, column, width_, registers);
            std::swap(ctx_, context);
            body(b_.sub(column, whole.from));
            std::swap(ctx_, context);
            forget(inside);
            return {};
        });
        from = to;
    }
}

/// Where the sums of a lane lie, of each reduction: lane after lane, and of each lane part after part.
PhaseEmitter::Values PhaseEmitter::sums_of_lane(const WholeRows &whole, Value place) {
    Values places;
    const Value columns = b_.sub(whole.to, whole.from);
    for (size_t i = 0; i < whole.loop.reductions.size(); ++i) {
        const int64_t before = static_cast<int64_t>(i) * whole.lanes * whole.together;
        const Value row = b_.add(b_.i64(before), place);
        places.push_back(
            b_.element(ssa_elem(whole.loop.reductions[i].dtype), buffer(s_.scratch), b_.mul(row, columns)));
    }
    return places;
}
/// A register of the sums of a reduction.
Value PhaseEmitter::sum_register(const WholeRows &whole, const Values &lane, size_t reduction, Value column,
                                 size_t part) {
    const Elem e = ssa_elem(whole.loop.reductions[reduction].dtype);
    return b_.element(e, b_.element(e, lane[reduction], column), b_.i64(static_cast<int64_t>(part) * width_));
}
PhaseEmitter::Partials PhaseEmitter::load_sums(const WholeRows &whole, const Values &lane, Value column) {
    Partials sums(lane.size(), Values(static_cast<size_t>(ctx_.parts)));
    for (size_t i = 0; i < sums.size(); ++i) {
        const Elem e = ssa_elem(whole.loop.reductions[i].dtype);
        for (size_t part = 0; part < sums[i].size(); ++part)
            sums[i][part] = b_.load(e, width_, sum_register(whole, lane, i, column, part), bytes_of(e));
    }
    return sums;
}
/// The sums of a lane, or where `nothing` was added to them what sums begin with.
PhaseEmitter::Partials PhaseEmitter::load_unless(Value nothing, const WholeRows &whole, const Values &lane,
                                                 Value column) {
    Partials sums = identities(whole.loop);
    const Partials loaded = load_sums(whole, lane, column);
    for (size_t i = 0; i < sums.size(); ++i)
        for (size_t part = 0; part < sums[i].size(); ++part)
            sums[i][part] = b_.select(nothing, sums[i][part], loaded[i][part]);
    return sums;
}
void PhaseEmitter::store_sums(const WholeRows &whole, const Values &lane, Value column,
                              const Partials &sums) {
    for (size_t i = 0; i < sums.size(); ++i)
        for (size_t part = 0; part < sums[i].size(); ++part)
            b_.store(sums[i][part], sum_register(whole, lane, i, column, part),
                     bytes_of(ssa_elem(whole.loop.reductions[i].dtype)));
}

} // namespace lz::codegen
