// Every op at every dtype that it takes: compiled against interpreted.
#include "ir/graph/builder.h"
#include "ir/op.h"
#include "ir/text/text.h"
#include "tests/support/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace {

using namespace lz::ir;
using lz::test::check;

TEST(Ops, ATwoOperationChain) {
    const Graph graph = parse_graph(R"(lazuli 1
graph @main(%x: f32[1003] @cpu = random(1), %y: f32[1003] @cpu = random(2)) {
  %0 = mul %x, %y : f32[1003] @cpu
  %1 = add %0, %x : f32[1003] @cpu
  return %1
}
)");
    EXPECT_EQ(check(graph), "");
}

/// One row of elementwise.def at one dtype.
std::string check_row(Op op, DType dtype, const Shape &shape) {
    GraphBuilder b;
    std::vector<ValueId> operands;
    const OpInfo &row = info(op);
    for (int i = 0; i < row.min_operands; ++i) {
        const bool condition = row.rule == ElementwiseRule::Select && i == 0;
        ValueId v = b.param({condition ? DType::Bool : dtype, shape, kCpu}, "x" + std::to_string(i));
        b.graph().params.back().init = InitKind::Random;
        b.graph().params.back().seed = static_cast<uint64_t>(i) + 1;
        const bool divides = op == Op::Div || op == Op::FloorDiv || op == Op::Remainder || op == Op::Fmod;
        if (divides && i == 1 && is_integer(dtype)) // 0 is a fault
            v = b.binary(Op::Add, v, b.literal(dtype, 1));
        operands.push_back(v);
    }
    b.graph().results = {b.add(op, operands)};
    return check(b.graph(), 4);
}

TEST(Ops, EveryElementwiseRowAtEveryDtype) {
    for (int i = 0; i < static_cast<int>(Op::Cast); ++i) {
        const auto op = static_cast<Op>(i);
        for (int d = 0; d < kNumDTypes; ++d) {
            const auto dtype = static_cast<DType>(d);
            bool legal = true;
            switch (info(op).rule) {
            case ElementwiseRule::Numeric:
                legal = dtype != DType::Bool;
                break;
            case ElementwiseRule::Float:
            case ElementwiseRule::FloatTest:
                legal = is_float(dtype);
                break;
            case ElementwiseRule::Integer:
                legal = is_integer(dtype);
                break;
            case ElementwiseRule::Bits:
                legal = !is_float(dtype);
                break;
            default:
                break;
            }
            if (!legal)
                continue;
            EXPECT_EQ(check_row(op, dtype, {5, 67}), "") << name(op) << " at " << name(dtype);
        }
    }
}

TEST(Ops, EveryCast) {
    for (int from = 0; from < kNumDTypes; ++from)
        for (int to = 0; to < kNumDTypes; ++to) {
            GraphBuilder b;
            const ValueId x = b.param({static_cast<DType>(from), {131}, kCpu}, "x");
            b.graph().results = {b.cast(x, static_cast<DType>(to))};
            EXPECT_EQ(check(b.graph()), "") << from << " to " << to;
        }
}

// --- the ops that are no elementwise rows

using Words = std::vector<int64_t>;

/// The words of several lists of integers: each its length, then its elements.
Words lists(std::initializer_list<Words> all) {
    Words words;
    for (const Words &list : all) {
        words.push_back(static_cast<int64_t>(list.size()));
        words.insert(words.end(), list.begin(), list.end());
    }
    return words;
}

/// Starts of two axes are runtime words: only their count is structural.
Words with_starts(Words rest) {
    rest.insert(rest.begin(), 2);
    return rest;
}

/// One use of an op: what it reads is random, but indices.
struct Use {
    Op op;
    std::vector<Shape> operands;
    Words structural, runtime = {};
    int index = -1; ///< the operand that is indices into an axis of extent `extent`
    int64_t extent = 0;
    bool takes_bool = true;
};

std::vector<Use> uses() {
    std::vector<Use> all = {
        {Op::Reshape, {{6, 35}}, lists({{5, 42}})},
        {Op::Permute, {{5, 6, 37}}, lists({{2, 0, 1}})},
        {Op::Broadcast, {{5, 1}}, lists({{3, 5, 70}})},
        {Op::Slice, {{9, 90}}, with_starts(lists({{3, 20}, {2, 4}})), {1, 5}},
        {Op::Flip, {{5, 67}}, lists({{0, 1}})},
        {Op::Pad, {{5, 40}, {}}, lists({{1, 3}, {0, 40}})},
        {Op::Concat, {{5, 20}, {5, 47}, {5, 1}}, {1}},
        {Op::Window, {{5, 70, 3}}, {1, 1, 13, 9, 5}},
        {Op::Window, {{5, 70}}, {1, 0, 66, 5, 1}},
        {Op::UpdateSlice, {{9, 70}, {3, 20}}, with_starts(lists({{2, 3}})), {1, 5}},
        {Op::Dot, {{17, 33}, {33, 65}}, lists({{}, {}, {1}, {0}}), {}, -1, 0, false},
        {Op::Dot, {{3, 9, 20}, {3, 11, 20}}, lists({{0}, {0}, {2}, {2}}), {}, -1, 0, false},
    };
    for (const Op op : {Op::ReduceSum, Op::ReduceProd, Op::ReduceMax, Op::ReduceMin})
        for (const Words &axes : {Words{2}, Words{0}, Words{1}, Words{0, 2}, Words{0, 1, 2}})
            all.push_back(
                {op, {{3, 5, 67}}, lists({axes}), {}, -1, 0, op == Op::ReduceMax || op == Op::ReduceMin});
    for (const Op op : {Op::ArgMax, Op::ArgMin})
        for (const int64_t axis : {0, 1, 2})
            all.push_back({op, {{3, 5, 67}}, {axis}});
    for (const Op op : {Op::CumSum, Op::CumProd})
        for (const int64_t axis : {0, 1})
            all.push_back({op, {{5, 67}}, {axis}, {}, -1, 0, false});
    for (const Op op : {Op::CumMax, Op::CumMin})
        for (const int64_t axis : {0, 1})
            all.push_back({op, {{5, 67}}, {axis}});
    for (const int64_t axis : {0, 1})
        for (const int64_t descending : {0, 1})
            all.push_back({Op::Sort, {{5, 67}}, {axis, descending}});
    for (const int64_t axis : {0, 1})
        for (const int64_t count : {0, 1, 3, 5})
            all.push_back({Op::TopK, {{5, 67}}, {axis, count % 2, count}});
    for (const int64_t axis : {0, 1}) {
        all.push_back({Op::Gather, {{8, 8}, {8, 8}}, {axis}, {}, 1, 8});
        for (const int64_t adds : {0, 1})
            all.push_back({Op::Scatter, {{8, 8}, {8, 8}, {8, 8}}, {axis, adds}, {}, 1, 8, adds == 0});
    }
    return all;
}

