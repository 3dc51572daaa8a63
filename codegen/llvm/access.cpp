#include "codegen/llvm/emitter.h"

#include "ir/diagnostic.h"

#include <algorithm>
#include <iterator>

namespace lz::codegen {

using namespace ir;

namespace {

/// Bytes ahead that a stream is asked for. Nearer, the processor stops looking ahead by itself.
constexpr int64_t kStreamAhead = 4096;
constexpr int kLineBytes = 64;

} // namespace

Value PhaseEmitter::prefix(const Access &access, uint32_t id, size_t level) {
    if (level == 0)
        return arg(access.offset);
    const auto [axis, index] = bound_[level - 1];
    const AxisStride *s = axis == ctx_.axis ? nullptr : stride_along(access, axis);
    if (!s)
        return prefix(access, id, level - 1);
    for (auto m = memos_.rbegin(); m != memos_.rend(); ++m)
        if (m->access == id && m->level == level)
            return m->value;
    Value before = prefix(access, id, level - 1);
    Value moved = s->cls == StrideClass::Contiguous ? index : b_.mul(index, arg(s->stride));
    Value sum = b_.add(before, moved);
    if (id != kNoValue)
        memos_.push_back({id, level, sum});
    return sum;
}

Value PhaseEmitter::element_offset(const Access &access) {
    return prefix(access, kNoValue, bound_.size());
}

Value PhaseEmitter::base_pointer(const Access &access, uint32_t id) {
    const size_t level = bound_.size() - (ctx_.axis != kNoAxis && bound_.back().first == ctx_.axis ? 1 : 0);
    for (auto m = memos_.rbegin(); m != memos_.rend(); ++m)
        if (m->access == id && m->level == (level | kPointer))
            return m->value;
    const Elem e = storage_elem(k_.buffers[access.buffer].dtype);
    Value pointer = b_.element(e, buffer(access.buffer), prefix(access, id, level));
    memos_.push_back({id, level | kPointer, pointer});
    return pointer;
}

PhaseEmitter::Address PhaseEmitter::address(const Access &access, uint32_t id, int part) {
    const Elem e = storage_elem(k_.buffers[access.buffer].dtype);
    Value pointer = base_pointer(access, id);
    Value scattered = nullptr;
    for (const IndexTerm &t : access.terms) {
        if (!is_varying(t.index)) {
            Value moved = t.stride == kNoArg ? scalar(t.index) : b_.mul(scalar(t.index), arg(t.stride));
            pointer = b_.element(e, pointer, moved);
            continue;
        }
        Value index = operand(t.index, part);
        if (t.stride != kNoArg)
            index = b_.mul(index, b_.splat(arg(t.stride), ctx_.width));
        scattered = scattered ? b_.add(scattered, index) : index;
    }
    const AxisStride *s = ctx_.axis == kNoAxis ? nullptr : stride_along(access, ctx_.axis);
    const int64_t skip = int64_t{part} * ctx_.width;
    if (scattered) {
        if (s && s->cls == StrideClass::Contiguous)
            scattered = b_.add(scattered, lane_indices(part));
        else if (s)
            scattered = b_.add(scattered, b_.mul(lane_indices(part), b_.splat(arg(s->stride), ctx_.width)));
        return {Address::Scattered, b_.element(e, pointer, scattered), nullptr, pointer};
    }
    if (!s)
        return {Address::One, pointer};
    if (s->cls == StrideClass::Contiguous)
        return {Address::Contiguous, b_.element(e, b_.element(e, pointer, ctx_.first), b_.i64(skip))};
    Value first = b_.add(ctx_.first, b_.i64(skip));
    if (s->cls == StrideClass::Reversed)
        return {Address::Reversed, b_.element(e, pointer, b_.neg(first)), b_.i64(-1)};
    return {Address::Strided, b_.element(e, pointer, b_.mul(first, arg(s->stride))), arg(s->stride)};
}

Value PhaseEmitter::lane_pointers(const Address &a, Elem e, int width) {
    switch (a.form) {
    case Address::Scattered:
        return a.pointer;
    case Address::One:
        return b_.splat(a.pointer, width);
    case Address::Contiguous:
        return b_.element(e, a.pointer, b_.iota(Elem::I64, width));
    case Address::Reversed:
    case Address::Strided:
        break;
    }
    return b_.element(e, a.pointer, b_.mul(b_.iota(Elem::I64, width), b_.splat(a.stride, width)));
}

/// Live lanes whose predicate holds; null: all.
Value PhaseEmitter::access_mask(const Access &access, int part) {
    Value mask = live(part);
    if (access.predicate == kNoValue)
        return mask;
    Value holds = operand(access.predicate, part);
    return mask ? b_.bit_and(mask, holds) : holds;
}

Value PhaseEmitter::guarded_scalar_load(Value condition, Elem e, Value pointer) {
    Value zero = b_.zero(e);
    CodeBlock before = b_.current();
    CodeBlock yes = b_.block("yes"), after = b_.block("after");
    b_.branch(condition, yes, after);
    b_.set_block(yes);
    Value loaded = b_.load(e, 1, pointer, bytes_of(e));
    b_.jump(after);
    b_.set_block(after);
    Value result = b_.phi(zero, zero, before);
    b_.add_incoming(result, loaded, yes);
    return result;
}

Emitted PhaseEmitter::load(const Instr &instr) {
    const Access &access = k_.accesses[instr.access];
    const DType dtype = k_.buffers[access.buffer].dtype;
    const Elem e = storage_elem(dtype);
    const auto from_storage = [&](Value stored) {
        return dtype == DType::Bool ? b_.compare(Pred::Ne, stored, b_.zero(e, b_.lanes(stored))) : stored;
    };
    const auto self = static_cast<KValue>(&instr - k_.instrs.data());
    if (!is_varying(self)) {
        const Address at = address(access, instr.access, 0);
        Value stored = access.predicate == kNoValue
                           ? b_.load(e, 1, at.pointer, bytes_of(e))
                           : guarded_scalar_load(scalar(access.predicate), e, at.pointer);
        return {{from_storage(stored)}, false};
    }
    for (const auto &[turned, row] : turned_)
        if (turned == self)
            return vary([&, from = row](int part) {
                Value place = b_.element(e, from, b_.i64(int64_t{part} * ctx_.width));
                return from_storage(b_.load(e, ctx_.width, place, bytes_of(e)));
            });
    return vary([&](int part) {
        const Address at = address(access, instr.access, part);
        if (at.form == Address::Contiguous)
            fetch_ahead(instr.access, at.pointer, part);
        if (const IndexTerm *term = periodic_term(access))
            return from_storage(load_periodic(access, *term, at, e, part));
        return from_storage(load_part(access, at, e, part));
    });
}

/// Asks for what the next work item's row, the tile below or a later step will read in place of `pointer`.
void PhaseEmitter::fetch_ahead(uint32_t id, Value pointer, int part) {
    const Access &access = k_.accesses[id];
    const Elem e = storage_elem(k_.buffers[access.buffer].dtype);
    const bool line = part * ctx_.width * bytes_of(e) % kLineBytes == 0;
    const auto further = std::ranges::find(ahead_, id, &std::pair<uint32_t, Value>::first);
    if (std::ranges::find(ctx_.streams, id) != ctx_.streams.end()) {
        if (line)
            b_.prefetch(b_.element(Elem::I8, pointer, b_.i64(kStreamAhead)));
    } else if (further != ahead_.end()) {
        if (line)
            b_.prefetch(b_.element(e, pointer, further->second));
    } else if (walk_.axis != kNoAxis && bound_.back().first == walk_.axis) {
        const AxisStride *down = stride_along(access, walk_.axis);
        if (down && down->cls == StrideClass::Strided)
            b_.prefetch(b_.element(e, pointer, rows_ahead(*down, id, part)), false);
    } else if (!turned_.empty()) {
        const AxisStride *down = stride_along(access, static_cast<AxisId>(s_.tile_axis));
        if (down && down->cls == StrideClass::Strided)
            b_.prefetch(b_.element(e, pointer, b_.mul(arg(down->stride), b_.i64(width_))), false);
    }
}

Value PhaseEmitter::load_part(const Access &access, const Address &at, Elem e, int part) {
    const int width = ctx_.width, align = bytes_of(e);
    Value mask = access_mask(access, part);
    if (width == 1) {
        Value pointer = at.pointer;
        return mask ? guarded_scalar_load(mask, e, pointer) : b_.load(e, 1, pointer, align);
    }
    if (at.form == Address::Contiguous || at.form == Address::Reversed) {
        const bool reversed = at.form == Address::Reversed;
        Value pointer = reversed ? b_.element(e, at.pointer, b_.i64(1 - width)) : at.pointer;
        // Where no lane is read the address may be far from the buffer: a processor takes some 100 ns to find
        // that nothing was asked of a page that is not there.
        if (access.predicate != kNoValue && !is_varying(access.predicate))
            pointer = b_.select(scalar(access.predicate), pointer, buffer(access.buffer));
        const auto turned = [&](Value v) { return reversed ? b_.reverse(v) : v; };
        return turned(mask ? b_.masked_load(e, pointer, turned(mask), align)
                           : b_.load(e, width, pointer, align));
    }
    if (at.form == Address::One) {
        if (!mask)
            return b_.splat(b_.load(e, 1, at.pointer, align), width);
        // Only the predicate varies.
        Value one = guarded_scalar_load(b_.any(mask), e, at.pointer);
        return b_.select(mask, b_.splat(one, width), b_.zero(e, width));
    }
    if (at.form == Address::Strided && !mask) {
        // On x86 as many scalar loads are faster than a gather.
        Value v = b_.zero(e, width), pointer = at.pointer;
        for (int lane = 0; lane < width; ++lane) {
            v = b_.insert(v, b_.load(e, 1, pointer, align), lane);
            pointer = b_.element(e, pointer, at.stride);
        }
        return v;
    }
    if (!mask)
        mask = b_.i1(true, width);
    return b_.gather(e, lane_pointers(at, e, width), mask, align);
}

bool PhaseEmitter::nontemporal_store(const Access &access) const {
    return ctx_.nontemporal && is_line_of_result(access, ctx_.axis);
}

void PhaseEmitter::store(const Instr &instr) {
    const Access &access = k_.accesses[instr.access];
    const DType dtype = k_.buffers[access.buffer].dtype;
    const Elem e = storage_elem(dtype);
    const KValue source = instr.operands[0];
    const auto to_storage = [&](Value v) { return dtype == DType::Bool ? b_.zext(v, e) : v; };
    const auto self = static_cast<KValue>(&instr - k_.instrs.data());
    const int align = bytes_of(e);
    if (!is_varying(self)) {
        const Address at = address(access, instr.access, 0);
        Value v = to_storage(scalar(source));
        const auto put = [&] { b_.store(v, at.pointer, align); };
        return access.predicate == kNoValue ? put() : b_.if_then(scalar(access.predicate), put);
    }
    const int width = ctx_.width;
    for (int part = 0; part < ctx_.parts; ++part) {
        const Address at = address(access, instr.access, part);
        Value v = to_storage(operand(source, part));
        Value mask = access_mask(access, part);
        if (width == 1) {
            const auto put = [&] { b_.store(v, at.pointer, align); };
            mask ? b_.if_then(mask, put) : put();
        } else if (at.form == Address::Contiguous && mask) {
            b_.masked_store(v, at.pointer, mask, align);
        } else if (at.form == Address::Contiguous) {
            const bool past = nontemporal_store(access);
            b_.store(v, at.pointer, past ? width * align : align, past);
        } else if (at.form == Address::Reversed) {
            Value lowest = b_.element(e, at.pointer, b_.i64(1 - width));
            mask ? b_.masked_store(b_.reverse(v), lowest, b_.reverse(mask), align)
                 : b_.store(b_.reverse(v), lowest, align);
        } else if (at.form == Address::Strided && !mask) {
            Value pointer = at.pointer;
            for (int lane = 0; lane < width; ++lane) {
                b_.store(b_.extract(v, lane), pointer, align);
                pointer = b_.element(e, pointer, at.stride);
            }
        } else {
            b_.scatter(v, lane_pointers(at, e, width), mask ? mask : b_.i1(true, width), align);
        }
    }
}

/// Whether elements of a result are stored that lie next to each other along `axis`, and a register of them
/// may go past the caches.
bool PhaseEmitter::is_line_of_result(const Access &access, AxisId axis) const {
    const auto &to = k_.buffers[access.buffer];
    const AxisStride *s = stride_along(access, axis);
    return access.terms.empty() && access.predicate == kNoValue && s && s->cls == StrideClass::Contiguous &&
           to.mode == BufferMode::Out && width_ * bytes_of(storage_elem(to.dtype)) >= 16;
}

/// The accesses of such stores in the region, and, if `inside`, in loops in it.
std::vector<uint32_t> PhaseEmitter::lines_of_results(const Region &region, AxisId axis, bool inside) const {
    std::vector<uint32_t> lines;
    for (const Stmt &stmt : region) {
        if (stmt.kind == Stmt::Loop) {
            if (inside)
                std::ranges::copy(lines_of_results(k_.loops[stmt.id].body, axis, true),
                                  std::back_inserter(lines));
        } else if (const Instr &instr = k_.instrs[stmt.id];
                   instr.op == KOp::Store && is_line_of_result(k_.accesses[instr.access], axis)) {
            lines.push_back(instr.access);
        }
    }
    return lines;
}

bool PhaseEmitter::is_bound(AxisId axis) const {
    return std::ranges::find(bound_, axis, &std::pair<AxisId, Value>::first) != bound_.end();
}

/// How many elements to go from `lo` until the results that the region stores contiguously along `axis` are
/// aligned to their registers; `*aligned`: whether all of them are then, in every row that a loop in the
/// region walks. Null where the region stores no such result.
Value PhaseEmitter::alignment_peel(const Region &region, AxisId axis, Value lo, Value hi, Value *aligned) {
    Value peel = nullptr;
    *aligned = b_.i1(true);
    for (const uint32_t id : lines_of_results(region, axis, true)) {
        const Access &access = k_.accesses[id];
        const Elem e = storage_elem(k_.buffers[access.buffer].dtype);
        const int64_t bytes = int64_t{width_} * bytes_of(e);
        Value place = b_.pointer_to_int(b_.element(e, base_pointer(access, id), lo));
        if (!peel) {
            Value missing = b_.bit_and(b_.neg(place), b_.i64(bytes - 1));
            peel = b_.smin(b_.lshr(missing, b_.i64(bytes_of(e) == 8 ? 3 : bytes_of(e) / 2)), b_.sub(hi, lo));
        }
        Value odd = b_.add(place, b_.mul(peel, b_.i64(bytes_of(e))));
        for (const AxisStride &s : access.strides)
            if (s.axis != axis && s.stride != kNoArg && !is_bound(s.axis))
                odd = b_.bit_or(odd, b_.mul(arg(s.stride), b_.i64(bytes_of(e))));
        Value fits = b_.compare(Pred::Eq, b_.bit_and(odd, b_.i64(bytes - 1)), b_.i64(0));
        *aligned = b_.bit_and(*aligned, fits);
    }
    return peel;
}

/// Whether such a result lies where the region reads an input, element for element: it is updated in place.
/// Null where none can be. Its lines are in the cache already, and must not be stored past it: of registers
/// of half a line the other half would come from memory again for each of them. AdamW of 4 M numbers took 10
/// times as long (Zen 3).
Value PhaseEmitter::stores_over_input(const Region &region, AxisId axis, Value lo) {
    Value over = nullptr;
    for (const uint32_t to : lines_of_results(region, axis, false)) {
        const Elem e = storage_elem(k_.buffers[k_.accesses[to].buffer].dtype);
        Value there = b_.element(e, base_pointer(k_.accesses[to], to), lo);
        for (const Stmt &stmt : region) {
            if (stmt.kind == Stmt::Loop || k_.instrs[stmt.id].op != KOp::Load)
                continue;
            const uint32_t from = k_.instrs[stmt.id].access;
            const Access &access = k_.accesses[from];
            const Elem read = storage_elem(k_.buffers[access.buffer].dtype);
            const AxisStride *s = stride_along(access, axis);
            if (!access.terms.empty() || !s || s->cls != StrideClass::Contiguous ||
                bytes_of(read) != bytes_of(e))
                continue;
            Value same = b_.compare(Pred::Eq, b_.pointer_to_int(there),
                                    b_.pointer_to_int(b_.element(read, base_pointer(access, from), lo)));
            over = over ? b_.bit_or(over, same) : same;
        }
    }
    return over;
}

} // namespace lz::codegen
