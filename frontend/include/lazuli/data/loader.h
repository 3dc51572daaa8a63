#pragma once
/// DataLoader: batches of a data set, as a range.

#include "lazuli/data/dataset.h"
#include "lazuli/data/sampler.h"

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <iterator>
#include <mutex>
#include <string>
#include <tuple>
#include <type_traits>

namespace lz::data {

/// What a data set or a collate function threw, where the batch is taken.
class LZ_API DataLoaderError : public Error {
public:
    /// `index`: of the example; -1 where it was not one example that failed.
    DataLoaderError(const std::string &message, int64_t batch, int64_t index, std::exception_ptr cause,
                    Location loc);
    ~DataLoaderError() override;
    /// The number of the batch in the epoch, from 0.
    int64_t batch() const noexcept { return batch_; }
    /// The index of the example in the data set; -1 where it was not one example that failed.
    int64_t index() const noexcept { return index_; }
    /// Throws what was thrown.
    [[noreturn]] void rethrow_cause() const { std::rethrow_exception(cause_); }

private:
    int64_t batch_, index_;
    std::exception_ptr cause_;
};

struct DataLoaderOptions;

namespace detail {

/// A field of DataLoaderOptions, the `place`-th, which can be called, too: `options.batch_size(64)` sets it
/// and gives the options, of which it is a part; `options.batch_size()` is the value.
template <class T, int place>
class LoaderField {
public:
    /// This value.
    constexpr LoaderField(T value) : value_(value) {} // NOLINT: converts
    /// The value.
    constexpr operator T() const { return value_; } // NOLINT: converts
    /// The value.
    constexpr T operator()() const { return value_; }
    /// Sets it. Returns the options.
    DataLoaderOptions &operator()(T value);
    /// Sets a number of seconds. Returns the options.
    template <class Rep, class Period>
        requires std::is_floating_point_v<T>
    DataLoaderOptions &operator()(std::chrono::duration<Rep, Period> time) {
        return (*this)(std::chrono::duration<T>(time).count());
    }

private:
    T value_;
};

} // namespace detail

/// How batches are made. Written as `{.batch_size = 64, .num_workers = 2}`, or as in LibTorch:
/// `DataLoaderOptions().batch_size(64).workers(2)`, `DataLoaderOptions(64)`.
struct DataLoaderOptions {
    /// Examples in a batch.
    detail::LoaderField<int64_t, 0> batch_size = 1;
    /// A new random order in each epoch.
    detail::LoaderField<bool, 1> shuffle = false;
    /// Leave out a last batch that is smaller.
    detail::LoaderField<bool, 2> drop_last = false;
    /// Threads that make batches; 0: the thread that takes them. The batches and their order are the same.
    detail::LoaderField<int, 3> num_workers = 0;
    /// How many batches each worker may be ahead.
    detail::LoaderField<int, 4> prefetch_factor = 2;
    /// How many batches all workers together may be ahead; 0: as many as `prefetch_factor` says.
    detail::LoaderField<int64_t, 7> max_jobs = 0;
    /// Batches in page-locked memory, from which copies to a GPU overlap with its work; nothing where there
    /// is no GPU.
    detail::LoaderField<bool, 5> pin_memory = false;
    /// Where the batches are put, by the workers; where the data set has them unless given.
    OptionalDevice device = std::nullopt;
    /// Seconds to wait for a batch before StateError is thrown; 0: for ever. With it, a worker that never
    /// ends is left behind when the loop ends.
    detail::LoaderField<double, 6> timeout = 0;
    /// Whose random numbers order the examples; the default generator's unless given. It must live as long as
    /// the loader.
    Generator *generator = nullptr;
    /// In place of `shuffle`.
    std::shared_ptr<Sampler> sampler = nullptr;
    /// In place of `batch_size`, `shuffle`, `sampler` and `drop_last`.
    std::shared_ptr<BatchSampler> batch_sampler = nullptr;

