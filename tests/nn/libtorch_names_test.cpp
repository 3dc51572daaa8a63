// LibTorch's names of modules, containers and schedules.
#include "support.h"

#include "tests/support/tensor_values.h"

#include <lazuli/optim.h>

namespace torch = lz; // NOLINT

namespace {

using namespace lz::test;

torch::Tensor scaled(const torch::Tensor &x, double factor, double shift) {
    return x * factor + shift;
}

TEST(LibTorchModuleNames, FunctionalTakesWhatIsBehindTheTensor) {
    const torch::Tensor x = torch::tensor({-1.0, 2.0});
    torch::nn::Sequential net(torch::nn::Functional(torch::leaky_relu, 0.5),
                              torch::nn::Functional(scaled, 2, 1.0));
    expect_values(net->forward<torch::Tensor>(x), {0, 5});
    torch::nn::Functional softmax(torch::softmax, 0, torch::nullopt);
    expect_values(softmax(torch::zeros({2})), {0.5, 0.5});
    namespace F = torch::nn::functional;
    const torch::Tensor p = torch::tensor({{0.25, 0.75}, {0.5, 0.5}});
    const torch::Tensor divergence = F::kl_div(p.flip(0).log(), p, F::KLDivFuncOptions(torch::kBatchMean));
    // (0.25 log 0.5 + 0.75 log 1.5 + 0.5 log 2 + 0.5 log(2 / 3)) / 2
    EXPECT_NEAR(divergence.item<double>(), 0.13732654, 1e-6);
    torch::nn::Functional own([](const torch::Tensor &v, int64_t k) { return v + k; }, 3);
    expect_values(own(x), {2, 5});
}

/// As the network of LibTorch's example custom-dataset is made, of linear layers.
struct NetworkImpl : torch::nn::SequentialImpl {
    NetworkImpl() {
        using namespace torch::nn;
        torch::IntArrayRef shape({-1, 12});
        push_back(Functional(torch::reshape, shape));
        push_back(Dropout());
        push_back(Linear(12, 8));
        push_back(Functional(torch::relu));
        push_back(Linear(8, 5));
        push_back(Functional(torch::log_softmax, 1, torch::nullopt));
    }
};
LZ_MODULE(Network);

TEST(LibTorchModuleNames, ANetworkDerivedFromSequential) {
    Network network;
    network->eval();
    const torch::Tensor x = torch::rand({4, 3, 2, 2});
    const torch::Tensor out = network->forward(x);
    EXPECT_EQ(out.sizes(), torch::Sizes({4, 5}));
    EXPECT_NEAR(out.exp().sum().item<double>(), 4, 1e-5);
    EXPECT_EQ(network->parameters().size(), 4U);
    network->train();
    torch::nll_loss(network->forward(x), torch::tensor({0, 1, 2, 3})).backward();
    EXPECT_TRUE(network->parameters()[0].grad().defined());
}

TEST(LibTorchModuleNames, AnyModuleGivesWhatItHolds) {
    torch::nn::AnyModule any(torch::nn::Linear(3, 4));
    EXPECT_FALSE(any.is_empty());
    EXPECT_EQ(any.get<torch::nn::LinearImpl>().options.out_features(), 4);
    torch::nn::Linear linear = any.get<torch::nn::Linear>();
    const torch::Tensor x = torch::ones({2, 3});
    EXPECT_TRUE(torch::equal(any.forward<torch::Tensor>(x), linear(x)));
    const Caught wrong = caught<torch::StateError>([&] { (void)any.get<torch::nn::Dropout>(); });
    EXPECT_EQ(wrong.line, __LINE__ - 1U) << wrong.what;
    const Caught none = caught<torch::StateError>([&] { torch::nn::AnyModule().forward(x); });
    EXPECT_TRUE(none.has("there is no module") && none.line == __LINE__ - 1) << none.what;
    EXPECT_TRUE(torch::nn::AnyModule().is_empty());
}

TEST(LibTorchModuleNames, EncodersByOptions) {
    auto layer = torch::nn::TransformerEncoderLayerOptions(8, 2).dropout(0).activation(torch::kGELU);
    const torch::Tensor x = torch::randn({3, 2, 8});
    torch::nn::TransformerEncoder plain(torch::nn::TransformerEncoderLayer(layer), 2);
    EXPECT_EQ(plain(x).sizes(), x.sizes());
    torch::nn::TransformerEncoder encoder(
        torch::nn::TransformerEncoderOptions(layer, 2).norm(torch::nn::AnyModule(torch::nn::LayerNorm(8))));
    EXPECT_EQ(encoder->layers->size(), 2U);
    EXPECT_FALSE(encoder->norm.is_empty());
    EXPECT_EQ(encoder(x).sizes(), x.sizes());
    torch::nn::TransformerEncoder of_options(layer, 3);
    const Caught odd = caught<torch::Error>([] { torch::nn::TransformerEncoderLayer(5, 2); });
    EXPECT_EQ(odd.line, __LINE__ - 1U) << odd.what;
    EXPECT_EQ(of_options->layers->size(), 3U);
    EXPECT_THROW(torch::nn::TransformerEncoder(
                     torch::nn::TransformerEncoderOptions(layer, 1).norm(torch::nn::Linear(8, 8))),
                 torch::StateError);
}

TEST(LibTorchModuleNames, ModulesMoveAndTellOfTheirParts) {
    torch::nn::Linear net(2, 3);
    net->to(torch::Device(torch::kCPU), /*non_blocking=*/true);
    net->to(torch::kDouble, true);
    EXPECT_EQ(net->weight.dtype(), torch::kDouble);
    net->to(torch::kCPU, torch::kFloat, false);
    EXPECT_EQ(net->weight.dtype(), torch::kFloat);
    torch::OrderedDict<std::string, torch::Tensor> parameters = net->named_parameters();
    EXPECT_EQ(parameters["bias"].numel(), 3);
    torch::nn::LSTM lstm(torch::nn::LSTMOptions(2, 3));
    lstm->flatten_parameters();
    torch::nn::ModuleDict dict;
    EXPECT_TRUE(dict->is_empty());
    dict->insert("fc", net);
    EXPECT_EQ(dict->items()[0].first, "fc");
    EXPECT_EQ(dict->values()[0], net.ptr());
}

TEST(LibTorchModuleNames, ReduceLROnPlateauScheduler) {
    torch::nn::Linear net(2, 3);
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(1.0));
    using Plateau = torch::optim::ReduceLROnPlateauScheduler;
    Plateau schedule(optimizer, Plateau::SchedulerMode::max, 0.5, 1);
    // PyTorch: the metric is best at first, then twice no better; the second time is one more than patience.
    for (const double metric : {1.0, 0.5, 0.5})
        schedule.step(metric);
    EXPECT_DOUBLE_EQ(schedule.get_last_lr()[0], 0.5);
}

} // namespace
