#include "ir/kernel/builder.h"
#include "ir/math/expand.h"
#include "tests/support/kernel_run.h"

#include <gtest/gtest.h>

namespace lz::test {
namespace {

using namespace ir;

TEST(EmitterLoop, FusedChainGivesTheInterpretersBitsAtEveryLength) {
    for (const int64_t n : {1, 2, 15, 16, 17, 63, 64, 65, 100, 1000})
        expect_equal(elementwise({DType::F32, DType::F32, DType::F32}, n, 64,
                                 [](KernelBuilder &b, auto &x) { return b.add(b.mul(x[0], x[1]), x[2]); }),
                     "a * b + c");
}

TEST(EmitterLoop, LongBodiesGiveTheSameBitsAtEveryLength) {
    for (const int64_t n : {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000})
        for (const DType t : {DType::F32, DType::F64, DType::I64, DType::I16, DType::U8}) {
            const Launch l = elementwise({t, t}, n, 128, [&](KernelBuilder &b, auto &x) {
                KValue y = x[0];
                for (int i = 0; i < 20; ++i)
                    y = b.add(b.mul(y, x[1]), x[0]);
                return y;
            });
            expect_equal(l, "40 operations on " + std::string(name(t)));
        }
}

TEST(EmitterLoop, StreamingStoresGiveTheSameBitsWhereverARowBegins) {
    for (const int64_t n : {1, 15, 16, 100, 1000}) {
        Launch l = elementwise({DType::F32, DType::F32}, n, 64,
                               [](KernelBuilder &b, auto &x) { return b.mul(x[0], x[1]); });
        l.kernel.phases[0].on_cpu().stores = StoreTier::Streaming;
        expect_equal(l, "streaming");
    }
    for (const DType t : {DType::F32, DType::F64, DType::BF16, DType::U8}) {
        Launch l = rows(t, 7, 77, 77, [](KernelBuilder &, KValue x) { return x; });
        l.kernel.phases[0].on_cpu().stores = StoreTier::Streaming;
        expect_equal(l, "streaming rows");
    }
}

TEST(EmitterLoop, EveryInnerTierGivesTheSameBits) {
    for (const int64_t n : {1, 2, 7, 16}) {
        Launch l = rows(DType::F32, 9, n, n + 2, [](KernelBuilder &b, KValue x) { return b.mul(x, x); });
        expect_equal(l, "any");
        l.kernel.phases[0].on_cpu().inner = inner_tier(n);
        expect_equal(l, "own tier");
    }
}

/// Each operation of a class on each dtype that it is defined on, over corner values.
void expect_operation(KOp op, DType t) {
    const int operands = info(op).operands;
    std::vector<DType> inputs(static_cast<size_t>(operands), t);
    if (is_choice(op))
        inputs[0] = DType::Bool;
    const Launch l = elementwise(inputs, 517, 128, [&](KernelBuilder &b, auto &x) {
        x.resize(3, kNoValue);
        KValue y = x[1];
        if ((op == KOp::Div || op == KOp::Rem) && !is_float(t))
            y = b.select(b.eq(y, b.constant_int(t, 0)), b.constant_int(t, 3), y);
        const bool compares = info(op).cls == KOpClass::Compare;
        return b.emit(op, compares ? DType::Bool : t, x[0], y, x[2]);
    });
    expect_equal(l, (std::string(info(op).name) + " on " + std::string(name(t))).c_str());
}

constexpr DType kIntegers[] = {DType::U8, DType::I8, DType::I16, DType::I32, DType::I64};
constexpr DType kFloats[] = {DType::F32, DType::F64};

/// Of zeros of both signs, NaN and numbers; with constants on either side, too.
TEST(EmitterOps, ExtremesTellZerosApart) {
    const auto expect = [](DType t, auto operands) {
        for (const bool largest : {false, true}) {
            const Launch l = elementwise({t, t}, 517, 128, [&](KernelBuilder &b, auto &x) {
                for (KValue &v : x) // zeros of half of the numbers
                    v = b.select(b.lt(b.abs(v), b.constant(t, 1)), b.mul(v, b.constant(t, 0)), v);
                const auto [first, second] = operands(b, x);
                return largest ? b.maximum(first, second) : b.minimum(first, second);
            });
            expect_equal(l, std::string(largest ? "maximum of " : "minimum of ") + std::string(name(t)));
        }
    };
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    for (const DType t : {DType::F32, DType::F64}) {
        expect(t, [](KernelBuilder &, auto &x) { return std::pair(x[0], x[1]); });
        for (const double limit : {0.0, -0.0, 1.0, -2.5, double{HUGE_VAL}, -double{HUGE_VAL}, kNaN}) {
            expect(t, [&](KernelBuilder &b, auto &x) { return std::pair(x[0], b.constant(t, limit)); });
            expect(t, [&](KernelBuilder &b, auto &x) { return std::pair(b.constant(t, limit), x[1]); });
        }
    }
}

TEST(EmitterOps, EveryFloatOperationGivesTheInterpretersBits) {
    for (const KOp op : {KOp::Add,     KOp::Sub,     KOp::Mul,  KOp::Div,   KOp::Fma,  KOp::Neg,   KOp::Abs,
                         KOp::Minimum, KOp::Maximum, KOp::Sqrt, KOp::Floor, KOp::Ceil, KOp::Trunc, KOp::Rint,
                         KOp::Select,  KOp::Eq,      KOp::Ne,   KOp::Lt,    KOp::Le,   KOp::Gt,    KOp::Ge})
        for (const DType t : kFloats)
            expect_operation(op, t);
}

TEST(EmitterOps, EveryIntegerOperationGivesTheInterpretersBits) {
    for (const KOp op :
         {KOp::Add,     KOp::Sub, KOp::Mul, KOp::Div, KOp::Rem, KOp::Neg, KOp::Abs, KOp::Minimum,
          KOp::Maximum, KOp::And, KOp::Or,  KOp::Xor, KOp::Not, KOp::Shl, KOp::Shr, KOp::LShr,
          KOp::Select,  KOp::Eq,  KOp::Ne,  KOp::Lt,  KOp::Le,  KOp::Gt,  KOp::Ge})
        for (const DType t : kIntegers)
            if (t != DType::U8 || op != KOp::Abs)
                expect_operation(op, t);
    expect_operation(KOp::MulHiU, DType::I32);
}

TEST(EmitterOps, EveryBoolOperationGivesTheInterpretersBits) {
    for (const KOp op : {KOp::And, KOp::Or, KOp::Xor, KOp::Not, KOp::Select, KOp::Eq, KOp::Ne})
        expect_operation(op, DType::Bool);
}

TEST(EmitterOps, EveryCastGivesTheInterpretersBits) {
    for (int from = 0; from < kNumDTypes; ++from)
        for (int to = 0; to < kNumDTypes; ++to) {
            const Launch l =
                elementwise({static_cast<DType>(from)}, 517, 128, [&](KernelBuilder &b, auto &x) {
                    return b.emit(KOp::Cast, static_cast<DType>(to), x[0]);
                });
            expect_equal(l, (std::string(name(static_cast<DType>(from))) + " to " +
                             std::string(name(static_cast<DType>(to))))
                                .c_str());
        }
}

TEST(EmitterOps, ExpandedFunctionsGiveTheInterpretersBits) {
    for (const KOp op : {
#define LZ_MATH1(E, ...) KOp::E,
#define LZ_MATH2(E, ...) KOp::E,
#include "ir/math/math.def"
             KOp::Pow, KOp::Fmod})
        for (const DType t : kFloats) {
            Launch l = elementwise({t, t}, 300, 128, [&](KernelBuilder &b, auto &x) {
                return b.emit(op, t, x[0], info(op).operands == 2 ? x[1] : kNoValue);
            });
            expand_math(l.kernel);
            expect_equal(l, std::string(info(op).name) + " of " + std::string(name(t)));
        }
}

/// Element i has the bits of i, so that every number of the type is there.
TEST(EmitterOps, FunctionsOfHalvesGiveTheInterpretersBitsOfEveryNumber) {
    const struct {
        KOp op;
        DType half;
    } functions[] = {
#define LZ_MATH_HALF(E, f, function, half) {KOp::E, DType::half},
#include "ir/math/halves.def"
    };
    for (const auto &[op, half] : functions) {
        Launch l = elementwise({half}, 1 << 16, 128, [&](KernelBuilder &b, auto &) {
            const KValue bits = b.cast(b.axis_index(0), DType::I16);
            return b.cast(b.emit(op, DType::F32, b.cast(b.bitcast(bits, half), DType::F32)), half);
        });
        expand_math(l.kernel);
        expect_equal(l, std::string(info(op).name));
        // Of elements that are in memory, as most are.
        for (const int64_t n : {1, 300}) {
            Launch loaded = elementwise({half}, n, 128, [&](KernelBuilder &b, auto &x) {
                return b.cast(b.emit(op, DType::F32, b.cast(x[0], DType::F32)), half);
            });
            expand_math(loaded.kernel);
            expect_equal(loaded, std::string(info(op).name) + " of a buffer");
        }
    }
}

TEST(EmitterOps, WhatIsRarelyNeededGivesTheInterpretersBits) {
    // Beyond 2^17 are the corner values alone, some elements more, and nearly all of them.
    for (const double scale : {1e-3, 1.0, 1e5, 1e9})
        for (const int64_t n : {1, 17, 100, 1000}) {
            Launch l = elementwise({DType::F32, DType::F32}, n, 128, [&](KernelBuilder &b, auto &x) {
                const KValue y = b.mul(x[0], b.constant(DType::F32, scale));
                return b.add(b.sin(y), b.add(b.cos(x[1]), b.sin(b.cos(y))));
            });
            expand_math(l.kernel);
            expect_equal(l, "sines and cosines");
        }
}

TEST(EmitterOps, ScalingByPowersOfTwoRoundsOnceWithEveryVectorWidth) {
    for (const DType t : kFloats) {
        const double most = t == DType::F32 ? 250 : 2000;
        Launch l = elementwise({t}, 501, 128, [&](KernelBuilder &b, auto &x) {
            const KValue exponent = b.mul(b.cast(b.axis_index(0), t), b.constant(t, most / 250));
            const KValue bounded = b.minimum(b.maximum(b.abs(x[0]), b.constant(t, 0.25)), b.constant(t, 4.0));
            return b.scalb(bounded, b.sub(exponent, b.constant(t, most)));
        });
        expect_equal(l, "scalb on " + std::string(name(t)));
    }
}

TEST(EmitterOps, HalfTypesAreConvertedWithoutHardwareToo) {
    CpuIsa isa = isa_with(16);
    isa.features = "";
    for (const DType t : {DType::F16, DType::BF16}) {
        const Launch l = elementwise({DType::F32, t}, 517, 128, [&](KernelBuilder &b, auto &x) {
            return b.cast(b.add(x[0], b.cast(x[1], DType::F32)), t);
        });
        EXPECT_EQ(difference(l, run_interpreted(l), run_compiled(l, isa)), "");
    }
}

TEST(EmitterOps, ReinterpretedBitsStayAsTheyAre) {
    for (const auto &[from, to] :
         {std::pair{DType::F32, DType::I32}, {DType::I64, DType::F64}, {DType::BF16, DType::I16}})
        expect_equal(
            elementwise({from}, 100, 64, [&](KernelBuilder &b, auto &x) { return b.bitcast(x[0], to); }),
            "bitcast");
}

TEST(EmitterAccess, BroadcastStridedAndGatheredOperandsGiveTheInterpretersBits) {
    KernelBuilder b;
    const AxisId i = b.axis(), j = b.axis();
    const ArgId block = b.arg(ArgRole::Block), stride = b.arg(ArgRole::Stride), row = b.arg(ArgRole::Stride);
    const ArgId offset = b.arg(ArgRole::Offset);
    const uint16_t along = b.buffer(DType::F32, BufferMode::In),
                   across = b.buffer(DType::F32, BufferMode::In);
    const uint16_t index = b.buffer(DType::I64, BufferMode::In), table = b.buffer(DType::F32, BufferMode::In);
    const uint16_t out = b.buffer(DType::F32, BufferMode::Out),
                   mirrored = b.buffer(DType::F32, BufferMode::Out);
    const uint16_t scale = b.buffer(DType::F32, BufferMode::In);
    const ArgId size = b.arg(ArgRole::Extent);
    b.begin_phase({i, j}, true).on_cpu().block = block;
    const KValue x = b.load({along, kNoArg, {{i, StrideClass::Contiguous, kNoArg}}, {}, kNoValue});
    const KValue y = b.load({across,
                             offset,
                             {{j, StrideClass::Strided, stride}, {i, StrideClass::Contiguous, kNoArg}},
                             {},
                             kNoValue});
    const KValue k = b.load({index, kNoArg, {{j, StrideClass::Contiguous, kNoArg}}, {}, kNoValue});
    const KValue safe = b.rem(b.bit_and(k, b.constant_int(DType::I64, INT64_MAX)), b.arg_value(size));
    const KValue z = b.load({table, kNoArg, {}, {{safe, kNoArg}}, kNoValue});
    const KValue s = b.load({scale, kNoArg, {}, {}, kNoValue});
    const KValue r = b.mul(b.add(b.add(x, y), z), s);
    b.store(
        {out, kNoArg, {{i, StrideClass::Strided, row}, {j, StrideClass::Contiguous, kNoArg}}, {}, kNoValue},
        r);
    b.store({mirrored,
             kNoArg,
             {{j, StrideClass::Strided, stride}, {i, StrideClass::Contiguous, kNoArg}},
             {},
             kNoValue},
            y);
    b.end_phase();
    for (const int64_t n : {3, 16, 70}) {
        const int64_t m = 5;
        Launch l{b.kernel(), {}, {}, {m, m * n + 2, n, 37, m * n, m * n, 1}, 0};
        l.args = {m, n, 32, m, n, 2, 37};
        expect_equal(l, "mixed accesses");
    }
}

/// Rows and columns from the last one on; and turned, so that tiles are read backwards.
TEST(EmitterAccess, StridesBelowZeroReadAndWriteBackwards) {
    const auto backwards = [](DType t, StrideClass cls, int64_t m, int64_t n) {
        KernelBuilder b;
        const AxisId i = b.axis(), j = b.axis();
        const ArgId block = b.arg(ArgRole::Block), row = b.arg(ArgRole::Stride), up = b.arg(ArgRole::Stride),
                    left = b.arg(ArgRole::Stride), last = b.arg(ArgRole::Offset),
                    turned = b.arg(ArgRole::Stride), last_turned = b.arg(ArgRole::Offset);
        const uint16_t in = b.buffer(t, BufferMode::In), out = b.buffer(t, BufferMode::Out),
                       back = b.buffer(t, BufferMode::Out);
        b.begin_phase({i, j}, true).on_cpu().block = block;
        const KValue both = b.load({in, last, {{i, StrideClass::Strided, up}, {j, cls, left}}, {}, kNoValue});
        const KValue rows = b.load({in,
                                    last_turned,
                                    {{i, StrideClass::Contiguous, kNoArg}, {j, StrideClass::Strided, turned}},
                                    {},
                                    kNoValue});
        const KValue most = b.maximum(both, rows);
        b.store({out,
                 kNoArg,
                 {{i, StrideClass::Strided, row}, {j, StrideClass::Contiguous, kNoArg}},
                 {},
                 kNoValue},
                most);
        b.store({back, last, {{i, StrideClass::Strided, up}, {j, cls, left}}, {}, kNoValue}, most);
        b.end_phase();
        expect_equal(
            {b.take(), {m, n, 32, n, -n, -1, m * n - 1, -m, m * (n - 1)}, {}, {m * n, m * n, m * n}, 0},
            std::string(name(t)) + " backwards");
    };
    for (const DType t : {DType::F32, DType::I8, DType::F64, DType::Bool})
        for (const StrideClass cls : {StrideClass::Strided, StrideClass::Reversed})
            for (const auto &[m, n] : {std::pair{5, 7}, {40, 70}, {3, 256}})
                backwards(t, cls, m, n);
}

TEST(EmitterAccess, PredicatesMaskLoadsAndStores) {
    KernelBuilder b;
    const AxisId i = b.axis(), j = b.axis();
    const ArgId row = b.arg(ArgRole::Stride), pad = b.arg(ArgRole::Other), left = b.arg(ArgRole::Stride),
                last = b.arg(ArgRole::Offset);
    const uint16_t in = b.buffer(DType::F32, BufferMode::In), out = b.buffer(DType::F32, BufferMode::InOut);
    const uint16_t padded = b.buffer(DType::F32, BufferMode::Out);
    b.begin_phase({i, j}, true);
    const KValue from = b.sub(b.axis_index(j), b.arg_value(pad));
    const KValue inside = b.bit_and(b.ge(from, b.constant_int(DType::I64, 0)),
                                    b.lt(b.axis_index(j), b.sub(b.arg_value(row), b.arg_value(pad))));
    const KValue even =
        b.eq(b.bit_and(b.axis_index(i), b.constant_int(DType::I64, 1)), b.constant_int(DType::I64, 0));
    const Access whole{
        in, kNoArg, {{i, StrideClass::Strided, row}, {j, StrideClass::Contiguous, kNoArg}}, {}, inside};
    const KValue x = b.load(whole);
    const KValue first = b.load({in, kNoArg, {{i, StrideClass::Strided, row}}, {}, even});
    const KValue perhaps = b.load({in, kNoArg, {{i, StrideClass::Strided, row}}, {}, inside});
    const auto backwards = [&](KValue predicate) {
        return b.load(
            {in, last, {{i, StrideClass::Strided, row}, {j, StrideClass::Reversed, left}}, {}, predicate});
    };
    const KValue back = b.add(backwards(inside), backwards(even));
    const KValue sum = b.add(b.add(b.add(x, first), perhaps), back);
    b.store({out, kNoArg, {{i, StrideClass::Strided, row}, {j, StrideClass::Contiguous, kNoArg}}, {}, inside},
            sum);
    b.store(
        {padded, kNoArg, {{i, StrideClass::Strided, row}, {j, StrideClass::Contiguous, kNoArg}}, {}, even},
        sum);
    b.end_phase();
    for (const int64_t n : {4, 30, 100}) {
        const Launch l{b.kernel(), {6, n, n, 2, -1, n - 1}, {}, {6 * n, 6 * n, 6 * n}, 0};
        expect_equal(l, "predicates");
    }
}

/// Indices along the vector beside numbers near to them, far away, and at the ends of 64 bits.
TEST(EmitterAccess, IndicesAreComparedWithAnyNumber) {
    using Compare = KValue (KernelBuilder::*)(KValue, KValue);
    static constexpr Compare kComparisons[] = {&KernelBuilder::eq, &KernelBuilder::ne, &KernelBuilder::lt,
                                               &KernelBuilder::le, &KernelBuilder::gt, &KernelBuilder::ge};
    for (const ArgRole role : {ArgRole::Offset, ArgRole::Other}) {
        KernelBuilder b;
        const AxisId i = b.axis();
        const ArgId added = b.arg(role), limit = b.arg(ArgRole::Other), block = b.arg(ArgRole::Block);
        std::vector<uint16_t> out;
        for (size_t k = 0; k < 2 * std::size(kComparisons); ++k)
            out.push_back(b.buffer(DType::Bool, BufferMode::Out));
        b.begin_phase({i}, true).on_cpu().block = block;
        const KValue place = b.add(b.arg_value(added), b.axis_index(i)), number = b.arg_value(limit);
        for (size_t k = 0; k < out.size(); ++k) {
            const Compare compare = kComparisons[k / 2];
            b.store(contiguous(out[k], i),
                    k % 2 == 0 ? (b.*compare)(place, number) : (b.*compare)(number, place));
        }
        b.end_phase();
        const Kernel kernel = b.take();
        std::vector<int64_t> offsets = {0, -3, int64_t{1} << 40};
        if (role == ArgRole::Other) // of a tensor's indices, which do not wrap
            offsets.insert(offsets.end(), {INT64_MIN, INT64_MAX - 44});
        for (const int64_t offset : offsets)
            for (const int64_t number : {int64_t{0}, int64_t{7}, offset + 20, INT64_MIN, INT64_MAX})
                expect_equal({kernel, {45, offset, number, 16}, {}, std::vector<int64_t>(out.size(), 45), 0},
                             std::to_string(offset) + " and indices beside " + std::to_string(number));
    }
}

TEST(EmitterAccess, ScalarsArriveInTheirComputeType) {
    KernelBuilder b;
    const AxisId i = b.axis();
    const DType types[] = {DType::Bool, DType::U8, DType::I32, DType::F16, DType::F32, DType::F64};
    std::vector<uint32_t> slots;
    for (const DType t : types)
        slots.push_back(b.scalar(t));
    b.begin_phase({i}, true);
    std::vector<KValue> values;
    for (const uint32_t s : slots)
        values.push_back(b.scalar_value(s));
    for (const KValue v : values) {
        const uint16_t out = b.buffer(b.dtype(v), BufferMode::Out);
        b.store(contiguous(out, i), v);
    }
    b.end_phase();
    Launch l{b.take(),
             {20},
             {1, 200, static_cast<uint64_t>(-7), std::bit_cast<uint32_t>(1.5F), std::bit_cast<uint32_t>(2.5F),
              std::bit_cast<uint64_t>(3.5)},
             {},
             0};
    l.elements.assign(6, 20);
    expect_equal(l, "scalars");
}

TEST(EmitterChecks, AnIndexOutOfRangeIsReportedWithItsValueAndReadsTheFirstElement) {
    KernelBuilder b;
    const AxisId i = b.axis();
    const ArgId size = b.arg(ArgRole::Extent);
    const uint16_t index = b.buffer(DType::I64, BufferMode::In), table = b.buffer(DType::F32, BufferMode::In);
    const uint16_t out = b.buffer(DType::F32, BufferMode::Out);
    b.begin_phase({i}, true);
    b.set_source(42);
    const KValue k = b.check_index(b.load(contiguous(index, i)), b.arg_value(size));
    b.store(contiguous(out, i), b.load({table, kNoArg, {}, {{k, kNoArg}}, kNoValue}));
    b.end_phase();
    const Launch l{b.take(), {21, 10}, {}, {21, 10, 21}, 0};
    const auto module = codegen::cpu_loader()(codegen::compile_cpu(l.kernel, codegen::host_isa()));
    for (const int64_t bad : {-1, 3, 10}) {
        Outcome o = prepare(l, 1, false);
        for (int64_t e = 0; e < 21; ++e)
            o.buffers[0].as<int64_t>()[e] = e == 18 ? bad : e % 10;
        with_frame(l, o, [&](const KernelFrame &f, void *worker) {
            reinterpret_cast<PhaseEntry>(module->entry("phase0"))(&f, 0, 1, worker);
        });
        const bool faulty = bad != 3;
        EXPECT_EQ(o.fault, static_cast<int32_t>(faulty ? FaultCode::IndexOutOfRange : FaultCode::None));
        if (faulty) {
            EXPECT_EQ(o.fault_source, 42U);
            EXPECT_EQ(o.fault_value, bad);
            EXPECT_EQ(o.fault_limit, 10);
        }
        EXPECT_EQ(o.buffers[2].as<float>()[18], o.buffers[1].as<float>()[faulty ? 0 : 3]);
    }
}

TEST(EmitterChecks, EachCheckHasAFaultOfItsOwn) {
    const Launch l =
        elementwise({DType::I32, DType::I32, DType::I32}, 300, 128, [&](KernelBuilder &b, auto &x) {
            b.set_source(7);
            const KValue first = b.div(x[0], b.bit_or(x[1], b.constant_int(DType::I32, 1)));
            b.set_source(8);
            const KValue second = b.div(first, b.mul(x[1], b.constant_int(DType::I32, 0)));
            b.set_source(9);
            return b.div(second, b.mul(x[2], b.constant_int(DType::I32, 0)));
        });
    expect_equal(l, "three divisions");
    const auto none = static_cast<int32_t>(FaultCode::None),
               zero = static_cast<int32_t>(FaultCode::DivisionByZero);
    const Outcome o = run_compiled(l, codegen::host_isa());
    EXPECT_EQ(o.faults, (std::vector<int32_t>{none, zero, zero, none})) << "the last is of no check";
    EXPECT_EQ(o.fault_source, 8U);
    EXPECT_EQ(run_interpreted(l).faults, o.faults);
}

TEST(EmitterChecks, DivisionByZeroIsReportedAndDividesByOne) {
    for (const DType t : kIntegers) {
        const Launch l =
            elementwise({t, t}, 300, 128, [&](KernelBuilder &b, auto &x) { return b.div(x[0], x[1]); });
        expect_equal(l, "division by zero");
        EXPECT_EQ(run_compiled(l, codegen::host_isa()).fault,
                  static_cast<int32_t>(FaultCode::DivisionByZero));
    }
}

} // namespace
} // namespace lz::test
