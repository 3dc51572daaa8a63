/// What is computed for few elements only gives the interpreter's bits, wherever it stands.
#include "ir/kernel/builder.h"
#include "ir/math/expand.h"
#include "tests/support/kernel_run.h"

#include <gtest/gtest.h>

namespace lz::test {
namespace {

using namespace ir;

/// Expects equal bits with vectors of some, none, and one element in the last of them.
template <class F>
void expect_choices(const std::vector<DType> &inputs, const std::string &what, F f) {
    for (const int64_t n : {1, 16, 33, 1000})
        expect_equal(elementwise(inputs, n, 128, f), what);
}

TEST(EmitterRarely, EveryTypeIsChosenLikeBySelect) {
    for (const DType t : {DType::Bool, DType::U8, DType::I16, DType::I32, DType::I64, DType::F32, DType::F64})
        expect_choices({DType::Bool, t, t}, std::string(name(t)), [&](KernelBuilder &b, auto &x) {
            if (t == DType::Bool)
                return b.rarely(x[0], b.bit_and(x[1], x[2]), b.bit_xor(x[1], x[2]));
            return b.rarely(x[0], b.maximum(x[1], x[2]), b.minimum(x[1], x[2]));
        });
}

TEST(EmitterRarely, OneInThePartOfAnotherAndValuesOfBoth) {
    expect_choices({DType::F32, DType::F32}, "nested", [](KernelBuilder &b, auto &x) {
        const auto c = [&](double v) { return b.constant(DType::F32, v); };
        const KValue shared = b.mul(x[0], x[1]), wide = b.cast(x[0], DType::F64);
        const KValue inner = b.rarely(b.gt(x[1], c(1)), b.cast(b.mul(wide, wide), DType::F32), shared);
        const KValue outer = b.rarely(b.gt(x[0], c(2)), b.add(inner, b.sqrt(b.abs(shared))), x[1]);
        const KValue beside = b.rarely(b.lt(x[0], c(-2)), b.sub(shared, x[1]), outer);
        return b.rarely(b.lt(x[1], c(-3)), beside, beside);
    });
}

TEST(EmitterRarely, AConditionThatIsTheSameForAllAndValuesThatAre) {
    KernelBuilder b;
    const AxisId i = b.axis(), j = b.axis();
    const ArgId row = b.arg(ArgRole::Stride);
    const uint16_t each = b.buffer(DType::F32, BufferMode::In), in = b.buffer(DType::F32, BufferMode::In),
                   out = b.buffer(DType::F32, BufferMode::Out);
    const uint32_t number = b.scalar(DType::F32);
    const auto at = [&](uint16_t buffer) {
        return Access{buffer,
                      kNoArg,
                      {{i, StrideClass::Strided, row}, {j, StrideClass::Contiguous, kNoArg}},
                      {},
                      kNoValue};
    };
    b.begin_phase({i, j}, true);
    const KValue x = b.load(at(in)), of_row = b.load(contiguous(each, i)), s = b.scalar_value(number);
    const KValue zero = b.constant(DType::F32, 0);
    const KValue far = b.rarely(b.gt(s, zero), b.div(s, b.add(s, s)), zero);
    const KValue by_row = b.rarely(b.gt(of_row, s), b.mul(of_row, far), b.neg(of_row));
    const KValue mixed = b.rarely(b.gt(x, by_row), b.sqrt(b.abs(of_row)), b.add(x, far));
    const KValue same = b.rarely(b.lt(of_row, zero), b.mul(x, mixed), b.sub(x, by_row));
    b.store(at(out), b.add(mixed, same));
    b.end_phase();
    for (const float value : {-1.5F, 0.5F})
        for (const int64_t n : {1, 16, 70}) {
            const Launch l{b.kernel(), {7, n, n}, {std::bit_cast<uint32_t>(value)}, {7, 7 * n, 7 * n}, 0};
            expect_equal(l, "the same for all");
        }
}

TEST(EmitterRarely, InLoopsAndBehindThem) {
    for (const LoopOrder order : {LoopOrder::Lanes, LoopOrder::Sequential})
        for (const int64_t n : {1, 5, 64, 200}) {
            KernelBuilder b;
            const AxisId r = b.axis(), i = b.axis();
            const ArgId step = b.arg(ArgRole::Stride);
            const uint16_t in = b.buffer(DType::F32, BufferMode::In),
                           out = b.buffer(DType::F32, BufferMode::Out);
            const auto zero = [&] { return b.constant(DType::F32, 0); };
            b.begin_phase({r}, false);
            const Access at{in,
                            kNoArg,
                            {{r, StrideClass::Strided, step}, {i, StrideClass::Contiguous, kNoArg}},
                            {},
                            kNoValue};
            const uint32_t first = b.begin_loop(i, order, chunk_of(order));
            const KValue x = b.load(at),
                         small = b.rarely(b.lt(b.abs(x), b.constant(DType::F32, 1e9)), x, zero());
            b.reduce(ReduceOp::Add, b.rarely(b.gt(small, zero()), b.mul(small, small), small));
            b.end_loop();
            const KValue sum = b.loop_result(first, 0);
            const KValue root = b.rarely(b.gt(sum, zero()), b.sqrt(sum), zero());
            const uint32_t second = b.begin_loop(i, order, chunk_of(order));
            const KValue y = b.load(at);
            b.reduce(ReduceOp::Max,
                     b.rarely(b.gt(y, root), b.mul(root, root), b.rarely(b.lt(root, zero()), b.neg(y), y)));
            b.end_loop();
            b.store(contiguous(out, r), b.add(root, b.loop_result(second, 0)));
            b.end_phase();
            const Launch l{b.take(), {9, n, n}, {}, {9 * n, 9}, 0};
            expect_equal(l, "rows of " + std::to_string(n));
        }
}

/// The floats around one, 50 on both sides.
KValue around(KernelBuilder &b, float middle) {
    const KValue step = b.cast(b.axis_index(0), DType::I32);
    const int64_t first = std::bit_cast<int32_t>(middle) - 50;
    return b.bitcast(b.add(step, b.constant_int(DType::I32, first)), DType::F32);
}

TEST(EmitterRarely, FunctionsAtTheBordersOfTheirUsualArguments) {
    for (const float border : {0x1p17F, -0x1p17F, 0x1p-126F, 50 * 0x1p-149F}) {
        const auto functions = [&](KernelBuilder &b, auto &x) {
            const KValue near = around(b, border);
            return b.add(b.sin(near), b.add(b.cos(near), b.mul(b.tan(near), b.sin(x[0]))));
        };
        Launch l = elementwise({DType::F32}, 101, 128, functions);
        expand_math(l.kernel);
        expect_equal(l, "around " + std::to_string(border));
    }
    for (const auto &[x, y] : {std::pair{0x1p14F, 1.0F},
                               {0x1p-7F, 2.0F},
                               {0x1p-7F, -2.0F},
                               {-2.0F, 14.0F},
                               {0x1p-126F, 0.1F},
                               {1.0F, 1e30F},
                               {-1.0F, 3.0F}}) {
        const auto functions = [&](KernelBuilder &b, auto &in) {
            const KValue p = b.pow(around(b, x), b.constant(DType::F32, y));
            return b.add(p, b.pow(in[0], in[1]));
        };
        Launch l = elementwise({DType::F32, DType::F32}, 101, 128, functions);
        expand_math(l.kernel);
        expect_equal(l, std::to_string(x) + " to the power of " + std::to_string(y));
    }
}

TEST(EmitterRarely, FunctionsOfHalves) {
    for (const DType t : {DType::F16, DType::BF16})
        for (const int64_t n : {33, 4000}) {
            const auto wide = [](KernelBuilder &b, KValue v) { return b.cast(v, DType::F32); };
            const auto functions = [&](KernelBuilder &b, auto &x) {
                const auto half = [&](KValue v) { return wide(b, b.cast(v, t)); };
                const KValue u = wide(b, x[0]), v = wide(b, x[1]), sum = half(b.add(u, v));
                const KValue s = half(b.sin(sum)), p = half(b.pow(half(b.abs(s)), v));
                return b.cast(b.mul(p, half(b.cos(half(b.mul(u, b.constant(DType::F32, 1000)))))), t);
            };
            Launch l = elementwise({t, t}, n, 128, functions);
            expand_math(l.kernel);
            expect_equal(l, std::string(name(t)));
        }
}

} // namespace
} // namespace lz::test
