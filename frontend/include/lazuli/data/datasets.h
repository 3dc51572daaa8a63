#pragma once
/// LibTorch's way to data sets: classes derived from datasets::Dataset, transforms, and make_data_loader.
///
///     auto set = data::datasets::MNIST("./data")
///                    .map(data::transforms::Normalize<>(0.1307, 0.3081))
///                    .map(data::transforms::Stack<>());
///     auto loader = data::make_data_loader(std::move(set), 64);
///     for (auto &batch : *loader)
///         loss_of(batch.data, batch.target);
///
/// What a loader's workers call are copies of the set, each used by one thread at a time, as in LibTorch:
/// what `get` changes in its set belongs to that copy.

#include "lazuli/data/images.h"
#include "lazuli/data/loader.h"

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lz::data {

namespace transforms {

/// What makes other batches of batches.
template <class Input, class Output>
class BatchTransform {
public:
    virtual ~BatchTransform() = default;
    /// The batch that becomes of this one.
    virtual Output apply_batch(Input batch) = 0;
};

/// What makes other examples of examples.
template <class Input, class Output>
class Transform : public BatchTransform<std::vector<Input>, std::vector<Output>> {
public:
    /// The example that becomes of this one.
    virtual Output apply(Input example) = 0;
    /// Of all examples.
    std::vector<Output> apply_batch(std::vector<Input> batch) override {
        std::vector<Output> out;
        out.reserve(batch.size());
        for (Input &example : batch)
            out.push_back(apply(std::move(example)));
        return out;
    }
};

/// What makes one of the examples of a batch.
template <class Batch, class Input = std::vector<Batch>>
using Collation = BatchTransform<Input, Batch>;

/// A function of examples.
template <class Input, class Output = Input>
class Lambda : public Transform<Input, Output> {
public:
    /// This one.
    explicit Lambda(std::function<Output(Input)> function) : function_(std::move(function)) {}
    /// As the function says.
    Output apply(Input example) override { return function_(std::move(example)); }

private:
    std::function<Output(Input)> function_;
};

/// A function of batches.
template <class Input, class Output = Input>
class BatchLambda : public BatchTransform<Input, Output> {
public:
    /// This one.
    explicit BatchLambda(std::function<Output(Input)> function) : function_(std::move(function)) {}
    /// As the function says.
    Output apply_batch(Input batch) override { return function_(std::move(batch)); }

private:
    std::function<Output(Input)> function_;
};

/// Changes the data of examples, and leaves their targets. Derive from it for one of your own.
template <class Target = Tensor>
class TensorTransform : public Transform<Example<Tensor, Target>, Example<Tensor, Target>> {
public:
    /// The data that becomes of this.
    virtual Tensor operator()(Tensor input) = 0;
    /// The example with other data.
    Example<Tensor, Target> apply(Example<Tensor, Target> example) override {
        example.data = (*this)(std::move(example.data));
        return example;
    }
};

/// A function of the data of examples.
template <class Target = Tensor>
class TensorLambda : public TensorTransform<Target> {
public:
    /// This one.
    explicit TensorLambda(std::function<Tensor(Tensor)> function) : function_(std::move(function)) {}
    /// As the function says.
    Tensor operator()(Tensor input) override { return function_(std::move(input)); }

private:
    std::function<Tensor(Tensor)> function_;
};

/// (data - mean) / stddev of images [channels, height, width].
template <class Target = Tensor>
class Normalize : public TensorTransform<Target> {
public:
    /// One number a channel.
    Normalize(const std::vector<double> &mean, const std::vector<double> &stddev)
        : mean(of_channels(mean)), stddev(of_channels(stddev)) {}
    /// One number for all.
    Normalize(double mean, double stddev)
        : Normalize(std::vector<double>{mean}, std::vector<double>{stddev}) {}
    /// In f32.
    Tensor operator()(Tensor input) override { return (input - mean) / stddev; }

    /// [channels, 1, 1]
    Tensor mean;
    /// [channels, 1, 1]
    Tensor stddev;

private:
    static Tensor of_channels(const std::vector<double> &numbers) {
        return lz::tensor<double>(numbers, {.device = Device::cpu()}).to(f32).view({-1, 1, 1}).eval();
    }
};

/// Makes one example of the examples of a batch: data and targets get an axis in front. Throws ShapeError for
/// tensors of different shapes, DTypeError for different dtypes.
template <class E = Example<>>
class Stack : public Collation<E> {
public:
    /// As a loader of sets like `TensorDataset` does.
    E apply_batch(std::vector<E> examples) override { return DefaultCollate()(std::move(examples)); }
};

} // namespace transforms

namespace datasets {

template <class D, class T>
class MapDataset;

namespace detail {

/// `map` of a class Self with a `get_batch`.
template <class Self>
class Mappable {
public:
    /// A set whose batches go through the transform.
    template <class T>
    MapDataset<Self, T> map(T transform) & {
        return {static_cast<const Self &>(*this), std::move(transform)};
    }
    /// The same of a set that is moved in.
    template <class T>
    MapDataset<Self, T> map(T transform) && {
        return {std::move(static_cast<Self &>(*this)), std::move(transform)};
    }
};

} // namespace detail

/// Base of a data set of class Self: `struct Faces : Dataset<Faces> { ... }`.
template <class Self, class Single = Example<>>
class Dataset : public detail::Mappable<Self> {
public:
    /// What there is of each index.
    using ExampleType = Single;
    /// What a loader gets, until a transform makes something else of it.
    using BatchType = std::vector<Single>;

    virtual ~Dataset() = default;
    /// The example of this number.
    virtual Single get(size_t index) = 0;
    /// How many there are; loaders need to know.
    virtual std::optional<size_t> size() const = 0;
    /// Examples of these numbers.
    virtual std::vector<Single> get_batch(std::span<const size_t> indices) {
        std::vector<Single> batch;
        batch.reserve(indices.size());
        for (const size_t index : indices)
            batch.push_back(get(index));
        return batch;
    }
};

/// A data set whose batches go through a transform: what `map` gives.
template <class D, class T>
class MapDataset : public detail::Mappable<MapDataset<D, T>> {
public:
    /// What a loader gets.
    using BatchType = decltype(std::declval<T &>().apply_batch(std::declval<typename D::BatchType>()));

    /// See `map`.
    MapDataset(D dataset, T transform) : dataset_(std::move(dataset)), transform_(std::move(transform)) {}

    /// As the set's.
    std::optional<size_t> size() const { return dataset_.size(); }
    /// The set's batch through the transform.
    BatchType get_batch(std::span<const size_t> indices) {
        return transform_.apply_batch(dataset_.get_batch(indices));
    }
    /// The set.
    const D &dataset() const noexcept { return dataset_; }
    /// The transform.
    const T &transform() const noexcept { return transform_; }

private:
    D dataset_;
    T transform_;
};

/// Rows of a tensor, without targets.
class TensorDataset : public Dataset<TensorDataset, TensorExample> {
public:
    /// Computes the tensor. Throws ShapeError where it has no axes.
    explicit TensorDataset(const Tensor &tensor, Location loc = Location::current()) : rows_(tensor, loc) {}
    /// Tensors that are stacked.
    explicit TensorDataset(const std::vector<Tensor> &tensors, Location loc = Location::current())
        : TensorDataset(lz::stack(tensors, 0, loc), loc) {}
    /// A row. Throws IndexError.
    TensorExample get(size_t index) override { return rows_.get(static_cast<int64_t>(index))[0]; }
    /// How many rows there are.
    std::optional<size_t> size() const override { return static_cast<size_t>(rows_.size()); }
    /// All of it.
    const Tensor &tensor() const { return rows_.tensors()[0]; }

private:
    data::TensorDataset<1> rows_;
};

/// Handwritten digits: data::MNIST with LibTorch's names. Images are f32[1, 28, 28] from 0 to 1.
class MNIST : public Dataset<MNIST> {
public:
    /// Which files.
    enum class Mode : uint8_t { kTrain, kTest };
    /// From a folder, as data::MNIST. Throws IoError.
    explicit MNIST(const std::string &root, Mode mode = Mode::kTrain, Location loc = Location::current())
        : all_(root, mode == Mode::kTrain, loc), mode_(mode) {}
    /// An image and its label. Throws IndexError.
    Example<> get(size_t index) override {
        auto [data, target] = all_.get(static_cast<int64_t>(index));
        return {std::move(data), std::move(target)};
    }
    /// How many images there are.
    std::optional<size_t> size() const override { return static_cast<size_t>(all_.size()); }
    /// Whether these are those to train with.
    bool is_train() const noexcept { return mode_ == Mode::kTrain; }
    /// All images.
    const Tensor &images() const { return all_.images(); }
    /// All labels.
    const Tensor &targets() const { return all_.targets(); }

private:
    data::MNIST all_;
    Mode mode_;
};

} // namespace datasets

/// LibTorch's place of samplers.
namespace samplers {
using data::DistributedSampler;
using data::RandomSampler;
using data::Sampler;
using data::SequentialSampler;
} // namespace samplers

namespace detail {

/// A set of LibTorch's kind as one of `DataLoader`'s: threads use copies of it.
template <class D>
class BatchesOf {
public:
    /// Throws StateError for a set that does not say its size.
    BatchesOf(D dataset, Location loc) : state_(std::make_shared<State>(std::move(dataset))) {
        const std::optional<size_t> size = state_->first.size();
        if (!size)
            throw StateError("make_data_loader: the data set does not say its size", loc);
        size_ = static_cast<int64_t>(*size);
    }
    /// How many examples there are.
    int64_t size() const { return size_; }
    /// A copy's batch.
    typename D::BatchType get_batch(std::span<const int64_t> indices) const {
        const std::vector<size_t> numbers(indices.begin(), indices.end());
        std::unique_ptr<D> copy = state_->take();
        auto batch = copy->get_batch(numbers);
        state_->give_back(std::move(copy));
        return batch;
    }
    /// A batch of one.
    typename D::BatchType get(int64_t index) const { return get_batch(std::span(&index, 1)); }

private:
    struct State {
        explicit State(D dataset) : first(std::move(dataset)) {}
        std::unique_ptr<D> take() {
            const std::lock_guard lock(mutex);
            if (idle.empty())
                return std::make_unique<D>(first);
            std::unique_ptr<D> copy = std::move(idle.back());
            idle.pop_back();
            return copy;
        }
        void give_back(std::unique_ptr<D> copy) {
            const std::lock_guard lock(mutex);
            idle.push_back(std::move(copy));
        }
        D first;
        std::mutex mutex;
        std::vector<std::unique_ptr<D>> idle;
    };
    std::shared_ptr<State> state_;
    int64_t size_ = 0;
};

template <class D>
concept LibTorchDataset = requires(D &d, std::span<const size_t> indices) {
    typename D::BatchType;
    { d.size() } -> std::convertible_to<std::optional<size_t>>;
    { d.get_batch(indices) } -> std::convertible_to<typename D::BatchType>;
};

} // namespace detail

/// A loader of a data set: of this file's, or of any other that DataLoader takes. Its order is that of the
/// sampler, which has to be made for as many examples. Throws as DataLoader, and StateError for a set that
/// does not say its size.
template <class D, class S>
    requires std::derived_from<S, Sampler>
auto make_data_loader(D dataset, S sampler, DataLoaderOptions options = {},
                      Location loc = Location::current()) {
    options.sampler = std::make_shared<S>(std::move(sampler));
    if constexpr (detail::LibTorchDataset<D>) {
        using Loader = DataLoader<detail::BatchesOf<D>>;
        return std::make_unique<Loader>(detail::BatchesOf<D>(std::move(dataset), loc), options,
                                        DefaultCollate(), loc);
    } else {
        return std::make_unique<DataLoader<D>>(std::move(dataset), options, DefaultCollate(), loc);
    }
}

/// In random order, unless another sampler is named: `make_data_loader<samplers::SequentialSampler>(set)`.
template <class S = RandomSampler, class D>
    requires std::derived_from<S, Sampler>
auto make_data_loader(D dataset, const DataLoaderOptions &options = {}, Location loc = Location::current()) {
    int64_t size = 0;
    if constexpr (detail::LibTorchDataset<D>) {
        const std::optional<size_t> said = dataset.size();
        if (!said)
            throw StateError("make_data_loader: the data set does not say its size", loc);
        size = static_cast<int64_t>(*said);
    } else {
        size = static_cast<int64_t>(dataset.size());
    }
    return make_data_loader(std::move(dataset), S(size), options, loc);
}
/// The same with batches of this size.
template <class S = RandomSampler, class D, std::integral Size>
    requires std::derived_from<S, Sampler>
auto make_data_loader(D dataset, Size batch_size, Location loc = Location::current()) {
    return make_data_loader<S>(std::move(dataset),
                               DataLoaderOptions{.batch_size = static_cast<int64_t>(batch_size)}, loc);
}

} // namespace lz::data
