#include <lazuli/data.h>
#include <lazuli/lazuli.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace {

namespace data = lz::data;
using lz::Tensor;
using testing::HasSubstr;

/// Before anything uses the engine.
[[maybe_unused]] const bool virtual_gpus = setenv("LAZULI_VIRTUAL_GPUS", "2", 0) == 0;

/// Example i is (i, 2 i): a row and a number.
struct Numbers {
    int64_t count = 10;
    int64_t size() const { return count; }
    std::pair<Tensor, int64_t> get(int64_t i) const { return {lz::tensor({i, i + 100}), 2 * i}; }
};

std::vector<std::vector<int64_t>> batches(auto &&loader) {
    std::vector<std::vector<int64_t>> out;
    for (auto [x, y] : loader)
        out.push_back(y.template to_vector<int64_t>());
    return out;
}

TEST(DataLoader, GivesBatchesOfTensors) {
    data::DataLoader loader(Numbers(), {.batch_size = 4});
    EXPECT_EQ(loader.size(), 3);
    std::vector<int64_t> seen;
    int64_t count = 0;
    for (auto [x, y] : loader) {
        EXPECT_EQ(x.sizes(), (lz::Sizes{count < 2 ? 4 : 2, 2}));
        EXPECT_EQ(x.dtype(), lz::i64);
        const std::vector<int64_t> rows = x.to_vector<int64_t>(), numbers = y.to_vector<int64_t>();
        for (size_t i = 0; i < numbers.size(); ++i) {
            EXPECT_EQ(rows[2 * i + 1], rows[2 * i] + 100);
            EXPECT_EQ(numbers[i], 2 * rows[2 * i]);
            seen.push_back(rows[2 * i]);
        }
        ++count;
    }
    EXPECT_EQ(count, 3);
    EXPECT_EQ(seen, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    EXPECT_EQ(data::DataLoader(Numbers(), {.batch_size = 4, .drop_last = true}).size(), 2);
    EXPECT_EQ(batches(data::DataLoader(Numbers(), {.batch_size = 4, .drop_last = true})).size(), 2u);
    EXPECT_EQ(batches(data::DataLoader(Numbers{0}, {.batch_size = 4})).size(), 0u);
    EXPECT_EQ(
        batches(data::DataLoader(Numbers{0}, {.batch_size = 4, .shuffle = true, .num_workers = 2})).size(),
        0u);
}

TEST(DataLoader, TheOrderIsTheSameForAnyNumberOfWorkers) {
    std::vector<std::vector<std::vector<int64_t>>> epochs;
    for (const int workers : {0, 1, 2, 5}) {
        lz::Generator generator(11);
        data::DataLoader loader(
            Numbers{97}, {.batch_size = 8, .shuffle = true, .num_workers = workers, .generator = &generator});
        std::vector<std::vector<int64_t>> two = batches(loader);
        EXPECT_EQ(two.size(), 13u);
        const auto second = batches(loader);
        EXPECT_NE(two, second); // another epoch, another order
        two.insert(two.end(), second.begin(), second.end());
        epochs.push_back(two);
        std::multiset<int64_t> all;
        for (const auto &batch : second)
            all.insert(batch.begin(), batch.end());
        EXPECT_EQ(all.size(), 97u);
        EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 97u);
    }
    for (const auto &epoch : epochs)
        EXPECT_EQ(epoch, epochs[0]);
    // And on every machine: this order is written down.
    EXPECT_EQ(epochs[0][0], (std::vector<int64_t>{192, 34, 14, 4, 148, 118, 8, 28}));
}

/// Random examples: the same for an example whichever thread asks.
struct Noise {
    int64_t size() const { return 20; }
    std::array<Tensor, 1> get(int64_t i, lz::Generator &generator) const {
        return {lz::rand({3}, generator) + static_cast<double>(i)};
    }
};

