// Modules whose parameters are elsewhere for a moment, and on several devices.
#include "lazuli/nn/data_parallel.h"

#include "lazuli/autograd/function.h"
#include "lazuli/autograd/swap.h"
#include "lazuli/lazuli.h"

#include <fmt/format.h>

#include <algorithm>
#include <typeinfo>

namespace lz::nn {

ParameterScope::ParameterScope(Module &module, const StateDict &tensors, Location loc) {
    if (tensors.empty())
        return;
    OrderedDict<Tensor> own = module.named_parameters();
    for (auto &[name, buffer] : module.named_buffers())
        own.insert(name, buffer);
    std::string unknown;
    for (const auto &[name, tensor] : tensors) {
        if (!own.contains(name))
            unknown += (unknown.empty() ? "\"" : ", \"") + name + '"';
        else if (!tensor.defined())
            throw StateError("functional_call: the tensor that is to stand for \"" + name + "\" is empty",
                             loc);
    }
    if (!unknown.empty())
        throw StateError("functional_call: " + module.name() + " has no parameter or buffer " + unknown, loc);
    exchanged_.reserve(tensors.size());
    for (const auto &[name, tensor] : tensors)
        exchanged_.emplace_back(own.at(name),
                                tensor.same_tensor(own.at(name)) ? Tensor() : autograd::alias(tensor, loc));
    for (auto &[mine, other] : exchanged_)
        if (other.defined())
            swap_tensors(mine, other, loc);
}

ParameterScope::~ParameterScope() {
    for (auto at = exchanged_.rbegin(); at != exchanged_.rend(); ++at)
        if (at->second.defined())
            swap_tensors(at->first, at->second);
}

NamedTensors::NamedTensors(const StateDict &tensors, Location loc) : tensors_(&tensors), loc_(loc) {}
NamedTensors::NamedTensors(std::initializer_list<StateDict::Item> tensors, Location loc)
    : own_(std::in_place, tensors, loc), tensors_(&*own_), loc_(loc) {}
NamedTensors::~NamedTensors() = default;

namespace detail {

std::vector<Device> parallel_devices(const std::optional<std::vector<Device>> &devices, Location loc) {
    std::vector<Device> out = devices ? *devices : try_all_gpus();
    if (out.empty())
        throw StateError("DataParallel: no devices are given; leave them out for all GPUs", loc);
    for (size_t i = 0; i < out.size(); ++i) {
        if (out[i].is_cuda() && out[i].index() < 0)
            out[i] = Device::cuda(cuda::current_device());
        const cuda::DeviceGuard there(out[i], loc); // throws for one that is not there
        if (std::find(out.begin(), out.begin() + static_cast<ptrdiff_t>(i), out[i]) !=
            out.begin() + static_cast<ptrdiff_t>(i))
            throw DeviceError(
                "DataParallel: " + out[i].str() + " is given twice; a device takes one part of a batch", loc);
    }
    return out;
}

namespace {

/// See ParallelForward.
std::vector<BatchPart> batch_parts(std::span<const Tensor *const> inputs, size_t devices, int64_t dim,
                                   Location loc) {
    int64_t rows = -1;
    std::string found;
    bool differ = false;
    for (const Tensor *const input : inputs) {
        if (!input->defined() || input->dim() == 0)
            continue;
        const int64_t extent = input->size(dim, loc);
        found += (found.empty() ? "" : ", ") + std::to_string(extent);
        differ = differ || (rows >= 0 && extent != rows);
        rows = extent;
    }
    if (rows < 0)
        throw StateError("DataParallel: no argument is a tensor with a batch to divide", loc);
    if (differ)
        throw ShapeError(fmt::format("DataParallel: the arguments have batches of {} rows along axis {}; all "
                                     "tensors have to have as many",
                                     found, dim),
                         loc);
    std::vector<BatchPart> parts;
    const int64_t count = std::clamp<int64_t>(rows, 1, static_cast<int64_t>(devices));
    for (int64_t i = 0, start = 0; i < count; ++i) {
        const int64_t length = rows / count + (i < rows % count ? 1 : 0);
        parts.push_back({start, length});
        start += length;
    }
    return parts;
}

/// Throws DeviceError for a parameter or buffer that is elsewhere.
void check_on(const Module &module, const Device &device, Location loc) {
    const auto check = [&](const OrderedDict<Tensor> &tensors, const char *what) {
        for (const auto &[name, tensor] : tensors)
            if (tensor.device() != device)
                throw DeviceError(fmt::format("DataParallel: {} {} is on {}, and the module has to be on the "
                                              "first device, {}; call module->to(\"{}\")",
                                              what, name, tensor.device().str(), device.str(), device.str()),
                                  loc);
    };
    check(module.named_parameters(), "parameter");
    check(module.named_buffers(), "buffer");
}

/// Its name in messages.
struct Broadcast {};

/// A parameter on several devices, the first of which it is on. Its gradient is the sum of theirs, in the
/// order of the devices, on the stream `sums`: by the rules of `to` the sum would be fused with the kernel
/// that computes the first device's gradient, and all that comes after that kernel would wait for the other
/// devices.
std::vector<Tensor> broadcast(const Tensor &parameter, std::span<const Device> devices,
                              const std::shared_ptr<const Stream> &sums, Location loc) {
    const auto context = std::make_shared<autograd::AutogradContext>();
    context->set_materialize_grads(false);
    const auto forward = [&] {
        std::vector<Tensor> copies;
        for (const Device &device : devices)
            copies.push_back(parameter.to(device, loc));
        return copies;
    };
    const auto backward = [sums, loc](autograd::AutogradContext *, std::vector<Tensor> gradients) {
        std::optional<StreamGuard> guard;
        if (sums)
            guard.emplace(*sums);
        Tensor sum;
        for (const Tensor &gradient : gradients)
            if (gradient.defined())
                sum = sum.defined() ? Operand(sum, loc) + gradient.to(sum.device(), loc) : gradient;
        return std::vector<Tensor>{sum};
    };
    return lz::detail::apply_function(context, {parameter}, forward, backward, typeid(Broadcast), loc);
}

/// By device: see ParallelForward.
std::vector<StateDict> replicas(const Module &module, std::span<const Device> devices,
                                const std::shared_ptr<const Stream> &sums, Location loc) {
    std::vector<StateDict> out(devices.size());
    if (devices.size() == 1)
        return out;
    for (const auto &[name, parameter] : module.named_parameters()) {
        const std::vector<Tensor> copies = broadcast(parameter, devices, sums, loc);
        for (size_t i = 0; i < devices.size(); ++i)
            out[i].insert(name, copies[i]);
    }
    for (const auto &[name, buffer] : module.named_buffers())
        for (size_t i = 1; i < devices.size(); ++i)
            out[i].insert(name, buffer.to(devices[i], loc));
    return out;
}

} // namespace

ParallelForward::ParallelForward(const Module &module, const std::vector<Device> &devices,
                                 const std::vector<const Tensor *> &inputs, int64_t dim,
                                 std::shared_ptr<const Stream> &sums, Location loc) {
    check_on(module, devices[0], loc);
    parts_ = batch_parts(inputs, devices.size(), dim, loc);
    if (parts_.size() > 1 && devices[0].is_cuda() && !sums)
        sums = std::make_shared<const Stream>(devices[0], 0, loc);
    replicas_ = replicas(module, std::span(devices).first(parts_.size()), sums, loc);
}

ParallelForward::~ParallelForward() = default;

const StateDict &ParallelForward::replica(size_t i) const {
    return replicas_[i];
}

Tensor part_of(const Tensor &input, const BatchPart &part, int64_t dim, const Device &device, Location loc) {
    const CopyOptions beside{.non_blocking = true};
    if (input.dim() == 0)
        return input.to(device, beside, loc);
    if (part.length == input.size(dim))
        return input.to(device, beside, loc);
    return input.narrow(dim, part.start, part.length, loc).to(device, beside, loc);
}

Tensor gathered(std::span<const Tensor> results, int64_t dim, const Device &device, Location loc) {
    std::vector<Tensor> parts;
    for (const Tensor &result : results) {
        if (!result.defined())
            return {};
        const Tensor there = result.to(device, loc);
        parts.push_back(there.dim() == 0 && results.size() > 1 ? there.unsqueeze(0, loc) : there);
    }
    if (parts.size() == 1)
        return parts[0];
    return cat(parts, results[0].dim() == 0 ? 0 : dim, loc);
}

} // namespace detail
} // namespace lz::nn
