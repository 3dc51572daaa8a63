#include "frontend/ops/compose.h"
#include "lazuli/ops/reductions.h"
#include "lazuli/ops/views.h"

namespace lz {

using detail::Op;

namespace {

ValuesIndices sorted(Op op, const Tensor &x, std::span<const int64_t> words, Location loc) {
    const Tensor *operands[] = {&x};
    std::vector<Tensor> both = detail::record_many(op, operands, words, {}, loc);
    return {std::move(both[0]), std::move(both[1])};
}

ValuesIndices sorted(const Tensor &x, int axis, bool descending, Location loc) {
    const int64_t words[] = {axis, descending};
    return sorted(Op::Sort, x, words, loc);
}

/// A number is sorted as a row of one.
ValuesIndices sorted_axis(const Tensor &x, int64_t axis, bool descending, const char *function,
                          Location loc) {
    const ir::TensorType type = detail::checked_type(x, function, loc);
    if (type.shape.rank() > 0)
        return sorted(x, detail::normal_axis(axis, type.shape.rank(), function, type, loc), descending, loc);
    if (axis != 0 && axis != -1)
        detail::normal_axis(axis, 0, function, type, loc);
    const ValuesIndices row = sorted(reshape(x, {1}, loc), 0, descending, loc);
    return {reshape(row.values, {}, loc), reshape(row.indices, {}, loc)};
}

} // namespace

ValuesIndices sort(const Tensor &x, int64_t axis, bool descending, Location loc) {
    loc = detail::in<"sort">(loc);
    return sorted_axis(x, axis, descending, "sort", loc);
}

Tensor argsort(const Tensor &x, int64_t axis, bool descending, Location loc) {
    loc = detail::in<"argsort">(loc);
    return sorted_axis(x, axis, descending, "argsort", loc).indices;
}

ValuesIndices topk(const Tensor &x, int64_t k, int64_t axis, bool largest, Location loc) {
    loc = detail::in<"topk">(loc);
    const ir::TensorType type = detail::checked_type(x, "topk", loc);
    const int rank = type.shape.rank();
    const int a = rank == 0 ? 0 : detail::normal_axis(axis, rank, "topk", type, loc);
    const int64_t extent = rank == 0 ? 1 : type.shape[a];
    if (k < 0 || k > extent)
        throw IndexError("topk: k is " + std::to_string(k) + "; axis " + std::to_string(a) + " of " +
                             detail::text(type) + " has " + std::to_string(extent) + " elements",
                         loc);
    if (rank == 0)
        return sorted_axis(x, axis, largest, "topk", loc);
    const int64_t words[] = {a, largest, k};
    return sorted(Op::TopK, x, words, loc);
}

} // namespace lz