TEST(DataLoader, RandomExamplesAreTheSameForAnyNumberOfWorkers) {
    std::vector<std::vector<float>> runs;
    for (const int workers : {0, 3}) {
        lz::Generator generator(5);
        data::DataLoader loader(Noise(), {.batch_size = 4, .num_workers = workers, .generator = &generator});
        std::vector<float> all;
        for (int epoch = 0; epoch < 2; ++epoch)
            for (auto [x] : loader) {
                const std::vector<float> values = x.to_vector<float>();
                all.insert(all.end(), values.begin(), values.end());
            }
        runs.push_back(all);
    }
    EXPECT_EQ(runs[0], runs[1]);
    EXPECT_EQ(std::set<float>(runs[0].begin(), runs[0].end()).size(), 120u); // epochs differ, too
}

struct Failing {
    std::shared_ptr<std::atomic<int>> asked = std::make_shared<std::atomic<int>>(0);
    int64_t size() const { return 100; }
    int64_t get(int64_t i) const {
        ++*asked;
        if (i == 17)
            throw std::out_of_range("nothing at 17");
        return i;
    }
};

TEST(DataLoader, WhatAWorkerThrowsIsThrownWhereTheBatchIsTaken) {
    for (const int workers : {0, 1, 3}) {
        data::DataLoader loader(Failing(), {.batch_size = 5, .num_workers = workers});
        int64_t taken = 0;
        try {
            for (const Tensor &batch : loader)
                taken += batch.numel();
            FAIL() << "nothing was thrown";
        } catch (const data::DataLoaderError &error) {
            EXPECT_EQ(taken, 15); // the batches before it arrived
            EXPECT_EQ(error.batch(), 3);
            EXPECT_EQ(error.index(), 17);
            EXPECT_THAT(error.what(), HasSubstr("example 17 of batch 3 cannot be had: nothing at 17"));
            EXPECT_THAT(error.what(), HasSubstr("loader_test.cpp"));
            EXPECT_THROW(error.rethrow_cause(), std::out_of_range);
        }
    }
    const auto shapes =
        data::map(Numbers(), [](const auto &example) { return lz::ones({1 + example.second}); });
    try {
        for (const Tensor &batch : data::DataLoader(shapes, {.batch_size = 3, .num_workers = 2}))
            (void)batch;
        FAIL() << "nothing was thrown";
    } catch (const data::DataLoaderError &error) {
        EXPECT_EQ(error.index(), -1);
        EXPECT_THAT(error.what(), HasSubstr("example 0 of a batch has the shape [1] and example 1 [3]"));
        EXPECT_THROW(error.rethrow_cause(), lz::ShapeError);
    }
}

TEST(DataLoader, WorkersAreNoFurtherAheadThanAllowed) {
    for (const int64_t jobs : {0, 1, 3}) { // 0: what each worker may
        const Failing set;
        data::DataLoader loader(data::Subset(set, std::vector<int64_t>(50, 1)),
                                {.batch_size = 1, .num_workers = 2, .prefetch_factor = 3, .max_jobs = jobs});
        int64_t taken = 0;
        for (const Tensor &batch : loader) {
            taken += batch.numel();
            EXPECT_LE(*set.asked, taken + (jobs > 0 ? jobs : 6));
        }
        EXPECT_EQ(taken, 50);
    }
}

/// Examples that wait until they are told to go on.
struct Gate {
    struct State {
        std::mutex mutex;
        std::condition_variable changed;
        bool open = false;
        std::atomic<int> inside{0};
    };
    std::shared_ptr<State> state = std::make_shared<State>();
    int64_t size() const { return 50; }
    int64_t get(int64_t i) const {
        ++state->inside;
        std::unique_lock lock(state->mutex);
        state->changed.wait(lock, [&] { return state->open || i < 2; });
        --state->inside;
        return i;
    }
    void open() const {
        const std::lock_guard lock(state->mutex);
        state->open = true;
        state->changed.notify_all();
    }
};

TEST(DataLoader, AWorkerThatNeverEndsIsATimeout) {
    const Gate gate;
    {
        data::DataLoader loader(gate, {.batch_size = 1, .num_workers = 2, .timeout = 0.05});
        int64_t taken = 0;
        try {
            for (const Tensor &batch : loader)
                taken += batch.numel();
            FAIL() << "nothing was thrown";
        } catch (const lz::StateError &error) {
            EXPECT_EQ(taken, 2);
            EXPECT_THAT(error.what(), HasSubstr("batch 2 was not made within 0.05 s"));
        }
    } // the loader is gone, its workers are not
    gate.open();
    while (gate.state->inside > 0 || gate.state.use_count() > 1) // they end, and let go of the data set
        std::this_thread::yield();
}

