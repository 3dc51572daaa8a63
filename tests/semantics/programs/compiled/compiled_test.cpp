// S90 to S99: compiled functions. The oracle is the function itself, called on copies of the same state.
#include "support.h"

#include <lazuli/nn.h>
#include <lazuli/optim.h>

#include <array>
#include <bit>
#include <map>
#include <thread>

namespace {

using namespace lz;
using namespace lz::test;

/// Every element as a double: a float that is not the same has other bits there, too.
std::vector<uint64_t> bits(const Tensor &t) {
    std::vector<uint64_t> out;
    for (const double value : t.to(f64).to_vector<double>())
        out.push_back(std::bit_cast<uint64_t>(value));
    return out;
}
void expect_same(const Tensor &a, const Tensor &b, const std::string &what = "") {
    ASSERT_EQ(a.defined(), b.defined()) << what;
    if (!a.defined())
        return;
    EXPECT_EQ(a.dtype(), b.dtype()) << what;
    EXPECT_EQ(a.sizes(), b.sizes()) << what;
    EXPECT_EQ(a.device(), b.device()) << what;
    EXPECT_EQ(bits(a), bits(b)) << what << "\n" << a << "\n" << b;
}

/// So many calls are recorded before one is replayed.
constexpr int kRecordings = 2;

TEST(Compiled, S90_a_compiled_function_gives_the_bits_of_the_function) {
    for (const Device &place : places()) {
        const auto f = [](const Tensor &x, const Tensor &y) {
            const Tensor p = softmax(matmul(x, y) * 0.5 + 1, -1);
            return sum(p * log(p + 1e-3), 1) - exp(-x).mean();
        };
        const auto compiled = compile(f);
        manual_seed(1);
        for (int i = 0; i < 6; ++i) {
            const Tensor x = randn({5, 7}, {.device = place}), y = randn({7, 3}, {.device = place});
            expect_same(compiled(x, y), f(x, y));
        }
        EXPECT_EQ(compiled.stats().replays, 6 - kRecordings) << compiled.explain();
        EXPECT_EQ(compiled.stats().signatures, 1);
    }
}

/// The later ones are found by the operation that has them, which is computed for their sake alone.
TEST(Compiled, S90_some_of_several_results_are_enough) {
    const auto one = [](const auto &f) {
        for (const Device &place : places()) {
            const auto compiled = compile(f);
            for (int i = 0; i < 5; ++i) {
                const Tensor x = randn({5, 7}, {.device = place});
                expect_same(compiled(x), f(x));
            }
            EXPECT_EQ(compiled.stats().replays, 5 - kRecordings) << compiled.explain();
        }
    };
    one([](const Tensor &x) { return sort(x).values; });
    one([](const Tensor &x) { return sort(x).indices; });
    one([](const Tensor &x) { return topk(x, 3).indices; });
    one([](const Tensor &x) { return max(x, 1).indices; });
    one([](const Tensor &x) { return sort(x * 2).indices + 1; });
    one([](const Tensor &x) { return split(x, 2, 1)[2]; });
    one([](const Tensor &x) { return unbind(x, 0)[3]; });
}

TEST(Compiled, S90_each_signature_is_recorded_and_the_oldest_is_forgotten) {
    const auto f = [](const Tensor &x) { return x * 2 + 1; };
    const auto compiled = compile(f, {.name = "twice", .signatures = 3});
    const auto call = [&](const Sizes &sizes, DType dtype) {
        const Tensor x = full(sizes, 3, {.dtype = dtype});
        expect_same(compiled(x), f(x));
    };
    for (int i = 0; i < 4; ++i)
        for (const DType dtype : {f32, f64, i32})
            call({2, 3}, dtype);
    EXPECT_EQ(compiled.stats().replays, 3 * (4 - kRecordings));
    EXPECT_EQ(compiled.stats().signatures, 3);
    call({4}, f16); // f32 has not been used for longest
    EXPECT_EQ(compiled.stats().signatures, 3);
    call({2, 3}, i32);
    EXPECT_EQ(compiled.stats().replays, 3 * (4 - kRecordings) + 1);
    call({2, 3}, f32);
    EXPECT_EQ(compiled.stats().replays, 3 * (4 - kRecordings) + 1);
    for (const Sizes &empty : {Sizes{0}, Sizes{3, 0, 2}, Sizes{}})
        for (int i = 0; i < 4; ++i)
            call(empty, bf16);
    EXPECT_NE(compiled.explain().find("twice"), std::string::npos);
    compiled.clear();
    EXPECT_EQ(compiled.stats().signatures, 0);
    call({2}, f32);
}

struct Batch {
    Tensor x;
    std::vector<Tensor> more;
    std::optional<Tensor> mask;
    int64_t times = 1;
    auto members() { return std::tie(x, more, mask, times); }
};
struct Plain {
    Tensor sum, product;
};
auto lz_members(Plain &p) {
    return std::tie(p.sum, p.product);
}

TEST(Compiled, S90_structs_vectors_arrays_and_maps_go_in_and_out) {
    const auto f = [](const Batch &b, const std::map<std::string, Tensor> &named,
                      std::array<Tensor, 2> pair) {
        Tensor x = b.x * static_cast<double>(b.times);
        for (const Tensor &t : b.more)
            x = x + t;
        if (b.mask)
            x = where(*b.mask, x, pair[1]);
        std::map<std::string, Tensor> out;
        for (const auto &[name, t] : named)
            out[name] = t * x;
        return std::tuple(Plain{x + pair[0], x * pair[1]}, out, std::vector<Tensor>{x, Tensor(), x},
                          std::pair<Tensor, Tensor>(x, b.x));
    };
    const auto compiled = compile(f);
    for (int i = 0; i < 6; ++i) {
        const Batch b{randn({4}), {randn({4}), randn({1})}, Tensor(randn({4}) > 0), 3};
        const std::map<std::string, Tensor> named = {{"a", randn({4})}, {"b", randn({})}};
        const std::array<Tensor, 2> pair = {randn({4}), randn({4})};
        const auto [plain, out, list, both] = compiled(b, named, pair);
        const auto [plain2, out2, list2, both2] = f(b, named, pair);
        expect_same(plain.sum, plain2.sum);
        expect_same(plain.product, plain2.product);
        ASSERT_EQ(out.size(), 2u);
        expect_same(out.at("a"), out2.at("a"));
        expect_same(out.at("b"), out2.at("b"));
        ASSERT_EQ(list.size(), 3u);
        expect_same(list[0], list2[0]);
        EXPECT_FALSE(list[1].defined());
        EXPECT_TRUE(list[2].same_tensor(list[0]));
        EXPECT_TRUE(both.first.same_tensor(list[0]));
        EXPECT_TRUE(both.second.same_tensor(b.x));
    }
    EXPECT_EQ(compiled.stats().replays, 6 - kRecordings) << compiled.explain();
    const Batch longer{randn({4}), {randn({4})}, std::nullopt, 2}; // another structure
    const std::array<Tensor, 2> pair = {randn({4}), randn({4})};
    const std::map<std::string, Tensor> none;
    expect_same(std::get<0>(compiled(longer, none, pair)).sum, std::get<0>(f(longer, none, pair)).sum);
    EXPECT_EQ(compiled.stats().signatures, 2);
}

TEST(Compiled, S91_captured_tensors_are_read_and_changed_as_they_are_now) {
    for (const Device &place : places()) {
        struct State {
            Tensor mean, count, table;
        };
        const auto make = [&] {
            return State{zeros({3}, {.device = place}), zeros({}, {.dtype = i64, .device = place}),
                         ones({4, 3}, {.device = place})};
        };
        const auto step = [](State &s, const Tensor &x) {
            s.mean.mul_(0.9).add_(x.mean(0) * 0.1);
            s.count.add_(1);
            s.table.at(1) = s.mean;
            s.table.at({Slice(2, 4), 0}) *= 2;
            return s.table.t() + s.count;
        };
        State a = make(), b = make();
        const auto compiled = compile([&](const Tensor &x) { return step(a, x); });
        std::vector<Tensor> kept, kept2;
        for (int i = 0; i < 8; ++i) {
            const Tensor x = randn({5, 3}, {.device = place});
            kept.push_back(compiled(x));
            kept2.push_back(step(b, x));
            if (i == 4) { // changed from outside, lazily, and the value before is kept by a view
                kept.push_back(a.mean * 1);
                kept2.push_back(b.mean * 1);
                kept.push_back(a.table.at(1));
                kept2.push_back(b.table.at(1));
                a.mean.add_(1);
                b.mean.add_(1);
            }
            expect_same(a.mean, b.mean);
            expect_same(a.count, b.count);
            expect_same(a.table, b.table);
        }
        for (size_t i = 0; i < kept.size(); ++i)
            expect_same(kept[i], kept2[i], "result " + std::to_string(i));
        EXPECT_GE(compiled.stats().replays, 4) << compiled.explain();
    }
}

TEST(Compiled, S91_arguments_changed_in_place_are_changed) {
    const auto f = [](Tensor x, const Tensor &y) {
        x.add_(y);
        return x * 2;
    };
    const auto compiled = compile(f);
    Tensor a = zeros({3}), b = zeros({3});
    for (int i = 0; i < 5; ++i) {
        const Tensor y = randn({3});
        expect_same(compiled(a, y), f(b, y));
        expect_same(a, b);
    }
    EXPECT_EQ(compiled.stats().replays, 5 - kRecordings);
    expect_same(compiled(a, a), f(b, b)); // one tensor twice is another signature
    expect_same(a, b);
    const Tensor before = a.clone();
    expect_same(before, a);
    expect_same(compiled(a, ones({3})), f(b, ones({3})));
    expect_same(before + 1, a);
}

TEST(Compiled, S91_a_variable_that_becomes_another_tensor_is_seen) {
    Tensor state = ones({3});
    const auto compiled = compile([&](const Tensor &x) { return state + x; });
    for (int i = 1; i < 8; ++i) {
        state = compiled(ones({3}));
        EXPECT_EQ(floats(state), std::vector<float>(3, 1.0f + static_cast<float>(i)));
    }
    Tensor kept;
    const auto keeps = compile([&](const Tensor &x) {
        kept = x * 2;
        return x + 1;
    });
    for (int i = 0; i < 5; ++i) {
        keeps(full({2}, i));
        EXPECT_EQ(floats(kept), std::vector<float>(2, 2.0f * static_cast<float>(i)));
    }
    EXPECT_EQ(keeps.stats().replays, 0);
    EXPECT_NE(keeps.stats().why.find("keeps a tensor in a variable outside, at "), std::string::npos)
        << keeps.stats().why;
    EXPECT_NE(keeps.stats().why.find("compiled_test.cpp"), std::string::npos);
    Tensor w = ones({2}); // given as an argument each time until it is not
    const auto sum_with = compile([&](const Tensor &x) { return x * 10 + w; });
    for (int i = 0; i < 4; ++i)
        EXPECT_EQ(floats(sum_with(w)), std::vector<float>(2, 11));
    EXPECT_EQ(floats(sum_with(zeros({2}))), std::vector<float>(2, 1));
    EXPECT_EQ(floats(sum_with(zeros({2}))), std::vector<float>(2, 1));
    EXPECT_EQ(floats(sum_with(w)), std::vector<float>(2, 11));
}

TEST(Compiled, S91_a_variable_of_several_plans_that_becomes_another_tensor_is_seen) {
    Tensor w = ones({2});
    const auto times = compile([&](const Tensor &x) { return x * w; });
    const auto plus = compile([&](const Tensor &x) { return x + w; });
    for (int i = 0; i < 15; ++i) {
        if (i == 6) // pending, and so recorded once more
            w += 1;
        else if (i % 3 == 0)
            w = full({2}, i + 1.0);
        expect_same(times(full({2}, 3.0)), 3 * w);
        expect_same(plus(full({2}, 3.0)), 3 + w);
    }
}

/// Two equal networks with equal optimizers.
template <class Optimizer, class Options>
void train(const Device &place, const Options &options, int64_t replays, bool zero_outside = false) {
    const auto make = [&] {
        manual_seed(3);
        nn::Sequential net{nn::Linear(6, 8), nn::BatchNorm1d(8), nn::ReLU(), nn::Dropout(0.3),
                           nn::Linear(8, 3)};
        net->to(place);
        return net;
    };
    nn::Sequential one = make(), other = make();
    Optimizer optimizer(one->parameters(), options), optimizer2(other->parameters(), options);
    const auto step = [&](nn::Sequential &net, Optimizer &o, const Tensor &x, const Tensor &y) {
        if (!zero_outside)
            o.zero_grad();
        const Tensor loss = cross_entropy(net(x), y);
        loss.backward();
        o.step();
        return loss;
    };
    const auto compiled =
        compile([&](const Tensor &x, const Tensor &y) { return step(one, optimizer, x, y); });
    Generator data(5);
    for (int i = 0; i < 10; ++i) {
        const Tensor x = randn({7, 6}, data).to(place), y = randint(0, 3, {7}, data).to(place);
        if (i == 7)
            for (auto *o : {&optimizer, &optimizer2})
                o->param_groups()[0].options().set_lr(0.02);
        if (zero_outside && i % 3 == 0) {
            optimizer.zero_grad();
            optimizer2.zero_grad();
        }
        const Generator::State at = default_generator().get_state();
        const Tensor loss = compiled(x, y);
        const Generator::State after = default_generator().get_state();
        default_generator().set_state(at);
        const Tensor loss2 = step(other, optimizer2, x, y);
        EXPECT_EQ(default_generator().get_state(), after);
        expect_same(loss.detach(), loss2.detach(), "loss " + std::to_string(i));
        EXPECT_EQ(loss.requires_grad(), loss2.requires_grad());
        EXPECT_THROW(loss.backward(), StateError); // used up, as without compile
        const auto a = one->named_parameters(), b = other->named_parameters();
        for (const auto &[name, p] : a) {
            expect_same(p.detach(), b.at(name).detach(), name);
            expect_same(p.grad(), b.at(name).grad(), name + ".grad");
        }
        for (const auto &[name, p] : one->named_buffers())
            expect_same(p, other->named_buffers().at(name), name);
    }
    const StateDict a = optimizer.state_dict(), b = optimizer2.state_dict();
    for (const auto &[name, t] : a)
        expect_same(t, b.at(name), name);
    EXPECT_GE(compiled.stats().replays, replays) << compiled.explain();
}

TEST(Compiled, S92_a_training_step_is_replayed_with_its_backward_and_its_optimizer) {
    LZ_NEEDS_GPUS(2);
    // On a GPU the labels of the loss are checked while it runs.
    train<optim::SGD>(kGpu1, optim::SGDOptions(0.1), 0);
    train<optim::Adam>(Device::cpu(), optim::AdamOptions(0.01).weight_decay(0.01), 6);
    train<optim::SGD>(Device::cpu(), optim::SGDOptions(0.1).momentum(0.9), 6);
    train<optim::AdamW>(Device::cpu(), optim::AdamWOptions(0.01), 6);
    train<optim::NAdam>(Device::cpu(), optim::NAdamOptions(0.01), 6);
    train<optim::RMSprop>(Device::cpu(), optim::RMSpropOptions(0.01), 6);
    train<optim::SGD>(Device::cpu(), optim::SGDOptions(0.1), 3, true);
}

TEST(Compiled, S92_what_is_differentiated_outside_is_not_replayed_and_has_its_gradients) {
    const auto f = [](const Tensor &x) { return sum(x * x * x); };
    const auto compiled = compile(f);
    for (int i = 0; i < 4; ++i) {
        const Tensor x = full({3}, i + 1.0).requires_grad_();
        compiled(x).backward();
        EXPECT_EQ(floats(x.grad()), std::vector<float>(3, 3 * static_cast<float>((i + 1) * (i + 1))));
    }
    EXPECT_EQ(compiled.stats().replays, 0);
    EXPECT_NE(compiled.stats().why.find("through which gradients go"), std::string::npos);
    const NoGradGuard off; // another signature
    for (int i = 0; i < 4; ++i)
        expect_same(compiled(full({3}, i)), f(full({3}, i)));
    EXPECT_EQ(compiled.stats().replays, 4 - kRecordings);
    // Gradients that are results.
    const AutoGradMode on(true);
    const auto slope = [](const Tensor &x) {
        const Tensor leaf = x.detach().requires_grad_();
        sum(sin(leaf) * leaf).backward();
        return leaf.grad();
    };
    const auto compiled_slope = compile(slope);
    for (int i = 0; i < 5; ++i) {
        const Tensor x = randn({4});
        expect_same(compiled_slope(x), slope(x));
    }
    EXPECT_EQ(compiled_slope.stats().replays, 5 - kRecordings) << compiled_slope.explain();
}

TEST(Compiled, S93_random_numbers_go_on_where_they_were) {
    for (const Device &place : places()) {
        const auto f = [&](const Tensor &x) {
            return dropout(x, 0.5, true) + rand({6}, {.device = place}) + randn({6}, {.device = place}) +
                   bernoulli(x.abs().clamp(0, 1));
        };
        const auto compiled = compile(f);
        const Tensor x = full({6}, 0.5, {.device = place});
        manual_seed(11);
        std::vector<Tensor> expected;
        for (int i = 0; i < 6; ++i) {
            expected.push_back(f(x));
            rand({3}).eval();
        }
        const Generator::State end = default_generator().get_state();
        manual_seed(11);
        for (int i = 0; i < 6; ++i) {
            expect_same(compiled(x), expected[static_cast<size_t>(i)], "call " + std::to_string(i));
            rand({3}).eval();
        }
        EXPECT_EQ(default_generator().get_state(), end);
        EXPECT_EQ(compiled.stats().replays, 6 - kRecordings) << compiled.explain();
        manual_seed(11);
        expect_same(compiled(x), expected[0]);
    }
    const auto seeds = compile([](const Tensor &x) {
        manual_seed(4);
        return x + rand({2});
    });
    const Tensor first = seeds(zeros({2}));
    for (int i = 0; i < 4; ++i)
        expect_same(seeds(zeros({2})), first);
    EXPECT_EQ(seeds.stats().replays, 0);
    const auto own = compile([](const Tensor &x) {
        Generator generator(9);
        return x + rand({2}, generator);
    });
    const Tensor same = own(zeros({2}));
    for (int i = 0; i < 4; ++i)
        expect_same(own(zeros({2})), same);
}

TEST(Compiled, S94_what_needs_a_value_runs_uncompiled_and_says_where) {
    const auto f = [](const Tensor &x) {
        if (x.sum().item<float>() > 0)
            return x * 2;
        return x - 1;
    };
    const auto compiled = compile(f, {.name = "branches"});
    for (int i = -3; i < 4; ++i)
        expect_same(compiled(full({2}, i)), f(full({2}, i)));
    EXPECT_EQ(compiled.stats().replays, 0);
    EXPECT_NE(compiled.stats().why.find("needs a value while it is recorded, at "), std::string::npos);
    EXPECT_NE(compiled.stats().why.find("compiled_test.cpp"), std::string::npos) << compiled.stats().why;
    EXPECT_NE(compiled.explain().find("needs a value"), std::string::npos);
    int calls = 0; // another graph at each call
    const auto counts = compile([&](const Tensor &x) {
        Tensor y = x;
        for (int k = 0; k < calls % 3; ++k)
            y = y * 2;
        ++calls;
        return y + 1;
    });
    for (int i = 0; i < 9; ++i)
        EXPECT_EQ(floats(counts(ones({1})))[0], static_cast<float>((1 << i % 3) + 1)) << "call " << i;
}

TEST(Compiled, S95_floats_are_arguments_and_everything_else_is_part_of_the_signature) {
    const auto f = [](const Tensor &x, double a, float b, int64_t axis, bool twice) {
        Tensor y = sum(x * a + (1 - b) - b / a, axis);
        return twice ? y * 2 : y;
    };
    const auto compiled = compile(f);
    const Tensor x = randn({3, 4});
    for (int i = 0; i < 8; ++i) {
        const double a = 0.3 + i;
        const float b = 2.0f * static_cast<float>(i) + 0.25f;
        expect_same(compiled(x, a, b, 1, true), f(x, a, b, 1, true), "call " + std::to_string(i));
    }
    // 1 - b and b / a were computed on the host, the latter of two: each value is recorded.
    const auto simple = [](const Tensor &t, double a, float b) { return t * a - (1 - b) + t / b; };
    const auto compiled_simple = compile(simple);
    for (int i = 0; i < 8; ++i) {
        const double a = 0.3 + 0.05 * i;
        const float b = 0.2f * static_cast<float>(i) + 2.25f;
        expect_same(compiled_simple(x, a, b), simple(x, a, b), "call " + std::to_string(i));
    }
    EXPECT_GE(compiled_simple.stats().replays, 6) << compiled_simple.explain();
    expect_same(compiled(x, 1.5, 2.0f, 0, true), f(x, 1.5, 2.0f, 0, true));
    expect_same(compiled(x, 1.5, 2.0f, 0, false), f(x, 1.5, 2.0f, 0, false));
    EXPECT_EQ(compiled.stats().signatures, 3);
    double captured = 1; // changes: no two recordings agree
    const auto baked = compile([&](const Tensor &t) { return t * captured; });
    for (int i = 0; i < 6; ++i) {
        captured = i;
        EXPECT_EQ(floats(baked(ones({1})))[0], static_cast<float>(i));
    }
    const auto listed = compile([&](const Tensor &t) { return t + tensor({1.0, captured}); });
    for (int i = 0; i < 6; ++i) {
        captured = i / 2;
        EXPECT_EQ(floats(listed(zeros({2})))[1], static_cast<float>(i / 2));
        if (i % 2 == 1) // the same twice
            host_state_changed();
    }
}

TEST(Compiled, S96_a_call_that_fails_leaves_everything_as_it_was) {
    Tensor state = zeros({2});
    bool fails = false;
    const auto f = [&](const Tensor &x, const Tensor &index) {
        state.add_(1);
        const Tensor y = x.index_select(0, index);
        if (fails)
            throw std::runtime_error("half-way");
        return y + state;
    };
    const auto compiled = compile(f);
    const Tensor x = tensor({1.0f, 2.0f});
    for (int i = 0; i < 4; ++i)
        EXPECT_EQ(floats(compiled(x, tensor({1, 0})))[0], static_cast<float>(i + 3));
    EXPECT_EQ(compiled.stats().replays, 4 - kRecordings) << compiled.explain();
    try {
        const Tensor lost = compiled(x, tensor({1, 5}));
        FAIL() << "no error";
    } catch (const IndexError &error) {
        EXPECT_NE(std::string(error.what()).find("index_select"), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("compiled_test.cpp"), std::string::npos) << error.what();
    }
    EXPECT_EQ(floats(state), std::vector<float>(2, 4)); // as before the call
    EXPECT_EQ(floats(compiled(x, tensor({1, 0})))[0], 7.0f);
    fails = true;
    host_state_changed();
    EXPECT_THROW(compiled(x, tensor({1, 0})), std::runtime_error);
    EXPECT_EQ(floats(state), std::vector<float>(2, 6)); // what the function had done by then, as uncompiled
    fails = false;
    EXPECT_EQ(floats(compiled(x, tensor({1, 0})))[0], 9.0f);
    EXPECT_EQ(floats(compiled(x, tensor({1, 0})))[0], 10.0f);
    EXPECT_THROW(compiled(ones({2, 3}), ones({1, 3})), Error); // a type error of the function's own
}

TEST(Compiled, S97_threads_call_one_compiled_function) {
    const auto f = [](const Tensor &x) { return softmax(x * 3, 0).sum() + x; };
    const auto compiled = compile(f);
    std::vector<std::thread> threads;
    std::array<int, 4> wrong{};
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 50; ++i) {
                const Tensor x = full({t % 2 + 2}, i * 0.1 + t);
                wrong[static_cast<size_t>(t)] += bits(compiled(x)) != bits(f(x));
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong, (std::array<int, 4>{}));
    EXPECT_GT(compiled.stats().replays, 100);
}

