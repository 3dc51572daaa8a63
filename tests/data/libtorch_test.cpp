// LibTorch's way to data sets: the loops of its example mnist and of its tutorials on data sets of one's own,
// as they stand there but for the namespace.
#include <lazuli/data.h>
#include <lazuli/lazuli.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

namespace torch = lz; // NOLINT

namespace {

class Folder {
public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "lazuli-data-XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;
    ~Folder() { std::filesystem::remove_all(path_); }
    const std::string &path() const { return path_; }

private:
    std::string path_;
};

/// `count` images of which the first pixel is 255, and labels that count to 10.
void write_digits(const std::string &folder, const std::string &which, uint32_t count) {
    const auto idx = [](std::vector<uint32_t> extents, const std::string &bytes) {
        std::string out{0, 0, 8, static_cast<char>(extents.size())};
        for (const uint32_t extent : extents)
            for (int shift = 24; shift >= 0; shift -= 8)
                out += static_cast<char>(extent >> shift);
        return out + bytes;
    };
    std::string pixels(count * 28 * 28, '\0'), labels;
    for (uint32_t i = 0; i < count; ++i) {
        pixels[i * 28 * 28] = '\xff';
        labels += static_cast<char>(i % 10);
    }
    std::ofstream(folder + "/" + which + "-images-idx3-ubyte", std::ios::binary)
        << idx({count, 28, 28}, pixels);
    std::ofstream(folder + "/" + which + "-labels-idx1-ubyte", std::ios::binary) << idx({count}, labels);
}

TEST(LibTorchData, TheLoadersOfTheExampleMnist) {
    const Folder folder;
    write_digits(folder.path(), "train", 100);
    write_digits(folder.path(), "t10k", 30);
    const std::string kDataRoot = folder.path();
    auto train_dataset = torch::data::datasets::MNIST(kDataRoot)
                             .map(torch::data::transforms::Normalize<>(0.1307, 0.3081))
                             .map(torch::data::transforms::Stack<>());
    const size_t train_dataset_size = train_dataset.size().value();
    auto train_loader =
        torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(std::move(train_dataset), 64);
    EXPECT_EQ(train_dataset_size, 100u);
    int64_t at = 0;
    for (auto &batch : *train_loader) {
        auto data = batch.data.to(torch::kCPU), targets = batch.target.to(torch::kCPU);
        EXPECT_EQ(data.sizes(), (lz::Sizes{at == 0 ? 64 : 36, 1, 28, 28}));
        EXPECT_NEAR(data.index({0, 0, 0, 0}).item<float>(), (1 - 0.1307) / 0.3081, 1e-6);
        EXPECT_NEAR(data.index({0, 0, 5, 5}).item<float>(), (0 - 0.1307) / 0.3081, 1e-6);
        EXPECT_EQ(targets.dtype(), torch::kLong);
        for (int64_t i = 0; i < targets.size(0); ++i, ++at)
            EXPECT_EQ(targets[i].item<int64_t>(), at % 10);
    }
    EXPECT_EQ(at, 100);
    auto test_dataset = torch::data::datasets::MNIST(kDataRoot, torch::data::datasets::MNIST::Mode::kTest)
                            .map(torch::data::transforms::Stack<>());
    EXPECT_FALSE(test_dataset.dataset().is_train());
    auto test_loader = torch::data::make_data_loader(std::move(test_dataset), {.batch_size = 7});
    EXPECT_EQ(test_loader->size(), 5);
    double labels = 0;
    for (const auto &batch : *test_loader)
        labels += batch.target.sum().item<double>();
    EXPECT_EQ(labels, 3 * 45);
}

/// A data set of one's own, which counts what it does: each thread has a copy.
class Squares : public torch::data::datasets::Dataset<Squares> {
public:
    explicit Squares(size_t count, std::atomic<int> *calls) : count_(count), calls_(calls) {}
    torch::data::Example<> get(size_t index) override {
        if (is_busy_)
            throw std::runtime_error("two threads use one copy");
        is_busy_ = true;
        ++*calls_;
        const auto x = static_cast<float>(index);
        torch::data::Example<> example = {torch::tensor({x, x * x}), torch::tensor(x)};
        is_busy_ = false;
        return example;
    }
    std::optional<size_t> size() const override { return count_; }

private:
    size_t count_;
    std::atomic<int> *calls_;
    bool is_busy_ = false;
};

TEST(LibTorchData, ADataSetOfOnesOwn) {
    std::atomic<int> calls = 0;
    auto loader = torch::data::make_data_loader(
        Squares(20, &calls)
            .map(torch::data::transforms::TensorLambda<>([](torch::Tensor x) { return x + 1; }))
            .map(torch::data::transforms::Lambda<torch::data::Example<>>(
                [](torch::data::Example<> e) { return torch::data::Example<>{e.data, e.target * 10}; }))
            .map(torch::data::transforms::Stack<>()),
        {.batch_size = 3, .num_workers = 3});
    std::multiset<float> seen;
    for (auto &batch : *loader)
        for (int64_t i = 0; i < batch.data.size(0); ++i) {
            const auto x = batch.data.index({i, 0}).item<float>() - 1;
            EXPECT_EQ(batch.data.index({i, 1}).item<float>(), x * x + 1);
            EXPECT_EQ(batch.target.index({i}).item<float>(), x * 10);
            seen.insert(x);
        }
    EXPECT_EQ(seen.size(), 20u);
    EXPECT_EQ(std::set<float>(seen.begin(), seen.end()).size(), 20u);
    EXPECT_EQ(calls, 20);
}

/// Without `Stack` a batch is a vector of examples.
TEST(LibTorchData, BatchesOfExamples) {
    std::atomic<int> calls = 0;
    size_t count = 0;
    auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(Squares(5, &calls),
                                                                                          /*batch_size=*/2);
    for (std::vector<torch::data::Example<>> &batch : *loader)
        for (auto &example : batch)
            EXPECT_EQ(example.target.item<float>(), static_cast<float>(count++));
    EXPECT_EQ(count, 5u);
    // Tensors without labels, with a sampler that is given, and a collate function.
    torch::data::datasets::TensorDataset tensors(torch::arange(6).reshape({3, 2}));
    EXPECT_EQ(torch::Tensor(tensors.get(1)).to_vector<int64_t>(), (std::vector<int64_t>{2, 3}));
    auto sums = torch::data::make_data_loader(
        tensors.map(
            torch::data::transforms::BatchLambda<std::vector<torch::data::TensorExample>, torch::Tensor>(
                [](std::vector<torch::data::TensorExample> batch) {
                    torch::Tensor sum = torch::zeros({2}, torch::kLong);
                    for (torch::Tensor &x : batch)
                        sum += x;
                    return sum;
                })),
        torch::data::samplers::SequentialSampler(3), {.batch_size = 2});
    std::vector<int64_t> all;
    for (const torch::Tensor &sum : *sums)
        all.push_back(sum.sum().item<int64_t>());
    EXPECT_EQ(all, (std::vector<int64_t>{0 + 1 + 2 + 3, 4 + 5}));
    auto stacked = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
        tensors.map(torch::data::transforms::Stack<torch::data::TensorExample>()), 3);
    for (auto &batch : *stacked)
        EXPECT_EQ(batch.data.sizes(), (lz::Sizes{3, 2}));
    // Sets of this library go through the same function.
    auto rows =
        torch::data::make_data_loader(lz::data::TensorDataset(torch::ones({4, 2}), torch::arange(4)), 4);
    for (auto &[x, y] : *rows)
        EXPECT_EQ(y.sum().item<int64_t>() + x.sum().item<int64_t>(), 6 + 8);
}

