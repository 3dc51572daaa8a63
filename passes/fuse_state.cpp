#include "passes/fuse_state.h"

#include <algorithm>
#include <array>

namespace lz::passes {

using ir::Graph;
using ir::Node;
using ir::Shape;

FoldId Folds::intern(Fold fold) {
    const int64_t size = fold.numel() * 31 + fold.rows();
    const auto [begin, end] = by_size_.equal_range(size);
    for (auto it = begin; it != end; ++it)
        if (folds_[static_cast<size_t>(it->second)] == fold)
            return it->second;
    folds_.push_back(std::move(fold));
    const auto id = static_cast<FoldId>(folds_.size() - 1);
    by_size_.emplace(size, id);
    return id;
}

namespace {

/// Only dimensions of extent 1 move.
bool keeps_order(const Shape &operand, std::span<const int64_t> axes) {
    int64_t last = -1;
    for (const int64_t a : axes) {
        if (operand[static_cast<int>(a)] == 1)
            continue;
        if (a < last)
            return false;
        last = a;
    }
    return true;
}

Access through_broadcast_of(const Shape &result, const Shape &operand, Access at, int64_t numel,
                            Folds &folds) {
    std::array<int64_t, ir::kMaxRank> repeated{};
    size_t count = 0;
    const int skipped = result.rank() - operand.rank();
    for (int d = 0; d < result.rank(); ++d) {
        const int64_t extent = d < skipped ? 1 : operand[d - skipped];
        if (extent != result[d])
            repeated[count++] = d;
    }
    if (count == 0)
        return at;
    if (at.kind != Access::Full && at.kind != Access::Point)
        return {Access::Other, kNoFold};
    const FoldId fold = folds.intern(fold_of(result, {repeated.data(), count}));
    if (at.kind == Access::Full)
        return {Access::Row, fold};
    if (fold != at.fold)
        return {Access::Other, kNoFold};
    return numel == folds[fold].numel() ? Access{Access::Row, fold} : Access{Access::Full, kNoFold};
}

} // namespace

Access through_view(const Graph &graph, const Node &view, Access result, int64_t numel, Folds &folds) {
    if (result.kind == Access::Stored || result.kind == Access::Other)
        return result;
    const Shape &operand = graph.type(graph.operands(view)[0]).shape;
    switch (view.op) {
    case ir::Op::Reshape:
        return result;
    case ir::Op::Permute:
        return keeps_order(operand, graph.attrs(view).ints(ir::attr::kAxes)) ? result
                                                                             : Access{Access::Other, kNoFold};
    case ir::Op::Broadcast:
        return through_broadcast_of(graph.type(graph.result(view)).shape, operand, result, numel, folds);
    default:
        return {Access::Other, kNoFold};
    }
}

Access through_gather(const Graph &graph, const Node &gather, Access result, int64_t numel, Folds &folds) {
    const int64_t axis = graph.attrs(gather).integer(ir::attr::kAxis);
    const Shape &shape = graph.type(graph.result(gather)).shape;
    if (shape[static_cast<int>(axis)] != 1)
        return {Access::Other, kNoFold};
    const FoldId fold =
        folds.intern(fold_of(graph.type(graph.operands(gather)[0]).shape, std::array<int64_t, 1>{axis}));
    if (result.kind == Access::Full && numel == folds[fold].rows())
        return {Access::Point, fold};
    if (result.kind == Access::Row && result.fold == fold)
        return {Access::Point, fold};
    return {Access::Other, kNoFold};
}

} // namespace lz::passes
