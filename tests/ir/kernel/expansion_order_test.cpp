/// Expansions are the same text whatever compiler built the library: C++ leaves the order of arguments open.
#include "ir/kernel/builder.h"
#include "ir/kernel/verify.h"
#include "ir/math/expand.h"
#include "ir/text/text.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace lz::ir {
namespace {

/// out[i] = f(x[i], y[i])
Kernel each(KOp op, DType dtype) {
    KernelBuilder b;
    const AxisId i = b.axis();
    const uint16_t x = b.buffer(dtype, BufferMode::In), y = b.buffer(dtype, BufferMode::In),
                   out = b.buffer(dtype, BufferMode::Out);
    const auto at = [&](uint16_t buffer) {
        return Access{buffer, kNoArg, {{i, StrideClass::Contiguous, kNoArg}}, {}, kNoValue};
    };
    b.begin_phase({i}, true);
    const KValue first = b.load(at(x)), second = b.load(at(y));
    b.store(at(out), b.emit(op, dtype, first, second));
    b.end_phase();
    return b.take();
}

TEST(ExpansionOrder, IsThatOfOperands) {
    constexpr KOp kOps[] = {
#define LZ_MATH1(E, f, ...) KOp::E,
#define LZ_MATH2(E, f, ...) KOp::E,
#include "ir/math/math.def"
        KOp::Pow,
        KOp::Fmod,
    };
    for (const KOp op : kOps)
        for (const DType dtype : {DType::F32, DType::F64}) {
            Kernel kernel = each(op, dtype);
            verify(kernel);
            expand_math(kernel);
            verify(kernel);
            const auto stored = static_cast<KValue>(kernel.instrs.size() - 1);
            ASSERT_EQ(kernel.instrs[stored].op, KOp::Store);
            std::vector<KValue> order = {0, 1};
            std::vector<bool> seen(kernel.instrs.size());
            seen[0] = seen[1] = true;
            const std::function<void(KValue)> see = [&](KValue v) {
                if (v == kNoValue || seen[v])
                    return;
                seen[v] = true;
                for (const KValue operand : kernel.instrs[v].operands)
                    see(operand);
                order.push_back(v);
            };
            see(stored);
            ASSERT_EQ(order.size(), kernel.instrs.size()) << "not needed:\n" << print(kernel);
            for (KValue v = 0; v < order.size(); ++v)
                ASSERT_EQ(order[v], v) << print(kernel);
        }
}

} // namespace
} // namespace lz::ir
