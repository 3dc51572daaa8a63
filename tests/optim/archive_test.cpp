// Archives, as LibTorch's programs write and read them.
#include "support.h"

#include <lazuli/io.h>

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace torch = lz; // NOLINT

namespace {

using namespace lz::test;
using lz::Tensor;
using ::testing::ElementsAre;

/// A file that goes with the test.
struct ArchiveFile {
    explicit ArchiveFile(const std::string &name)
        : path((std::filesystem::path(testing::TempDir()) / ("lazuli_archive_" + name)).string()) {}
    ~ArchiveFile() { std::filesystem::remove(path); }
    std::string path;
};

torch::nn::Sequential two_layers(uint64_t seed) {
    torch::manual_seed(seed);
    return torch::nn::Sequential(torch::nn::Linear(3, 4), torch::nn::Tanh(), torch::nn::Linear(4, 2));
}

/// One step whose numbers depend on the parameters.
void train_once(torch::nn::Sequential &net, lz::optim::Optimizer &optimizer) {
    optimizer.zero_grad();
    net(torch::arange(6).view({2, 3}).to(lz::f32)).square().sum().backward();
    optimizer.step();
}

TEST(Archive, WhatIsWrittenIsInTheFileByItsName) {
    for (const char *name : {"a.pt", "a.safetensors", "a.npz"}) {
        const ArchiveFile file(name);
        torch::serialize::OutputArchive archive, inner;
        Tensor x = torch::arange(3);
        archive.write("x", x);
        x.add_(1); // does not show
        inner.write("y", torch::ones({2, 2}), /*is_buffer=*/true);
        archive.write("inner", inner);
        archive.save_to(file.path);
        // What `load` and Python see.
        const lz::StateDict dict = lz::load(file.path);
        EXPECT_THAT(dict.keys(), testing::UnorderedElementsAre("x", "inner.y")) << name;
        EXPECT_TRUE(lz::equal(dict.at("x"), torch::arange(3).cpu()));
        EXPECT_TRUE(lz::equal(dict.at("inner.y"), torch::ones({2, 2}).cpu()));

        torch::serialize::InputArchive in, part;
        in.load_from(file.path);
        EXPECT_THAT(in.keys(), testing::UnorderedElementsAre("x", "inner"));
        Tensor read;
        in.read("x", read);
        EXPECT_TRUE(lz::equal(read.cpu(), torch::arange(3).cpu()));
        in.read("inner", part);
        EXPECT_THAT(part.keys(), ElementsAre("y"));
        EXPECT_TRUE(part.try_read("y", read, true));
        EXPECT_EQ(read.sizes(), (lz::Sizes{2, 2}));
    }
}

TEST(Archive, ATensorThatIsThereTakesTheValuesForAllItsHandles) {
    torch::serialize::OutputArchive out;
    out.write("w", torch::full({2}, 7.0));
    std::stringstream stream;
    out.save_to(stream);
    torch::serialize::InputArchive in;
    in.load_from(stream, torch::kCPU);
    Tensor w = torch::zeros({2}, torch::requires_grad());
    const Tensor handle = w;
    in.read("w", w);
    EXPECT_TRUE(w.same_tensor(handle) && w.requires_grad());
    EXPECT_EQ(doubles(handle.detach()), (std::vector<double>{7, 7}));
    // And two that were empty have nothing in common.
    Tensor a, b;
    in.read("w", a);
    in.read("w", b);
    a.add_(1);
    EXPECT_EQ(doubles(b), (std::vector<double>{7, 7}));
    // From memory, onto another device.
    const std::string bytes = stream.str();
    in.load_from(bytes.data(), bytes.size(), "cuda:0");
    Tensor there;
    in.read("w", there);
    EXPECT_EQ(there.device(), lz::Device::cuda(0));
    EXPECT_EQ(doubles(there), (std::vector<double>{7, 7}));
    in.read("w", b);
    EXPECT_TRUE(b.device().is_cpu());
}

TEST(Archive, ModulesAndOptimizersGoOnFromOneFile) {
    const ArchiveFile file("run.pt");
    torch::nn::Sequential net = two_layers(1);
    lz::optim::AdamW optimizer(net->parameters(), lz::optim::AdamWOptions(0.1).amsgrad(true));
    train_once(net, optimizer);
    {
        torch::serialize::OutputArchive archive, of_optimizer;
        net->save(archive);
        archive.write("epoch", torch::tensor(3));
        optimizer.save(of_optimizer);
        archive.write("optimizer", of_optimizer);
        archive.save_to(file.path);
    }
    train_once(net, optimizer); // undisturbed

    torch::nn::Sequential again = two_layers(2);
    lz::optim::AdamW other(again->parameters(), lz::optim::AdamWOptions(0.5).amsgrad(true));
    torch::serialize::InputArchive archive, of_optimizer;
    archive.load_from(file.path);
    again->load(archive);
    archive.read("optimizer", of_optimizer);
    other.load(of_optimizer);
    Tensor epoch;
    archive.read("epoch", epoch);
    EXPECT_EQ(epoch.item<int>(), 3);
    train_once(again, other);
    for (size_t i = 0; i < net->parameters().size(); ++i)
        EXPECT_EQ(doubles(again->parameters()[i].detach()), doubles(net->parameters()[i].detach())) << i;
    for (const auto &[name, tensor] : optimizer.state_dict())
        EXPECT_EQ(doubles(other.state_dict().at(name)), doubles(tensor)) << name;
    // One after the other in one archive.
    torch::serialize::OutputArchive flat;
    net->save(flat);
    optimizer.save(flat);
    std::stringstream stream;
    flat.save_to(stream);
    torch::serialize::InputArchive read;
    read.load_from(stream);
    again->load(read);
    other.load(read);
    EXPECT_EQ(doubles(other.state_dict().at("state.0.step")), (std::vector<double>{2}));
}

TEST(Archive, WhatDoesNotFitIsSaidAndNothingChanges) {
    torch::serialize::OutputArchive out, nested;
    out.write("w", torch::ones({2}));
    nested.write("a", torch::ones({1}));
    out.write("inner", nested);
    const auto expect = [](const Caught &error, const std::string &words, uint32_t line) {
        EXPECT_TRUE(error.has(words)) << error.what;
        EXPECT_TRUE(error.line == line || error.line == line - 1) << error.what; // of one line or two
    };
    expect(caught<lz::StateError>([&] { out.write("w", torch::ones({2})); }), "\"w\" was written already",
           __LINE__);
    expect(caught<lz::StateError>([&] { out.write("v", Tensor()); }), "to be written as \"v\" is empty",
           __LINE__);
    expect(caught<lz::StateError>([&] { out.write("inner", nested); }), "\"inner.a\" was written already",
           __LINE__);
    const lz::StateDict clash({{"new", torch::ones({1})}, {"w", torch::ones({2})}});
    expect(caught<lz::StateError>([&] { out.write(clash); }), "\"w\" was written already", __LINE__);
    EXPECT_THAT(out.tensors().keys(), ElementsAre("w", "inner.a"));

    std::stringstream stream;
    out.save_to(stream);
    torch::serialize::InputArchive in;
    in.load_from(stream);
    Tensor x = torch::zeros({1});
    torch::serialize::InputArchive part;
    expect(caught<lz::StateError>([&] { in.read("v", x); }), "there is no tensor named \"v\"; it has ",
           __LINE__);
    expect(caught<lz::StateError>([&] { in.read("w", part); }), "there is no archive named \"w\"", __LINE__);
    EXPECT_FALSE(in.try_read("v", x) || in.try_read("inne", part));
    EXPECT_TRUE(part.keys().empty());
    EXPECT_EQ(doubles(x), (std::vector<double>{0}));
    expect(caught<lz::IoError>([&] { in.load_from("/nowhere/none.pt"); }), "none.pt", __LINE__);
    EXPECT_EQ(in.tensors().size(), 2u);

    torch::nn::Sequential net = two_layers(1);
    const auto before = doubles(net->parameters()[0].detach());
    expect(caught<lz::StateError>([&] { net->load(in); }), "missing: \"0.weight\"", __LINE__);
    EXPECT_EQ(doubles(net->parameters()[0].detach()), before);
    lz::optim::SGD optimizer(net->parameters(), 0.1);
    expect(caught<lz::StateError>([&] { optimizer.load(in); }), "missing: \"param_groups.0.", __LINE__);
    torch::serialize::OutputArchive twice;
    twice.write("2.bias", torch::ones({2}));
    expect(caught<lz::StateError>([&] { net->save(twice); }), "\"2.bias\" was written already", __LINE__);
    EXPECT_EQ(twice.tensors().size(), 1u);
    torch::serialize::OutputArchive again;
    again.write(net->state_dict());
    EXPECT_EQ(again.tensors().keys(), net->state_dict().keys());
}

TEST(Optimizers, SayHowManyParametersTheyHaveAndWhatTheyRemember) {
    torch::nn::Sequential net = two_layers(1);
    lz::optim::Adam optimizer(net->parameters(), lz::optim::AdamOptions(0.1));
    EXPECT_EQ(optimizer.size(), 4u);
    EXPECT_TRUE(optimizer.state().empty());
    optimizer.add_param_group({{torch::ones({2}, torch::requires_grad())}});
    EXPECT_EQ(optimizer.size(), 5u);
    train_once(net, optimizer);
    const lz::StateDict state = optimizer.state();
    EXPECT_EQ(state.size(), 12u) << "the fifth made no step";
    EXPECT_EQ(doubles(state.at("3.step")), (std::vector<double>{1}));
    // After one step from 0 the mean is a tenth of the gradient (beta 0.9).
    const std::vector<double> gradient = doubles(net->parameters()[3].grad());
    const std::vector<double> mean = doubles(state.at("3.exp_avg"));
    for (size_t i = 0; i < gradient.size(); ++i)
        EXPECT_NEAR(mean[i], 0.1 * gradient[i], 1e-6 * std::abs(gradient[i]));
}

} // namespace
