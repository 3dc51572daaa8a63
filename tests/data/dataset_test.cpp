#include <lazuli/data.h>
#include <lazuli/lazuli.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace {

namespace data = lz::data;
using lz::Tensor;
using testing::HasSubstr;

TEST(Datasets, TensorsByRows) {
    const data::TensorDataset set(lz::arange(12).view({6, 2}), lz::arange(6).to(lz::f32) / 2);
    EXPECT_EQ(set.size(), 6);
    const auto [row, number] = set.get(4);
    EXPECT_EQ(row.to_vector<int64_t>(), (std::vector<int64_t>{8, 9}));
    EXPECT_EQ(number.item<float>(), 2);
    const std::vector<int64_t> indices{5, 0, 5};
    const auto [rows, numbers] = set.get_batch(indices);
    EXPECT_EQ(rows.to_vector<int64_t>(), (std::vector<int64_t>{10, 11, 0, 1, 10, 11}));
    EXPECT_EQ(numbers.to_vector<float>(), (std::vector<float>{2.5, 0, 2.5}));
    EXPECT_THROW((void)set.get(6), lz::IndexError);
    EXPECT_THROW((void)set.get(-1), lz::IndexError);
    const uint32_t line = __LINE__ + 2;
    try {
        data::TensorDataset(lz::ones({2}), lz::ones({3}));
        ADD_FAILURE() << "rows of different numbers";
    } catch (const lz::ShapeError &error) {
        EXPECT_EQ(error.line(), line);
    }
    EXPECT_THROW(data::TensorDataset(lz::tensor(1.0)), lz::ShapeError);
    // The loader takes whole batches of it.
    double sum = 0;
    for (auto [x, y] : data::DataLoader(set, {.batch_size = 4, .shuffle = true, .num_workers = 2}))
        sum += x.sum().item<double>() + y.sum().item<double>();
    EXPECT_EQ(sum, 66 + 7.5);
}

TEST(Datasets, PartsAndSums) {
    const data::TensorDataset set(lz::arange(10));
    const data::Subset some(set, {7, 1, 7});
    EXPECT_EQ(some.size(), 3);
    EXPECT_EQ(some.get(0)[0].item<int64_t>(), 7);
    for (auto [x] : data::DataLoader(some, {.batch_size = 3}))
        EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{7, 1, 7}));
    EXPECT_THROW(data::Subset(set, {10}), lz::IndexError);

    lz::Generator generator(3);
    const auto [train, held_out] = data::random_split(set, {0.75, 0.25}, generator);
    EXPECT_EQ(train.size(), 8); // 7.5 and 2.5 become 7 and 2, and what is left goes to the first
    EXPECT_EQ(held_out.size(), 2);
    std::set<int64_t> all(train.indices().begin(), train.indices().end());
    all.insert(held_out.indices().begin(), held_out.indices().end());
    EXPECT_EQ(all.size(), 10u);
    generator.manual_seed(3);
    EXPECT_EQ(data::random_split(set, {8, 2}, generator)[0].indices(), train.indices());
    EXPECT_THROW(data::random_split(set, {8, 3}), lz::ShapeError);
    EXPECT_THROW(data::random_split(set, {0.5, 0.6}), lz::ShapeError);
    EXPECT_THROW(data::random_split(set, {-1, 11}), lz::ShapeError);

    const data::ConcatDataset both(std::vector{set, set});
    EXPECT_EQ(both.size(), 20);
    EXPECT_EQ(both.get(9)[0].item<int64_t>(), 9);
    EXPECT_EQ(both.get(10)[0].item<int64_t>(), 0);
    EXPECT_THROW((void)both.get(20), lz::IndexError);

    const auto squares = data::map(set, [](const auto &example) { return example[0] * example[0]; });
    EXPECT_EQ(squares.get(5).item<int64_t>(), 25);
    static_assert(data::Dataset<decltype(squares)> && data::Dataset<decltype(both)>);
    const auto noisy = data::map(set, [](const auto &example, lz::Generator &own) {
        return example[0].to(lz::f32) + lz::rand({}, own);
    });
    lz::Generator first(1), second(1);
    EXPECT_EQ(noisy.get(2, first).item<float>(), noisy.get(2, second).item<float>());
}

std::vector<int64_t> indices_of(data::Sampler &sampler, uint64_t seed = 1) {
    lz::Generator generator(seed);
    return sampler.indices(generator);
}

