#pragma once
/// Losses as modules: `nn::CrossEntropyLoss(nn::CrossEntropyLossOptions().label_smoothing(0.1))`. Each is the
/// function of functional.h with its options; what it throws stands there. Weights are buffers, which move
/// with the module (S73).

#include "lazuli/nn/functional.h"
#include "lazuli/nn/module_holder.h"

#include <string_view>

namespace lz {
namespace nn {

namespace detail {
/// Throws StateError for a text that is none of "none", "mean", "sum" and "batchmean".
LZ_API Reduction reduction_of(std::string_view name, Location loc);
} // namespace detail

/// How one loss of all is made: a part of each loss's options.
template <class Derived>
class ReductionOption {
public:
    /// From now on.
    Derived &reduction(Reduction value) {
        reduction_ = value;
        return static_cast<Derived &>(*this);
    }
    /// By PyTorch's name: "none", "mean", "sum" or "batchmean". Throws StateError for another one.
    Derived &reduction(std::string_view name, Location loc = Location::current()) {
        return reduction(detail::reduction_of(name, loc));
    }
    /// Reduction::Mean unless told otherwise.
    Reduction reduction() const noexcept { return reduction_; }

private:
    Reduction reduction_ = Reduction::Mean;
};

/// What a loss without other numbers is made of.
struct LossOptions : ReductionOption<LossOptions> {
    /// With this reduction.
    LossOptions(Reduction value = Reduction::Mean) { reduction(value); } // NOLINT: converts
};
/// What L1Loss is made of.
using L1LossOptions = LossOptions;
/// What MSELoss is made of.
using MSELossOptions = LossOptions;
/// What SoftMarginLoss is made of.
using SoftMarginLossOptions = LossOptions;

/// What SmoothL1Loss is made of.
struct SmoothL1LossOptions : ReductionOption<SmoothL1LossOptions> {
    /// Where the loss becomes a straight line.
    LZ_OPTION(double, beta, 1);
};
/// What HuberLoss is made of.
struct HuberLossOptions : ReductionOption<HuberLossOptions> {
    /// Where the loss becomes a straight line, and that line's slope.
    LZ_OPTION(double, delta, 1);
};
/// What CrossEntropyLoss is made of.
struct CrossEntropyLossOptions : ReductionOption<CrossEntropyLossOptions> {
    /// [classes]: what each class counts.
    LZ_OPTION(Tensor, weight, {});
    /// Targets with this class count for nothing.
    LZ_OPTION(int64_t, ignore_index, -100);
    /// The part of each target that is spread over all classes, in [0, 1].
    LZ_OPTION(double, label_smoothing, 0);
};
/// What NLLLoss is made of.
struct NLLLossOptions : ReductionOption<NLLLossOptions> {
    /// [classes]: what each class counts.
    LZ_OPTION(Tensor, weight, {});
    /// Targets with this class count for nothing.
    LZ_OPTION(int64_t, ignore_index, -100);
};
/// What BCELoss is made of.
struct BCELossOptions : ReductionOption<BCELossOptions> {
    /// What each element counts; broadcasts with the losses.
    LZ_OPTION(Tensor, weight, {});
};
/// What BCEWithLogitsLoss is made of.
struct BCEWithLogitsLossOptions : ReductionOption<BCEWithLogitsLossOptions> {
    /// What each element counts; broadcasts with the losses.
    LZ_OPTION(Tensor, weight, {});
    /// What positive targets count; broadcasts with the losses.
    LZ_OPTION(Tensor, pos_weight, {});
};
/// What KLDivLoss is made of.
struct KLDivLossOptions : ReductionOption<KLDivLossOptions> {
    /// With this reduction.
    KLDivLossOptions(Reduction value = Reduction::Mean) { reduction(value); } // NOLINT: converts
    /// Whether targets are logarithms, too.
    LZ_OPTION(bool, log_target, false);
};
/// What CosineEmbeddingLoss is made of.
struct CosineEmbeddingLossOptions : ReductionOption<CosineEmbeddingLossOptions> {
    /// The cosine below which vectors are apart.
    LZ_OPTION(double, margin, 0);
};
/// What TripletMarginLoss is made of.
struct TripletMarginLossOptions : ReductionOption<TripletMarginLossOptions> {
    /// How much farther the negative one has to be.
    LZ_OPTION(double, margin, 1);
    /// The norm of distances.
    LZ_OPTION(double, p, 2);
    /// Added to differences.
    LZ_OPTION(double, eps, 1e-6);
    /// Whether the distance of positive and negative counts where it is the smaller one.
    LZ_OPTION(bool, swap, false);
};
/// What MarginRankingLoss is made of.
struct MarginRankingLossOptions : ReductionOption<MarginRankingLossOptions> {
    /// How far one has to be above the other.
    LZ_OPTION(double, margin, 0);
};
/// What HingeEmbeddingLoss is made of.
struct HingeEmbeddingLossOptions : ReductionOption<HingeEmbeddingLossOptions> {
    /// The distance above which inputs are apart.
    LZ_OPTION(double, margin, 1);
};
/// What PoissonNLLLoss is made of.
struct PoissonNLLLossOptions : ReductionOption<PoissonNLLLossOptions> {
    /// Whether inputs are logarithms of rates.
    LZ_OPTION(bool, log_input, true);
    /// Whether Stirling's formula is added.
    LZ_OPTION(bool, full, false);
    /// Added to rates before their logarithm.
    LZ_OPTION(double, eps, 1e-8);
};
/// What GaussianNLLLoss is made of.
struct GaussianNLLLossOptions : ReductionOption<GaussianNLLLossOptions> {
    /// Whether log(2 pi) / 2 is added.
    LZ_OPTION(bool, full, false);
    /// The least variance.
    LZ_OPTION(double, eps, 1e-6);
};
/// What CTCLoss is made of.
struct CTCLossOptions : ReductionOption<CTCLossOptions> {
    /// The class that is none.
    LZ_OPTION(int64_t, blank, 0);
    /// Whether targets that do not fit count for nothing.
    LZ_OPTION(bool, zero_infinity, false);
};

/// Base of losses.
template <class Derived, class Options>
class Loss : public Cloneable<Derived> {
public:
    /// By options.
    explicit Loss(const Options &options = {}) : options(options) {}
    /// There is nothing to register.
    void reset() override {}

