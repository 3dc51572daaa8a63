#pragma once
/// Data sets: anything with `size()` and `get(index)`, or, where nobody knows the size, with `next()`.

#include "lazuli/ops/creation.h"
#include "lazuli/ops/random.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lz::data {

/// A sample with its label, for those who like names better than places: `example.data`, `example.target`.
template <class Data = Tensor, class Target = Tensor>
struct Example {
    /// What the model sees.
    Data data;
    /// What it should say.
    Target target;
};

namespace example {
/// In place of a target that there is none of.
struct NoTarget {};
} // namespace example

/// A sample without a label. It converts from its data and to it.
template <class Data>
struct Example<Data, example::NoTarget> {
    /// Nothing yet.
    Example() = default;
    /// Of this.
    Example(Data data) : data(std::move(data)) {} // NOLINT: converts
    /// The data.
    operator Data &() { return data; } // NOLINT: converts
    /// The data.
    operator const Data &() const { return data; } // NOLINT: converts
    /// What the model sees.
    Data data;
};
/// A tensor without a label.
using TensorExample = Example<Tensor, example::NoTarget>;

namespace detail {

template <class D>
concept HasGet = requires(const D &d, int64_t i) { d.get(i); };
template <class D>
concept HasSeededGet = requires(const D &d, int64_t i, Generator &g) { d.get(i, g); };

template <class D>
auto get(const D &dataset, int64_t index, Generator &generator) {
    if constexpr (HasSeededGet<D>)
        return dataset.get(index, generator);
    else
        return dataset.get(index);
}

/// Rows of a tensor as a tensor that is there: copied on the CPU, else taken by an operation.
LZ_API Tensor rows(const Tensor &from, std::span<const int64_t> indices, Location loc);
/// Throws ShapeError unless all have the same first extent, which it gives.
LZ_API int64_t common_rows(std::span<const Tensor> tensors, Location loc);
LZ_API void check_index(int64_t index, int64_t size, const char *what, Location loc);
/// A random order of 0 ... n - 1.
LZ_API std::vector<int64_t> permutation(int64_t n, Generator &generator);
/// The ends of the parts of a set of `size` examples; fractions sum to 1, lengths to `size`.
LZ_API std::vector<int64_t> split_ends(int64_t size, std::span<const double> parts, bool fractions,
                                       Location loc);

} // namespace detail

/// Examples by number: `size()`, and `get(index)`, which several threads call at once. A set whose examples
/// are random (augmentation) has `get(index, generator)`: the generator is the example's own, so that it
/// gives the same numbers whichever thread calls. `get_batch(indices)`, where there is one, makes a collated
/// batch at once.
template <class D>
concept Dataset = requires(const D &d) {
    { d.size() } -> std::convertible_to<int64_t>;
} && (detail::HasGet<D> || detail::HasSeededGet<D>);

/// Examples one after the other: `next()` gives a std::optional, empty at the end, and `reset()` starts
/// again. One thread at a time calls it.
template <class D>
concept StreamDataset = requires(D &d) {
    { d.next().has_value() } -> std::convertible_to<bool>;
    *d.next();
    d.reset();
};

/// What a data set gives for an index.
template <Dataset D>
using ExampleOf = decltype(detail::get(std::declval<const D &>(), int64_t{}, std::declval<Generator &>()));

/// Tensors with the same number of rows: example i is row i of each, as an array.
///
///     for (auto [x, y] : data::DataLoader(data::TensorDataset(images, labels), {.batch_size = 64})) ...
template <size_t N>
class TensorDataset {
public:
    /// Computes the tensor. Throws ShapeError where it has no axes.
    explicit TensorDataset(const Tensor &only, Location loc = Location::current())
        requires(N == 1)
        : TensorDataset(std::array<Tensor, N>{only}, loc) {}
    /// Computes the tensors. Throws ShapeError unless their first axes are equally long.
    explicit TensorDataset(const Tensor &first, const Tensor &second, Location loc = Location::current())
        requires(N == 2)
        : TensorDataset(std::array<Tensor, N>{first, second}, loc) {}
    /// The same of more.
    template <class... T>
        requires(N > 2 && sizeof...(T) == N && (std::same_as<T, Tensor> && ...))
    explicit TensorDataset(const T &...tensors) : TensorDataset(std::array<Tensor, N>{tensors...}) {}
    /// The same.
    explicit TensorDataset(std::array<Tensor, N> tensors, Location loc = Location::current())
        : tensors_(std::move(tensors)) {
        for (Tensor &tensor : tensors_)
            tensor = tensor.detach(loc);
        size_ = detail::common_rows(tensors_, loc);
        eval(tensors_, loc);
    }

    /// How many rows there are.
    int64_t size() const { return size_; }
    /// A row of each tensor.
    std::array<Tensor, N> get(int64_t index) const {
        detail::check_index(index, size_, "TensorDataset", {});
        std::array<Tensor, N> out;
        for (size_t i = 0; i < N; ++i)
            out[i] = tensors_[i].select(0, index);
        return out;
    }
    /// Rows of each tensor.
    std::array<Tensor, N> get_batch(std::span<const int64_t> indices) const {
        std::array<Tensor, N> out;
        for (size_t i = 0; i < N; ++i)
            out[i] = detail::rows(tensors_[i], indices, {});
        return out;
    }
    /// All of it.
    const std::array<Tensor, N> &tensors() const { return tensors_; }

private:
    std::array<Tensor, N> tensors_;
    int64_t size_ = 0;
};
template <class... T>
    requires(std::same_as<T, Tensor> && ...)
