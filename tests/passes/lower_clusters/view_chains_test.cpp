/// Chains of views, fused with each other: whatever blocks they cut, reverse and exchange, what is read are
/// the right elements. Blocks of 8 and of 9 of 72 elements have no axes in common, so that places are
/// quotients and remainders of each other.

#include "ir/graph/builder.h"
#include "support/graph_inputs.h"
#include "support/run_lowered.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

namespace lz {
namespace {

using namespace ir;
using test::finish;

constexpr int64_t kElements = 72;

class Chains {
public:
    explicit Chains(uint32_t seed) : random_(seed) {}

    Graph draw() {
        const int64_t axis = 0;
        const ValueId all = b_.binary(Op::Add, chain(), chain());
        const ValueId rows = b_.reshape(b_.binary(Op::Sub, all, chain()), shape());
        return finish(b_, {all, b_.reduce(Op::ReduceMax, rows, {&axis, 1}), b_.unary(Op::Neg, rows)});
    }

private:
    int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }

    /// Of all elements, in 1 to 4 axes.
    Shape shape() {
        std::vector<int64_t> extents(static_cast<size_t>(1 + below(4)), 1);
        for (const int64_t factor : {2, 2, 2, 3, 3})
            extents[static_cast<size_t>(below(static_cast<int64_t>(extents.size())))] *= factor;
        return Shape(extents);
    }
    ValueId chain() {
        const int64_t whole = std::array<int64_t, 4>{72, 36, 24, 12}[static_cast<size_t>(below(4))];
        ValueId v = b_.param({DType::I64, {whole, 1}, kCpu}, "x" + std::to_string(count_++));
        v = b_.broadcast(v, Shape({whole, kElements / whole}));
        for (int64_t steps = 1 + below(4); steps > 0; --steps) {
            const Shape now = shape();
            v = b_.reshape(v, now);
            const int64_t axis = below(now.rank());
            if (below(3) > 0)
                v = b_.add(Op::Flip, {v}, {1, axis});
            if (below(3) == 0) {
                std::vector<int64_t> axes(static_cast<size_t>(now.rank()));
                std::iota(axes.begin(), axes.end(), 0);
                std::ranges::shuffle(axes, random_);
                v = b_.permute(v, axes);
            }
        }
        return b_.reshape(v, Shape({kElements}));
    }

    GraphBuilder b_;
    std::mt19937 random_;
    int count_ = 0;
};

/// What is drawn for each seed, fused and lowered, beside the interpreter.
template <class Drawn>
void expect_right(uint32_t seeds) {
    for (uint32_t seed = 0; seed < seeds; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const Graph graph = Drawn(seed).draw();
        const auto inputs = test::random_inputs(graph);
        const auto expected = interpret(graph, inputs), got = test::run_lowered(graph, inputs, true);
        for (size_t i = 0; i < expected.size(); ++i)
            ASSERT_EQ(to_doubles(got[i]), to_doubles(expected[i])) << "result " << i;
    }
}

TEST(LowerClusters, ChainsOfViewsReadTheRightElements) {
    expect_right<Chains>(1500);
}

/// Normalization as users write it: rows less their greatest elements, in whatever axes what stands beside
/// them has, and these in others again. (A product with a number for each channel, between two reshapes, was
/// not read at the row that was reduced.)
class Normalizations {
public:
    explicit Normalizations(uint32_t seed) : random_(seed) {}

    Graph draw() {
        ValueId v = b_.reshape(b_.param({DType::I64, shape(kElements), kCpu}, "x"), shape(kElements));
        for (int64_t turns = 1 + below(2); turns > 0; --turns) {
            const ValueId most = greatest(v);
            const Shape between = below(2) == 0 ? shape_of(v) : shape(kElements);
            v = b_.binary(Op::Sub, b_.reshape(v, between), b_.reshape(most, between));
            for (int64_t steps = below(4); steps > 0; --steps)
                v = beside(b_.reshape(v, shape(kElements)));
            if (below(2) == 0)
                v = b_.reshape(v, shape(kElements));
        }
        return finish(b_, {v});
    }

private:
    int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }

    /// Of so many elements, in 1 to 5 axes; most in the order of their factors, so that shapes cut each
    /// other.
    Shape shape(int64_t elements) {
        std::vector<int64_t> extents(static_cast<size_t>(1 + below(5)), 1);
        const bool in_order = below(3) > 0;
        size_t at = 0;
        for (const int64_t factor : {2, 3, 2, 3, 2}) {
            if (elements % factor != 0)
                continue;
            elements /= factor;
            at = in_order ? std::min(at + static_cast<size_t>(below(2)), extents.size() - 1)
                          : static_cast<size_t>(below(static_cast<int64_t>(extents.size())));
            extents[at] *= factor;
        }
        return Shape(extents);
    }
    const Shape &shape_of(ValueId v) const { return b_.graph().type(v).shape; }

    /// Along some axes of v, and as broad as it again.
    ValueId greatest(ValueId v) {
        const Shape whole = shape_of(v);
        Shape kept = whole;
        std::vector<int64_t> axes;
        const int64_t first = below(whole.rank());
        for (int64_t d = first; d < whole.rank(); ++d)
            if (d == first || below(4) > 0) {
                axes.push_back(d);
                kept[static_cast<int>(d)] = 1;
            }
        ValueId rows = b_.reduce(Op::ReduceMax, v, axes);
        for (int64_t steps = below(3); steps > 0; --steps)
            rows = beside(b_.reshape(rows, shape(shape_of(rows).numel())));
        return b_.broadcast(b_.reshape(rows, kept), whole);
    }
    /// With a number for each place along some axes.
    ValueId beside(ValueId v) {
        const Shape whole = shape_of(v);
        Shape part = whole;
        for (int d = 0; d < part.rank(); ++d)
            if (below(2) == 0)
                part[d] = 1;
        const ValueId w = b_.param({DType::I64, part, kCpu}, "w" + std::to_string(count_++));
        return b_.binary(Op::Add, v, b_.broadcast(w, whole));
    }

    GraphBuilder b_;
    std::mt19937 random_;
    int count_ = 0;
};

TEST(LowerClusters, RowsAreReadWhereTheyAreReducedWhateverTheirAxesAre) {
    expect_right<Normalizations>(3000);
}

} // namespace
} // namespace lz
