#include "frontend/autograd/formulas.h"

#include "frontend/ops/contract.h"

namespace lz::detail {
namespace {

/// A growing list of axes.
struct AxisList {
    int64_t axis[ir::kMaxRank];
    size_t count = 0;
    void add(int64_t a) { axis[count++] = a; }
    operator std::span<const int64_t>() const { return {axis, count}; } // NOLINT: converts
};

/// Axes below `rank` in neither list.
AxisList rest(int rank, std::span<const int64_t> a, std::span<const int64_t> b) {
    AxisList out;
    for (int64_t i = 0; i < rank; ++i)
        if (std::ranges::find(a, i) == a.end() && std::ranges::find(b, i) == b.end())
            out.add(i);
    return out;
}

/// One side of a product, and which of its axes met which of the other side's.
struct Side {
    int rank;
    std::span<const int64_t> batch, contracted, other_batch, other_contracted;
};

/// The gradient of one side: g with the other side's free axes summed over. Those are `g_other` in g.
Value dot_gradient(const Side &side, const Value &g, const AxisList &g_other, const Value &other) {
    const Location loc = g.loc();
    const AxisList own_free = rest(side.rank, side.batch, side.contracted);
    const AxisList other_free = rest(other.shape().rank(), side.other_batch, side.other_contracted);
    AxisList g_batch;
    for (size_t i = 0; i < side.batch.size(); ++i)
        g_batch.add(static_cast<int64_t>(i));
    // The other side's contracted axes are free now, in the order in which they lie there: as axes of this
    // side.
    AxisList met;
    for (int64_t a = 0; a < other.shape().rank(); ++a)
        for (size_t k = 0; k < side.other_contracted.size(); ++k)
            if (side.other_contracted[k] == a)
                met.add(side.contracted[k]);
    const auto joined = [&](const AxisList &first, const AxisList &second) {
        AxisList all;
        for (const std::span<const int64_t> part :
             {side.batch, std::span<const int64_t>(first), std::span<const int64_t>(second)})
            for (const int64_t axis : part)
                all.add(axis);
        return all;
    };
    const auto in_order = [](std::span<const int64_t> axes) { return std::ranges::is_sorted(axes); };
    // The two orders of the factors give the axes in two orders. Where one is this side's own, nothing is
    // permuted.
    const AxisList own_first = joined(own_free, met);
    if (!in_order(own_first) && in_order(joined(met, own_free)))
        return {contract(other.tensor(), g.tensor(), side.other_batch, g_batch, other_free, g_other, loc),
                loc};
    const Tensor product =
        contract(g.tensor(), other.tensor(), g_batch, side.other_batch, g_other, other_free, loc);
    if (in_order(own_first))
        return {product, loc};
    AxisList back = own_first;
    for (size_t i = 0; i < own_first.count; ++i)
        back.axis[own_first.axis[i]] = static_cast<int64_t>(i);
    return {permute_to(product, back, loc), loc};
}

/// Axes [from, from + count).
AxisList range(size_t from, size_t count) {
    AxisList out;
    for (size_t i = 0; i < count; ++i)
        out.add(static_cast<int64_t>(from + i));
    return out;
}

Value scatter(const Value &into, const Value &index, const Value &source, int64_t axis, bool add) {
    return {
        record(Op::Scatter, {&into.tensor(), &index.tensor(), &source.tensor()}, {axis, add}, {}, into.loc()),
        into.loc()};
}

Value gather(const Value &x, const Value &index, int64_t axis) {
    return {record(Op::Gather, {&x.tensor(), &index.tensor()}, {axis}, {}, x.loc()), x.loc()};
}

Value zeros(const ir::TensorType &type, Location loc) {
    return {record_literal(from_ir(type.dtype), 0, type.shape, type.device, loc), loc};
}

/// The number of each element, row-major, as i64.
Value numbers(const Value &like) {
    const ir::TensorType row = {ir::DType::I64, Shape({like.type().numel()}), like.type().device};
    return reshape({iota(row, 0, 0, 1, like.loc()), like.loc()}, like.shape());
}

} // namespace

Value dot_of_lhs(const RuleCall &call, const Value &g, const Value &rhs) {
    const ir::AttrView a = call.attrs();
    const Side side = {call.type(0).shape.rank(), a.ints(ir::attr::kDotLhsBatch),
                       a.ints(ir::attr::kDotLhsContract), a.ints(ir::attr::kDotRhsBatch),
                       a.ints(ir::attr::kDotRhsContract)};
    const size_t batch = side.batch.size(),
                 own = static_cast<size_t>(side.rank) - batch - side.contracted.size();
    const size_t other = static_cast<size_t>(g.shape().rank()) - batch - own;
    return cast(dot_gradient(side, g, range(batch + own, other), cast(rhs, g.type().dtype)),
                call.type(0).dtype);
}

Value dot_of_rhs(const RuleCall &call, const Value &g, const Value &lhs) {
    const ir::AttrView a = call.attrs();
    const Side side = {call.type(1).shape.rank(), a.ints(ir::attr::kDotRhsBatch),
                       a.ints(ir::attr::kDotRhsContract), a.ints(ir::attr::kDotLhsBatch),
                       a.ints(ir::attr::kDotLhsContract)};
    const size_t batch = side.batch.size(),
                 own = static_cast<size_t>(side.rank) - batch - side.contracted.size();
    const size_t other = static_cast<size_t>(g.shape().rank()) - batch - own;
    return cast(dot_gradient(side, g, range(batch, other), cast(lhs, g.type().dtype)), call.type(1).dtype);
}

Value scattered_into(const RuleCall &call, const Value &sum, const Value &index, const Value &g) {
    return scatter(sum, index, g, call.attrs().integer(ir::attr::kAxis), true);
}

Value added_to_windows(const RuleCall &call, const Value &sum, const Value &g) {
    const ir::AttrView attrs = call.attrs();
    const int64_t axis = attrs.integer(ir::attr::kAxis), count = attrs.integer(ir::attr::kWindowCount),
                  size = attrs.integer(ir::attr::kWindowSize);
    const Location loc = g.loc();
    const int last = g.shape().rank() - 1;
    AxisList beside; // the elements of a part beside the parts
    for (int64_t d = 0; d < last; ++d) {
        beside.add(d);
        if (d == axis)
            beside.add(last);
    }
    Shape spread = sum.shape();
    spread[static_cast<int>(axis)] = count * size;
    const Value source = reshape({permute_to(g.tensor(), beside, loc), loc}, spread);
    const ir::TensorType places{ir::DType::I64, Shape({count, size}), g.type().device};
    const Value begins{
        iota(places, 0, attrs.integer(ir::attr::kWindowBegin), attrs.integer(ir::attr::kWindowStep), loc),
        loc},
        within{iota(places, 1, 0, 1, loc), loc};
    Shape along = spread;
    for (int d = 0; d < along.rank(); ++d)
        along[d] = d == axis ? count * size : 1;
    return scatter(sum, broadcast(reshape(begins + within, along), spread), source, axis, true);
}

Value without_scattered(const RuleCall &call, const Value &g, const Value &index) {
    const ir::AttrView a = call.attrs();
    if (a.integer(ir::attr::kScatterReduce) != 0)
        return g;
    const Value nothing = zeros({g.type().dtype, index.shape(), g.type().device}, g.loc());
    return scatter(g, index, nothing, a.integer(ir::attr::kAxis), false);
}

Value gathered_source(const RuleCall &call, const Value &g, const Value &index) {
    const ir::AttrView a = call.attrs();
    const int64_t axis = a.integer(ir::attr::kAxis);
    const Value there = gather(g, index, axis);
    if (a.integer(ir::attr::kScatterReduce) != 0)
        return there;
    // Of several that were put to one place the last is there.
    const Value mine = numbers(index);
    const Value last =
        scatter(zeros({ir::DType::I64, g.shape(), g.type().device}, g.loc()), index, mine, axis, false);
    return where(gather(last, index, axis) == mine, there, 0);
}

namespace {

Value put_to_places(const RuleCall &call, size_t input, const Value &g, const Value &places, bool adds) {
    const ir::TensorType &type = call.type(input);
    return scatter(zeros({g.type().dtype, type.shape, g.type().device}, g.loc()), places, g,
                   call.attrs().integer(ir::attr::kAxis), adds);
}

} // namespace

Value unsorted(const RuleCall &call, size_t input, const Value &g, const Value &order) {
    return put_to_places(call, input, g, order, false);
}

Value added_to_places(const RuleCall &call, size_t input, const Value &g, const Value &places) {
    return put_to_places(call, input, g, places, true);
}

} // namespace lz::detail
