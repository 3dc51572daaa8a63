#include "codegen/llvm/emitter.h"
#include "ir/host/fold_levels.h"

#include <algorithm>

// Results of chunks are folded by the rule that made them (ir/kernel/kernel.h), level by level:
//  - level 0, the elements of a chunk, in registers;
//  - level 1, the results of chunks: lanes in memory, for a chunk adds to one of them; values that are folded
//    side by side in registers. A loop of one chunk skips it;
//  - level 2, the results of chunks of level 1, and so on: by a call of fold_levels, which few loops need.

namespace lz::codegen {

using namespace ir;

namespace {

int64_t fold_kind(const Reduction &r) {
    return (r.dtype == DType::F64 ? kFoldWide : 0) | (r.op == ReduceOp::Mul ? kFoldMultiply : 0);
}

/// Elements whose positions fit 32 bits: a chunk where no chunks are asked for.
constexpr int64_t kMostPositions = int64_t{1} << 30;

} // namespace

/// Whether the index of an arg reduction is the loop's, so that a register needs no more than the position of
/// its first lane in the chunk: 32 bits, the same in all lanes.
bool PhaseEmitter::counts_positions(const Loop &loop, const Reduction &r) const {
    if (!is_arg(r) || k_.instrs[r.index].op != KOp::Axis || k_.instrs[r.index].index != loop.axis)
        return false;
    return loop.chunk == 0 ? std::ranges::none_of(loop.reductions, has_order) : loop.chunk <= kMostPositions;
}

/// A reduction whose order can be seen.
struct PhaseEmitter::LevelItem {
    const Reduction *reduction;
    size_t index; ///< in its loop
    Elem elem;
    int lanes, values;   ///< what is folded side by side: so many values of so many lanes
    Value level1, above; ///< memory for fold_levels
};

/// What has to be kept of level 1 and those above it.
struct PhaseEmitter::Levels {
    std::vector<LevelItem> items;
    int64_t chunk = 0;
    bool by_lanes = false; ///< level 1 is kLaneBytes of lanes; else one value
};

/// Lanes of level 1, all identities. Without lanes level 1 is what the loop carries.
void PhaseEmitter::clear_lanes(const Levels &levels) {
    for (const LevelItem &item : levels.items) {
        Value identity = emit_identity(b_, item.reduction->op, item.reduction->dtype, width_);
        for (int lane = 0; lane < lanes_of(*item.reduction); lane += width_)
            b_.store(identity, b_.element(item.elem, item.level1, b_.i64(lane)), bytes_of(item.elem));
    }
}

/// Folds the result of chunk `index` into its lane.
void PhaseEmitter::add_to_lane(const LevelItem &item, Value index, Value value) {
    const Reduction &r = *item.reduction;
    Value lane = b_.element(item.elem, item.level1, b_.bit_and(index, b_.i64(lanes_of(r) - 1)));
    Value before = b_.load(item.elem, 1, lane, bytes_of(item.elem));
    b_.store(emit_combine(b_, target_, r.op, r.dtype, before, value), lane, bytes_of(item.elem));
}

/// Folds the lanes to one value.
PhaseEmitter::Values PhaseEmitter::fold_lanes(const LevelItem &item) {
    Values registers;
    for (int lane = 0; lane < lanes_of(*item.reduction); lane += width_)
        registers.push_back(b_.load(item.elem, width_, b_.element(item.elem, item.level1, b_.i64(lane)),
                                    bytes_of(item.elem)));
    return halve(*item.reduction, registers);
}

/// Gives level 1, full or with the last chunk in it, to the levels above. What the loop carries is in
/// `values`.
void PhaseEmitter::fold_above(const Levels &levels, Value index, Value last, std::span<const Value> values) {
    for (const LevelItem &item : levels.items) {
        const Reduction &r = *item.reduction;
        for (int i = 0; !levels.by_lanes && i < item.values; ++i) {
            b_.store(values[0], b_.element(item.elem, item.level1, b_.i64(int64_t{i} * item.lanes)),
                     bytes_of(item.elem));
            values = values.subspan(1);
        }
        const Value operands[] = {item.level1,
                                  item.above,
                                  index,
                                  b_.zext(last, Elem::I64),
                                  b_.i64(levels.chunk),
                                  b_.i64(levels.by_lanes ? lanes_of(r) : 1),
                                  b_.i64(int64_t{item.lanes} * item.values),
                                  b_.i64(fold_kind(r))};
        b_.call(kFoldLevelsSymbol, operands);
    }
}

PhaseEmitter::Levels PhaseEmitter::levels_of(const Loop &loop, const Partials &start) {
    Levels levels{.items = {}, .chunk = loop.chunk, .by_lanes = loop.order == LoopOrder::Lanes};
    for (size_t i = 0; loop.chunk > 0 && i < start.size(); ++i) {
        const Reduction &r = loop.reductions[i];
        if (!has_order(r))
            continue;
        const Elem elem = b_.elem(start[i][0]);
        const int lanes = b_.lanes(start[i][0]), values = static_cast<int>(start[i].size());
        const int64_t level = levels.by_lanes ? lanes_of(r) : int64_t{lanes} * values;
        levels.items.push_back({&r, i, elem, lanes, values, b_.stack(elem, level),
                                b_.stack(elem, level * fold_level_count(loop.chunk))});
    }
    return levels;
}

/// `values`, or what `then` makes of them where the condition holds.
PhaseEmitter::Values PhaseEmitter::when(Value condition, const Values &values,
                                        const std::function<Values()> &then, int likely) {
    const CodeBlock before = b_.current(), yes = b_.block("yes"), after = b_.block("after");
    b_.branch(condition, yes, after, likely);
    b_.set_block(yes);
    const Values made = then();
    const CodeBlock end = b_.current();
    b_.jump(after);
    b_.set_block(after);
    Values result;
    for (size_t i = 0; i < values.size(); ++i) {
        result.push_back(b_.phi(values[i], values[i], before));
        b_.add_incoming(result.back(), made[i], end);
    }
    return result;
}

PhaseEmitter::Partials PhaseEmitter::fold_chunks(const Loop &loop, Value begin, Value end,
                                                 const Partials &start, const ChunkBody &chunk,
                                                 const std::function<void()> &preheader) {
    // Where positions are counted there is a chunk for each 2^30 elements.
    const bool positions =
        std::ranges::any_of(loop.reductions, [&](const Reduction &r) { return counts_positions(loop, r); });
    const bool short_axis = s_.one_chunk && loop.chunk >= chunk_of(loop.order);
    const bool whole = (loop.chunk == 0 && !positions) || short_axis;
    if (whole) {
        const auto all = [&] {
            preheader();
            return flatten(chunk(begin, end));
        };
        return regroup(when(b_.compare(Pred::Slt, begin, end), flatten(start), all, 1), start);
    }
    Value length = b_.smax(b_.sub(end, begin), b_.i64(1));
    Value step = loop.chunk > 0 ? b_.i64(loop.chunk) : b_.smin(length, b_.i64(kMostPositions));
    const Levels levels = levels_of(loop, start);
    const int64_t reach = loop.chunk < kMostPositions ? loop.chunk * loop.chunk : INT64_MAX; // of level 1
    Value many = b_.compare(Pred::Sgt, b_.sub(end, begin), step);
    Value deep = b_.compare(Pred::Sgt, b_.sub(end, begin), b_.i64(reach));

    /// Level 1 with the chunk that began at `lo` in it, as far as it is carried; empty again after it was
    /// given to the next level.
    const auto go_up = [&](Value lo, Value index, const Values &level) {
        Value last = b_.compare(Pred::Sge, b_.add(lo, step), end);
        Value full = b_.compare(Pred::Eq, b_.urem(index, b_.i64(loop.chunk)), b_.i64(loop.chunk - 1));
        return when(b_.bit_and(deep, b_.bit_or(full, last)), level, [&] {
            fold_above(levels, b_.udiv(index, b_.i64(loop.chunk)), last, level);
            Values empty;
            if (levels.by_lanes)
                clear_lanes(levels);
            else
                for (const LevelItem &item : levels.items)
                    empty.insert(empty.end(), static_cast<size_t>(item.values),
                                 emit_identity(b_, item.reduction->op, item.reduction->dtype, item.lanes));
            return empty;
        });
    };
    const auto one = [&](Value lo, std::span<const Value> carried) {
        const Partials part = chunk(lo, b_.smin(b_.add(lo, step), end));
        Partials next = regroup(carried, start);
        for (size_t i = 0; i < part.size(); ++i)
            if (levels.by_lanes && loop.chunk > 0 && has_order(loop.reductions[i]))
                next[i] = part[i];
            else
                combine(loop.reductions[i], next[i], part[i]);
        if (levels.items.empty())
            return flatten(next);
        Value index = b_.udiv(b_.sub(lo, begin), step);
        if (levels.by_lanes) {
            b_.if_then(many, [&] {
                for (const LevelItem &item : levels.items)
                    add_to_lane(item, index, part[item.index][0]);
                go_up(lo, index, {});
            });
        } else {
            Partials level;
            for (const LevelItem &item : levels.items)
                level.push_back(next[item.index]);
            level = regroup(go_up(lo, index, flatten(level)), level);
            for (size_t i = 0; i < level.size(); ++i)
                next[levels.items[i].index] = level[i];
        }
        return flatten(next);
    };
    if (levels.by_lanes && !levels.items.empty())
        b_.if_then(many, [&] { clear_lanes(levels); });
    Partials totals = regroup(b_.loop(begin, end, step, flatten(start), one, preheader), start);
    if (levels.items.empty())
        return totals;
    Partials ordered;
    for (const LevelItem &item : levels.items)
        ordered.push_back(totals[item.index]);
    const auto fold_level1 = [&] {
        Partials folded = ordered;
        for (size_t i = 0; i < folded.size(); ++i) {
            const LevelItem &item = levels.items[i];
            if (levels.by_lanes)
                folded[i] = fold_lanes(item);
            for (size_t v = 0; v < folded[i].size(); ++v) {
                Value at = b_.element(item.elem, item.above, b_.i64(static_cast<int64_t>(v) * item.lanes));
                Value above = b_.load(item.elem, item.lanes, at, bytes_of(item.elem));
                folded[i][v] = b_.select(deep, above, folded[i][v]);
            }
        }
        return flatten(folded);
    };
    const Values folded = levels.by_lanes ? when(many, flatten(ordered), fold_level1) : fold_level1();
    ordered = regroup(folded, ordered);
    for (size_t i = 0; i < ordered.size(); ++i)
        totals[levels.items[i].index] = ordered[i];
    return totals;
}

/// Sums of what another phase left in memory, by calls of fold_results. False where they are something else.
bool PhaseEmitter::fold_partials(const Loop &loop, uint32_t id, Value begin, Value end) {
    const auto plain = [&](const Reduction &r) {
        const Instr &value = k_.instrs[r.value];
        if (!has_order(r) || value.op != KOp::Load)
            return false;
        const Access &access = k_.accesses[value.access];
        const AxisStride *along = stride_along(access, loop.axis);
        return access.terms.empty() && access.predicate == kNoValue && along &&
               along->cls == StrideClass::Contiguous && k_.buffers[access.buffer].dtype == r.dtype;
    };
    if (!s_.partials || loop.chunk == 0 || !std::ranges::all_of(loop.reductions, plain))
        return false;
    std::vector<Emitted> slots;
    bind_axis(loop.axis, begin);
    for (const Reduction &r : loop.reductions) {
        const Access &access = k_.accesses[k_.instrs[r.value].access];
        const Elem elem = ssa_elem(r.dtype);
        Value result = b_.stack(elem, 1);
        const Value operands[] = {b_.element(elem, buffer(access.buffer), element_offset(access)),
                                  b_.smax(b_.sub(end, begin), b_.i64(0)), result, b_.i64(loop.chunk),
                                  b_.i64(fold_kind(r))};
        b_.call(kFoldResultsSymbol, operands);
        slots.push_back({{b_.load(elem, 1, result, bytes_of(elem))}, false});
        slots.emplace_back();
    }
    unbind_axis(loop.axis);
    results_[id] = std::move(slots);
    return true;
}

} // namespace lz::codegen
