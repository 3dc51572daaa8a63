#pragma once
/// One module on several GPUs, each with a part of the batch:
///
///     Net net;
///     net->to("cuda:0");
///     lz::nn::DataParallel parallel(net, lz::try_all_gpus());
///     lz::Tensor y = parallel(x); // as net(x)
///
/// Parameters stay on the first device, and so do their gradients and the optimizer. In each forward the
/// others get a copy, which backward goes through: their gradients are added up where the parameters are, in
/// the order of the devices. All of it is recorded, so that one program runs on all devices at the same time
/// and gradients travel while others are still computed.

#include "lazuli/device/cuda.h"
#include "lazuli/device/device.h"
#include "lazuli/device/stream.h"
#include "lazuli/nn/functional_call.h"

#include <array>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace lz {
namespace nn {

namespace detail {

/// Rows of a batch.
struct BatchPart {
    int64_t start = 0;  ///< the first one
    int64_t length = 0; ///< how many
};

/// The devices with their indices; all GPUs, or the CPU, where none are given. Throws StateError for no
/// device, DeviceError for one that is given twice or is not there.
LZ_API std::vector<Device> parallel_devices(const std::optional<std::vector<Device>> &devices, Location loc);
/// One forward on several devices: parts of the batch, and what stands for the parameters on each device. Not
/// a template, so that what it does is not compiled by everyone who includes this.
class LZ_API ParallelForward {
public:
    /// Contiguous parts for the first devices, whose lengths differ by one at most, none of them empty; and
    /// parameters and buffers for each of these devices, with histories that lead back to those of the
    /// module. Gradients are added up on a stream of their own of the first device, `sums`, made where there
    /// is something to add, so that they do not hold up what is still computed there. Throws DeviceError for
    /// a parameter or buffer that is not on the first device, ShapeError for tensors of different extents
    /// along `dim`, StateError where no tensor has that axis.
    ParallelForward(const Module &module, const std::vector<Device> &devices,
                    const std::vector<const Tensor *> &inputs, int64_t dim,
                    std::shared_ptr<const Stream> &sums, Location loc);
    ~ParallelForward();
    ParallelForward(const ParallelForward &) = delete;
    ParallelForward &operator=(const ParallelForward &) = delete;

    /// How many parts there are.
    size_t size() const { return parts_.size(); }
    /// The rows of one.
    const BatchPart &part(size_t i) const { return parts_[i]; }
    /// What stands for the parameters on its device.
    const StateDict &replica(size_t i) const;

private:
    std::vector<BatchPart> parts_;
    std::vector<StateDict> replicas_;
};
/// A part of the rows on a device; a 0-dim tensor as a whole.
LZ_API Tensor part_of(const Tensor &input, const BatchPart &part, int64_t dim, const Device &device,
                      Location loc);
/// Results one after the other on a device; numbers become a vector.
LZ_API Tensor gathered(std::span<const Tensor> results, int64_t dim, const Device &device, Location loc);

template <class T>
inline constexpr bool is_sequence = false;
template <class T, class A>
inline constexpr bool is_sequence<std::vector<T, A>> = true;
template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; };

/// f(tensor) for all tensors of an argument: itself, or those in vectors, arrays, pairs and tuples.
template <class T, class F>
void each_tensor(const T &in, F &&f) {
    if constexpr (std::is_convertible_v<const T &, const Tensor &>) {
        f(static_cast<const Tensor &>(in));
    } else if constexpr (is_sequence<T>) {
        for (const auto &part : in)
            each_tensor(part, f);
    } else if constexpr (TupleLike<T>) {
        std::apply([&](const auto &...part) { (each_tensor(part, f), ...); }, in);
    }
}

/// The same argument with f(tensor) in place of each tensor.
template <class T, class F>
T with_tensors(const T &in, F &&f) {
    if constexpr (std::is_same_v<T, Tensor>) {
        return in.defined() ? f(in) : in;
    } else if constexpr (is_sequence<T>) {
        T out;
        out.reserve(in.size());
        for (const auto &part : in)
            out.push_back(with_tensors(part, f));
        return out;
    } else if constexpr (TupleLike<T>) {
        return std::apply([&](const auto &...part) { return T{with_tensors(part, f)...}; }, in);
    } else {
        return in;
    }
}

/// One result of several.
template <class T>
T gather_results(std::span<const T> results, int64_t dim, const Device &device, Location loc) {
    const auto column = [&](auto &&part) {
        std::vector<std::remove_cvref_t<decltype(part(results[0]))>> parts;
        for (const T &result : results)
            parts.push_back(part(result));
        return gather_results<typename decltype(parts)::value_type>(parts, dim, device, loc);
    };
    if constexpr (std::is_same_v<T, Tensor>) {
        return gathered(results, dim, device, loc);
    } else if constexpr (is_sequence<T>) {
        T out;
        for (size_t i = 0; i < results[0].size(); ++i)
            out.push_back(column([i](const T &result) { return result.at(i); }));
        return out;
    } else {
        static_assert(TupleLike<T>, "a module of a DataParallel gives tensors, or vectors, arrays, pairs or "
                                    "tuples of tensors");
        return [&]<size_t... I>(std::index_sequence<I...>) {
            return T{column([](const T &result) { return std::get<I>(result); })...};
        }(std::make_index_sequence<std::tuple_size_v<T>>());
    }
}

} // namespace detail

/// A module of class M on several devices. See DataParallel.
template <class M>
class DataParallelImpl : public Module {
public:
    /// See DataParallel.
    explicit DataParallelImpl(std::shared_ptr<M> module,
                              const std::optional<std::vector<Device>> &devices = std::nullopt,
                              const OptionalDevice &output_device = std::nullopt, int64_t dim = 0,
                              Location loc = Location::current())
        : Module("DataParallel"), devices_(detail::parallel_devices(devices, loc)),
          output_device_(output_device.value_or(devices_[0])), dim_(dim),
          module_(register_module("module", std::move(module), loc)) {}

