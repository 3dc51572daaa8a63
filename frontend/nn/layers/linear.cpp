#include "lazuli/nn/linear.h"

#include "frontend/nn/layers/parameters.h"

#include <fmt/format.h>

namespace lz::nn {

using detail::text;

LinearImpl::LinearImpl(int64_t in_features, int64_t out_features, Location loc)
    : LinearImpl(LinearOptions(in_features, out_features), loc) {}

LinearImpl::LinearImpl(int64_t in_features, int64_t out_features, bool bias, Location loc)
    : LinearImpl(LinearOptions(in_features, out_features).bias(bias), loc) {}

LinearImpl::LinearImpl(const LinearOptions &given, Location loc) : options(given) {
    detail::check_extent(options.in_features(), "Linear", "in_features", loc);
    detail::check_extent(options.out_features(), "Linear", "out_features", loc);
    const detail::Constructing here(loc);
    LinearImpl::reset();
}

void LinearImpl::reset() {
    weight = register_parameter("weight", empty({options.out_features(), options.in_features()}));
    bias = options.bias() ? empty({options.out_features()}) : Tensor();
    register_parameter("bias", bias);
    reset_parameters();
}

void LinearImpl::reset_parameters() {
    const double bound = detail::one_by_root(options.in_features());
    detail::fill_uniform(weight, bound);
    detail::fill_uniform(bias, bound);
}

Tensor LinearImpl::forward(const Tensor &x, Location loc) {
    return linear(x, weight, bias, loc);
}

std::string LinearImpl::extra_repr() const {
    return fmt::format("in_features={}, out_features={}, bias={}", options.in_features(),
                       options.out_features(), text(options.bias()));
}

BilinearImpl::BilinearImpl(int64_t in1_features, int64_t in2_features, int64_t out_features, bool bias,
                           Location loc)
    : BilinearImpl(BilinearOptions(in1_features, in2_features, out_features).bias(bias), loc) {}

BilinearImpl::BilinearImpl(const BilinearOptions &given, Location loc) : options(given) {
    detail::check_extent(options.in1_features(), "Bilinear", "in1_features", loc);
    detail::check_extent(options.in2_features(), "Bilinear", "in2_features", loc);
    detail::check_extent(options.out_features(), "Bilinear", "out_features", loc);
    const detail::Constructing here(loc);
    BilinearImpl::reset();
}

void BilinearImpl::reset() {
    weight = register_parameter(
        "weight", empty({options.out_features(), options.in1_features(), options.in2_features()}));
    bias = options.bias() ? empty({options.out_features()}) : Tensor();
    register_parameter("bias", bias);
    reset_parameters();
}

void BilinearImpl::reset_parameters() {
    const double bound = detail::one_by_root(options.in1_features());
    detail::fill_uniform(weight, bound);
    detail::fill_uniform(bias, bound);
}

Tensor functional::bilinear(const Tensor &x1, const Tensor &x2, const Tensor &weight, const Tensor &bias,
                            Location loc) {
    Tensor y = einsum("...i,oij,...j->...o", {x1, weight, x2}, loc);
    return bias.defined() ? add(std::move(y), bias, loc) : y;
}

Tensor BilinearImpl::forward(const Tensor &x1, const Tensor &x2, Location loc) {
    return functional::bilinear(x1, x2, weight, bias, loc);
}

std::string BilinearImpl::extra_repr() const {
    return fmt::format("in1_features={}, in2_features={}, out_features={}, bias={}", options.in1_features(),
                       options.in2_features(), options.out_features(), text(options.bias()));
}

void IdentityImpl::reset() {}
Tensor IdentityImpl::forward(const Tensor &x) {
    return x;
}

FlattenImpl::FlattenImpl(int64_t start_dim, int64_t end_dim)
    : FlattenImpl(FlattenOptions().start_dim(start_dim).end_dim(end_dim)) {}
FlattenImpl::FlattenImpl(const FlattenOptions &given) : options(given) {}
void FlattenImpl::reset() {}
Tensor FlattenImpl::forward(const Tensor &x, Location loc) {
    return flatten(x, options.start_dim(), options.end_dim(), loc);
}
std::string FlattenImpl::extra_repr() const {
    return fmt::format("start_dim={}, end_dim={}", options.start_dim(), options.end_dim());
}

UnflattenImpl::UnflattenImpl(int64_t dim, const Sizes &sizes) : UnflattenImpl(UnflattenOptions(dim, sizes)) {}
UnflattenImpl::UnflattenImpl(const UnflattenOptions &given) : options(given) {}
void UnflattenImpl::reset() {}
Tensor UnflattenImpl::forward(const Tensor &x, Location loc) {
    return unflatten(x, options.dim(), options.sizes(), loc);
}
std::string UnflattenImpl::extra_repr() const {
    return fmt::format("dim={}, unflattened_size={}", options.dim(), text(options.sizes()));
}

} // namespace lz::nn
