// Compiled functions that are called with many sizes: the first call of one is recorded, later ones are
// replays. The oracle is the function itself.
#include <lazuli/compiled.h>
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>
#include <lazuli/optim.h>
#include <lazuli/program.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using namespace lz;
using testing::HasSubstr;

std::vector<uint64_t> bits(const Tensor &t) {
    std::vector<uint64_t> out;
    for (const double value : t.detach().to(f64).flatten().to_vector<double>())
        out.push_back(std::bit_cast<uint64_t>(value));
    return out;
}
void expect_same(const Tensor &a, const Tensor &b, const std::string &what = "") {
    ASSERT_EQ(a.sizes(), b.sizes()) << what;
    EXPECT_EQ(bits(a), bits(b)) << what;
}

/// Calls with lengths 2 to `lengths` + 1, `times` times, compared with the function itself.
template <class F>
void expect_replays(F &&f, int64_t lengths, int times, int64_t expected) {
    const auto compiled = compile(f);
    for (int time = 0; time < times; ++time)
        for (int64_t n = 2; n < lengths + 2; ++n) {
            const Tensor x = randn({n, 6});
            expect_same(compiled(x), f(x), "length " + std::to_string(n));
        }
    EXPECT_EQ(compiled.stats().signatures, 1);
    EXPECT_EQ(compiled.stats().sizes, lengths);
    const int64_t checks = expected / 60; // debug builds record every 64th call instead
    EXPECT_GE(compiled.stats().replays, expected - checks) << compiled.stats().why;
}

TEST(CompiledSizes, S90_a_size_is_recorded_once) {
    // Two calls of one size, or of two where words differ, show that the function does the same each time.
    expect_replays([](const Tensor &x) { return exp(x) * 2 + 1; }, 40, 3, 40 * 2 - 1);
    expect_replays([](const Tensor &x) { return softmax(x, 0).mean(0); }, 40, 3, 40 * 2 - 2);
    const Tensor w = randn({6, 3});
    expect_replays(
        [&](const Tensor &x) {
            const int64_t n = x.size(0);
            return cat({matmul(x, w), x.slice(1, 0, 3).flip({0}), ones({n, 3})}, 0).reshape({-1, n}) /
                   double(n);
        },
        100, 3, 100 * 2 - 2);
}

TEST(CompiledSizes, S90_sizes_decide_what_a_function_does) {
    const auto f = [](const Tensor &x) {
        const int64_t n = x.size(0);
        if (n % 7 == 0)
            return x - 1;
        if (n > 20)
            return relu(x) * double(n);
        return n % 2 == 0 ? x.slice(0, n / 2).sum(0) : x.slice(0, 0, n / 2).mean(0);
    };
    expect_replays(f, 40, 3, 40);
}

/// What changes at each call, or now and then, is not taken for the size's doing.
TEST(CompiledSizes, S99_what_a_function_looks_at_is_not_the_sizes_doing) {
    double counted = 0;
    const auto counts = compile([&](const Tensor &x) { return x * ++counted; });
    for (int i = 1; i < 30; ++i)
        expect_same(counts(ones({i % 3 + 1})), full({i % 3 + 1}, i));
    EXPECT_EQ(counts.stats().replays, 0);
    double captured = 1;
    const auto f = compile([&](const Tensor &x) { return x * captured; });
    const auto call = [&](int64_t n) { expect_same(f(ones({n})), full({n}, captured)); };
    for (int i = 0; i < 3; ++i)
        call(3);
    EXPECT_EQ(f.stats().replays, 1);
    captured = 2;
    call(4);
    captured = 3;
    call(4);
    call(5); // the first length was computed with another number: nothing is known of this one
    captured = 4;
    call(5);
    EXPECT_EQ(f.stats().replays, 1);
}

