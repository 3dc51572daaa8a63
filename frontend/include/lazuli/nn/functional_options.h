#pragma once
/// LibTorch's way to call functions without state: `F::leaky_relu(x,
/// F::LeakyReLUFuncOptions().negative_slope( 0.2))`. Each does once what the module of these options does.

#include "lazuli/nn/activation.h"
#include "lazuli/nn/attention.h"
#include "lazuli/nn/dropout.h"
#include "lazuli/nn/embedding.h"
#include "lazuli/nn/linear.h"
#include "lazuli/nn/loss.h"
#include "lazuli/nn/normalization.h"

#include <concepts>

namespace lz {
namespace nn {
namespace functional {

// A template is chosen for its options alone: `{}` means what it means without it.
#define LZ_BY_MODULE(function, Name)                                                                         \
    /** What the function is told. */                                                                        \
    using Name##FuncOptions = Name##Options;                                                                 \
    /** As the module of these options. */                                                                   \
    template <std::same_as<Name##FuncOptions> Options>                                                       \
    Tensor function(const Tensor &x, const Options &options, Location loc = Location::current()) {           \
        return Name##Impl(options).forward(x, loc);                                                          \
    }
LZ_BY_MODULE(relu, ReLU)
LZ_BY_MODULE(relu6, ReLU6)
LZ_BY_MODULE(selu, SELU)
LZ_BY_MODULE(elu, ELU)
LZ_BY_MODULE(celu, CELU)
LZ_BY_MODULE(leaky_relu, LeakyReLU)
LZ_BY_MODULE(hardtanh, Hardtanh)
LZ_BY_MODULE(threshold, Threshold)
LZ_BY_MODULE(softplus, Softplus)
LZ_BY_MODULE(softshrink, Softshrink)
LZ_BY_MODULE(hardshrink, Hardshrink)
LZ_BY_MODULE(gelu, GELU)
LZ_BY_MODULE(softmax, Softmax)
LZ_BY_MODULE(log_softmax, LogSoftmax)
LZ_BY_MODULE(softmin, Softmin)
LZ_BY_MODULE(glu, GLU)
#undef LZ_BY_MODULE

#define LZ_BY_LOSS(function, Name)                                                                           \
    /** What the function is told. */                                                                        \
    using Name##FuncOptions = Name##LossOptions;                                                             \
    /** As the module of these options. */                                                                   \
    template <std::same_as<Name##FuncOptions> Options>                                                       \
    Tensor function(const Tensor &x, const Tensor &target, const Options &options,                           \
                    Location loc = Location::current()) {                                                    \
        return Name##LossImpl(options).forward(x, target, loc);                                              \
    }
LZ_BY_LOSS(l1_loss, L1)
LZ_BY_LOSS(mse_loss, MSE)
LZ_BY_LOSS(smooth_l1_loss, SmoothL1)
LZ_BY_LOSS(huber_loss, Huber)
LZ_BY_LOSS(cross_entropy, CrossEntropy)
LZ_BY_LOSS(nll_loss, NLL)
LZ_BY_LOSS(binary_cross_entropy, BCE)
LZ_BY_LOSS(binary_cross_entropy_with_logits, BCEWithLogits)
LZ_BY_LOSS(kl_div, KLDiv)
LZ_BY_LOSS(hinge_embedding_loss, HingeEmbedding)
LZ_BY_LOSS(soft_margin_loss, SoftMargin)
LZ_BY_LOSS(poisson_nll_loss, PoissonNLL)
#undef LZ_BY_LOSS
// LibTorch's names of these.
#define LZ_NAME(Name) using Name##LossFuncOptions = Name##LossOptions /**< As the name without Loss. */
LZ_NAME(L1);
LZ_NAME(MSE);
LZ_NAME(SmoothL1);
LZ_NAME(Huber);
LZ_NAME(NLL);
LZ_NAME(HingeEmbedding);
LZ_NAME(SoftMargin);
LZ_NAME(PoissonNLL);
#undef LZ_NAME
/// LibTorch's names of what the losses of probabilities are told.
using BinaryCrossEntropyFuncOptions = BCELossOptions;
/// The same of logits.
using BinaryCrossEntropyWithLogitsFuncOptions = BCEWithLogitsLossOptions;

#define LZ_BY_LOSS_OF_THREE(function, Name, a, b, c)                                                         \
    /** What the function is told. */                                                                        \
    using Name##FuncOptions = Name##Options;                                                                 \
    /** As the module of these options. */                                                                   \
    template <std::same_as<Name##FuncOptions> Options>                                                       \
    Tensor function(const Tensor &a, const Tensor &b, const Tensor &c, const Options &options,               \
                    Location loc = Location::current()) {                                                    \
        return Name##Impl(options).forward(a, b, c, loc);                                                    \
    }
LZ_BY_LOSS_OF_THREE(cosine_embedding_loss, CosineEmbeddingLoss, x1, x2, target)
LZ_BY_LOSS_OF_THREE(triplet_margin_loss, TripletMarginLoss, anchor, positive, negative)
LZ_BY_LOSS_OF_THREE(margin_ranking_loss, MarginRankingLoss, x1, x2, target)
#undef LZ_BY_LOSS_OF_THREE

/// What functions of dropout are told.
struct DropoutFuncOptions {
    /// The probability that an element, or a channel, becomes 0.
    LZ_OPTION(double, p, 0.5);
    /// Whether it does anything.
    LZ_OPTION(bool, training, true);
    /// Whether the input is changed.
    LZ_OPTION(bool, inplace, false);
};
#define LZ_DROPOUT(function, Name)                                                                           \
    /** As the module of these options, in its mode. */                                                      \
    template <std::same_as<DropoutFuncOptions> Options>                                                      \
    Tensor function(const Tensor &x, const Options &options, Location loc = Location::current()) {           \
        Name##Impl module(DropoutOptions(options.p()).inplace(options.inplace()), loc);                      \
        module.train(options.training());                                                                    \
        return module.forward(x, loc);                                                                       \
    }
LZ_DROPOUT(dropout, Dropout)
LZ_DROPOUT(dropout1d, Dropout1d)
LZ_DROPOUT(dropout2d, Dropout2d)
#undef LZ_DROPOUT

/// What rrelu is told.
struct RReLUFuncOptions {
    /// The least slope.
    LZ_OPTION(double, lower, 1.0 / 8);
    /// The largest slope.
    LZ_OPTION(double, upper, 1.0 / 3);
    /// Whether slopes are drawn.
    LZ_OPTION(bool, training, false);
};
/// The same by options.
template <std::same_as<RReLUFuncOptions> Options>
Tensor rrelu(const Tensor &x, const Options &options, Location loc = Location::current()) {
    return rrelu(x, options.lower(), options.upper(), options.training(), loc);
}

/// What layer_norm is told.
struct LayerNormFuncOptions {
    /// Over the last axes of these extents.
    explicit LayerNormFuncOptions(const std::vector<int64_t> &shape) : normalized_shape_(shape) {}
    /// The extents of the last axes.
    LZ_OPTION(Sizes, normalized_shape, {});
    /// In that shape, or empty.
    LZ_OPTION(Tensor, weight, {});
    /// In that shape, or empty.
    LZ_OPTION(Tensor, bias, {});
    /// Added to the variance.
    LZ_OPTION(double, eps, 1e-5);
};
/// The same by options.
template <std::same_as<LayerNormFuncOptions> Options>
Tensor layer_norm(const Tensor &x, const Options &options, Location loc = Location::current()) {
    return lz::layer_norm(x, options.normalized_shape(), options.weight(), options.bias(), options.eps(),
                          loc);
}

/// What group_norm is told.
struct GroupNormFuncOptions {
    /// So many groups.
    explicit GroupNormFuncOptions(int64_t num_groups) : num_groups_(num_groups) {}
    /// How many groups of channels there are.
    LZ_OPTION(int64_t, num_groups, 1);
    /// [channels], or empty.
    LZ_OPTION(Tensor, weight, {});
    /// [channels], or empty.
    LZ_OPTION(Tensor, bias, {});
    /// Added to the variance.
    LZ_OPTION(double, eps, 1e-5);
};
/// The same by options.
template <std::same_as<GroupNormFuncOptions> Options>
Tensor group_norm(const Tensor &x, const Options &options, Location loc = Location::current()) {
    return group_norm(x, options.num_groups(), options.weight(), options.bias(), options.eps(), loc);
}

/// What batch_norm is told.
struct BatchNormFuncOptions {
    /// [channels], or empty.
    LZ_OPTION(Tensor, weight, {});
    /// [channels], or empty.
    LZ_OPTION(Tensor, bias, {});
    /// Whether the batch's own statistics are used, and followed.
    LZ_OPTION(bool, training, false);
    /// How far running statistics go towards the batch's.
    LZ_OPTION(double, momentum, 0.1);
    /// Added to the variance.
    LZ_OPTION(double, eps, 1e-5);
};
/// The same by options.
template <std::same_as<BatchNormFuncOptions> Options>
Tensor batch_norm(const Tensor &x, const Tensor &running_mean, const Tensor &running_var,
                  const Options &options, Location loc = Location::current()) {
    return batch_norm(x, running_mean, running_var, options.weight(), options.bias(), options.training(),
                      options.momentum(), options.eps(), loc);
}

/// What normalize is told.
struct NormalizeFuncOptions {
    /// The p of the norm.
    LZ_OPTION(double, p, 2);
    /// Along this axis.
    LZ_OPTION(int64_t, dim, 1);
    /// What the norm counts at least.
    LZ_OPTION(double, eps, 1e-12);
};
/// The same by options.
template <std::same_as<NormalizeFuncOptions> Options>
Tensor normalize(const Tensor &x, const Options &options, Location loc = Location::current()) {
    return normalize(x, options.p(), options.dim(), options.eps(), loc);
}

/// What cosine_similarity is told.
struct CosineSimilarityFuncOptions {
    /// Along this axis.
    LZ_OPTION(int64_t, dim, 1);
    /// What a length counts at least.
    LZ_OPTION(double, eps, 1e-8);
};
/// The same by options.
template <std::same_as<CosineSimilarityFuncOptions> Options>
Tensor cosine_similarity(const Tensor &a, const Tensor &b, const Options &options,
                         Location loc = Location::current()) {
    return cosine_similarity(a, b, options.dim(), options.eps(), loc);
}

/// What pairwise_distance is told.
struct PairwiseDistanceFuncOptions {
    /// The p of the norm.
    LZ_OPTION(double, p, 2);
    /// Added to differences.
    LZ_OPTION(double, eps, 1e-6);
    /// Whether the last axis stays.
    LZ_OPTION(bool, keepdim, false);
};
/// The same by options.
template <std::same_as<PairwiseDistanceFuncOptions> Options>
Tensor pairwise_distance(const Tensor &a, const Tensor &b, const Options &options,
                         Location loc = Location::current()) {
    return pairwise_distance(a, b, options.p(), options.eps(), options.keepdim(), loc);
}

/// What pad is told.
struct PadFuncOptions {
    /// Pairs (before, after), the last axis first.
    explicit PadFuncOptions(const std::vector<int64_t> &pad) : pad_(pad) {}
    /// Pairs (before, after), the last axis first.
    LZ_OPTION(Sizes, pad, {});
    /// What is put around: kConstant, kReflect, kReplicate or kCircular.
    LZ_OPTION(PaddingMode, mode, PaddingMode::Constant);
    /// Of kConstant.
    LZ_OPTION(double, value, 0);
};
/// The same by options.
template <std::same_as<PadFuncOptions> Options>
Tensor pad(const Tensor &x, const Options &options, Location loc = Location::current()) {
    return lz::pad(x, options.pad(), options.mode(), options.value(), loc);
}

/// What gumbel_softmax is told.
struct GumbelSoftmaxFuncOptions {
    /// What the logits are divided by.
    LZ_OPTION(double, tau, 1);
    /// Whether it is 1 at the largest and 0 elsewhere.
    LZ_OPTION(bool, hard, false);
    /// Along this axis.
    LZ_OPTION(int64_t, dim, -1);
};
/// The same by options.
template <std::same_as<GumbelSoftmaxFuncOptions> Options>
Tensor gumbel_softmax(const Tensor &logits, const Options &options, Location loc = Location::current()) {
    return gumbel_softmax(logits, options.tau(), options.hard(), options.dim(), loc);
}

/// What ctc_loss is told.
using CTCLossFuncOptions = CTCLossOptions;
/// The same by options.
template <std::same_as<CTCLossFuncOptions> Options>
Tensor ctc_loss(const Tensor &log_probs, const Tensor &targets, const Tensor &input_lengths,
                const Tensor &target_lengths, const Options &options, Location loc = Location::current()) {
    return lz::ctc_loss(log_probs, targets, input_lengths, target_lengths, options.blank(),
                        options.reduction(), options.zero_infinity(), loc);
}

} // namespace functional
} // namespace nn

// LibTorch has these in its first namespace, too.
using nn::functional::batch_norm;
using nn::functional::bilinear;
using nn::functional::binary_cross_entropy;
using nn::functional::binary_cross_entropy_with_logits;
using nn::functional::celu;
using nn::functional::cosine_embedding_loss;
using nn::functional::cosine_similarity;
using nn::functional::elu;
using nn::functional::glu;
using nn::functional::group_norm;
using nn::functional::hardtanh;
using nn::functional::hinge_embedding_loss;
using nn::functional::huber_loss;
using nn::functional::kl_div;
using nn::functional::l1_loss;
using nn::functional::margin_ranking_loss;
using nn::functional::mish;
using nn::functional::pairwise_distance;
using nn::functional::prelu;
using nn::functional::relu6;
using nn::functional::rrelu;
using nn::functional::scaled_dot_product_attention;
using nn::functional::selu;
using nn::functional::smooth_l1_loss;
using nn::functional::soft_margin_loss;
using nn::functional::threshold;
using nn::functional::triplet_margin_loss;

} // namespace lz