    /// As given.
    Options options;
};

#define LZ_LOSS(Name, ...)                                                                                   \
    class LZ_API Name##Impl : public Loss<Name##Impl, Name##Options> {                                       \
    public:                                                                                                  \
        using Loss<Name##Impl, Name##Options>::Loss;                                                         \
        /** The function with these options. */                                                              \
        Tensor forward(__VA_ARGS__, Location loc = Location::current());                                     \
    };                                                                                                       \
    LZ_MODULE(Name)

/// As functional::l1_loss.
LZ_LOSS(L1Loss, const Tensor &x, const Tensor &target);
/// As lz::mse_loss.
LZ_LOSS(MSELoss, const Tensor &x, const Tensor &target);
/// As functional::smooth_l1_loss.
LZ_LOSS(SmoothL1Loss, const Tensor &x, const Tensor &target);
/// As functional::huber_loss.
LZ_LOSS(HuberLoss, const Tensor &x, const Tensor &target);
/// As functional::kl_div.
LZ_LOSS(KLDivLoss, const Tensor &x, const Tensor &target);
/// As functional::cosine_embedding_loss.
LZ_LOSS(CosineEmbeddingLoss, const Tensor &x1, const Tensor &x2, const Tensor &target);
/// As functional::triplet_margin_loss.
LZ_LOSS(TripletMarginLoss, const Tensor &anchor, const Tensor &positive, const Tensor &negative);
/// As functional::margin_ranking_loss.
LZ_LOSS(MarginRankingLoss, const Tensor &x1, const Tensor &x2, const Tensor &target);
/// As functional::hinge_embedding_loss.
LZ_LOSS(HingeEmbeddingLoss, const Tensor &x, const Tensor &target);
/// As functional::soft_margin_loss.
LZ_LOSS(SoftMarginLoss, const Tensor &x, const Tensor &target);
/// As functional::poisson_nll_loss.
LZ_LOSS(PoissonNLLLoss, const Tensor &x, const Tensor &target);
/// As functional::gaussian_nll_loss.
LZ_LOSS(GaussianNLLLoss, const Tensor &x, const Tensor &target, const Tensor &variance);
/// As lz::ctc_loss.
LZ_LOSS(CTCLoss, const Tensor &log_probs, const Tensor &targets, const Tensor &input_lengths,
        const Tensor &target_lengths);
#undef LZ_LOSS

#define LZ_WEIGHTED_LOSS(Name)                                                                               \
    class LZ_API Name##Impl : public Loss<Name##Impl, Name##Options> {                                       \
    public:                                                                                                  \
        /** By options. */                                                                                   \
        explicit Name##Impl(const Name##Options &options = {});                                              \
        void reset() override;                                                                               \
        /** The function with these options. */                                                              \
        Tensor forward(const Tensor &x, const Tensor &target, Location loc = Location::current());           \
        /** A buffer, or undefined. */                                                                       \
        Tensor weight;                                                                                       \
    };                                                                                                       \
    LZ_MODULE(Name)

/// As lz::cross_entropy. `weight` is a buffer, or undefined.
LZ_WEIGHTED_LOSS(CrossEntropyLoss);
/// As lz::nll_loss. `weight` is a buffer, or undefined.
LZ_WEIGHTED_LOSS(NLLLoss);
/// As functional::binary_cross_entropy. `weight` is a buffer, or undefined.
LZ_WEIGHTED_LOSS(BCELoss);
#undef LZ_WEIGHTED_LOSS

/// As functional::binary_cross_entropy_with_logits.
class LZ_API BCEWithLogitsLossImpl : public Loss<BCEWithLogitsLossImpl, BCEWithLogitsLossOptions> {
public:
    /// By options.
    explicit BCEWithLogitsLossImpl(const BCEWithLogitsLossOptions &options = {});
    void reset() override;
    /// As functional::binary_cross_entropy_with_logits.
    Tensor forward(const Tensor &x, const Tensor &target, Location loc = Location::current());

    /// A buffer, or undefined.
    Tensor weight;
    /// A buffer, or undefined.
    Tensor pos_weight;
};
/// Holds a BCEWithLogitsLossImpl.
LZ_MODULE(BCEWithLogitsLoss);

} // namespace nn
} // namespace lz