TEST(CompiledSizes, S95_integers_are_sizes) {
    const auto f = [](const Tensor &x, int64_t k, int offset) {
        return topk(x.narrow(0, offset, k + 2), k, 0).values * double(offset);
    };
    const auto compiled = compile(f);
    const Tensor x = randn({64});
    for (int time = 0; time < 3; ++time)
        for (int64_t k = 1; k < 12; ++k)
            for (int offset = 1; offset < 6; ++offset)
                expect_same(compiled(x, k, offset), f(x, k, offset));
    EXPECT_EQ(compiled.stats().signatures, 1);
    EXPECT_EQ(compiled.stats().sizes, 55);
    EXPECT_GE(compiled.stats().replays, 55 + 40) << compiled.stats().why;
    EXPECT_THROW(compiled(x, 3, 62), IndexError);
    EXPECT_THROW(compiled(x, 3, 62), IndexError);
}

TEST(CompiledSizes, S95_numbers_are_learned_for_each_size) {
    const auto f = [](const Tensor &x, double a) { return x * a + 1; };
    const auto compiled = compile(f);
    for (int i = 0; i < 4; ++i)
        expect_same(compiled(ones({3}), 0.5 + 0.2 * i), f(ones({3}), 0.5 + 0.2 * i));
    EXPECT_EQ(compiled.stats().replays, 2);
    for (int64_t n = 4; n < 20; ++n)
        for (int i = 0; i < 3; ++i)
            expect_same(compiled(ones({n}), 7.5 + i), f(ones({n}), 7.5 + i));
    EXPECT_EQ(compiled.stats().replays, 2 + 16);
}

/// Sizes and numbers together: what is made of a number at one size says nothing of another.
TEST(CompiledSizes, S95_what_is_made_of_a_number_may_go_with_the_size) {
    using Calls = std::vector<std::pair<int64_t, double>>; // lengths, numbers
    const auto check = [](const char *what, auto number, const Calls &calls) {
        const auto f = [&](const Tensor &x, double a) { return x * number(x.size(0), a); };
        const auto compiled = compile(f);
        for (const auto &[n, a] : calls)
            expect_same(compiled(ones({n}), a), f(ones({n}), a),
                        std::string(what) + " of " + std::to_string(n) + " and " + std::to_string(a));
    };
    using N = int64_t;
    check("product", [](N n, double a) { return a * double(n); },
          {{1, .5}, {1, .7}, {2, 0}, {2, .5}, {2, .7}});
    check("product", [](N n, double a) { return a * double(n); },
          {{2, 0}, {1, .5}, {1, .7}, {2, .5}, {2, .7}});
    check("power", [](N n, double a) { return std::pow(a, n); },
          {{1, .5}, {1, .7}, {2, 1}, {2, .5}, {2, .7}});
    check("one", [](N n, double a) { return n > 10 ? 1 : a; },
          {{4, .5}, {4, .7}, {20, 1}, {20, .5}, {20, .7}});
    check("2.5", [](N n, double a) { return n > 10 ? 2.5 : a; },
          {{4, .5}, {4, .7}, {20, 2.5}, {20, .5}, {20, .7}});
    check("least", [](N n, double a) { return std::min(a, double(n)); },
          {{9, .5}, {9, .7}, {2, 1.5}, {2, 2.5}, {2, 1.25}});
    check("exponent", [](N n, double a) { return std::pow(double(n), a); },
          {{2, .5}, {2, .5}, {1, .5}, {1, .7}, {3, .5}, {3, .7}, {3, .9}});
    check("square", [](N n, double a) { return n > 10 ? a * a : 2.0; },
          {{4, .5}, {4, .7}, {20, .5}, {20, .5}, {30, .5}, {30, .7}, {30, .5}});
    const auto two = [](const Tensor &x, double a, double b) { return x * (x.size(0) > 10 ? a : b); };
    const auto compiled = compile(two);
    for (const auto &[n, a, b] : std::vector<std::tuple<N, double, double>>{
             {4, .1, .2}, {4, .3, .4}, {20, .5, .5}, {20, .5, .6}, {20, .7, .6}})
        expect_same(compiled(ones({n}), a, b), two(ones({n}), a, b));
    const auto kept = [](const Tensor &x, double keep) {
        const auto k = std::max<int64_t>(1, static_cast<int64_t>(keep * static_cast<double>(x.size(0))));
        return x.slice(0, 0, k).sum() / double(k);
    };
    const auto compiled_kept = compile(kept);
    for (const auto &[n, a] :
         Calls{{10, .5}, {10, .5}, {2, .5}, {2, .9}, {20, .5}, {20, .9}, {20, .5}, {30, .9}})
        expect_same(compiled_kept(arange(n).to(f32), a), kept(arange(n).to(f32), a));
}

