// Products that read their operands through random views: the bits are those of the product of the operands
// copied, as matrices. (Vectors are left out: their products are sums in another order.)

#include "frontend/engine/engine.h"
#include "ir/graph/builder.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"
#include "tests/support/compare.h"
#include "tests/support/environment.h"
#include "tests/support/random/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace {

using namespace lz;
using namespace ir;
using Words = std::vector<int64_t>;

#if LAZULI_SANITIZE_ADDRESS || LAZULI_SANITIZE_THREAD
constexpr uint64_t kProducts = 60;
#else
constexpr uint64_t kProducts = 300;
#endif

class RandomViews {
public:
    RandomViews(test::Random &random, GraphBuilder &builder) : r_(random), b_(builder) {}

    /// A view of a parameter, of a rank from 2 to 5.
    ValueId make(DType dtype, const std::string &name) {
        Shape shape;
        for (int64_t d = r_.between(2, 4); d > 0; --d)
            shape.push_back(r_.between(1, 9));
        ValueId v = b_.param({dtype, shape, kCpu}, name);
        for (int64_t steps = r_.between(2, 7); steps > 0; --steps)
            v = step(v);
        while (shape_of(v).rank() > 5)
            v = merged(v);
        while (shape_of(v).rank() < 2)
            v = b_.reshape(v, {1, shape_of(v).numel()});
        return v;
    }

