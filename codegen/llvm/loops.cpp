#include "codegen/llvm/emitter.h"

#include "ir/diagnostic.h"

#include <algorithm>

namespace lz::codegen {

using namespace ir;

namespace {

/// Operations up to which a step works on four, and on two registers. Short ones hide the loop around them
/// so; long ones are chains, of which two side by side keep the processor busier than one behind the other.
constexpr int kLightCost = 6, kMediumCost = 64;
/// Between these, bodies without loops are one long chain, and with 16 registers, too, two side by side are
/// faster: sigmoid (34) takes 0.53 ns an element where it takes 0.62, erf (35) 0.66 and 0.80; exp (21) and
/// sin (24) gain and lose a twentieth (Zen 3 with AVX2, one thread).
constexpr int kChainCost = 28, kLongChainCost = 48;
/// And where random words are drawn, whose rounds are one long chain, up to which on eight: normal numbers of
/// f32 (115) take 2.26 ns on two registers, 1.88 on four, 1.46 on eight, uniform ones (29) 0.56, 0.46 and
/// 0.41 (Xeon with AVX-512, one thread).
constexpr int kDrawnCost = 128;
/// Bodies without loops whose operations wait for each other: a processor looks some hundred operations
/// ahead, too few to find as many that wait for nothing as it could do at a time. Where kLongDepth of them
/// are one behind the other, or kShortDepth that are nearly all of the body, four registers side by side
/// help, but for bodies of more than kMostRepeatedCost, whose code would be large; from kVeryLongDepth on
/// eight do where nearly all wait for each other. Zen 5 with AVX-512, one thread, in cache, ns an element,
/// and with two registers (one beyond kMediumCost): 40 multiplications and additions 0.48 (0.62), pow 0.35
/// (0.54), Black-Scholes 1.02 (1.43), tanh 0.18 (0.25), erf 0.18 (0.25), gelu 0.23 (0.30), of bf16 0.28
/// (0.47), mish 0.44 (1.01), sums of gelu 0.25 (0.39); rows of 33 to 4096 of gelu 0.84 of the time, of
/// 20 1.1. log (18 of its 29 operations are one behind the other) takes 1.08 of it with four. Compiling takes
/// longer: gelu 6.5 ms (2.6), pow 15 (6).
constexpr int kShortDepth = 8, kLongDepth = 20, kVeryLongDepth = 24;
constexpr int kMostRepeatedCost = 160;
/// Eight of a body keep so many values of an element and of all elements in registers, more or less, of one
/// stream; and its code is eight times as long, or, where results lie over inputs, sixteen.
constexpr int kMostEightfoldCost = 96, kMostVarying = 7, kMostUniform = 16;
/// Operations from which on one body of one or two registers under masks, where they are free, does for full
/// steps and for the last: what it takes longer is little beside such a body, and half as much again need not
/// be compiled.
constexpr int kOneBodyCost = 32;
/// Operations of a step from which on few steps are under way at once; and streams that are asked for at
/// most.
constexpr int kFewStepsCost = 32;
constexpr size_t kMostStreams = 4;
/// Extents of InnerTier::Tiny fit one register of this many lanes.
constexpr int kTinyLanes = 16;

} // namespace

void PhaseEmitter::emit_loop(uint32_t id) {
    const Loop &loop = k_.loops[id];
    Value begin = loop.begin == kNoValue ? b_.i64(0) : scalar(loop.begin);
    Value end = loop.end == kNoValue ? extent(loop.axis) : scalar(loop.end);
    const bool lanes = loop.order == LoopOrder::Lanes;
    if (lanes && ctx_.axis == kNoAxis)
        emit_lanes(loop, id, begin, end);
    else if (lanes && s_.across)
        emit_across(loop, id, begin, end);
    else
        emit_sequential(loop, id, begin, end);
}

// --- reductions that are not along the vector

void PhaseEmitter::combine(const Reduction &r, Value &best, Value *best_index, Value value, Value index,
                           Value mask) {
    if (!is_arg(r)) {
        Value next = emit_combine(b_, target_, r.op, r.dtype, best, value);
        best = mask ? b_.select(mask, next, best) : next;
        return;
    }
    Value better = emit_better(b_, r.op, r.dtype, value, index, best, *best_index);
    if (mask)
        better = b_.bit_and(better, mask);
    best = b_.select(better, value, best);
    *best_index = b_.select(better, index, *best_index);
}

void PhaseEmitter::combine(const Reduction &r, Values &into, const Values &from) {
    const size_t n = is_arg(r) ? into.size() / 2 : into.size();
    for (size_t i = 0; i < n; ++i)
        combine(r, into[i], is_arg(r) ? &into[n + i] : nullptr, from[i], is_arg(r) ? from[n + i] : nullptr,
                nullptr);
}

PhaseEmitter::Values PhaseEmitter::flatten(const Partials &groups) {
    Values flat;
    for (const Values &g : groups)
        flat.insert(flat.end(), g.begin(), g.end());
    return flat;
}

PhaseEmitter::Partials PhaseEmitter::regroup(std::span<const Value> flat, const Partials &like) {
    Partials groups;
    size_t at = 0;
    for (const Values &g : like) {
        groups.emplace_back(flat.begin() + static_cast<long>(at),
                            flat.begin() + static_cast<long>(at + g.size()));
        at += g.size();
    }
    return groups;
}

/// Scalars stay scalars: one register without lanes.
PhaseEmitter::Partials PhaseEmitter::identities(const Loop &loop) {
    Partials start;
    for (const Reduction &r : loop.reductions) {
        const int lanes = varies(r) ? ctx_.width : 1;
        const size_t n = varies(r) ? static_cast<size_t>(ctx_.parts) : 1;
        Values values(n, emit_identity(b_, r.op, r.dtype, lanes));
        if (is_arg(r))
            values.insert(values.end(), n, b_.i64(INT64_MAX, lanes));
        start.push_back(std::move(values));
    }
    return start;
}

PhaseEmitter::Values PhaseEmitter::element_of(const Reduction &r) {
    const int n = varies(r) ? ctx_.parts : 1;
    Values element;
    for (const KValue v : {r.value, r.index})
        for (int part = 0; v != kNoValue && part < n; ++part)
            element.push_back(varies(r) ? operand(v, part) : scalar(v));
    return element;
}

void PhaseEmitter::set_results(const Loop &loop, uint32_t id, const Partials &partials) {
    std::vector<Emitted> slots(2 * loop.reductions.size());
    for (size_t i = 0; i < partials.size(); ++i) {
        const Reduction &r = loop.reductions[i];
        const auto n = static_cast<long>(varies(r) ? ctx_.parts : 1);
        slots[2 * i] = {{partials[i].begin(), partials[i].begin() + n}, varies(r)};
        slots[2 * i + 1] = {{partials[i].begin() + n, partials[i].end()}, varies(r)};
    }
    results_[id] = std::move(slots);
}

/// Elements begin, begin + stride and so on of a loop, added in this order to `start`.
PhaseEmitter::Partials PhaseEmitter::fold_steps(const Loop &loop, Value begin, Value end, int64_t stride,
                                                const Partials &start,
                                                const std::function<void()> &preheader) {
    const auto step = [&](Value index, std::span<const Value> carried) {
        const Mark inside = mark();
        Partials partials = regroup(carried, start);
        bind_axis(loop.axis, index);
        emit_region(loop.body);
        for (size_t i = 0; i < partials.size(); ++i)
            combine(loop.reductions[i], partials[i], element_of(loop.reductions[i]));
        unbind_axis(loop.axis);
        forget(inside);
        return flatten(partials);
    };
    return regroup(b_.loop(begin, end, b_.i64(stride), flatten(start), step, preheader), start);
}

void PhaseEmitter::emit_sequential(const Loop &loop, uint32_t id, Value begin, Value end) {
    const Mark before = mark();
    const bool grouped = group_.loop == id;
    if (grouped) {
        begin = group_.begin;
        end = group_.end;
    }
    const Partials start = grouped ? resumed(loop) : identities(loop);
    const auto preheader = [&] { hoist(loop.body, true); };
    Partials partials;
    if (loop.chunk == 0 || loop.reductions.empty())
        partials = fold_steps(loop, begin, end, 1, start, preheader);
    else
        partials = fold_chunks(
            loop, begin, end, start,
            [&](Value lo, Value hi) { return fold_steps(loop, lo, hi, 1, start, {}); }, preheader);
    forget(before);
    set_results(loop, id, partials);
}

// --- vector loops

int PhaseEmitter::parts_of_chain(const Region &region, AxisId axis) const {
    if (options_.isa.vector_registers < 32 || Analysis::has_loop(region))
        return 1;
    const Analysis::Chain chain = analysis_.chain(region, axis, width_, options_.isa.vector_bytes);
    const bool mostly = 2 * chain.cost < 3 * chain.depth; // two thirds of the operations wait for each other
    if (chain.cost > kMostRepeatedCost || chain.depth < (mostly ? kShortDepth : kLongDepth))
        return 1;
    const bool eight = chain.depth >= kVeryLongDepth && 5 * chain.cost <= 8 * chain.depth && // five eighths
                       chain.cost <= kMostEightfoldCost && chain.loads <= 1;
    return eight && chain.varying <= kMostVarying && chain.uniform <= kMostUniform ? 8 : 4;
}

int PhaseEmitter::parts_for(const Region &region, AxisId axis) const {
    const int cost = analysis_.cost(region, axis);
    int parts = cost <= kLightCost ? 4 : cost <= kMediumCost ? 2 : 1;
    // Rows may be shorter than a step of eight registers, and what is stored past the caches in rows of four.
    const bool line = p_.grid.size() == 1;
    if (line || s_.stores != StoreTier::Streaming)
        parts = std::max(parts, std::min(line ? 8 : 4, parts_of_chain(region, axis)));
    // Rows that are walked side by side: the wider a visit of a row, the fewer pages in flight.
    if (Analysis::has_loop(region))
        parts *= 2;
    if (analysis_.widest(region, axis) == 8 && parts > 1)
        parts /= 2;
    const bool chain = cost > kChainCost && cost <= kLongChainCost && !Analysis::has_loop(region);
    if (options_.isa.vector_registers < 32 && parts > 1 && !chain)
        parts /= 2;
    if (s_.across && !lane_by_lane_)
        while (parts > 1 && bytes_of_lanes(region, axis, parts) * 4 > options_.isa.l1_bytes * 3)
            parts /= 2;
    // Two registers of random words are one of the blocks that they come from.
    if (analysis_.draws(region, axis))
        parts = std::max(parts, cost <= kDrawnCost && options_.isa.vector_registers >= 32 ? 8 : 2);
    return parts;
}

/// Of rows that are reduced side by side: what their lanes take in memory, which is read and written for each
/// element. They have to stay in the first cache: a row times [3072, 768] of f32 was read at 23 GB/s with 32
/// KiB of lanes, and at 30 with 16 (a Zen 4 machine, whose first cache has 32 KiB; 31 is the most it reads).
int64_t PhaseEmitter::bytes_of_lanes(const Region &region, AxisId axis, int parts) const {
    int64_t bytes = 0;
    for (const Stmt &stmt : region)
        if (stmt.kind == Stmt::Loop)
            for (const Reduction &r : k_.loops[stmt.id].reductions)
                if (has_order(r) && analysis_.depends(r.value, axis))
                    bytes += kLaneBytes * width_ * parts;
    return bytes;
}

/// The inputs that a body reads along `axis` and that have to be asked for, or none. The processor by itself
/// asks for too little of one stream, where a step takes long and where a chunk is folded before the next
/// one. Of two or more it asks for enough, as long as many steps are under way at once: `pow` of 16 M numbers
/// took 1.1 ns an element, and 0.37 where the caches held all of it (a Xeon with AMX, 2 threads). `masked`:
/// loads are or may be under masks, for which a Zen 5 asks for nothing: dropout of 4 M f32 took 0.70 ns an
/// element and takes 0.20, sums of exp of 16 M 0.60 and 0.12, from the caches 0.22 and 0.11 (one thread).
std::vector<uint32_t> PhaseEmitter::streams_ahead(const Region &region, AxisId axis, bool masked) const {
    std::vector<uint32_t> found;
    for (const Stmt &stmt : region) {
        if (stmt.kind == Stmt::Loop)
            return {};
        const Instr &instr = k_.instrs[stmt.id];
        if (instr.op != KOp::Load || !analysis_.depends(stmt.id, axis))
            continue;
        if (k_.buffers[k_.accesses[instr.access].buffer].mode != BufferMode::In)
            return {};
        found.push_back(instr.access);
    }
    const bool all = (masked || analysis_.cost(region, axis) > kFewStepsCost) && found.size() <= kMostStreams;
    return found.size() == 1 || all ? found : std::vector<uint32_t>();
}

/// Whether what is loaded may be loaded under a mask: LLVM makes one load of that and a choice behind it.
bool PhaseEmitter::chooses(const Region &region) const {
    return options_.isa.avx512 && std::ranges::any_of(region, [&](const Stmt &stmt) {
               return stmt.kind == Stmt::Instruction && is_choice(k_.instrs[stmt.id].op);
           });
}

/// Whether steps of all elements may run under masks as well: for AVX-512 a mask is an operand like others.
/// Not for what is read or written apart, which takes one move a lane, and under masks a gather or scatter.
bool PhaseEmitter::masks_are_free(const Region &region, AxisId axis) const {
    return options_.isa.avx512 && std::ranges::all_of(region, [&](const Stmt &stmt) {
               if (stmt.kind == Stmt::Loop)
                   return false;
               const uint32_t id = k_.instrs[stmt.id].access;
               if (id == kNoValue || !analysis_.depends(stmt.id, axis))
                   return true;
               const AxisStride *along = stride_along(k_.accesses[id], axis);
               return along && along->cls == StrideClass::Contiguous;
           });
}

/// One comparison a part, with one splat for all where their lanes' numbers fit the type of one.
PhaseEmitter::Values PhaseEmitter::lanes_below(Value count, int parts) {
    const Elem e = width_ >= 32 ? Elem::I8 : Elem::I32;
    const int together = e == Elem::I8 ? 1 : parts;
    Values masks;
    for (int part = 0; part < parts; part += together) {
        Value rest = b_.sub(count, b_.i64(int64_t{part} * width_));
        Value most = b_.smin(rest, b_.i64(int64_t{together} * width_));
        Value splat = b_.splat(b_.truncate(e == Elem::I8 ? b_.smax(most, b_.i64(0)) : most, e), width_);
        for (int i = 0; i < together; ++i) {
            Value first = b_.constant(e, static_cast<uint64_t>(i) * static_cast<uint64_t>(width_), width_);
            masks.push_back(b_.compare(Pred::Slt, b_.add(b_.iota(e, width_), first), splat));
        }
    }
    return masks;
}

void PhaseEmitter::full_steps(const Region &region, AxisId axis, Value lo, Value hi, int parts,
                              bool nontemporal) {
    const bool choices = vector_grid() && chooses(region);
    const bool asks = choices || analysis_.cost(region, axis) > (nontemporal ? kLightCost : kFewStepsCost);
    const std::vector<uint32_t> streams =
        asks ? streams_ahead(region, axis, choices) : std::vector<uint32_t>();
    b_.loop(lo, hi, b_.i64(int64_t{width_} * parts), {}, [&](Value index, std::span<const Value>) -> Values {
        Context context = vector_context(axis, index, width_, parts);
        context.nontemporal = nontemporal;
        context.streams = streams;
        points(region, std::move(context));
        return {};
    });
}

/// `asks` for what lies ahead: a row or more is walked, and not what is left of one.
void PhaseEmitter::masked_steps(const Region &region, AxisId axis, Value lo, Value hi, int parts, bool asks) {
    const bool line = vector_grid() && p_.grid.size() == 1;
    const std::vector<uint32_t> streams = asks ? streams_ahead(region, axis, line) : std::vector<uint32_t>();
    b_.loop(lo, hi, b_.i64(int64_t{width_} * parts), {}, [&](Value index, std::span<const Value>) -> Values {
        Context context = vector_context(axis, index, width_, parts);
        context.masks = lanes_below(b_.sub(hi, index), parts);
        context.streams = streams;
        points(region, std::move(context));
        return {};
    });
}

/// Runs the region for each index in [lo, hi), lo < hi; everything else is bound and hoisted.
void PhaseEmitter::vector_range(const Region &region, AxisId axis, Value lo, Value hi) {
    const Mark before = mark();
    prepare(region, axis);
    const bool speaks = vector_grid() || analysis_.one_lanes_axis();
    const auto full = [&](Value from, int parts) {
        const int64_t step = int64_t{width_} * parts;
        return b_.add(from, b_.bit_and(b_.sub(hi, from), b_.i64(-step)));
    };
    if (s_.inner == InnerTier::Tiny && speaks && width_ >= kTinyLanes) {
        Context context = vector_context(axis, lo, width_, 1);
        context.masks = lanes_below(b_.sub(hi, lo), 1);
        points(region, std::move(context));
        return forget(before);
    }
    const bool tiny = s_.inner == InnerTier::Tiny && speaks; // few registers
    const int parts = tiny ? 1 : parts_for(region, axis);
    Value aligned = nullptr;
    Value peel = s_.stores == StoreTier::Streaming ? alignment_peel(region, axis, lo, hi, &aligned) : nullptr;
    const bool draws = analysis_.draws(region, axis);
    const bool one_body = parts <= 2 && (draws || analysis_.cost(region, axis) > kOneBodyCost);
    if (!peel && one_body && masks_are_free(region, axis)) {
        masked_steps(region, axis, lo, hi, parts, true);
        return forget(before);
    }
    if (!peel) {
        const auto steps = [&] {
            const Mark inside = mark();
            const int at_once = tiny ? 1 : parts_for(region, axis);
            Value end = full(lo, at_once);
            full_steps(region, axis, lo, end, at_once, false);
            // A step of rows that are reduced side by side walks down all of them, and what is drawn for one
            // register does for two.
            masked_steps(region, axis, end, hi, s_.across ? std::max(1, at_once / 2) : draws ? 2 : 1);
            forget(inside);
        };
        const Value bytes = bytes_walked_down(region);
        if (bytes && one_chunk_each(region)) {
            Value by_lanes = b_.compare(Pred::Sle, bytes, b_.i64(kLaneByLaneBytes));
            lane_by_lane_ = true;
            b_.if_then(by_lanes, steps);
            lane_by_lane_ = false;
            b_.if_then(b_.bit_not(by_lanes), steps);
        } else {
            steps();
        }
        return forget(before);
    }
    // Two rounds of one code: masked up to the first aligned register, then full steps; masked to the end.
    Value first = b_.add(lo, peel), whole = full(first, parts);
    Value past_end = b_.select(aligned, whole, first),
          end = past_end;                             // of the steps that store past the caches
    const bool plain = !masks_are_free(region, axis); // what must not go past the caches is not left to masks
    if (plain) {
        if (Value written_over = stores_over_input(region, axis, lo))
            past_end = b_.select(written_over, first, past_end);
        end = whole;
    }
    b_.loop(b_.i64(0), b_.i64(2), b_.i64(1), {}, [&](Value round, std::span<const Value>) -> Values {
        Value leading = b_.compare(Pred::Eq, round, b_.i64(0));
        masked_steps(region, axis, b_.select(leading, lo, end), b_.select(leading, first, hi));
        full_steps(region, axis, b_.select(leading, first, end), b_.select(leading, past_end, end), parts,
                   true);
        if (plain)
            full_steps(region, axis, b_.select(leading, past_end, end), end, parts, false);
        return {};
    });
    forget(before);
}

} // namespace lz::codegen
