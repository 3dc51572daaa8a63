// Programs of LibTorch's documentation, as they stand there but for the namespace, the name of TORCH_MODULE,
// and what needs convolutions or its data sets: the tutorial "Using the C++ frontend", the end-to-end example
// of its README, and the examples mnist and dcgan.
#include "support.h"

#include <lazuli/optim.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>

namespace torch = lz; // NOLINT
namespace nn = torch::nn;
#define TORCH_MODULE LZ_MODULE

namespace {

using namespace lz::test;

// --- the tutorial: "Defining the neural network models"

struct Raw : torch::nn::Module {
    Raw(int64_t N, int64_t M) {
        W = register_parameter("W", torch::randn({N, M}));
        b = register_parameter("b", torch::randn(M));
    }
    torch::Tensor forward(torch::Tensor input) { return torch::addmm(b, input, W); }
    torch::Tensor W, b;
};

struct Net : torch::nn::Module {
    Net(int64_t N, int64_t M) : linear(register_module("linear", torch::nn::Linear(N, M))) {
        another_bias = register_parameter("b", torch::randn(M));
    }
    torch::Tensor forward(torch::Tensor input) { return linear(input) + another_bias; }
    torch::nn::Linear linear;
    torch::Tensor another_bias;
};

TEST(LibTorchPrograms, DefiningAModule) {
    Raw raw(4, 5);
    EXPECT_EQ(raw.forward(torch::ones({2, 4})).sizes(), (lz::Sizes{2, 5}));
    Net net(4, 5);
    std::vector<std::string> names;
    for (const auto &p : net.parameters())
        EXPECT_TRUE(p.requires_grad());
    for (const auto &pair : net.named_parameters()) {
        names.push_back(pair.key());
        EXPECT_EQ(pair.value().size(0), 5);
        EXPECT_EQ(pair->size(0), 5);
    }
    EXPECT_EQ(names, (std::vector<std::string>{"b", "linear.weight", "linear.bias"}));
    for (const auto &[name, value] : net.named_parameters())
        EXPECT_TRUE(value.defined()) << name;
    EXPECT_EQ(net.forward(torch::ones({2, 4})).sizes(), (lz::Sizes{2, 5}));
}

// --- the README of LibTorch: the end-to-end example

struct EndToEnd : torch::nn::Module {
    EndToEnd() {
        fc1 = register_module("fc1", torch::nn::Linear(784, 64));
        fc2 = register_module("fc2", torch::nn::Linear(64, 32));
        fc3 = register_module("fc3", torch::nn::Linear(32, 10));
    }
    torch::Tensor forward(torch::Tensor x) {
        x = torch::relu(fc1->forward(x.reshape({x.size(0), 784})));
        x = torch::dropout(x, /*p=*/0.5, /*train=*/is_training());
        x = torch::relu(fc2->forward(x));
        x = torch::log_softmax(fc3->forward(x), /*dim=*/1);
        return x;
    }
    torch::nn::Linear fc1{nullptr}, fc2{nullptr}, fc3{nullptr};
};

/// Images that tell their class by a bright row.
struct Batch {
    torch::Tensor data, target;
};
std::vector<Batch> batches(int64_t count, int64_t size) {
    std::vector<Batch> out;
    for (int64_t i = 0; i < count; ++i) {
        torch::Tensor target = torch::randint(10, {size});
        torch::Tensor data = 0.1 * torch::rand({size, 1, 28, 28});
        for (int64_t k = 0; k < size; ++k)
            data.index_put_({k, 0, target[k].item<int64_t>() * 2}, 1);
        out.push_back({data, target});
    }
    return out;
}

TEST(LibTorchPrograms, EndToEndExample) {
    torch::manual_seed(0);
    auto net = std::make_shared<EndToEnd>();
    auto data_loader = batches(4, 64);
    torch::optim::SGD optimizer(net->parameters(), /*lr=*/0.1);
    double first = 0, last = 0;
    for (size_t epoch = 1; epoch <= 8; ++epoch) {
        for (auto &batch : data_loader) {
            optimizer.zero_grad();
            torch::Tensor prediction = net->forward(batch.data);
            torch::Tensor loss = torch::nll_loss(prediction, batch.target);
            loss.backward();
            optimizer.step();
            last = loss.item<float>();
            if (first == 0)
                first = last;
        }
    }
    EXPECT_LT(last, first * 0.9);
}

// --- examples/cpp/mnist

struct Mnist : torch::nn::Module {
    Mnist() : fc1(784, 50), fc2(50, 10) {
        register_module("drop", drop);
        register_module("fc1", fc1);
        register_module("fc2", fc2);
    }
    torch::Tensor forward(torch::Tensor x) {
        x = x.view({-1, 784});
        x = torch::relu(fc1->forward(x));
        x = drop->forward(x);
        x = torch::dropout(x, /*p=*/0.2, /*training=*/is_training());
        x = fc2->forward(x);
        return torch::log_softmax(x, /*dim=*/1);
    }
    torch::nn::Dropout drop{0.1};
    torch::nn::Linear fc1;
    torch::nn::Linear fc2;
};

template <typename DataLoader>
void train(Mnist &model, torch::Device device, DataLoader &data_loader, torch::optim::Optimizer &optimizer) {
    model.train();
    for (auto &batch : data_loader) {
        auto data = batch.data.to(device), targets = batch.target.to(device);
        optimizer.zero_grad();
        auto output = model.forward(data);
        auto loss = torch::nll_loss(output, targets);
        ASSERT_FALSE(std::isnan(loss.template item<float>()));
        loss.backward();
        optimizer.step();
    }
}

template <typename DataLoader>
double test(Mnist &model, torch::Device device, DataLoader &data_loader, size_t dataset_size) {
    torch::NoGradGuard no_grad;
    model.eval();
    double test_loss = 0;
    int32_t correct = 0;
    for (const auto &batch : data_loader) {
        auto data = batch.data.to(device), targets = batch.target.to(device);
        auto output = model.forward(data);
        test_loss +=
            torch::nll_loss(output, targets, /*weight=*/{}, torch::Reduction::Sum).template item<float>();
        auto pred = output.argmax(1);
        correct += static_cast<int32_t>(pred.eq(targets).sum().template item<int64_t>());
    }
    test_loss /= static_cast<double>(dataset_size);
    EXPECT_LT(test_loss, 2.3);
    return static_cast<double>(correct) / static_cast<double>(dataset_size);
}

TEST(LibTorchPrograms, Mnist) {
    torch::manual_seed(1);
    torch::DeviceType device_type;
    if (torch::cuda::is_available()) {
        device_type = torch::kCUDA;
    } else {
        device_type = torch::kCPU;
    }
    torch::Device device(device_type);
    Mnist model;
    model.to(device);
    auto train_loader = batches(8, 64), test_loader = batches(2, 64);
    torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.05).momentum(0.5));
    for (size_t epoch = 1; epoch <= 4; ++epoch)
        train(model, device, train_loader, optimizer);
    EXPECT_GT(test(model, device, test_loader, 128), 0.7);
}

