#include "ir/graph/verify.h"
#include "passes/simplify/simplify.h"

#include "ir/interpreter/interpreter.h"
#include "ir/text/text.h"
#include "passes/simplify/eliminate_dead.h"
#include "tests/support/random/graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <sstream>

namespace lz::passes {
namespace {

using namespace ir;

struct Case {
    const char *rule;
    const char *body;     ///< of a graph over the parameters below; its last value is the result
    const char *expected; ///< ops that are left after dead ones are gone, in order
};

// Parameters of every case: floats x, y f32[2,3], h f16[2,3], d f64[2,3]; integers i, j i32[2,3], s i16[2,3];
// truth c bool[2,3]; w i64[2,3]; u f32[2,1,3]; e f32[0,3].
constexpr const char *kParams =
    "%x: f32[2,3] @cpu, %y: f32[2,3] @cpu, %h: f16[2,3] @cpu, %d: f64[2,3] @cpu, %i: i32[2,3] @cpu, %j: "
    "i32[2,3] @cpu, "
    "%s: i16[2,3] @cpu, %c: bool[2,3] @cpu, %w: i64[2,3] @cpu, %u: f32[2,1,3] @cpu, %e: f32[0,3] @cpu";

constexpr Case kCases[] = {
    {"fold-arithmetic",
     "%0 = literal {value=3} : f32[] %1 = literal {value=0.1} : f32[] %2 = div %1, %0 : f32[] "
     "%3 = sqrt %2 : f32[] %4 = mul %x, %3 : f32[2,3]",
     "literal mul"},
    {"fold-arithmetic",
     "%0 = literal {value=7} : i32[] %1 = literal {value=-2147483648} : i32[] "
     "%2 = sub %1, %0 : i32[] %3 = minimum %i, %2 : i32[2,3]",
     "literal minimum"},
    {"fold-rounding", "%0 = literal {value=2.5} : f32[] %1 = round %0 : f32[] %2 = add %x, %1 : f32[2,3]",
     "literal add"},
    {"fold-comparison",
     "%0 = literal {value=2.5} : f32[] %1 = literal {value=3} : f32[] %2 = lt %0, %1 : bool[] "
     "%3 = xor %c, %2 : bool[2,3]",
     "literal xor"},
    {"fold-bits", "%0 = literal {value=5} : i32[] %1 = not %0 : i32[] %2 = xor %i, %1 : i32[2,3]",
     "literal xor"},
    {"fold-cast", "%0 = literal {value=300.7} : f32[] %1 = cast %0 : i16[] %2 = add %s, %1 : i16[2,3]",
     "literal add"},
    {"view-of-literal",
     "%0 = literal {value=2.5} : f32[] %1 = broadcast %0 : f32[3,2] "
     "%2 = permute %1 {axes=[1,0]} : f32[2,3] %3 = add %x, %2 : f32[2,3]",
     "literal add"},
    {"mul-one", "%0 = literal {value=1} : f32[] %1 = mul %0, %x : f32[2,3]", ""},
    {"div-one", "%0 = literal {value=1} : f32[] %1 = div %x, %0 : f32[2,3]", ""},
    {"div-power-of-two", "%0 = literal {value=-8} : f32[] %1 = div %x, %0 : f32[2,3]", "literal mul"},
    {"div-power-of-two", "%0 = literal {value=16384} : f16[] %1 = div %h, %0 : f16[2,3]", "literal mul"},
    {"add-zero", "%0 = literal {value=-0} : f32[] %1 = add %x, %0 : f32[2,3]", ""},
    {"add-zero", "%0 = literal {value=0} : i32[] %1 = add %0, %i : i32[2,3]", ""},
    {"sub-zero", "%0 = literal {value=0} : f32[] %1 = sub %x, %0 : f32[2,3]", ""},
    {"integer-zero-sub", "%0 = literal {value=0} : i32[] %1 = sub %0, %i : i32[2,3]", "neg"},
    {"minimum-infinity", "%0 = literal {value=inf} : f32[] %1 = minimum %x, %0 : f32[2,3]", ""},
    {"maximum-infinity", "%0 = literal {value=-inf} : f32[] %1 = maximum %x, %0 : f32[2,3]", ""},
    {"minimum-same", "%0 = minimum %x, %x : f32[2,3]", ""},
    {"maximum-same", "%0 = maximum %x, %x : f32[2,3]", ""},
    {"or-zero", "%0 = literal {value=0} : i32[] %1 = or %i, %0 : i32[2,3]", ""},
    {"xor-zero", "%0 = literal {value=0} : bool[] %1 = xor %c, %0 : bool[2,3]", ""},
    {"and-ones", "%0 = literal {value=-1} : i32[] %1 = and %i, %0 : i32[2,3]", ""},
    {"and-ones", "%0 = literal {value=1} : bool[] %1 = and %c, %0 : bool[2,3]", ""},
    {"and-same", "%0 = and %i, %i : i32[2,3]", ""},
    {"or-same", "%0 = or %c, %c : bool[2,3]", ""},
    {"shift-zero", "%0 = literal {value=0} : i32[] %1 = shl %i, %0 : i32[2,3] %2 = shr %1, %0 : i32[2,3]",
     ""},
    {"pow-one", "%0 = literal {value=1} : f32[] %1 = pow %x, %0 : f32[2,3]", ""},
    {"pow-two", "%0 = literal {value=2} : f32[] %1 = pow %x, %0 : f32[2,3]", "mul"},
    {"pow-two", "%0 = literal {value=2} : i32[] %1 = pow %i, %0 : i32[2,3]", "mul"},
    {"neg-neg", "%0 = neg %x : f32[2,3] %1 = neg %0 : f32[2,3]", ""},
    {"not-not", "%0 = not %i : i32[2,3] %1 = not %0 : i32[2,3]", ""},
    {"abs-abs", "%0 = abs %i : i32[2,3] %1 = abs %0 : i32[2,3]", "abs"},
    {"abs-neg", "%0 = neg %x : f32[2,3] %1 = abs %0 : f32[2,3]", "abs"},
    {"select-literal",
     "%0 = literal {value=0} : bool[] %1 = literal {value=3} : f32[2,3] %2 = select %0, %1, %y : f32[2,3]",
     ""},
    {"select-not", "%0 = not %c : bool[2,3] %1 = select %0, %x, %y : f32[2,3]", "select"},
    {"eq-true", "%0 = literal {value=1} : bool[] %1 = eq %c, %0 : bool[2,3]", ""},
    {"ne-false", "%0 = literal {value=0} : bool[] %1 = ne %c, %0 : bool[2,3]", ""},
    {"cast-same", "%0 = cast %x : f32[2,3]", ""},
    {"cast-cast", "%0 = cast %h : f32[2,3] %1 = cast %0 : f16[2,3]", ""},
    {"cast-cast", "%0 = cast %x : f64[2,3] %1 = cast %0 : i16[2,3]", "cast"},
    {"cast-cast", "%0 = cast %i : i64[2,3] %1 = cast %0 : i16[2,3]", "cast"},
    {"cast-cast", "%0 = cast %c : f32[2,3] %1 = cast %0 : bool[2,3]", ""},
    {"dot-casts",
     "%0 = cast %s : i32[2,3] %1 = permute %0 {axes=[1,0]} : i32[3,2] "
     "%2 = dot %0, %1 {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : i32[2,2]",
     "permute dot"},
    {"dot-casts",
     "%0 = cast %s : i32[2,3] %1 = cast %s : i32[2,3] "
     "%2 = dot %0, %1 {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[1]} : i64[2,2]",
     "dot"},
    {"reshape-same", "%0 = reshape %x : f32[2,3]", ""},
    {"reshape-reshape", "%0 = reshape %x : f32[6] %1 = reshape %0 : f32[3,2]", "reshape"},
    {"permute-identity", "%0 = permute %x {axes=[0,1]} : f32[2,3]", ""},
    {"permute-permute",
     "%0 = permute %u {axes=[1,2,0]} : f32[1,3,2] %1 = permute %0 {axes=[1,2,0]} : f32[3,2,1]", "permute"},
    {"permute-permute", "%0 = permute %x {axes=[1,0]} : f32[3,2] %1 = permute %0 {axes=[1,0]} : f32[2,3]",
     ""},
    {"broadcast-same", "%0 = broadcast %x : f32[2,3]", ""},
    {"broadcast-broadcast", "%0 = broadcast %u : f32[2,4,3] %1 = broadcast %0 : f32[5,2,4,3]", "broadcast"},
    {"slice-whole", "%0 = slice %x {starts=[0,0], sizes=[2,3], steps=[1,1]} : f32[2,3]", ""},
    {"update-whole", "%0 = update_slice %x, %y {starts=[0,0], steps=[1,1]} : f32[2,3]", ""},
    {"update-nothing",
     "%0 = add %x, %y : f32[2,3] %1 = update_slice %0, %e {starts=[1,0], steps=[2,1]} : f32[2,3]", "add"},
    {"flip-units", "%0 = flip %u {axes=[1]} : f32[2,1,3]", ""},
    {"flip-flip", "%0 = flip %x {axes=[0,1]} : f32[2,3] %1 = flip %0 {axes=[0,1]} : f32[2,3]", ""},
    {"pad-nothing", "%0 = literal {value=4} : f32[] %1 = pad %x, %0 {low=[0,0], high=[0,0]} : f32[2,3]", ""},
    {"concat-one", "%0 = concat %x {axis=0} : f32[2,3]", ""},
    {"concat-empty", "%0 = concat %x, %e, %y {axis=0} : f32[4,3]", "concat"},
    {"transfer-home", "%0 = transfer %x {to=cpu} : f32[2,3]", ""},
    {"reduce-units", "%0 = sum %u {axes=[1]} : f32[2,3]", "reshape"},
    {"reduce-units", "%0 = max %x {axes=[]} : f32[2,3]", ""},
};

// What no rule may touch, because it would change bits, or forget an operand that may have failed.
constexpr Case kRefused[] = {
    {"i * 0", "%0 = literal {value=0} : i32[] %1 = mul %i, %0 : i32[2,3]", "literal mul"},
    {"i & 0", "%0 = literal {value=0} : i32[] %1 = and %i, %0 : i32[2,3]", "literal and"},
    {"i - i", "%0 = sub %i, %i : i32[2,3]", "sub"},
    {"i ^ i", "%0 = xor %i, %i : i32[2,3]", "xor"},
    {"pow(x, 0)", "%0 = literal {value=0} : f32[] %1 = pow %x, %0 : f32[2,3]", "literal pow"},
    {"a literal's choice", "%0 = literal {value=0} : bool[] %1 = select %0, %x, %y : f32[2,3]",
     "literal select"},
    {"one choice", "%0 = select %c, %x, %x : f32[2,3]", "select"},
    {"x + 0.0", "%0 = literal {value=0} : f32[] %1 = add %x, %0 : f32[2,3]", "literal add"},
    {"x - -0.0", "%0 = literal {value=-0} : f32[] %1 = sub %x, %0 : f32[2,3]", "literal sub"},
    {"x * 0", "%0 = literal {value=0} : f32[] %1 = mul %x, %0 : f32[2,3]", "literal mul"},
    {"x - x", "%0 = sub %x, %x : f32[2,3]", "sub"},
    {"0 - x", "%0 = literal {value=0} : f32[] %1 = sub %0, %x : f32[2,3]", "literal sub"},
    {"x / 3", "%0 = literal {value=3} : f32[] %1 = div %x, %0 : f32[2,3]", "literal div"},
    {"x / 0", "%0 = literal {value=0} : f32[] %1 = div %x, %0 : f32[2,3]", "literal div"},
    {"a reciprocal that is no normal number",
     "%0 = literal {value=1.7014118346046923e38} : f32[] %1 = div %x, %0 : f32[2,3]", "literal div"},
    {"pow(x, 0.5)", "%0 = literal {value=0.5} : f32[] %1 = pow %x, %0 : f32[2,3]", "literal pow"},
    {"pow(x, 3)", "%0 = literal {value=3} : f32[] %1 = pow %x, %0 : f32[2,3]", "literal pow"},
    {"a user's constant", "%0 = constant {value=1} : f32[] %1 = mul %x, %0 : f32[2,3]", "constant mul"},
    {"a cast that rounds", "%0 = cast %x : f16[2,3] %1 = cast %0 : f32[2,3]", "cast cast"},
    {"an integer that would wrap instead of saturating", "%0 = cast %i : f64[2,3] %1 = cast %0 : i16[2,3]",
     "cast cast"},
    {"an integer that f32 rounds", "%0 = cast %i : f32[2,3] %1 = cast %0 : f64[2,3]", "cast cast"},
    {"a broadcast hidden in a multiplication by one",
     "%0 = literal {value=1} : f32[4,2,3] %1 = mul %x, %0 : f32[4,2,3]", "literal mul"},
    {"a product of a narrow and a wide integer",
     "%0 = cast %s : i32[2,3] "
     "%1 = dot %0, %i {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[1]} : i32[2,2]",
     "cast dot"},
    {"abs of what wrapped", "%0 = cast %i : u8[2,3] %1 = neg %0 : u8[2,3] %2 = abs %1 : u8[2,3]",
     "cast neg abs"},
    {"a slice with a step", "%0 = slice %x {starts=[0,0], sizes=[1,2], steps=[1,2]} : f32[1,2]", "slice"},
};

/// The body's nodes on lines of their own, with devices, and a return of the last value.
Graph parse(const Case &c) {
    std::string body = c.body, lines;
    int last = -1;
    for (size_t at = 0; at < body.size();) {
        size_t next = body.find(" %" + std::to_string(last + 2) + " = ", at);
        next = next == std::string::npos ? body.size() : next;
        lines += "  " + body.substr(at, next - at) + " @cpu\n";
        at = next + 1;
        ++last;
    }
    return parse_graph(std::string("lazuli 1\ngraph @g(") + kParams + ") {\n" + lines + "  return %" +
                       std::to_string(last) + "\n}\n");
}

std::vector<HostTensor> special_inputs(const Graph &g) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    const double floats[] = {-0.0, std::nan(""), inf,    -inf,   1.5, 3e-45,
                             0.0,  -7.25e8,      3.4e38, -1e-40, 0.1, 65519};
    const double integers[] = {0, -1, 2147483647, -2147483648.0, 70000, 3, -128, 255, 17};
    std::vector<HostTensor> inputs;
    size_t at = 0;
    for (const Param &p : g.params) {
        const TensorType &type = g.type(p.value);
        std::vector<double> values;
        for (int64_t k = 0; k < type.numel(); ++k, ++at)
            values.push_back(type.dtype == DType::Bool  ? static_cast<double>(at % 2)
                             : type.dtype == DType::I16 ? static_cast<double>(at * 4111 % 65536) - 32768
                             : is_float(type.dtype)     ? floats[at % std::size(floats)]
                                                        : integers[at % std::size(integers)]);
        inputs.push_back(from_doubles(type, values));
    }
    return inputs;
}

/// Bits, but for the payload of NaN.
void expect_same_bits(const Graph &a, const Graph &b, std::span<const HostTensor> inputs,
                      const std::string &what) {
    const auto want = interpret(a, inputs), got = interpret(b, inputs);
    ASSERT_EQ(want.size(), got.size()) << what;
    for (size_t r = 0; r < want.size(); ++r) {
        ASSERT_EQ(want[r].type, got[r].type) << what;
        const auto x = to_doubles(want[r]), y = to_doubles(got[r]);
        for (size_t k = 0; k < x.size(); ++k)
            ASSERT_TRUE((std::isnan(x[k]) && std::isnan(y[k])) ||
                        (x[k] == y[k] && std::signbit(x[k]) == std::signbit(y[k])))
                << what << ": element " << k << " is " << y[k] << " and was " << x[k] << "\n"
                << print(b);
    }
}

std::string ops_of(const Graph &g) {
    std::string ops;
    for (const Node &n : g.nodes())
        ops += (ops.empty() ? "" : " ") + std::string(name(n.op));
    return ops;
}

void check(const Case &c) {
    const Graph before = parse(c);
    const Graph after = eliminate_dead(simplify(before));
    verify(after);
    EXPECT_EQ(ops_of(after), c.expected) << c.rule << "\n" << print(after);
    expect_same_bits(before, after, special_inputs(before), c.rule);
    // Nothing is left to do for a second run.
    EXPECT_TRUE(equal(eliminate_dead(simplify(after)), after)) << c.rule << "\n" << print(after);
}

TEST(Simplify, EachRuleGivesTheSameBits) {
    for (const Case &c : kCases)
        check(c);
}

TEST(Simplify, WhatWouldChangeBitsIsLeftAlone) {
    for (const Case &c : kRefused)
        check(c);
}

TEST(Simplify, EveryRuleHasACaseOfItsName) {
    std::set<std::string> tested;
    for (const Case &c : kCases)
        tested.insert(c.rule);
    for (std::string_view rule : simplify_rule_names())
        EXPECT_TRUE(tested.erase(std::string(rule)) == 1) << rule << " has no case";
    EXPECT_TRUE(tested.empty()) << *tested.begin() << " is no rule";
}

TEST(Simplify, RandomGraphsKeepTheirBits) {
    for (uint64_t seed = 0; seed < 400; ++seed) {
        test::RandomGraphOptions options;
        options.max_nodes = 30;
        options.special_values = seed % 2 == 0;
        const Graph before = test::random_graph(seed, options).graph;
        const Graph after = simplify(before);
        verify(after);
        std::vector<HostTensor> inputs;
        for (const Param &p : before.params)
            inputs.push_back(materialize_param(before, p));
        expect_same_bits(before, after, inputs, "seed " + std::to_string(seed));
    }
}

TEST(Simplify, AGraphThatNeedsNothingComesBackAsItIs) {
    const Graph g = parse({"", "%0 = add %x, %y : f32[2,3] %1 = tanh %0 : f32[2,3]", ""});
    EXPECT_TRUE(equal(simplify(g), g));
}

} // namespace
} // namespace lz::passes
