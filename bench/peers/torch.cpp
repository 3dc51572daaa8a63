#include "bench/peers/torch.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

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
Round matmul(int64_t m, int64_t k, int64_t n) {
    return round_of([a = pt::rand({m, k}), b = pt::rand({k, n})] { return pt::matmul(a, b); });
}

} // namespace lz::bench::torch