// --- examples/cpp/dcgan, of linear layers

const int64_t kNoiseSize = 16;

struct GeneratorImpl : nn::Module {
    GeneratorImpl(int kSize)
        : fc1(nn::LinearOptions(kSize, 64).bias(false)), batch_norm1(64), fc2(nn::LinearOptions(64, 64)) {
        register_module("fc1", fc1);
        register_module("fc2", fc2);
        register_module("batch_norm1", batch_norm1);
    }
    torch::Tensor forward(torch::Tensor x) {
        x = torch::relu(batch_norm1(fc1(x)));
        x = torch::tanh(fc2(x));
        return x;
    }
    nn::Linear fc1;
    nn::BatchNorm1d batch_norm1;
    nn::Linear fc2;
};
TORCH_MODULE(Generator);

TEST(LibTorchPrograms, Dcgan) {
    torch::manual_seed(2);
    torch::Device device(torch::kCPU);
    Generator generator(kNoiseSize);
    generator->to(device);
    nn::Sequential discriminator(
        // Layer 1
        nn::Linear(nn::LinearOptions(64, 64).bias(false)),
        nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2)),
        // Layer 2
        nn::Linear(nn::LinearOptions(64, 1).bias(false)), nn::Sigmoid());
    discriminator->to(device);
    torch::optim::Adam generator_optimizer(
        generator->parameters(), torch::optim::AdamOptions(2e-3).betas(std::make_tuple(0.5, 0.999)));
    torch::optim::Adam discriminator_optimizer(
        discriminator->parameters(), torch::optim::AdamOptions(2e-3).betas(std::make_tuple(0.5, 0.999)));
    const Batch batch = {torch::rand({32, 64}) * 2 - 1, {}};
    for (int64_t step = 0; step < 3; ++step) {
        // Train discriminator with real images.
        discriminator->zero_grad();
        torch::Tensor real_images = batch.data.to(device);
        torch::Tensor real_labels = torch::empty(batch.data.size(0), device).uniform_(0.8, 1.0);
        torch::Tensor real_output = discriminator->forward(real_images).reshape(real_labels.sizes());
        torch::Tensor d_loss_real = torch::binary_cross_entropy(real_output, real_labels);
        d_loss_real.backward();

        // Train discriminator with fake images.
        torch::Tensor noise = torch::randn({batch.data.size(0), kNoiseSize}, device);
        torch::Tensor fake_images = generator->forward(noise);
        torch::Tensor fake_labels = torch::zeros(batch.data.size(0), device);
        torch::Tensor fake_output = discriminator->forward(fake_images.detach()).reshape(fake_labels.sizes());
        torch::Tensor d_loss_fake = torch::binary_cross_entropy(fake_output, fake_labels);
        d_loss_fake.backward();
        torch::Tensor d_loss = d_loss_real + d_loss_fake;
        discriminator_optimizer.step();

        // Train generator.
        generator->zero_grad();
        fake_labels.fill_(1);
        fake_output = discriminator->forward(fake_images).reshape(fake_labels.sizes());
        torch::Tensor g_loss = torch::binary_cross_entropy(fake_output, fake_labels);
        g_loss.backward();
        generator_optimizer.step();
        EXPECT_TRUE(std::isfinite(d_loss.item<float>()) && std::isfinite(g_loss.item<float>()));
    }
    generator->eval();
    EXPECT_LE(generator->forward(torch::randn({8, kNoiseSize}, device)).abs().max().item<float>(), 1);
}

