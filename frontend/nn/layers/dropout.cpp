#include "lazuli/nn/dropout.h"

#include "frontend/nn/layers/parameters.h"
#include "lazuli/nn/activation.h"

#include <fmt/format.h>

namespace lz::nn {

namespace {

void check(double p, const char *layer, Location loc) {
    if (!(p >= 0 && p <= 1))
        throw IndexError(fmt::format("{}: the probability is {}; it is out of [0, 1]", layer, p), loc);
}

std::string repr(const DropoutOptions &options) {
    return "p=" + detail::text(options.p()) + ", inplace=" + detail::text(options.inplace());
}

/// Whole channels, in axis 1.
Tensor drop_channels(const Tensor &x, double p, bool training, int64_t rank, const char *layer,
                     Location loc) {
    if (x.dim(loc) != rank)
        throw ShapeError(fmt::format("{}: the input {} has {} axes; it needs {}", layer,
                                     detail::text(x.sizes(loc)), x.dim(loc), rank),
                         loc);
    if (!training)
        return x;
    Sizes sizes(std::vector<int64_t>(static_cast<size_t>(rank), 1));
    sizes[0] = x.size(0);
    sizes[1] = x.size(1);
    return mul(x, dropout(x.new_ones(sizes, {}, loc), p, true, loc), loc);
}

} // namespace

namespace {

/// With an axis of samples.
Tensor drop_channels_of(const Tensor &x, double p, bool training, int64_t rank, const char *function,
                        Location loc) {
    check(p, function, loc);
    if (x.dim(loc) == rank - 1)
        return drop_channels(x.unsqueeze(0, loc), p, training, rank, function, loc).squeeze({0}, loc);
    return drop_channels(x, p, training, rank, function, loc);
}

} // namespace

Tensor functional::dropout1d(const Tensor &x, double p, bool training, Location loc) {
    return drop_channels_of(x, p, training, 3, "dropout1d", loc);
}
Tensor functional::dropout2d(const Tensor &x, double p, bool training, Location loc) {
    return drop_channels_of(x, p, training, 4, "dropout2d", loc);
}

DropoutImpl::DropoutImpl(const DropoutOptions &given, Location loc) : options(given) {
    check(options.p(), "Dropout", loc);
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
    check(options.p(), "Dropout1d", loc);
}
Tensor Dropout1dImpl::forward(const Tensor &x, Location loc) {
    const Tensor y = drop_channels(x, options.p(), is_training(), 3, "Dropout1d", loc);
    return is_training() ? detail::put_in_place(x, y, options.inplace(), loc) : y;
}
std::string Dropout1dImpl::extra_repr() const {
    return repr(options);
}

Dropout2dImpl::Dropout2dImpl(const DropoutOptions &given, Location loc) : options(given) {
    check(options.p(), "Dropout2d", loc);
}
Tensor Dropout2dImpl::forward(const Tensor &x, Location loc) {
    const Tensor y = drop_channels(x, options.p(), is_training(), 4, "Dropout2d", loc);
    return is_training() ? detail::put_in_place(x, y, options.inplace(), loc) : y;
}
std::string Dropout2dImpl::extra_repr() const {
    return repr(options);
}

} // namespace lz::nn