    /// The parts of the arguments through the module on the devices; the results one after the other. Tensors
    /// (in vectors, arrays, pairs and tuples, too) are parted along `dim`, those of 0 axes and everything
    /// else go to each device. A batch smaller than the number of devices uses the first ones. Throws
    /// DeviceError for parameters that are not on the first device, ShapeError for tensors of different batch
    /// sizes.
    template <class A>
    auto forward(const A &a, Location loc = Location::current()) {
        return run(loc, a);
    }
    /// The same of two arguments.
    template <class A, class B>
        requires(!std::same_as<B, Location>)
    auto forward(const A &a, const B &b, Location loc = Location::current()) {
        return run(loc, a, b);
    }
    /// The same of three arguments.
    template <class A, class B, class C>
        requires(!std::same_as<C, Location>)
    auto forward(const A &a, const B &b, const C &c, Location loc = Location::current()) {
        return run(loc, a, b, c);
    }
    /// The same of four arguments.
    template <class A, class B, class C, class D>
        requires(!std::same_as<D, Location>)
    auto forward(const A &a, const B &b, const C &c, const D &d, Location loc = Location::current()) {
        return run(loc, a, b, c, d);
    }

    /// The module itself.
    const std::shared_ptr<M> &module() const { return module_; }
    /// The devices, with their indices.
    const std::vector<Device> &devices() const { return devices_; }

private:
    template <class... A>
    auto run(Location loc, const A &...arguments) {
        std::vector<const Tensor *> inputs;
        (detail::each_tensor(arguments, [&](const Tensor &x) { inputs.push_back(&x); }), ...);
        const detail::ParallelForward forward(*module_, devices_, inputs, dim_, sums_, loc);
        using Result = decltype(call_module(
            *module_, loc, detail::with_tensors(arguments, [](const Tensor &x) { return x; })...));
        std::vector<Result> results;
        for (size_t i = 0; i < forward.size(); ++i) {
            const cuda::DeviceGuard guard(devices_[i], loc);
            const ParameterScope scope(*module_, forward.replica(i), loc);
            const auto part = [&](const Tensor &x) {
                return detail::part_of(x, forward.part(i), dim_, devices_[i], loc);
            };
            results.push_back(call_module(*module_, loc, detail::with_tensors(arguments, part)...));
        }
        return detail::gather_results<Result>(results, dim_, output_device_, loc);
    }

    std::vector<Device> devices_;
    Device output_device_;
    int64_t dim_;
    std::shared_ptr<M> module_;
    std::shared_ptr<const Stream> sums_; ///< where gradients are added up, once there is something to add
};

/// Holds a DataParallelImpl: `DataParallel parallel(net, {"cuda:0", "cuda:1"})`. The module may be of any
/// class whose forward takes and gives tensors; it stays shared, and its parameters have the names that they
/// have in PyTorch (`module.fc1.weight`).
template <class M>
class DataParallel : public ModuleHolder<DataParallelImpl<M>> {
public:
    using ModuleHolder<DataParallelImpl<M>>::ModuleHolder;
    /// `devices`: all GPUs unless given (the CPU where there is none); the first one has the parameters.
    /// Results are gathered on `output_device`, the first device unless given; the batch is axis `dim`.
    /// Throws StateError for no device, DeviceError for one that is given twice or is not there.
    explicit DataParallel(const ModuleHolder<M> &module,
                          const std::optional<std::vector<Device>> &devices = std::nullopt,
                          const OptionalDevice &output_device = std::nullopt, int64_t dim = 0,
                          Location loc = Location::current())
        : DataParallel(module.ptr(), devices, output_device, dim, loc) {}
    /// Of devices that are written there: `DataParallel parallel(net, {"cuda:0", "cuda:1"})`.
    explicit DataParallel(const ModuleHolder<M> &module, std::initializer_list<Device> devices,
                          const OptionalDevice &output_device = std::nullopt, int64_t dim = 0,
                          Location loc = Location::current())
        : DataParallel(module.ptr(), std::vector<Device>(devices), output_device, dim, loc) {}
    /// The same of a shared module.
    explicit DataParallel(std::shared_ptr<M> module,
                          const std::optional<std::vector<Device>> &devices = std::nullopt,
                          const OptionalDevice &output_device = std::nullopt, int64_t dim = 0,
                          Location loc = Location::current())
        : ModuleHolder<DataParallelImpl<M>>(
              std::make_shared<DataParallelImpl<M>>(std::move(module), devices, output_device, dim, loc)) {}
};
template <class Holder, class... More>
    requires requires { typename Holder::ContainedType; }
DataParallel(const Holder &, More &&...) -> DataParallel<typename Holder::ContainedType>;
template <class Holder>
    requires requires { typename Holder::ContainedType; }
DataParallel(const Holder &, std::initializer_list<Device>) -> DataParallel<typename Holder::ContainedType>;

namespace parallel {

/// One forward of a module on several devices, as LibTorch's function of this name. Throws as DataParallel.
template <class M>
auto data_parallel(const ModuleHolder<M> &module, const Tensor &input,
                   const std::optional<std::vector<Device>> &devices = std::nullopt,
                   const OptionalDevice &output_device = std::nullopt, int64_t dim = 0,
                   Location loc = Location::current()) {
    return DataParallelImpl<M>(module.ptr(), devices, output_device, dim, loc).forward(input, loc);
}

} // namespace parallel

} // namespace nn
} // namespace lz