/// A flag that was switched, and a number that shows nothing.
TEST(CompiledSizes, S95_after_host_state_changed_a_number_has_to_tell) {
    bool training = true;
    const auto f = [&](const Tensor &x, double a) { return x * (training ? a : 1.0); };
    const auto compiled = compile(f);
    for (const double a : {.5, .7, .9})
        expect_same(compiled(ones({2}), a), f(ones({2}), a));
    training = false;
    host_state_changed();
    for (const double a : {1., .5, 1., .7})
        expect_same(compiled(ones({2}), a), f(ones({2}), a));
}

TEST(CompiledSizes, S91_a_captured_table_for_each_size) {
    std::map<int64_t, Tensor> tables;
    for (int64_t n = 4; n < 8; ++n) {
        tables[n] = full({n}, 10);
        tables[n].eval();
    }
    const auto f = [&](const Tensor &x) { return x + tables[x.size(0)]; };
    const auto compiled = compile(f);
    for (const int64_t n : {4, 4, 5, 5, 6})
        expect_same(compiled(tables[n]), f(tables[n]));
    for (const int64_t n : {6, 7, 7, 6})
        expect_same(compiled(ones({n})), f(ones({n})));
}

/// The recordings of so many sizes would else keep a tensor each.
TEST(CompiledSizes, S91_tensors_that_are_exchanged_are_let_go) {
    int alive = 0, most = 0;
    Tensor cache;
    const auto f = compile([&](const Tensor &x, int64_t at) { return (cache * x).sum() + at; });
    for (int i = 0; i < 200; ++i) {
        auto *const memory = new std::vector<float>(64, static_cast<float>(i));
        ++alive;
        cache = from_blob(memory->data(), {64}, [&alive, memory](void *) {
            delete memory;
            --alive;
        });
        EXPECT_EQ(f(ones({1}), i).item<float>(), 65.0f * static_cast<float>(i));
        most = std::max(most, alive);
    }
    EXPECT_LE(most, 24);
}

/// More ways of a function than are remembered: the last ones are.
TEST(CompiledSizes, S90_many_loop_counts) {
    const auto f = [](const Tensor &x, int64_t k) {
        Tensor y = x;
        for (int64_t i = 0; i < k; ++i)
            y = y * x + 1;
        return y;
    };
    const auto compiled = compile(f);
    for (int64_t k = 1; k < 30; ++k)
        for (int i = 0; i < 2; ++i)
            expect_same(compiled(full({4}, 0.5), k), f(full({4}, 0.5), k));
    for (int64_t n = 10; n < 30; ++n)
        for (int i = 0; i < 2; ++i)
            expect_same(compiled(full({n}, 0.5), 29), f(full({n}, 0.5), 29));
    EXPECT_GE(compiled.stats().replays, 18) << compiled.stats().why;
}

/// What a compiled function captures may call it while it goes.
TEST(CompiledSizes, S91_captured_memory_that_calls_the_function_when_it_goes) {
    int called = 0;
    {
        Compiled<std::function<Tensor(const Tensor &)>> *self = nullptr;
        std::vector<float> memory(4, 2);
        Tensor captured = from_blob(memory.data(), {4}, [&](void *) {
            ++called;
            if (self)
                (*self)(ones({4}));
        });
        Tensor other = ones({4});
        const Tensor *now = &captured;
        auto f = std::make_unique<Compiled<std::function<Tensor(const Tensor &)>>>(
            compile(std::function<Tensor(const Tensor &)>([&](const Tensor &x) { return x + *now; })));
        self = f.get();
        for (int i = 0; i < 3; ++i)
            (*f)(ones({4}));
        now = &other;
        captured = Tensor();
        f.reset();
        self = nullptr;
    }
    EXPECT_EQ(called, 1);
}

