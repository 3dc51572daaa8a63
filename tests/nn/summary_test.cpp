// nn::summary: shapes, parameters, operations and bytes by hand, without computing anything.
#include "support.h"

#include <sstream>

namespace {

using namespace lz::test;
using lz::Tensor;
namespace nn = lz::nn;

struct Net : nn::Module {
    nn::Sequential body{register_module("body", nn::Sequential(nn::Linear(20, 8), nn::ReLU(true)))};
    nn::Linear head{register_module("head", nn::Linear(nn::LinearOptions(8, 3).bias(false)))};
    nn::BatchNorm1d norm{register_module("norm", nn::BatchNorm1d(3))};
    nn::Linear spare{register_module("spare", nn::Linear(1, 1))};
    Tensor forward(const Tensor &x) { return norm(head(body(x))) * 2; }
};

TEST(Summary, TellsOfEachModuleAndComputesNothing) {
    Net net;
    net.head->weight.requires_grad_(false);
    net.head->eval();
    const lz::CompileStats before = lz::compile_stats();
    const Tensor x = lz::zeros({1000000, 20}); // 80 MB, were it there
    const nn::Summary summary = nn::summary(net, x);
    EXPECT_EQ(lz::compile_stats().kernel_launches, before.kernel_launches);
    ASSERT_EQ(summary.modules.size(), 7u);
    const auto row = [&](size_t i) -> const nn::ModuleSummary & { return summary.modules[i]; };
    EXPECT_EQ(row(0).type, "Net");
    EXPECT_EQ(row(1).name, "body");
    EXPECT_EQ(row(2).type, "Linear");
    EXPECT_EQ(row(2).depth, 2);
    EXPECT_EQ(row(2).output, (lz::Sizes{1000000, 8}));
    EXPECT_EQ(row(2).parameters, 168);
    EXPECT_EQ(row(2).flops, 1e6 * (2 * 20 * 8 + 8));
    EXPECT_EQ(row(2).bytes, 32000000);
    EXPECT_EQ(row(3).flops, 8e6);
    EXPECT_EQ(row(1).flops, row(2).flops + row(3).flops);
    EXPECT_EQ(row(1).parameters, 0); // its own
    EXPECT_EQ(row(4).flops, 1e6 * 2 * 8 * 3);
    EXPECT_EQ(row(4).trainable, 0);
    EXPECT_EQ(row(6).calls, 0);
    EXPECT_EQ(row(0).flops, row(1).flops + row(4).flops + row(5).flops + 3e6); // the product behind the norm
    EXPECT_EQ(summary.flops, row(0).flops);
    EXPECT_EQ(summary.parameters, 168 + 24 + 6 + 2);
    EXPECT_EQ(summary.trainable, 168 + 6 + 2);
    EXPECT_EQ(summary.parameter_bytes, 800);
    EXPECT_EQ(summary.buffer_bytes, 2 * 3 * 4 + 8);
    EXPECT_EQ(summary.input_bytes, 80000000);
    EXPECT_EQ(summary.output_bytes, 1000000 * 4 * (8 + 8 + 3 + 3));
    // The module is what it was: modes, statistics, hooks, the random numbers.
    EXPECT_TRUE(net.is_training() && net.body->is_training() && net.norm->is_training());
    EXPECT_FALSE(net.head->is_training());
    EXPECT_EQ(net.norm->num_batches_tracked.item<int64_t>(), 0);
    lz::manual_seed(1);
    const float first = lz::rand({1}).item<float>();
    lz::manual_seed(1);
    const nn::Summary dropped = nn::summary(nn::Dropout(0.5), lz::ones({4}));
    EXPECT_EQ(dropped.modules[0].calls, 1);
    EXPECT_EQ(lz::rand({1}).item<float>(), first);
}

TEST(Summary, OfSeveralInputsAndSharedLayers) {
    nn::Linear shared(4, 4);
    const nn::Sequential twice(shared, shared);
    const nn::Summary summary = nn::summary(twice, lz::ones({2, 4}));
    ASSERT_EQ(summary.modules.size(), 2u);
    EXPECT_EQ(summary.modules[1].calls, 2);
    EXPECT_EQ(summary.parameters, 20);
    EXPECT_EQ(summary.flops, 2 * (2 * 2 * 4 * 4 + 8));
    const nn::Summary bilinear =
        nn::summary(nn::Bilinear(2, 3, 4), lz::ones({5, 2}), lz::ones({5, 3}, {.device = lz::Device::cpu()}));
    EXPECT_EQ(bilinear.modules[0].output, (lz::Sizes{5, 4}));
    // The first result of a module that has several.
    const nn::Summary lstm = nn::summary(nn::LSTM(3, 2), lz::ones({4, 1, 3}));
    EXPECT_EQ(lstm.modules[0].output, (lz::Sizes{4, 1, 2}));
    EXPECT_GE(lstm.flops, 4 * 2 * (3 + 2) * 8);
    EXPECT_THROW(nn::summary(shared, lz::ones({2, 5})), lz::ShapeError);
    EXPECT_TRUE(shared->is_training());
}

TEST(Summary, PrintsATable) {
    nn::Sequential net(nn::Linear(784, 64), nn::ReLU(), nn::Linear(64, 10));
    net->to("cuda:1");
    std::ostringstream out;
    out << nn::summary(net, lz::zeros({32, 784}, {.device = "cuda:1"}));
    EXPECT_EQ(out.str(), "Module       Output       Parameters    FLOPs    Bytes  Device\n"
                         "--------------------------------------------------------------\n"
                         "Sequential   f32[32, 10]           0   3.26 M  1.28 kB  cuda:1\n"
                         "  0: Linear  f32[32, 64]      50,240   3.21 M  8.19 kB  cuda:1\n"
                         "  1: ReLU    f32[32, 64]           0   2.05 k  8.19 kB  cuda:1\n"
                         "  2: Linear  f32[32, 10]         650  41.28 k  1.28 kB  cuda:1\n"
                         "--------------------------------------------------------------\n"
                         "50,890 parameters (203.56 kB), 50,890 of them trainable\n"
                         "inputs 100.35 kB, outputs of layers 17.66 kB, 3.26 MFLOP a call\n");
}

TEST(PendingFlops, CountsWhatIsRecordedAndNotGiven) {
    const Tensor a = lz::ones({3, 4}), b = lz::ones({4, 5});
    EXPECT_EQ(lz::pending_flops(lz::matmul(a, b)), 2 * 3 * 4 * 5);
    const Tensor e = lz::exp(a), sum = (e + e).sum();
    EXPECT_EQ(lz::pending_flops(sum), 12 + 12 + 12);
    const Tensor given[] = {e};
    EXPECT_EQ(lz::pending_flops(sum, given), 12 + 12);
    sum.eval();
    EXPECT_EQ(lz::pending_flops(sum), 0);
    EXPECT_THROW(lz::pending_flops(Tensor()), lz::StateError);
}

} // namespace
