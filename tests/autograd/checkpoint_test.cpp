// What checkpoints save: memory, where forward and backward are one program and where a sync is between them.
#include "check.h"
#include "tests/support/tensor_values.h"

#include <string>

namespace {

using namespace lz::test;
using lz::Tensor;
using lz::autograd::variable_list;

constexpr int kSegments = 6, kLayersOfASegment = 6;
constexpr int64_t kRows = 1024, kFeatures = 128, kActivationBytes = kRows * kFeatures * 4;

/// A chain of layers, in segments that may be checkpoints, and what a step of it takes.
struct Chain {
    std::vector<Tensor> weights;
    Tensor x = (numbers({kRows, kFeatures}, -1, 1).to(lz::f32) * 1).requires_grad_();

    Chain() {
        for (int i = 0; i < kSegments * kLayersOfASegment; ++i)
            weights.push_back(
                (numbers({kFeatures, kFeatures}, -0.2, 0.2).to(lz::f32) * (1 + i * 0.01)).requires_grad_());
        x.eval();
        lz::eval(weights);
    }
    Tensor loss(bool checkpoints) const {
        Tensor h = x;
        for (int s = 0; s < kSegments; ++s) {
            const auto segment = [this, s](const variable_list &in) {
                Tensor y = in[0];
                for (int l = 0; l < kLayersOfASegment; ++l)
                    y = lz::tanh(lz::matmul(y, weights[static_cast<size_t>(s * kLayersOfASegment + l)]));
                return y;
            };
            h = checkpoints ? lz::autograd::checkpoint(segment, {h}) : segment({h});
        }
        return h.square().sum();
    }
    std::vector<Tensor> gradients() {
        std::vector<Tensor> found;
        for (Tensor *tensor : all())
            found.push_back(std::exchange(tensor->mutable_grad(), Tensor()));
        return found;
    }
    std::vector<Tensor *> all() {
        std::vector<Tensor *> out = {&x};
        for (Tensor &w : weights)
            out.push_back(&w);
        return out;
    }
};

struct Step {
    double activations = 0; ///< the most bytes beyond what was there before, in activations
    std::vector<Tensor> gradients;
};

Step measured(Chain &chain, bool checkpoints, bool sync_between) {
    const lz::Device device = chain.x.device();
    const auto run = [&] {
        const Tensor loss = chain.loss(checkpoints);
        if (sync_between)
            loss.eval();
        loss.backward();
        lz::sync();
    };
    run();
    (void)chain.gradients(); // the second step knows its program
    const int64_t before = lz::memory_allocated(device);
    lz::reset_peak_memory_stats(device);
    run();
    const auto bytes = static_cast<double>(lz::max_memory_allocated(device) - before);
    return {bytes / kActivationBytes, chain.gradients()};
}

TEST(CheckpointMemory, OfSixSegmentsIsThatOfTheirInputsAndOfOneOfThem) {
    Chain chain;
    const Step without = measured(chain, false, false), with = measured(chain, true, false),
               apart = measured(chain, true, true);
    ASSERT_EQ(with.gradients.size(), without.gradients.size());
    for (size_t i = 0; i < with.gradients.size(); ++i) {
        EXPECT_GT(without.gradients[i].abs().max().item<float>(), 0);
        EXPECT_TRUE(lz::equal(with.gradients[i], without.gradients[i])) << i;
        EXPECT_TRUE(lz::equal(apart.gradients[i], without.gradients[i])) << i;
    }
    // Gradients of the weights are an eighth of an activation each.
    const double results = 1 + kSegments * kLayersOfASegment / 8.0;
    EXPECT_GT(without.activations, kSegments * kLayersOfASegment);
    // Inputs of segments, one segment, and what two products have at a time.
    EXPECT_LT(with.activations, results + kSegments + kLayersOfASegment + 4) << without.activations;
    EXPECT_LT(apart.activations, results + kSegments + kLayersOfASegment + 4) << without.activations;
}

TEST(CheckpointMemory, AnInputOfAnyKindComesBackAsItWas) {
    // NaN, infinities and both zeros; whole numbers that no float has; masks; tensors without elements.
    const Tensor odd = lz::tensor({NAN, INFINITY, -0.0, 0.0}, {.dtype = lz::f32});
    const Tensor whole = lz::tensor({(int64_t{1} << 62) + 1, int64_t{-7}});
    const Tensor mask = lz::tensor({true, false});
    const Tensor none = lz::ones({0, 3});
    Tensor w = lz::tensor({2.0, 3.0}, {.requires_grad = true});
    std::vector<variable_list> seen;
    const Tensor y = lz::autograd::checkpoint(
        [&](const variable_list &x) {
            seen.push_back({x[1], x[2], x[3], x[4]});
            return x[0] * 2;
        },
        {w, odd, whole, mask, none, Tensor()});
    y.backward(lz::tensor({NAN, 1.0}));
    ASSERT_EQ(seen.size(), 2u);
    for (const variable_list &x : seen) {
        EXPECT_EQ(std::signbit(x[0].at(2).item<float>()), true);
        EXPECT_EQ(std::signbit(x[0].at(3).item<float>()), false);
        EXPECT_TRUE(std::isnan(x[0].at(0).item<float>()));
        EXPECT_EQ(x[0].at(1).item<float>(), INFINITY);
        EXPECT_TRUE(lz::equal(x[1], whole));
        EXPECT_TRUE(lz::equal(x[2], mask));
        EXPECT_EQ(x[3].sizes(), none.sizes());
    }
    EXPECT_TRUE(std::isnan(w.grad().at(0).item<double>()));
    EXPECT_EQ(w.grad().at(1).item<double>(), 2);
}

TEST(CheckpointMemory, AnEmptyResultIsAnErrorWithTheLineOfTheCheckpoint) {
    const Tensor x = lz::ones({2}, {.requires_grad = true});
    for (const bool wanted : {true, false})
        expect_error<lz::StateError>(
            [&] {
                lz::autograd::checkpoint([](const variable_list &) { return Tensor(); },
                                         {wanted ? x : x.detach()});
            },
            {"checkpoint: the function gave an empty tensor", "checkpoint_test.cpp"});
    // Of the second recording only.
    int calls = 0;
    const Tensor y = lz::autograd::checkpoint(
        [&](const variable_list &in) { return calls++ == 0 ? in[0] * 2 : Tensor(); }, {x});
    expect_error<lz::StateError>([&] { y.sum().backward(); },
                                 {"gradient of checkpoint", "the function gave an empty tensor"});
    EXPECT_FALSE(x.grad().defined());
}

} // namespace
