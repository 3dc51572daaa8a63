/// Random words. A block of Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
/// SC 2011) has four, and where neighbours along the vector take its words one after the other, as
///
///     philox(offset + (at >> 2), at & 3, seed)     at = axis + what does not vary along it
///
/// does, each block is computed once and its words are dealt to four lanes. A run that begins within a block
/// takes one block more, and moves down by the words that are left out.

#include "codegen/llvm/emitter.h"

#include "ir/diagnostic.h"

#include <algorithm>
#include <bit>

namespace lz::codegen {

using namespace ir;

namespace {

/// The words of a block, as i64 whose upper halves hold anything: a 64-bit lane multiplies its lower half.
using Words = std::array<Value, 4>;

Value lower_half(Builder &b, Value x) {
    return b.bit_and(x, b.i64(0xffffffff, b.lanes(x)));
}
Value upper_half(Builder &b, Value x) {
    return b.lshr(x, b.i64(32, b.lanes(x)));
}

/// The blocks of so many counters, of several vectors side by side; `seed` is a scalar, or one a lane. Ten
/// rounds are a loop: written out, they were half of what there was to compile.
std::vector<Words> blocks(Builder &b, const std::vector<Value> &counters, Value seed) {
    constexpr int kRounds = 10, kWrittenOut = 2;
    const int n = b.lanes(counters[0]);
    std::vector<Value> start;
    for (Value c : counters)
        start.insert(start.end(), {c, upper_half(b, c), b.i64(0, n), b.i64(0, n)});
    for (Value k : {seed, upper_half(b, seed)})
        start.push_back(b.lanes(k) == n ? k : b.splat(k, n));
    const auto rounds = [&](Value, std::span<const Value> at) {
        std::vector<Value> c(at.begin(), at.end());
        Value &k0 = c[c.size() - 2], &k1 = c.back();
        for (int round = 0; round < kWrittenOut; ++round) {
            for (size_t v = 0; v < counters.size(); ++v) {
                Value *const w = &c[4 * v];
                Value x = b.mul(lower_half(b, w[0]), b.i64(0xD2511F53, n));
                Value y = b.mul(lower_half(b, w[2]), b.i64(0xCD9E8D57, n));
                w[0] = b.bit_xor(b.bit_xor(upper_half(b, y), w[1]), k0);
                w[2] = b.bit_xor(b.bit_xor(upper_half(b, x), w[3]), k1);
                w[1] = y;
                w[3] = x;
            }
            k0 = b.add(k0, b.i64(0x9E3779B9, n));
            k1 = b.add(k1, b.i64(0xBB67AE85, n));
        }
        return c;
    };
    const std::vector<Value> end = b.loop(b.i64(0), b.i64(kRounds), b.i64(kWrittenOut), start, rounds);
    std::vector<Words> made(counters.size());
    for (size_t v = 0; v < counters.size(); ++v)
        std::copy_n(end.begin() + static_cast<std::ptrdiff_t>(4 * v), 4, made[v].begin());
    return made;
}

/// Words of consecutive blocks as vectors of `width` consecutive words.
std::vector<Value> deal(Builder &b, const Words &c, int width, int vectors) {
    const int n = b.lanes(c[0]);
    const auto pair = [&](Value first, Value second) {
        return b.bit_or(lower_half(b, first), b.shl(second, b.i64(32, n)));
    };
    Value front = pair(c[0], c[1]), back = pair(c[2], c[3]);
    std::vector<Value> dealt;
    for (int v = 0; v < vectors; ++v) {
        std::vector<int> picks;
        for (int p = v * width / 2; p < (v + 1) * width / 2; ++p)
            picks.push_back(p / 2 + (p % 2) * n);
        dealt.push_back(b.i64_halves(b.shuffle(front, back, picks)));
    }
    return dealt;
}

/// All words moved down by `count`; the last vector's end is left as anything.
std::vector<Value> moved_down(Builder &b, const std::vector<Value> &words, int count) {
    const int width = b.lanes(words[0]);
    std::vector<int> picks;
    for (int lane = 0; lane < width; ++lane)
        picks.push_back(lane + count);
    std::vector<Value> moved;
    for (size_t i = 0; i < words.size(); ++i)
        moved.push_back(b.shuffle(words[i], words[std::min(i + 1, words.size() - 1)], picks));
    return moved;
}

} // namespace

/// `v` in the first lane where it grows by one from lane to lane, else nothing.
Value PhaseEmitter::first_of_run(KValue v) {
    const Instr &instr = k_.instrs[v];
    if (instr.op == KOp::Axis && static_cast<AxisId>(instr.index) == ctx_.axis)
        return ctx_.first;
    if (instr.op != KOp::Add)
        return nullptr;
    const auto [x, y] = std::pair(instr.operands[0], instr.operands[1]);
    for (const auto &[run, rest] : {std::pair(x, y), std::pair(y, x)})
        if (is_varying(run) && !is_varying(rest))
            if (Value first = first_of_run(run))
                return b_.add(first, scalar(rest));
    return nullptr;
}

/// The scalar `counter` of the block that holds the first lane's word, for
/// counter = offset + (position >> 2) or position >> 2, else nothing.
Value PhaseEmitter::first_block(KValue counter, KValue position, Value first) {
    const Instr &instr = k_.instrs[counter];
    const auto is_number = [&](KValue v, uint64_t number) {
        return k_.instrs[v].op == KOp::Const && k_.instrs[v].bits == number;
    };
    if (instr.op == KOp::Shr && instr.operands[0] == position && is_number(instr.operands[1], 2))
        return b_.ashr(first, b_.i64(2));
    if (instr.op != KOp::Add)
        return nullptr;
    const auto [x, y] = std::pair(instr.operands[0], instr.operands[1]);
    for (const auto &[block, offset] : {std::pair(x, y), std::pair(y, x)})
        if (is_varying(block) && !is_varying(offset) && k_.instrs[block].op == KOp::Shr)
            if (Value number = first_block(block, position, first))
                return b_.add(number, scalar(offset));
    return nullptr;
}

/// The words of a run, a vector each part; nothing where lanes do not take one after the other.
PhaseEmitter::Values PhaseEmitter::words_of_run(const Instr &instr) {
    const auto [counter, word, seed] = instr.operands;
    const int width = ctx_.width;
    if (is_varying(seed) || width < 4 || !std::has_single_bit(static_cast<unsigned>(width)))
        return {};
    const Instr &narrowed = k_.instrs[word], &masked = k_.instrs[narrowed.operands[0]];
    if (narrowed.op != KOp::Cast || masked.op != KOp::And || masked.dtype != DType::I64)
        return {};
    const KValue position = masked.operands[0];
    const Instr &mask = k_.instrs[masked.operands[1]];
    Value first = mask.op == KOp::Const && mask.bits == 3 ? first_of_run(position) : nullptr;
    Value block = first ? first_block(counter, position, first) : nullptr;
    if (!block)
        return {};
    // Two registers of words are one of blocks.
    const int together = std::min(2, ctx_.parts), n = std::max(together * width / 4, 2);
    Values counters;
    for (int part = 0; part < ctx_.parts; part += together) {
        Value begin = b_.add(block, b_.i64(int64_t{part} * width / 4));
        counters.push_back(b_.add(b_.splat(begin, n), b_.iota(Elem::I64, n)));
    }
    Values words;
    for (const Words &made : blocks(b_, counters, scalar(seed)))
        for (Value v : deal(b_, made, width, together))
            if (words.size() < static_cast<size_t>(ctx_.parts))
                words.push_back(v);
    CodeBlock whole = b_.current(), moved_in = whole;
    Values moved = words;
    Value left_out = b_.bit_and(first, b_.i64(3));
    const auto move = [&] {
        Value end = b_.add(block, b_.i64(int64_t{ctx_.parts} * width / 4));
        const Words behind = blocks(b_, {end}, scalar(seed))[0];
        Value last = b_.zero(Elem::I32, width);
        for (int i = 0; i < 4; ++i)
            last = b_.insert(last, b_.truncate(behind[static_cast<size_t>(i)], Elem::I32), i);
        moved.push_back(last);
        for (const int count : {1, 2}) {
            Value is_set = b_.compare(Pred::Ne, b_.bit_and(left_out, b_.i64(count)), b_.i64(0));
            const Values down = moved_down(b_, moved, count);
            for (size_t i = 0; i < moved.size(); ++i)
                moved[i] = b_.select(is_set, down[i], moved[i]);
        }
        moved_in = b_.current();
    };
    b_.if_then(b_.compare(Pred::Ne, left_out, b_.i64(0)), move);
    for (size_t i = 0; i < words.size(); ++i) {
        Value phi = b_.phi(words[i], words[i], whole);
        b_.add_incoming(phi, moved[i], moved_in);
        words[i] = phi;
    }
    return words;
}

Emitted PhaseEmitter::random_words(const Instr &instr, bool varying) {
    if (varying)
        if (Values words = words_of_run(instr); !words.empty())
            return {std::move(words), true};
    // Each lane has a block of its own, and takes one word of it.
    const auto [counter, word, seed] = instr.operands;
    const auto of_part = [&](int part) {
        const auto in_form = [&](KValue v) { return varying ? operand(v, part) : scalar(v); };
        Value counters = in_form(counter);
        const int n = b_.lanes(counters);
        const Words c = blocks(b_, {counters}, is_varying(seed) ? in_form(seed) : scalar(seed))[0];
        Value which = b_.bit_and(b_.zext(in_form(word), Elem::I64), b_.i64(3, n));
        Value picked = c[3];
        for (int i = 2; i >= 0; --i)
            picked = b_.select(b_.compare(Pred::Eq, which, b_.i64(i, n)), c[static_cast<size_t>(i)], picked);
        return b_.truncate(picked, Elem::I32);
    };
    return varying ? vary(of_part) : Emitted{{of_part(0)}, false};
}

} // namespace lz::codegen
