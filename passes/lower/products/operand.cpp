#include "passes/lower/products/operand.h"

#include "passes/lower/products/dot.h"
#include "passes/operations.h"
#include "passes/schedule/schedule.h"

#include <algorithm>
#include <numeric>

namespace lz::passes {

using namespace ir;

namespace {

int64_t product(std::span<const int64_t> extents) {
    return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

/// Notes that a map stopped being affine.
class AffineOnly final : public IndexValues {
public:
    bool failed = false;
    ExprId quotient(const Index &, int64_t) override { return fail(); }
    ExprId remainder(const Index &, int64_t) override { return fail(); }
    const Index *divided(ExprId, int64_t, bool) const override { return nullptr; }

private:
    ExprId fail() {
        failed = true;
        return 0;
    }
};

/// The axes [begin, end) in parts that have one stride each, the outermost first; none where all extents are
/// 1.
std::vector<DotDigit> joined(const Index &address, std::span<const int64_t> extents, size_t begin,
                             size_t end) {
    std::vector<DotDigit> digits;
    for (size_t a = end; a-- > begin;) {
        if (extents[a] == 1)
            continue;
        if (!digits.empty() && address.axes[a] == digits.back().stride * digits.back().extent)
            digits.back().extent *= extents[a];
        else
            digits.push_back({extents[a], address.axes[a]});
    }
    std::ranges::reverse(digits);
    return digits;
}

/// Pairs of contracted dimensions in the order in which lhs has them in memory.
std::vector<size_t> depth_order(std::span<const int64_t> lhs_contract) {
    std::vector<size_t> order(lhs_contract.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return lhs_contract[a] < lhs_contract[b]; });
    return order;
}

/// The axes of a product that an operand is read along, with those of its own dimensions and of the depth cut
/// where the dimensions of a value end that became one of them.
class OperandAxes {
public:
    OperandAxes(std::vector<int64_t> extents, size_t free_begin, size_t k_begin)
        : extents_(std::move(extents)), free_begin_(free_begin), k_begin_(k_begin) {}

    const std::vector<int64_t> &extents() const { return extents_; }
    size_t free_begin() const { return free_begin_; }
    size_t k_begin() const { return k_begin_; }

    /// Cuts what the reshape put together, as far as the map of its result walks it by axes.
    void cut(const Shape &result, const Shape &operand, IndexMap &map) {
        if (operand.numel() == 0)
            return;
        each_reshape_group(result, operand, [&](int r0, int r, int o0, int o) {
            if (o - o0 == 1)
                return;
            Index linear = linearize(map, result, r0, r);
            int64_t unit = 1;
            for (int d = o - 1; d > o0; --d) {
                unit *= operand[d];
                for (size_t a = free_begin_; a < extents_.size(); ++a)
                    if (const int64_t step = linear.axes[a]; is_within(step, extents_[a], unit)) {
                        const int64_t inner = unit / step;
                        cut(linear, a, inner);
                        for (Index &index : map)
                            cut(index, a, inner);
                        extents_[a] /= inner;
                        extents_.insert(extents_.begin() + static_cast<std::ptrdiff_t>(a) + 1, inner);
                        if (a < k_begin_)
                            ++k_begin_;
                        ++a; // what is within a unit ends below it
                    }
            }
        });
    }

private:
    /// Whether an axis goes through whole units, one after another, in equal steps that make up one.
    bool is_within(int64_t step, int64_t extent, int64_t unit) const {
        return step > 0 && step < unit && unit < step * extent && unit % step == 0 &&
               extent % (unit / step) == 0 && extents_.size() < static_cast<size_t>(kMaxAxes);
    }
    /// Axis `a` becomes two.
    static void cut(Index &index, size_t a, int64_t inner) {
        std::move_backward(index.axes.begin() + static_cast<std::ptrdiff_t>(a), index.axes.end() - 1,
                           index.axes.end());
        index.axes[a] = index.axes[a + 1] * inner;
    }

