#include "lazuli/nn/dropout.h"

#include "frontend/nn/layers/parameters.h"
#include "lazuli/nn/activation.h"

#include <fmt/format.h>

namespace lz::nn {

namespace {

void check(const DropoutOptions &options, const char *layer, Location loc) {
    if (!(options.p() >= 0 && options.p() <= 1))
        throw IndexError(fmt::format("{}: the probability is {}; it is out of [0, 1]", layer, options.p()),
                         loc);
}

std::string repr(const DropoutOptions &options) {
    return "p=" + detail::text(options.p()) + ", inplace=" + detail::text(options.inplace());
}

/// Whole channels, in axis 1.
Tensor drop_channels(const Tensor &x, const DropoutOptions &options, bool training, int64_t rank,
                     const char *layer, Location loc) {
    if (x.dim(loc) != rank)
        throw ShapeError(fmt::format("{}: the input {} has {} axes; it needs {}", layer,
                                     detail::text(x.sizes(loc)), x.dim(loc), rank),
                         loc);
    if (!training)
        return x;
    Sizes sizes(std::vector<int64_t>(static_cast<size_t>(rank), 1));
    sizes[0] = x.size(0);
    sizes[1] = x.size(1);
    const Tensor kept = dropout(x.new_ones(sizes, {}, loc), options.p(), true, loc);
    return detail::put_in_place(x, mul(x, kept, loc), options.inplace(), loc);
}

} // namespace

DropoutImpl::DropoutImpl(const DropoutOptions &given, Location loc) : options(given) {
    check(options, "Dropout", loc);
}
DropoutImpl::DropoutImpl(double p, bool inplace, Location loc)
    : DropoutImpl(DropoutOptions(p).inplace(inplace), loc) {}
Tensor DropoutImpl::forward(const Tensor &x, Location loc) {
    if (!is_training())
        return x;
    return detail::put_in_place(x, dropout(x, options.p(), true, loc), options.inplace(), loc);
}
std::string DropoutImpl::extra_repr() const {
    return repr(options);
}

Dropout1dImpl::Dropout1dImpl(const DropoutOptions &given, Location loc) : options(given) {
    check(options, "Dropout1d", loc);
}
Tensor Dropout1dImpl::forward(const Tensor &x, Location loc) {
    return drop_channels(x, options, is_training(), 3, "Dropout1d", loc);
}
std::string Dropout1dImpl::extra_repr() const {
    return repr(options);
}

Dropout2dImpl::Dropout2dImpl(const DropoutOptions &given, Location loc) : options(given) {
    check(options, "Dropout2d", loc);
}
Tensor Dropout2dImpl::forward(const Tensor &x, Location loc) {
    return drop_channels(x, options, is_training(), 4, "Dropout2d", loc);
}
std::string Dropout2dImpl::extra_repr() const {
    return repr(options);
}

} // namespace lz::nn
