#include "passes/fuse/state.h"

#include "passes/operations.h"

#include <algorithm>
#include <array>

namespace lz::passes {

using ir::Graph;
using ir::Node;
using ir::Shape;

namespace {

uint64_t identity_of(const Fold &fold) {
    uint64_t h = fold.groups.size();
    for (const auto &[extent, reduced] : fold.groups)
        h = (h * 0x9e3779b97f4a7c15u ^ identity(extent)) * 2 + (reduced ? 1 : 0);
    return h;
}

bool identical(const Fold &a, const Fold &b) {
    return std::ranges::equal(a.groups, b.groups, [](const Fold::Group &x, const Fold::Group &y) {
        return identity(x.extent) == identity(y.extent) && x.reduced == y.reduced;
    });
}

} // namespace

FoldId Folds::intern(Fold fold) {
    const uint64_t hash = identity_of(fold);
    const auto [begin, end] = by_hash_.equal_range(hash);
    for (auto it = begin; it != end; ++it)
        if (identical(*it->second, fold))
            return FoldId(it->second);
    folds_.push_back(std::move(fold));
    by_hash_.emplace(hash, &folds_.back());
    return FoldId(&folds_.back());
}

Reading through_broadcast(const Shape &result, const Shape &operand, Reading at, int64_t numel,
                          Folds &folds) {
    const Reading other{Reading::Other, kNoFold, at.partial};
    if (result == operand || at.kind == Reading::Stored || at.kind == Reading::Other)
        return at;
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
    if (at.kind != Reading::Full && at.kind != Reading::Point)
        return other;
    const FoldId fold = folds.intern(fold_of(result, {repeated.data(), count}));
    if (at.kind == Reading::Full)
        return {Reading::Row, fold, at.partial};
    if (fold != at.fold)
        return other;
    // What is the same along the row is read whole.
    return numel == folds[fold].numel() ? Reading{Reading::Row, fold} : Reading{Reading::Full, kNoFold};
}

namespace {

Reading through_whole_view(const Graph &graph, const Node &view, Reading result, int64_t numel,
                           Folds &folds) {
    if (result.kind == Reading::Stored || result.kind == Reading::Other)
        return result;
    const Shape &operand = graph.type(graph.operands(view)[0]).shape;
    switch (view.op) {
    case ir::Op::Reshape:
        return result;
    case ir::Op::Permute:
        return keeps_order(graph, view) ? result : Reading{Reading::Other, kNoFold};
    case ir::Op::Broadcast:
        return through_broadcast(graph.type(graph.result(view)).shape, operand, result, numel, folds);
    default:
        return {Reading::Other, kNoFold};
    }
}

} // namespace

Reading through_view(const Graph &graph, const Node &view, Reading result, int64_t numel, Folds &folds) {
    Reading at = through_whole_view(graph, view, result, numel, folds);
    if (at.kind == Reading::Other)
        at.partial = result.partial || view.op == ir::Op::Slice || view.op == ir::Op::Window;
    return at;
}

Reading through_gather(const Graph &graph, const Node &gather, Reading result, int64_t numel, Folds &folds) {
    const int64_t axis = graph.attrs(gather).integer(ir::attr::kAxis);
    const Shape &shape = graph.type(graph.result(gather)).shape;
    const Reading other{Reading::Other, kNoFold, true};
    if (shape[static_cast<int>(axis)] != 1)
        return other;
    const FoldId fold =
        folds.intern(fold_of(graph.type(graph.operands(gather)[0]).shape, std::array<int64_t, 1>{axis}));
    if (result.kind == Reading::Full && numel == folds[fold].rows())
        return {Reading::Point, fold, true};
    if (result.kind == Reading::Row && result.fold == fold)
        return {Reading::Point, fold, true};
    return other;
}

} // namespace lz::passes