    /// LibTorch's name of `num_workers`.
    DataLoaderOptions &workers(int count) { return num_workers(count); }
    /// The same.
    int workers() const { return num_workers; }
    /// Batches come in order, always.
    DataLoaderOptions &enforce_ordering(bool) { return *this; }
};

namespace detail {

template <class T, int place>
DataLoaderOptions &LoaderField<T, place>::operator()(T value) {
    static_assert(std::is_standard_layout_v<DataLoaderOptions>);
    constexpr size_t kOffsets[] = {
        offsetof(DataLoaderOptions, batch_size),      offsetof(DataLoaderOptions, shuffle),
        offsetof(DataLoaderOptions, drop_last),       offsetof(DataLoaderOptions, num_workers),
        offsetof(DataLoaderOptions, prefetch_factor), offsetof(DataLoaderOptions, pin_memory),
        offsetof(DataLoaderOptions, timeout),         offsetof(DataLoaderOptions, max_jobs)};
    value_ = value;
    return *reinterpret_cast<DataLoaderOptions *>(reinterpret_cast<uintptr_t>(this) - // NOLINT
                                                  kOffsets[place]);
}

/// One epoch: makes batches in order, in threads of its own, no further ahead than allowed.
class LZ_API Epoch {
public:
    /// Makes batch `number`; null where there is no more.
    using Make = std::function<std::shared_ptr<void>(int64_t number)>;
    /// `pull`, if there is one, is called in the order of the batches by one thread at a time, just before
    /// `make` of the same number: false is the end.
    using Pull = std::function<bool(int64_t number)>;

    /// Starts the workers. `batches` -1: until `pull` is false.
    Epoch(const DataLoaderOptions &options, int64_t batches, Make make, Pull pull, Location loc);
    Epoch(const Epoch &) = delete;
    Epoch &operator=(const Epoch &) = delete;
    ~Epoch();
    /// The next batch, null at the end.
    std::shared_ptr<void> next();

private:
    struct State;
    std::shared_ptr<State> state_; ///< a worker that is left behind has it, too
};

LZ_API void check_options(const DataLoaderOptions &options, bool stream, Location loc);
LZ_API std::shared_ptr<BatchSampler> batch_sampler_of(const DataLoaderOptions &options, int64_t size,
                                                      Location loc);
/// Seeds of the generators of an epoch's examples.
LZ_API uint64_t epoch_seed(Generator &generator);
LZ_API uint64_t example_seed(uint64_t epoch, int64_t index);
LZ_API Tensor stack_examples(std::span<const Tensor> examples, Location loc);
/// On the device and in the memory that the options say, computed.
LZ_API void place(std::span<Tensor *const> tensors, const DataLoaderOptions &options, Location loc);
/// Throws what is being handled as a DataLoaderError.
[[noreturn]] LZ_API void rethrow_from(int64_t batch, int64_t index, Location loc);

template <class T>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool is_tuple<std::pair<A, B>> = true;
template <class T>
inline constexpr bool is_array = false;
template <class T, size_t N>
inline constexpr bool is_array<std::array<T, N>> = true;
template <class T>
inline constexpr bool is_example = false;
template <class D, class T>
inline constexpr bool is_example<Example<D, T>> = true;
template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;

template <class T>
void find_tensors(T &in, std::vector<Tensor *> &out) {
    if constexpr (std::is_same_v<T, Tensor>) {
        out.push_back(&in);
    } else if constexpr (is_tuple<T> || is_array<T>) {
        std::apply([&](auto &...part) { (find_tensors(part, out), ...); }, in);
    } else if constexpr (is_example<T>) {
        find_tensors(in.data, out);
        if constexpr (requires { in.target; })
            find_tensors(in.target, out);
    } else if constexpr (is_vector<T> && !std::is_same_v<T, std::vector<bool>>) {
        for (auto &part : in)
            find_tensors(part, out);
    }
}

} // namespace detail

/// What loaders do with the examples of a batch unless told otherwise: tensors are stacked, numbers become a
/// tensor, arrays, pairs, tuples and Example become the same of batches, and all else a std::vector.
struct DefaultCollate {
    /// Throws ShapeError for tensors of different shapes, DTypeError for different dtypes.
    template <class T>
    auto operator()(std::vector<T> examples) const {
        if constexpr (std::is_same_v<T, Tensor>) {
            return detail::stack_examples(examples, {});
        } else if constexpr (Element<T>) {
            return tensor(examples, {.device = Device::cpu()});
        } else if constexpr (detail::is_array<T>) {
            std::array<decltype((*this)(std::vector<typename T::value_type>())), std::tuple_size_v<T>> out;
            for (size_t i = 0; i < out.size(); ++i)
                out[i] = column(examples, [i](T &example) { return std::move(example[i]); });
            return out;
        } else if constexpr (detail::is_tuple<T>) {
            return [&]<size_t... I>(std::index_sequence<I...>) {
                return tuple_of<T>(column(examples, [](T &e) { return std::move(std::get<I>(e)); })...);
            }(std::make_index_sequence<std::tuple_size_v<T>>());
        } else if constexpr (detail::is_example<T>) {
            auto data = column(examples, [](T &e) { return std::move(e.data); });
            if constexpr (!requires(T &e) { e.target; })
                return Example<decltype(data), example::NoTarget>(std::move(data));
            else {
                auto target = column(examples, [](T &e) { return std::move(e.target); });
                return Example<decltype(data), decltype(target)>{std::move(data), std::move(target)};
            }
        } else {
            return examples;
        }
    }

private:
    template <class T, class F>
    auto column(std::vector<T> &examples, F &&part) const {
        std::vector<decltype(part(examples[0]))> parts;
        parts.reserve(examples.size());
        for (T &example : examples)
            parts.push_back(part(example));
        return (*this)(std::move(parts));
    }
    template <class T, class... Parts>
    static auto tuple_of(Parts... parts) {
        if constexpr (requires(T t) { t.first; })
            return std::pair<Parts...>(std::move(parts)...);
        else
            return std::tuple<Parts...>(std::move(parts)...);
    }
};

/// Batches of a data set, one epoch each time it is iterated:
///
///     data::DataLoader loader(set, {.batch_size = 64, .shuffle = true, .num_workers = 2});
///     for (auto [x, y] : loader) { ... }
///
/// Batches have been computed when they arrive. The order depends on the sampler and the generator alone, not
/// on the number of workers. What the data set or `collate` throws is thrown where the batch is taken, as
/// DataLoaderError, and ends the epoch. Leaving the loop early ends the workers, after the example that each
/// is at. The loader may be destroyed while a loop over it runs.
///
/// History is kept for backward as the thread that begins the loop keeps it (S70), for any number of workers:
/// where an example is computed from what requires grad, so is its batch. Under NoGradGuard none is.
///
/// Data sets, transforms and collate functions may record and compute on the workers' threads, each of which
/// launches what it recorded before it hands a batch over; which thread recorded an operation makes no
/// difference (S28). They begin with the process's settings: guards of the thread that loops (DeviceGuard,
/// StreamGuard, AutocastGuard, defaults) do not reach them, but for the mode of gradients. What they share
/// they may read; parameters that the loop changes meanwhile they may not: that takes `num_workers` 0.
template <class D, class Collate = DefaultCollate>
    requires(Dataset<D> || StreamDataset<D>)
class DataLoader {
    static constexpr bool kStream = !Dataset<D>;
    static constexpr bool kWhole = std::is_same_v<Collate, DefaultCollate> &&
                                   requires(const D &d, std::span<const int64_t> i) { d.get_batch(i); };

