#pragma once
/// New values for parameters, in place, by PyTorch's names: `nn::init::xavier_uniform_(fc->weight)`. Nothing
/// is kept for backward. Random numbers come from the default generator: one seed gives the same values on
/// every device (S63). Each returns the tensor, and throws StateError for an empty one and DTypeError where
/// it would write fractions to integers.

#include "lazuli/tensor.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

namespace lz {
namespace nn {
namespace init {

/// What a layer's deviation is multiplied by to make up for the nonlinearity behind it: "linear", "sigmoid"
/// and "conv1d" to "conv3d" 1, "tanh" 5/3, "relu" sqrt(2), "leaky_relu" sqrt(2 / (1 + slope^2)) with the
/// slope 0.01 unless given, "selu" 3/4. Throws StateError for another name.
LZ_API double calculate_gain(std::string_view nonlinearity, std::optional<double> slope = std::nullopt,
                             Location loc = Location::current());

/// Uniform in [a, b).
LZ_API Tensor uniform_(Tensor tensor, double a = 0, double b = 1, Location loc = Location::current());
/// Normal.
LZ_API Tensor normal_(Tensor tensor, double mean = 0, double std = 1, Location loc = Location::current());
/// Normal, and within [a, b] (of the distribution's own ratios there, by its inverse). Throws StateError
/// unless std is above 0 and a below b.
LZ_API Tensor trunc_normal_(Tensor tensor, double mean = 0, double std = 1, double a = -2, double b = 2,
                            Location loc = Location::current());
/// One value.
LZ_API Tensor constant_(Tensor tensor, const Scalar &value, Location loc = Location::current());
/// Ones.
LZ_API Tensor ones_(Tensor tensor, Location loc = Location::current());
/// Zeros.
LZ_API Tensor zeros_(Tensor tensor, Location loc = Location::current());
/// Ones on the diagonal of a matrix, else 0. Throws ShapeError for another rank.
LZ_API Tensor eye_(Tensor tensor, Location loc = Location::current());
/// Of a convolution's weight, [out, in, ...] of rank 3 to 5: what leaves as many input channels as they are
/// as there are, in each of `groups` groups of outputs. Throws ShapeError for another rank, and for outputs
/// that do not divide.
LZ_API Tensor dirac_(Tensor tensor, int64_t groups = 1, Location loc = Location::current());

// The fans of a weight [out, in, ...] are in and out times the extents behind. Those that use them throw
// ShapeError for a rank below 2.

/// Both fans, by LibTorch's name of it: fan_in, then fan_out.
LZ_API std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const Tensor &tensor,
                                                                  Location loc = Location::current());
/// Uniform within gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010).
LZ_API Tensor xavier_uniform_(Tensor tensor, double gain = 1, Location loc = Location::current());
/// Normal with the deviation gain sqrt(2 / (fan_in + fan_out)).
LZ_API Tensor xavier_normal_(Tensor tensor, double gain = 1, Location loc = Location::current());
/// Uniform within gain sqrt(3 / fan) (He et al. 2015). `mode` names the fan, "fan_in" or "fan_out"; the gain
/// is calculate_gain(nonlinearity, a). Throws StateError for another name.
LZ_API Tensor kaiming_uniform_(Tensor tensor, double a = 0, std::string_view mode = "fan_in",
                               std::string_view nonlinearity = "leaky_relu",
                               Location loc = Location::current());
/// Normal with the deviation gain / sqrt(fan); else as kaiming_uniform_.
LZ_API Tensor kaiming_normal_(Tensor tensor, double a = 0, std::string_view mode = "fan_in",
                              std::string_view nonlinearity = "leaky_relu",
                              Location loc = Location::current());
/// A random matrix with orthonormal rows or columns, whichever are fewer, times gain (Saxe et al. 2013): the
/// Q of a normal matrix whose R has no negative number on its diagonal, so that all rotations are as likely.
/// Axes from 1 on are flattened. Q is computed by the host. Throws ShapeError for a rank below 2.
LZ_API Tensor orthogonal_(Tensor tensor, double gain = 1, Location loc = Location::current());
/// Of a matrix: normal with mean 0 and this deviation, but for ceil(sparsity * rows) zeros in each column
/// (Martens 2010). Throws ShapeError for another rank, and StateError for a sparsity out of [0, 1].
LZ_API Tensor sparse_(Tensor tensor, double sparsity, double std = 0.01, Location loc = Location::current());

} // namespace init
} // namespace nn
// LibTorch's names of what is a text here.
#define LZ_TEXT(name, text) inline constexpr const char *name = text /**< That text. */
LZ_TEXT(kFanIn, "fan_in");
LZ_TEXT(kFanOut, "fan_out");
LZ_TEXT(kLinear, "linear");
LZ_TEXT(kSigmoid, "sigmoid");
LZ_TEXT(kTanh, "tanh");
LZ_TEXT(kReLU, "relu");
LZ_TEXT(kLeakyReLU, "leaky_relu");
LZ_TEXT(kGELU, "gelu");
#undef LZ_TEXT

} // namespace lz
