#pragma once
/// All parameters as one vector, and back.

#include "lazuli/tensor.h"

#include <span>
#include <vector>

namespace lz {
namespace nn {
namespace utils {

/// The elements of all of them, one after the other; with a history, if they require grad. Throws StateError
/// for none, DeviceError for those of several devices.
LZ_API Tensor parameters_to_vector(std::span<const Tensor> parameters, Location loc = Location::current());
inline Tensor parameters_to_vector(const std::vector<Tensor> &parameters,
                                   Location loc = Location::current()) {
    return parameters_to_vector(std::span(parameters), loc);
}
/// The parameters' new values, out of one vector; each keeps its dtype and device. Throws ShapeError unless
/// it has as many elements as all of them; nothing has changed then.
LZ_API void vector_to_parameters(const Tensor &vector, std::span<const Tensor> parameters,
                                 Location loc = Location::current());
inline void vector_to_parameters(const Tensor &vector, const std::vector<Tensor> &parameters,
                                 Location loc = Location::current()) {
    vector_to_parameters(vector, std::span(parameters), loc);
}

} // namespace utils
} // namespace nn
} // namespace lz
