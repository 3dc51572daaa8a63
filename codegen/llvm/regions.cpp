#include "codegen/llvm/contraction/contraction.h"
#include "codegen/llvm/emitter.h"

#include "ir/diagnostic.h"

#include <algorithm>

namespace lz::codegen {

using namespace ir;

namespace {

/// The layout of KernelFrame.
constexpr int64_t kFrameBuffers = 0, kFrameArgs = 8, kFrameScalars = 16;

Elem scalar_elem(DType t) {
    if (t == DType::F64)
        return Elem::F64;
    return is_float(t) ? Elem::F32 : Elem::I64;
}

} // namespace

PhaseEmitter::PhaseEmitter(Builder &builder, const Kernel &kernel, const Phase &phase,
                           const EmitOptions &options, const EntryParams &params)
    : b_(builder), k_(kernel), p_(phase), s_(phase.cpu()), options_(options), target_(op_target(options.isa)),
      params_(params), analysis_(kernel, phase), values_(kernel.instrs.size()), args_(kernel.args.size()),
      buffers_(kernel.buffers.size()), scalars_(kernel.scalars.size()), results_(kernel.loops.size()) {
    int bytes = 1;
    for (size_t axis = 0; axis < kernel.axes.size(); ++axis)
        bytes = std::max(bytes, analysis_.widest(phase.body, static_cast<AxisId>(axis)));
    // The lanes of a reduction's partial results are a multiple of a register's.
    const int most = Analysis::has_loop(phase.body) ? static_cast<int>(kLaneBytes) / 8 : 64;
    width_ = std::clamp(options.isa.vector_bytes / std::min(bytes, 4), 4, most);
}

/// The insertion point is in the entry block.
Value PhaseEmitter::table(int64_t offset) {
    Value &cached = tables_[static_cast<size_t>(offset) / sizeof(void *)];
    if (!cached)
        cached = b_.load(Elem::Ptr, 1, b_.element(Elem::I8, params_.frame, b_.i64(offset)), 8);
    return cached;
}

Value PhaseEmitter::arg(ArgId id) {
    if (id == kNoArg)
        return b_.i64(0);
    if (!args_[id])
        args_[id] = b_.at_entry(
            [&] { return b_.load(Elem::I64, 1, b_.element(Elem::I64, table(kFrameArgs), b_.i64(id)), 8); });
    return args_[id];
}

Value PhaseEmitter::buffer(uint16_t index) {
    if (buffers_[index])
        return buffers_[index];
    const KBuffer &buffer = k_.buffers[index];
    if (buffer.mode == BufferMode::Worker) {
        Value offset = arg(buffer.worker_offset);
        return buffers_[index] = b_.at_entry([&] { return b_.element(Elem::I8, params_.worker, offset); });
    }
    return buffers_[index] = b_.at_entry([&] {
        return b_.load(Elem::Ptr, 1, b_.element(Elem::Ptr, table(kFrameBuffers), b_.i64(index)), 8);
    });
}

void PhaseEmitter::bind_axis(AxisId axis, Value index) {
    bound_.emplace_back(axis, index);
}

void PhaseEmitter::unbind_axis(AxisId axis) {
    LZ_CHECK(!bound_.empty() && bound_.back().first == axis, "axes are unbound in reverse order");
    bound_.pop_back();
    std::erase_if(memos_, [&](const Memo &m) { return (m.level & ~kPointer) > bound_.size(); });
}

void PhaseEmitter::forget(Mark mark) {
    for (size_t i = mark.defined; i < defined_.size(); ++i)
        values_[defined_[i]] = {};
    defined_.resize(mark.defined);
    if (memos_.size() > mark.memos)
        memos_.resize(mark.memos);
    while (turns_.size() > mark.turns)
        turns_.pop_back();
    for (size_t i = mark.splats; i < splats_.size(); ++i)
        values_[splats_[i]].splat = nullptr;
    splats_.resize(mark.splats);
}

PhaseEmitter::Context PhaseEmitter::vector_context(AxisId axis, Value first, int width, int parts) const {
    Context context;
    context.axis = axis;
    context.first = first;
    context.width = width;
    context.parts = parts;
    return context;
}

void PhaseEmitter::emit_points(AxisId axis, Value first, int width, std::span<const Value> masks,
                               std::span<const Value> products, int parts) {
    Context context = vector_context(axis, first, width, parts);
    context.masks.assign(masks.begin(), masks.end());
    context.products.assign(products.begin(), products.end());
    if (width == 1 && parts == 1) // a scalar point: the axis is an index like the others
        context.axis = kNoAxis;
    points(p_.body, std::move(context));
}

void PhaseEmitter::points(const Region &region, Context context, const std::function<void()> &then) {
    const Mark before = mark();
    const AxisId axis = context.axis;
    std::swap(ctx_, context);
    if (axis != kNoAxis)
        bind_axis(axis, ctx_.first);
    emit_region(region);
    if (then)
        then();
    if (axis != kNoAxis)
        unbind_axis(axis);
    std::swap(ctx_, context);
    forget(before);
}

void PhaseEmitter::emit_region(const Region &region) {
    for (const Stmt &stmt : region) {
        if (stmt.kind == Stmt::Loop)
            emit_loop(stmt.id);
        else if (values_[stmt.id].empty() && !analysis_.rare().only_for(stmt.id))
            emit_instr(stmt.id);
    }
}

/// One test for all live lanes: where none of them asks for it, the first value is not computed.
Emitted PhaseEmitter::choose_rarely(KValue v) {
    const Instr &instr = k_.instrs[v];
    const bool varying = is_varying(v);
    const int parts = varying ? ctx_.parts : 1;
    const auto value = [&](KValue x, int part) { return varying ? operand(x, part) : scalar(x); };
    Values conditions, usual;
    Value any = nullptr;
    for (int part = 0; part < parts; ++part) {
        Value condition = value(instr.operands[0], part);
        Value lanes = varying ? live(part) : nullptr;
        conditions.push_back(lanes ? b_.bit_and(condition, lanes) : condition);
        usual.push_back(value(instr.operands[2], part));
        any = any ? b_.bit_or(any, conditions.back()) : conditions.back();
    }
    const Values chosen = when(b_.any(any), usual, [&] {
        const Mark before = mark();
        for (const KValue x : analysis_.rare().of(v))
            if (values_[x].empty())
                emit_instr(x);
        Values made;
        for (size_t part = 0; part < usual.size(); ++part)
            made.push_back(
                b_.select(conditions[part], value(instr.operands[1], static_cast<int>(part)), usual[part]));
        forget(before);
        return made;
    });
    return {chosen, varying};
}

Emitted PhaseEmitter::vary(const std::function<Value(int)> &of_part) {
    Emitted slot;
    slot.varying = true;
    for (int part = 0; part < ctx_.parts; ++part)
        slot.parts.push_back(of_part(part));
    return slot;
}

void PhaseEmitter::emit_instr(KValue v) {
    const Instr &instr = k_.instrs[v];
    if (instr.op == KOp::Store)
        return store(instr);
    values_[v] = compute(v);
    defined_.push_back(v);
}

Emitted PhaseEmitter::compute(KValue v) {
    const Instr &instr = k_.instrs[v];
    const auto one = [](Value value) { return Emitted{{value}, false}; };
    switch (instr.op) {
    case KOp::Const:
        return one(b_.constant(ssa_elem(instr.dtype), instr.bits));
    case KOp::Arg:
        return one(arg(static_cast<ArgId>(instr.index)));
    case KOp::Scalar: {
        Value &cached = scalars_[instr.index];
        if (!cached)
            cached = b_.at_entry([&] {
                const Elem e = scalar_elem(instr.dtype);
                Value slot =
                    b_.load(e, 1, b_.element(Elem::I64, table(kFrameScalars), b_.i64(instr.index)), 8);
                const DType held = e == Elem::I64 ? DType::I64 : e == Elem::F64 ? DType::F64 : DType::F32;
                return emit_cast(b_, target_, slot, held, instr.dtype);
            });
        return one(cached);
    }
    case KOp::Axis: {
        const auto axis = static_cast<AxisId>(instr.index);
        if (axis == ctx_.axis)
            return vary([&](int part) { return lane_indices(part); });
        for (const auto &[id, index] : bound_)
            if (id == axis)
                return one(index);
        internal_failure(__FILE__, __LINE__, "an axis is used outside of its loop");
    }
    case KOp::Load:
        return load(instr);
    case KOp::CheckIndex:
    case KOp::CheckNonzero:
        return check(v);
    case KOp::Philox:
        return random_words(instr, is_varying(v));
    case KOp::LoopResult:
        return results_[instr.index][instr.bits];
    case KOp::Product:
        LZ_CHECK(!ctx_.products.empty(), "a product stands in an epilogue only");
        if (ctx_.axis == kNoAxis)
            return one(ctx_.products[0]);
        return vary([&](int part) { return ctx_.products[static_cast<size_t>(part)]; });
    case KOp::Cast:
        if (instr.dtype == DType::BF16 && k_.instrs[instr.operands[0]].op == KOp::Product && is_varying(v) &&
            rounds_tile_sums(*p_.contraction, options_.isa))
            return vary([&](int part) { return round_tile_sum(b_, operand(instr.operands[0], part)); });
        break;
    case KOp::Rarely:
        return choose_rarely(v);
    case KOp::Div:
    case KOp::Rem:
        if (is_periodic(v))
            return periodic(v);
        break;
    case KOp::Eq:
    case KOp::Ne:
    case KOp::Lt:
    case KOp::Le:
    case KOp::Gt:
    case KOp::Ge:
        if (std::optional<Emitted> compared = compare_lanes(instr))
            return *std::move(compared);
        break;
    default:
        break;
    }
    // Select's type is told by its values, that of all others by the first operand.
    const DType from = k_.instrs[instr.operands[is_choice(instr.op) ? 1 : 0]].dtype;
    const auto of_part = [&](int part) {
        Value x[3] = {};
        for (int i = 0; i < 3; ++i)
            if (instr.operands[i] != kNoValue)
                x[i] = is_varying(v) ? operand(instr.operands[i], part) : scalar(instr.operands[i]);
        return emit_op(b_, target_, instr.op, instr.dtype, from, x[0], x[1], x[2]);
    };
    return is_varying(v) ? vary(of_part) : one(of_part(0));
}

/// What is added to the index on the vector axis, where v is the sum of both; else null. `far`: it may be any
/// number, and not only a place in a tensor.
Value PhaseEmitter::beside_lane_index(KValue v, bool &far) {
    const Instr &instr = k_.instrs[v];
    if (instr.op == KOp::Axis && static_cast<AxisId>(instr.index) == ctx_.axis)
        return b_.i64(0);
    if (instr.op != KOp::Add || instr.dtype != DType::I64)
        return nullptr;
    for (const int k : {0, 1})
        if (const KValue other = instr.operands[1 - k]; !is_varying(other))
            if (const Value rest = beside_lane_index(instr.operands[k], far)) {
                const Instr &added = k_.instrs[other];
                far = far || added.op != KOp::Arg || k_.args[added.index].role != ArgRole::Offset;
                return b_.add(rest, scalar(other));
            }
    return nullptr;
}

/// Indices on the vector axis, with something added, beside one number, as where paddings and triangles end:
/// the numbers of the lanes are compared, which fit 32 bits, with how far the number is from the first. Sums
/// are those of indices of a tensor, and do not wrap.
std::optional<Emitted> PhaseEmitter::compare_lanes(const Instr &instr) {
    const KValue x = instr.operands[0], y = instr.operands[1];
    if (ctx_.width < 2 || k_.instrs[x].dtype != DType::I64 || is_varying(x) == is_varying(y))
        return std::nullopt;
    bool far = false;
    const Value beside = beside_lane_index(is_varying(x) ? x : y, far);
    if (!beside)
        return std::nullopt;
    const Value limit = scalar(is_varying(x) ? y : x);
    return vary([&](int part) {
        const Value first = b_.add(b_.add(ctx_.first, b_.i64(int64_t{part} * ctx_.width)), beside);
        const Value from = far ? b_.smax(first, b_.i64(INT64_MIN + 1)) : first,
                    to = far ? b_.smin(first, b_.i64(INT64_MAX - ctx_.width)) : first;
        const Value near = b_.smin(b_.smax(limit, b_.sub(from, b_.i64(1))), b_.add(to, b_.i64(ctx_.width)));
        const Value lanes = b_.iota(Elem::I32, ctx_.width),
                    away = b_.splat(b_.truncate(b_.sub(near, first), Elem::I32), ctx_.width);
        return emit_op(b_, target_, instr.op, instr.dtype, DType::I32, is_varying(x) ? lanes : away,
                       is_varying(x) ? away : lanes, nullptr);
    });
}

Value PhaseEmitter::lane_indices(int part) {
    Value first = b_.add(ctx_.first, b_.i64(int64_t{part} * ctx_.width));
    return ctx_.width == 1 ? first : b_.add(b_.splat(first, ctx_.width), b_.iota(Elem::I64, ctx_.width));
}

Value PhaseEmitter::scalar(KValue v) {
    const Emitted &slot = values_[v];
    LZ_CHECK(!slot.empty() && !slot.varying, "value %" + std::to_string(v) + " is not a scalar here");
    return slot.parts[0];
}

Value PhaseEmitter::operand(KValue v, int part) {
    Emitted &slot = values_[v];
    LZ_CHECK(!slot.empty(), "value %" + std::to_string(v) + " is used before it is computed");
    if (slot.varying)
        return slot.parts[static_cast<size_t>(part)];
    if (ctx_.width == 1)
        return slot.parts[0];
    const bool good = slot.splat && b_.lanes(slot.splat) == ctx_.width &&
                      (!slot.splat_block || slot.splat_block == b_.current());
    if (!good) {
        slot.splat = b_.splat(slot.parts[0], ctx_.width);
        slot.splat_block = b_.current();
    }
    return slot.splat;
}

bool PhaseEmitter::is_ready(KValue v) const {
    const auto ready = [&](KValue x) {
        return x == kNoValue || !values_[x].empty() || analysis_.rare().only_for(x);
    };
    const Instr &instr = k_.instrs[v];
    return std::ranges::all_of(instr.operands, ready) &&
           (instr.op != KOp::Rarely ||
            std::ranges::all_of(analysis_.rare().of(v), [&](KValue x) { return is_ready(x); }));
}

bool PhaseEmitter::can_hoist(KValue v, bool runs) const {
    const Instr &instr = k_.instrs[v];
    uint64_t bound = 0;
    for (const auto &[axis, index] : bound_)
        bound |= analysis_.bit(axis);
    if ((analysis_.axes(v) & ~bound) != 0)
        return false;
    if (!is_ready(v))
        return false;
    if (instr.op == KOp::Load) {
        const auto ready = [&](KValue x) { return x == kNoValue || !values_[x].empty(); };
        const Access &access = k_.accesses[instr.access];
        return runs && !analysis_.written(access.buffer) && ready(access.predicate) &&
               std::all_of(access.terms.begin(), access.terms.end(),
                           [&](const IndexTerm &t) { return ready(t.index); });
    }
    const KOpClass cls = info(instr.op).cls;
    return analysis_.pure(v) || (runs && (cls == KOpClass::Arith || cls == KOpClass::Check));
}

void PhaseEmitter::hoist(const Region &region, bool runs) {
    for (const Stmt &stmt : region) {
        if (stmt.kind == Stmt::Loop)
            hoist(k_.loops[stmt.id].body, false);
        else if (values_[stmt.id].empty() && !analysis_.rare().only_for(stmt.id) && can_hoist(stmt.id, runs))
            emit_instr(stmt.id);
    }
}

void PhaseEmitter::prepare(const Region &region, AxisId axis) {
    for (const Stmt &stmt : region) {
        if (stmt.kind == Stmt::Loop) {
            prepare(k_.loops[stmt.id].body, axis);
            continue;
        }
        const Instr &instr = k_.instrs[stmt.id];
        if (instr.access != kNoValue) {
            const Access &access = k_.accesses[instr.access];
            base_pointer(access, instr.access);
        }
        if (!analysis_.depends(stmt.id, axis))
            continue;
        for (const KValue x : instr.operands) {
            if (x == kNoValue || values_[x].empty() || values_[x].varying ||
                b_.is_constant(values_[x].parts[0]) || (values_[x].splat && !values_[x].splat_block))
                continue;
            values_[x].splat = b_.splat(values_[x].parts[0], width_);
            values_[x].splat_block = nullptr;
            splats_.push_back(x);
        }
    }
}

} // namespace lz::codegen