TEST(DataLoader, ALoopThatIsLeftEndsItsWorkers) {
    const Failing set;
    {
        data::DataLoader loader(set, {.batch_size = 1, .num_workers = 3});
        for (const Tensor &batch : loader) {
            if (batch.item<int64_t>() == 4)
                break;
        }
        EXPECT_EQ(batches(data::DataLoader(Numbers(), {.batch_size = 10})).size(), 1u);
        auto held = loader.begin();
        EXPECT_EQ((*held).item<int64_t>(), 0); // the next epoch begins again
    }
    EXPECT_EQ(set.asked.use_count(), 1);
}

TEST(DataLoader, ALoaderMayGoBeforeItsLoop) {
    auto loader =
        std::make_unique<data::DataLoader<Numbers>>(Numbers(), data::DataLoaderOptions{.num_workers = 2});
    auto at = loader->begin();
    loader.reset();
    int64_t taken = 0;
    for (; !(at == std::default_sentinel); ++at)
        ++taken;
    EXPECT_EQ(taken, 10);
}

struct Counter {
    int64_t count = 0, end = 10, at = 0;
    std::optional<Tensor> next() {
        if (at >= end)
            return std::nullopt;
        return lz::full({2}, at++);
    }
    void reset() { at = 0; }
};

TEST(DataLoader, StreamsKeepTheirOrder) {
    for (const int workers : {0, 1, 4}) {
        data::DataLoader loader(Counter(), {.batch_size = 3, .num_workers = workers});
        for (int epoch = 0; epoch < 2; ++epoch) {
            std::vector<int64_t> seen;
            for (const Tensor &batch : loader)
                for (const int64_t value : batch.to_vector<int64_t>())
                    seen.push_back(value);
            EXPECT_EQ(seen.size(), 20u);
            EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
        }
        data::DataLoader whole(Counter(), {.batch_size = 3, .drop_last = true, .num_workers = workers});
        int64_t taken = 0;
        for (const Tensor &batch : whole)
            taken += batch.size(0);
        EXPECT_EQ(taken, 9);
    }
    EXPECT_THROW(data::DataLoader(Counter(), {.shuffle = true}), lz::StateError);
}

struct Labelled {
    int64_t size() const { return 3; }
    data::Example<Tensor, std::string> get(int64_t i) const { return {lz::full({2}, i), std::to_string(i)}; }
};

TEST(DataLoader, ExamplesOfAllKindsBecomeBatches) {
    for (auto &[x, names] : data::DataLoader(Labelled(), {.batch_size = 3})) {
        EXPECT_EQ(x.sizes(), (lz::Sizes{3, 2}));
        EXPECT_EQ(names, (std::vector<std::string>{"0", "1", "2"}));
    }
    const auto tuples = data::map(Numbers(), [](const auto &example) {
        return std::tuple(example.second, 0.5f, std::array<bool, 2>{true, false});
    });
    for (auto [number, real, bools] : data::DataLoader(tuples, {.batch_size = 10})) {
        EXPECT_EQ(number.dtype(), lz::i64);
        EXPECT_EQ(real.dtype(), lz::f32);
        EXPECT_EQ(bools[0].dtype(), lz::boolean);
        EXPECT_EQ(bools[1].to_vector<bool>(), std::vector<bool>(10, false));
    }
    const auto lengths = [](const std::vector<std::pair<Tensor, int64_t>> &examples) {
        return static_cast<int64_t>(examples.size());
    };
    std::vector<int64_t> sizes;
    for (const int64_t size : data::DataLoader(Numbers(), {.batch_size = 4, .num_workers = 1}, lengths))
        sizes.push_back(size);
    EXPECT_EQ(sizes, (std::vector<int64_t>{4, 4, 2}));
}

