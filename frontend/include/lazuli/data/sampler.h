#pragma once
/// In which order a loader takes the examples of a data set. All random orders depend on the generator and
/// nothing else.

#include "lazuli/ops/random.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace lz::data {

/// An order, new in each epoch. Derive from it for one of your own.
class LZ_API Sampler {
public:
    virtual ~Sampler();
    /// How many indices an epoch has.
    virtual int64_t size() const = 0;
    /// The indices of the next epoch.
    virtual std::vector<int64_t> indices(Generator &generator) = 0;
};

/// 0, 1, ... n - 1.
class LZ_API SequentialSampler : public Sampler {
public:
    /// Of a data set of so many examples.
    explicit SequentialSampler(int64_t size) : size_(size) {}
    int64_t size() const override { return size_; }
    std::vector<int64_t> indices(Generator &generator) override;

private:
    int64_t size_;
};

/// Each index once in random order, or `num_samples` draws with replacement.
class LZ_API RandomSampler : public Sampler {
public:
    /// `num_samples` 0: as many as there are examples. Throws IndexError for more draws than examples without
    /// replacement.
    explicit RandomSampler(int64_t size, bool replacement = false, int64_t num_samples = 0,
                           Location loc = Location::current());
    int64_t size() const override { return samples_; }
    std::vector<int64_t> indices(Generator &generator) override;

private:
    int64_t size_, samples_;
    bool replacement_;
};

/// Draws index i with a probability that is proportional to weight i.
class LZ_API WeightedRandomSampler : public Sampler {
public:
    /// Throws IndexError for weights that are negative, not finite or all 0, and without replacement for more
    /// draws than weights that are not 0.
    WeightedRandomSampler(std::vector<double> weights, int64_t num_samples, bool replacement = true,
                          Location loc = Location::current());
    int64_t size() const override { return samples_; }
    std::vector<int64_t> indices(Generator &generator) override;

private:
    std::vector<double> weights_;
    int64_t samples_;
    bool replacement_;
};

/// The share of one of several processes: each gets equally many, every `replicas`-th index of an order that
/// all of them have in common. The order depends on the seed and the epoch, not on the loader's generator.
class LZ_API DistributedSampler : public Sampler {
public:
    /// Shares of a set of `size` examples for `rank` of `replicas`. What does not divide is left out
    /// (`drop_last`), or filled up with indices from the beginning. Throws IndexError for a rank that there
    /// is not.
    DistributedSampler(int64_t size, int64_t replicas, int64_t rank, bool shuffle = true, uint64_t seed = 0,
                       bool drop_last = false, Location loc = Location::current());
    /// Another order; call it before each epoch with the same number in all processes.
    void set_epoch(uint64_t epoch) { epoch_ = epoch; }
    int64_t size() const override;
    std::vector<int64_t> indices(Generator &generator) override;

private:
    int64_t size_, replicas_, rank_;
    bool shuffle_, drop_last_;
    uint64_t seed_, epoch_ = 0;
};

/// The batches of an epoch, as indices. Derive from it to put together batches of your own.
class LZ_API BatchSampler {
public:
    /// Cuts what the sampler gives. Throws IndexError for a batch size below 1.
    BatchSampler(std::shared_ptr<Sampler> sampler, int64_t batch_size, bool drop_last = false,
                 Location loc = Location::current());
    virtual ~BatchSampler();
    /// How many batches an epoch has.
    virtual int64_t size() const;
    /// The indices of each batch of the next epoch.
    virtual std::vector<std::vector<int64_t>> batches(Generator &generator);

private:
    std::shared_ptr<Sampler> sampler_;
    int64_t batch_size_;
    bool drop_last_;
};

} // namespace lz::data
