#include "bench/peers/torch/programs.h"

#include <torch/torch.h>

#include <cmath>
#include <map>
#include <string>

namespace lz::bench::torch {

namespace {

namespace pt = ::torch;
using pt::indexing::Slice;
using Tensors = std::vector<pt::Tensor>;

pt::Tensor kmeans(const Tensors &in) {
    const pt::Tensor &x = in[0], lengths = (x * x).sum(1, true), ones = pt::ones({x.size(0)});
    pt::Tensor centers = in[1];
    for (int i = 0; i < 5; ++i) {
        const pt::Tensor distances = lengths - 2 * pt::matmul(x, centers.t()) + (centers * centers).sum(1);
        const pt::Tensor nearest = distances.argmin(1);
        const pt::Tensor sums = pt::zeros_like(centers).index_add(0, nearest, x);
        const pt::Tensor counts = pt::zeros({centers.size(0)}).index_add(0, nearest, ones);
        centers = sums / counts.clamp_min(1).unsqueeze(1);
    }
    return centers;
}

pt::Tensor mlp_step(const Tensors &in) {
    const pt::Tensor &x = in[0], &y = in[1], &w1 = in[2], &w2 = in[3];
    const pt::Tensor hidden = pt::relu(pt::matmul(x, w1));
    const pt::Tensor error = (pt::softmax(pt::matmul(hidden, w2), 1) - y) / x.size(0);
    const pt::Tensor back = pt::matmul(error, w2.t()) * (hidden > 0);
    const pt::Tensor next1 = w1 - 0.1 * pt::matmul(x.t(), back),
                     next2 = w2 - 0.1 * pt::matmul(hidden.t(), error);
    return pt::cat({next1.flatten(), next2.flatten()});
}

/// The four neighbours of what is inside.
pt::Tensor neighbours(const pt::Tensor &u) {
    const Slice in(1, -1), low(0, -2), high(2, pt::indexing::None);
    return u.index({low, in}) + u.index({high, in}) + u.index({in, low}) + u.index({in, high});
}

pt::Tensor jacobi(const Tensors &in) {
    pt::Tensor u = in[0].clone();
    for (int i = 0; i < 10; ++i)
        u.index_put_({Slice(1, -1), Slice(1, -1)}, 0.25 * neighbours(u));
    return u;
}

pt::Tensor heat_rolls(const Tensors &in) {
    pt::Tensor u = in[0];
    for (int i = 0; i < 10; ++i)
        u = u +
            0.1 * (pt::roll(u, 1, 0) + pt::roll(u, -1, 0) + pt::roll(u, 1, 1) + pt::roll(u, -1, 1) - 4 * u);
    return u;
}

pt::Tensor heat_slices(const Tensors &in) {
    pt::Tensor u = in[0];
    for (int i = 0; i < 10; ++i) {
        const pt::Tensor inside = u.index({Slice(1, -1), Slice(1, -1)});
        u = pt::constant_pad_nd(inside + 0.1 * (neighbours(u) - 4 * inside), {1, 1, 1, 1});
    }
    return u;
}

pt::Tensor n_body(const Tensors &in) {
    const pt::Tensor &place = in[0], &mass = in[1];
    const pt::Tensor between = place.unsqueeze(0) - place.unsqueeze(1);
    const pt::Tensor squares = (between * between).sum(2) + 0.01;
    const pt::Tensor strength = mass / (squares * pt::sqrt(squares));
    return (between * strength.unsqueeze(2)).sum(1);
}

pt::Tensor changing_sizes(const Tensors &in) {
    Tensors sums;
    for (int64_t n = 64; n < 128; ++n)
        sums.push_back(pt::tanh(in[0].slice(0, 0, n) * in[1] + in[2]).sum());
    return pt::stack(sums);
}

pt::Tensor conv_unfold(const Tensors &in) {
    const pt::Tensor windows = in[0].unfold(2, 3, 1).unfold(3, 3, 1).permute({0, 2, 3, 1, 4, 5});
    return pt::relu(pt::matmul(windows.reshape({-1, in[1].size(0)}), in[1]));
}

pt::Tensor black_scholes(const Tensors &in) {
    const auto cdf = [](const pt::Tensor &x) { return 0.5 * (1 + pt::erf(x * std::sqrt(0.5))); };
    const pt::Tensor &spot = in[0], &strike = in[1], &years = in[2];
    const double rate = 0.02, volatility = 0.3;
    const pt::Tensor deviation = volatility * pt::sqrt(years);
    const pt::Tensor d1 =
        (pt::log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / deviation;
    const pt::Tensor discounted = strike * pt::exp(-rate * years);
    return spot * cdf(d1) - discounted * cdf(d1 - deviation);
}

} // namespace

Program program(const std::string &name, const Inputs &inputs) {
    static const std::map<std::string, pt::Tensor (*)(const Tensors &)> programs = {
        {"kmeans", kmeans},
        {"mlp_step", mlp_step},
        {"jacobi", jacobi},
        {"heat_rolls", heat_rolls},
        {"heat_slices", heat_slices},
        {"n_body", n_body},
        {"changing_sizes", changing_sizes},
        {"conv_unfold", conv_unfold},
        {"black_scholes", black_scholes}};
    Tensors in;
    for (const Input &input : inputs)
        in.push_back(pt::from_blob(const_cast<float *>(input.values), input.shape).clone());
    const auto run = [in, f = programs.at(name)] {
        const pt::NoGradGuard guard;
        return f(in);
    };
    return {[run] { run(); },
            [run] {
                const pt::Tensor result = run().contiguous();
                const float *values = result.data_ptr<float>();
                return std::vector<float>(values, values + result.numel());
            }};
}

} // namespace lz::bench::torch
