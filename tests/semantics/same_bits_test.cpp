// S29: the same program gives the same bits however it is cut, fused and threaded.
#include "frontend/engine/engine.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace {

using lz::Tensor;
using Cut = std::function<void()>;

struct Case {
    const char *name;
    std::function<std::vector<Tensor>(const Cut &)> program;
};

Tensor input(std::initializer_list<int64_t> shape, uint64_t seed, lz::DType dtype = lz::f32) {
    lz::manual_seed(seed);
    return (lz::randn(lz::Sizes(shape)) * 2).to(dtype);
}

const std::vector<Case> &corpus() {
    static const std::vector<Case> cases = {
        {"chain",
         [](const Cut &cut) {
             const Tensor a = input({1003}, 1), b = input({1003}, 2);
             const Tensor t = lz::tanh(a * b + a);
             cut();
             return std::vector{t * 0.5 + b, lz::exp(t) - t};
         }},
        {"half",
         [](const Cut &cut) {
             const Tensor a = input({517}, 1, lz::bf16), b = input({517}, 2, lz::f16).to(lz::bf16);
             const Tensor t = a * b + a;
             cut();
             return std::vector{lz::sigmoid(t) * b, (t * t).sum()};
         }},
        {"softmax",
         [](const Cut &cut) {
             const Tensor x = input({37, 1000}, 3);
             const Tensor y = x * 1.5 + 0.25;
             cut();
             return std::vector{lz::softmax(y, -1), lz::log_softmax(y, -1).sum(0)};
         }},
        {"layer_norm",
         [](const Cut &cut) {
             const Tensor x = input({19, 333}, 4), w = input({333}, 5), b = input({333}, 6);
             const Tensor y = lz::layer_norm(x, {333}, w, b);
             cut();
             return std::vector{lz::gelu(y), y.mean(1), y.var(0)};
         }},
        {"long_sums",
         [](const Cut &cut) {
             const Tensor x = input({3, 70001}, 7);
             const Tensor y = lz::sin(x);
             cut();
             return std::vector{y.sum(), y.sum(1), y.sum(0).sum(), lz::logsumexp(y, 1)};
         }},
        {"outer_sums",
         [](const Cut &cut) {
             const Tensor x = input({2111, 45}, 8);
             const Tensor y = x * x - 1;
             cut();
             return std::vector{y.sum(0), y.prod(0), y.max(0).values, lz::argmax(y, 0)};
         }},
        {"transposed",
         [](const Cut &cut) {
             const Tensor x = input({130, 70}, 9);
             const Tensor y = x.t() * 2;
             cut();
             return std::vector{y + input({70, 130}, 10), y.sum(1), y.sum(0)};
         }},
        {"product",
         [](const Cut &cut) {
             const Tensor x = input({65, 129}, 11), w = input({129, 33}, 12), b = input({33}, 13);
             const Tensor y = lz::matmul(x, w);
             cut();
             return std::vector{lz::gelu(y + b), lz::matmul(w.t(), x.t())};
         }},
        {"vector_products",
         [](const Cut &cut) {
             const Tensor x = input({1300, 700}, 15), v = input({1300}, 16), u = input({700}, 17);
             const Tensor y = x.t() * 2, h = y.to(lz::bf16), w = y.slice(1, 0, 1000, 3);
             cut();
             return std::vector{lz::matmul(y, v),
                                lz::matmul(u, y) + 1,
                                lz::matmul(h, v.to(lz::bf16)),
                                lz::matmul(u.to(lz::bf16), h),
                                lz::matmul(w.flip({1}), v.slice(0, 0, 334)),
                                lz::matmul(v, lz::sin(v))};
         }},
        {"random",
         [](const Cut &cut) {
             lz::manual_seed(99);
             const Tensor a = lz::rand({501}), b = lz::randn({501});
             cut();
             return std::vector{a + b, lz::where(a > 0.5, b, -b)};
         }},
        {"views",
         [](const Cut &cut) {
             const Tensor x = input({24, 10}, 14);
             const Tensor y = lz::cat({x.slice(0, 0, 5), x.flip({0}), x.roll({3}, {0})}, 0);
             cut();
             return std::vector{y.reshape({53 * 2, 5}).t() + 1, lz::pad(y, {1, 2}, 0.5).sum(1)};
         }},
        {"stencils",
         [](const Cut &cut) {
             const Tensor x = input({37, 3, 150}, 18);
             const lz::Slice in(1, -1), low(0, -2), high(2, lz::None), all;
             const Tensor u = x * 1.5;
             Tensor v = x.clone();
             cut();
             v.at({in, all, in}) =
                 0.25 * (v.at({low, all, in}) + v.at({high, all, in}) + v.at({in, all, low}));
             return std::vector{
                 u.roll({1}, {0}) + u.roll({-1}, {2}) * u.roll({1, 2}, {1, 2}),
                 lz::pad(lz::exp(u.at({in, all, in})) + u.at({low, all, high}), {1, 1, 0, 0, 1, 1}, 2), v};
         }},
    };
    return cases;
}

std::vector<std::vector<std::byte>> bits(const Case &c, const Cut &cut) {
    const std::vector<Tensor> results = c.program(cut);
    std::vector<std::vector<std::byte>> bytes;
    for (const Tensor &t : results) {
        const auto *data = t.data<std::byte>();
        bytes.emplace_back(data, data + t.numel() * lz::size_of(t.dtype()));
    }
    return bytes;
}

/// Modes for a scope.
class WithModes {
public:
    explicit WithModes(const std::function<void(lz::ir::Modes &)> &change)
        : before_(lz::engine::Engine::get().target().modes) {
        lz::ir::Modes modes = before_;
        change(modes);
        lz::engine::Engine::get().set_modes(modes);
    }
    ~WithModes() { lz::engine::Engine::get().set_modes(before_); }

private:
    lz::ir::Modes before_;
};

class SameBits : public testing::TestWithParam<size_t> {
protected:
    const Case &program() const { return corpus()[GetParam()]; }
    std::vector<std::vector<std::byte>> whole() const {
        return bits(program(), [] {});
    }
};

TEST_P(SameBits, S29_cut_in_two) {
    EXPECT_EQ(bits(program(), [] { lz::sync(); }), whole());
}

TEST_P(SameBits, S29_unfused) {
    const auto fused = whole();
    const WithModes unfused([](lz::ir::Modes &modes) { modes.fuse = false; });
    EXPECT_EQ(whole(), fused);
}

TEST_P(SameBits, S29_on_one_thread_and_many) {
    const int before = lz::num_threads();
    lz::set_num_threads(1);
    const auto alone = whole();
    lz::set_num_threads(4);
    EXPECT_EQ(whole(), alone);
    lz::set_num_threads(before);
}

INSTANTIATE_TEST_SUITE_P(Semantics, SameBits, testing::Range(size_t{0}, corpus().size()),
                         [](const auto &param) { return std::string(corpus()[param.param].name); });

} // namespace
