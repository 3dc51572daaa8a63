#pragma once
/// Linear layers, and modules that change shapes.

#include "lazuli/nn/module_holder.h"

namespace lz {
namespace nn {

namespace functional {

/// x1^T W_o x2 + b_o for each output o: of [..., in1], [..., in2], [out, in1, in2] and [out], which may be
/// left out.
LZ_API Tensor bilinear(const Tensor &x1, const Tensor &x2, const Tensor &weight, const Tensor &bias = {},
                       Location loc = Location::current());

} // namespace functional

/// What Linear is made of.
struct LinearOptions {
    /// With a bias.
    LinearOptions(int64_t in_features, int64_t out_features)
        : in_features_(in_features), out_features_(out_features) {}
    /// Extent of the input's last axis.
    LZ_OPTION(int64_t, in_features, 0);
    /// Extent of the result's last axis.
    LZ_OPTION(int64_t, out_features, 0);
    /// Whether there is a bias.
    LZ_OPTION(bool, bias, true);
};

/// x W^T + b.
class LZ_API LinearImpl : public Cloneable<LinearImpl> {
public:
    /// Throws ShapeError for a negative number of features.
    LinearImpl(int64_t in_features, int64_t out_features, Location loc = Location::current());
    /// The same, without a bias if `bias` is false.
    LinearImpl(int64_t in_features, int64_t out_features, bool bias, Location loc = Location::current());
    /// The same by options.
    explicit LinearImpl(const LinearOptions &options, Location loc = Location::current());
    void reset() override;
    /// New random values: uniform within 1 / sqrt(in_features).
    void reset_parameters();
    /// [..., in_features] gives [..., out_features].
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;

    /// As given.
    LinearOptions options;
    /// [out_features, in_features]
    Tensor weight;
    /// [out_features]; empty where there is none.
    Tensor bias;
};
/// Holds a LinearImpl.
LZ_MODULE(Linear);

/// What Bilinear is made of.
struct BilinearOptions {
    /// With a bias.
    BilinearOptions(int64_t in1_features, int64_t in2_features, int64_t out_features)
        : in1_features_(in1_features), in2_features_(in2_features), out_features_(out_features) {}
    /// Extent of the first input's last axis.
    LZ_OPTION(int64_t, in1_features, 0);
    /// Extent of the second input's last axis.
    LZ_OPTION(int64_t, in2_features, 0);
    /// Extent of the result's last axis.
    LZ_OPTION(int64_t, out_features, 0);
    /// Whether there is a bias.
    LZ_OPTION(bool, bias, true);
};

/// x1^T W x2 + b.
class LZ_API BilinearImpl : public Cloneable<BilinearImpl> {
public:
    /// Throws ShapeError for a negative number of features.
    BilinearImpl(int64_t in1_features, int64_t in2_features, int64_t out_features, bool bias = true,
                 Location loc = Location::current());
    /// The same by options.
    explicit BilinearImpl(const BilinearOptions &options, Location loc = Location::current());
    void reset() override;
    /// New random values: uniform within 1 / sqrt(in1_features).
    void reset_parameters();
    /// [..., in1_features] and [..., in2_features] give [..., out_features].
    Tensor forward(const Tensor &x1, const Tensor &x2, Location loc = Location::current());
    std::string extra_repr() const override;

    /// As given.
    BilinearOptions options;
    /// [out_features, in1_features, in2_features]
    Tensor weight;
    /// [out_features]; empty where there is none.
    Tensor bias;
};
/// Holds a BilinearImpl.
LZ_MODULE(Bilinear);

/// The input.
class LZ_API IdentityImpl : public Cloneable<IdentityImpl> {
public:
    void reset() override;
    /// x.
    Tensor forward(const Tensor &x);
};
/// Holds an IdentityImpl.
LZ_MODULE(Identity);

/// What Flatten is made of.
struct FlattenOptions {
    /// The first axis that is joined.
    LZ_OPTION(int64_t, start_dim, 1);
    /// The last axis that is joined.
    LZ_OPTION(int64_t, end_dim, -1);
};

/// Axes joined to one; by default all but the first.
class LZ_API FlattenImpl : public Cloneable<FlattenImpl> {
public:
    /// Of these axes.
    explicit FlattenImpl(int64_t start_dim = 1, int64_t end_dim = -1);
    /// The same by options.
    explicit FlattenImpl(const FlattenOptions &options);
    void reset() override;
    /// As lz::flatten.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;

    /// As given.
    FlattenOptions options;
};
/// Holds a FlattenImpl.
LZ_MODULE(Flatten);

/// What Unflatten is made of.
struct UnflattenOptions {
    /// That axis into these extents.
    UnflattenOptions(int64_t dim, Sizes sizes) : dim_(dim), sizes_(std::move(sizes)) {}
    /// The axis that is parted.
    LZ_OPTION(int64_t, dim, 0);
    /// What becomes of it.
    LZ_OPTION(Sizes, sizes, {});
};

/// An axis parted into several.
class LZ_API UnflattenImpl : public Cloneable<UnflattenImpl> {
public:
    /// That axis into these extents.
    UnflattenImpl(int64_t dim, const Sizes &sizes);
    /// The same by options.
    explicit UnflattenImpl(const UnflattenOptions &options);
    void reset() override;
    /// As lz::unflatten.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;

    /// As given.
    UnflattenOptions options;
};
/// Holds an UnflattenImpl.
LZ_MODULE(Unflatten);

} // namespace nn
} // namespace lz