    /// A view of the shape: a permuted part of a larger parameter, some axes from the last element to the
    /// first, some the same element again and again.
    ValueId of_shape(DType dtype, const Shape &shape, const std::string &name) {
        Words axes(static_cast<size_t>(shape.rank()));
        std::iota(axes.begin(), axes.end(), 0);
        shuffle(axes);
        Shape larger, taken;
        Words starts, sizes, steps, back(axes.size()), flipped;
        for (size_t i = 0; i < axes.size(); ++i) {
            const int64_t extent = shape[static_cast<int>(axes[i])];
            back[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
            if (r_.chance(15)) { // repeated
                taken.push_back(1);
                larger.push_back(1);
                starts.push_back(0);
                steps.push_back(1);
            } else {
                const int64_t by = r_.chance(70) ? 1 : 2, start = r_.chance(70) ? 0 : 3;
                taken.push_back(extent);
                larger.push_back(start + (extent - 1) * by + 1);
                starts.push_back(start);
                steps.push_back(by);
            }
            sizes.push_back(taken[taken.rank() - 1]);
            if (r_.chance(15))
                flipped.push_back(static_cast<int64_t>(i));
        }
        ValueId v = b_.slice(b_.param({dtype, larger, kCpu}, name), starts, sizes, steps);
        v = flip(v, flipped);
        return b_.broadcast(b_.permute(v, back), shape);
    }

private:
    const Shape &shape_of(ValueId v) const { return b_.graph().type(v).shape; }

    void shuffle(Words &words) {
        for (size_t i = words.size(); i > 1; --i)
            std::swap(words[i - 1], words[static_cast<size_t>(r_.below(static_cast<int64_t>(i)))]);
    }
    ValueId flip(ValueId v, const Words &axes) {
        if (axes.empty())
            return v;
        Words words = {static_cast<int64_t>(axes.size())};
        words.insert(words.end(), axes.begin(), axes.end());
        return b_.add(Op::Flip, std::span(&v, 1), words);
    }

    ValueId step(ValueId v) {
        const Shape shape = shape_of(v);
        if (shape.rank() == 0)
            return v;
        const auto axis = static_cast<int>(r_.below(shape.rank()));
        switch (r_.below(7)) {
        case 0:
        case 1: {
            const int64_t size = r_.between(1, std::min<int64_t>(3, shape[axis])), by = r_.between(1, size),
                          begin = r_.below(shape[axis] - size + 1),
                          count = (shape[axis] - begin - size) / by + 1;
            if (shape.rank() >= 6 || shape.numel() / shape[axis] * count * size > 6000)
                return v;
            return b_.add(Op::Window, {v}, {axis, begin, count, size, by});
        }
        case 2: {
            Words axes(static_cast<size_t>(shape.rank()));
            std::iota(axes.begin(), axes.end(), 0);
            shuffle(axes);
            return b_.permute(v, axes);
        }
        case 3:
            return merged(v);
        case 4: {
            Words starts, sizes, steps;
            for (const int64_t extent : shape) {
                steps.push_back(r_.chance(80) ? 1 : 2);
                starts.push_back(r_.chance(70) ? 0 : r_.below(extent));
                const int64_t most = (extent - starts.back() + steps.back() - 1) / steps.back();
                sizes.push_back(r_.chance(70) ? most : r_.between(1, most));
            }
            return b_.slice(v, starts, sizes, steps);
        }
        case 5:
            return flip(v, {axis});
        default: {
            if (shape.rank() >= 5 || shape.numel() > 2000)
                return v;
            Shape with;
            for (int d = 0; d < shape.rank(); ++d) {
                if (d == axis)
                    with.push_back(1);
                with.push_back(shape[d]);
            }
            Shape repeated = with;
            repeated[axis] = r_.between(1, 3);
            return b_.broadcast(b_.reshape(v, with), repeated);
        }
        }
    }

    /// Two neighbours become one.
    ValueId merged(ValueId v) {
        const Shape shape = shape_of(v);
        if (shape.rank() < 2)
            return v;
        const auto first = static_cast<int>(r_.below(shape.rank() - 1));
        Shape to;
        for (int d = 0; d < shape.rank(); ++d)
            if (d == first + 1)
                to[d - 1] *= shape[d];
            else
                to.push_back(shape[d]);
        return b_.reshape(v, to);
    }

    test::Random &r_;
    GraphBuilder &b_;
};

/// Where the dimensions of the operands of a product are: those of a batch, the contracted ones of both, and
/// of each what is left.
struct Dims {
    Words batch[2], contract[2];
};

Words joined(const Dims &dims, DType dtype) {
    Words words;
    for (const Words *list : {&dims.batch[0], &dims.batch[1], &dims.contract[0], &dims.contract[1]}) {
        words.push_back(static_cast<int64_t>(list->size()));
        words.insert(words.end(), list->begin(), list->end());
    }
    words.push_back(static_cast<int64_t>(dtype));
    return words;
}

/// The operand as [batch, free, contracted], the contracted dimensions in the order of lhs.
ValueId matrix(GraphBuilder &b, ValueId v, const Dims &dims, size_t side) {
    const Shape shape = b.graph().type(v).shape;
    Words axes = dims.batch[side], extents(3, 1);
    std::vector<size_t> order(dims.contract[0].size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t i) { return dims.contract[0][i]; });
    for (const int64_t d : axes)
        extents[0] *= shape[static_cast<int>(d)];
    for (int d = 0; d < shape.rank(); ++d)
        if (std::ranges::find(dims.batch[side], d) == dims.batch[side].end() &&
            std::ranges::find(dims.contract[side], d) == dims.contract[side].end()) {
            axes.push_back(d);
            extents[1] *= shape[d];
        }
    for (const size_t i : order) {
        axes.push_back(dims.contract[side][i]);
        extents[2] *= shape[static_cast<int>(dims.contract[side][i])];
    }
    return b.reshape(b.permute(v, axes), {extents[0], extents[1], extents[2]});
}

bool gathers(const Graph &graph) {
    Graph copy = graph;
    const Program program = passes::compile(std::move(copy), engine::Engine::get().target()).program;
    return std::ranges::any_of(program.kernels, [](const Kernel &kernel) {
        return std::ranges::any_of(kernel.phases, [](const Phase &phase) {
            return phase.contraction &&
                   !(phase.contraction->lhs_digits.empty() && phase.contraction->rhs_digits.empty());
        });
    });
}