    static auto example_type() {
        if constexpr (kStream)
            return std::type_identity<std::remove_cvref_t<decltype(*std::declval<D &>().next())>>();
        else
            return std::type_identity<ExampleOf<D>>();
    }
    static auto batch_type() {
        if constexpr (kWhole)
            return std::type_identity<decltype(std::declval<const D &>().get_batch(
                std::span<const int64_t>()))>();
        else
            return std::type_identity<decltype(std::declval<const Collate &>()(
                std::vector<typename decltype(example_type())::type>()))>();
    }

public:
    /// What the data set gives.
    using ExampleType = typename decltype(example_type())::type;
    /// What the loop gets.
    using Batch = typename decltype(batch_type())::type;

    /// Throws IndexError for a batch size, a number of workers, a prefetch factor or a timeout that cannot
    /// be, and StateError for options that exclude each other.
    explicit DataLoader(D dataset, const DataLoaderOptions &options = {}, Collate collate = {},
                        Location loc = Location::current())
        : dataset_(std::make_shared<D>(std::move(dataset))), options_(options), collate_(std::move(collate)),
          loc_(loc) {
        detail::check_options(options_, kStream, loc);
        if constexpr (!kStream)
            sampler_ = detail::batch_sampler_of(options_, static_cast<int64_t>(dataset_->size()), loc);
    }

    /// How many batches an epoch has.
    int64_t size() const
        requires(!kStream)
    {
        return sampler_->size();
    }
    /// The data set.
    const D &dataset() const { return *dataset_; }

    /// A place in an epoch.
    class Iterator {
    public:
        /// What the loop gets.
        using value_type = Batch;
        /// Unused: one way only.
        using difference_type = std::ptrdiff_t;
        /// The batch.
        Batch &operator*() const { return *batch_; }
        /// The batch.
        Batch *operator->() const { return batch_.get(); }
        /// Takes the next one; waits for it.
        Iterator &operator++() {
            batch_.reset();
            batch_ = std::static_pointer_cast<Batch>(epoch_->next());
            return *this;
        }
        /// The same.
        void operator++(int) { ++*this; }
        friend bool operator==(const Iterator &at, std::default_sentinel_t) { return !at.batch_; }

