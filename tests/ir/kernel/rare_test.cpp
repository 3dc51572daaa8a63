// Which values of a kernel are computed for few elements only.
#include "ir/diagnostic.h"
#include "ir/kernel/builder.h"
#include "ir/kernel/facts/rare.h"
#include "ir/kernel/verify.h"
#include "ir/text/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lz::ir {
namespace {

using testing::HasSubstr;
using Values = std::vector<KValue>;

Values of(const RareParts &parts, KValue rarely) {
    const auto part = parts.of(rarely);
    return {part.begin(), part.end()};
}

/// One phase over one axis, f32 operands x and y.
struct RarePartsTest : testing::Test {
    KernelBuilder b;
    const AxisId i = b.axis(), j = b.axis();
    const uint16_t in = b.buffer(DType::F32, BufferMode::In), beside = b.buffer(DType::F32, BufferMode::In),
                   out = b.buffer(DType::F32, BufferMode::Out);
    KValue x = kNoValue, y = kNoValue, c = kNoValue;

    Access at(uint16_t buffer) const {
        return {buffer, kNoArg, {{i, StrideClass::Contiguous, kNoArg}}, {}, kNoValue};
    }
    void SetUp() override {
        b.begin_phase({i}, true);
        x = b.load(at(in));
        y = b.load(at(beside));
        c = b.gt(x, y);
    }
    RareParts finish(KValue stored) {
        b.store(at(out), stored);
        b.end_phase();
        verify(b.kernel());
        return RareParts(b.kernel());
    }
};

TEST_F(RarePartsTest, AreWhatNothingButTheFirstValueNeeds) {
    const KValue wide = b.cast(x, DType::F64), square = b.mul(wide, wide),
                 narrow = b.cast(square, DType::F32), sum = b.add(x, y), both = b.mul(narrow, sum);
    const KValue r = b.rarely(c, both, sum);
    const RareParts parts = finish(r);
    EXPECT_EQ(of(parts, r), (Values{wide, square, narrow, both}));
    for (const KValue v : {x, y, c, sum, r})
        EXPECT_FALSE(parts.only_for(v)) << v;
}

TEST_F(RarePartsTest, ValuesOfTwoAreComputedForAll) {
    const KValue shared = b.mul(x, y), one = b.neg(shared), two = b.abs(shared);
    const KValue first = b.rarely(c, one, x), second = b.rarely(b.bit_not(c), two, first);
    const RareParts parts = finish(second);
    EXPECT_EQ(of(parts, first), Values{one});
    EXPECT_EQ(of(parts, second), Values{two});
    EXPECT_FALSE(parts.only_for(shared));
}

TEST_F(RarePartsTest, OneMayStandInThePartOfAnother) {
    const KValue deep = b.mul(x, y), both = b.add(x, y), inner = b.rarely(b.lt(x, y), deep, both),
                 outer = b.neg(inner);
    const KValue r = b.rarely(c, outer, x);
    const RareParts parts = finish(r);
    EXPECT_EQ(of(parts, inner), Values{deep});
    EXPECT_EQ(of(parts, r), (Values{both, both + 1, inner, outer})) << "and the inner one's condition";
}

TEST_F(RarePartsTest, AFirstValueThatIsReadAgainIsForAll) {
    const KValue twice = b.mul(x, y), r = b.rarely(c, twice, twice);
    const KValue condition = b.gt(r, y), flag = b.rarely(condition, condition, c);
    const RareParts parts = finish(b.select(flag, r, x));
    EXPECT_TRUE(of(parts, r).empty() && of(parts, flag).empty());
    EXPECT_FALSE(parts.only_for(twice) || parts.only_for(condition));
}

TEST_F(RarePartsTest, LoadsChecksAndDivisionsThatMayFaultStayWhereTheyAre) {
    const KValue word = b.bitcast(x, DType::I32), known = b.constant_int(DType::I32, 3),
                 safe = b.div(word, known), checked = b.check_nonzero(word), quotient = b.div(safe, checked),
                 loaded = b.load(at(in)), all = b.add(b.bitcast(quotient, DType::F32), loaded);
    const KValue r = b.rarely(c, all, y);
    const RareParts parts = finish(r);
    EXPECT_FALSE(parts.only_for(checked) || parts.only_for(loaded) || parts.only_for(word));
    EXPECT_TRUE(parts.only_for(safe) && parts.only_for(quotient) && parts.only_for(all));
}

TEST_F(RarePartsTest, BoundsReductionsPredicatesAndIndicesNeedTheirValuesAlways) {
    const auto index = [&](KValue v) { return b.cast(v, DType::I64); };
    const KValue bound = index(b.abs(x)), reduced = b.mul(x, x), outside = b.mul(x, y),
                 predicate = b.lt(x, y), place = b.check_index(index(y), b.arg_value(0));
    const uint32_t loop = b.begin_loop(j, LoopOrder::Sequential, 0, kNoValue, bound);
    const KValue inside = b.add(x, y), chosen = b.rarely(c, b.mul(inside, outside), inside),
                 element = b.rarely(c, b.neg(chosen), reduced);
    b.reduce(ReduceOp::Add, element);
    b.end_loop();
    Access gather{in, kNoArg, {}, {{place, kNoArg}}, predicate};
    const KValue all = b.add(b.add(b.cast(bound, DType::F32), b.load(gather)), b.cast(predicate, DType::F32));
    const KValue r = b.rarely(c, b.add(b.add(all, outside), b.add(reduced, b.loop_result(loop, 0))), x);
    const RareParts parts = finish(r);
    for (const KValue v : {bound, reduced, outside, predicate, place, element, inside})
        EXPECT_FALSE(parts.only_for(v)) << v;
    EXPECT_TRUE(parts.only_for(all) && parts.only_for(chosen));
}

TEST(RareParts, StandInTheOrderOfTheRegionHoweverTheyAreNumbered) {
    const std::string text = R"(lazuli 1
kernel @k {
  args a0: extent
  buffers b0: in f32, b1: out f32
  axes i0: a0
  phase [i0] vector {
    %6 = load b0[i0] : f32
    %5 = neg %6 : f32
    %4 = mul %5, %5 : f32
    %3 = neg %4 : f32
    %2 = lt %6, %6 : bool
    %1 = rarely %2, %3, %6 : f32
    %0 = store %1, b1[i0] : f32
  }
}
)";
    const Kernel kernel = parse_kernel(text);
    verify(kernel);
    EXPECT_THAT(print(kernel), HasSubstr("%1 = rarely %2, %3, %6 : f32"));
    EXPECT_EQ(print(parse_kernel(print(kernel))), print(kernel));
    EXPECT_EQ(of(RareParts(kernel), 1), (Values{5, 4, 3}));
}

TEST(RareParts, TheConditionIsABool) {
    const std::string text = R"(lazuli 1
kernel @k {
  args a0: extent
  buffers b0: in f32, b1: out f32
  axes i0: a0
  phase [i0] vector {
    %0 = load b0[i0] : f32
    %1 = rarely %0, %0, %0 : f32
    store %1, b1[i0] : f32
  }
}
)";
    try {
        verify(parse_kernel(text));
        ADD_FAILURE() << "no failure";
    } catch (const Failure &failure) {
        EXPECT_THAT(failure.message(), HasSubstr("bool"));
    }
}

} // namespace
} // namespace lz::ir
