// S91: variables that a compiled function captures, and which show another tensor later, while somebody else
// still has the old one: in a program of the user's, beside liblazuli.so. The oracle is the function itself.
#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace lz;

float first(const Tensor &t) {
    return t.flatten().at({0}).item<float>();
}

TEST(Variables, S91_a_variable_that_is_assigned_another_tensor_is_noticed_while_the_old_one_lives) {
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

TEST(Variables, S91_so_is_a_member_an_element_and_what_is_moved_or_reset) {
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
TEST(Variables, S91_other_handles_that_are_assigned_cost_a_recording_and_no_more) {
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
    for (int i = 0; i < 4; ++i) { // nor do those that functions of the library have for a while
        (void)weight.to(f64).sum().item<double>();
        (void)weight.cpu().flip({0}).roll(1).repeat({2}).eval();
        (void)(weight + weight.index_select(0, tensor({0}))).item<float>();
        EXPECT_EQ(first(f(ones({1}))), 2);
    }
    EXPECT_EQ(f.stats().recordings, before + 1) << f.explain();
}

} // namespace

int main(int argc, char **argv) {
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
