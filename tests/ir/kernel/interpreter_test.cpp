/// The kernel interpreter against results worked out by hand, and the order of reductions that it promises.

#include "ir/interpreter/kernel.h"
#include "ir/kernel/builder.h"
#include "ir/kernel/verify.h"
#include "ir/math/expand.h"

#include "tests/support/samples/kernels.h"

#include <array>
#include <bit>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace lz::ir {
namespace {

struct Buffers {
    std::vector<void *> pointers;
    std::vector<int64_t> args;
    std::vector<uint64_t> scalars;
    Fault fault;

    void run(const Kernel &kernel, void *worker = nullptr) {
        verify(kernel);
        interpret(kernel, {pointers.data(), args.data(), scalars.data(), &fault}, worker);
    }
};

std::vector<float> random_floats(size_t n) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> out(n);
    for (float &v : out)
        v = normal(random);
    return out;
}

TEST(KernelInterpreter, SoftmaxOfRows) {
    for (const bool expand : {false, true}) {
        Kernel kernel = test::softmax();
        if (expand)
            expand_math(kernel);
        std::vector<float> in = random_floats(7 * 40), out(7 * 40), scratch(40);
        Buffers b{
            .pointers = {in.data(), out.data(), nullptr}, .args = {7, 33, 40, 0}, .scalars = {}, .fault = {}};
        b.run(kernel, scratch.data());
        for (size_t r = 0; r < 7; ++r) {
            double sum = 0;
            for (size_t c = 0; c < 33; ++c)
                sum += std::exp(static_cast<double>(in[r * 40 + c]));
            for (size_t c = 0; c < 33; ++c)
                EXPECT_NEAR(out[r * 40 + c], std::exp(static_cast<double>(in[r * 40 + c])) / sum, 1e-7);
            EXPECT_EQ(out[r * 40 + 33], 0) << "the padding of a row is not written";
        }
    }
}

TEST(KernelInterpreter, GathersThroughChecksAndPredicates) {
    std::vector<uint16_t> table(5 * 8), out(3 * 3);
    for (size_t i = 0; i < table.size(); ++i)
        table[i] = float_to_half(static_cast<float>(i));
    std::vector<int64_t> index = {4, 9, 0};
    // args: extents of the grid, rows, width (also out's stride), row stride, block, offset
    Buffers b{.pointers = {table.data(), index.data(), out.data()},
              .args = {3, 3, 5, 2, 8, 3, 1},
              .scalars = {std::bit_cast<uint32_t>(0.5F)},
              .fault = {}};
    out.assign(3 * 2 + 1, 0);
    b.pointers[2] = out.data();
    b.run(test::gather());
    EXPECT_EQ(half_to_float(out[0]), 33.5F);
    EXPECT_EQ(half_to_float(out[1]), 34.5F);
    EXPECT_EQ(half_to_float(out[2]), 1.5F) << "an index out of range reads row 0";
    EXPECT_EQ(half_to_float(out[4]), 1.5F);
    EXPECT_EQ(half_to_float(out[6]), 0.5F) << "where the predicate is false a load gives 0";
    EXPECT_EQ(b.fault.code.load(), static_cast<int32_t>(FaultCode::IndexOutOfRange));
    EXPECT_EQ(b.fault.value, 9);
    EXPECT_EQ(b.fault.limit, 5);
}

TEST(KernelInterpreter, ArgMaxKeepsTheFirstOfEqualsAndFindsNaN) {
    std::vector<float> in = {1, 5, 3, 5, 2, 2, 2, 2, 0, NAN, 9, NAN};
    std::vector<int64_t> where(3);
    std::vector<float> what(3);
    Buffers b{
        .pointers = {in.data(), where.data(), what.data()}, .args = {3, 4, 4}, .scalars = {}, .fault = {}};
    b.run(test::arg_max());
    EXPECT_EQ(where, (std::vector<int64_t>{1, 0, 1}));
    EXPECT_EQ(what[0], 5);
    EXPECT_TRUE(std::isnan(what[2]));
}

TEST(KernelInterpreter, ProductsSumOverK) {
    std::vector<float> lhs = {1, 2, 3, 4, 5, 6}, rhs = {1, -1, 2, -2, 3, -3}, out(4);
    Buffers b{.pointers = {lhs.data(), rhs.data(), out.data(), nullptr},
              .args = std::vector<int64_t>(13),
              .scalars = {},
              .fault = {}};
    b.args[0] = 2, b.args[1] = 2, b.args[2] = 3;
    b.run(test::product());
    EXPECT_EQ(out, (std::vector<float>{14, 0, 32, 0}));
}

