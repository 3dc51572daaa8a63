// S95: floats that a compiled function is called with. The oracle is the function itself, with the same
// generator of random numbers. Where a number goes is found by its value: so these calls have values for
// which much is the same by chance.
#include "support.h"

#include <lazuli/nn.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>

namespace {

using namespace lz;
using namespace lz::test;
namespace F = lz::nn::functional;

using Function = std::function<Tensor(const Tensor &, double, double)>;
struct Case {
    const char *name;
    Function function;
};

Tensor into(const Tensor &x, const std::function<void(Tensor &)> &change) {
    Tensor y = x.clone();
    change(y);
    return y;
}

/// What functions do with one number or with two: used as it is, in each form, twice, by the library on the
/// host, by the function on the host, and not at all.
const Case kCases[] = {
    {"x * a + b", [](auto &x, double a, double b) { return x * a + b; }},
    {"x / a - b", [](auto &x, double a, double b) { return x / a - b; }},
    {"x + b", [](auto &x, double, double b) { return x + b; }},
    {"(1 - a) * x", [](auto &x, double a, double) { return x * (1 - a); }},
    {"x - a * (1 - b)", [](auto &x, double a, double b) { return x - (1 / a) * x + (1 - b); }},
    {"lerp", [](auto &x, double a, double) { return lerp(x, x * 2, a); }},
    {"clamp", [](auto &x, double a, double b) { return x.clamp(a, b); }},
    {"where", [](auto &x, double a, double b) { return where(x > a, x, b); }},
    {"x * (a + b)", [](auto &x, double a, double b) { return x * (a + b); }},
    {"x * (a - b)", [](auto &x, double a, double b) { return x * (a - b); }},
    {"x * (b - a) + a", [](auto &x, double a, double b) { return x * (b - a) + a; }},
    {"x * (a * b) + b", [](auto &x, double a, double b) { return x * (a * b) + b; }},
    {"x * (a / b) + a + b", [](auto &x, double a, double b) { return x * (a / b) + a + b; }},
    {"x * (a * a)", [](auto &x, double a, double) { return x * (a * a); }},
    {"x * a + a * a", [](auto &x, double a, double) { return x * a + x * (a * a); }},
    {"x * (a * (1 - a)) + a", [](auto &x, double a, double) { return x * (a * (1 - a)) + a; }},
    {"x * (a + 1 / a) + a", [](auto &x, double a, double) { return x * (a + 1 / a) + a; }},
    {"x * abs(a)", [](auto &x, double a, double) { return x * std::abs(a); }},
    {"x * abs(a) + a", [](auto &x, double a, double) { return x * std::abs(a) + a; }},
    {"x * exp(a)", [](auto &x, double a, double) { return x * std::exp(a); }},
    {"a > 0 ? x : -x", [](auto &x, double a, double) { return a > 0 ? x * 1 : -x; }},
    {"neither", [](auto &x, double, double) { return x + 3; }},
    {"x ** a", [](auto &x, double a, double) { return x.abs().pow(a); }},
    {"norm", [](auto &x, double a, double) { return x.abs().norm(a, {0}); }},
    {"full i32", [](auto &, double a, double) { return full({2}, a, {.dtype = i32}); }},
    {"full bool", [](auto &, double a, double) { return full({2}, a, {.dtype = boolean}); }},
    {"full f32", [](auto &, double a, double b) { return full({2}, a) + full({2}, b); }},
    {"fill_ i64", [](auto &x, double a, double) { return into(x.to(i64), [&](Tensor &y) { y.fill_(a); }); }},
    {"at = i64",
     [](auto &x, double a, double) { return into(x.to(i64), [&](Tensor &y) { y.at({0}) = a; }); }},
    {"at = f32", [](auto &x, double a, double) { return into(x, [&](Tensor &y) { y.at({0}) = a; }); }},
    {"masked_fill i64", [](auto &x, double a, double) { return x.to(i64).masked_fill(x > 0, a); }},
    {"pad i64", [](auto &x, double a, double) { return pad(x.to(i64), {1, 0}, a); }},
    {"scatter i64", [](auto &x, double a, double) { return x.to(i64).scatter(0, tensor({0}), a); }},
    {"addcmul i64", [](auto &x, double a, double) { return addcmul(x.to(i64), x.to(i64), x.to(i64), a); }},
    {"i64 + a", [](auto &x, double a, double) { return x.to(i64) + a; }},
    {"arange", [](auto &, double a, double) { return arange(0, std::abs(a), 0.5); }},
    {"linspace i64", [](auto &, double a, double b) { return linspace(a, b, 3, {.dtype = i64}); }},
    {"linspace", [](auto &, double a, double b) { return linspace(a, b, 4); }},
    {"uniform_", [](auto &x, double a, double b) { return into(x, [&](Tensor &y) { y.uniform_(a, b); }); }},
    {"normal_", [](auto &x, double a, double b) { return into(x, [&](Tensor &y) { y.normal_(a, b); }); }},
    {"exponential_",
     [](auto &x, double a, double) { return into(x, [&](Tensor &y) { y.exponential_(a); }); }},
    {"normal", [](auto &, double a, double b) { return normal(a, b, {3}); }},
    {"bernoulli", [](auto &x, double a, double) { return bernoulli(x, a); }},
    {"dropout", [](auto &x, double a, double) { return dropout(x, a); }},
    {"quantile", [](auto &x, double a, double) { return x.quantile(a); }},
    {"histc", [](auto &x, double a, double b) { return x.histc(4, a, b); }},
    {"hardtanh", [](auto &x, double a,
                    double b) { return F::hardtanh(x, F::HardtanhFuncOptions().min_val(a).max_val(b)); }},
    {"huber", [](auto &x, double a, double) { return huber_loss(x, x * 2, Reduction::Mean, a); }},
    {"smooth l1", [](auto &x, double a, double) { return smooth_l1_loss(x, x * 2, Reduction::Mean, a); }},
    {"label smoothing",
     [](auto &x, double a, double) {
         return F::cross_entropy(x.view({1, 3}), tensor({1}),
                                 F::CrossEntropyFuncOptions().label_smoothing(a));
     }},
    {"gumbel",
     [](auto &x, double a, double) { return F::gumbel_softmax(x, F::GumbelSoftmaxFuncOptions().tau(a)); }},
    {"elu", [](auto &x, double a, double) { return F::elu(-x, F::ELUFuncOptions().alpha(a)); }},
};

/// The elements' bits (all NaN are one), or what is thrown.
std::string outcome(const Function &function, const Tensor &x, double a, double b, uint64_t seed) {
    manual_seed(seed);
    try {
        const Tensor y = function(x, a, b);
        std::string text = y.dtype() == f32 ? "f32" : std::string(name(y.dtype()));
        for (const double value : y.to(f64).to_vector<double>())
            text += value != value ? " nan" : " " + std::to_string(std::bit_cast<uint64_t>(value));
        return text;
    } catch (const Error &error) {
        const std::string what = error.what();
        return what.substr(0, what.find(", at "));
    }
}

using Calls = std::vector<std::pair<double, double>>;

void check(const Case &of, const Calls &calls) {
    const Tensor x = tensor({0.5, 0.25, 3.0});
    const auto compiled = compile(of.function);
    std::string so_far;
    uint64_t seed = 0;
    for (const auto &[a, b] : calls) {
        so_far += " (" + std::to_string(a) + ", " + std::to_string(b) + ")";
        ++seed;
        const std::string right = outcome(of.function, x, a, b, seed);
        const std::string now =
            outcome([&](const Tensor &t, double c, double d) { return compiled(t, c, d); }, x, a, b, seed);
        ASSERT_EQ(now, right) << of.name << " after calls" << so_far << '\n' << compiled.explain();
    }
}

TEST(CompiledNumbers, S95_what_agreed_by_chance_is_not_learned) {
    const Calls all[] = {{{0, 1}, {2, -1}, {.1, -2}, {.3, 5}},
                         {{.5, 1}, {2, -1}, {.1, -2}},
                         {{.3, .6}, {.4, .8}, {.1, .5}, {.1, .4}},
                         {{.3, .7}, {.4, .6}, {.3, .5}, {.2, .9}},
                         {{.5, .5}, {.25, .25}, {.125, .75}},
                         {{.1, .2}, {.2, .1}, {.5, .9}},
                         {{2, 1}, {-2, 1}, {3, 1}},
                         {{0, 1}, {1e-320, 1}, {1, 1}},
                         {{1.5, 2}, {1.25, 2}, {7, 8}, {1.75, 2}},
                         {{.5, .3}, {.3, .5}, {-2, 2}, {2, -2}, {7, 7}, {-7, 9}},
                         {{.3, .9}, {.7, .9}, {.4, .9}, {.6, .9}},
                         {{2, 3}, {.5, 3}, {4, 3}, {.25, 3}},
                         {{.9, 1}, {.7, 1}, {1.5, 1}, {1.1, 1}},
                         {{.3, .6}, {.4, .8}, {.5, 1}, {.35, .7}, {.45, .5}},
                         {{.5, .5}, {.25, .75}, {.125, .875}, {.5, 1}}};
    for (const Case &of : kCases)
        for (const Calls &calls : all)
            check(of, calls);
}

TEST(CompiledNumbers, S95_any_function_of_any_numbers) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double pool[] = {0,    1,  -1,  .5,  .25, .75, 2,      -2,        3,   4,  .1, .3,
                           -0.5, .7, 1.5, -0., 7,   .2,  1e-320, kInfinity, NAN, .4, .6, 1.25};
    std::mt19937 random(95);
    const auto number = [&] { return pool[random() % std::size(pool)]; };
    for (int program = 0; program < 400; ++program) {
        Calls calls;
        const bool related = random() % 3 == 0; // the second is made of the first for a while
        for (int i = 0; i < 9; ++i) {
            const double a = number();
            calls.emplace_back(a, related && i < 4 ? (random() % 2 ? 1 - a : 2 * a) : number());
        }
        check(kCases[static_cast<size_t>(program) % std::size(kCases)], calls);
    }
}

