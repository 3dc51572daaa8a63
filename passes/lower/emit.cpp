#include "passes/lower/emit.h"

#include "ir/diagnostic.h"
#include "ir/kernel/builder.h"

#include <algorithm>

namespace lz::passes {

using namespace ir;

ReduceOp reduce_op(Op op) {
    switch (op) {
    case Op::ReduceSum:
        return ReduceOp::Add;
    case Op::ReduceProd:
        return ReduceOp::Mul;
    case Op::ReduceMax:
        return ReduceOp::Max;
    case Op::ReduceMin:
        return ReduceOp::Min;
    case Op::ArgMax:
        return ReduceOp::ArgMax;
    default:
        return ReduceOp::ArgMin;
    }
}

Collapsed collapse(const Domain &domain, std::span<const Index> addresses, bool drop_units) {
    const size_t n = domain.extents.size();
    Collapsed out;
    out.of_axis.assign(n, -1);
    // Walk from the last axis: a kernel axis starts at a domain axis and swallows those before it.
    std::vector<int> order; // domain axis that each kernel axis ends in, innermost first
    std::vector<int64_t> extents;
    std::vector<uint32_t> members;
    size_t a = n;
    // Element number over the grid decides who is a neighbour: a reduced axis between two grid axes parts
    // them.
    while (a-- > 0) {
        const bool reduced = domain.reduced >> a & 1;
        // A trailing extent of 1 would be a vector of one; one that an access strides by 1 along looks
        // contiguous.
        const bool looks_contiguous =
            std::any_of(addresses.begin(), addresses.end(), [&](const Index &i) { return i.axes[a] == 1; });
        const bool parted = domain.parted >> a & 1;
        if (drop_units && !parted && !reduced && domain.extents[a] == 1 &&
            (order.empty() ? a > 0 : looks_contiguous))
            continue;
        int64_t extent = domain.extents[a];
        uint32_t mask = 1u << a;
        const size_t inner = a;
        while (a > 0 && !(domain.parted >> a & 1) && (domain.reduced >> (a - 1) & 1) == (reduced ? 1u : 0u)) {
            const bool together = std::all_of(addresses.begin(), addresses.end(), [&](const Index &i) {
                return i.axes[a - 1] == i.axes[inner] * extent;
            });
            if (!together)
                break;
            --a;
            extent *= domain.extents[a];
            mask |= 1u << a;
        }
        order.push_back(static_cast<int>(inner));
        extents.push_back(extent);
        members.push_back(mask);
    }
    for (size_t k = order.size(); k-- > 0;) {
        out.of_axis[static_cast<size_t>(order[k])] = static_cast<int>(out.extents.size());
        out.extents.push_back(extents[k]);
        out.members.push_back(members[k]);
        out.reduced.push_back(domain.reduced >> order[k] & 1);
    }
    return out;
}

KernelEmitter::KernelEmitter(const ClusterExprs &exprs, Collapsed axes)
    : exprs_(exprs), axes_(std::move(axes)), values_(exprs.exprs().size(), kNoValue),
      seen_(exprs.exprs().size(), 0) {
    for (const int64_t extent : axes_.extents)
        axis_ids_.push_back(add_axis(extent));
}

ArgId KernelEmitter::arg(ArgRole role, int64_t value) {
    segment_.args.push_back({value, {}});
    return builder_.arg(role);
}

ArgId KernelEmitter::arg(ArgRole role, const Index &index) {
    segment_.args.push_back({index.constant, index.words});
    return builder_.arg(role);
}

AxisId KernelEmitter::add_axis(int64_t extent) {
    return builder_.axis(arg(ArgRole::Extent, extent));
}

uint16_t KernelEmitter::input(ValueId value) {
    for (const auto &[v, b] : inputs_)
        if (v == value)
            return b;
    const TensorType &type = exprs_.graph().type(value);
    segment_.buffers.push_back({BufferMode::In, value, kNone, type.bytes()});
    inputs_.push_back({value, builder_.buffer(type.dtype, BufferMode::In)});
    return inputs_.back().second;
}

uint16_t KernelEmitter::output(ValueId value) {
    const TensorType &type = exprs_.graph().type(value);
    segment_.buffers.push_back({BufferMode::Out, value, kNone, type.bytes()});
    return builder_.buffer(type.dtype, BufferMode::Out);
}

uint16_t KernelEmitter::in_out(ValueId value, ValueId replaces) {
    const TensorType &type = exprs_.graph().type(value);
    segment_.buffers.push_back({BufferMode::InOut, value, replaces, type.bytes()});
    return builder_.buffer(type.dtype, BufferMode::InOut);
}

uint16_t KernelEmitter::worker(DType dtype, int64_t elements) {
    segment_.buffers.push_back({BufferMode::Worker, kNone, kNone, elements * size_of(dtype)});
    return builder_.buffer(dtype, BufferMode::Worker);
}

AxisStride KernelEmitter::strided(AxisId axis, int64_t coefficient) {
    return {axis, StrideClass::Strided, arg(ArgRole::Stride, coefficient)};
}

Access KernelEmitter::access(uint16_t buffer, const Index &address, KValue predicate) {
    Access a;
    a.buffer = buffer;
    a.predicate = predicate;
    if (always_offsets_ || address.constant != 0 || !address.words.empty())
        a.offset = arg(ArgRole::Offset, address);
    for (size_t d = 0; d < axes_.of_axis.size(); ++d) {
        const int k = axes_.of_axis[d];
        if (k < 0 || address.axes[d] == 0)
            continue;
        if (address.axes[d] == 1 && (k == vector_ || k == turned_))
            a.strides.push_back({axis(k), StrideClass::Contiguous, kNoArg});
        else if (address.axes[d] == -1 && k == vector_)
            a.strides.push_back({axis(k), StrideClass::Reversed, arg(ArgRole::Stride, -1)});
        else
            a.strides.push_back(strided(axis(k), address.axes[d]));
    }
    for (const Index::Term &t : address.terms)
        a.terms.push_back({emit(t.value), t.coefficient == 1 ? kNoArg : arg(ArgRole::Stride, t.coefficient)});
    return a;
}

void KernelEmitter::define(ExprId e, KValue value) {
    values_[e] = value;
    trail_.push_back(e);
}

void KernelEmitter::close() {
    const size_t keep = scopes_.back();
    scopes_.pop_back();
    while (trail_.size() > keep) {
        values_[trail_.back()] = kNoValue;
        trail_.pop_back();
    }
}

void KernelEmitter::keep(ExprId e, Kept kept) {
    kept_.push_back({e, std::move(kept)});
}

KernelEmitter::Kept *KernelEmitter::kept(ExprId e) {
    for (auto &[expr, k] : kept_)
        if (expr == e)
            return &k;
    return nullptr;
}

KValue KernelEmitter::emit(ExprId e) {
    if (values_[e] != kNoValue)
        return values_[e];
    Kept *row = kept_.empty() ? nullptr : kept(e);
    KValue v;
    if (row && row->stored) {
        v = builder_.load(access(row->buffer, row->address));
    } else {
        v = emit_new(e);
        if (row) {
            builder_.store(access(row->buffer, row->address), v);
            row->stored = true;
        }
    }
    define(e, v);
    return v;
}

KValue KernelEmitter::emit_position(const Index &index) {
    KernelBuilder &b = builder_;
    KValue sum = kNoValue;
    const auto plus = [&](KValue v) { sum = sum == kNoValue ? v : b.add(sum, v); };
    const auto times = [&](KValue v, int64_t c) {
        return c == 1 ? v : b.mul(v, b.arg_value(arg(ArgRole::Stride, c)));
    };
    for (size_t d = 0; d < axes_.of_axis.size(); ++d)
        if (axes_.of_axis[d] >= 0 && index.axes[d] != 0)
            plus(times(b.axis_index(axis(axes_.of_axis[d])), index.axes[d]));
    for (const Index::Term &t : index.terms)
        plus(times(emit(t.value), t.coefficient));
    if (always_offsets_ || index.constant != 0 || !index.words.empty())
        plus(b.arg_value(arg(ArgRole::Offset, index)));
    return sum == kNoValue ? b.constant_int(DType::I64, 0) : sum;
}

KValue KernelEmitter::emit_new(ExprId id) {
    const ExprNode &e = exprs_.expr(id);
    KernelBuilder &b = builder_;
    const auto operand = [&](size_t i) { return emit(e.operands[i]); };
    const auto number = [&] { return b.arg_value(arg(ArgRole::Other, e.number)); };
    const auto from = [&] { b.set_source(e.source); };
    switch (e.kind) {
    case ExprKind::Load: {
        const KValue predicate = e.operands[0] == kNoExpr ? kNoValue : operand(0);
        from();
        for (auto &[expr, known] : accesses_) {
            if (expr != id)
                continue;
            // The same arguments, but its values are those of this region.
            Access again = known;
            again.predicate = predicate;
            const auto &terms = exprs_.addresses()[e.payload].terms;
            for (size_t t = 0; t < terms.size(); ++t)
                again.terms[t].index = emit(terms[t].value);
            return b.load(again);
        }
        const uint16_t buffer = input(e.value);
        accesses_.emplace_back(id, access(buffer, exprs_.addresses()[e.payload], predicate));
        return b.load(accesses_.back().second);
    }
    case ExprKind::Literal: {
        const Node &node = exprs_.graph().node(e.payload);
        const AttrView attrs = exprs_.graph().attrs(node);
        from();
        return is_float(e.dtype) ? b.constant(e.dtype, attrs.scalar_as_double(attr::kMakerValue, e.dtype))
                                 : b.constant_int(e.dtype, attrs.scalar_word(attr::kMakerValue));
    }
    case ExprKind::Scalar: {
        from();
        const auto dtype = static_cast<DType>(e.number);
        segment_.scalars.push_back({e.payload, dtype});
        return b.scalar_value(b.scalar(dtype));
    }
    case ExprKind::Word: {
        Index index;
        index.words.push_back({e.payload, 1});
        return b.arg_value(arg(ArgRole::Other, index));
    }
    case ExprKind::Position:
        return emit_position(exprs_.addresses()[e.payload]);
    case ExprKind::Quotient:
    case ExprKind::Remainder: {
        const KValue x = operand(0);
        return b.emit(e.kind == ExprKind::Quotient ? KOp::Div : KOp::Rem, DType::I64, x, number());
    }
    case ExprKind::InRange: {
        const KValue x = operand(0);
        const KValue above = b.ge(x, b.constant_int(DType::I64, 0));
        return b.bit_and(above, b.lt(x, number()));
    }
    case ExprKind::Bounded: {
        const KValue x = operand(0);
        const KValue guard = e.operands[1] == kNoExpr ? kNoValue : operand(1);
        from();
        b.set_guard(guard);
        const KValue safe = b.check_index(x, number());
        b.set_guard(kNoValue);
        return safe;
    }
    case ExprKind::Elementwise: {
        KValue operands[3];
        const auto n = static_cast<size_t>(info(e.op).min_operands);
        for (size_t i = 0; i < n; ++i)
            operands[i] = emit(e.operands[i]);
        const KValue guard = n == 3 || e.operands[2] == kNoExpr ? kNoValue : operand(2);
        from();
        b.set_guard(guard);
        const KValue result = build_elementwise(b, e.op, {operands, n}, e.rounded);
        b.set_guard(kNoValue);
        return result;
    }
    case ExprKind::Cast: {
        const KValue x = operand(0);
        from();
        return b.cast(x, e.dtype);
    }
    case ExprKind::Philox: {
        const KValue at = operand(0);
        const KValue offset = operand(1), seed = operand(2);
        from();
        const KValue block = b.add(offset, b.shr(at, b.constant_int(DType::I64, 2)));
        const KValue word = b.cast(b.bit_and(at, b.constant_int(DType::I64, 3)), DType::I32);
        return b.emit(KOp::Philox, DType::I32, block, word, seed);
    }
    case ExprKind::Affine: {
        const KValue start = operand(0), step = operand(1), at = operand(2);
        from();
        return b.add(start, b.mul(step, at));
    }
    case ExprKind::And: {
        const KValue x = operand(0), y = operand(1);
        return b.bit_and(x, y);
    }
    case ExprKind::Choose: {
        const KValue c = operand(0), x = operand(1), y = operand(2);
        from();
        return b.select(c, x, y);
    }
    case ExprKind::Product:
        from();
        return b.product(e.dtype);
    case ExprKind::Reduce:
        break;
    }
    internal_failure(__FILE__, __LINE__, "a reduction is read before it has run");
}

void KernelEmitter::store(uint16_t buffer, const Index &address, ExprId e) {
    const KValue v = emit(e);
    builder_.store(access(buffer, address), v);
}

void KernelEmitter::hoist(std::span<const ExprId> roots, uint32_t mask, int depth) {
    ++stamp_;
    std::vector<ExprId> open(roots.rbegin(), roots.rend());
    while (!open.empty()) {
        const ExprId id = open.back();
        open.pop_back();
        if (seen_[id] == stamp_ || values_[id] != kNoValue)
            continue;
        seen_[id] = stamp_;
        const ExprNode &e = exprs_.expr(id);
        if ((e.axes & ~mask) == 0 && e.depth <= depth && !e.on_demand) {
            emit(id);
            continue;
        }
        if (const Kept *row = kept_.empty() ? nullptr : kept(id); row && row->stored)
            continue;
        for (size_t i = 3; i-- > 0;)
            if (e.operands[i] != kNoExpr)
                open.push_back(e.operands[i]);
        if (e.kind == ExprKind::Load || e.kind == ExprKind::Position)
            for (const Index::Term &t : exprs_.addresses()[e.payload].terms)
                open.push_back(t.value);
    }
}

} // namespace lz::passes