/// Windows of 2 x 3 of two images of 4 x 5, in a row of memory with a number before, and turns of them.
TEST(KernelInterpreter, OperandsWithDigitsAreReadWhereTheyStand) {
    const int64_t image = 4 * 5;
    std::vector<float> x = random_floats(1 + 2 * image), w = random_floats(2 * 6 * 3), out(3 * 3 * 3);
    Buffers b{.pointers = {x.data(), w.data(), out.data(), nullptr},
              .args = {9, 3, 12},
              .scalars = {},
              .fault = {}};
    b.args.resize(3 + kContractionArgs + 1);
    // The image begins at 1; m is (y, x), k is (c, i, j), and of rhs (c, 5 - what is in the window).
    for (const int64_t arg : {1, 3, 5, 3, 1, 2, 20, 2, 5, 3, 1, 2, 18, 6, -3})
        b.args.push_back(arg);
    Kernel kernel = test::convolution();
    kernel.phases[0].contraction->rhs.offset = static_cast<ArgId>(kernel.args.size());
    kernel.args.push_back({ArgRole::Offset});
    b.args.push_back(15);
    b.run(kernel);
    for (int64_t y = 0; y < 3; ++y)
        for (int64_t at = 0; at < 3; ++at)
            for (int64_t n = 0; n < 3; ++n) {
                double sum = 0;
                for (int64_t c = 0; c < 2; ++c)
                    for (int64_t i = 0; i < 2; ++i)
                        for (int64_t j = 0; j < 3; ++j)
                            sum +=
                                static_cast<double>(
                                    x[static_cast<size_t>(1 + c * image + (y + i) * 5 + at + j)]) *
                                static_cast<double>(w[static_cast<size_t>((c * 6 + 5 - i * 3 - j) * 3 + n)]);
                EXPECT_EQ(out[static_cast<size_t>((y * 3 + at) * 3 + n)],
                          std::max(0.0F, static_cast<float>(sum)));
            }
}

/// A kernel out[0] = sum of in, in one loop.
Kernel sum(LoopOrder order, int64_t chunk) {
    KernelBuilder b("sum");
    const AxisId i = b.axis();
    const uint16_t in = b.buffer(DType::F32, BufferMode::In), out = b.buffer(DType::F32, BufferMode::Out);
    b.begin_phase({}, false);
    const uint32_t loop = b.begin_loop(i, order, chunk);
    b.reduce(ReduceOp::Add, b.load(test::dense(in, {test::contiguous(i)})));
    b.end_loop();
    b.store(test::dense(out, {}), b.loop_result(loop, 0));
    b.end_phase();
    return b.take();
}

float run_sum(const Kernel &kernel, std::vector<float> in) {
    float out = 0;
    Buffers b{
        .pointers = {in.data(), &out}, .args = {static_cast<int64_t>(in.size())}, .scalars = {}, .fault = {}};
    b.run(kernel);
    return out;
}

/// The order as kernel.h words it, written out for f32.
float sum_in_lanes(std::span<const float> in) {
    std::array<float, 64> lane;
    lane.fill(-0.0F);
    for (size_t k = 0; k < in.size(); ++k)
        lane[k % 64] += in[k];
    for (size_t h = 32; h != 0; h /= 2)
        for (size_t i = 0; i < h; ++i)
            lane[i] += lane[i + h];
    return lane[0];
}

TEST(KernelInterpreter, LanesFoldInTheDocumentedOrder) {
    for (const size_t n : {1, 63, 64, 65, 1000}) {
        const std::vector<float> in = random_floats(n);
        EXPECT_EQ(run_sum(sum(LoopOrder::Lanes, 0), in), sum_in_lanes(in)) << n;
    }
}

/// out[p] = the sum of elements p, p + parts and so on.
Kernel sums_of_parts(int64_t parts) {
    KernelBuilder b("sums_of_parts");
    const AxisId i = b.axis(), p = b.axis();
    const uint16_t in = b.buffer(DType::F32, BufferMode::In), out = b.buffer(DType::F32, BufferMode::Out);
    b.begin_phase({p}, false);
    const KValue end = b.arg_value(b.kernel().axes[i].extent);
    const uint32_t loop = b.begin_loop(i, LoopOrder::Lanes, 0, b.axis_index(p), end, parts);
    b.reduce(ReduceOp::Add, b.load(test::dense(in, {test::contiguous(i)})));
    b.end_loop();
    b.store(test::dense(out, {test::contiguous(p)}), b.loop_result(loop, 0));
    b.end_phase();
    return b.take();
}

