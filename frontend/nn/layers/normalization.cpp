#include "lazuli/nn/normalization.h"

#include "frontend/nn/layers/parameters.h"

#include <fmt/format.h>

namespace lz::nn {

using detail::text;

// --- functions

namespace functional {

namespace {

/// One value a channel, to stand beside [n, channels, ...].
Tensor beside(const Tensor &channels, int64_t rank, Location loc) {
    Sizes sizes(std::vector<int64_t>(static_cast<size_t>(rank), 1));
    sizes[1] = channels.numel(loc);
    return channels.reshape(sizes, loc);
}

/// x * weight + bias, of which either may be left out.
Tensor scaled(Tensor x, const Tensor &weight, const Tensor &bias, Location loc) {
    const int64_t rank = x.dim(loc);
    if (weight.defined())
        x = mul(std::move(x), beside(weight, rank, loc), loc);
    if (bias.defined())
        x = add(std::move(x), beside(bias, rank, loc), loc);
    return x;
}

bool is_half(DType dtype) {
    return dtype == f16 || dtype == bf16;
}

void check_channels(const Tensor &of, int64_t channels, const char *function, const char *what,
                    Location loc) {
    if (of.defined() && (of.dim(loc) != 1 || of.size(0, loc) != channels))
        throw ShapeError(fmt::format("{}: {} has shape {}, and axis 1 of the input extent {}", function, what,
                                     text(of.sizes(loc)), channels),
                         loc);
}

} // namespace

Tensor group_norm(const Tensor &x, int64_t num_groups, const Tensor &weight, const Tensor &bias, double eps,
                  Location loc) {
    if (x.dim(loc) < 2)
        throw ShapeError(fmt::format("group_norm: the input has {} axes; it needs 2 or more", x.dim(loc)),
                         loc);
    const int64_t n = x.size(0), channels = x.size(1);
    if (num_groups < 1 || channels % num_groups != 0)
        throw ShapeError(
            fmt::format("group_norm: {} channels are not divided by {} groups", channels, num_groups), loc);
    check_channels(weight, channels, "group_norm", "the weight", loc);
    check_channels(bias, channels, "group_norm", "the bias", loc);
    const DType dtype = x.dtype(loc);
    if (!is_floating_point(dtype))
        throw DTypeError(fmt::format("group_norm: the input must be floats, not {}", lz::name(dtype)), loc);
    const Tensor v = is_half(dtype) ? x.to(f32, loc) : x;
    if (x.numel() == 0) { // no group has a mean
        const Tensor none = scaled(v, weight, bias, loc);
        return is_half(dtype) ? none.to(dtype, loc) : none;
    }
    const Tensor rows = v.reshape({n, num_groups, -1}, loc);
    // What is the same for all places of a channel is computed once for each of them: then the loop over
    // places has nothing but numbers, where rows of several channels would ask for each element which one it
    // is of.
    Sizes ones(std::vector<int64_t>(static_cast<size_t>(x.dim(loc)), 1));
    ones[0] = n, ones[1] = channels;
    const auto beside_places = [&](const Tensor &of) {
        return of.expand({n, num_groups, channels / num_groups}, loc).reshape(ones, loc);
    };
    const auto by_groups = [&](const Tensor &of) {
        return of.reshape({1, num_groups, channels / num_groups}, loc);
    };
    Tensor scale = rsqrt(add(rows.var({-1}, 0, true, loc), eps, loc), loc);
    if (weight.defined())
        scale = mul(scale, by_groups(weight), loc);
    Tensor y =
        mul(sub(v, beside_places(rows.mean(-1, true, std::nullopt, loc)), loc), beside_places(scale), loc);
    if (bias.defined())
        y = add(std::move(y), beside_places(by_groups(bias)), loc);
    return is_half(dtype) ? y.to(dtype, loc) : y;
}

Tensor batch_norm(const Tensor &x, const Tensor &running_mean, const Tensor &running_var,
                  const Tensor &weight, const Tensor &bias, bool training, const Scalar &momentum, double eps,
                  Location loc) {
    const int64_t rank = x.dim(loc);
    if (rank < 2)
        throw ShapeError(fmt::format("batch_norm: the input has {} axes; it needs 2 or more", rank), loc);
    const int64_t channels = x.size(1), count = channels > 0 ? x.numel() / channels : 0;
    check_channels(running_mean, channels, "batch_norm", "running_mean", loc);
    check_channels(running_var, channels, "batch_norm", "running_var", loc);
    check_channels(weight, channels, "batch_norm", "the weight", loc);
    check_channels(bias, channels, "batch_norm", "the bias", loc);
    if (!training && running_mean.defined() != running_var.defined())
        throw StateError("batch_norm: of running_mean and running_var one is there and one is not", loc);
    const DType dtype = x.dtype(loc);
    const Tensor v = is_half(dtype) ? x.to(f32, loc) : x;
    Tensor mean = running_mean, variance = running_var;
    if (training || !mean.defined()) {
        if (training && count == 1)
            throw ShapeError(fmt::format("batch_norm: the batch {} has 1 value a channel; to train on it "
                                         "takes more",
                                         text(x.sizes(loc))),
                             loc);
        Sizes axes;
        for (int64_t axis = 0; axis < rank; ++axis)
            if (axis != 1)
                axes.push_back(axis);
        mean = v.mean(axes, false, std::nullopt, loc);
        variance = v.var(axes, 0, false, loc);
        if (training && running_mean.defined() && count > 0) {
            const NoGradGuard no_grad;
            // By Bessel's correction: what is estimated is the variance of all that there is.
            const double corrected = static_cast<double>(count) / static_cast<double>(count - 1);
            const auto follow = [&](const Tensor &running, const Tensor &now) {
                Tensor handle = running;
                handle.add_(mul(sub(now.detach(loc), running, loc), momentum, loc), loc);
            };
            follow(running_mean, mean);
            follow(running_var, mul(variance.detach(loc), corrected, loc));
        }
    }
    Tensor scale = rsqrt(add(variance, eps, loc), loc);
    Tensor y = mul(sub(v, beside(mean, rank, loc), loc), beside(scale, rank, loc), loc);
    y = scaled(std::move(y), weight, bias, loc);
    return y.dtype() == dtype ? y : y.to(dtype, loc);
}

Tensor normalize(const Tensor &x, double p, int64_t dim, double eps, Location loc) {
    return div(x, clamp(norm(x, p, {dim}, true, loc), eps, std::nullopt, loc), loc);
}

} // namespace functional

// --- LayerNorm

namespace {

void check_shape(const Sizes &sizes, const char *layer, Location loc) {
    for (const int64_t extent : sizes)
        detail::check_extent(extent, layer, "an extent of normalized_shape", loc);
}

} // namespace

LayerNormImpl::LayerNormImpl(const Sizes &normalized_shape, double eps, bool elementwise_affine, bool bias,
                             Location loc)
    : LayerNormImpl(
          LayerNormOptions(normalized_shape).eps(eps).elementwise_affine(elementwise_affine).bias(bias),
          loc) {}

LayerNormImpl::LayerNormImpl(const LayerNormOptions &given, Location loc) : options(given) {
    check_shape(options.normalized_shape(), "LayerNorm", loc);
    const detail::Constructing here(loc);
    LayerNormImpl::reset();
}

void LayerNormImpl::reset() {
    const bool affine = options.elementwise_affine();
    weight = affine ? empty(options.normalized_shape()) : Tensor();
    bias = affine && options.bias() ? empty(options.normalized_shape()) : Tensor();
    register_parameter("weight", weight);
    register_parameter("bias", bias);
    reset_parameters();
}

void LayerNormImpl::reset_parameters() {
    detail::fill(weight, 1);
    detail::fill(bias, 0);
}

Tensor LayerNormImpl::forward(const Tensor &x, Location loc) {
    return layer_norm(x, options.normalized_shape(), weight, bias, options.eps(), loc);
}

std::string LayerNormImpl::extra_repr() const {
    return text(options.normalized_shape()) + ", eps=" + text(options.eps()) +
           ", elementwise_affine=" + text(options.elementwise_affine()) + ", bias=" + text(bias.defined());
}

// --- RMSNorm

RMSNormImpl::RMSNormImpl(const Sizes &normalized_shape, std::optional<double> eps, bool elementwise_affine,
                         Location loc)
    : RMSNormImpl(RMSNormOptions(normalized_shape).eps(eps).elementwise_affine(elementwise_affine), loc) {}

RMSNormImpl::RMSNormImpl(const RMSNormOptions &given, Location loc) : options(given) {
    check_shape(options.normalized_shape(), "RMSNorm", loc);
    const detail::Constructing here(loc);
    RMSNormImpl::reset();
}

void RMSNormImpl::reset() {
    weight = options.elementwise_affine() ? empty(options.normalized_shape()) : Tensor();
    register_parameter("weight", weight);
    reset_parameters();
}

void RMSNormImpl::reset_parameters() {
    detail::fill(weight, 1);
}

Tensor RMSNormImpl::forward(const Tensor &x, Location loc) {
    return rms_norm(x, options.normalized_shape(), weight, options.eps(), loc);
}

std::string RMSNormImpl::extra_repr() const {
    return text(options.normalized_shape()) + ", eps=" + (options.eps() ? text(*options.eps()) : "None") +
           ", elementwise_affine=" + text(options.elementwise_affine());
}

// --- GroupNorm

GroupNormImpl::GroupNormImpl(int64_t num_groups, int64_t num_channels, Location loc)
    : GroupNormImpl(GroupNormOptions(num_groups, num_channels), loc) {}

GroupNormImpl::GroupNormImpl(int64_t num_groups, int64_t num_channels, double eps, bool affine, Location loc)
    : GroupNormImpl(GroupNormOptions(num_groups, num_channels).eps(eps).affine(affine), loc) {}

GroupNormImpl::GroupNormImpl(const GroupNormOptions &given, Location loc) : options(given) {
    detail::check_extent(options.num_channels(), "GroupNorm", "num_channels", loc);
    if (options.num_groups() < 1 || options.num_channels() % options.num_groups() != 0)
        throw ShapeError(fmt::format("GroupNorm: {} channels are not divided by {} groups",
                                     options.num_channels(), options.num_groups()),
                         loc);
    const detail::Constructing here(loc);
    GroupNormImpl::reset();
}

void GroupNormImpl::reset() {
    weight = options.affine() ? empty({options.num_channels()}) : Tensor();
    bias = options.affine() && options.bias() ? empty({options.num_channels()}) : Tensor();
    register_parameter("weight", weight);
    register_parameter("bias", bias);
    reset_parameters();
}

void GroupNormImpl::reset_parameters() {
    detail::fill(weight, 1);
    detail::fill(bias, 0);
}

Tensor GroupNormImpl::forward(const Tensor &x, Location loc) {
    if (x.dim(loc) < 2 || x.size(1) != options.num_channels())
        throw ShapeError(fmt::format("GroupNorm: the input is {}; axis 1 needs extent {}", text(x.sizes(loc)),
                                     options.num_channels()),
                         loc);
    return functional::group_norm(x, options.num_groups(), weight, bias, options.eps(), loc);
}

std::string GroupNormImpl::extra_repr() const {
    return fmt::format("{}, {}, eps={}, affine={}, bias={}", options.num_groups(), options.num_channels(),
                       text(options.eps()), text(options.affine()), text(bias.defined()));
}

// --- BatchNorm

BatchNormBase::BatchNormBase(const BatchNormOptions &given, const char *layer, Location loc)
    : options(given) {
    detail::check_extent(options.num_features(), layer, "num_features", loc);
    const detail::Constructing here(loc);
    register_all();
}

void BatchNormBase::register_all() {
    const Sizes channels = {options.num_features()};
    weight = options.affine() ? empty(channels) : Tensor();
    bias = options.affine() && options.bias() ? empty(channels) : Tensor();
    const bool tracks = options.track_running_stats();
    running_mean = tracks ? empty(channels) : Tensor();
    running_var = tracks ? empty(channels) : Tensor();
    num_batches_tracked = tracks ? zeros({}, {.dtype = i64}) : Tensor();
    register_parameter("weight", weight);
    register_parameter("bias", bias);
    register_buffer("running_mean", running_mean);
    register_buffer("running_var", running_var);
    register_buffer("num_batches_tracked", num_batches_tracked);
    reset_parameters();
}

void BatchNormBase::reset_running_stats() {
    detail::fill(running_mean, 0);
    detail::fill(running_var, 1);
    detail::fill(num_batches_tracked, 0);
}

void BatchNormBase::reset_parameters() {
    reset_running_stats();
    detail::fill(weight, 1);
    detail::fill(bias, 0);
}

Tensor BatchNormBase::normalized(const Tensor &x, int64_t least_rank, int64_t most_rank, Location loc) {
    const int64_t rank = x.dim(loc);
    if (rank < least_rank || rank > most_rank)
        throw ShapeError(fmt::format("{}: the input {} has {} axes; it needs {}{}", name(),
                                     text(x.sizes(loc)), rank, least_rank,
                                     most_rank == least_rank ? "" : fmt::format(" or {}", most_rank)),
                         loc);
    const bool own = is_training() || !running_mean.defined();
    const bool follows = is_training() && running_mean.defined();
    if (!follows || options.momentum()) {
        Tensor y = functional::batch_norm(x, running_mean, running_var, weight, bias, own,
                                          options.momentum().value_or(0), options.eps(), loc);
        if (follows)
            num_batches_tracked.add_(1, loc);
        return y;
    }
    // The mean of all batches: the batch's statistics by themselves, and a part that nobody has to read here.
    Tensor mean = zeros_like(running_mean, {}, loc), variance = zeros_like(running_var, {}, loc);
    Tensor y = functional::batch_norm(x, mean, variance, weight, bias, true, 1, options.eps(), loc);
    const NoGradGuard no_grad;
    num_batches_tracked.add_(1, loc);
    const Tensor part = div(1, num_batches_tracked.to(running_mean.dtype(), loc), loc);
    running_mean.add_(mul(sub(mean, running_mean, loc), part, loc), loc);
    running_var.add_(mul(sub(variance, running_var, loc), part, loc), loc);
    return y;
}

void BatchNormBase::copy_from(const BatchNormBase &other, const OptionalDevice &device, Location loc) {
    finish_clone(other, device, loc);
}

std::string BatchNormBase::extra_repr() const {
    return fmt::format("{}, eps={}, momentum={}, affine={}, bias={}, track_running_stats={}",
                       options.num_features(), text(options.eps()),
                       options.momentum() ? text(*options.momentum()) : "None", text(options.affine()),
                       text(bias.defined()), text(options.track_running_stats()));
}

BatchNorm1dImpl::BatchNorm1dImpl(const BatchNormOptions &given, Location loc)
    : BatchNormOfRank(given, "BatchNorm1d", loc) {}
BatchNorm2dImpl::BatchNorm2dImpl(const BatchNormOptions &given, Location loc)
    : BatchNormOfRank(given, "BatchNorm2d", loc) {}
BatchNorm3dImpl::BatchNorm3dImpl(const BatchNormOptions &given, Location loc)
    : BatchNormOfRank(given, "BatchNorm3d", loc) {}

} // namespace lz::nn