TEST(GatheredProducts, HaveTheBitsOfProductsOfCopies) {
    const auto count = static_cast<uint64_t>(test::number_from("LAZULI_FUZZ_PROGRAMS", kProducts));
    const auto first = static_cast<uint64_t>(test::number_from("LAZULI_FUZZ_SEED", 1));
    uint64_t gathered = 0, products = 0;
    for (uint64_t seed = first; seed < first + count; ++seed) {
        test::Random r(seed);
        const DType dtype = r.pick(std::vector<DType>{DType::F32, DType::F32, DType::F64, DType::I32});
        GraphBuilder b;
        RandomViews views(r, b);
        const bool swapped = r.chance(50);
        const ValueId x = views.make(dtype, "x");
        const Shape shape = b.graph().type(x).shape;
        Dims dims; // x is side 0 here
        Shape other;
        for (int d = 0; d < shape.rank(); ++d) {
            const int64_t kind = r.below(10);
            if (kind >= 6)
                continue;
            Words *const lists = kind < 1 ? dims.batch : dims.contract;
            lists[0].push_back(d);
            lists[1].push_back(other.rank());
            other.push_back(shape[d]);
        }
        for (int64_t n = r.between(1, 2); n > 0; --n)
            other.push_back(r.between(2, 20));
        const ValueId y = views.of_shape(dtype, other, "y");
        if (swapped) {
            std::swap(dims.batch[0], dims.batch[1]);
            std::swap(dims.contract[0], dims.contract[1]);
        }
        const ValueId sides[2] = {swapped ? y : x, swapped ? x : y};

        GraphBuilder copies;
        std::vector<ValueId> now(b.graph().values().size(), kNone);
        for (const Param &p : b.graph().params)
            now[p.value] = copies.clone_param(b.graph(), p);
        for (const Node &node : b.graph().nodes())
            now[b.graph().result(node)] =
                copies.clone_node(b.graph(), node, std::array{now[b.graph().operands(node)[0]]});
        ValueId m[2];
        for (size_t side = 0; side < 2; ++side) {
            m[side] = matrix(copies, now[sides[side]], dims, side);
            copies.graph().results.push_back(m[side]);
        }
        const Shape left = copies.graph().type(m[0]).shape, right = copies.graph().type(m[1]).shape;
        if (left[1] == 1 || right[1] == 1 || left.numel() * right[1] > 4'000'000)
            continue;
        ++products;
        const auto inputs = test::inputs_of(copies.graph());
        const auto matrices = test::run_compiled(copies.graph(), inputs);

        GraphBuilder plain;
        plain.param({dtype, left, kCpu}, "left");
        plain.param({dtype, right, kCpu}, "right");
        plain.graph().results.push_back(plain.add(Op::Dot, std::initializer_list<ValueId>{0, 1},
                                                  {1, 0, 1, 0, 1, 2, 1, 2, static_cast<int64_t>(dtype)}));
        const auto expected = test::run_compiled(plain.graph(), matrices);

        const Words words = joined(dims, dtype);
        b.graph().results.push_back(b.add(Op::Dot, sides, words));
        auto got = test::run_compiled(b.graph(), inputs);
        got[0].type.shape = expected[0].type.shape; // [batch.., m.., n..]
        const std::string difference = test::different_bits(got, expected);
        ASSERT_EQ(difference, "") << "seed " << seed << "\n" << print(b.graph());
        gathered += gathers(b.graph());
        if (seed % 100 == 0)
            engine::Engine::get().clear_caches();
    }
    EXPECT_GT(gathered, products / 4) << "of " << products << " products";
    RecordProperty("gathered", static_cast<int>(gathered));
    RecordProperty("products", static_cast<int>(products));
}

/// So fuzz tests are of them, too.
TEST(GatheredProducts, AreInRandomGraphs) {
    int gathered = 0;
    for (uint64_t seed = 1; seed <= 150; ++seed)
        gathered += gathers(test::random_graph(seed, {.products = 30}).graph);
    EXPECT_GE(gathered, 25);
    RecordProperty("gathered", gathered);
}

} // namespace
