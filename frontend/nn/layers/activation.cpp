#include "lazuli/nn/activation.h"

#include "frontend/nn/layers/parameters.h"

#include <fmt/format.h>

namespace lz::nn {

using detail::put_in_place;
using detail::text;

namespace detail {

Tensor put_in_place(const Tensor &x, Tensor y, bool inplace, Location loc) {
    if (!inplace)
        return y;
    Tensor handle = x;
    handle.copy_(y, loc);
    return handle;
}

std::string inplace_repr(bool inplace) {
    return inplace ? "inplace=True" : "";
}

Tensor softmax_along(const Tensor &x, int64_t dim, Location loc) {
    return softmax(x, dim, std::nullopt, loc);
}
Tensor log_softmax_along(const Tensor &x, int64_t dim, Location loc) {
    return log_softmax(x, dim, std::nullopt, loc);
}

} // namespace detail

namespace {

std::string with_inplace(std::string repr, bool inplace) {
    return inplace ? std::move(repr) + ", inplace=True" : repr;
}

} // namespace

ELUImpl::ELUImpl(double alpha, bool inplace) : ELUImpl(ELUOptions().alpha(alpha).inplace(inplace)) {}
Tensor ELUImpl::forward(const Tensor &x, Location loc) {
    return put_in_place(x, functional::elu(x, options.alpha(), loc), options.inplace(), loc);
}
std::string ELUImpl::extra_repr() const {
    return with_inplace("alpha=" + text(options.alpha()), options.inplace());
}

CELUImpl::CELUImpl(double alpha, bool inplace) : CELUImpl(CELUOptions().alpha(alpha).inplace(inplace)) {}
Tensor CELUImpl::forward(const Tensor &x, Location loc) {
    return put_in_place(x, functional::celu(x, options.alpha(), loc), options.inplace(), loc);
}
std::string CELUImpl::extra_repr() const {
    return with_inplace("alpha=" + text(options.alpha()), options.inplace());
}

LeakyReLUImpl::LeakyReLUImpl(double negative_slope, bool inplace)
    : LeakyReLUImpl(LeakyReLUOptions().negative_slope(negative_slope).inplace(inplace)) {}
Tensor LeakyReLUImpl::forward(const Tensor &x, Location loc) {
    return put_in_place(x, leaky_relu(x, options.negative_slope(), loc), options.inplace(), loc);
}
std::string LeakyReLUImpl::extra_repr() const {
    return with_inplace("negative_slope=" + text(options.negative_slope()), options.inplace());
}

RReLUImpl::RReLUImpl(double lower, double upper, bool inplace)
    : RReLUImpl(RReLUOptions().lower(lower).upper(upper).inplace(inplace)) {}
Tensor RReLUImpl::forward(const Tensor &x, Location loc) {
    return put_in_place(x, functional::rrelu(x, options.lower(), options.upper(), is_training(), loc),
                        options.inplace(), loc);
}
std::string RReLUImpl::extra_repr() const {
    return with_inplace("lower=" + text(options.lower()) + ", upper=" + text(options.upper()),
                        options.inplace());
}

HardtanhImpl::HardtanhImpl(double min_val, double max_val, bool inplace)
    : HardtanhImpl(HardtanhOptions().min_val(min_val).max_val(max_val).inplace(inplace)) {}
Tensor HardtanhImpl::forward(const Tensor &x, Location loc) {
    return put_in_place(x, functional::hardtanh(x, options.min_val(), options.max_val(), loc),
                        options.inplace(), loc);
}
std::string HardtanhImpl::extra_repr() const {
    return with_inplace("min_val=" + text(options.min_val()) + ", max_val=" + text(options.max_val()),
                        options.inplace());
}

ThresholdImpl::ThresholdImpl(double threshold, double value, bool inplace)
    : ThresholdImpl(ThresholdOptions(threshold, value).inplace(inplace)) {}
Tensor ThresholdImpl::forward(const Tensor &x, Location loc) {
    return put_in_place(x, functional::threshold(x, options.threshold(), options.value(), loc),
                        options.inplace(), loc);
}
std::string ThresholdImpl::extra_repr() const {
    return with_inplace("threshold=" + text(options.threshold()) + ", value=" + text(options.value()),
                        options.inplace());
}

SoftplusImpl::SoftplusImpl(double beta, double threshold)
    : SoftplusImpl(SoftplusOptions().beta(beta).threshold(threshold)) {}
Tensor SoftplusImpl::forward(const Tensor &x, Location loc) {
    return softplus(x, options.beta(), options.threshold(), loc);
}
std::string SoftplusImpl::extra_repr() const {
    return "beta=" + text(options.beta()) + ", threshold=" + text(options.threshold());
}

Tensor SoftshrinkImpl::forward(const Tensor &x, Location loc) {
    return functional::softshrink(x, options.lambda(), loc);
}
std::string SoftshrinkImpl::extra_repr() const {
    return text(options.lambda());
}

Tensor HardshrinkImpl::forward(const Tensor &x, Location loc) {
    return functional::hardshrink(x, options.lambda(), loc);
}
std::string HardshrinkImpl::extra_repr() const {
    return text(options.lambda());
}

PReLUImpl::PReLUImpl(int64_t num_parameters, double init, Location loc)
    : PReLUImpl(PReLUOptions().num_parameters(num_parameters).init(init), loc) {}
PReLUImpl::PReLUImpl(const PReLUOptions &given, Location loc) : options(given) {
    detail::check_extent(options.num_parameters(), "PReLU", "num_parameters", loc);
    const detail::Constructing here(loc);
    PReLUImpl::reset();
}
void PReLUImpl::reset() {
    weight = register_parameter(
        "weight", full({options.num_parameters()}, options.init(), {}, detail::Constructing::line()));
}
Tensor PReLUImpl::forward(const Tensor &x, Location loc) {
    return functional::prelu(x, weight, loc);
}
std::string PReLUImpl::extra_repr() const {
    return "num_parameters=" + text(options.num_parameters());
}

GELUImpl::GELUImpl(const GELUOptions &options, Location loc)
    : approximation_(options.approximate() == "tanh" ? Gelu::Tanh : Gelu::Erf) {
    if (options.approximate() != "tanh" && options.approximate() != "none")
        throw StateError("GELU: there is no approximation \"" + options.approximate() +
                             "\"; there are \"none\" and \"tanh\"",
                         loc);
}
Tensor GELUImpl::forward(const Tensor &x, Location loc) {
    return gelu(x, approximation_, loc);
}
std::string GELUImpl::extra_repr() const {
    return approximation_ == Gelu::Tanh ? "approximate='tanh'" : "approximate='none'";
}

Tensor Softmax2dImpl::forward(const Tensor &x, Location loc) {
    if (x.dim(loc) != 3 && x.dim(loc) != 4)
        throw ShapeError(fmt::format("Softmax2d: the input {} has {} axes; it needs 3 or 4",
                                     text(x.sizes(loc)), x.dim(loc)),
                         loc);
    return softmax(x, -3, std::nullopt, loc);
}

// --- by options

ELUImpl::ELUImpl(const ELUOptions &given) : options(given) {}
CELUImpl::CELUImpl(const CELUOptions &given) : options(given) {}
LeakyReLUImpl::LeakyReLUImpl(const LeakyReLUOptions &given) : options(given) {}
RReLUImpl::RReLUImpl(const RReLUOptions &given) : options(given) {}
HardtanhImpl::HardtanhImpl(const HardtanhOptions &given) : options(given) {}
ThresholdImpl::ThresholdImpl(const ThresholdOptions &given) : options(given) {}
SoftplusImpl::SoftplusImpl(const SoftplusOptions &given) : options(given) {}
SoftshrinkImpl::SoftshrinkImpl(const ShrinkOptions &given) : options(given) {}
HardshrinkImpl::HardshrinkImpl(const ShrinkOptions &given) : options(given) {}
GELUImpl::GELUImpl(Gelu approximation) : approximation_(approximation) {}
GLUImpl::GLUImpl(const AxisOptions &given) : AxisActivation(given) {}

} // namespace lz::nn
