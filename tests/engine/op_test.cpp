// Every elementwise row and a set of other graphs: compiled against interpreted, fused and not.
#include "ir/op.h"
#include "ir/text.h"
#include "tests/support/compare.h"

#include <gtest/gtest.h>

#include <string>

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

} // namespace
