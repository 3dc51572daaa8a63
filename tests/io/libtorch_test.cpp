// torch::save and torch::load as LibTorch's programs call them.
#include "files.h"

#include <gmock/gmock.h>

namespace torch = lz; // NOLINT

namespace lz::test {
namespace {

using ::testing::HasSubstr;

/// What a module gives and takes, as far as files know.
struct Net {
    Tensor weight = lz::ones({2});
    StateDict state_dict() const { return {{"weight", weight}}; }
    void load_state_dict(const StateDict &dict) { weight = dict.at("weight"); }
};

TEST(LibTorchFiles, ATensorLoadsIntoATensor) {
    const Folder folder;
    for (const char *name : {"t.pt", "t.npy", "t.safetensors", "tensor", "t.bin", "a.b/../t.ckpt"}) {
        std::filesystem::create_directory(folder / "a.b");
        torch::Tensor x = torch::arange(6).view({2, 3}), y;
        torch::save(x, folder / name);
        torch::load(y, folder / name);
        EXPECT_TRUE(lz::equal(x, y)) << name;
    }
    EXPECT_EQ(read_file(folder / "tensor"), read_file(folder / "t.safetensors"));
    torch::Tensor kept = torch::ones({2});
    EXPECT_THAT(io_error([&] { torch::load(kept, folder / "none"); }), HasSubstr("libtorch_test.cpp:"));
    EXPECT_EQ(kept.numel(), 2);
}

TEST(LibTorchFiles, SeveralTensorsLoadInTheirOrder) {
    const Folder folder;
    std::vector<torch::Tensor> saved, loaded;
    for (int i = 0; i < 12; ++i)
        saved.push_back(torch::full({i}, i, i % 2 ? torch::kFloat64 : torch::kInt32));
    for (const char *name : {"all.pt", "all.npz", "all"}) {
        torch::save(saved, folder / name);
        torch::load(loaded, folder / name);
        ASSERT_EQ(loaded.size(), saved.size()) << name;
        for (size_t i = 0; i < saved.size(); ++i) {
            EXPECT_EQ(loaded[i].dtype(), saved[i].dtype()) << name << i;
            EXPECT_TRUE(lz::equal(loaded[i], saved[i])) << name << i;
        }
    }
    torch::Tensor one;
    EXPECT_THAT(io_error([&] { torch::load(one, folder / "all"); }), HasSubstr("has 12 tensors"));
}

TEST(LibTorchFiles, StreamsHaveWhatFilesHave) {
    const Folder folder;
    const torch::Tensor x = torch::arange(5);
    std::stringstream stream;
    torch::save(x, stream);
    torch::save(x, folder / "x");
    EXPECT_EQ(stream.str(), read_file(folder / "x"));
    torch::Tensor y;
    torch::load(y, stream);
    EXPECT_TRUE(lz::equal(x, y));

    std::stringstream several;
    torch::save(std::vector<torch::Tensor>{x, x + 1}, several);
    std::vector<torch::Tensor> loaded;
    torch::load(loaded, several);
    ASSERT_EQ(loaded.size(), 2u);
    EXPECT_TRUE(lz::equal(loaded[1], x + 1));

    torch::save(x, folder / "x.npy");
    std::ifstream file(folder / "x.npy", std::ios::binary);
    torch::load(y, file);
    EXPECT_TRUE(lz::equal(x, y));

    Net net, other;
    net.weight = torch::zeros({2});
    std::stringstream of_a_net;
    torch::save(net, of_a_net);
    torch::load(other, of_a_net);
    EXPECT_TRUE(lz::equal(other.weight, net.weight));
}

TEST(LibTorchFiles, WhatStreamsCannotHoldIsAnError) {
    std::stringstream closed;
    closed.setstate(std::ios::badbit);
    EXPECT_THAT(io_error([&] { torch::save(torch::ones({2}), closed); }), HasSubstr("the stream failed"));
    std::stringstream out;
    EXPECT_THAT(io_error([&] { torch::save(torch::ones({2}), out, {.max_shard_bytes = 4}); }),
                HasSubstr("max_shard_bytes"));
    torch::Tensor x;
    std::stringstream empty;
    EXPECT_THAT(io_error([&] { torch::load(x, empty); }), HasSubstr("\"the stream\""));
    std::stringstream index("{\"weight_map\": {}}");
    EXPECT_THAT(io_error([&] { torch::load(x, index); }), HasSubstr("load it by its path"));
}

TEST(LibTorchFiles, ADeviceStandsInPlaceOfOptions) {
    const Folder folder;
    Net net;
    net.weight = torch::arange(3);
    torch::save(net, folder / "net.pt");
    Net other;
    torch::load(other, folder / "net.pt", torch::kCPU);
    EXPECT_TRUE(lz::equal(other.weight, net.weight));
    torch::save(net.weight, folder / "t.pt");
    torch::Tensor x;
    torch::load(x, folder / "t.pt", torch::Device("cpu"));
    EXPECT_TRUE(lz::equal(x, net.weight));
    std::ifstream file(folder / "t.pt", std::ios::binary);
    torch::load(x, file, "cpu");
    EXPECT_TRUE(lz::equal(x, net.weight));
}

} // namespace
} // namespace lz::test