TEST(KernelInterpreter, LoopsWithAStepShareTheLanesOfOneWithout) {
    for (const size_t parts : {2, 4, 32, 64})
        for (const size_t n : {0, 1, 2, 63, 64, 65, 130, 1000}) {
            const std::vector<float> in = random_floats(n);
            std::vector<float> out(parts);
            Buffers b{.pointers = {const_cast<float *>(in.data()), out.data()},
                      .args = {static_cast<int64_t>(n), static_cast<int64_t>(parts)},
                      .scalars = {},
                      .fault = {}};
            b.run(sums_of_parts(static_cast<int64_t>(parts)));
            for (size_t half = parts / 2; half != 0; half /= 2)
                for (size_t p = 0; p < half; ++p)
                    out[p] += out[p + half];
            const float all = sum_in_lanes(in);
            EXPECT_EQ(std::memcmp(&out[0], &all, sizeof all), 0) << n << " in " << parts;
        }
}

/// Chunk by chunk, and then the chunks' sums likewise, until one is left.
template <class Fold>
float sum_in_chunks(std::vector<float> level, size_t chunk, Fold fold) {
    while (level.size() > 1) {
        std::vector<float> next;
        for (size_t begin = 0; begin < level.size(); begin += chunk)
            next.push_back(fold(std::span(level).subspan(begin, std::min(chunk, level.size() - begin))));
        level = next;
    }
    return level[0];
}
float sum_in_turn(std::span<const float> in) {
    return std::accumulate(in.begin() + 1, in.end(), in[0]);
}

TEST(KernelInterpreter, ResultsOfChunksAreFoldedByTheSameRule) {
    for (const size_t n : {1, 7, 8, 9, 64, 65, 300, 1000, 5000})
        for (const size_t chunk : {2, 8, 100, 300}) {
            const std::vector<float> in = random_floats(n);
            EXPECT_EQ(run_sum(sum(LoopOrder::Lanes, static_cast<int64_t>(chunk)), in),
                      sum_in_chunks(in, chunk, sum_in_lanes))
                << n << " in " << chunk;
            EXPECT_EQ(run_sum(sum(LoopOrder::Sequential, static_cast<int64_t>(chunk)), in),
                      sum_in_chunks(in, chunk, sum_in_turn))
                << n << " in " << chunk;
        }
}

TEST(KernelInterpreter, SequentialFoldsFromTheFirstElement) {
    const std::vector<float> in = random_floats(1000);
    EXPECT_EQ(run_sum(sum(LoopOrder::Sequential, 0), in), std::accumulate(in.begin() + 1, in.end(), in[0]));
    EXPECT_TRUE(std::signbit(run_sum(sum(LoopOrder::Sequential, 0), {-0.0F}))) << "-0 alone sums to -0";
    EXPECT_TRUE(std::signbit(run_sum(sum(LoopOrder::Lanes, 0), {-0.0F})));
}

/// The only value of a one-element kernel that computes build(b).
template <class F>
uint64_t value_of(F build, bool expand) {
    KernelBuilder b;
    const AxisId i = b.axis();
    b.begin_phase({i}, true);
    const KValue v = build(b);
    const uint16_t out = b.buffer(b.dtype(v), BufferMode::Out);
    b.store(test::dense(out, {test::contiguous(i)}), v);
    b.end_phase();
    Kernel kernel = b.take();
    if (expand)
        expand_math(kernel);
    uint64_t result = 0;
    Buffers buffers{.pointers = {&result}, .args = {1}, .scalars = {}, .fault = {}};
    buffers.run(kernel);
    return result;
}

