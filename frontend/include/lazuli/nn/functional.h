#pragma once
/// Functions of neural networks without state, by PyTorch's names: `namespace F = lz::nn::functional;`. Those
/// of lz:: that PyTorch has in this place, too, can be called by either name. Half types are computed in f32.

#include "lazuli/ops.h"
#include "lazuli/tensor.h"

namespace lz {
namespace nn {
namespace functional {

using lz::cross_entropy;
using lz::dropout;
using lz::gelu;
using lz::layer_norm;
using lz::leaky_relu;
using lz::linear;
using lz::log_softmax;
using lz::mse_loss;
using lz::nll_loss;
using lz::one_hot;
using lz::pad;
using lz::relu;
using lz::rms_norm;
using lz::sigmoid;
using lz::silu;
using lz::softmax;
using lz::softplus;
using lz::tanh;

/// x, and alpha * (exp(x) - 1) below 0.
LZ_API Tensor elu(const Tensor &x, double alpha = 1, Location loc = Location::current());
/// elu with the constants at which activations keep mean 0 and variance 1 (Klambauer et al. 2017).
LZ_API Tensor selu(const Tensor &x, Location loc = Location::current());
/// x, and alpha * (exp(x / alpha) - 1) below 0.
LZ_API Tensor celu(const Tensor &x, double alpha = 1, Location loc = Location::current());
/// x within [0, 6].
LZ_API Tensor relu6(const Tensor &x, Location loc = Location::current());
/// x within [min_val, max_val]; at the bounds the gradient is 0.
LZ_API Tensor hardtanh(const Tensor &x, double min_val = -1, double max_val = 1,
                       Location loc = Location::current());
/// relu6(x + 3) / 6.
LZ_API Tensor hardsigmoid(const Tensor &x, Location loc = Location::current());
/// x * relu6(x + 3) / 6.
LZ_API Tensor hardswish(const Tensor &x, Location loc = Location::current());
/// x where |x| > lambda, else 0.
LZ_API Tensor hardshrink(const Tensor &x, double lambda = 0.5, Location loc = Location::current());
/// x moved towards 0 by lambda, and 0 within it.
LZ_API Tensor softshrink(const Tensor &x, double lambda = 0.5, Location loc = Location::current());
/// x - tanh(x).
LZ_API Tensor tanhshrink(const Tensor &x, Location loc = Location::current());
/// x / (1 + |x|).
LZ_API Tensor softsign(const Tensor &x, Location loc = Location::current());
/// log(sigmoid(x)), without overflow.
LZ_API Tensor logsigmoid(const Tensor &x, Location loc = Location::current());
/// x * tanh(softplus(x)).
LZ_API Tensor mish(const Tensor &x, Location loc = Location::current());
/// x where x > threshold, else value.
LZ_API Tensor threshold(const Tensor &x, double threshold, double value, Location loc = Location::current());
/// x, and weight * x below 0; `weight` has one element, or one for each place of axis 1. Throws ShapeError.
LZ_API Tensor prelu(const Tensor &x, const Tensor &weight, Location loc = Location::current());
/// x, and slope * x below 0, where the slope is drawn from [lower, upper) for each element; or, unless
/// `training`, halfway between the two.
LZ_API Tensor rrelu(const Tensor &x, double lower = 1.0 / 8, double upper = 1.0 / 3, bool training = false,
                    Location loc = Location::current());
/// The first half of an axis times the sigmoid of the second. Throws ShapeError for an odd extent.
LZ_API Tensor glu(const Tensor &x, int64_t dim = -1, Location loc = Location::current());
/// softmax(-x).
LZ_API Tensor softmin(const Tensor &x, int64_t dim, Location loc = Location::current());

} // namespace functional
} // namespace nn
} // namespace lz
