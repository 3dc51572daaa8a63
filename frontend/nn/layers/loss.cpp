#include "lazuli/nn/loss.h"

#include "lazuli/lazuli.h"

#include <fmt/format.h>

namespace lz::nn {

namespace {

/// A tensor of the module's own, which moves without the user's.
Tensor own(const Tensor &given) {
    return given.defined() ? given.detach() : given;
}

} // namespace

Reduction detail::reduction_of(std::string_view name, Location loc) {
    if (name == "none")
        return Reduction::None;
    if (name == "mean")
        return Reduction::Mean;
    if (name == "sum")
        return Reduction::Sum;
    if (name == "batchmean")
        return Reduction::BatchMean;
    throw StateError(fmt::format("the reduction \"{}\" is unknown; it is \"none\", \"mean\", \"sum\", or for "
                                 "kl_div \"batchmean\"",
                                 name),
                     loc);
}

Tensor L1LossImpl::forward(const Tensor &x, const Tensor &target, Location loc) {
    return functional::l1_loss(x, target, options.reduction(), loc);
}
Tensor MSELossImpl::forward(const Tensor &x, const Tensor &target, Location loc) {
    return mse_loss(x, target, options.reduction(), loc);
}
Tensor SmoothL1LossImpl::forward(const Tensor &x, const Tensor &target, Location loc) {
    return functional::smooth_l1_loss(x, target, options.reduction(), options.beta(), loc);
}
Tensor HuberLossImpl::forward(const Tensor &x, const Tensor &target, Location loc) {
    return functional::huber_loss(x, target, options.reduction(), options.delta(), loc);
}
Tensor KLDivLossImpl::forward(const Tensor &x, const Tensor &target, Location loc) {
    return functional::kl_div(x, target, options.reduction(), options.log_target(), loc);
}
Tensor CosineEmbeddingLossImpl::forward(const Tensor &x1, const Tensor &x2, const Tensor &target,
                                        Location loc) {
    return functional::cosine_embedding_loss(x1, x2, target, options.margin(), options.reduction(), loc);
}
Tensor TripletMarginLossImpl::forward(const Tensor &anchor, const Tensor &positive, const Tensor &negative,
                                      Location loc) {
    return functional::triplet_margin_loss(anchor, positive, negative, options.margin(), options.p(),
                                           options.eps(), options.swap(), options.reduction(), loc);
}
Tensor MarginRankingLossImpl::forward(const Tensor &x1, const Tensor &x2, const Tensor &target,
                                      Location loc) {
    return functional::margin_ranking_loss(x1, x2, target, options.margin(), options.reduction(), loc);
}
Tensor HingeEmbeddingLossImpl::forward(const Tensor &x, const Tensor &target, Location loc) {
    return functional::hinge_embedding_loss(x, target, options.margin(), options.reduction(), loc);
}
Tensor SoftMarginLossImpl::forward(const Tensor &x, const Tensor &target, Location loc) {
    return functional::soft_margin_loss(x, target, options.reduction(), loc);
}
Tensor PoissonNLLLossImpl::forward(const Tensor &x, const Tensor &target, Location loc) {
    return functional::poisson_nll_loss(x, target, options.log_input(), options.full(), options.eps(),
                                        options.reduction(), loc);
}
Tensor GaussianNLLLossImpl::forward(const Tensor &x, const Tensor &target, const Tensor &variance,
                                    Location loc) {
    return functional::gaussian_nll_loss(x, target, variance, options.full(), options.eps(),
                                         options.reduction(), loc);
}

Tensor CTCLossImpl::forward(const Tensor &log_probs, const Tensor &targets, const Tensor &input_lengths,
                            const Tensor &target_lengths, Location loc) {
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, options.blank(), options.reduction(),
                    options.zero_infinity(), loc);
}

CrossEntropyLossImpl::CrossEntropyLossImpl(const CrossEntropyLossOptions &given) : Loss(given) {
    CrossEntropyLossImpl::reset();
}
void CrossEntropyLossImpl::reset() {
    weight = register_buffer("weight", own(options.weight()));
}
Tensor CrossEntropyLossImpl::forward(const Tensor &x, const Tensor &target, Location loc) {
    return cross_entropy(x, target,
                         {.weight = weight,
                          .reduction = options.reduction(),
                          .ignore_index = options.ignore_index(),
                          .label_smoothing = options.label_smoothing()},
                         loc);
}

NLLLossImpl::NLLLossImpl(const NLLLossOptions &given) : Loss(given) {
    NLLLossImpl::reset();
}
void NLLLossImpl::reset() {
    weight = register_buffer("weight", own(options.weight()));
}
Tensor NLLLossImpl::forward(const Tensor &x, const Tensor &target, Location loc) {
    return nll_loss(
        x, target,
        {.weight = weight, .reduction = options.reduction(), .ignore_index = options.ignore_index()}, loc);
}

BCELossImpl::BCELossImpl(const BCELossOptions &given) : Loss(given) {
    BCELossImpl::reset();
}
void BCELossImpl::reset() {
    weight = register_buffer("weight", own(options.weight()));
}
Tensor BCELossImpl::forward(const Tensor &x, const Tensor &target, Location loc) {
    return functional::binary_cross_entropy(x, target, weight, options.reduction(), loc);
}

BCEWithLogitsLossImpl::BCEWithLogitsLossImpl(const BCEWithLogitsLossOptions &given) : Loss(given) {
    BCEWithLogitsLossImpl::reset();
}
void BCEWithLogitsLossImpl::reset() {
    weight = register_buffer("weight", own(options.weight()));
    pos_weight = register_buffer("pos_weight", own(options.pos_weight()));
}
Tensor BCEWithLogitsLossImpl::forward(const Tensor &x, const Tensor &target, Location loc) {
    return functional::binary_cross_entropy_with_logits(x, target, weight, options.reduction(), pos_weight,
                                                        loc);
}

} // namespace lz::nn
