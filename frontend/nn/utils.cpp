#include "lazuli/nn/utils.h"

#include "lazuli/lazuli.h"

#include <fmt/format.h>

namespace lz::nn::utils {

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

} // namespace lz::nn::utils
