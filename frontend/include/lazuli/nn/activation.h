#pragma once
/// Activations as modules. `inplace` ones change their input, too.
///
/// Constructors of classes that are no templates stand in the library: one that is seen makes every file that
/// includes this compile the class's `clone`.

#include "lazuli/nn/functional.h"
#include "lazuli/nn/module_holder.h"

namespace lz {
namespace nn {

namespace detail {

/// x becomes y where the user asked for that; y in any case.
LZ_API Tensor put_in_place(const Tensor &x, Tensor y, bool inplace, Location loc);
LZ_API std::string inplace_repr(bool inplace);

} // namespace detail

/// Base of activations that are a function of one tensor.
template <class Derived, Tensor (*function)(const Tensor &, Location)>
class Activation : public Cloneable<Derived> {
public:
    /// function(x).
    Tensor forward(const Tensor &x, Location loc = Location::current()) { return function(x, loc); }
};

/// What activations without numbers are made of.
struct InplaceOptions {
    /// Whether the input is changed.
    InplaceOptions(bool inplace = false) : inplace_(inplace) {} // NOLINT: converts
    /// Whether the input is changed.
    LZ_OPTION(bool, inplace, false);
};

/// Base of the same that can work in place.
template <class Derived, Tensor (*function)(const Tensor &, Location)>
class InplaceActivation : public Cloneable<Derived> {
public:
    /// By options, or `true` for in place.
    explicit InplaceActivation(const InplaceOptions &options = {}) : options(options) {}
    /// There is nothing to register.
    void reset() override {}
    /// function(x).
    Tensor forward(const Tensor &x, Location loc = Location::current()) {
        return detail::put_in_place(x, function(x, loc), options.inplace(), loc);
    }
    /// As PyTorch prints it.
    std::string extra_repr() const override { return detail::inplace_repr(options.inplace()); }

