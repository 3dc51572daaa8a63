#include "frontend/autograd/composites.h"
#include "frontend/ops/contract.h"

#include <numeric>
#include <vector>

namespace lz::detail {
namespace {

constexpr uint32_t A = 1, B = 2, OUT = Step::saved_result(0);

/// Products of matrices with the batch axes of both, summed over these axes.
Value product(const Value &x, const Value &y, int64_t x_sum, int64_t y_sum) {
    std::vector<int64_t> batch(static_cast<size_t>(x.shape().rank() - 2));
    std::iota(batch.begin(), batch.end(), 0);
    return {contract(x.tensor(), y.tensor(), batch, batch, {&x_sum, 1}, {&y_sum, 1}, x.loc()), x.loc()};
}

/// The slope of |a_i - b_j| by a_i is (a_i - b_j) / |a_i - b_j|, and 0 where they are one point.
void euclidean(RuleCall &call) {
    const ir::DType dtype = working_dtype(call.result_type().dtype);
    const Value a = cast(call.operand(0), dtype), b = cast(call.operand(1), dtype);
    const Value out = cast(call.result(), dtype), g = cast(call.g(), dtype);
    const int64_t last[] = {out.shape().rank() - 1}, before[] = {out.shape().rank() - 2};
    const Value ratio = where(out == 0, 0, g / out);
    if (call.wanted(0))
        call.give(0, a * sum(ratio, last, true) - product(ratio, b, last[0], before[0]));
    if (call.wanted(1)) {
        const Value total = sum(ratio, before, false);
        const Shape &shape = b.shape();
        Shape column = shape;
        column[shape.rank() - 1] = 1;
        call.give(1, b * reshape(total, column) - product(ratio, a, before[0], before[0]));
    }
}

} // namespace

const CompositeRule kEuclideanRule{{euclidean}, {A | B | OUT, A | B | OUT}};

} // namespace lz::detail
