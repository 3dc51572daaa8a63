// S91: variables that a compiled function captures, and which show another tensor later, while somebody else
// still has the old one. The oracle is the function itself.
#include "support.h"

#include <array>
#include <map>
#include <utility>
#include <vector>

namespace {

using namespace lz;
using namespace lz::test;

float first(const Tensor &t) {
    return t.flatten().at({0}).item<float>();
}

TEST(CompiledCaptured, S91_a_variable_that_is_assigned_another_tensor_is_noticed_while_the_old_one_lives) {
    for (const bool synced : {false, true}) {
        Tensor sums = zeros({4}), other = zeros({4});
        std::vector<Tensor> kept;
        const auto step = compile([&](const Tensor &x) {
            sums += x;
            return x.sum();
        });
        for (int epoch = 0; epoch < 4; ++epoch) {
            if (epoch > 0) {
                kept.push_back(sums);
                sums = zeros({4});
            }
            for (int i = 0; i < 6; ++i) {
                step(ones({4}));
                if (synced)
                    lz::sync();
            }
        }
        kept.push_back(sums);
        for (const Tensor &t : kept)
            EXPECT_EQ(first(t), 6) << synced;
        EXPECT_GT(step.stats().replays, 8) << step.explain();
    }
}

TEST(CompiledCaptured, S91_so_is_a_member_an_element_and_what_is_moved_or_reset) {
    struct State {
        Tensor scale = full({1}, 2);
        std::array<Tensor, 2> shifts{full({1}, 10), full({1}, 20)};
        std::map<std::string, Tensor> more{{"a", full({1}, 100)}};
    } state;
    lz::sync();
    const auto f = [&](const Tensor &x) {
        return x * state.scale + state.shifts[0] + state.shifts[1] + state.more["a"];
    };
    const auto compiled = compile(f);
    std::vector<Tensor> kept; // nothing goes
    const auto call_thrice = [&](const char *what) {
        for (int i = 0; i < 3; ++i)
            EXPECT_EQ(first(compiled(ones({1}))), first(f(ones({1})))) << what;
    };
    call_thrice("at first");
    kept = {state.scale, state.shifts[0], state.shifts[1], state.more["a"]};
    state.scale = full({1}, 3);
    call_thrice("a member");
    state.shifts[1] = state.scale;
    call_thrice("an element");
    Tensor next = full({1}, 7);
    kept.push_back(next);
    state.more["a"] = std::move(next);
    call_thrice("moved");
    state.shifts = {full({1}, 5), full({1}, 6)};
    call_thrice("all of them");
    state.scale = state.scale + 1;
    call_thrice("made of itself");
    EXPECT_GT(compiled.stats().replays, 5) << compiled.explain();
}

/// Which handle it was cannot be known: the function is recorded once more, and replayed again.
TEST(CompiledCaptured, S91_other_handles_that_are_assigned_cost_a_recording_and_no_more) {
    Tensor weight = full({1}, 2);
    lz::sync();
    const auto f = compile([&](const Tensor &x) { return x * weight; });
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(first(f(ones({1}))), 2);
    Tensor seen = weight;
    seen = zeros({1});
    const int64_t before = f.stats().recordings;
    for (int i = 0; i < 4; ++i)
        EXPECT_EQ(first(f(ones({1}))), 2);
    EXPECT_EQ(f.stats().recordings, before + 1) << f.explain();
    for (int i = 0; i < 4; ++i) { // copies that come and go cost nothing
        const Tensor copy = weight;
        Tensor same = weight;
        same = copy;
        EXPECT_EQ(first(f(ones({1}))), 2);
    }
    EXPECT_EQ(f.stats().recordings, before + 1) << f.explain();
}

/// An average of weights that the function changes in place keeps those of every call until it is computed.
TEST(CompiledCaptured, S22_what_calls_leave_pending_again_and_again_is_launched) {
    Tensor weight = ones({1 << 16}), average = weight.clone();
    lz::sync();
    const auto step = compile([&](const Tensor &x) {
        weight *= x;
        return weight.sum();
    });
    const Tensor factor = full({}, 0.99);
    const int64_t before = memory_allocated(Device::cpu());
    int64_t most = 0;
    double expected_weight = 1, expected = 1;
    for (int i = 0; i < 200; ++i) {
        step(factor);
        average.lerp_(weight, 0.1);
        most = std::max(most, memory_allocated(Device::cpu()) - before);
        expected_weight *= 0.99;
        expected += 0.1 * (expected_weight - expected);
    }
    EXPECT_LT(most, int64_t{40} << 18) << "bytes, of 200 times 256 KiB";
    EXPECT_NEAR(average.mean().item<double>(), expected, 1e-4);
    EXPECT_NEAR(weight.mean().item<double>(), expected_weight, 1e-4);
    EXPECT_GT(step.stats().replays, 190) << step.explain();
}

TEST(CompiledCaptured, S90_a_compiled_function_that_was_moved_from_says_so) {
    auto f = compile([](const Tensor &x) { return x * 2; });
    const auto copy = f;
    const auto g = std::move(f);
    EXPECT_THROW(f(ones({1})), StateError); // NOLINT: it was moved from
    EXPECT_THROW(f.stats(), StateError);
    EXPECT_THROW(f.explain(), StateError);
    EXPECT_THROW(f.clear(), StateError);
    EXPECT_EQ(first(g(ones({1}))), 2);
    EXPECT_EQ(first(copy(ones({1}))), 2);
}

} // namespace