/// Numbers near those that were recorded are replayed; each new size of a number is recorded once.
TEST(CompiledNumbers, S95_numbers_are_replayed_near_those_that_were_recorded) {
    const auto f = compile([](const Tensor &x, double a) { return x * a + (1 - a); });
    int64_t calls = 0;
    const auto call = [&](double a) {
        ++calls;
        EXPECT_EQ(f(tensor({1.0, 3.0}), a).to_vector<float>()[1],
                  static_cast<float>(3.0f * static_cast<float>(a) + static_cast<float>(1 - a)))
            << a;
    };
    const auto recordings = [&] { // debug builds record every 64th call instead
        return f.stats().recordings - calls / 60;
    };
    call(.5);
    call(.7);
    EXPECT_EQ(f.stats().replays, 0);
    for (int i = 0; i < 100; ++i)
        call(.25 + .01 * i);
    EXPECT_LE(recordings(), 2) << f.explain();
    EXPECT_GE(f.stats().replays, 98) << f.explain();
    call(-.5);
    call(0);
    call(100);
    EXPECT_LE(recordings(), 5) << f.explain();
    EXPECT_GE(f.stats().recordings, 5) << f.explain();
    for (const double a : {-.3, 0., 60., 199.})
        call(a);
    EXPECT_LE(recordings(), 5) << f.explain();
    for (int i = 1; i <= 1000; ++i) // as a time that goes on
        call(100.5 + 10 * i);
    EXPECT_LE(recordings(), 5 + 7) << f.explain();
}

