// What goes into compiled functions and comes out of them, as a stranger gives it: temporaries, by value,
// changed.
#include <lazuli/compiled.h>
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>
#include <lazuli/optim.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using namespace lz;
using testing::HasSubstr;

float first(const Tensor &x) {
    return x.detach().to(f32).flatten().to_vector<float>()[0];
}

struct Pair {
    Tensor a, b;
    std::vector<bool> flags;
    auto members() { return std::tie(a, b, flags); }
};

/// A function may move from what it is given: nothing of it is looked at afterwards.
TEST(Compiled, S90_arguments_by_value_may_be_temporaries) {
    const auto one = compile([](Tensor x) { return x * 2; });
    const auto list = compile([](std::vector<Tensor> v) {
        const std::vector<Tensor> mine = std::move(v);
        return mine[0] * 2 + mine[1];
    });
    const auto named = compile([](std::map<std::string, Tensor> m) { return m.at("a") - m.at("b"); });
    const auto both = compile([](Pair p) { return p.a * p.b; });
    const auto taken = compile([](std::vector<Tensor> &&v) { return v[0] + v[1]; });
    for (int i = 0; i < 6; ++i) {
        const auto x = [&] { return full({4}, i); };
        EXPECT_EQ(first(one(x())), 2 * i);
        EXPECT_EQ(first(list(std::vector<Tensor>{x(), ones({4})})), 2 * i + 1);
        EXPECT_EQ(first(named(std::map<std::string, Tensor>{{"a", x()}, {"b", ones({4})}})), i - 1);
        EXPECT_EQ(first(both(Pair{x(), x(), {true, false}})), i * i);
        EXPECT_EQ(first(taken(std::vector<Tensor>{x(), x()})), 2 * i);
    }
    EXPECT_EQ(one.stats().replays, 4);
    EXPECT_EQ(list.stats().replays, 4);
    EXPECT_EQ(named.stats().replays, 4);
    EXPECT_EQ(both.stats().replays, 4);
    EXPECT_EQ(taken.stats().replays, 4);
    EXPECT_EQ(first(both(Pair{full({4}, 3), full({4}, 3), {true, true}})), 9);
    EXPECT_EQ(both.stats().replays, 4) << "other flags are another signature";
}

TEST(Compiled, S91_a_function_that_changes_a_list_that_it_is_given_is_not_replayed) {
    const auto grows = compile([](std::vector<Tensor> &v) {
        v.push_back(v[0] + 1);
        return v[0] * 2;
    });
    const auto exchanges = compile([](std::vector<Tensor> &v) {
        v = {v[1], v[0]};
        return v[0] * 2;
    });
    const auto empties = compile([](Tensor &x) {
        const Tensor y = x * 2;
        x = Tensor();
        return y;
    });
    for (int i = 0; i < 4; ++i) {
        std::vector<Tensor> v{full({4}, i)}, w{full({4}, i), full({4}, 7)};
        EXPECT_EQ(first(grows(v)), 2 * i);
        ASSERT_EQ(v.size(), 2U);
        EXPECT_EQ(first(v[1]), i + 1);
        EXPECT_EQ(first(exchanges(w)), 14);
        EXPECT_EQ(first(w[1]), i);
        Tensor x = full({4}, i);
        EXPECT_EQ(first(empties(x)), 2 * i);
        EXPECT_FALSE(x.defined());
    }
    for (const CompiledStats &stats : {grows.stats(), exchanges.stats(), empties.stats()}) {
        EXPECT_EQ(stats.replays, 0);
        EXPECT_THAT(stats.why, HasSubstr("an argument"));
    }
}

TEST(Compiled, S94_an_argument_that_is_kept_is_kept_at_every_call) {
    Tensor kept;
    const auto by_reference = compile([&](const Tensor &x) {
        kept = x;
        return x + 1;
    });
    const auto by_value = compile([&](Tensor x) {
        kept = std::move(x);
        return kept + 1;
    });
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(first(by_reference(full({2}, i))), i + 1);
        EXPECT_EQ(first(kept), i);
        EXPECT_EQ(first(by_value(full({2}, -i))), 1 - i);
        EXPECT_EQ(first(kept), -i);
    }
    EXPECT_THAT(by_reference.stats().why, HasSubstr("keeps an argument"));
}

TEST(Compiled, S94_results_that_are_no_tensors_are_those_of_the_call) {
    int calls = 0;
    const auto counted = compile([&](const Tensor &x) { return std::pair(x + 1, ++calls); });
    int later = 0;
    const auto flagged = compile([&](const Tensor &x) { return std::pair(x + 1, ++later > 3); });
    int texts = 0;
    const auto text = compile([&](const Tensor &x) { return std::pair(x + 1, std::to_string(++texts)); });
    const auto maybe = compile([](const Tensor &x) { return std::optional(x + 1); });
    const auto named = compile([](const Tensor &x) {
        return std::map<std::string, std::vector<Tensor>>{{"a", {x + 1, x + 2}}, {"b", {}}};
    });
    const Tensor x = zeros({2});
    for (int i = 1; i < 7; ++i) {
        EXPECT_EQ(counted(x).second, i);
        EXPECT_EQ(flagged(x).second, i > 3);
        EXPECT_EQ(text(x).second, std::to_string(i));
        EXPECT_EQ(first(*maybe(x)), 1);
        EXPECT_EQ(first(named(x).at("a")[1]), 2);
        EXPECT_TRUE(named(x).at("b").empty());
    }
    EXPECT_THAT(counted.stats().why, HasSubstr("gives something that is not a tensor"));
    EXPECT_GT(maybe.stats().replays, 0) << "whether there is one is part of the form";
    EXPECT_GT(named.stats().replays, 0);
}

