#include "bench/peers/torch/elementwise.h"

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

pt::Tensor positive(int64_t n) {
    return pt::rand({n}) * 8 + 0.125;
}

} // namespace

Round unary(Unary function, int64_t n) {
    return round_of([x = positive(n), function] {
        switch (function) {
        case Unary::Exp:
            return pt::exp(x);
        case Unary::Log:
            return pt::log(x);
        case Unary::Sin:
            return pt::sin(x);
        case Unary::Cos:
            return pt::cos(x);
        }
        return x;
    });
}
Round pow(int64_t n) {
    return round_of([x = positive(n), y = pt::rand({n}) * 4 - 2] { return pt::pow(x, y); });
}
Round where_chain(int64_t n) {
    return round_of([x = pt::rand({n}) * 2 - 1, y = pt::rand({n}) * 2 - 1] {
        return pt::where(x > 0.5, x * y, pt::where(x > 0, x + y, pt::where(x > -0.5, x - y, y)));
    });
}
Round twenty_operations(int64_t n) {
    return round_of([a = pt::rand({n}), b = pt::rand({n})] {
        pt::Tensor x = a;
        for (int i = 0; i < 10; ++i)
            x = x * b + 0.5;
        return x;
    });
}
Round softmax_rows_of_100(int64_t n) {
    return round_of([x = pt::rand({n / 100, 100})] { return pt::softmax(x, -1); });
}
Round roll(int64_t n) {
    return round_of([x = pt::rand({n, n})] { return pt::roll(x, {1, 1}, {0, 1}); });
}
Round rand(int64_t n) {
    return round_of([n] { return pt::rand({n}); });
}
Round randn(int64_t n) {
    return round_of([n] { return pt::randn({n}); });
}

} // namespace lz::bench::torch