TEST(Compiled, S97_compiled_functions_call_each_other) {
    const auto inner = compile([](const Tensor &x) { return x * 2; });
    const auto outer = compile([&](const Tensor &x) { return inner(x) + inner(x + 1); });
    for (int i = 0; i < 5; ++i)
        EXPECT_EQ(floats(outer(full({1}, i)))[0], static_cast<float>(4 * i + 2));
    EXPECT_EQ(outer.stats().replays, 5 - kRecordings);
    EXPECT_EQ(inner.stats().replays, 0); // it was a part of the outer one
}

TEST(Compiled, S98_pending_arguments_are_computed_and_results_are_there) {
    const auto compiled = compile([](const Tensor &x) { return x + 1; });
    for (int i = 0; i < 5; ++i) {
        const Tensor x = full({3}, i) * 2;
        const Tensor other = full({3}, i) * 5;
        const int64_t launches = compile_stats().kernel_launches;
        const Tensor y = compiled(x);
        EXPECT_EQ(compile_stats().kernel_launches - launches, 2) << "x and y, and nothing else";
        EXPECT_EQ(floats(y), std::vector<float>(3, static_cast<float>(2 * i + 1)));
        EXPECT_EQ(floats(other), std::vector<float>(3, static_cast<float>(5 * i)));
    }
    if (!cuda::is_available())
        return;
    const Stream stream(kGpu0); // a stream of the user's: in its order, uncompiled
    const StreamGuard guard(stream);
    const Tensor g = ones({3}, {.device = kGpu0});
    EXPECT_EQ(floats(compiled(g)), std::vector<float>(3, 2));
}