// --- what such programs write besides

TEST(LibTorchPrograms, ContainersAreIndexed) {
    nn::Sequential seq(nn::Linear(3, 4), nn::ReLU(), nn::Linear(4, 2));
    EXPECT_EQ(seq[0]->as<nn::Linear>()->weight.size(0), 4);
    EXPECT_EQ((*seq)[1]->name(), "ReLU");
    EXPECT_EQ(seq->at<nn::LinearImpl>(2).weight.size(0), 2);
    nn::ModuleList list(nn::Linear(3, 4), nn::Tanh());
    EXPECT_EQ(list[0]->as<nn::Linear>()->weight.size(1), 3);
    EXPECT_EQ((*list)[1]->name(), "Tanh");
    nn::ModuleDict dict;
    dict->insert("fc", nn::Linear(2, 2));
    EXPECT_EQ(dict["fc"]->name(), "Linear");
    nn::Linear none(nullptr);
    const Caught error = caught<lz::StateError>([&] { none(torch::ones({1, 2})); });
    EXPECT_TRUE(error.has("the holder of a Linear is empty")) << error.what;
    EXPECT_EQ(error.line, static_cast<uint32_t>(__LINE__) - 2);
    nn::Sequential no_modules(nullptr);
    EXPECT_TRUE(caught<lz::StateError>([&] { no_modules[0]; }).has("the holder of a Sequential is empty"));
}

TEST(LibTorchPrograms, TheGradientPenaltyOfTheAutogradTutorial) {
    torch::manual_seed(3);
    auto model = torch::nn::Linear(4, 3);
    auto input = torch::randn({3, 4}).requires_grad_(true);
    auto output = model(input);
    auto target = torch::randn({3, 3});
    auto loss = torch::nn::MSELoss()(output, target);
    auto grad_output = torch::ones_like(output);
    auto gradient = torch::autograd::grad({output}, {input}, /*grad_outputs=*/{grad_output},
                                          /*retain_graph=*/true, /*create_graph=*/true)[0];
    auto gradient_penalty = torch::pow((gradient.norm(2, /*dim=*/1) - 1), 2).mean();
    auto combined_loss = loss + gradient_penalty;
    combined_loss.backward();
    // The gradient of each row is the sum s of the weight's rows: the penalty is (|s| - 1)^2, of which s is
    // shown its slope by each row of the weight.
    const torch::Tensor s = model->weight.sum(0).detach(), residual = (output - target).detach();
    const torch::Tensor of_loss = residual.t().mm(input.detach()) * 2 / 9;
    const torch::Tensor of_penalty = 2 * (s.norm() - 1) * s / s.norm();
    EXPECT_TRUE(torch::allclose(model->weight.grad(), of_loss + of_penalty, 1e-4, 1e-5));
}

} // namespace
