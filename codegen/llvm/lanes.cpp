#include "codegen/llvm/emitter.h"

#include "ir/diagnostic.h"

#include <algorithm>

namespace lz::codegen {

using namespace ir;

namespace {

/// Bodies up to this cost are emitted once for each register of partial results; longer ones for fewer, and
/// the registers take turns. The longest keep partial results in memory, with one body for all elements: two
/// would gain them little, for a quarter more to compile.
constexpr int kEachCost = 12, kTurnsCost = 32;
constexpr int kMostRegisters = 8;
constexpr int kTinyExtent = 16;

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
    // One chunk is a loop of one iteration: it guards what is hoisted, and gives the identity for no element.
    Value step = loop.chunk > 0 ? b_.i64(loop.chunk) : b_.smax(b_.sub(end, begin), b_.i64(1));
    const Partials start = identities(loop, 1, [](const Reduction &) { return size_t{1}; });
    Values flat;
    for (const Values &v : start)
        flat.insert(flat.end(), v.begin(), v.end());
    const auto chunk = [&](Value lo, std::span<const Value> carried) {
        const Values part = fold_chunk(loop, lo, b_.smin(b_.add(lo, step), end));
        Values totals(carried.begin(), carried.end());
        size_t at = 0;
        for (const Reduction &r : loop.reductions) {
            combine(r, totals[at], is_arg(r) ? &totals[at + 1] : nullptr, part[at],
                    is_arg(r) ? part[at + 1] : nullptr, nullptr);
            at += is_arg(r) ? 2 : 1;
        }
        return totals;
    };
    flat = b_.loop(begin, end, step, flat, chunk, [&] {
        hoist(loop.body, true);
        prepare(loop.body, loop.axis);
    });
    forget(before);
    std::vector<Emitted> slots;
    size_t at = 0;
    for (const Reduction &r : loop.reductions) {
        slots.push_back({{flat[at++]}, false});
        slots.push_back(is_arg(r) ? Emitted{{flat[at++]}, false} : Emitted{});
    }
    results_[id] = std::move(slots);
}

PhaseEmitter::Values PhaseEmitter::fold_chunk(const Loop &loop, Value begin, Value end) {
    const bool tiny = s_.inner == InnerTier::Tiny && !p_.vector_grid && analysis_.one_lanes_axis();
    if (tiny && width_ >= kTinyExtent && (loop.chunk == 0 || loop.chunk >= kTinyExtent))
        return fold_tiny(loop, begin, end);
    int registers = 0;
    for (const Reduction &r : loop.reductions)
        registers = std::max(registers, lanes_of(r) / width_);
    const int cost = analysis_.cost(loop.body, loop.axis);
    if (cost > kTurnsCost || Analysis::has_loop(loop.body) || registers > kMostRegisters)
        return fold_in_memory(loop, begin, end);
    const bool light = cost <= kEachCost;
    return fold_in_registers(loop, begin, end, light ? registers : std::min(2, registers),
                             !light && masks_are_free(loop.body, loop.axis));
}

/// All elements fit one register; the lanes behind it hold identities, which change nothing.
PhaseEmitter::Values PhaseEmitter::fold_tiny(const Loop &loop, Value begin, Value end) {
    Partials partials = identities(loop, width_, [](const Reduction &) { return size_t{1}; });
    Context context = vector_context(loop.axis, begin, width_, 1);
    context.masks = lanes_below(b_.sub(end, begin), 1);
    points(loop.body, std::move(context), [&] {
        for (size_t i = 0; i < partials.size(); ++i) {
            const Reduction &r = loop.reductions[i];
            combine(r, partials[i][0], is_arg(r) ? &partials[i][1] : nullptr, operand(r.value, 0),
                    is_arg(r) ? operand(r.index, 0) : nullptr, live(0));
        }
    });
    return halve(loop, std::move(partials));
}

/// A step works on `parts` registers of elements, at most as many as the widest reduction has for its lanes.
/// The registers in front take them and go to the back; after `most` registers each is where it was. Where
/// masks are free, the last steps of long bodies are masked like all others, up to such a place; elsewhere
/// the elements that are left go to partial results in memory, one register after the other.
PhaseEmitter::Values PhaseEmitter::fold_in_registers(const Loop &loop, Value begin, Value end, int parts,
                                                     bool masked) {
    const auto registers = [&](const Reduction &r) { return static_cast<size_t>(lanes_of(r) / width_); };
    Partials partials = identities(loop, width_, registers);
    size_t most = 0;
    Values flat;
    for (size_t i = 0; i < partials.size(); ++i) {
        most = std::max(most, registers(loop.reductions[i]));
        flat.insert(flat.end(), partials[i].begin(), partials[i].end());
    }
    const auto regroup = [&](std::span<const Value> all) {
        size_t at = 0;
        for (Values &group : partials)
            for (Value &v : group)
                v = all[at++];
    };
    const int64_t whole = static_cast<int64_t>(most) * width_;
    Value count = b_.sub(end, begin);
    Value walked = b_.bit_and(masked ? b_.add(count, b_.i64(whole - 1)) : count, b_.i64(-whole));
    Value last = b_.add(begin, walked);
    Value step = b_.i64(int64_t{parts} * width_);
    flat = b_.loop(begin, last, step, flat, [&](Value index, std::span<const Value> carried) {
        regroup(carried);
        Context context = vector_context(loop.axis, index, width_, parts);
        if (masked)
            context.masks = lanes_below(b_.sub(end, index), parts);
        points(loop.body, std::move(context), [&] {
            for (size_t i = 0; i < partials.size(); ++i) {
                const Reduction &r = loop.reductions[i];
                const size_t n = registers(r);
                for (int part = 0; part < parts; ++part) {
                    const size_t at = static_cast<size_t>(part) % n;
                    combine(r, partials[i][at], is_arg(r) ? &partials[i][n + at] : nullptr,
                            operand(r.value, part), is_arg(r) ? operand(r.index, part) : nullptr, live(part));
                }
                const auto turns = static_cast<long>(static_cast<size_t>(parts) % n);
                const auto half = partials[i].begin() + static_cast<long>(n);
                std::rotate(partials[i].begin(), partials[i].begin() + turns, half);
                if (is_arg(r))
                    std::rotate(half, half + turns, partials[i].end());
            }
        });
        Values next;
        for (const Values &group : partials)
            next.insert(next.end(), group.begin(), group.end());
        return next;
    });
    regroup(flat);
    if (!masked)
        fold_masked(loop, partials, begin, last, end);
    return halve(loop, std::move(partials));
}

PhaseEmitter::Values PhaseEmitter::fold_in_memory(const Loop &loop, Value begin, Value end) {
    Partials partials = identities(
        loop, width_, [&](const Reduction &r) { return static_cast<size_t>(lanes_of(r) / width_); });
    fold_masked(loop, partials, begin, begin, end);
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

/// Elements [begin, end) of a chunk that began at `origin`, a register at a time, the partial results being
/// in memory meanwhile.
void PhaseEmitter::fold_masked(const Loop &loop, Partials &partials, Value origin, Value begin, Value end) {
    Values memory;
    for (const Values &group : partials)
        memory.push_back(spill(group));
    b_.loop(begin, end, b_.i64(width_), {}, [&](Value index, std::span<const Value>) -> Values {
        Context context = vector_context(loop.axis, index, width_, 1);
        context.masks = lanes_below(b_.sub(end, index), 1);
        Value element = b_.sub(index, origin);
        points(loop.body, std::move(context), [&] {
            for (size_t i = 0; i < loop.reductions.size(); ++i) {
                const Reduction &r = loop.reductions[i];
                const Elem e = ssa_elem(r.dtype);
                Value lane = b_.bit_and(element, b_.i64(lanes_of(r) - 1));
                Value place = b_.element(e, memory[i], lane);
                Value best = get_register(e, place);
                if (!is_arg(r)) {
                    combine(r, best, nullptr, operand(r.value, 0), nullptr, live(0));
                    put_register(best, place);
                    continue;
                }
                Value index_place =
                    b_.element(Elem::I64, b_.element(Elem::I8, memory[i], b_.i64(kLaneBytes)), lane);
                Value best_index = get_register(Elem::I64, index_place);
                combine(r, best, &best_index, operand(r.value, 0), operand(r.index, 0), live(0));
                put_register(best, place);
                put_register(best_index, index_place);
            }
        });
        return {};
    });
    for (size_t i = 0; i < partials.size(); ++i)
        partials[i] = reload(memory[i], loop.reductions[i]);
}

/// Lane i with lane i + h, for h from half of the lanes down: first whole registers, then within one.
PhaseEmitter::Values PhaseEmitter::halve(const Loop &loop, Partials partials) {
    Values results;
    for (size_t i = 0; i < partials.size(); ++i) {
        const Reduction &r = loop.reductions[i];
        Values values = std::move(partials[i]), indices;
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
        results.push_back(value);
        if (is_arg(r))
            results.push_back(index);
    }
    return results;
}

/// A Lanes loop inside of a vector along another axis: its lanes are vectors in memory.
void PhaseEmitter::emit_lanes_across(const Loop &loop, uint32_t id, Value begin, Value end) {
    const Mark before = mark();
    const int parts = ctx_.parts, width = ctx_.width;
    Partials start = identities(loop, width, [&](const Reduction &) { return static_cast<size_t>(parts); });
    struct Array {
        Elem e;
        Value memory;
    };
    std::vector<std::vector<Array>> arrays; // by reduction: one a part, then one a part for indices
    for (size_t i = 0; i < start.size(); ++i) {
        arrays.emplace_back();
        for (Value v : start[i]) {
            const Elem e = b_.elem(v);
            const int64_t lanes = lanes_of(loop.reductions[i]);
            arrays.back().push_back({e, b_.stack(e == Elem::I1 ? Elem::I8 : e, lanes * width)});
        }
    }
    const auto at = [&](const Array &a, Value lane) {
        return b_.element(a.e, a.memory, b_.mul(lane, b_.i64(width)));
    };
    const auto get = [&](size_t i, Value lane) {
        Values v;
        for (const Array &a : arrays[i])
            v.push_back(get_register(a.e, at(a, lane)));
        return v;
    };
    const auto put = [&](size_t i, Value lane, const Values &v) {
        for (size_t j = 0; j < v.size(); ++j)
            put_register(v[j], at(arrays[i][j], lane));
    };
    const auto for_lanes = [&](int64_t count, const std::function<void(Value)> &body) {
        b_.loop(b_.i64(0), b_.i64(count), b_.i64(1), {}, [&](Value lane, std::span<const Value>) -> Values {
            body(lane);
            return {};
        });
    };
    Value step = loop.chunk > 0 ? b_.i64(loop.chunk) : b_.smax(b_.sub(end, begin), b_.i64(1));
    Values flat;
    for (const Values &v : start)
        flat.insert(flat.end(), v.begin(), v.end());
    const auto chunk = [&](Value lo, std::span<const Value> carried) {
        for (size_t i = 0; i < start.size(); ++i)
            for_lanes(lanes_of(loop.reductions[i]), [&](Value lane) { put(i, lane, start[i]); });
        const auto element = [&](Value index, std::span<const Value>) -> Values {
            const Mark inside = mark();
            bind_axis(loop.axis, index);
            emit_region(loop.body);
            for (size_t i = 0; i < start.size(); ++i) {
                const Reduction &r = loop.reductions[i];
                Value lane = b_.bit_and(b_.sub(index, lo), b_.i64(lanes_of(r) - 1));
                Values partial = get(i, lane), value;
                for (int part = 0; part < parts; ++part)
                    value.push_back(operand(r.value, part));
                for (int part = 0; is_arg(r) && part < parts; ++part)
                    value.push_back(operand(r.index, part));
                combine(r, partial, value);
                put(i, lane, partial);
            }
            unbind_axis(loop.axis);
            forget(inside);
            return {};
        };
        b_.loop(lo, b_.smin(b_.add(lo, step), end), b_.i64(1), {}, element);
        Values totals;
        size_t from = 0;
        for (size_t i = 0; i < start.size(); ++i) {
            const Reduction &r = loop.reductions[i];
            for (int64_t h = lanes_of(r) / 2; h > 0; h /= 2)
                for_lanes(h, [&](Value lane) {
                    Values low = get(i, lane);
                    combine(r, low, get(i, b_.add(lane, b_.i64(h))));
                    put(i, lane, low);
                });
            Values total(carried.begin() + static_cast<long>(from),
                         carried.begin() + static_cast<long>(from + start[i].size()));
            combine(r, total, get(i, b_.i64(0)));
            totals.insert(totals.end(), total.begin(), total.end());
            from += start[i].size();
        }
        return totals;
    };
    flat = b_.loop(begin, end, step, flat, chunk, [&] { hoist(loop.body, true); });
    forget(before);
    std::vector<Emitted> slots;
    size_t from = 0;
    for (const Reduction &r : loop.reductions) {
        const bool varies = is_varying(r.value) || (r.index != kNoValue && is_varying(r.index));
        const auto take = [&] {
            Emitted s{
                {flat.begin() + static_cast<long>(from), flat.begin() + static_cast<long>(from) + parts},
                varies};
            if (!varies)
                s.parts = {b_.extract(s.parts[0], 0)};
            from += static_cast<size_t>(parts);
            return s;
        };
        slots.push_back(take());
        slots.push_back(is_arg(r) ? take() : Emitted{});
    }
    results_[id] = std::move(slots);
}

} // namespace lz::codegen