struct Endless : torch::data::datasets::Dataset<Endless> {
    torch::data::Example<> get(size_t index) override {
        throw std::runtime_error("there is no example " + std::to_string(index));
    }
    std::optional<size_t> size() const override { return length; }
    std::optional<size_t> length;
};

TEST(LibTorchData, WhatFailsSaysWhere) {
    uint32_t line = __LINE__ + 2;
    try {
        (void)torch::data::make_data_loader(Endless(), 4);
        ADD_FAILURE() << "a loader of a set without a size";
    } catch (const lz::StateError &error) {
        EXPECT_EQ(error.line(), line);
        EXPECT_THAT(error.what(), testing::HasSubstr("does not say its size"));
    }
    Endless three;
    three.length = 3;
    line = __LINE__ + 1;
    auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(three, 2);
    try {
        for (auto &batch : *loader)
            (void)batch;
        ADD_FAILURE() << "a batch of a set that throws";
    } catch (const lz::data::DataLoaderError &error) {
        EXPECT_EQ(error.batch(), 0);
        EXPECT_THAT(error.what(), testing::HasSubstr("there is no example 0"));
        EXPECT_EQ(error.line(), line);
    }
}

TEST(LibTorchData, OptionsOfALoaderAreSetOneAfterTheOther) {
    const auto options = torch::data::DataLoaderOptions().batch_size(64).workers(2).drop_last(true);
    EXPECT_EQ(options.batch_size(), 64);
    EXPECT_EQ(options.workers(), 2);
    EXPECT_TRUE(options.drop_last);
    EXPECT_EQ(torch::data::DataLoaderOptions(64).batch_size, 64);
    torch::data::DataLoaderOptions changed(8);
    changed.timeout(std::chrono::milliseconds(1500)).enforce_ordering(true);
    changed.num_workers(3).shuffle(true).pin_memory(false).prefetch_factor(4).max_jobs(6);
    EXPECT_EQ(changed.timeout, 1.5);
    EXPECT_EQ(changed.batch_size(), 8);
    EXPECT_EQ(changed.num_workers(), 3);
    EXPECT_TRUE(changed.shuffle);
    EXPECT_EQ(changed.prefetch_factor(), 4);
    EXPECT_EQ(changed.max_jobs, 6);

    torch::data::TensorDataset set(torch::arange(10));
    torch::data::DataLoader loader(set, torch::data::DataLoaderOptions().batch_size(4).workers(2));
    EXPECT_EQ(loader.size(), 3);
    auto made = torch::data::make_data_loader(set, torch::data::DataLoaderOptions(4).drop_last(true));
    EXPECT_EQ(made->size(), 2);
}

} // namespace
