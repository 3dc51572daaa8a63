// The largest and the smallest of all elements up to each.
#include "frontend/ops/compose.h"
#include "lazuli/ops/reductions.h"

namespace lz {

using detail::Op;

namespace {

ValuesIndices running_extremes(Op op, const Tensor &x, int64_t axis, const char *function, Location loc) {
    const ir::TensorType type = detail::checked_type(x, function, loc);
    if (detail::is_axis_of_number(axis, type.shape.rank()))
        return {detail::fresh(x, loc), detail::record_literal(DType::I64, 0, {}, type.device, loc)};
    const Tensor *operands[] = {&x};
    const int64_t words[] = {detail::normal_axis(axis, type.shape.rank(), function, type, loc)};
    std::vector<Tensor> both = detail::record_many(op, operands, words, {}, loc);
    return {std::move(both[0]), std::move(both[1])};
}

} // namespace

ValuesIndices cummax(const Tensor &x, int64_t axis, Location loc) {
    loc = detail::in<"cummax">(loc);
    return running_extremes(Op::CumMax, x, axis, "cummax", loc);
}
ValuesIndices cummin(const Tensor &x, int64_t axis, Location loc) {
    loc = detail::in<"cummin">(loc);
    return running_extremes(Op::CumMin, x, axis, "cummin", loc);
}

} // namespace lz