/// 0 to extent - 1, each once along both axes.
ValueId latin_square(GraphBuilder &b, int64_t extent) {
    const Shape shape = {extent, extent};
    const ValueId sum = b.binary(Op::Add, b.iota(DType::I64, shape, 0), b.iota(DType::I64, shape, 1, 0, 3));
    return b.binary(Op::Remainder, sum, b.literal(DType::I64, static_cast<double>(extent)));
}

/// `words` go behind those of the use.
Graph graph_of(const Use &use, DType dtype, const Words &words = {}) {
    GraphBuilder b;
    std::vector<ValueId> operands;
    for (size_t i = 0; i < use.operands.size(); ++i) {
        if (static_cast<int>(i) == use.index) {
            operands.push_back(latin_square(b, use.extent));
            continue;
        }
        operands.push_back(b.param({dtype, use.operands[i], kCpu}, "x" + std::to_string(i)));
        b.graph().params.back().init = InitKind::Random;
        b.graph().params.back().seed = i + 1;
    }
    Words structural = use.structural;
    structural.insert(structural.end(), words.begin(), words.end());
    b.add(use.op, operands, structural, use.runtime);
    const Node &node = b.graph().node(b.last_node());
    for (uint32_t k = 0; k < static_cast<uint32_t>(info(use.op).results); ++k)
        b.graph().results.push_back(b.graph().result(node, k));
    return b.take();
}

TEST(Ops, EveryOtherOpAtEveryDtype) {
    for (const Use &use : uses())
        for (int d = 0; d < kNumDTypes; ++d) {
            const auto dtype = static_cast<DType>(d);
            if (use.op == Op::Dot) {
                for (int to = 0; to < kNumDTypes; ++to)
                    if (dtype == DType::Bool || !can_hold_products(static_cast<DType>(to), dtype))
                        EXPECT_THROW(graph_of(use, dtype, {to}), Failure) << name(dtype) << " " << to;
                    else
                        EXPECT_EQ(check(graph_of(use, dtype, {to})), "") << name(dtype) << " " << to;
                continue;
            }
            if (dtype == DType::Bool && !use.takes_bool) {
                EXPECT_THROW(graph_of(use, dtype), Failure) << name(use.op);
                continue;
            }
            EXPECT_EQ(check(graph_of(use, dtype)), "") << name(use.op) << " at " << name(dtype);
        }
}

TEST(Ops, EveryMakerAtEveryDtype) {
    for (int d = 0; d < kNumDTypes; ++d) {
        const auto dtype = static_cast<DType>(d);
        GraphBuilder b;
        b.graph().results = {b.constant(dtype, 1, {5, 67}), b.literal(dtype, 1, {67}),
                             b.literal(DType::I32, 5)};
        if (dtype == DType::Bool)
            EXPECT_THROW(b.iota(dtype, {5}, 0), Failure);
        else
            for (const int64_t axis : {0, 1})
                b.graph().results.push_back(b.iota(dtype, {5, 23}, axis, 3, 1));
        EXPECT_EQ(check(b.graph()), "") << name(dtype);
    }
    GraphBuilder b;
    b.graph().results = {b.add(Op::Philox, {}, {2, 5, 67, device_word(kCpu)}, {7, 3})};
    EXPECT_EQ(check(b.graph()), "");
}

/// What has no value on the host, or is a function of the user's, has tests of its own.
TEST(Ops, EveryOpIsHere) {
    const std::vector<Use> here = uses();
    for (int i = static_cast<int>(Op::Cast) + 1; i < static_cast<int>(Op::RecordEvent); ++i) {
        const auto op = static_cast<Op>(i);
        const bool maker = op == Op::Constant || op == Op::Literal || op == Op::Iota || op == Op::Philox;
        const bool elsewhere = op == Op::Transfer || op == Op::Call;
        EXPECT_TRUE(maker || elsewhere || std::ranges::any_of(here, [&](const Use &u) { return u.op == op; }))
            << name(op);
    }
}

} // namespace
