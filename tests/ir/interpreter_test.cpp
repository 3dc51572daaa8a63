#include "ir/diagnostic.h"
#include "ir/graph/builder.h"
#include "ir/host/calls.h"
#include "ir/interpreter/interpreter.h"
#include "ir/interpreter/ref.h"
#include "ir/text/text.h"
#include "tests/support/random/elementwise.h"
#include "tests/support/random/graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

namespace lz::ir {
namespace {

using test::random_graph;
using test::RandomGraphOptions;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<HostTensor> run(const Graph &g, std::span<const int64_t> runtime = {}) {
    std::vector<HostTensor> inputs;
    for (const Param &p : g.params)
        inputs.push_back(materialize_param(g, p));
    return interpret(g, inputs, runtime);
}

/// The results of a graph whose text is given without its header.
std::vector<std::vector<double>> run_text(const std::string &params, const std::string &body) {
    std::vector<std::vector<double>> values;
    for (const HostTensor &t : run(parse_graph("graph @f(" + params + ") {\n" + body + "\n}\n")))
        values.push_back(to_doubles(t));
    return values;
}

/// One elementwise op on operands of one dtype (a selection's condition is bool).
std::vector<double> apply(Op op, DType dtype, const std::vector<std::vector<double>> &operands) {
    GraphBuilder b("f");
    std::vector<ValueId> ids;
    std::vector<HostTensor> inputs;
    for (const auto &values : operands) {
        const TensorType type{op == Op::Select && ids.empty() ? DType::Bool : dtype,
                              {static_cast<int64_t>(values.size())},
                              kCpu};
        ids.push_back(b.param(type, "x" + std::to_string(ids.size())));
        inputs.push_back(from_doubles(type, values));
    }
    b.graph().results.push_back(b.add(op, ids));
    return to_doubles(interpret(b.graph(), inputs)[0]);
}

void expect_same(const std::vector<double> &got, const std::vector<double> &want, const std::string &what) {
    ASSERT_EQ(got.size(), want.size()) << what;
    for (size_t k = 0; k < got.size(); ++k)
        EXPECT_TRUE(got[k] == want[k] || (std::isnan(got[k]) && std::isnan(want[k])))
            << what << " element " << k << ": " << got[k] << " instead of " << want[k];
}

ErrorKind failure_of(const Graph &g, std::string &message, std::span<const int64_t> runtime = {}) {
    try {
        run(g, runtime);
    } catch (const Failure &f) {
        message = to_string(f.loc()) + ": " + f.message();
        return f.kind();
    }
    ADD_FAILURE() << "nothing was thrown";
    return ErrorKind::Internal;
}

TEST(Interpreter, PhiloxGivesThePublishedVectors) {
    // Random123 1.14, tests/kat_vectors, philox4x32 10.
    const uint32_t f = 0xffffffff;
    EXPECT_EQ(ref::philox4x32_10({0, 0, 0, 0}, {0, 0}),
              (ref::PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(ref::philox4x32_10({f, f, f, f}, {f, f}),
              (ref::PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(ref::philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              (ref::PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Interpreter, PhiloxElementsAreWordsOfConsecutiveCounters) {
    const auto got = run_text("", R"(
  %a = philox {seed=0, offset=0} : i32[2,3]
  %b = philox {seed=-6148914691236517206, offset=4294967295} : i32[9]
  return %a, %b)");
    const ref::PhiloxBlock first = ref::philox4x32_10({0, 0, 0, 0}, {0, 0});
    const ref::PhiloxBlock second = ref::philox4x32_10({1, 0, 0, 0}, {0, 0});
    for (size_t k = 0; k < 6; ++k)
        EXPECT_EQ(got[0][k], static_cast<int32_t>(k < 4 ? first[k] : second[k - 4]));
    // The counter carries into its second word.
    const ref::PhiloxBlock third = ref::philox4x32_10({1, 1, 0, 0}, {0xaaaaaaaa, 0xaaaaaaaa});
    EXPECT_EQ(got[1][8], static_cast<int32_t>(third[0]));
}

TEST(Interpreter, RandomGraphsRunToFiniteNumbers) {
    for (uint64_t seed = 0; seed < 400; ++seed) {
        const test::RandomGraph random = random_graph(seed);
        const auto results = run(random.graph);
        ASSERT_EQ(results.size(), random.tolerance.size());
        for (size_t i = 0; i < results.size(); ++i) {
            EXPECT_EQ(results[i].type, random.graph.type(random.graph.results[i]));
            for (const double v : to_doubles(results[i]))
                ASSERT_TRUE(std::isfinite(v)) << "seed " << seed << "\n" << print(random.graph);
        }
    }
}

/// What random graphs know of a function without a line in their table: the domain, results and slope that
/// samples of its reference column say, here of functions that have a line.
TEST(Interpreter, RandomGraphsFindTheBoundsOfFunctionsThatTheyDoNotKnow) {
    std::vector<Op> ops{Op::Atan2, Op::Pow};
    for (const test::Function &f : test::kFunctions)
        if (f.kind == test::Function::Inexact)
            ops.push_back(f.op);
    for (const Op op : ops) {
        const test::Function f = test::sampled(op);
        const double step = (f.high - f.low) / 1000;
        for (int i = 0; i < 1000; ++i)
            for (const double y : {f.low, (f.low + f.high) / 2, f.high}) {
                const double x = f.low + i * step;
                const double now = test::reference(op, x, y), next = test::reference(op, x + step, y);
                EXPECT_GE(now, f.result_low) << name(op) << " at " << x;
                EXPECT_LE(now, f.result_high) << name(op) << " at " << x;
                EXPECT_LE(std::fabs(next - now), f.slope * step) << name(op) << " at " << x;
            }
    }
}

/// The graph with every f32 as f64: what the tolerances of random graphs are measured with.
std::vector<std::vector<double>> run_in_f64(const Graph &from) {
    GraphBuilder b("wide");
    std::vector<ValueId> map(from.values().size());
    std::vector<HostTensor> inputs;
    const auto widened = [](TensorType t) {
        t.dtype = t.dtype == DType::F32 ? DType::F64 : t.dtype;
        return t;
    };
    for (const Param &p : from.params) {
        const HostTensor narrow = materialize_param(from, p);
        map[p.value] = b.param(widened(narrow.type), p.name);
        inputs.push_back(from_doubles(widened(narrow.type), to_doubles(narrow)));
    }
    for (const Node &n : from.nodes()) {
        std::vector<ValueId> operands;
        for (const ValueId v : from.operands(n))
            operands.push_back(map[v]);
        AttrView attrs = from.attrs(n);
        std::vector<int64_t> structural(attrs.structural.begin(), attrs.structural.end());
        const auto &schema = info(n.op).attrs;
        if (!schema.empty() && schema[0].type == AttrType::DType &&
            structural[0] == static_cast<int64_t>(DType::F32))
            structural[0] = static_cast<int64_t>(DType::F64);
        if (n.op == Op::Dot)
            structural.back() = static_cast<int64_t>(DType::F64);
        const ValueId first = b.add(n.op, operands, structural, attrs.runtime);
        for (uint32_t k = 0; k < n.result_count; ++k)
            map[from.result(n, k)] = first + k;
    }
    for (const ValueId v : from.results)
        b.graph().results.push_back(map[v]);
    std::vector<std::vector<double>> values;
    for (const HostTensor &t : interpret(b.graph(), inputs))
        values.push_back(to_doubles(t));
    return values;
}

TEST(Interpreter, TolerancesOfRandomGraphsBoundWhatF32LosesToF64) {
    // Exact results need not be equal here, because the wide graph does not round them: only inexact ones are
    // compared, in graphs without anything that jumps.
    RandomGraphOptions options;
    options.dtypes = {DType::F32};
    options.ops = test::ops_of({Op::Exp, Op::Log, Op::Sin, Op::Tanh, Op::Sqrt, Op::Add, Op::Sub, Op::Mul,
                                Op::Div, Op::Pow, Op::ReduceSum, Op::Dot, Op::CumSum, Op::Permute, Op::Slice,
                                Op::Maximum, Op::ReduceMax});
    int compared = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) {
        const test::RandomGraph random = random_graph(seed, options);
        const auto narrow = run(random.graph);
        const auto wide = run_in_f64(random.graph);
        for (size_t i = 0; i < narrow.size(); ++i) {
            if (random.tolerance[i] == 0)
                continue;
            const auto values = to_doubles(narrow[i]);
            for (size_t k = 0; k < values.size(); ++k, ++compared)
                ASSERT_LE(std::fabs(values[k] - wide[i][k]), 4 * random.tolerance[i])
                    << "seed " << seed << ", result " << i << "\n"
                    << print(random.graph);
        }
    }
    EXPECT_GT(compared, 1000);
}

TEST(Interpreter, S66_integers_wrap_and_divide_by_the_rules) {
    expect_same(apply(Op::Add, DType::I8, {{127, -128, 100}, {1, -1, 100}}), {-128, 127, -56}, "i8 add");
    expect_same(apply(Op::Mul, DType::U8, {{16, 255}, {16, 255}}), {0, 1}, "u8 mul");
    expect_same(apply(Op::Neg, DType::I16, {{-32768, 5}}), {-32768, -5}, "i16 neg");
    expect_same(apply(Op::Abs, DType::I8, {{-128, -3, 3}}), {-128, 3, 3}, "i8 abs");
    expect_same(apply(Op::Div, DType::I32, {{7, -7, 7, -2147483648.0}, {2, 2, -2, -1}}),
                {3, -3, -3, -2147483648.0}, "i32 div");
    expect_same(apply(Op::FloorDiv, DType::I32, {{7, -7, 7, -6}, {2, 2, -2, 2}}), {3, -4, -4, -3},
                "i32 floor_div");
    expect_same(apply(Op::Remainder, DType::I32, {{7, -7, 7, -7}, {3, 3, -3, -3}}), {1, 2, -2, -1},
                "i32 remainder");
    expect_same(apply(Op::Fmod, DType::I32, {{7, -7, 7, -7}, {3, 3, -3, -3}}), {1, -1, 1, -1}, "i32 fmod");
    expect_same(apply(Op::Pow, DType::I32, {{2, -2, 1, -1, 0, 3, 2}, {10, 3, -5, -3, -1, -1, 31}}),
                {1024, -8, 1, -1, 0, 0, -2147483648.0}, "i32 pow");
    expect_same(apply(Op::Shl, DType::I8, {{1, 1, 1, 3}, {7, 8, -1, 6}}), {-128, 0, 0, -64}, "i8 shl");
    expect_same(apply(Op::Shr, DType::I8, {{-128, -128, 127, -1}, {7, 8, 9, -1}}), {-1, -1, 0, -1}, "i8 shr");
    expect_same(apply(Op::Shr, DType::U8, {{255, 255}, {7, 8}}), {1, 0}, "u8 shr");
    expect_same(apply(Op::Not, DType::U8, {{0, 255, 1}}), {255, 0, 254}, "u8 not");
    expect_same(apply(Op::Not, DType::Bool, {{0, 1}}), {1, 0}, "bool not");
}

TEST(Interpreter, S66_nan_goes_through_minimum_maximum_and_extremes) {
    for (const DType dtype : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
        expect_same(apply(Op::Minimum, dtype, {{kNaN, 1, 1, kInf}, {1, kNaN, 2, 5}}), {kNaN, kNaN, 1, 5},
                    "minimum");
        expect_same(apply(Op::Maximum, dtype, {{kNaN, 1, 1, -kInf}, {1, kNaN, 2, 5}}), {kNaN, kNaN, 2, 5},
                    "maximum");
    }
    const auto got = run_text("%x: f32[3,3] = dense<[1, nan, 3, 2, 2, 1, nan, 0, nan]>", R"(
  %0 = max %x {axes=[1]} : f32[3]
  %1 = min %x {axes=[1]} : f32[3]
  %2 = argmax %x {axis=1} : i64[3]
  %3 = argmin %x {axis=1} : i64[3]
  return %0, %1, %2, %3)");
    expect_same(got[0], {kNaN, 2, kNaN}, "max");
    expect_same(got[1], {kNaN, 1, kNaN}, "min");
    expect_same(got[2], {1, 0, 0}, "argmax");
    expect_same(got[3], {1, 2, 0}, "argmin");
}

TEST(Interpreter, S66_floats_convert_to_integers_by_saturation) {
    const auto got = run_text("%x: f64[7] = dense<[nan, inf, -inf, 300.9, -300.9, -1.5, 1e19]>", R"(
  %0 = cast %x : u8[7]
  %1 = cast %x : i8[7]
  %2 = cast %x : i64[7]
  %3 = cast %x : bool[7]
  %4 = cast %x : f16[7]
  return %0, %1, %2, %3, %4)");
    expect_same(got[0], {0, 255, 0, 255, 0, 0, 255}, "u8");
    expect_same(got[1], {0, 127, -128, 127, -128, -1, 127}, "i8");
    expect_same(got[2], {0, 0x1p63, -0x1p63, 300, -300, -1, 0x1p63}, "i64");
    expect_same(got[3], {1, 1, 1, 1, 1, 1, 1}, "bool");
    expect_same(got[4], {kNaN, kInf, -kInf, 301, -301, -1.5, kInf}, "f16");
}

TEST(Interpreter, HalvesRoundAfterEachOp) {
    // 1 + 2^-11 is half way between two f16 and goes to the even one; 65504 + 16 overflows.
    expect_same(apply(Op::Add, DType::F16, {{1, 1, 65504}, {0x1p-11, 0x1.8p-10, 16}}), {1, 1 + 0x1p-9, kInf},
                "f16");
    expect_same(apply(Op::Mul, DType::BF16, {{1 + 0x1p-7}, {1 + 0x1p-7}}), {1 + 0x1p-6}, "bf16");
}

TEST(Interpreter, FloatDivisionsKeepTheirCorners) {
    expect_same(apply(Op::FloorDiv, DType::F32, {{7, -7, 1, -1, 0, 6}, {2, 2, 0, 0, 0, -0.1f}}),
                {3, -4, kInf, -kInf, kNaN, -60}, "floor_div");
    expect_same(apply(Op::Remainder, DType::F64, {{-7, 7, 5, 1}, {3, -3, kInf, 0}}), {2, -2, 5, kNaN},
                "remainder");
    expect_same(apply(Op::Sign, DType::F32, {{-3, 0, 2, kNaN}}), {-1, 0, 1, 0}, "sign");
    expect_same(apply(Op::Round, DType::F32, {{0.5, 1.5, 2.5, -0.5, -1.5}}), {0, 2, 2, -0.0, -2}, "round");
}

TEST(Interpreter, NothingSumsToZeroAndMultipliesToOne) {
    const auto got =
        run_text("%x: f32[0,2] = random(1), %y: i32[2,0] = random(1), %z: f32[3,0] = random(1)", R"(
  %0 = sum %x {axes=[0]} : f32[2]
  %1 = prod %y {axes=[1]} : i32[2]
  %2 = max %x {axes=[1]} : f32[0]
  %3 = dot %z, %x {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[3,2]
  %4 = sum %x {axes=[]} : f32[0,2]
  return %0, %1, %2, %3, %4)");
    expect_same(got[0], {0, 0}, "sum");
    expect_same(got[1], {1, 1}, "prod");
    expect_same(got[2], {}, "max");
    expect_same(got[3], {0, 0, 0, 0, 0, 0}, "dot");
    expect_same(got[4], {}, "sum of no axes");
}

TEST(Interpreter, ScatterServesEqualPlacesInOrderAndAddsThemAll) {
    const auto got = run_text("%x: f32[3] = dense<[1, 1, 1]>, %i: i64[3] = dense<[2, 0, 2]>, "
                              "%s: f32[3] = dense<[5, 6, 7]>",
                              R"(
  %0 = scatter %x, %i, %s {axis=0, reduce=0} : f32[3]
  %1 = scatter %x, %i, %s {axis=0, reduce=1} : f32[3]
  return %0, %1)");
    expect_same(got[0], {6, 1, 7}, "put");
    expect_same(got[1], {7, 1, 13}, "add");
}

TEST(Interpreter, SortsAreStableWithNaNLastOrFirst) {
    const auto got = run_text("%x: f32[6] = dense<[2, nan, 1, 2, -inf, nan]>", R"(
  %v, %i = sort %x {axis=0, descending=0} : f32[6], i64[6]
  %w, %j = sort %x {axis=0, descending=1} : f32[6], i64[6]
  return %v, %i, %w, %j)");
    expect_same(got[0], {-kInf, 1, 2, 2, kNaN, kNaN}, "ascending");
    expect_same(got[1], {4, 2, 0, 3, 1, 5}, "ascending indices");
    expect_same(got[2], {kNaN, kNaN, 2, 2, 1, -kInf}, "descending");
    expect_same(got[3], {1, 5, 0, 3, 2, 4}, "descending indices");
}

TEST(Interpreter, ExtremesSoFarAreTheLastOfEqualsAndOfNaNs) {
    const auto got = run_text("%x: f32[7] = dense<[2, 1, 2, 3, nan, 9, nan]>", R"(
  %v, %i = cummax %x {axis=0} : f32[7], i64[7]
  %w, %j = cummin %x {axis=0} : f32[7], i64[7]
  return %v, %i, %w, %j)");
    expect_same(got[0], {2, 2, 2, 3, kNaN, kNaN, kNaN}, "largest");
    expect_same(got[1], {0, 0, 2, 3, 4, 4, 6}, "places of the largest");
    expect_same(got[2], {2, 1, 1, 1, kNaN, kNaN, kNaN}, "smallest");
    expect_same(got[3], {0, 1, 1, 1, 4, 4, 6}, "places of the smallest");
}

TEST(Interpreter, FaultsAreTypedAndNameTheLine) {
    std::string message;
    EXPECT_EQ(failure_of(parse_graph(R"(
graph @f(%x: f32[3] = random(1), %i: i64[2] = dense<[0, 3]>) {
  %0 = gather %x, %i {axis=0} : f32[2] rec(7) loc("a.cpp":31)
  return %0
})"),
                         message),
              ErrorKind::Index);
    EXPECT_EQ(message, "a.cpp:31: gather: index 3 is out of range for axis 0 with 3 elements");
    EXPECT_EQ(failure_of(parse_graph(R"(
graph @f(%x: i32[2] = dense<[1, 2]>, %y: i32[2] = dense<[1, 0]>) {
  %0 = remainder %x, %y : i32[2] loc("a.cpp":32)
  return %0
})"),
                         message),
              ErrorKind::State);
    EXPECT_EQ(message, "a.cpp:32: remainder: an integer was divided by zero");
    EXPECT_EQ(failure_of(parse_graph("graph @f(%x: f32[2]) {\n  return %x\n}"), message), ErrorKind::State);
    EXPECT_EQ(failure_of(parse_graph("graph @f() {\n  %0 = call {symbol=\"mine\"} : f32[2]\n  return %0\n}"),
                         message),
              ErrorKind::State);
    EXPECT_EQ(message.substr(0, message.find(';')), "<unknown>: call: No call is registered as `mine`");
}

TEST(Interpreter, CallsRunWhatIsRegistered) {
    register_call("interpreter_test.scale",
                  [](std::span<const CallTensor> in, std::span<const CallTensor> out) {
                      const auto *x = static_cast<const float *>(in[0].data);
                      auto *y = static_cast<float *>(out[0].data);
                      ASSERT_EQ(in[0].shape.size(), 2u);
                      EXPECT_EQ(in[0].strides[0], 3);
                      EXPECT_EQ(out[0].shape[0], 6);
                      for (int i = 0; i < 6; ++i)
                          y[i] = x[i] * static_cast<float>(*static_cast<const int64_t *>(in[1].data));
                  });
    const auto results = run(parse_graph(R"(
graph @f(%x: f32[2,3] = dense<[1, 2, 3, 4, 5, 6]>, %n: i64[1] = dense<[10]>) {
  %0 = add %x, %x : f32[2,3]
  %1 = reshape %0 : f32[6]
  %2 = call %0, %n {symbol="interpreter_test.scale"} : f32[6]
  %3 = add %1, %2 : f32[6]
  return %2, %3, %0
})"));
    expect_same(to_doubles(results[0]), {20, 40, 60, 80, 100, 120}, "result");
    expect_same(to_doubles(results[1]), {22, 44, 66, 88, 110, 132}, "read by what comes after");
    expect_same(to_doubles(results[2]), {2, 4, 6, 8, 10, 12}, "operand");

    register_call("interpreter_test.throw", [](auto, auto) { throw std::runtime_error("not on a Monday"); });
    std::string message;
    EXPECT_EQ(failure_of(parse_graph("graph @f() {\n  %0 = call {symbol=\"interpreter_test.throw\"} : "
                                     "f32[2] loc(\"a.cpp\":3)\n  return %0\n}"),
                         message),
              ErrorKind::State);
    EXPECT_EQ(message,
              "a.cpp:3: call: interpreter_test.throw: the registered function threw: not on a Monday");
}

TEST(Calls, NamesAreTakenOnceAndErrorsAreKeptByNumber) {
    const CallFn nothing = [](auto, auto) {};
    register_call("calls_test.once", nothing);
    EXPECT_NE(find_call("calls_test.once"), nullptr);
    EXPECT_EQ(find_call("calls_test.twice"), nullptr);
    EXPECT_THROW(register_call("calls_test.once", nothing), Failure);
    EXPECT_THROW(register_call("", nothing), Failure);
    EXPECT_THROW(register_call("calls_test.none", {}), Failure);
    EXPECT_NE(unknown_call("x").message().find("`calls_test.once`"), std::string::npos);
    const int64_t first = keep_call_error("first");
    EXPECT_EQ(call_error(first), "first");
    for (int i = 0; i < 300; ++i)
        (void)keep_call_error(std::to_string(i));
    EXPECT_NE(call_error(first).find("forgotten"), std::string::npos);
    EXPECT_EQ(call_error(first + 300), "299");
}

TEST(Interpreter, RuntimeWordsReplaceTheRecordedOnesAndAreChecked) {
    const Graph g = parse_graph(R"(
graph @f(%x: i32[4] = dense<[10, 11, 12, 13]>) {
  %0 = slice %x {starts=[0], sizes=[2], steps=[1]} : i32[2]
  %1 = constant {value=5} : i32[]
  %2 = add %0, %1 : i32[2]
  return %2
})");
    expect_same(to_doubles(run(g)[0]), {15, 16}, "as recorded");
    expect_same(to_doubles(run(g, std::vector<int64_t>{2, -1})[0]), {11, 12}, "with other words");
    std::string message;
    EXPECT_EQ(failure_of(g, message, std::vector<int64_t>{3, 0}), ErrorKind::Index);
}

TEST(Interpreter, RandomParametersAreExactInTheirDtypeAndInRange) {
    for (int dtype = 0; dtype < kNumDTypes; ++dtype) {
        GraphBuilder b("f");
        const TensorType type{static_cast<DType>(dtype), {1000}, kCpu};
        b.param(type, "x");
        b.graph().params[0].init = InitKind::Random;
        b.graph().params[0].seed = 3;
        const auto values = to_doubles(materialize_param(b.graph(), b.graph().params[0]));
        double sum = 0;
        for (const double v : values) {
            EXPECT_GE(v, 0);
            EXPECT_LT(v, is_float(type.dtype) ? 1 : type.dtype == DType::Bool ? 2 : 10);
            sum += v;
        }
        EXPECT_NEAR(sum / 1000, is_integer(type.dtype) ? 4.5 : 0.5, is_integer(type.dtype) ? 0.4 : 0.05);
    }
}

} // namespace
} // namespace lz::ir