    private:
        friend DataLoader;
        explicit Iterator(std::shared_ptr<detail::Epoch> epoch) : epoch_(std::move(epoch)) { ++*this; }
        std::shared_ptr<detail::Epoch> epoch_;
        std::shared_ptr<Batch> batch_;
    };

    /// Starts an epoch, and waits for its first batch.
    Iterator begin() {
        if constexpr (kStream)
            return Iterator(stream_epoch());
        else
            return Iterator(map_epoch(options_.generator ? *options_.generator : default_generator()));
    }
    /// The end of each epoch.
    std::default_sentinel_t end() const { return {}; }

private:
    static std::shared_ptr<void> placed(Batch made, const DataLoaderOptions &options, Location loc) {
        auto batch = std::make_shared<Batch>(std::move(made));
        std::vector<Tensor *> tensors;
        detail::find_tensors(*batch, tensors);
        detail::place(tensors, options, loc);
        return batch;
    }

    /// What an epoch's workers need. Not the loader: a worker that never ends may outlive it.
    struct Plan {
        std::vector<std::vector<int64_t>> batches;
        uint64_t seed;
        std::shared_ptr<const D> dataset;
        DataLoaderOptions options;
        Collate collate;
        Location loc;

        std::shared_ptr<void> make(int64_t number) const {
            const std::vector<int64_t> &indices = batches[static_cast<size_t>(number)];
            int64_t at = -1;
            try {
                if constexpr (kWhole) {
                    return placed(dataset->get_batch(std::span<const int64_t>(indices)), options, loc);
                } else {
                    std::vector<ExampleType> examples;
                    examples.reserve(indices.size());
                    for (const int64_t index : indices) {
                        at = index;
                        Generator own(detail::example_seed(seed, index));
                        examples.push_back(detail::get(*dataset, index, own));
                    }
                    at = -1;
                    return placed(collate(std::move(examples)), options, loc);
                }
            } catch (...) {
                detail::rethrow_from(number, at, loc);
            }
        }
    };

    std::shared_ptr<detail::Epoch> map_epoch(Generator &generator) {
        std::vector<std::vector<int64_t>> batches = sampler_->batches(generator);
        const auto count = static_cast<int64_t>(batches.size());
        auto plan = std::make_shared<const Plan>(
            Plan{std::move(batches), detail::epoch_seed(generator), dataset_, options_, collate_, loc_});
        return std::make_shared<detail::Epoch>(
            options_, count, [plan](int64_t number) { return plan->make(number); }, nullptr, loc_);
    }

    std::shared_ptr<detail::Epoch> stream_epoch() {
        struct Pulled {
            std::mutex mutex;
            std::vector<std::pair<int64_t, std::vector<ExampleType>>> batches;
        };
        dataset_->reset();
        auto pulled = std::make_shared<Pulled>();
        auto pull = [pulled, dataset = dataset_, options = options_, loc = loc_](int64_t number) {
            std::vector<ExampleType> examples;
            try {
                while (static_cast<int64_t>(examples.size()) < options.batch_size) {
                    auto example = dataset->next();
                    if (!example)
                        break;
                    examples.push_back(std::move(*example));
                }
            } catch (...) {
                detail::rethrow_from(number, -1, loc);
            }
            if (examples.empty() ||
                (options.drop_last && static_cast<int64_t>(examples.size()) < options.batch_size))
                return false;
            const std::lock_guard lock(pulled->mutex);
            pulled->batches.emplace_back(number, std::move(examples));
            return true;
        };
        auto make = [pulled, options = options_, collate = collate_,
                     loc = loc_](int64_t number) -> std::shared_ptr<void> {
            std::vector<ExampleType> examples;
            {
                const std::lock_guard lock(pulled->mutex);
                const auto at = std::find_if(pulled->batches.begin(), pulled->batches.end(),
                                             [&](const auto &batch) { return batch.first == number; });
                examples = std::move(at->second);
                pulled->batches.erase(at);
            }
            try {
                return placed(collate(std::move(examples)), options, loc);
            } catch (...) {
                detail::rethrow_from(number, -1, loc);
            }
        };
        return std::make_shared<detail::Epoch>(options_, -1, std::move(make), std::move(pull), loc_);
    }

    std::shared_ptr<D> dataset_;
    DataLoaderOptions options_;
    Collate collate_;
    std::shared_ptr<BatchSampler> sampler_;
    Location loc_;
};
template <class D>
DataLoader(D, const DataLoaderOptions & = {}) -> DataLoader<D>;
template <class D, class C>
DataLoader(D, const DataLoaderOptions &, C, Location = {}) -> DataLoader<D, C>;

} // namespace lz::data
