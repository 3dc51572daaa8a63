#pragma once
/// Normalization over features, groups or a batch.

#include "lazuli/nn/module_holder.h"

#include <optional>

namespace lz {
namespace nn {

namespace functional {

/// Over the channels of each group (axis 1) and all axes behind, then times weight and plus bias of each
/// channel, which may be left out. Throws ShapeError where the groups do not divide the channels, and
/// DTypeError for other than floats.
LZ_API Tensor group_norm(const Tensor &x, int64_t num_groups, const Tensor &weight = {},
                         const Tensor &bias = {}, double eps = 1e-5, Location loc = Location::current());
/// Over all axes but the channels' (axis 1): by the batch's own mean and variance if `training` or where
/// there are no running ones, which `training` moves by `momentum` towards the batch's; else by the running
/// ones. Throws ShapeError for a batch of one value a channel that is trained on.
LZ_API Tensor batch_norm(const Tensor &x, const Tensor &running_mean, const Tensor &running_var,
                         const Tensor &weight = {}, const Tensor &bias = {}, bool training = false,
                         const Scalar &momentum = 0.1, double eps = 1e-5, Location loc = Location::current());
/// x divided by its p-norm along an axis, which counts as at least eps.
LZ_API Tensor normalize(const Tensor &x, double p = 2, int64_t dim = 1, double eps = 1e-12,
                        Location loc = Location::current());

} // namespace functional

/// What LayerNorm is made of.
struct LayerNormOptions {
    /// Over the last axes of these extents.
    explicit LayerNormOptions(const std::vector<int64_t> &normalized_shape)
        : normalized_shape_(normalized_shape) {}
    /// The extents of the last axes.
    LZ_OPTION(Sizes, normalized_shape, {});
    /// Added to the variance.
    LZ_OPTION(double, eps, 1e-5);
    /// Whether there are a weight and a bias.
    LZ_OPTION(bool, elementwise_affine, true);
    /// Whether there is a bias beside the weight.
    LZ_OPTION(bool, bias, true);
};

/// As lz::layer_norm.
class LZ_API LayerNormImpl : public Cloneable<LayerNormImpl> {
public:
    /// Over the last axes of these extents. Throws ShapeError for a negative extent.
    LayerNormImpl(const Sizes &normalized_shape, double eps = 1e-5, bool elementwise_affine = true,
                  bool bias = true, Location loc = Location::current());
    /// The same by options.
    explicit LayerNormImpl(const LayerNormOptions &options, Location loc = Location::current());
    void reset() override;
    /// Weight 1, bias 0.
    void reset_parameters();
    /// The same shape.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;

    /// As given.
    LayerNormOptions options;
    /// normalized_shape; empty where there is none.
    Tensor weight;
    /// normalized_shape; empty where there is none.
    Tensor bias;
};
/// Holds a LayerNormImpl.
LZ_MODULE(LayerNorm);

/// What RMSNorm is made of.
struct RMSNormOptions {
    /// Over the last axes of these extents.
    explicit RMSNormOptions(const std::vector<int64_t> &normalized_shape)
        : normalized_shape_(normalized_shape) {}
    /// The extents of the last axes.
    LZ_OPTION(Sizes, normalized_shape, {});
    /// Added to the mean of squares; without it the distance from 1 to the next number of the input's dtype.
    LZ_OPTION(std::optional<double>, eps, std::nullopt);
    /// Whether there is a weight.
    LZ_OPTION(bool, elementwise_affine, true);
};

/// As lz::rms_norm.
class LZ_API RMSNormImpl : public Cloneable<RMSNormImpl> {
public:
    /// Over the last axes of these extents. Throws ShapeError for a negative extent.
    RMSNormImpl(const Sizes &normalized_shape, std::optional<double> eps = std::nullopt,
                bool elementwise_affine = true, Location loc = Location::current());
    /// The same by options.
    explicit RMSNormImpl(const RMSNormOptions &options, Location loc = Location::current());
    void reset() override;
    /// Weight 1.
    void reset_parameters();
    /// The same shape.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;

    /// As given.
    RMSNormOptions options;
    /// normalized_shape; empty where there is none.
    Tensor weight;
};
/// Holds an RMSNormImpl.
LZ_MODULE(RMSNorm);

/// What GroupNorm is made of.
struct GroupNormOptions {
    /// So many channels in so many groups.
    GroupNormOptions(int64_t num_groups, int64_t num_channels)
        : num_groups_(num_groups), num_channels_(num_channels) {}
    /// How many groups the channels are in.
    LZ_OPTION(int64_t, num_groups, 1);
    /// Extent of axis 1.
    LZ_OPTION(int64_t, num_channels, 0);
    /// Added to the variance.
    LZ_OPTION(double, eps, 1e-5);
    /// Whether there are a weight and a bias.
    LZ_OPTION(bool, affine, true);
    /// Whether there is a bias beside the weight.
    LZ_OPTION(bool, bias, true);
};

/// As functional::group_norm.
class LZ_API GroupNormImpl : public Cloneable<GroupNormImpl> {
public:
    /// Throws ShapeError where the groups do not divide the channels.
    GroupNormImpl(int64_t num_groups, int64_t num_channels, Location loc = Location::current());
    /// The same with an eps, and without weight and bias if `affine` is false.
    GroupNormImpl(int64_t num_groups, int64_t num_channels, double eps, bool affine = true,
                  Location loc = Location::current());
    /// The same by options.
    explicit GroupNormImpl(const GroupNormOptions &options, Location loc = Location::current());
    void reset() override;
    /// Weight 1, bias 0.
    void reset_parameters();
    /// [n, num_channels, ...]; the same shape.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;

