#include "bench/peers/torch/torch.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <cmath>

namespace lz::bench::torch {

namespace {

namespace pt = ::torch;

template <class F>
Round round_of(F &&f) {
    return [f] {
        const pt::NoGradGuard guard;
        const pt::Tensor result = f();
        (void)result;
    };
}

pt::Tensor square(int64_t n) {
    return pt::rand({n, n}) * 2 - 1;
}

} // namespace

void set_threads(int threads) {
    at::set_num_threads(threads);
}

Round multiply_add(int64_t n) {
    return round_of([a = pt::rand({n}), b = pt::rand({n}), c = pt::rand({n})] { return a * b + c; });
}
Round tanh_chain(int64_t n) {
    return round_of([a = pt::rand({n}), b = pt::rand({n})] { return pt::tanh(a * b + a) * 0.5 + b; });
}
Round gelu(int64_t n) {
    return round_of([a = pt::rand({n})] { return pt::gelu(a); });
}
Round sum_all(int64_t n) {
    return round_of([a = square(n)] { return a.sum(); });
}
Round sum_axis0(int64_t n) {
    return round_of([a = square(n)] { return a.sum(0); });
}
Round sum_axis1(int64_t n) {
    return round_of([a = square(n)] { return a.sum(1); });
}
Round softmax(int64_t n) {
    return round_of([a = square(n)] { return pt::softmax(a, -1); });
}
Round log_softmax(int64_t n) {
    return round_of([a = square(n)] { return pt::log_softmax(a, -1); });
}
Round layer_norm(int64_t n) {
    return round_of([n, a = square(n), weight = pt::rand({n}), bias = pt::rand({n})] {
        return pt::layer_norm(a, {n}, weight, bias);
    });
}
Round transpose_add(int64_t n) {
    return round_of([a = square(n), b = square(n)] { return a.t() + b; });
}

Round index_add(int64_t places, int64_t count, int64_t width) {
    const auto rand = [&](int64_t n) { return width ? pt::rand({n, width}) : pt::rand({n}); };
    return round_of([x = rand(places), index = pt::randint(places, {count}, pt::kInt64),
                     source = rand(count)] { return x.index_add(0, index, source); });
}
Round scatter_add_columns(int64_t places, int64_t columns) {
    return round_of([x = pt::rand({places, columns}),
                     index = pt::randint(places, {places, columns}, pt::kInt64),
                     source = pt::rand({places, columns})] { return x.scatter_add(0, index, source); });
}
Round topk(int64_t n, int64_t k) {
    return round_of([x = pt::randn({n, n}), k] { return std::get<0>(x.topk(k)); });
}
Round sort_rows(int64_t n) {
    return round_of([x = pt::randn({n, n})] { return std::get<0>(x.sort(std::optional<bool>(true), 1)); });
}
Round cumsum(int64_t outer, int64_t extent, int64_t inner) {
    return round_of([x = pt::randn({outer, extent, inner})] { return x.cumsum(1); });
}

Round cummax(int64_t n, int64_t axis) {
    return round_of([x = pt::randn({n, n}), axis] { return std::get<0>(x.cummax(axis)); });
}
Round median(int64_t n, int64_t axis) {
    return round_of([x = pt::randn({n, n}), axis] { return std::get<0>(x.median(axis)); });
}
Round sort_line(int64_t n) {
    return round_of([x = pt::randn({n})] { return std::get<0>(x.sort(std::optional<bool>(true), 0)); });
}
Round randperm(int64_t n) {
    return round_of([n] { return pt::randperm(n); });
}
Round masked_select(int64_t n) {
    return round_of([x = pt::randn({n}), mask = pt::randn({n}) > 0] { return x.masked_select(mask); });
}
Round multinomial(int64_t n, int64_t count) {
    return round_of([weights = pt::rand({n}), count] { return pt::multinomial(weights, count, true); });
}
Round of_rows(const std::string &function, int64_t count, int64_t extent) {
    const pt::Tensor x = pt::randn({count, extent});
    if (function == "sum")
        return round_of([x] { return x.sum(1); });
    if (function == "amax")
        return round_of([x] { return x.amax(1); });
    if (function == "argmax")
        return round_of([x] { return x.argmax(1); });
    if (function == "softmax")
        return round_of([x] { return x.softmax(1); });
    if (function == "log_softmax")
        return round_of([x] { return x.log_softmax(1); });
    return round_of([x] { return x.var(1); });
}
Round channels_last(int64_t count, int64_t channels, int64_t side, bool back) {
    const pt::Tensor x = back ? pt::rand({count, side, side, channels}).permute({0, 3, 1, 2})
                              : pt::rand({count, channels, side, side}).permute({0, 2, 3, 1});
    return round_of([x] { return x.contiguous(); });
}
Round pad(int64_t count, int64_t channels, int64_t side) {
    return round_of([x = pt::rand({count, channels, side, side})] {
        return pt::nn::functional::pad(x, pt::nn::functional::PadFuncOptions({1, 1, 1, 1}));
    });
}
Round power(int64_t n, double exponent) {
    return round_of([x = pt::rand({n}), exponent] { return x.pow(exponent); });
}
Round flip(int64_t n) {
    return round_of([x = square(n)] { return x.flip({0, 1}); });
}
Round group_norm(int64_t n, int64_t channels, int64_t side, int64_t groups, bool backward) {
    const pt::Tensor x = pt::randn({n, channels, side, side}), g = pt::randn_like(x);
    pt::nn::GroupNorm norm(pt::nn::GroupNormOptions(groups, channels));
    if (!backward)
        return round_of([x, norm = norm.ptr()] { return norm->forward(x); });
    return [x = x.clone().requires_grad_(), g, norm]() mutable {
        norm->zero_grad();
        x.mutable_grad() = pt::Tensor();
        norm(x).backward(g);
    };
}

Round one_hot(int64_t count, int64_t classes) {
    return round_of([labels = pt::randint(classes, {count}, pt::kInt64), classes] {
        return pt::one_hot(labels, classes);
    });
}
Round compare_with_classes(int64_t count, int64_t classes) {
    return round_of([labels = pt::randint(classes, {count, 1}, pt::kInt64),
                     all = pt::arange(classes, pt::kInt64)] { return labels == all; });
}
Round argmax(int64_t n, int64_t axis) {
    return round_of([x = pt::randn({n, n}), axis] { return x.argmax(axis); });
}
Round amax(int64_t n, int64_t axis) {
    return round_of([x = pt::randn({n, n}), axis] { return x.amax(axis); });
}

Round adamw(const std::vector<std::vector<int64_t>> &shapes) {
    std::vector<pt::Tensor> parameters;
    for (const auto &shape : shapes) {
        parameters.push_back(pt::randn(shape, pt::requires_grad()));
        parameters.back().mutable_grad() = pt::randn(shape);
    }
    const auto optimizer = std::make_shared<pt::optim::AdamW>(parameters, pt::optim::AdamWOptions(1e-4));
    return [optimizer] { optimizer->step(); };
}

Round join(const Join &join) {
    std::vector<pt::Tensor> stored;
    for (int64_t k = 0; k < join.parts; ++k)
        stored.push_back(pt::rand(join.stored_shape()));
    return round_of([stored, join] {
        std::vector<pt::Tensor> parts = stored;
        for (size_t k = 0; k < parts.size(); ++k) {
            pt::Tensor &x = parts[k];
            if (join.of == Join::Parts::Arithmetic)
                x = k % 3 == 0 ? x * 2 : k % 3 == 1 ? x + 1 : x * x;
            else if (join.of == Join::Parts::Transposed)
                x = x.transpose(-2, -1);
            else if (join.of == Join::Parts::Stepped)
                x = x.slice(-1, 0, x.size(-1), 2);
        }
        return join.stack ? pt::stack(parts, join.axis) : pt::cat(parts, join.axis);
    });
}

Round small_operations() {
    return round_of([a = pt::rand({8}), b = pt::rand({8})] {
        pt::Tensor x = a;
        for (int i = 0; i < 500; ++i) {
            x = x + b;
            x = x * a;
        }
        return x;
    });
}
namespace {

pt::Dtype dtype_of(Number number) {
    constexpr pt::Dtype kDtypes[] = {pt::kFloat, pt::kDouble, pt::kBFloat16, pt::kHalf};
    return kDtypes[static_cast<int>(number)];
}

} // namespace

Round matmul(int64_t m, int64_t k, int64_t n, Number number) {
    const pt::Dtype dtype = dtype_of(number);
    return round_of([a = (pt::rand({m, k}) * 2 - 1).to(dtype), b = (pt::rand({k, n}) * 2 - 1).to(dtype)] {
        return pt::matmul(a, b);
    });
}
Round batched(int64_t batch, int64_t m, int64_t k, int64_t n, Number number) {
    const pt::Dtype dtype = dtype_of(number);
    return round_of([a = (pt::rand({batch, m, k}) * 2 - 1).to(dtype),
                     b = (pt::rand({batch, k, n}) * 2 - 1).to(dtype)] { return pt::matmul(a, b); });
}
Round attention(int64_t heads, int64_t length, int64_t width) {
    const auto operand = [&] { return pt::rand({heads, length, width}) * 2 - 1; };
    return round_of(
        [q = operand(), k = operand(), v = operand(), scale = 1 / std::sqrt(static_cast<double>(width))] {
            return pt::matmul(pt::softmax(pt::matmul(q, k.transpose(1, 2)) * scale, -1), v);
        });
}
Round linear(int64_t m, int64_t k, int64_t n) {
    return round_of(
        [a = pt::rand({m, k}) * 2 - 1, w = pt::rand({n, k}) * 2 - 1] { return pt::linear(a, w); });
}
Round linear_gelu(int64_t m, int64_t k, int64_t n) {
    return round_of([a = pt::rand({m, k}) * 2 - 1, w = pt::rand({n, k}) * 2 - 1, bias = pt::rand({n})] {
        return pt::gelu(pt::linear(a, w, bias));
    });
}

} // namespace lz::bench::torch
