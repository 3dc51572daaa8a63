// Compiled functions that are called with many sizes: the first call of one is recorded, later ones are
// replays. The oracle is the function itself.
#include <lazuli/compiled.h>
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>
#include <lazuli/optim.h>
#include <lazuli/program.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
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
    EXPECT_GE(compiled.stats().replays, expected) << compiled.stats().why;
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

TEST(CompiledSizes, S95_numbers_are_learned_for_all_sizes) {
    const auto f = [](const Tensor &x, double a) { return x * a + 1; };
    const auto compiled = compile(f);
    for (int i = 0; i < 4; ++i)
        expect_same(compiled(ones({3}), 0.5 + i), f(ones({3}), 0.5 + i));
    EXPECT_EQ(compiled.stats().replays, 2);
    for (int64_t n = 4; n < 20; ++n)
        for (int i = 0; i < 3; ++i)
            expect_same(compiled(ones({n}), 7.5 + i), f(ones({n}), 7.5 + i));
    EXPECT_EQ(compiled.stats().replays, 2 + 16 * 2);
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