TEST(Compiled, S98_modes_of_the_thread_are_part_of_the_signature) {
    const auto f = [](const Tensor &x, const Tensor &w) { return matmul(x, w) + zeros({2}); };
    const auto compiled = compile(f);
    const Tensor x = randn({2, 2}), w = randn({2, 2});
    for (int i = 0; i < 3; ++i) {
        expect_same(compiled(x, w), f(x, w));
        {
            const AutocastGuard half(bf16);
            EXPECT_EQ(compiled(x, w).dtype(), f(x, w).dtype());
            expect_same(compiled(x, w), f(x, w));
        }
        const DefaultDTypeGuard wide(f64);
        expect_same(compiled(x, w), f(x, w));
        EXPECT_EQ(compiled(x, w).dtype(), f64);
    }
    nn::Dropout drop(0.5);
    const auto dropping = compile([&](const Tensor &t) { return drop(t); });
    for (int i = 0; i < 3; ++i) {
        drop->train();
        for (int k = 0; k < 3; ++k) {
            const Generator::State at = default_generator().get_state();
            const Tensor y = dropping(ones({64}));
            default_generator().set_state(at);
            expect_same(y, drop(ones({64})));
        }
        drop->eval();
        for (int k = 0; k < 3; ++k)
            EXPECT_EQ(floats(dropping(ones({64}))), std::vector<float>(64, 1));
    }
}

TEST(Compiled, S99_every_replay_can_be_checked) {
    run_child("LAZULI_CHECK_COMPILED=3", "ChecksCompiledFunctions");
}

} // namespace

TEST(Child, DISABLED_ChecksCompiledFunctions) {
    using namespace lz;
    bool other = false;
    const auto compiled = compile([&](const Tensor &x) { return other ? x * 2 : x + 2; }, {.name = "sly"});
    const Tensor x = full({1}, 3);
    for (int i = 0; i < 9; ++i)
        EXPECT_EQ(compiled(x).item<float>(), 5.0f);
    other = true;
    try {
        for (int i = 0; i < 9; ++i)
            compiled(x);
        FAIL() << "no check found it";
    } catch (const StateError &error) {
        const std::string what = error.what();
        EXPECT_NE(what.find("sly: a replay would not have done"), std::string::npos) << what;
        EXPECT_NE(what.find("compiled_test.cpp"), std::string::npos) << what;
    }
}
