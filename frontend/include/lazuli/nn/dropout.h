#pragma once
/// Dropout as modules. They do nothing unless they are in training mode. Masks are not kept for backward: it
/// draws their numbers again.

#include "lazuli/nn/module_holder.h"

namespace lz {
namespace nn {

namespace functional {

/// x with whole channels (axis 1) set to 0 with probability p, and the others divided by 1 - p; x itself
/// unless `training`. Of [n, channels, length] or [channels, length]. Throws ShapeError, and as lz::dropout.
LZ_API Tensor dropout1d(const Tensor &x, double p = 0.5, bool training = true,
                        Location loc = Location::current());
/// The same of [n, channels, height, width] or [channels, height, width].
LZ_API Tensor dropout2d(const Tensor &x, double p = 0.5, bool training = true,
                        Location loc = Location::current());

} // namespace functional

/// What Dropout is made of.
struct DropoutOptions {
    /// With this probability.
    DropoutOptions(double p = 0.5) : p_(p) {} // NOLINT: converts
    /// The probability that an element, or a channel, becomes 0.
    LZ_OPTION(double, p, 0.5);
    /// Whether the input is changed.
    LZ_OPTION(bool, inplace, false);
};

/// As lz::dropout.
class LZ_API DropoutImpl : public Cloneable<DropoutImpl> {
public:
    /// By options, or of the probability. Throws IndexError for one out of [0, 1].
    explicit DropoutImpl(const DropoutOptions &options = {}, Location loc = Location::current());
    /// The same, in place.
    DropoutImpl(double p, bool inplace, Location loc = Location::current());
    void reset() override {}
    /// The same shape.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;

    /// As given.
    DropoutOptions options;
};
/// Holds a DropoutImpl.
LZ_MODULE(Dropout);

/// Channels become 0 as a whole: of [n, channels, length].
class LZ_API Dropout1dImpl : public Cloneable<Dropout1dImpl> {
public:
    /// By options, or of the probability. Throws IndexError for one out of [0, 1].
    explicit Dropout1dImpl(const DropoutOptions &options = {}, Location loc = Location::current());
    void reset() override {}
    /// The same shape. Throws ShapeError for another rank than 3.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;

    /// As given.
    DropoutOptions options;
};
/// Holds a Dropout1dImpl.
LZ_MODULE(Dropout1d);

/// Channels become 0 as a whole: of [n, channels, height, width].
class LZ_API Dropout2dImpl : public Cloneable<Dropout2dImpl> {
public:
    /// By options, or of the probability. Throws IndexError for one out of [0, 1].
    explicit Dropout2dImpl(const DropoutOptions &options = {}, Location loc = Location::current());
    void reset() override {}
    /// The same shape. Throws ShapeError for another rank than 4.
    Tensor forward(const Tensor &x, Location loc = Location::current());
    std::string extra_repr() const override;

    /// As given.
    DropoutOptions options;
};
/// Holds a Dropout2dImpl.
LZ_MODULE(Dropout2d);

} // namespace nn
} // namespace lz
