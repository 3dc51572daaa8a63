#include "frontend/autograd/formulas.h"

namespace lz::detail {

Value with_axes(const Value &reduced, const Shape &whole, std::span<const int64_t> axes) {
    Shape kept = whole;
    for (const int64_t axis : axes)
        kept[static_cast<int>(axis)] = 1;
    return reshape(reduced, kept);
}

namespace {

/// A reduction's result or its gradient, in the operand's rank.
Value kept(const RuleCall &call, size_t input, const Value &reduced) {
    return with_axes(reduced, call.type(input).shape, call.attrs().ints(ir::attr::kAxes));
}

Value scan(Op op, const Value &x, int64_t axis) {
    return {record(op, {&x.tensor()}, {axis}, {}, x.loc()), x.loc()};
}

Value backwards(const Value &x, int64_t axis) {
    return flipped(x, {&axis, 1});
}

/// For each position of the axis the product of those before it.
Value product_before(const Value &x, int64_t axis) {
    const int at = static_cast<int>(axis);
    const int64_t extent = x.shape()[at];
    const Value products = scan(Op::CumProd, x, axis);
    const Tensor others = cut(products.tensor(), at, 0, extent - 1, 1, x.loc());
    const Tensor one = literal(x.tensor(), 1, x.loc());
    int64_t low[ir::kMaxRank] = {}, high[ir::kMaxRank] = {};
    low[at] = 1;
    const auto rank = static_cast<size_t>(x.shape().rank());
    return {record(Op::Pad, {&others, &one}, Words().ints({low, rank}).ints({high, rank}), x.loc()), x.loc()};
}

} // namespace

Value unreduced(const RuleCall &call, size_t input, const Value &g) {
    return broadcast(kept(call, input, g), call.type(input).shape);
}

Value gradient_of_prod(const RuleCall &call, size_t input, const Value &g, const Value &x) {
    const std::span<const int64_t> axes = call.attrs().ints(ir::attr::kAxes);
    const Value spread = unreduced(call, input, g);
    if (x.type().numel() == 0 || axes.empty())
        return spread;
    // The reduced axes last, as one.
    const Shape &shape = x.shape();
    const auto rank = static_cast<size_t>(shape.rank());
    int64_t order[ir::kMaxRank], back[ir::kMaxRank];
    size_t count = 0;
    Shape apart, merged;
    int64_t extent = 1;
    for (const bool reduced : {false, true})
        for (size_t a = 0; a < rank; ++a)
            if ((std::ranges::find(axes, static_cast<int64_t>(a)) != axes.end()) == reduced) {
                back[a] = static_cast<int64_t>(count);
                order[count++] = static_cast<int64_t>(a);
                apart.push_back(shape[static_cast<int>(a)]);
                if (reduced)
                    extent *= shape[static_cast<int>(a)];
                else
                    merged.push_back(shape[static_cast<int>(a)]);
            }
    const int64_t axis = merged.rank();
    merged.push_back(extent);
    const Location loc = x.loc();
    const Value row = reshape({permute_to(x.tensor(), {order, rank}, loc), loc}, merged);
    const Value others =
        product_before(row, axis) * backwards(product_before(backwards(row, axis), axis), axis);
    return spread * Value(permute_to(reshape_to(others.tensor(), apart, loc), {back, rank}, loc), loc);
}

Value gradient_of_extreme(const RuleCall &call, size_t input, const Value &g, const Value &x,
                          const Value &out) {
    const Value equal = cast(x == kept(call, input, out), x.type().dtype);
    const Value extreme = where(x == x, equal, 1); // where there is NaN, it is the extreme
    return extreme * (kept(call, input, g) / sum(extreme, call.attrs().ints(ir::attr::kAxes), true));
}

Value summed_from_end(const Value &g, int64_t axis) {
    return backwards(scan(Op::CumSum, backwards(g, axis), axis), axis);
}

Value gradient_of_cumprod(const RuleCall &call, const Value &g, const Value &x, const Value &out) {
    const int64_t axis = call.attrs().integer(ir::attr::kAxis);
    // At the first zero of a row it is what it would be with a 1 there, times 0; behind it every product is
    // 0.
    const Value zero = x == 0;
    const Value zeros_so_far = scan(Op::CumSum, cast(zero, ir::DType::I32), axis);
    const Value first = zero && zeros_so_far == 1;
    const Value without = scan(Op::CumProd, where(first, 1, x), axis);
    Value at_others = where(zero, 0, summed_from_end(g * out, axis) / where(zero, 1, x));
    if (call.create_graph()) {
        // At the second one it is 0 as long as the first one is, which a second derivative asks for.
        const Value second = zero && zeros_so_far == 2;
        const Value without_both = scan(Op::CumProd, where(first || second, 1, x), axis);
        const Value at_first = sum(where(first, x, 0), {&axis, 1}, true);
        at_others = where(second, at_first * summed_from_end(g * without_both, axis), at_others);
    }
    return where(first, summed_from_end(g * without, axis), at_others);
}

} // namespace lz::detail