    std::vector<int64_t> extents_;
    size_t free_begin_, k_begin_;
};

bool step_through(const Graph &graph, const Node &node, std::span<const int64_t> extents, IndexMap &map,
                  IndexValues &values) {
    if (node.operand_count == 0)
        return false;
    const AttrView attrs = graph.attrs(node);
    const Shape &operand = graph.type(graph.operands(node)[0]).shape;
    switch (node.op) {
    case Op::Reshape:
        map = through_reshape(map, graph.type(graph.result(node)).shape, operand, extents, values);
        return true;
    case Op::Permute:
        map = through_permute(map, attrs.ints(attr::kAxes));
        return true;
    case Op::Broadcast:
        map = through_broadcast(map, operand);
        return true;
    case Op::Slice:
        map =
            through_slice(map, graph.type(graph.result(node)).shape, operand,
                          node.runtime_begin + static_cast<uint32_t>(attrs.runtime_index(attr::kSliceStarts)),
                          attrs.ints(attr::kSliceSteps));
        return true;
    case Op::Flip:
        map = through_flip(map, attrs.ints(attr::kAxes), operand);
        return true;
    case Op::Window:
        map = through_window(map, attrs);
        return true;
    default:
        return false;
    }
}

// What is packed of a gathered operand in registers, because neighbours of a run lie in two of them, costs
// about what it costs of a copy, without the copy. Elements that lie apart along rows and k are loaded one by
// one, each from a line of its own, as often as a panel is packed: for each block of columns, and by each
// thread that has rows of its own. On a Xeon of the Sapphire Rapids kind with two threads, f32, 512 rows, k
// of 1024, time of a gathered operand against that of a copied one, the mean of both sides:
//
//     columns                           16     512    4096
//     neighbours along rows           0.64    0.91    1.00
//     every other element             0.45    0.87    0.98
//     elements 160 bytes apart        0.85    1.30    1.48
constexpr int64_t kLeastRun = 3;     ///< of neighbours; windows of 3 are gathered well (`gathered.h`)
constexpr int64_t kFewColumns = 256; ///< for so many anything is

bool pays_to_gather(const std::vector<DotDigit> &own, const std::vector<DotDigit> &depth, int64_t columns) {
    const DotDigit row = own.back(), step = depth.back();
    return (row.stride >= -2 && row.stride <= 2 && row.extent >= kLeastRun) ||
           (step.stride == 1 && step.extent >= kLeastRun) || columns <= kFewColumns;
}

} // namespace

int64_t DotDims::rows() const {
    return product(m);
}
int64_t DotDims::columns() const {
    return product(n);
}
int64_t DotDims::depth() const {
    return product(k);
}

DotDims dot_dims(const Graph &graph, const Node &dot) {
    const AttrView attrs = graph.attrs(dot);
    const Shape &lhs = graph.type(graph.operands(dot)[0]).shape,
                &rhs = graph.type(graph.operands(dot)[1]).shape;
    const auto has = [](std::span<const int64_t> list, int64_t x) {
        return std::find(list.begin(), list.end(), x) != list.end();
    };
    DotDims dims;
    const auto lb = attrs.ints(attr::kDotLhsBatch), lc = attrs.ints(attr::kDotLhsContract);
    const auto rb = attrs.ints(attr::kDotRhsBatch), rc = attrs.ints(attr::kDotRhsContract);
    for (const int64_t d : lb)
        dims.batch.push_back(lhs[static_cast<int>(d)]);
    for (const size_t i : depth_order(lc))
        dims.k.push_back(lhs[static_cast<int>(lc[i])]);
    for (int d = 0; d < lhs.rank(); ++d)
        if (!has(lb, d) && !has(lc, d))
            dims.m.push_back(lhs[d]);
    for (int d = 0; d < rhs.rank(); ++d)
        if (!has(rb, d) && !has(rc, d))
            dims.n.push_back(rhs[d]);
    return dims;
}

bool gathers_operands(const Graph &graph, const Node &dot, const Target &target) {
    const TensorType &type = graph.type(graph.result(dot));
    const DType dtype = graph.type(graph.operands(dot)[0]).dtype;
    return gathers_operands(target, type.device) && product_accumulation(dtype, type.dtype) == dtype &&
           !library_multiplies(graph, dot, target, type.device);
}

std::optional<DotOperand> dot_operand(const Graph &graph, const Node &dot, int which, bool gathered,
                                      const std::function<bool(ValueId)> &look_through) {
    const AttrView attrs = graph.attrs(dot);
    const DotDims dims = dot_dims(graph, dot);
    ValueId value = graph.operands(dot)[static_cast<size_t>(which)];
    const auto &own = which == 0 ? dims.m : dims.n;
    std::vector<int64_t> extents = dims.batch;
    extents.insert(extents.end(), own.begin(), own.end());
    extents.insert(extents.end(), dims.k.begin(), dims.k.end());
    if (extents.size() > static_cast<size_t>(kMaxAxes))
        return std::nullopt;

    const auto batch = attrs.ints(which == 0 ? attr::kDotLhsBatch : attr::kDotRhsBatch);
    const auto contract = attrs.ints(which == 0 ? attr::kDotLhsContract : attr::kDotRhsContract);
    IndexMap map(static_cast<size_t>(graph.type(value).shape.rank()));
    std::vector<bool> taken(map.size(), false);
    const size_t free_begin = dims.batch.size(), k_begin = free_begin + own.size();
    const auto set = [&](int64_t d, size_t axis) {
        map[static_cast<size_t>(d)] = Index::axis(static_cast<int>(axis));
        taken[static_cast<size_t>(d)] = true;
    };
    for (size_t i = 0; i < batch.size(); ++i)
        set(batch[i], i);
    const auto order = depth_order(attrs.ints(attr::kDotLhsContract));
    for (size_t i = 0; i < contract.size(); ++i)
        set(contract[order[i]], k_begin + i);
    size_t next = free_begin;
    for (size_t d = 0; d < map.size(); ++d)
        if (!taken[d])
            map[d] = Index::axis(static_cast<int>(next++));

    AffineOnly values;
    OperandAxes axes(std::move(extents), free_begin, k_begin);
    while (look_through(value)) {
        const Node &node = *graph.producer(value);
        if (gathered && node.op == Op::Reshape)
            axes.cut(graph.type(value).shape, graph.type(graph.operands(node)[0]).shape, map);
        if (!step_through(graph, node, axes.extents(), map, values) || values.failed)
            return std::nullopt;
        value = graph.operands(node)[0];
    }
    DotOperand operand{value, linearize(map, graph.type(value).shape, nullptr), {}};
    for (size_t i = 0; i < dims.batch.size(); ++i)
        operand.batch.push_back(operand.address.axes[i]);
    std::vector<DotDigit> free = joined(operand.address, axes.extents(), axes.free_begin(), axes.k_begin()),
                          depth =
                              joined(operand.address, axes.extents(), axes.k_begin(), axes.extents().size());
    if (free.size() <= 1 && depth.size() <= 1) {
        // Of an extent of 1 the last axis says the stride.
        const auto stride = [&](const std::vector<DotDigit> &digits, size_t begin, size_t end) {
            return !digits.empty() ? digits[0].stride : begin < end ? operand.address.axes[end - 1] : 0;
        };
        operand.free = stride(free, axes.free_begin(), axes.k_begin());
        operand.k = stride(depth, axes.k_begin(), axes.extents().size());
        return operand;
    }
    if (!gathered || free.size() + depth.size() > kMostDotDigits)
        return std::nullopt;
    const auto all = [](std::vector<DotDigit> digits) {
        return digits.empty() ? std::vector<DotDigit>{{1, 0}} : std::move(digits);
    };
    operand.free_digits = all(std::move(free));
    operand.k_digits = all(std::move(depth));
    if (!pays_to_gather(operand.free_digits, operand.k_digits, which == 0 ? dims.columns() : dims.rows()))
        return std::nullopt;
    return operand;
}

std::optional<std::vector<int64_t>> strides_through_views(const Graph &graph, ValueId value) {
    const Shape &shape = graph.type(value).shape;
    const std::vector<int64_t> extents(shape.begin(), shape.end());
    IndexMap map;
    for (int d = 0; d < shape.rank(); ++d)
        map.push_back(Index::axis(d));
    AffineOnly values;
    for (const Node *node = graph.producer(value); node && is_free(node->op) && node->operand_count > 0;
         node = graph.producer(value)) {
        if (!step_through(graph, *node, extents, map, values) || values.failed)
            return std::nullopt;
        value = graph.operands(*node)[0];
    }
    const Index address = linearize(map, graph.type(value).shape, nullptr);
    return std::vector<int64_t>(address.axes.begin(), address.axes.begin() + shape.rank());
}

} // namespace lz::passes
