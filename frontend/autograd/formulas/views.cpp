#include "frontend/autograd/formulas.h"

namespace lz::detail {
namespace {

/// The part [starts, starts + sizes * steps) of x.
Value part(const Value &x, std::span<const int64_t> starts, std::span<const int64_t> sizes,
           std::span<const int64_t> steps) {
    return {record(Op::Slice, {&x.tensor()},
                   Words().word(static_cast<int64_t>(starts.size())).ints(sizes).ints(steps), x.loc(),
                   starts),
            x.loc()};
}

Value updated(const Value &x, const Value &update, std::span<const int64_t> starts,
              std::span<const int64_t> steps) {
    return {record(Op::UpdateSlice, {&x.tensor(), &update.tensor()},
                   Words().word(static_cast<int64_t>(starts.size())).ints(steps), x.loc(), starts),
            x.loc()};
}

Value zeros(const ir::TensorType &type, Location loc) {
    return {record_literal(from_ir(type.dtype), 0, type.shape, type.device, loc), loc};
}

constexpr int64_t kOnes[ir::kMaxRank] = {1, 1, 1, 1, 1, 1, 1, 1};

/// Whether nothing has been gathered.
bool is_zeros(const Value &x) {
    Node *const n = Access::node(x.tensor());
    return n->op == Op::Literal && n->num_structural > 0 &&
           n->attrs().scalar_as_double(ir::attr::kMakerValue, n->type.dtype) == 0;
}

/// What attach put behind the attributes.
std::span<const int64_t> extra_words(const RuleCall &call, size_t count) {
    return call.words().last(count);
}

} // namespace

Value permuted_back(const RuleCall &call, const Value &g) {
    const std::span<const int64_t> axes = call.attrs().ints(ir::attr::kAxes);
    int64_t back[ir::kMaxRank];
    for (size_t i = 0; i < axes.size(); ++i)
        back[axes[i]] = static_cast<int64_t>(i);
    return {permute_to(g.tensor(), {back, axes.size()}, g.loc()), g.loc()};
}

Value flipped(const Value &g, std::span<const int64_t> axes) {
    return {record(Op::Flip, {&g.tensor()}, Words().ints(axes), g.loc()), g.loc()};
}

Value added_to_slice(const RuleCall &call, const Value &sum, const Value &g) {
    const ir::AttrView attrs = call.attrs();
    const std::span<const int64_t> starts = attrs.ints(ir::attr::kSliceStarts),
                                   steps = attrs.ints(ir::attr::kSliceSteps);
    if (is_zeros(sum))
        return updated(sum, g, starts, steps);
    const Value now = part(sum, starts, attrs.ints(ir::attr::kSliceSizes), steps);
    const Value more = now + g;
    if (!Access::node(now.tensor())->pending())
        return updated(sum, more, starts, steps);
    return {record_update(sum.tensor(), more.tensor(), Access::node(now.tensor()),
                          Words().word(static_cast<int64_t>(starts.size())).ints(steps), starts, sum.loc()),
            sum.loc()};
}

Value unpadded(const RuleCall &call, size_t input, const Value &g) {
    const std::span<const int64_t> low = call.attrs().ints(ir::attr::kPadLow);
    return part(g, low, call.type(input).shape.extents(), {kOnes, low.size()});
}

Value padding_of(const RuleCall &call, const Value &g) {
    const std::span<const int64_t> low = call.attrs().ints(ir::attr::kPadLow),
                                   high = call.attrs().ints(ir::attr::kPadHigh);
    ir::TensorType inside = g.type();
    for (int a = 0; a < inside.shape.rank(); ++a)
        inside.shape[a] -= low[static_cast<size_t>(a)] + high[static_cast<size_t>(a)];
    return updated(g, zeros(inside, g.loc()), low, {kOnes, low.size()}); // fit sums it
}

Value part_of_concat(const RuleCall &call, size_t input, const Value &g) {
    const auto axis = static_cast<size_t>(call.attrs().integer(ir::attr::kAxis));
    const std::span<const int64_t> extents = extra_words(call, call.num_inputs());
    const auto rank = static_cast<size_t>(g.shape().rank());
    int64_t starts[ir::kMaxRank] = {}, sizes[ir::kMaxRank];
    std::ranges::copy(g.shape(), sizes);
    for (size_t k = 0; k < input; ++k)
        starts[axis] += extents[k];
    sizes[axis] = extents[input];
    return part(g, {starts, rank}, {sizes, rank}, {kOnes, rank});
}

Value without_slice(const RuleCall &call, const Value &g) {
    const ir::AttrView attrs = call.attrs();
    const std::span<const int64_t> starts = attrs.ints(ir::attr::kUpdateStarts);
    const Shape update(extra_words(call, starts.size()));
    return updated(g, zeros({g.type().dtype, update, g.type().device}, g.loc()), starts,
                   attrs.ints(ir::attr::kUpdateSteps));
}

Value updated_slice(const RuleCall &call, const Value &g) {
    const ir::AttrView attrs = call.attrs();
    const std::span<const int64_t> starts = attrs.ints(ir::attr::kUpdateStarts);
    return part(g, starts, extra_words(call, starts.size()), attrs.ints(ir::attr::kUpdateSteps));
}

} // namespace lz::detail