    /// As given.
    GroupNormOptions options;
    /// [num_channels]; empty where there is none.
    Tensor weight;
    /// [num_channels]; empty where there is none.
    Tensor bias;
};
/// Holds a GroupNormImpl.
LZ_MODULE(GroupNorm);

/// What batch norms are made of.
struct BatchNormOptions {
    /// Of so many channels.
    BatchNormOptions(int64_t num_features) : num_features_(num_features) {} // NOLINT: converts
    /// Extent of axis 1.
    LZ_OPTION(int64_t, num_features, 0);
    /// Added to the variance.
    LZ_OPTION(double, eps, 1e-5);
    /// How fast the running statistics follow; without it they are the mean of all batches.
    LZ_OPTION(std::optional<double>, momentum, 0.1);
    /// Whether there are a weight and a bias.
    LZ_OPTION(bool, affine, true);
    /// Whether there is a bias beside the weight.
    LZ_OPTION(bool, bias, true);
    /// Whether there are running statistics.
    LZ_OPTION(bool, track_running_stats, true);
};
/// What BatchNorm1d is made of.
using BatchNorm1dOptions = BatchNormOptions;
/// What BatchNorm2d is made of.
using BatchNorm2dOptions = BatchNormOptions;
/// What BatchNorm3d is made of.
using BatchNorm3dOptions = BatchNormOptions;

/// What batch norms have in common: as functional::batch_norm. In training mode, or where there are no
/// running statistics, by the batch's own.
class LZ_API BatchNormBase : public Module {
public:
    /// Registers parameters and buffers.
    void register_all();
    /// Statistics of nothing: mean 0, variance 1.
    void reset_running_stats();
    /// The same, and weight 1, bias 0.
    void reset_parameters();
    /// As PyTorch prints it.
    std::string extra_repr() const override;

    /// As given.
    BatchNormOptions options;
    /// [num_features]; empty where there is none.
    Tensor weight;
    /// [num_features]; empty where there is none.
    Tensor bias;
    /// [num_features], a buffer; empty where there is none.
    Tensor running_mean;
    /// [num_features], a buffer; empty where there is none.
    Tensor running_var;
    /// How many batches it was trained on, i64, a buffer; empty where there is none.
    Tensor num_batches_tracked;

protected:
    /// Throws ShapeError for a negative number of features.
    BatchNormBase(const BatchNormOptions &options, const char *layer, Location loc);
    /// Throws ShapeError for a rank that is not among these.
    Tensor normalized(const Tensor &x, int64_t least_rank, int64_t most_rank, Location loc);
    /// A module of its own with the same values.
    void copy_from(const BatchNormBase &other, const OptionalDevice &device, Location loc);
};

/// Base of batch norms of a rank.
template <class Derived, int64_t least_rank, int64_t most_rank>
class BatchNormOfRank : public BatchNormBase {
public:
    /// [n, num_features, ...]; the same shape. Throws ShapeError for another rank.
    Tensor forward(const Tensor &x, Location loc = Location::current()) {
        return normalized(x, least_rank, most_rank, loc);
    }
    /// A module of its own with the same values.
    std::shared_ptr<Module> clone(const OptionalDevice &device = std::nullopt,
                                  Location loc = Location::current()) const override {
        auto copy = std::make_shared<Derived>(options, loc);
        copy->copy_from(*this, device, loc);
        return copy;
    }

protected:
    using BatchNormBase::BatchNormBase;
};

/// Over [n, num_features] or [n, num_features, length].
class LZ_API BatchNorm1dImpl : public BatchNormOfRank<BatchNorm1dImpl, 2, 3> {
public:
    /// By options, or of the number of channels.
    explicit BatchNorm1dImpl(const BatchNormOptions &options, Location loc = Location::current());
};
/// Holds a BatchNorm1dImpl.
LZ_MODULE(BatchNorm1d);
/// Over [n, num_features, height, width].
class LZ_API BatchNorm2dImpl : public BatchNormOfRank<BatchNorm2dImpl, 4, 4> {
public:
    /// By options, or of the number of channels.
    explicit BatchNorm2dImpl(const BatchNormOptions &options, Location loc = Location::current());
};
/// Holds a BatchNorm2dImpl.
LZ_MODULE(BatchNorm2d);
/// Over [n, num_features, depth, height, width].
class LZ_API BatchNorm3dImpl : public BatchNormOfRank<BatchNorm3dImpl, 5, 5> {
public:
    /// By options, or of the number of channels.
    explicit BatchNorm3dImpl(const BatchNormOptions &options, Location loc = Location::current());
};
/// Holds a BatchNorm3dImpl.
LZ_MODULE(BatchNorm3d);

} // namespace nn
} // namespace lz