/// What a word is made of is learned where two recordings leave no doubt.
TEST(Compiled, S95_numbers_that_agreed_are_not_taken_for_one_another) {
    const Tensor x = full({4}, 2.0), y = full({4}, 10.0);
    const auto sum =
        compile([](const Tensor &x, const Tensor &y, double a, double b) { return x * a + y * b; });
    for (const auto &[a, b] : {std::pair{.1, .1}, {.2, .2}, {.3, .4}, {.5, .9}, {.25, .75}})
        EXPECT_FLOAT_EQ(first(sum(x, y, a, b)), static_cast<float>(2 * a + 10 * b)) << a << ' ' << b;
    EXPECT_GT(sum.stats().replays, 0);
    const auto inverse = compile([](const Tensor &x, double a, double b) { return x * b + a; });
    for (const auto &[a, b] : {std::pair{2., .5}, {4., .25}, {3., .7}, {5., 9.}})
        EXPECT_FLOAT_EQ(first(inverse(x, a, b)), static_cast<float>(2 * b + a)) << a << ' ' << b;
    const auto rest = compile([](const Tensor &x, double a, double b) { return x * b + a; });
    for (const auto &[a, b] : {std::pair{.25, .75}, {.5, .5}, {.3, .9}})
        EXPECT_FLOAT_EQ(first(rest(x, a, b)), static_cast<float>(2 * b + a)) << a << ' ' << b;
    const auto square = compile([](const Tensor &x, double a) { return x * (a * a) + 1; });
    const auto root = compile([](const Tensor &x, double a) { return x * std::sqrt(a) + 1; });
    for (const double a : {0., 1., 2., 3., 1., 0.}) {
        EXPECT_FLOAT_EQ(first(square(x, a)), static_cast<float>(2 * a * a + 1)) << a;
        EXPECT_FLOAT_EQ(first(root(x, a)), static_cast<float>(2 * std::sqrt(a) + 1)) << a;
    }
}

/// Sums save nothing that a backward could use up.
TEST(Compiled, S92_a_step_may_give_its_loss_whatever_made_it) {
    const auto check = [](auto &&loss_of, bool replayed) {
        manual_seed(3);
        nn::Linear a(4, 3), b(4, 3);
        {
            const NoGradGuard guard;
            b->weight.copy_(a->weight);
            b->bias.copy_(a->bias);
        }
        const auto step = [&](nn::Linear &net, const Tensor &x, const Tensor &y) {
            net->zero_grad();
            Tensor loss = loss_of(net(x), y);
            loss.backward();
            const NoGradGuard guard;
            for (Tensor &p : net->parameters())
                p -= 0.01 * p.grad();
            return loss;
        };
        const auto compiled = compile([&](const Tensor &x, const Tensor &y) { return step(a, x, y); });
        for (int i = 0; i < 6; ++i) {
            const Tensor x = randn({5, 4}), y = randn({5, 3});
            const Tensor now = compiled(x, y), expected = step(b, x, y);
            EXPECT_EQ(first(now), first(expected));
            if (replayed) {
                EXPECT_THROW(now.backward(), StateError);
            }
        }
        EXPECT_EQ(compiled.stats().replays > 0, replayed);
    };
    check([](const Tensor &p, const Tensor &y) { return ((p - y) * (p - y)).sum(); }, true);
    check([](const Tensor &p, const Tensor &y) { return mse_loss(p, y) + 0.1 * p.sum(); }, true);
    check([](const Tensor &p, const Tensor &y) { return (p - y).pow(2).sum() / 5; }, true);
}

template <class O, class Options, class Change>
void expect_refused(const Options &options, Change change) {
    Tensor w = full({3}, 1.0, {.requires_grad = true});
    O optimizer(std::vector<Tensor>{w}, options);
    const auto step = compile([&] {
        optimizer.zero_grad();
        (w * w * w).sum().backward();
        optimizer.step();
    });
    for (int i = 0; i < 6; ++i)
        step();
    EXPECT_GT(step.stats().replays, 0);
    change(static_cast<Options &>(optimizer.param_groups()[0].options()));
    const float before = first(w);
    EXPECT_THROW(step(), StateError);
    EXPECT_EQ(first(w), before);
    host_state_changed();
    step();
    EXPECT_NE(first(w), before);
}

TEST(Compiled, S92_options_of_an_optimizer_that_change_its_step_are_noticed) {
    using namespace optim;
    expect_refused<SGD>(SGDOptions(0.01), [](SGDOptions &o) { o.maximize(true); });
    expect_refused<SGD>(SGDOptions(0.01).momentum(0.9),
                        [](SGDOptions &o) { o.momentum(0).weight_decay(0.1); });
    expect_refused<Adam>(AdamOptions(0.01), [](AdamOptions &o) { o.amsgrad(true); });
    expect_refused<Adam>(AdamOptions(0.01), [](AdamOptions &o) { o.maximize(true); });
}

/// Numbers are asked for at each call: a schedule that begins at 0 changes no form.
TEST(Compiled, S92_a_learning_rate_may_begin_at_nothing) {
    Tensor w = full({3}, 1.0, {.requires_grad = true});
    optim::SGD optimizer(std::vector<Tensor>{w}, optim::SGDOptions(0.0));
    const auto step = compile([&] {
        optimizer.zero_grad();
        (w * 2).sum().backward();
        optimizer.step();
    });
    for (int i = 0; i < 6; ++i)
        step();
    EXPECT_EQ(first(w), 1);
    optimizer.param_groups()[0].options().set_lr(0.25);
    step();
    EXPECT_EQ(first(w), 0.5);
    EXPECT_GT(step.stats().replays, 3);
}

} // namespace
