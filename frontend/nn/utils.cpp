#include "lazuli/nn/utils.h"

#include "lazuli/lazuli.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace lz::nn::utils {

namespace {

std::vector<Tensor> gradients_of(std::span<const Tensor> parameters, Location loc) {
    std::vector<Tensor> gradients;
    for (const Tensor &parameter : parameters)
        if (const Tensor &gradient = parameter.grad(loc); gradient.defined())
            gradients.push_back(gradient);
    return gradients;
}

/// Their elements in rows, in f32 at least: of those of up to so many elements, which take less time to copy
/// than to launch a kernel for (256 KiB at 100 GB/s), one row a device and dtype.
std::vector<Tensor> as_vectors(std::span<const Tensor> gradients, Location loc) {
    constexpr int64_t kSmall = 65536;
    std::vector<Tensor> rows;
    std::vector<std::vector<Tensor>> small;
    for (const Tensor &gradient : gradients) {
        const DType dtype = gradient.dtype(loc) == f64 ? f64 : f32;
        const Tensor row = gradient.to(dtype, loc).flatten(0, -1, loc);
        if (row.numel() > kSmall) {
            rows.push_back(row);
            continue;
        }
        const auto alike = std::ranges::find_if(small, [&](const std::vector<Tensor> &group) {
            return group[0].dtype() == dtype && group[0].device() == row.device();
        });
        if (alike == small.end())
            small.push_back({row});
        else
            alike->push_back(row);
    }
    for (const std::vector<Tensor> &group : small)
        rows.push_back(cat(group, 0, loc));
    return rows;
}

void check_bound(double bound, const char *function, const char *what, Location loc) {
    if (!(bound >= 0))
        throw StateError(fmt::format("{}: {} is {}; it is 0 or more", function, what, bound), loc);
}

} // namespace

Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite, Location loc) {
    check_bound(max_norm, "clip_grad_norm_", "max_norm", loc);
    const NoGradGuard no_grad;
    std::vector<Tensor> gradients = gradients_of(parameters, loc);
    if (gradients.empty())
        return zeros({}, {.device = Device::cpu()}, loc);
    const Device home = gradients[0].device(loc);
    std::vector<Tensor> norms;
    // The 0-norm counts gradients that are not all 0, as PyTorch's does: not their elements.
    for (const Tensor &vector : norm_type == 0 ? gradients : as_vectors(gradients, loc))
        norms.push_back(norm(vector, norm_type, {}, false, loc).to(home, loc));
    const Tensor total = norm(stack(norms, 0, loc), norm_type, {}, false, loc);
    if (error_if_nonfinite) {
        const auto value = total.item<double>(loc);
        if (!std::isfinite(value))
            throw StateError(fmt::format("clip_grad_norm_: the norm of the gradients is {}; they cannot be "
                                         "clipped to {}",
                                         value, max_norm),
                             loc);
    }
    const Tensor factor = minimum(div(max_norm, add(total, 1e-6, loc), loc), 1, loc);
    for (Tensor &gradient : gradients)
        gradient.mul_(factor.to(gradient.device(), loc), loc);
    return total;
}

Tensor clip_grad_norm_(const std::vector<Tensor> &parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite, Location loc) {
    return clip_grad_norm_(std::span(parameters), max_norm, norm_type, error_if_nonfinite, loc);
}
Tensor clip_grad_norm_(const Tensor &parameter, double max_norm, double norm_type, bool error_if_nonfinite,
                       Location loc) {
    return clip_grad_norm_(std::span(&parameter, 1), max_norm, norm_type, error_if_nonfinite, loc);
}

void clip_grad_value_(std::span<const Tensor> parameters, double clip_value, Location loc) {
    check_bound(clip_value, "clip_grad_value_", "clip_value", loc);
    const NoGradGuard no_grad;
    for (Tensor &gradient : gradients_of(parameters, loc))
        gradient.clamp_(Scalar(-clip_value), Scalar(clip_value), loc);
}

void clip_grad_value_(const std::vector<Tensor> &parameters, double clip_value, Location loc) {
    clip_grad_value_(std::span(parameters), clip_value, loc);
}
void clip_grad_value_(const Tensor &parameter, double clip_value, Location loc) {
    clip_grad_value_(std::span(&parameter, 1), clip_value, loc);
}

Tensor parameters_to_vector(std::span<const Tensor> parameters, Location loc) {
    if (parameters.empty())
        throw StateError("parameters_to_vector: there are no parameters", loc);
    std::vector<Tensor> rows;
    for (const Tensor &parameter : parameters) {
        if (parameter.device(loc) != parameters[0].device(loc))
            throw DeviceError("parameters_to_vector: parameters are on " + parameters[0].device(loc).str() +
                                  " and on " + parameter.device(loc).str() + "; one vector is on one device",
                              loc);
        rows.push_back(parameter.flatten(0, -1, loc));
    }
    return cat(rows, 0, loc);
}

Tensor parameters_to_vector(const std::vector<Tensor> &parameters, Location loc) {
    return parameters_to_vector(std::span(parameters), loc);
}

void vector_to_parameters(const Tensor &vector, std::span<const Tensor> parameters, Location loc) {
    int64_t count = 0;
    for (const Tensor &parameter : parameters)
        count += parameter.numel(loc);
    if (vector.dim(loc) != 1 || vector.numel() != count)
        throw ShapeError(fmt::format("vector_to_parameters: the vector has {} axes and {} elements; the "
                                     "parameters need 1 axis and {} elements",
                                     vector.dim(), vector.numel(), count),
                         loc);
    const Tensor values = vector.detach(loc);
    int64_t at = 0;
    for (Tensor parameter : parameters) {
        const Tensor part = values.narrow(0, at, parameter.numel(), loc).reshape(parameter.sizes(), loc);
        parameter.set_data(part.to(parameter.device(), parameter.dtype(), loc), loc);
        at += parameter.numel();
    }
}

void vector_to_parameters(const Tensor &vector, const std::vector<Tensor> &parameters, Location loc) {
    vector_to_parameters(vector, std::span(parameters), loc);
}

} // namespace lz::nn::utils
