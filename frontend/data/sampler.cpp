#include "lazuli/data/sampler.h"

#include "frontend/data/random.h"
#include "lazuli/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lz::data {

namespace {

std::vector<int64_t> counted(int64_t n) {
    std::vector<int64_t> all(static_cast<size_t>(std::max<int64_t>(n, 0)));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

std::vector<int64_t> shuffled(int64_t n, detail::HostRandom random) {
    std::vector<int64_t> all = counted(n);
    for (size_t i = all.size(); i > 1; --i)
        std::swap(all[i - 1], all[random.below(i)]);
    return all;
}

} // namespace

namespace detail {

HostRandom::HostRandom(Generator &generator) : state_(0) {
    const Generator::State at = generator.draw(4);
    state_ = at.seed;
    state_ = next() ^ at.offset;
    state_ = next();
}

std::vector<int64_t> permutation(int64_t n, Generator &generator) {
    return shuffled(n, HostRandom(generator));
}

uint64_t epoch_seed(Generator &generator) {
    return HostRandom(generator).next();
}

uint64_t example_seed(uint64_t epoch, int64_t index) {
    return HostRandom(epoch ^ HostRandom(static_cast<uint64_t>(index)).next()).next();
}

std::vector<int64_t> split_ends(int64_t size, std::span<const double> parts, bool fractions, Location loc) {
    double sum = 0;
    for (const double part : parts) {
        if (!(part >= 0) || !std::isfinite(part))
            throw ShapeError(fmt::format("random_split: a part is {}; parts are 0 or more", part), loc);
        sum += part;
    }
    std::vector<int64_t> lengths;
    if (fractions) {
        if (std::abs(sum - 1) > 1e-6)
            throw ShapeError(fmt::format("random_split: the fractions add up to {} and not to 1", sum), loc);
        for (const double part : parts)
            lengths.push_back(static_cast<int64_t>(std::floor(static_cast<double>(size) * part)));
        int64_t left = size - std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
        for (size_t i = 0; left > 0; i = (i + 1) % lengths.size(), --left)
            ++lengths[i];
    } else {
        if (sum != static_cast<double>(size))
            throw ShapeError(
                fmt::format("random_split: the lengths add up to {}, and the data set has {} examples", sum,
                            size),
                loc);
        for (const double part : parts)
            lengths.push_back(static_cast<int64_t>(part));
    }
    std::partial_sum(lengths.begin(), lengths.end(), lengths.begin());
    return lengths;
}

} // namespace detail

Sampler::~Sampler() = default;

std::vector<int64_t> SequentialSampler::indices(Generator &) {
    return counted(size_);
}

RandomSampler::RandomSampler(int64_t size, bool replacement, int64_t num_samples, Location loc)
    : size_(size), samples_(num_samples == 0 ? size : num_samples), replacement_(replacement) {
    if (size < 0 || num_samples < 0 || (replacement && size == 0 && num_samples > 0) ||
        (!replacement && samples_ > size))
        throw IndexError(fmt::format("RandomSampler: {} draws {} replacement of {} examples", num_samples,
                                     replacement ? "with" : "without", size),
                         loc);
}
std::vector<int64_t> RandomSampler::indices(Generator &generator) {
    if (!replacement_) {
        std::vector<int64_t> all = detail::permutation(size_, generator);
        all.resize(static_cast<size_t>(samples_));
        return all;
    }
    detail::HostRandom random(generator);
    std::vector<int64_t> all;
    for (int64_t i = 0; i < samples_; ++i)
        all.push_back(static_cast<int64_t>(random.below(static_cast<uint64_t>(size_))));
    return all;
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, int64_t num_samples,
                                             bool replacement, Location loc)
    : weights_(std::move(weights)), samples_(num_samples), replacement_(replacement) {
    int64_t positive = 0;
    for (size_t i = 0; i < weights_.size(); ++i) {
        if (!(weights_[i] >= 0) || !std::isfinite(weights_[i]))
            throw IndexError(fmt::format("WeightedRandomSampler: weight {} is {}; weights are finite and not "
                                         "negative",
                                         i, weights_[i]),
                             loc);
        positive += weights_[i] > 0;
    }
    if (num_samples < 0 || (num_samples > 0 && positive == 0) || (!replacement && num_samples > positive))
        throw IndexError(fmt::format("WeightedRandomSampler: {} draws {} replacement of {} weights above 0",
                                     num_samples, replacement ? "with" : "without", positive),
                         loc);
}
std::vector<int64_t> WeightedRandomSampler::indices(Generator &generator) {
    detail::HostRandom random(generator);
    std::vector<int64_t> all;
    if (replacement_) {
        std::vector<double> ends(weights_.size());
        std::partial_sum(weights_.begin(), weights_.end(), ends.begin());
        // The last place whose weight is not 0 also takes what rounding puts at the very end.
        const size_t last =
            static_cast<size_t>(
                std::find_if(weights_.rbegin(), weights_.rend(), [](double w) { return w > 0; }).base() -
                weights_.begin()) -
            (samples_ > 0 ? 1 : 0);
        for (int64_t i = 0; i < samples_; ++i) {
            const auto at = std::upper_bound(ends.begin(), ends.end(), random.uniform() * ends.back());
            all.push_back(static_cast<int64_t>(std::min(static_cast<size_t>(at - ends.begin()), last)));
        }
        return all;
    }
    // The smallest of exponential times with these rates (Efraimidis, Spirakis, 2006).
    std::vector<std::pair<double, int64_t>> times;
    for (size_t i = 0; i < weights_.size(); ++i)
        if (weights_[i] > 0)
            times.emplace_back(-std::log(random.uniform()) / weights_[i], static_cast<int64_t>(i));
    std::sort(times.begin(), times.end());
    for (int64_t i = 0; i < samples_; ++i)
        all.push_back(times[static_cast<size_t>(i)].second);
    return all;
}

DistributedSampler::DistributedSampler(int64_t size, int64_t replicas, int64_t rank, bool shuffle,
                                       uint64_t seed, bool drop_last, Location loc)
    : size_(size), replicas_(replicas), rank_(rank), shuffle_(shuffle), drop_last_(drop_last), seed_(seed) {
    if (size < 0 || replicas < 1 || rank < 0 || rank >= replicas)
        throw IndexError(
            fmt::format("DistributedSampler: rank {} of {} replicas, of {} examples", rank, replicas, size),
            loc);
}
int64_t DistributedSampler::size() const {
    return drop_last_ ? size_ / replicas_ : (size_ + replicas_ - 1) / replicas_;
}
std::vector<int64_t> DistributedSampler::indices(Generator &) {
    const std::vector<int64_t> all =
        shuffle_
            ? shuffled(size_, detail::HostRandom(detail::example_seed(seed_, static_cast<int64_t>(epoch_))))
            : counted(size_);
    std::vector<int64_t> mine;
    for (int64_t i = 0; i < size(); ++i)
        mine.push_back(all[static_cast<size_t>((rank_ + i * replicas_) % size_)]);
    return mine;
}

BatchSampler::BatchSampler(std::shared_ptr<Sampler> sampler, int64_t batch_size, bool drop_last, Location loc)
    : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {
    if (batch_size < 1)
        throw IndexError(fmt::format("BatchSampler: batches of {} examples", batch_size), loc);
}
BatchSampler::~BatchSampler() = default;
int64_t BatchSampler::size() const {
    const int64_t n = sampler_->size();
    return drop_last_ ? n / batch_size_ : n / batch_size_ + (n % batch_size_ != 0);
}
std::vector<std::vector<int64_t>> BatchSampler::batches(Generator &generator) {
    const std::vector<int64_t> order = sampler_->indices(generator);
    std::vector<std::vector<int64_t>> out;
    for (auto at = order.begin(); at != order.end();) {
        const auto stop = at + std::min<int64_t>(batch_size_, order.end() - at);
        if (stop - at == batch_size_ || !drop_last_)
            out.emplace_back(at, stop);
        at = stop;
    }
    return out;
}

} // namespace lz::data