TEST(Samplers, Orders) {
    data::SequentialSampler sequential(4);
    EXPECT_EQ(indices_of(sequential), (std::vector<int64_t>{0, 1, 2, 3}));
    data::RandomSampler random(100);
    const std::vector<int64_t> order = indices_of(random);
    EXPECT_EQ(order, indices_of(random));
    EXPECT_NE(order, indices_of(random, 2));
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 100u);
    data::RandomSampler draws(10, true, 10000);
    std::map<int64_t, int> counts;
    for (const int64_t index : indices_of(draws))
        ++counts[index];
    EXPECT_EQ(counts.size(), 10u);
    for (const auto &[index, count] : counts)
        EXPECT_NEAR(count, 1000, 5 * 30) << index; // five standard deviations of a binomial
    EXPECT_THROW(data::RandomSampler(3, false, 4), lz::IndexError);
    EXPECT_THROW(data::RandomSampler(0, true, 4), lz::IndexError);
}

TEST(Samplers, ByWeight) {
    data::WeightedRandomSampler weighted({0, 1, 3, 0}, 10000);
    std::map<int64_t, int> counts;
    for (const int64_t index : indices_of(weighted))
        ++counts[index];
    EXPECT_EQ(counts.size(), 2u);
    EXPECT_NEAR(counts[2], 7500, 5 * 44);
    // The first of draws without replacement has the probability of its weight.
    std::map<int64_t, int> firsts;
    data::WeightedRandomSampler without({0, 1, 3, 0}, 2, false);
    for (uint64_t seed = 0; seed < 4000; ++seed) {
        const std::vector<int64_t> two = indices_of(without, seed);
        EXPECT_EQ(two[0] + two[1], 3);
        ++firsts[two[0]];
    }
    EXPECT_NEAR(firsts[2], 3000, 5 * 28);
    EXPECT_THROW(data::WeightedRandomSampler({0, 0}, 1), lz::IndexError);
    EXPECT_THROW(data::WeightedRandomSampler({1, -1}, 1), lz::IndexError);
    EXPECT_THROW(data::WeightedRandomSampler({1, NAN}, 1), lz::IndexError);
    EXPECT_THROW(data::WeightedRandomSampler({1, 0}, 2, false), lz::IndexError);
}

TEST(Samplers, SharesOfProcesses) {
    for (const bool shuffle : {false, true}) {
        std::multiset<int64_t> all;
        for (int64_t rank = 0; rank < 3; ++rank) {
            data::DistributedSampler share(10, 3, rank, shuffle, 9);
            EXPECT_EQ(share.size(), 4);
            // Whatever the loader's generator is.
            EXPECT_EQ(indices_of(share, 1), indices_of(share, 2));
            const std::vector<int64_t> first = indices_of(share);
            all.insert(first.begin(), first.end());
            share.set_epoch(1);
            EXPECT_EQ(first != indices_of(share), shuffle);
        }
        EXPECT_EQ(all.size(), 12u);
        EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 10u);
    }
    data::DistributedSampler fewer(10, 3, 2, false, 0, true);
    EXPECT_EQ(indices_of(fewer), (std::vector<int64_t>{2, 5, 8}));
    EXPECT_EQ(data::DistributedSampler(0, 3, 2).size(), 0);
    EXPECT_THROW(data::DistributedSampler(10, 3, 3), lz::IndexError);
}

TEST(Progress, SaysHowFarALoopIs) {
    std::vector<int> numbers{1, 2, 3, 4};
    auto bar = lz::progress(numbers, "epoch 3");
    int sum = 0;
    for (const int n : bar) {
        sum += n;
        bar.set("loss", 0.5);
        if (n == 3) {
            EXPECT_THAT(bar.text(), HasSubstr("epoch 3: 2/4 50% "));
            EXPECT_THAT(bar.text(), HasSubstr("/s loss 0.5"));
        }
    }
    EXPECT_EQ(sum, 10);
    for (int &n : lz::progress(numbers))
        n = 0;
    EXPECT_EQ(numbers[2], 0);
    int64_t rows = 0;
    for (auto [x] :
         lz::progress(data::DataLoader(data::TensorDataset(lz::arange(10)), {.batch_size = 4}), "data"))
        rows += x.size(0);
    EXPECT_EQ(rows, 10);
}

// Where stderr is no terminal nothing is printed, and no tensor is computed for it.
TEST(Progress, IsSilentWithoutATerminal) {
    testing::internal::CaptureStderr(); // a file
    for (const int n : lz::progress(std::vector<int>{1, 2, 3}, "epoch"))
        (void)n;
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

} // namespace