TensorDataset(const T &...) -> TensorDataset<sizeof...(T)>;
template <size_t N>
TensorDataset(std::array<Tensor, N>, Location = {}) -> TensorDataset<N>;

/// Some examples of a data set. Copies share it.
template <Dataset D>
class Subset {
public:
    /// Throws IndexError for an index that the set does not have.
    Subset(D dataset, std::vector<int64_t> indices, Location loc = Location::current())
        : Subset(std::make_shared<const D>(std::move(dataset)), std::move(indices), loc) {}
    /// Of a set that others have, too.
    Subset(std::shared_ptr<const D> dataset, std::vector<int64_t> indices, Location loc = Location::current())
        : dataset_(std::move(dataset)), indices_(std::move(indices)) {
        for (const int64_t index : indices_)
            detail::check_index(index, static_cast<int64_t>(dataset_->size()), "Subset", loc);
    }

    /// How many were chosen.
    int64_t size() const { return static_cast<int64_t>(indices_.size()); }
    /// The example at the chosen place.
    ExampleOf<D> get(int64_t index) const
        requires detail::HasGet<D>
    {
        return dataset_->get(chosen(index));
    }
    /// The same of a set with random examples.
    ExampleOf<D> get(int64_t index, Generator &generator) const
        requires detail::HasSeededGet<D>
    {
        return dataset_->get(chosen(index), generator);
    }
    /// As the set's.
    auto get_batch(std::span<const int64_t> indices) const
        requires requires(const D &d) { d.get_batch(indices); }
    {
        std::vector<int64_t> there;
        for (const int64_t index : indices)
            there.push_back(chosen(index));
        return dataset_->get_batch(std::span<const int64_t>(there));
    }
    /// Which examples of the set these are.
    const std::vector<int64_t> &indices() const { return indices_; }

private:
    int64_t chosen(int64_t index) const {
        detail::check_index(index, size(), "Subset", {});
        return indices_[static_cast<size_t>(index)];
    }

    std::shared_ptr<const D> dataset_;
    std::vector<int64_t> indices_;
};

/// Disjoint random parts: of these lengths, which add up to the size, or of these fractions, which add up to
/// 1 (what rounding leaves goes to the first parts). `auto [train, held_out] = random_split(set, {0.8,
/// 0.2})`. Throws ShapeError for parts that do not add up.
template <Dataset D, class Part, size_t N>
    requires std::is_arithmetic_v<Part>
std::array<Subset<D>, N> random_split(D dataset, const Part (&parts)[N],
                                      Generator &generator = default_generator(),
                                      Location loc = Location::current()) {
    const auto shared = std::make_shared<const D>(std::move(dataset));
    const auto size = static_cast<int64_t>(shared->size());
    std::array<double, N> numbers;
    for (size_t i = 0; i < N; ++i)
        numbers[i] = static_cast<double>(parts[i]);
    const std::vector<int64_t> ends = detail::split_ends(size, numbers, std::is_floating_point_v<Part>, loc);
    const std::vector<int64_t> order = detail::permutation(size, generator);
    return [&]<size_t... I>(std::index_sequence<I...>) {
        return std::array<Subset<D>, N>{
            Subset<D>(shared,
                      std::vector<int64_t>(order.begin() + (I == 0 ? 0 : ends[I == 0 ? 0 : I - 1]),
                                           order.begin() + ends[I]),
                      loc)...};
    }(std::make_index_sequence<N>());
}

/// Data sets of one kind, one after the other.
template <Dataset D>
class ConcatDataset {
public:
    /// Of these, in this order.
    explicit ConcatDataset(std::vector<D> datasets) : datasets_(std::move(datasets)) {
        for (const D &dataset : datasets_)
            ends_.push_back(size() + static_cast<int64_t>(dataset.size()));
    }

    /// The sum of the sizes.
    int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
    /// Example `index` of all.
    ExampleOf<D> get(int64_t index, Generator &generator) const {
        detail::check_index(index, size(), "ConcatDataset", {});
        const auto which =
            static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
        return detail::get(datasets_[which], index - (which == 0 ? 0 : ends_[which - 1]), generator);
    }
    /// The same of sets without random examples.
    ExampleOf<D> get(int64_t index) const
        requires detail::HasGet<D>
    {
        Generator unused;
        return get(index, unused);
    }

private:
    std::vector<D> datasets_;
    std::vector<int64_t> ends_;
};

/// A data set whose examples go through a function: `map(set, [](auto example) { ... })`. Of a function that
/// takes a Generator, too (`[](auto example, Generator &generator)`), the generator is the example's own.
/// Loaders call it in their workers' threads.
template <class D, class F>
class MappedDataset {
public:
    /// See `map`.
    MappedDataset(D dataset, F function) : dataset_(std::move(dataset)), function_(std::move(function)) {}

    /// As the set's.
    int64_t size() const { return static_cast<int64_t>(dataset_.size()); }
    /// f of the set's example.
    auto get(int64_t index, Generator &generator) const {
        auto example = detail::get(dataset_, index, generator);
        if constexpr (std::is_invocable_v<const F &, decltype(example), Generator &>)
            return function_(std::move(example), generator);
        else
            return function_(std::move(example));
    }
    /// The same without random numbers.
    auto get(int64_t index) const
        requires(detail::HasGet<D> &&
                 std::is_invocable_v<const F &, decltype(std::declval<const D &>().get(int64_t{}))>)
    {
        return function_(dataset_.get(index));
    }

private:
    D dataset_;
    F function_;
};

/// Each example of the data set through `function`.
template <Dataset D, class F>
MappedDataset<D, F> map(D dataset, F function) {
    return {std::move(dataset), std::move(function)};
}

} // namespace lz::data