TEST(CompiledSizes, S91_batches_of_many_sizes_train_as_ever) {
    const auto train = [](bool compiled, CompiledStats *stats) {
        manual_seed(3);
        nn::Sequential net{nn::Linear(5, 8), nn::BatchNorm1d(8), nn::Dropout(0.25), nn::Linear(8, 1)};
        optim::Adam optimizer(net->parameters(), optim::AdamOptions(0.01));
        const auto f = [&](const Tensor &x, const Tensor &y) {
            optimizer.zero_grad();
            Tensor loss = mse_loss(net(x), y);
            loss.backward();
            optimizer.step();
            return loss;
        };
        const auto step = compile(f);
        std::vector<Tensor> results;
        for (int epoch = 0; epoch < 4; ++epoch)
            for (int64_t n = 2; n < 12; ++n) {
                const Tensor x = randn({n, 5}), y = x.sum(1, true);
                results.push_back(compiled ? step(x, y) : f(x, y));
            }
        for (const Tensor &p : net->parameters())
            results.push_back(p);
        for (const Tensor &b : net->buffers())
            results.push_back(b);
        if (stats)
            *stats = step.stats();
        return results;
    };
    CompiledStats stats;
    const std::vector<Tensor> a = train(true, &stats), b = train(false, nullptr);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
        expect_same(a[i], b[i], std::to_string(i));
    EXPECT_GE(stats.replays, 20) << stats.why;
}

/// A cache that grows by one, again and again from the beginning.
TEST(CompiledSizes, S91_a_cache_that_grows) {
    const Tensor w = randn({4, 4});
    const auto f = [&](const Tensor &keys, const Tensor &x) {
        const Tensor q = matmul(x, w);
        return std::pair(matmul(softmax(matmul(q, keys.t()) / 2, -1), keys), cat({keys, q}, 0));
    };
    const auto compiled = compile(f);
    for (int sentence = 0; sentence < 3; ++sentence) {
        Tensor keys = ones({1, 4}), same = keys;
        for (int i = 0; i < 50; ++i) {
            const Tensor x = randn({1, 4});
            const auto [y, more] = compiled(keys, x);
            const auto [y2, more2] = f(same, x);
            expect_same(y, y2);
            keys = more;
            same = more2;
        }
        expect_same(keys, same);
    }
    EXPECT_GE(compiled.stats().replays, 95) << compiled.explain();
}

TEST(CompiledSizes, S90_the_sizes_not_used_for_longest_are_forgotten) {
    const auto f = [](const Tensor &x) { return x * 2; };
    const auto compiled = compile(f, {.name = "twice", .sizes = 3});
    for (int time = 0; time < 2; ++time)
        for (int64_t n = 1; n < 6; ++n)
            for (int i = 0; i < 3; ++i)
                expect_same(compiled(ones({n})), f(ones({n})));
    EXPECT_EQ(compiled.stats().sizes, 3);
    EXPECT_EQ(compiled.stats().signatures, 1);
    EXPECT_EQ(compiled.stats().replays, 1 + 9 * 2); // that of 1 element is as good as any
    try {
        save_program(std::filesystem::temp_directory_path() / "lazuli_sizes.lzp", compiled);
        FAIL() << "sizes were left out of a file";
    } catch (const StateError &error) {
        EXPECT_THAT(error.what(), HasSubstr("CompiledOptions::signatures or sizes"));
    }
    EXPECT_THAT(compiled.explain(), HasSubstr("f32[5]"));
    compiled.clear();
    EXPECT_EQ(compiled.stats().sizes, 0);
    EXPECT_EQ(compiled.stats().signatures, 0);
    expect_same(compiled(ones({7})), f(ones({7})));
}

/// A plan keeps what the function captures: forgetting sizes must not, and must not deadlock either.
TEST(CompiledSizes, S90_what_is_captured_goes_with_the_last_plan) {
    auto state = std::make_unique<Tensor>(ones({1}));
    const auto f = compile([&](const Tensor &x) { return x + *state; }, {.signatures = 1, .sizes = 2});
    for (int64_t n = 1; n < 8; ++n) {
        for (int i = 0; i < 3; ++i)
            expect_same(f(ones({n})), full({n}, 1 + n));
        *state = full({1}, n + 1);
    }
    expect_same(f(ones({2}).to(f64)).to(f32), full({2}, 9)); // another form
    EXPECT_EQ(f.stats().signatures, 1);
}

} // namespace
