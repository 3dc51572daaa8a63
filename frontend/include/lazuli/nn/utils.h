#pragma once
/// Gradients cut to a length, and all parameters as one vector and back.

#include "lazuli/tensor.h"

#include <span>
#include <vector>

namespace lz {
namespace nn {
namespace utils {

/// Multiplies all gradients in place, so that their norm as one vector is at most max_norm: 1 / (norm + 1e-6)
/// times that. Returns the norm before, a 0-dim tensor on the device of the first gradient (on the CPU, and
/// 0, where no parameter has one). `norm_type` is 1, 2, infinity or any p. Nothing is computed before it is
/// needed, unless `error_if_nonfinite`: then the norm is read, and StateError thrown for one that is infinite
/// or NaN, and no gradient has changed. Throws StateError for a max_norm that is NaN or below 0.
LZ_API Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, double norm_type = 2,
                              bool error_if_nonfinite = false, Location loc = Location::current());
LZ_API Tensor clip_grad_norm_(const std::vector<Tensor> &parameters, double max_norm, double norm_type = 2,
                              bool error_if_nonfinite = false, Location loc = Location::current());
LZ_API Tensor clip_grad_norm_(const Tensor &parameter, double max_norm, double norm_type = 2,
                              bool error_if_nonfinite = false, Location loc = Location::current());
/// Brings each number of all gradients into [-clip_value, clip_value], in place. Throws StateError for a
/// bound that is NaN or below 0.
LZ_API void clip_grad_value_(std::span<const Tensor> parameters, double clip_value,
                             Location loc = Location::current());
LZ_API void clip_grad_value_(const std::vector<Tensor> &parameters, double clip_value,
                             Location loc = Location::current());
LZ_API void clip_grad_value_(const Tensor &parameter, double clip_value, Location loc = Location::current());

/// The elements of all of them, one after the other; with a history, if they require grad. Throws StateError
/// for none, DeviceError for those of several devices.
LZ_API Tensor parameters_to_vector(std::span<const Tensor> parameters, Location loc = Location::current());
LZ_API Tensor parameters_to_vector(const std::vector<Tensor> &parameters, Location loc = Location::current());
/// The parameters' new values, out of one vector; each keeps its dtype and device. Throws ShapeError unless
/// it has as many elements as all of them; nothing has changed then.
LZ_API void vector_to_parameters(const Tensor &vector, std::span<const Tensor> parameters,
                                 Location loc = Location::current());
LZ_API void vector_to_parameters(const Tensor &vector, const std::vector<Tensor> &parameters,
                                 Location loc = Location::current());

} // namespace utils
} // namespace nn
} // namespace lz
