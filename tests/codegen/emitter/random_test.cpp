#include "ir/math/expand.h"
#include "tests/support/kernel_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

namespace lz::test {
namespace {

using namespace ir;

/// How the position of a word in its stream comes from the axes r and i, where i is the last one and results
/// lie along it.
enum class Order { Along, Turned, EverySecond, Backwards, InGroups };
constexpr std::pair<Order, const char *> kOrders[] = {{Order::Along, "along"},
                                                      {Order::Turned, "turned"},
                                                      {Order::EverySecond, "every second"},
                                                      {Order::Backwards, "backwards"},
                                                      {Order::InGroups, "in groups"}};

struct Case {
    int64_t rows, columns;
    Order order = Order::Along;
    int64_t first = 0; ///< position of the first word
    int64_t offset = 7;
    int64_t seed = 0x123456789abcdef;
    DType result = DType::I32;
    bool sum = false; ///< of each row, along the vector
};

KValue position(KernelBuilder &b, Order order, AxisId r, AxisId i, KValue first, KValue step) {
    const auto c = [&](int64_t v) { return b.constant_int(DType::I64, v); };
    const KValue row = b.axis_index(r), column = b.axis_index(i);
    switch (order) {
    case Order::Along:
        return b.add(b.add(b.mul(row, step), column), first);
    case Order::Turned:
        return b.add(b.add(row, b.mul(column, step)), first);
    case Order::EverySecond:
        return b.add(b.add(b.mul(row, step), b.mul(column, c(2))), first);
    case Order::Backwards:
        return b.sub(b.add(b.mul(row, step), b.add(step, first)), column);
    case Order::InGroups:
        return b.add(b.add(b.mul(row, step), b.shr(column, c(1))), first);
    }
    return first;
}

Launch words(const Case &c) {
    KernelBuilder b;
    const AxisId r = b.axis(), i = b.axis();
    const ArgId step = b.arg(ArgRole::Stride), first = b.arg(ArgRole::Offset);
    const ArgId offset = b.arg(ArgRole::Other), seed = b.arg(ArgRole::Other);
    const uint16_t out = b.buffer(c.sum ? DType::I64 : c.result, BufferMode::Out);
    b.begin_phase(c.sum ? std::vector{r} : std::vector{r, i}, !c.sum);
    const uint32_t loop = c.sum ? b.begin_loop(i, LoopOrder::Lanes, 0) : 0;
    const KValue at = position(b, c.order, r, i, b.arg_value(first), b.arg_value(step));
    const KValue block = b.add(b.arg_value(offset), b.shr(at, b.constant_int(DType::I64, 2)));
    const KValue word = b.cast(b.bit_and(at, b.constant_int(DType::I64, 3)), DType::I32);
    const KValue drawn = b.emit(KOp::Philox, DType::I32, block, word, b.arg_value(seed));
    if (c.sum) {
        const uint32_t total = b.reduce(ReduceOp::Add, b.cast(drawn, DType::I64));
        b.end_loop();
        b.store(contiguous(out, r), b.loop_result(loop, total));
    } else {
        Access place = contiguous(out, i);
        place.strides.push_back({r, StrideClass::Strided, step});
        b.store(place, b.cast(drawn, c.result));
    }
    b.end_phase();
    const int64_t elements = c.sum ? c.rows : c.rows * (c.columns + 1);
    return {b.take(), {c.rows, c.columns, c.columns + 1, c.first, c.offset, c.seed}, {}, {elements}, 0};
}

std::string described(const Case &c) {
    return fmt::format("{}x{} words {} from {} as {}{}", c.rows, c.columns,
                       kOrders[static_cast<size_t>(c.order)].second, c.first, name(c.result),
                       c.sum ? ", summed" : "");
}
void expect_words(const Case &c) {
    expect_equal(words(c), described(c));
}
/// The arithmetic that an emitter takes which does not know the operation.
void expect_expanded(const Case &c) {
    Launch l = words(c);
    expand_math(l.kernel);
    expect_equal(l, described(c) + ", expanded");
}

TEST(EmitterRandom, NeighboursTakeTheWordsOfOneBlockWhereverTheyBegin) {
    for (const int64_t columns : {1, 4, 17, 33, 131})
        for (const int64_t first : {0, 1, 2, 3})
            expect_words({3, columns, Order::Along, first});
    expect_words({5, 257, Order::Along, 1001});
}

TEST(EmitterRandom, WordsAreTheSameInEveryOrderOfReading) {
    for (const auto &[order, name] : kOrders) {
        expect_words({4, 131, order, 6});
        expect_expanded({4, 131, order, 6});
    }
}

TEST(EmitterRandom, EveryDtypeTakesThem) {
    for (const DType t : {DType::Bool, DType::U8, DType::I8, DType::I16, DType::I64, DType::F16, DType::BF16,
                          DType::F32, DType::F64})
        expect_words({2, 131, Order::Along, 3, 0, 42, t});
}

TEST(EmitterRandom, CountersAndSeedsHave64Bits) {
    for (const int64_t offset : {int64_t{0xfffffffe}, INT64_MAX - 2, int64_t{-3}})
        expect_words({1, 67, Order::Along, 1, offset, offset});
    for (const int64_t seed : {int64_t{0}, int64_t{-1}, INT64_MIN})
        expect_words({1, 67, Order::Along, 0, 0, seed});
}

TEST(EmitterRandom, SumsOfWordsReadThemAlongTheVector) {
    for (const int64_t columns : {1, 16, 1000})
        expect_words({3, columns, Order::Along, 2, 0, 5, DType::I32, true});
}

/// Two registers of words are one of blocks; in other orders each lane has a block.
TEST(EmitterRandom, NeighboursShareABlock) {
    if (!codegen::cpu_jit_available())
        GTEST_SKIP() << "this build has no LLVM";
    const CpuIsa isa = isa_with(32);
    const int lanes = isa.vector_bytes / 4;
    for (const Order order : {Order::Along, Order::Turned}) {
        const std::string text =
            codegen::compile_cpu(words({3, 257, order}).kernel, isa, {.want_text = true}).text;
        const auto has = [&](int n) {
            return text.find(fmt::format("mul <{} x i64>", n)) != std::string::npos;
        };
        EXPECT_EQ(has(lanes / 2), order == Order::Along) << text;
        EXPECT_EQ(has(lanes), order == Order::Turned) << text;
    }
}

} // namespace
} // namespace lz::test
