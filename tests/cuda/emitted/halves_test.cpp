/// Packets of halves and of what few of their elements need, against the interpreter of Kernel IR: which
/// names the emitted text has where, by kernels of one defect each and by random ones.

#include "emitted/emitted.h"
#include "kernels.h"
#include "tests/support/cuda/ptx/machine.h"
#include "tests/support/environment.h"
#include "tests/support/random/mixed_kernels.h"

#include "ir/diagnostic.h"
#include "ir/text/text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace lz::test {
namespace {

using namespace ir;

class EmittedHalves : public testing::Test {
protected:
    void SetUp() override {
        if (!why_not_run().empty())
            GTEST_SKIP() << why_not_run();
    }
};

constexpr DType kHalves[] = {DType::F16, DType::BF16};

/// Every operation of pairs, of packets, of numbers that are the same for all, and of both; and one that is
/// none, between them.
TEST_F(EmittedHalves, HalvesAreComputedTwoAtATime) {
    for (const DType t : {DType::F16, DType::BF16})
        for (const int64_t n : {8000, 77}) {
            const auto build = [&](KernelBuilder &b, auto &in) {
                const auto half = [&](KValue x) { return b.cast(b.cast(x, t), DType::F32); };
                const KValue x = b.cast(in[0], DType::F32), y = b.cast(in[1], DType::F32),
                             c = b.constant(DType::F32, 0.25), s = half(b.constant(DType::F32, 0.3));
                KValue v = half(b.add(x, y));
                v = half(b.sub(b.constant(DType::F32, 1.5), v));
                v = half(b.mul(v, s));
                v = half(b.maximum(v, y));
                v = half(b.minimum(v, x));
                v = half(b.maximum(b.minimum(v, c), b.constant(DType::F32, -0.75)));
                v = half(b.neg(v));
                v = half(b.abs(v));
                v = half(b.exp(v));
                v = half(b.sub(v, x));
                return b.cast(b.mul(v, y), t);
            };
            const Launch l = scheduled(elementwise({t, t}, n, 64, build));
            expect_bits(l, std::string(name(t)) + ", " + std::to_string(n));
            const std::string text = cuda_text(l);
            for (const char *f :
                 {"add", "subtract", "multiply", "maximum", "minimum", "negate", "absolute", "to"})
                EXPECT_NE(text.find(std::string(f) + (t == DType::F16 ? "_halves(" : "_bfloats(")),
                          std::string::npos)
                    << f << "\n"
                    << text;
        }
}

/// A branch for all of its elements, and one for each behind it; of choices one after the other, of each.
TEST_F(EmittedHalves, PacketsAskOnceForWhatIsRarelyNeeded) {
    for (const DType t : {DType::F32, DType::BF16})
        for (const double scale : {1.0, 30.0, 1e30})
            for (const int64_t n : {8000, 77}) {
                const Launch l = scheduled(elementwise({t, t}, n, 64, [&](KernelBuilder &b, auto &in) {
                    const KValue x = b.mul(b.cast(in[0], DType::F32), b.constant(DType::F32, scale)),
                                 y = b.cast(in[1], DType::F32);
                    const KValue both = b.add(b.exp(x), b.sigmoid(b.sub(y, b.sin(x))));
                    return b.cast(b.mul(both, x), t);
                }));
                expect_bits(l, fmt::format("{} times {}, {}", name(t), scale, n));
                const std::string text = cuda_text(l);
                size_t choices = 0;
                for (size_t at = 0; (at = text.find("float most", at)) != std::string::npos; ++at)
                    ++choices;
                EXPECT_GE(choices, 3U) << text;
            }
}

/// Two outputs of [r, i]: f(builder, x[r, i], y[r, i], z[r]), all in f32, where x and z are of type t, y is
/// f32.
template <class F>
Launch two_results(DType t, int64_t n, F f) {
    KernelBuilder b;
    const AxisId r = b.axis(), i = b.axis();
    const ArgId step = b.arg(ArgRole::Stride);
    const uint16_t x = b.buffer(t, BufferMode::In), y = b.buffer(DType::F32, BufferMode::In),
                   z = b.buffer(t, BufferMode::In);
    const auto at = [&](uint16_t buffer) {
        return Access{buffer, kNoArg, {{r, StrideClass::Strided, step}, along(i)}, {}, kNoValue};
    };
    const auto f32 = [&](KValue v) { return b.cast(v, DType::F32); };
    b.begin_phase({r, i}, true);
    const std::pair<KValue, KValue> results =
        f(b, f32(b.load(at(x))), b.load(at(y)), f32(b.load(contiguous(z, r))));
    for (const KValue v : {results.first, results.second})
        b.store(at(b.buffer(b.dtype(v), BufferMode::Out)), v);
    b.end_phase();
    return {b.take(), {5, n, n}, {}, {5 * n, 5 * n, 5, 5 * n, 5 * n}, 0};
}

template <class F>
void expect_two_results(const std::string &what, F f) {
    for (const DType t : kHalves)
        for (const int64_t n : {33, 64, 2000})
            expect_bits(
                scheduled(two_results(t, n, [&](KernelBuilder &b, auto... x) { return f(t, b, x...); })),
                fmt::format("{}, {}, rows of {}", what, name(t), n));
}

/// As under autocast: one layer's result is stored as a half and is what the next layer reads, in f32.
TEST_F(EmittedHalves, WhatIsStoredAsAHalfIsReadAgainAsF32) {
    expect_two_results("read again", [](DType t, KernelBuilder &b, KValue x, KValue y, KValue z) {
        const KValue stored = b.cast(b.add(b.mul(x, y), z), t), again = b.cast(stored, DType::F32);
        return std::pair(stored, b.add(b.exp(again), y));
    });
    expect_two_results("stored behind a choice", [](DType t, KernelBuilder &b, KValue x, KValue y, KValue z) {
        const KValue stored = b.cast(b.mul(x, y), t);
        const KValue far = b.rarely(b.gt(y, b.constant(DType::F32, 1)), b.sqrt(b.abs(x)), z);
        return std::pair(stored, b.cast(b.sub(far, x), t));
    });
}

/// What is the same along a row is a word of two; what differs from element to element is none, also where a
/// loop over the elements has kept it for the next one.
TEST_F(EmittedHalves, NumbersOfOneElementAreNoWordForTwo) {
    expect_two_results("kept", [](DType t, KernelBuilder &b, KValue x, KValue y, KValue z) {
        const auto half = [&](KValue v) { return b.cast(b.cast(v, t), DType::F32); };
        const KValue own = half(b.mul(y, y)); // is kept behind the choice
        const KValue far = b.rarely(b.gt(y, b.constant(DType::F32, 0.5)), b.exp(x), x);
        const KValue sum = half(b.add(half(b.mul(far, own)), x));
        return std::pair(b.cast(b.mul(sum, own), t), b.cast(b.add(b.mul(x, z), own), t));
    });
    expect_two_results("of rows", [](DType t, KernelBuilder &b, KValue x, KValue, KValue z) {
        const auto half = [&](KValue v) { return b.cast(b.cast(v, t), DType::F32); };
        const KValue of_row = half(b.mul(z, z));
        return std::pair(b.cast(b.add(half(b.mul(x, of_row)), z), t), b.cast(b.sub(x, of_row), t));
    });
}

/// A comparison that a choice asks of all elements at once is still what others read.
TEST_F(EmittedHalves, AConditionOfSeveralChoicesIsWrittenForThem) {
    expect_two_results("shared", [](DType t, KernelBuilder &b, KValue x, KValue y, KValue z) {
        const KValue limit = b.constant(DType::F32, 1), near = b.le(x, limit), far = b.bit_not(near);
        const KValue first = b.rarely(far, b.exp(y), z), second = b.rarely(far, b.sqrt(b.abs(y)), first);
        return std::pair(b.cast(b.select(near, first, second), t), b.cast(second, t));
    });
    expect_two_results("of a limit", [](DType t, KernelBuilder &b, KValue x, KValue y, KValue z) {
        const auto half = [&](KValue v) { return b.cast(b.cast(v, t), DType::F32); };
        const KValue limit = b.constant(DType::F32, 0.25), below = b.lt(limit, x);
        const KValue most = half(b.select(below, limit, x));
        return std::pair(b.cast(b.select(below, y, z), t), b.cast(b.mul(most, x), t));
    });
}

/// Several choices in loops over a row, in the order of lanes or one after the other, and behind these loops.
TEST_F(EmittedHalves, ChoicesInLoopsAndBehindThem) {
    for (const DType t : {DType::F32, DType::F16, DType::BF16})
        for (const LoopOrder order : {LoopOrder::Lanes, LoopOrder::Sequential})
            for (const int64_t n : {1, 5, 64, 200, 1500}) {
                KernelBuilder b;
                const AxisId r = b.axis(), i = b.axis();
                const ArgId step = b.arg(ArgRole::Stride);
                const uint16_t in = b.buffer(t, BufferMode::In), out = b.buffer(t, BufferMode::Out);
                const auto half = [&](KValue v) { return b.cast(b.cast(v, t), DType::F32); };
                const Access at{in, kNoArg, {{r, StrideClass::Strided, step}, along(i)}, {}, kNoValue};
                b.begin_phase({r}, false);
                const KValue zero = b.constant(DType::F32, 0), one = b.constant(DType::F32, 1);
                const uint32_t first = b.begin_loop(i, order, chunk_of(order));
                const KValue x = b.cast(b.load(at), DType::F32),
                             small = b.rarely(b.lt(b.abs(x), b.constant(DType::F32, 1e9)), x, zero),
                             square = half(b.rarely(b.gt(small, one), b.mul(small, small), small));
                b.reduce(ReduceOp::Add, half(b.add(square, x)));
                b.end_loop();
                const KValue sum = half(b.loop_result(first, 0));
                const KValue root = half(b.rarely(b.gt(sum, one), b.sqrt(sum), zero));
                const uint32_t second = b.begin_loop(i, order, chunk_of(order));
                const KValue y = half(b.mul(b.cast(b.load(at), DType::F32), root));
                const KValue inner = b.rarely(b.bit_not(b.le(y, one)), b.neg(y), half(b.add(y, root)));
                b.reduce(ReduceOp::Max, b.rarely(b.gt(inner, root), b.mul(root, y), inner));
                b.end_loop();
                b.store(contiguous(out, r), b.cast(b.add(root, b.loop_result(second, 0)), t));
                b.end_phase();
                const Launch l = scheduled({b.take(), {9, n, n}, {}, {9 * n, 9}, 0});
                expect_bits(l, fmt::format("{} rows of {}", name(t), n));
            }
}

// --- random kernels
//
// LAZULI_FUZZ_PROGRAMS=n  how many (0: without end)
// LAZULI_FUZZ_SEED=s      the first seed (1)

/// Where a kernel's bits are not the interpreter's, or why it has none; empty where all is right.
std::string wrong(const Launch &l, uint64_t seed) {
    const Outcome oracle = run_interpreted(l, seed);
    try {
        for (const int shift : {0, 1})
            if (std::string found =
                    cuda_difference(l, oracle, run_cuda(l, {.shift = shift, .most_blocks = 3, .seed = seed}));
                !found.empty())
                return found + (shift == 0 ? ", aligned" : ", beside aligned addresses");
    } catch (const ptx::Fault &fault) {
        return fault.what();
    } catch (const std::exception &failure) { // what NVRTC says of the text
        return failure.what();
    }
    return "";
}

TEST_F(EmittedHalves, RandomKernelsOfMixedTypesGiveTheInterpretersBits) {
    const int64_t kernels = number_from("LAZULI_FUZZ_PROGRAMS", 60);
    const auto first = static_cast<uint64_t>(number_from("LAZULI_FUZZ_SEED", 1));
    int failures = 0;
    for (uint64_t seed = first; kernels == 0 || seed < first + static_cast<uint64_t>(kernels); ++seed) {
        const auto fails = [&](int most) { return wrong(scheduled(MixedKernel(seed, most).make()), seed); };
        if (fails(1000).empty())
            continue;
        int most = 0; // statements
        while (fails(most).empty())
            ++most;
        const Launch l = scheduled(MixedKernel(seed, most).make());
        ADD_FAILURE() << fmt::format("seed {}, {} statements: {}\n", seed, most, fails(most))
                      << print(l.kernel);
        if (++failures == 3)
            return;
    }
}

/// Only the text is made: whatever it reads is written in a block around it.
TEST(EmittedNames, AreReadWhereTheyAreKnownInRandomKernelsOfMixedTypes) {
    int choices = 0, pairs = 0;
    for (uint64_t seed = 1; seed <= 1000; ++seed) {
        try {
            const std::string text = cuda_text(scheduled(MixedKernel(seed).make()));
            choices += text.find("float most") != std::string::npos;
            pairs += text.find(".w[p] = ") != std::string::npos;
        } catch (const Failure &failure) {
            FAIL() << "seed " << seed << ": " << failure.message() << "\n"
                   << print(scheduled(MixedKernel(seed).make()).kernel);
        }
    }
    EXPECT_GT(choices, 10);
    EXPECT_GT(pairs, 10);
}

} // namespace
} // namespace lz::test
