#include "codegen/llvm/emitter.h"

#include "ir/diagnostic.h"

#include <algorithm>

namespace lz::codegen {

using namespace ir;

namespace {

/// Bodies up to this cost are emitted once for each register of partial results; longer ones for fewer, and
/// the registers take turns. The longest keep partial results in memory, with one body for all elements, or,
/// where their operations wait for each other, with another one for several registers (parts_of_chain). With
/// 16 registers all but the first keep them in memory, since there is no room for both: up to kStepsCostOf16
/// with a body for full steps, of two registers (rows of 1000 on a Zen 3, of what takes turns: softmax 0.86,
/// sums of sigmoid 0.78, of gelu 0.79, of erf and tanh 0.93) up to kTurnsCost and of one above, which takes a
/// tenth less to compile.
constexpr int kEachCost = 12, kTurnsCost = 32, kStepsCostOf16 = 48;
constexpr int kMostRegisters = 8;
/// Extents of InnerTier::Tiny, which few registers of so many lanes hold.
constexpr int kTinyExtent = 16, kLeastTinyWidth = 4;

} // namespace

PhaseEmitter::Partials PhaseEmitter::identities(const Loop &loop, int lanes,
                                                const std::function<size_t(const Reduction &)> &registers) {
    Partials partials;
    for (const Reduction &r : loop.reductions) {
        const size_t n = registers(r);
        Values values(n, emit_identity(b_, r.op, r.dtype, lanes));
        if (is_arg(r))
            values.insert(values.end(), n, b_.i64(INT64_MAX, lanes)); // behind every element
        partials.push_back(std::move(values));
    }
    return partials;
}

void PhaseEmitter::emit_lanes(const Loop &loop, uint32_t id, Value begin, Value end) {
    const Mark before = mark();
    if (loop.reductions.empty()) {
        b_.if_then(b_.compare(Pred::Slt, begin, end), [&] {
            hoist(loop.body, true);
            vector_range(loop.body, loop.axis, begin, end);
        });
        return forget(before);
    }
    if (fold_partials(loop, id, begin, end))
        return forget(before);
    const Partials start = identities(loop, 1, [](const Reduction &) { return size_t{1}; });
    const auto chunk = [&](Value lo, Value hi) { return regroup(fold_chunk(loop, lo, hi), start); };
    const Partials totals = fold_chunks(loop, begin, end, start, chunk, [&] {
        hoist(loop.body, true);
        prepare(loop.body, loop.axis);
    });
    forget(before);
    std::vector<Emitted> slots;
    for (const Values &total : totals) {
        slots.push_back({{total[0]}, false});
        slots.push_back(total.size() > 1 ? Emitted{{total[1]}, false} : Emitted{});
    }
    results_[id] = std::move(slots);
}

PhaseEmitter::Values PhaseEmitter::fold_chunk(const Loop &loop, Value begin, Value end) {
    const bool tiny = s_.inner == InnerTier::Tiny && !vector_grid() && analysis_.one_lanes_axis();
    if (tiny && width_ >= kLeastTinyWidth && (loop.chunk == 0 || loop.chunk >= kTinyExtent))
        return fold_tiny(loop, begin, end);
    int registers = 0;
    for (const Reduction &r : loop.reductions)
        registers = std::max(registers, lanes_of(r) / width_);
    const int cost = analysis_.cost(loop.body, loop.axis);
    const bool few = options_.isa.vector_registers < 32, light = cost <= kEachCost;
    if (s_.partials || cost > (few ? kStepsCostOf16 : kTurnsCost) || Analysis::has_loop(loop.body) ||
        registers > kMostRegisters) {
        const int parts = s_.partials ? 1 : std::min(registers, parts_of_chain(loop.body, loop.axis));
        return fold_in_memory(loop, begin, end, parts > 1 ? parts : 0);
    }
    if (few && !light && std::ranges::none_of(loop.reductions, is_arg))
        return fold_in_memory(loop, begin, end, cost > kTurnsCost ? 1 : std::min(2, registers));
    return fold_in_registers(loop, begin, end, light ? registers : std::min(few ? 2 : 4, registers),
                             !light && masks_are_free(loop.body, loop.axis));
}

/// Where positions are counted: an accumulator's index is 32 bits, those from the chunk's begin to lane 0 of
/// the register that its element was in. A lane begins as if its first element had been there: of equals the
/// first wins.
void PhaseEmitter::begin_positions(const Loop &loop, Partials &partials) {
    for (size_t i = 0; i < partials.size(); ++i)
        if (counts_positions(loop, loop.reductions[i]))
            for (size_t n = partials[i].size() / 2, j = 0; j < n; ++j)
                partials[i][n + j] = b_.i32(static_cast<int32_t>(j) * width_, width_);
}

/// Folds a register of elements, `behind` the chunk's begin, to accumulator `at`.
void PhaseEmitter::take(const Loop &loop, size_t reduction, Values &accumulators, size_t at, int part,
                        Value behind) {
    const Reduction &r = loop.reductions[reduction];
    const size_t n = accumulators.size() / (is_arg(r) ? 2 : 1);
    if (counts_positions(loop, r))
        take_position(r, accumulators[at], accumulators[n + at], operand(r.value, part), behind, live(part));
    else
        combine(r, accumulators[at], is_arg(r) ? &accumulators[n + at] : nullptr, operand(r.value, part),
                is_arg(r) ? operand(r.index, part) : nullptr, live(part));
}

void PhaseEmitter::take_position(const Reduction &r, Value &best, Value &position, Value value, Value behind,
                                 Value mask) {
    Value better = emit_better_later(b_, r.op, r.dtype, value, best);
    if (mask)
        better = b_.bit_and(better, mask);
    best = b_.select(better, value, best);
    position = b_.select(better, b_.splat(b_.truncate(behind, Elem::I32), width_), position);
}

/// As halve, of a chunk; positions become indices at last. Registers that no element reached are left out,
/// where folding them takes longer than a branch.
PhaseEmitter::Values PhaseEmitter::halve_positions(const Loop &loop, Partials partials, Value begin,
                                                   Value end) {
    Values results;
    for (size_t i = 0; i < partials.size(); ++i) {
        const Reduction &r = loop.reductions[i];
        Values &all = partials[i];
        if (!counts_positions(loop, r)) {
            for (Value v : halve(r, std::move(all)))
                results.push_back(v);
            continue;
        }
        size_t n = all.size() / 2;
        for (size_t j = 0; j < n; ++j)
            all[n + j] = b_.add(all[n + j], b_.iota(Elem::I32, width_));
        for (; n > 1; n /= 2) {
            const size_t h = n / 2;
            Values low(all.begin(), all.begin() + static_cast<long>(h));
            low.insert(low.end(), all.begin() + static_cast<long>(n), all.begin() + static_cast<long>(n + h));
            Value reached =
                b_.compare(Pred::Slt, b_.i64(static_cast<int64_t>(h) * width_), b_.sub(end, begin));
            all = when(reached, low, [&] {
                Values folded = low;
                for (size_t j = 0; j < h; ++j)
                    combine(r, folded[j], &folded[h + j], all[h + j], all[n + h + j], nullptr);
                return folded;
            });
        }
        const Values one = halve(r, std::move(all));
        results.push_back(one[0]);
        results.push_back(b_.add(b_.zext(one[1], Elem::I64), begin));
    }
    return results;
}

/// All elements fit a few registers; the lanes behind them hold identities, which change nothing.
PhaseEmitter::Values PhaseEmitter::fold_tiny(const Loop &loop, Value begin, Value end) {
    const int registers = std::max(1, kTinyExtent / width_);
    Partials partials =
        identities(loop, width_, [&](const Reduction &) { return static_cast<size_t>(registers); });
    begin_positions(loop, partials);
    Value count = b_.sub(end, begin);
    const std::function<void(int)> from = [&](int at) {
        Value behind = b_.i64(int64_t{at} * width_);
        Context context = vector_context(loop.axis, b_.add(begin, behind), width_, 1);
        context.masks = lanes_below(b_.sub(count, behind), 1);
        points(loop.body, std::move(context), [&] {
            for (size_t i = 0; i < partials.size(); ++i)
                take(loop, i, partials[i], static_cast<size_t>(at), 0, behind);
        });
        if (at + 1 == registers)
            return;
        const Partials before = partials;
        const Values after =
            when(b_.compare(Pred::Slt, b_.i64(int64_t{at + 1} * width_), count), flatten(before), [&] {
                from(at + 1);
                return flatten(partials);
            });
        partials = regroup(after, before);
    };
    from(0);
    return halve_positions(loop, std::move(partials), begin, end);
}

/// A step works on `parts` registers of elements, at most as many as the widest reduction has for its lanes.
/// The registers in front take them and go to the back; after `most` registers each is where it was. Where
/// masks are free, the last steps of long bodies are masked like all others, up to such a place. Elsewhere
/// the elements that are left of a row of one chunk are folded in registers where bodies are short
/// (fold_rest), and otherwise go to partial results in memory, one register after the other.
PhaseEmitter::Values PhaseEmitter::fold_in_registers(const Loop &loop, Value begin, Value end, int parts,
                                                     bool masked) {
    const auto registers = [&](const Reduction &r) { return static_cast<size_t>(lanes_of(r) / width_); };
    Partials partials = identities(loop, width_, registers);
    size_t most = 0;
    for (const Reduction &r : loop.reductions)
        most = std::max(most, registers(r));
    begin_positions(loop, partials);
    const auto set = [&](std::span<const Value> all) { partials = regroup(all, partials); };
    const int64_t whole = static_cast<int64_t>(most) * width_;
    Value count = b_.sub(end, begin);
    Value walked = b_.bit_and(masked ? b_.add(count, b_.i64(whole - 1)) : count, b_.i64(-whole));
    Value last = b_.add(begin, walked);
    Value step = b_.i64(int64_t{parts} * width_);
    // A part of a whole tensor, of one chunk or of many, is one stream; of rows the next ones are asked for.
    const bool is_part = loop.begin != kNoValue;
    const std::vector<uint32_t> streams =
        is_part ? streams_ahead(loop.body, loop.axis, masked || chooses(loop.body)) : std::vector<uint32_t>();
    set(b_.loop(begin, last, step, flatten(partials), [&](Value index, std::span<const Value> carried) {
        set(carried);
        Context context = vector_context(loop.axis, index, width_, parts);
        context.streams = streams;
        if (masked)
            context.masks = lanes_below(b_.sub(end, index), parts);
        points(loop.body, std::move(context), [&] {
            for (size_t i = 0; i < partials.size(); ++i) {
                const Reduction &r = loop.reductions[i];
                const size_t n = registers(r);
                for (int part = 0; part < parts; ++part)
                    take(loop, i, partials[i], static_cast<size_t>(part) % n, part,
                         b_.add(b_.sub(index, begin), b_.i64(int64_t{part} * width_)));
                const auto turns = static_cast<long>(static_cast<size_t>(parts) % n);
                const auto half = partials[i].begin() + static_cast<long>(n);
                std::rotate(partials[i].begin(), partials[i].begin() + turns, half);
                if (is_arg(r))
                    std::rotate(half, half + turns, partials[i].end());
            }
        });
        return flatten(partials);
    }));
    if (masked)
        return halve_positions(loop, std::move(partials), begin, end);
    const auto registers_do = [&](const Reduction &r) { return !is_arg(r) || counts_positions(loop, r); };
    if ((s_.one_chunk || loop.chunk == 0) && analysis_.cost(loop.body, loop.axis) <= kEachCost &&
        std::ranges::all_of(loop.reductions, registers_do))
        return halve_positions(loop, fold_rest(loop, std::move(partials), begin, walked, end, most), begin,
                               end);
    for (size_t i = 0; i < partials.size(); ++i)
        for (size_t n = registers(loop.reductions[i]), j = 0; j < n; ++j)
            if (counts_positions(loop, loop.reductions[i])) {
                Value &position = partials[i][n + j];
                position = b_.add(b_.add(b_.zext(position, Elem::I64), b_.splat(begin, width_)),
                                  b_.iota(Elem::I64, width_));
            }
    // At most once; chunks that are full, which most are, stay in registers.
    const Partials whole_steps = partials;
    set(when(b_.compare(Pred::Slt, last, end), flatten(whole_steps), [&] {
        while_spilled(loop, partials,
                      [&](const Values &memory) { fold_steps(loop, memory, begin, last, end, 1, true); });
        return flatten(partials);
    }));
    return halve(loop, std::move(partials));
}

/// The elements that are left of a chunk after `walked` of them, less than `most` registers; partial results
/// are those of lane 0 on. Each full register has a body of its own. What follows the last of them is one
/// register that is filled up with identities, which change nothing. Sums of rows of 24, 56, 100 f32 take
/// 0.16, 0.08, 0.07 ns an element, and 0.35, 0.24, 0.13 with partial results in memory (Zen 3, one thread);
/// compiling takes 1 ms more.
PhaseEmitter::Partials PhaseEmitter::fold_rest(const Loop &loop, Partials partials, Value begin, Value walked,
                                               Value end, size_t most) {
    const auto with = [&](Value behind, const Values &masks, const std::function<void(size_t)> &f) {
        Context context = vector_context(loop.axis, b_.add(begin, behind), width_, 1);
        context.masks = masks;
        points(loop.body, std::move(context), [&] {
            for (size_t i = 0; i < partials.size(); ++i)
                f(i);
        });
    };
    Value rest = b_.sub(b_.sub(end, begin), walked);
    std::vector<std::pair<CodeBlock, Values>> ends = {{b_.current(), flatten(partials)}};
    const CodeBlock some = b_.block("some"), after = b_.block("after");
    b_.branch(b_.compare(Pred::Slt, b_.i64(0), rest), some, after);
    b_.set_block(some);
    Values filled(partials.size());
    Value whole = b_.bit_and(rest, b_.i64(-width_)), last_behind = b_.add(walked, whole);
    with(last_behind, lanes_below(b_.sub(rest, whole), 1), [&](size_t i) {
        const Reduction &r = loop.reductions[i];
        filled[i] = b_.select(live(0), operand(r.value, 0), emit_identity(b_, r.op, r.dtype, width_));
    });
    for (size_t done = 0; done < most; ++done) {
        const auto at = [&](size_t i) {
            return done % static_cast<size_t>(lanes_of(loop.reductions[i]) / width_);
        };
        const bool is_last = done + 1 == most;
        const CodeBlock last = b_.block("last"), full = is_last ? last : b_.block("full");
        if (is_last)
            b_.jump(last);
        else
            b_.branch(b_.compare(Pred::Sle, b_.i64(static_cast<int64_t>(done + 1) * width_), rest), full,
                      last);
        b_.set_block(last);
        Partials result = partials;
        for (size_t i = 0; i < result.size(); ++i) {
            const Reduction &r = loop.reductions[i];
            Values &to = result[i];
            if (is_arg(r))
                take_position(r, to[at(i)], to[to.size() / 2 + at(i)], filled[i], last_behind, nullptr);
            else
                combine(r, to[at(i)], nullptr, filled[i], nullptr, nullptr);
        }
        ends.emplace_back(last, flatten(result));
        b_.jump(after);
        if (is_last)
            break;
        b_.set_block(full);
        Value behind = b_.add(walked, b_.i64(static_cast<int64_t>(done) * width_));
        with(behind, {}, [&](size_t i) { take(loop, i, partials[i], at(i), 0, behind); });
    }
    b_.set_block(after);
    Values results;
    for (size_t i = 0; i < ends.front().second.size(); ++i) {
        const Value first = ends.front().second[i];
        results.push_back(b_.phi(first, first, ends.front().first));
        for (const auto &[block, values] : std::span(ends).subspan(1))
            b_.add_incoming(results.back(), values[i], block);
    }
    return regroup(results, partials);
}

/// The partial results are in memory: steps of `parts` registers, of which each has a place of its own, and
/// what is left under a mask; without parts, all under masks by one body.
PhaseEmitter::Values PhaseEmitter::fold_in_memory(const Loop &loop, Value begin, Value end, int parts) {
    Partials partials = identities(
        loop, width_, [&](const Reduction &r) { return static_cast<size_t>(lanes_of(r) / width_); });
    while_spilled(loop, partials, [&](const Values &memory) {
        Value rest = begin;
        if (parts > 0) {
            rest = b_.add(begin, b_.bit_and(b_.sub(end, begin), b_.i64(-int64_t{parts} * width_)));
            fold_steps(loop, memory, begin, begin, rest, parts, false);
        }
        fold_steps(loop, memory, begin, rest, end, 1, true);
    });
    return halve(loop, std::move(partials));
}

/// Bools take a byte in memory.
void PhaseEmitter::put_register(Value v, Value place) {
    const bool flag = b_.elem(v) == Elem::I1;
    b_.store(flag ? b_.zext(v, Elem::I8) : v, place, bytes_of(b_.elem(v)));
}

Value PhaseEmitter::get_register(Elem e, Value place) {
    if (e != Elem::I1)
        return b_.load(e, ctx_.axis == kNoAxis ? width_ : ctx_.width, place, bytes_of(e));
    Value bytes = get_register(Elem::I8, place);
    return b_.compare(Pred::Ne, bytes, b_.zero(Elem::I8, b_.lanes(bytes)));
}

/// Partial results in memory: values, and behind them (64-byte aligned) the indices of arg reductions.
Value PhaseEmitter::spill(const Values &registers) {
    Value memory = b_.stack(Elem::I8, int64_t{2} * kLaneBytes * 8);
    int64_t at = 0;
    for (Value v : registers) {
        const int64_t bytes = int64_t{b_.lanes(v)} * bytes_of(b_.elem(v));
        put_register(v, b_.element(Elem::I8, memory, b_.i64(at)));
        at += bytes;
    }
    return memory;
}

PhaseEmitter::Values PhaseEmitter::reload(Value memory, const Reduction &r) {
    Values registers;
    const int64_t lanes = lanes_of(r);
    const auto read = [&](Elem e, int64_t from) {
        for (int64_t lane = 0; lane < lanes; lane += width_)
            registers.push_back(
                get_register(e, b_.element(Elem::I8, memory, b_.i64(from + lane * bytes_of(e)))));
    };
    read(ssa_elem(r.dtype), 0);
    if (is_arg(r))
        read(Elem::I64, kLaneBytes);
    return registers;
}

void PhaseEmitter::while_spilled(const Loop &loop, Partials &partials,
                                 const std::function<void(const Values &)> &steps) {
    Values memory;
    for (const Values &group : partials)
        memory.push_back(spill(group));
    steps(memory);
    for (size_t i = 0; i < partials.size(); ++i)
        partials[i] = reload(memory[i], loop.reductions[i]);
}

/// Elements [begin, end) of a chunk that began at `origin`, `parts` registers at a time, with partial results
/// in memory.
void PhaseEmitter::fold_steps(const Loop &loop, const Values &memory, Value origin, Value begin, Value end,
                              int parts, bool masked) {
    // Of a part of a whole tensor; where a row's is asked for, its loads know.
    const std::vector<uint32_t> streams =
        origin == begin && loop.begin != kNoValue
            ? streams_ahead(loop.body, loop.axis, masked || chooses(loop.body))
            : std::vector<uint32_t>();
    b_.loop(begin, end, b_.i64(int64_t{parts} * width_), {},
            [&](Value index, std::span<const Value>) -> Values {
                Context context = vector_context(loop.axis, index, width_, parts);
                context.streams = streams;
                if (masked)
                    context.masks = lanes_below(b_.sub(end, index), parts);
                Value element = b_.sub(index, origin);
                points(loop.body, std::move(context), [&] {
                    for (size_t i = 0; i < loop.reductions.size(); ++i)
                        for (int part = 0; part < parts; ++part)
                            fold_register(loop.reductions[i], memory[i], element, part);
                });
                return {};
            });
}

/// A register of elements, which are `part` registers behind `element` of their chunk.
void PhaseEmitter::fold_register(const Reduction &r, Value memory, Value element, int part) {
    const Elem e = ssa_elem(r.dtype);
    Value lane = b_.bit_and(b_.add(element, b_.i64(int64_t{part} * width_)), b_.i64(lanes_of(r) - 1));
    Value place = b_.element(e, memory, lane);
    Value best = get_register(e, place);
    if (!is_arg(r)) {
        combine(r, best, nullptr, operand(r.value, part), nullptr, live(part));
        return put_register(best, place);
    }
    Value index_place = b_.element(Elem::I64, b_.element(Elem::I8, memory, b_.i64(kLaneBytes)), lane);
    Value best_index = get_register(Elem::I64, index_place);
    combine(r, best, &best_index, operand(r.value, part), operand(r.index, part), live(part));
    put_register(best, place);
    put_register(best_index, index_place);
}

PhaseEmitter::Values PhaseEmitter::halve(const Loop &loop, Partials partials) {
    Values results;
    for (size_t i = 0; i < partials.size(); ++i)
        for (Value v : halve(loop.reductions[i], std::move(partials[i])))
            results.push_back(v);
    return results;
}

/// Lane i with lane i + h, for h from half of the lanes down: first whole registers, then within one.
PhaseEmitter::Values PhaseEmitter::halve(const Reduction &r, Values values) {
    Values indices;
    if (is_arg(r)) {
        indices.assign(values.begin() + static_cast<long>(values.size() / 2), values.end());
        values.resize(values.size() / 2);
    }
    const auto fold = [&](Value &into, Value *into_index, Value from, Value from_index) {
        combine(r, into, into_index, from, from_index, nullptr);
    };
    while (values.size() > 1) {
        const size_t h = values.size() / 2;
        for (size_t j = 0; j < h; ++j)
            fold(values[j], is_arg(r) ? &indices[j] : nullptr, values[j + h],
                 is_arg(r) ? indices[j + h] : nullptr);
        values.resize(h);
    }
    Value value = values[0], index = is_arg(r) ? indices[0] : nullptr;
    while (b_.lanes(value) > 1) {
        const int h = b_.lanes(value) / 2;
        Value low = b_.slice(value, 0, h), low_index = index ? b_.slice(index, 0, h) : nullptr;
        fold(low, &low_index, b_.slice(value, h, h), index ? b_.slice(index, h, h) : nullptr);
        value = low;
        index = low_index;
    }
    return is_arg(r) ? Values{value, index} : Values{value};
}

} // namespace lz::codegen
