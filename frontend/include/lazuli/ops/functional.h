#pragma once
/// Functions of neural networks. Half types are computed in f32 and rounded once, as PyTorch does.

#include "lazuli/core/options.h"
#include "lazuli/tensor.h"

namespace lz {

/// How gelu is computed: by the error function, or approximated by tanh.
enum class Gelu : uint8_t { Erf, Tanh };

/// x times the probability that a normal variable is below x.
LZ_FUNCTION(Tensor gelu, x, Gelu approximation = Gelu::Erf, Location loc = Location::current());
/// log(1 + exp(beta x)) / beta, and x itself where beta x > threshold.
LZ_FUNCTION(Tensor softplus, x, const Scalar &beta = 1, const Scalar &threshold = 20,
            Location loc = Location::current());
/// x, and slope * x below 0.
LZ_FUNCTION(Tensor leaky_relu, x, const Scalar &slope = 0.01, Location loc = Location::current());
/// x with each element set to 0 with probability p, and the others divided by 1 - p; x itself unless
/// `training`. Draws from the default generator; backward draws the same numbers again and keeps none. Throws
/// IndexError for a p out of [0, 1], DTypeError for integers.
LZ_FUNCTION(Tensor dropout, x, double p = 0.5, bool training = true, Location loc = Location::current());
/// exp(x - max) / sum(exp(x - max)) along `axis`; computed in `dtype` if one is given.
LZ_FUNCTION(Tensor softmax, x, int64_t axis, std::optional<DType> dtype = std::nullopt,
            Location loc = Location::current());
/// Logarithm of softmax, without overflow.
LZ_FUNCTION(Tensor log_softmax, x, int64_t axis, std::optional<DType> dtype = std::nullopt,
            Location loc = Location::current());
/// Over the last axes, whose extents are `shape`; weight and bias have that shape or are left out.
LZ_FUNCTION(Tensor layer_norm, x, const Sizes &shape, const Tensor &weight = {}, const Tensor &bias = {},
            double eps = 1e-5, Location loc = Location::current());
/// x / sqrt(mean(x^2) + eps) * weight. Without `eps`: the distance from 1 to the next number of x's dtype.
LZ_FUNCTION(Tensor rms_norm, x, const Sizes &shape, const Tensor &weight = {},
            std::optional<double> eps = std::nullopt, Location loc = Location::current());

/// Less the logarithm of the probability of each target, over all ways to spread its classes over the steps
/// of the input, with repeats and blanks between (Graves et al. 2006). `log_probs` are logarithms of
/// probabilities, [steps, n, classes] or [steps, classes], mostly of log_softmax; `targets` are classes, i64
/// or i32, [n, longest], or one behind the other in a row (then a sync point); lengths are integers [n], or
/// [] for one sample. The mean is of losses that are divided by the lengths of their targets (at least 1). A
/// target that does not fit its input has a loss of infinity, or of 0 and no gradient with `zero_infinity`.
/// The gradient is PyTorch's: that of what log_softmax gave, less terms that its own gradient takes off.
/// Throws ShapeError, DTypeError, IndexError for a blank that is no class, StateError for a reduction that is
/// none of None, Mean and Sum; lengths out of range are a StateError when it runs (S26), and classes an
/// IndexError.
LZ_API Tensor ctc_loss(const Tensor &log_probs, const Tensor &targets, const Tensor &input_lengths,
                       const Tensor &target_lengths, int64_t blank = 0, Reduction reduction = Reduction::Mean,
                       bool zero_infinity = false, Location loc = Location::current());
LZ_API Tensor ctc_loss(const Tensor &log_probs, const Tensor &targets, const Sizes &input_lengths,
                       const Sizes &target_lengths, int64_t blank = 0, Reduction reduction = Reduction::Mean,
                       bool zero_infinity = false, Location loc = Location::current());

namespace detail {
/// `value`; when it runs, a StateError that says `sentence` ("multinomial: a weight is negative", with the
/// name of the function in front) unless all of `holds` are true, which is bool and broadcasts to it. The
/// sentence is kept for ever.
LZ_API Tensor checked(const Tensor &value, const Tensor &holds, const char *sentence, Location loc);
/// `loc` for all that a function of this name records, so that errors name it, and not what it is made of;
/// within another function's call that function's.
LZ_API Location in_function(const char *name, Location loc);
} // namespace detail

/// What cross_entropy and nll_loss may be told.
struct CrossEntropyOptions {
    /// [classes]: what a target of each class counts, in the sum and in what the mean is divided by (for
    /// probabilities: in the sum alone).
    Tensor weight = {};
    /// One number, or each loss.
    Reduction reduction = Reduction::Mean;
    int64_t ignore_index = -100; ///< targets with this class count for nothing
    /// The part of each target that is spread over all classes, in [0, 1].
    double label_smoothing = 0;
};
/// `logits` are [classes], [n, classes] or [n, classes, ...]; `target` holds classes (i32 or i64) without
/// that axis, or probabilities in the shape of `logits`. A class out of range is found when it runs (S26).
/// Throws ShapeError, DTypeError, and StateError for a reduction that is none of None, Mean and Sum.
LZ_FUNCTION_OF_TWO(Tensor cross_entropy, logits, target, const CrossEntropyOptions &options = {},
                   Location loc = Location::current());
/// `log_probabilities` as logits above.
LZ_FUNCTION_OF_TWO(Tensor nll_loss, log_probabilities, target, const CrossEntropyOptions &options = {},
                   Location loc = Location::current());
/// LibTorch's order of the same.
inline Tensor nll_loss(const Tensor &log_probabilities, const Tensor &target, const Tensor &weight,
                       Reduction reduction, int64_t ignore_index = -100, Location loc = Location::current()) {
    return nll_loss(log_probabilities, target,
                    {.weight = weight, .reduction = reduction, .ignore_index = ignore_index}, loc);
}
/// Mean (or sum, or each) of the squared differences.
LZ_FUNCTION_OF_TWO(Tensor mse_loss, x, target, Reduction reduction = Reduction::Mean,
                   Location loc = Location::current());

} // namespace lz