TEST(DataLoader, BatchesHaveBeenComputedAndReachTheGpu) {
    if (!lz::cuda::is_available())
        GTEST_SKIP() << "there are no virtual GPUs";
    data::DataLoader pinned(Numbers(), {.batch_size = 5, .num_workers = 1, .pin_memory = true});
    for (auto [x, y] : pinned)
        EXPECT_TRUE(x.is_pinned() && y.is_pinned());
    data::DataLoader moved(Numbers(),
                           {.batch_size = 5, .num_workers = 2, .pin_memory = true, .device = "cuda:1"});
    int64_t sum = 0;
    for (auto [x, y] : moved) {
        EXPECT_EQ(x.device(), lz::Device::cuda(1));
        sum += (x.sum() + y.sum()).item<int64_t>();
    }
    EXPECT_EQ(sum, 45 * 2 + 1000 + 90);
}

/// Example i is i times a weight that requires grad.
struct Weighed {
    Tensor weight;
    int64_t size() const { return 6; }
    Tensor get(int64_t i) const { return weight * static_cast<double>(i); }
};

Tensor made_weight() {
    return lz::tensor({1.0, 2.0}, {.dtype = lz::f64}).requires_grad_();
}

TEST(DataLoader, HistoryIsKeptForAnyNumberOfWorkers) {
    for (const int workers : {0, 1, 3}) {
        SCOPED_TRACE(workers);
        const Tensor weight = made_weight();
        data::DataLoader loader(Weighed{weight}, {.batch_size = 4, .num_workers = workers});
        std::vector<Tensor> batches;
        for (auto x : loader) {
            EXPECT_TRUE(x.requires_grad());
            EXPECT_FALSE(x.is_leaf());
            batches.push_back(x);
        }
        ASSERT_EQ(batches.size(), 2u);
        EXPECT_EQ(batches[1].to_vector<double>(), (std::vector<double>{4, 8, 5, 10}));
        (batches[0].sum() + 10 * batches[1].sum()).backward();
        EXPECT_EQ(weight.grad().to_vector<double>(),
                  (std::vector<double>{96, 96})); // 0 + ... + 3 + 10 (4 + 5)
        const lz::NoGradGuard no_grad;
        for (auto x : loader)
            EXPECT_FALSE(x.requires_grad());
    }
    // The mode is that of where the loop began, also where it is changed meanwhile.
    for (const int workers : {0, 2}) {
        data::DataLoader loader(Weighed{made_weight()}, {.num_workers = workers});
        for (auto at = loader.begin(); at != loader.end();) {
            EXPECT_TRUE((*at).requires_grad()) << workers;
            const lz::NoGradGuard no_grad;
            ++at;
        }
    }
}

TEST(DataLoader, HistoryReachesBackFromTheGpuThatBatchesAreMovedTo) {
    if (!lz::cuda::is_available())
        GTEST_SKIP() << "there are no virtual GPUs";
    for (const int workers : {0, 2}) {
        const Tensor weight = made_weight();
        data::DataLoader loader(
            Weighed{weight},
            {.batch_size = 6, .num_workers = workers, .pin_memory = true, .device = "cuda:1"});
        for (auto x : loader) {
            EXPECT_EQ(x.device(), lz::Device::cuda(1));
            x.sum().backward();
        }
        EXPECT_EQ(weight.grad().device(), lz::Device::cpu());
        EXPECT_EQ(weight.grad().to_vector<double>(), (std::vector<double>{15, 15})) << workers;
    }
}

TEST(DataLoader, OptionsThatCannotBe) {
    EXPECT_THROW(data::DataLoader(Numbers(), {.batch_size = 0}), lz::IndexError);
    EXPECT_THROW(data::DataLoader(Numbers(), {.num_workers = -1}), lz::IndexError);
    EXPECT_THROW(data::DataLoader(Numbers(), {.prefetch_factor = 0}), lz::IndexError);
    EXPECT_THROW(data::DataLoader(Numbers(), {.max_jobs = -1}), lz::IndexError);
    EXPECT_THROW(data::DataLoader(Numbers(), {.timeout = 1}), lz::StateError);
    EXPECT_THROW(data::DataLoader(Numbers(),
                                  {.shuffle = true, .sampler = std::make_shared<data::SequentialSampler>(3)}),
                 lz::StateError);
}

} // namespace