TEST(Philox, GivesThePublishedWords) {
    // Random123's known answers (kat_vectors): counter and key of zeros, and of ones where our counter has 64
    // bits.
    const auto word = [](int64_t counter, int64_t word, int64_t seed, bool expand) {
        return value_of(
            [&](KernelBuilder &b) {
                return b.emit(KOp::Philox, DType::I32, b.constant_int(DType::I64, counter),
                              b.constant_int(DType::I32, word), b.constant_int(DType::I64, seed));
            },
            expand);
    };
    const uint32_t zeros[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    for (int64_t w = 0; w < 4; ++w)
        for (const bool expand : {false, true})
            EXPECT_EQ(word(0, w, 0, expand), zeros[w]);
    for (int64_t i = 0; i < 100; ++i) // words beyond the known answers: both forms agree
        EXPECT_EQ(word(i * 0x123456789abcdef, i % 4, ~i * 0x1000000001, true),
                  word(i * 0x123456789abcdef, i % 4, ~i * 0x1000000001, false));
}

TEST(IntPow, WrapsAndInvertsOnlyUnits) {
    const auto power = [](DType t, int64_t x, int64_t y) {
        return value_of([&](KernelBuilder &b) { return b.pow(b.constant_int(t, x), b.constant_int(t, y)); },
                        true);
    };
    for (int x = -128; x < 128; ++x)
        for (const int y : {-128, -3, -2, -1, 0, 1, 2, 3, 7, 100, 127}) {
            uint8_t expected = 1;
            for (int i = 0; i < y; ++i)
                expected = static_cast<uint8_t>(expected * x);
            if (y < 0)
                expected = static_cast<uint8_t>(x == 1 ? 1 : x == -1 ? (y % 2 != 0 ? -1 : 1) : 0);
            EXPECT_EQ(power(DType::I8, x, y), expected) << x << " ^ " << y;
        }
    EXPECT_EQ(static_cast<int64_t>(power(DType::I64, -3, 39)), -4052555153018976267);
    EXPECT_EQ(static_cast<int64_t>(power(DType::I64, 3, INT64_MAX)), -6148914691236517205)
        << "3^(2^63 - 1) is the inverse of 3";
    EXPECT_EQ(power(DType::U8, 3, 200), 161U) << "3 has order 64 modulo 256, and 3^8 is 6561";
}

TEST(FloorDivision, RoundsDownAndKeepsTheDivisorsSign) {
    const auto eval = [](double x, double y, bool remainder) {
        return std::bit_cast<double>(value_of(
            [&](KernelBuilder &b) {
                const KValue v = b.constant(DType::F64, x), w = b.constant(DType::F64, y);
                return remainder ? b.remainder(v, w) : b.floor_div(v, w);
            },
            true));
    };
    EXPECT_EQ(eval(7, -2, false), -4);
    EXPECT_EQ(eval(7, -2, true), -1);
    EXPECT_EQ(eval(-7, 2, true), 1);
    EXPECT_EQ(eval(1, 0.1, false), 9) << "0.1 is a little more than a tenth";
    EXPECT_EQ(eval(5, 0, false), HUGE_VAL);
    EXPECT_TRUE(std::isnan(eval(5, 0, true)));
    EXPECT_TRUE(std::signbit(eval(-0.0, 3, false)));
    const auto ints = [](int64_t x, int64_t y, bool remainder) {
        return static_cast<int32_t>(value_of(
            [&](KernelBuilder &b) {
                const KValue v = b.constant_int(DType::I32, x), w = b.constant_int(DType::I32, y);
                return remainder ? b.remainder(v, w) : b.floor_div(v, w);
            },
            false));
    };
    EXPECT_EQ(ints(-7, 2, false), -4);
    EXPECT_EQ(ints(-7, 2, true), 1);
    EXPECT_EQ(ints(7, -2, true), -1);
    EXPECT_EQ(ints(INT32_MIN, -1, false), INT32_MIN);
    EXPECT_EQ(ints(INT32_MIN, -1, true), 0);
}

TEST(KernelInterpreter, DividingByZeroIsAFaultAndDividesByOne) {
    KernelBuilder b;
    const AxisId i = b.axis();
    const uint16_t out = b.buffer(DType::I32, BufferMode::Out);
    b.begin_phase({i}, true);
    b.set_source(11);
    b.store(test::dense(out, {test::contiguous(i)}),
            b.div(b.constant_int(DType::I32, 5), b.constant_int(DType::I32, 0)));
    b.end_phase();
    int32_t result = 0;
    Buffers buffers{.pointers = {&result}, .args = {1}, .scalars = {}, .fault = {}};
    buffers.run(b.take());
    EXPECT_EQ(result, 5);
    EXPECT_EQ(buffers.fault.code.load(), static_cast<int32_t>(FaultCode::DivisionByZero));
    EXPECT_EQ(buffers.fault.source, 11U);
}

} // namespace
} // namespace lz::ir
