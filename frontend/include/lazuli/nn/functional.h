#pragma once
/// Functions of neural networks without state, by PyTorch's names: `namespace F = lz::nn::functional;`. Those
/// of lz:: that PyTorch has in this place, too, can be called by either name. Half types are computed in f32.

#include "lazuli/core/options.h"
#include "lazuli/ops.h"
#include "lazuli/tensor.h"

namespace lz {
namespace nn {
namespace functional {

using lz::cross_entropy;
using lz::ctc_loss;
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

/// softmax((x + noise) / tau) along `dim`, where the noise is of Gumbel's distribution: a sample of the
/// categories that the logits x weigh, through which gradients go (Jang et al. 2017). With `hard` it is 1 at
/// the largest and 0 elsewhere, and its gradient that of the soft one. Draws from the default generator.
/// Throws DTypeError for integers, IndexError, StateError for a tau of 0.
LZ_API Tensor gumbel_softmax(const Tensor &logits, double tau = 1, bool hard = false, int64_t dim = -1,
                             Location loc = Location::current());

/// The cosine of the angle between vectors along `dim`, none of whose squared lengths counts less than eps^2;
/// the inputs broadcast.
LZ_API Tensor cosine_similarity(const Tensor &a, const Tensor &b, int64_t dim = 1, double eps = 1e-8,
                                Location loc = Location::current());
/// The p-norm of a - b + eps along the last axis.
LZ_API Tensor pairwise_distance(const Tensor &a, const Tensor &b, double p = 2, double eps = 1e-6,
                                bool keepdim = false, Location loc = Location::current());

// Losses: each element's where the reduction is None, else their mean or sum. Inputs broadcast unless it is
// said otherwise. They throw ShapeError and DTypeError for inputs that do not fit, DeviceError at the next
// sync for those of several devices (S06), and StateError for an unknown reduction. Half types are computed
// in f32. In every one |d| stands for |x - target|.

/// |d|.
LZ_API Tensor l1_loss(const Tensor &x, const Tensor &target, Reduction reduction = Reduction::Mean,
                      Location loc = Location::current());
/// d^2 / (2 beta) where |d| < beta, else |d| - beta / 2. Throws StateError for a negative beta.
LZ_API Tensor smooth_l1_loss(const Tensor &x, const Tensor &target, Reduction reduction = Reduction::Mean,
                             double beta = 1, Location loc = Location::current());
/// d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2). Throws StateError unless delta is above 0.
LZ_API Tensor huber_loss(const Tensor &x, const Tensor &target, Reduction reduction = Reduction::Mean,
                         double delta = 1, Location loc = Location::current());
/// -(target log x + (1 - target) log(1 - x)) times `weight`, for probabilities x and `target` of one shape;
/// no logarithm counts below -100. An element of either out of [0, 1], or NaN, is a StateError when it runs
/// (S26), of the loss and of gradients. Better computed of logits, below. Gradients of gradients of x are not
/// those at the bounds.
LZ_API Tensor binary_cross_entropy(const Tensor &x, const Tensor &target, const Tensor &weight = {},
                                   Reduction reduction = Reduction::Mean, Location loc = Location::current());
/// The same of sigmoid(x), without overflow and without a bound; of positive targets `pos_weight` times as
/// much.
LZ_API Tensor binary_cross_entropy_with_logits(const Tensor &x, const Tensor &target,
                                               const Tensor &weight = {},
                                               Reduction reduction = Reduction::Mean,
                                               const Tensor &pos_weight = {},
                                               Location loc = Location::current());
/// target (log target - x), where 0 log 0 is 0, for logarithms of probabilities x; with `log_target`
/// exp(target) (target - x). BatchMean is the Kullback-Leibler divergence for samples along axis 0.
LZ_API Tensor kl_div(const Tensor &x, const Tensor &target, Reduction reduction = Reduction::Mean,
                     bool log_target = false, Location loc = Location::current());
/// 1 - cosine where the target is 1, max(0, cosine - margin) where it is -1: of [n, m], [n, m] and [n], or of
/// [m], [m] and [].
LZ_API Tensor cosine_embedding_loss(const Tensor &x1, const Tensor &x2, const Tensor &target,
                                    double margin = 0, Reduction reduction = Reduction::Mean,
                                    Location loc = Location::current());
/// max(0, margin + distance(anchor, positive) - distance(anchor, negative)), by pairwise_distance; with
/// `swap` the distance of positive and negative counts where it is the smaller one. Of one rank. Throws
/// StateError for a negative margin.
LZ_API Tensor triplet_margin_loss(const Tensor &anchor, const Tensor &positive, const Tensor &negative,
                                  double margin = 1, double p = 2, double eps = 1e-6, bool swap = false,
                                  Reduction reduction = Reduction::Mean, Location loc = Location::current());
/// max(0, margin - target (x1 - x2)), for targets of 1 and -1. Of one rank.
LZ_API Tensor margin_ranking_loss(const Tensor &x1, const Tensor &x2, const Tensor &target, double margin = 0,
                                  Reduction reduction = Reduction::Mean, Location loc = Location::current());
/// x where the target is 1, max(0, margin - x) where it is -1.
LZ_API Tensor hinge_embedding_loss(const Tensor &x, const Tensor &target, double margin = 1,
                                   Reduction reduction = Reduction::Mean, Location loc = Location::current());
/// log(1 + exp(-target x)), without overflow.
LZ_API Tensor soft_margin_loss(const Tensor &x, const Tensor &target, Reduction reduction = Reduction::Mean,
                               Location loc = Location::current());
/// exp(x) - target x, or without `log_input` x - target log(x + eps); with `full` and Stirling's formula for
/// log(target!) where the target is above 1.
LZ_API Tensor poisson_nll_loss(const Tensor &x, const Tensor &target, bool log_input = true,
                               bool full = false, double eps = 1e-8, Reduction reduction = Reduction::Mean,
                               Location loc = Location::current());
/// (log v + (x - target)^2 / v) / 2, where v is `variance` and at least eps; `full` adds log(2 pi) / 2. The
/// variance has the shape of x, or that without its last axis, or with 1 in its place. Its gradient does not
/// see the bound. Throws StateError unless eps is above 0.
LZ_API Tensor gaussian_nll_loss(const Tensor &x, const Tensor &target, const Tensor &variance,
                                bool full = false, double eps = 1e-6, Reduction reduction = Reduction::Mean,
                                Location loc = Location::current());

} // namespace functional
} // namespace nn
} // namespace lz
