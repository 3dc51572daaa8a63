#pragma once
/// Pairs in random graphs: something of each of two lists of short vectors, folded over the vectors, and that
/// beside the pairs summed over one of the lists.

#include "tests/support/random/stencils.h"

namespace lz::test {

class RandomPairs : protected RandomStencils {
protected:
    using RandomStencils::RandomStencils;

    void draw_pairs() {
        const DType dtype = dtype_where([](DType t) { return t != DType::Bool; });
        if (dtype == DType::Bool)
            return;
        const int64_t n = r_.between(16, 20), m = r_.between(16, 20);
        const int64_t most = std::min<int64_t>(2 * o_.max_elements / (n * m), 8);
        if (most < 2)
            return;
        const int64_t size = r_.between(2, most);
        const bool last = r_.chance(75); // the elements of a vector are neighbours
        const auto vectors = [&](int64_t count, bool first) {
            Shape s = {first ? count : 1, first ? 1 : count};
            s = last ? Shape{s[0], s[1], size} : Shape{size, s[0], s[1]};
            const Item x = parameter(dtype, s);
            return is_float(dtype) ? clamp(x, -4, 4) : x;
        };
        try {
            const Item x = vectors(n, true), y = vectors(m, false);
            const Item pairs =
                result(r_.chance(70) ? Op::Sub : Op::Mul, {x, y}, {}, 16, 4 * (x.error + y.error));
            const Op fold =
                r_.pick(std::vector<Op>{Op::ReduceSum, Op::ReduceSum, Op::ReduceMax, Op::ReduceMin});
            const int64_t axis = last ? 2 : 0;
            const auto count = static_cast<double>(size);
            const Item folded = result(fold, {pairs}, {1, axis}, 16 * count, count * pairs.error, count);
            if (r_.chance(50))
                return;
            const Item beside = same(Op::Reshape, folded, last ? Words{3, n, m, 1} : Words{3, 1, n, m});
            const Item weighted = result(Op::Mul, {pairs, beside}, {}, 256 * count,
                                         16 * count * pairs.error + 16 * beside.error);
            const auto terms = static_cast<double>(last ? m : n);
            result(Op::ReduceSum, {weighted}, {1, 1}, 256 * count * terms, terms * weighted.error, terms);
        } catch (const TooLarge &) {
        }
    }

private:
    /// What is no larger than `far` and has this error of its operands', with rounding of `terms` operations.
    Item result(Op op, const std::vector<Item> &operands, const Words &structural, double far, double error,
                double terms = 1) {
        const DType dtype = type(operands[0]).dtype;
        if (!is_float(dtype))
            return add(op, operands, structural, {}, -INFINITY, INFINITY, 0);
        const double rounded = 2 * (terms * unit(info(dtype).accumulate) + unit(dtype)) * far;
        return add(op, operands, structural, {}, -far, far, error + rounded);
    }
};

} // namespace lz::test