TEST(CompiledNumbers, S95_a_number_that_nothing_is_made_of_is_any_after_eight) {
    const auto f = compile([](const Tensor &x, double, double b) { return x * b; });
    for (int i = 0; i < 12; ++i)
        EXPECT_EQ(f(ones({1}), 1 + .05 * i, 2).item<float>(), 2);
    EXPECT_EQ(f.stats().recordings, 8) << f.explain();
    EXPECT_EQ(f.stats().replays, 4) << f.explain();
}

/// What a function does otherwise from somewhere on cannot be seen before it does: it can say so.
TEST(CompiledNumbers, S95_a_function_says_what_it_looks_at_on_the_host) {
    const auto f = compile([](const Tensor &x, double a, double b) {
        specialize_on({a});
        return x * std::min(a, 1.0) + b;
    });
    for (int i = 0; i < 3; ++i)
        for (const double a : {.9, .7, 1.1, .8, 1.3, .9})
            for (const double b : {.2, .25, .3})
                EXPECT_EQ(f(ones({1}), a, b).item<float>(),
                          static_cast<float>(std::min(a, 1.0)) + static_cast<float>(b))
                    << a << ' ' << b;
    EXPECT_GT(f.stats().replays, 30) << f.explain();
    specialize_on({1, 2}); // nothing is recorded
}

TEST(CompiledNumbers, S95_a_float_that_is_cut_to_an_integer_is_recorded_for_each_value) {
    const auto f = compile([](const Tensor &x, double a) { return x.masked_fill(x > 0, a); });
    const Tensor x = tensor({1, 0});
    for (int i = 0; i < 12; ++i)
        EXPECT_EQ(f(x, 1 + .05 * i).to_vector<int64_t>()[0], 1);
    EXPECT_EQ(f.stats().replays, 0) << f.explain();
    EXPECT_EQ(f(x, 1.9).to_vector<int64_t>()[0], 1);
    EXPECT_EQ(f(x, 2.0).to_vector<int64_t>()[0], 2);
}

} // namespace