    /// As given.
    InplaceOptions options;
};

#define LZ_ACTIVATION(Name, Base, function)                                                                  \
    class LZ_API Name##Impl : public Base<Name##Impl, function> {                                            \
    public:                                                                                                  \
        using Base<Name##Impl, function>::Base;                                                              \
    };                                                                                                       \
    LZ_MODULE(Name)

/// As lz::sigmoid.
LZ_ACTIVATION(Sigmoid, Activation, lz::sigmoid);
/// As lz::tanh.
LZ_ACTIVATION(Tanh, Activation, lz::tanh);
/// As functional::logsigmoid.
LZ_ACTIVATION(LogSigmoid, Activation, functional::logsigmoid);
/// As functional::softsign.
LZ_ACTIVATION(Softsign, Activation, functional::softsign);
/// As functional::tanhshrink.
LZ_ACTIVATION(Tanhshrink, Activation, functional::tanhshrink);
/// As lz::relu.
LZ_ACTIVATION(ReLU, InplaceActivation, lz::relu);
/// As functional::relu6.
LZ_ACTIVATION(ReLU6, InplaceActivation, functional::relu6);
/// As functional::selu.
LZ_ACTIVATION(SELU, InplaceActivation, functional::selu);
/// As lz::silu.
LZ_ACTIVATION(SiLU, InplaceActivation, lz::silu);
/// As functional::mish.
LZ_ACTIVATION(Mish, InplaceActivation, functional::mish);
/// As functional::hardswish.
LZ_ACTIVATION(Hardswish, InplaceActivation, functional::hardswish);
/// As functional::hardsigmoid.
LZ_ACTIVATION(Hardsigmoid, InplaceActivation, functional::hardsigmoid);
#undef LZ_ACTIVATION

/// What ReLU is made of.
using ReLUOptions = InplaceOptions;
/// What ReLU6 is made of.
using ReLU6Options = InplaceOptions;
/// What SELU is made of.
using SELUOptions = InplaceOptions;

/// What ELU and CELU are made of.
struct ELUOptions {
    /// The value far below 0 is -alpha.
    LZ_OPTION(double, alpha, 1);
    /// Whether the input is changed.
    LZ_OPTION(bool, inplace, false);
};
/// What CELU is made of.
using CELUOptions = ELUOptions;

/// As functional::elu.
class LZ_API ELUImpl : public Cloneable<ELUImpl> {
public:
    /// With this alpha.
    explicit ELUImpl(double alpha = 1, bool inplace = false);
    /// By options.
    explicit ELUImpl(const ELUOptions &options);
    void reset() override {}
    /// As functional::elu.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;
    /// As given.
    ELUOptions options;
};
/// Holds an ELUImpl.
LZ_MODULE(ELU);

/// As functional::celu.
class LZ_API CELUImpl : public Cloneable<CELUImpl> {
public:
    /// With this alpha.
    explicit CELUImpl(double alpha = 1, bool inplace = false);
    /// By options.
    explicit CELUImpl(const CELUOptions &options);
    void reset() override {}
    /// As functional::celu.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;
    /// As given.
    CELUOptions options;
};
/// Holds a CELUImpl.
LZ_MODULE(CELU);

/// What LeakyReLU is made of.
struct LeakyReLUOptions {
    /// Below 0.
    LZ_OPTION(double, negative_slope, 0.01);
    /// Whether the input is changed.
    LZ_OPTION(bool, inplace, false);
};

/// As lz::leaky_relu.
class LZ_API LeakyReLUImpl : public Cloneable<LeakyReLUImpl> {
public:
    /// With this slope.
    explicit LeakyReLUImpl(double negative_slope = 0.01, bool inplace = false);
    /// By options.
    explicit LeakyReLUImpl(const LeakyReLUOptions &options);
    void reset() override {}
    /// As lz::leaky_relu.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;
    /// As given.
    LeakyReLUOptions options;
};
/// Holds a LeakyReLUImpl.
LZ_MODULE(LeakyReLU);

/// What RReLU is made of.
struct RReLUOptions {
    /// The least slope.
    LZ_OPTION(double, lower, 1.0 / 8);
    /// The greatest slope.
    LZ_OPTION(double, upper, 1.0 / 3);
    /// Whether the input is changed.
    LZ_OPTION(bool, inplace, false);
};

/// As functional::rrelu; draws in training mode.
class LZ_API RReLUImpl : public Cloneable<RReLUImpl> {
public:
    /// With slopes between these.
    explicit RReLUImpl(double lower = 1.0 / 8, double upper = 1.0 / 3, bool inplace = false);
    /// By options.
    explicit RReLUImpl(const RReLUOptions &options);
    void reset() override {}
    /// As functional::rrelu.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;
    /// As given.
    RReLUOptions options;
};
/// Holds an RReLUImpl.
LZ_MODULE(RReLU);

/// What Hardtanh is made of.
struct HardtanhOptions {
    /// The least result.
    LZ_OPTION(double, min_val, -1);
    /// The greatest result.
    LZ_OPTION(double, max_val, 1);
    /// Whether the input is changed.
    LZ_OPTION(bool, inplace, false);
};

/// As functional::hardtanh.
class LZ_API HardtanhImpl : public Cloneable<HardtanhImpl> {
public:
    /// Within these.
    explicit HardtanhImpl(double min_val = -1, double max_val = 1, bool inplace = false);
    /// By options.
    explicit HardtanhImpl(const HardtanhOptions &options);
    void reset() override {}
    /// As functional::hardtanh.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;
    /// As given.
    HardtanhOptions options;
};
/// Holds a HardtanhImpl.
LZ_MODULE(Hardtanh);

/// What Threshold is made of.
struct ThresholdOptions {
    /// Above `threshold` the input, else `value`.
    ThresholdOptions(double threshold, double value) : threshold_(threshold), value_(value) {}
    /// Above it x stays.
    LZ_OPTION(double, threshold, 0);
    /// What x becomes elsewhere.
    LZ_OPTION(double, value, 0);
    /// Whether the input is changed.
    LZ_OPTION(bool, inplace, false);
};

/// As functional::threshold.
class LZ_API ThresholdImpl : public Cloneable<ThresholdImpl> {
public:
    /// Above `threshold` the input, else `value`.
    ThresholdImpl(double threshold, double value, bool inplace = false);
    /// By options.
    explicit ThresholdImpl(const ThresholdOptions &options);
    void reset() override {}
    /// As functional::threshold.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;
    /// As given.
    ThresholdOptions options;
};
/// Holds a ThresholdImpl.
LZ_MODULE(Threshold);

/// What Softplus is made of.
struct SoftplusOptions {
    /// How sharp it is.
    LZ_OPTION(double, beta, 1);
    /// Where beta x is above it, x itself.
    LZ_OPTION(double, threshold, 20);
};

/// As lz::softplus.
class LZ_API SoftplusImpl : public Cloneable<SoftplusImpl> {
public:
    /// With these.
    explicit SoftplusImpl(double beta = 1, double threshold = 20);
    /// By options.
    explicit SoftplusImpl(const SoftplusOptions &options);
    void reset() override {}
    /// As lz::softplus.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;
    /// As given.
    SoftplusOptions options;
};
/// Holds a SoftplusImpl.
LZ_MODULE(Softplus);

/// What Softshrink and Hardshrink are made of.
struct ShrinkOptions {
    /// Within this of 0 the result is 0.
    ShrinkOptions(double lambda = 0.5) : lambda_(lambda) {} // NOLINT: converts
    /// Within this of 0 the result is 0.
    LZ_OPTION(double, lambda, 0.5);
};
/// What Softshrink is made of.
using SoftshrinkOptions = ShrinkOptions;
/// What Hardshrink is made of.
using HardshrinkOptions = ShrinkOptions;

/// As functional::softshrink.
class LZ_API SoftshrinkImpl : public Cloneable<SoftshrinkImpl> {
public:
    /// By options, or of lambda.
    explicit SoftshrinkImpl(const ShrinkOptions &options = {});
    void reset() override {}
    /// As functional::softshrink.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;
    /// As given.
    ShrinkOptions options;
};
/// Holds a SoftshrinkImpl.
LZ_MODULE(Softshrink);

/// As functional::hardshrink.
class LZ_API HardshrinkImpl : public Cloneable<HardshrinkImpl> {
public:
    /// By options, or of lambda.
    explicit HardshrinkImpl(const ShrinkOptions &options = {});
    void reset() override {}
    /// As functional::hardshrink.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;
    /// As given.
    ShrinkOptions options;
};
/// Holds a HardshrinkImpl.
LZ_MODULE(Hardshrink);

/// What PReLU is made of.
struct PReLUOptions {
    /// 1, or the number of channels.
    LZ_OPTION(int64_t, num_parameters, 1);
    /// What the slopes are at first.
    LZ_OPTION(double, init, 0.25);
};

/// As functional::prelu, with slopes that are learned.
class LZ_API PReLUImpl : public Cloneable<PReLUImpl> {
public:
    /// With so many slopes.
    explicit PReLUImpl(int64_t num_parameters = 1, double init = 0.25, Location loc = Location::current());
    /// By options.
    explicit PReLUImpl(const PReLUOptions &options, Location loc = Location::current());
    void reset() override;
    /// As functional::prelu.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;
    /// As given.
    PReLUOptions options;
    /// [num_parameters]
    Tensor weight;
};
/// Holds a PReLUImpl.
LZ_MODULE(PReLU);

/// What GELU is made of.
struct GELUOptions {
    /// "none" or "tanh".
    LZ_OPTION(std::string, approximate, "none");
};

/// As lz::gelu.
class LZ_API GELUImpl : public Cloneable<GELUImpl> {
public:
    /// Exact, or approximated by tanh.
    explicit GELUImpl(Gelu approximation = Gelu::Erf);
    /// By options. Throws StateError for an approximation that there is not.
    explicit GELUImpl(const GELUOptions &options, Location loc = Location::current());
    void reset() override {}
    /// As lz::gelu.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;

private:
    Gelu approximation_;
};
/// Holds a GELUImpl.
LZ_MODULE(GELU);

/// What activations along an axis are made of.
struct AxisOptions {
    /// Along this axis.
    AxisOptions(int64_t dim) : dim_(dim) {} // NOLINT: converts
    /// The axis.
    LZ_OPTION(int64_t, dim, -1);
};
/// What Softmax is made of.
using SoftmaxOptions = AxisOptions;
/// What Softmin is made of.
using SoftminOptions = AxisOptions;
/// What LogSoftmax is made of.
using LogSoftmaxOptions = AxisOptions;
/// What GLU is made of.
using GLUOptions = AxisOptions;

/// Base of activations along an axis.
template <class Derived, Tensor (*function)(const Tensor &, int64_t, Location)>
class AxisActivation : public Cloneable<Derived> {
public:
    /// By options, or of the axis.
    explicit AxisActivation(const AxisOptions &options) : options(options) {}
    /// There is nothing to register.
    void reset() override {}
    /// function(x, dim).
    Tensor forward(const Tensor &x, Location loc = Location::current()) {
        return function(x, options.dim(), loc);
    }
    /// As PyTorch prints it.
    std::string extra_repr() const override { return "dim=" + std::to_string(options.dim()); }
    /// As given.
    AxisOptions options;
};

namespace detail {

LZ_API Tensor softmax_along(const Tensor &x, int64_t dim, Location loc);
LZ_API Tensor log_softmax_along(const Tensor &x, int64_t dim, Location loc);

} // namespace detail

/// As lz::softmax.
class LZ_API SoftmaxImpl : public AxisActivation<SoftmaxImpl, detail::softmax_along> {
public:
    using AxisActivation::AxisActivation;
};
/// Holds a SoftmaxImpl.
LZ_MODULE(Softmax);
/// As functional::softmin.
class LZ_API SoftminImpl : public AxisActivation<SoftminImpl, functional::softmin> {
public:
    using AxisActivation::AxisActivation;
};
/// Holds a SoftminImpl.
LZ_MODULE(Softmin);
/// As lz::log_softmax.
class LZ_API LogSoftmaxImpl : public AxisActivation<LogSoftmaxImpl, detail::log_softmax_along> {
public:
    using AxisActivation::AxisActivation;
};
/// Holds a LogSoftmaxImpl.
LZ_MODULE(LogSoftmax);
/// As functional::glu; the last axis unless told otherwise.
class LZ_API GLUImpl : public AxisActivation<GLUImpl, functional::glu> {
public:
    /// By options, or of the axis.
    explicit GLUImpl(const AxisOptions &options = -1);
};
/// Holds a GLUImpl.
LZ_MODULE(GLU);
/// softmax over channels: the last axis but two.
class LZ_API Softmax2dImpl : public Cloneable<Softmax2dImpl> {
public:
    void reset() override {}
    /// [n, channels, h, w] or [channels, h, w]. Throws ShapeError for another rank.
    Tensor forward(const Tensor &x, Location loc = Location::current());
};
/// Holds a Softmax2dImpl.
LZ_MODULE(Softmax2d);

} // namespace nn
} // namespace lz
