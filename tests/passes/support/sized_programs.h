#pragma once
/// Programs that people run with many sizes, by one extent.

#include "support/sized_graphs.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lz::test {

struct SizedFamily {
    std::string name;
    int programs;      ///< as often at most the passes run for lengths 2 to 257
    int cuda_programs; ///< the same on a CUDA device
    std::function<ir::Graph(int64_t n)> make;
};

/// One layer of a decoder for one token, with `n` keys and values of `heads` heads behind it.
inline void decoder_layer(SizedGraph &g, SizedGraph::Value &x, int64_t n, std::vector<ir::ValueId> &results) {
    using ir::Op;
    constexpr int64_t kWidth = 64, kHeads = 4, kHead = kWidth / kHeads;
    const auto normed = g.layer_norm(x, g.input({kWidth}));
    const auto heads = [&](SizedGraph::Value v) { return g.reshape(v, {kHeads, 1, kHead}); };
    const auto q = heads(g.matmul(normed, g.input({kWidth, kWidth})));
    const auto k =
        g.cat({}, 1, {g.input({kHeads, n, kHead}), heads(g.matmul(normed, g.input({kWidth, kWidth})))});
    const auto v =
        g.cat({}, 1, {g.input({kHeads, n, kHead}), heads(g.matmul(normed, g.input({kWidth, kWidth})))});
    const auto weights = g.softmax(g.op(Op::Mul, g.batched(q, k, true), g.scalar(0.25)));
    const auto read = g.reshape(g.batched(weights, v, false), {1, kWidth});
    x = g.op(Op::Add, x, g.matmul(read, g.input({kWidth, kWidth})));
    const auto wide =
        g.op(Op::Maximum, g.matmul(g.layer_norm(x, g.input({kWidth})), g.input({kWidth, 4 * kWidth})),
             g.scalar(0));
    x = g.op(Op::Add, x, g.matmul(wide, g.input({4 * kWidth, kWidth})));
    results.push_back(k);
    results.push_back(v);
}

/// A layer of an encoder for `batch` sequences of so many tokens.
inline ir::Graph encoder_layer(int64_t batch, int64_t tokens) {
    using ir::Op;
    constexpr int64_t kWidth = 64, kHeads = 4, kHead = kWidth / kHeads;
    SizedGraph g;
    auto x = g.input({batch, tokens, kWidth});
    const auto heads = [&] {
        const auto v = g.reshape(g.linear(x, g.input({kWidth, kWidth})), {batch, tokens, kHeads, kHead});
        return g.reshape(g.permute(v, {0, 2, 1, 3}), {batch * kHeads, tokens, kHead});
    };
    const auto q = heads(), k = heads(), v = heads();
    const auto weights = g.softmax(g.op(Op::Mul, g.batched(q, k, true), g.scalar(0.25)));
    const auto read = g.reshape(g.batched(weights, v, false), {batch, kHeads, tokens, kHead});
    const auto joined = g.reshape(g.permute(read, {0, 2, 1, 3}), {batch, tokens, kWidth});
    x = g.layer_norm(g.op(Op::Add, x, g.linear(joined, g.input({kWidth, kWidth}))), g.input({kWidth}));
    const auto wide = g.gelu(g.linear(x, g.input({kWidth, 4 * kWidth})));
    x = g.op(Op::Add, x, g.linear(wide, g.input({4 * kWidth, kWidth})));
    return g.take({g.layer_norm(x, g.input({kWidth}))});
}

inline const std::vector<SizedFamily> &sized_families() {
    using ir::Op;
    static const std::vector<SizedFamily> families = {
        {"chain and sum of [n,256]", 4, 16,
         [](int64_t n) {
             SizedGraph g;
             const auto x = g.input({n, 256}), y = g.input({n, 256});
             const auto z = g.op(Op::Exp, g.op(Op::Mul, g.op(Op::Add, x, y), g.scalar(0.5)));
             return g.take({z, g.reduce(Op::ReduceSum, g.reduce(Op::ReduceSum, z, 1), 0)});
         }},
        {"columns of [n,256]", 3, 3,
         [](int64_t n) {
             SizedGraph g;
             const auto x = g.input({n, 256});
             return g.take({g.reduce(Op::ReduceSum, g.op(Op::Mul, x, x), 0)});
         }},
        {"vector of n", 3, 9,
         [](int64_t n) {
             SizedGraph g;
             const auto x = g.input({n});
             return g.take({g.reduce(Op::ReduceSum, g.op(Op::Mul, x, x), 0), g.op(Op::Add, x, g.scalar(1))});
         }},
        {"sum of numbers to n", 3, 9,
         [](int64_t n) {
             SizedGraph g;
             const auto x = g.numbers(n);
             return g.take({g.reduce(Op::ReduceSum, g.op(Op::Add, x, x), 0)});
         }},
        {"softmax of rows of [n,512]", 1, 2,
         [](int64_t n) {
             SizedGraph g;
             return g.take({g.softmax(g.input({n, 512}))});
         }},
        {"softmax of rows of [64,n]", 3, 16,
         [](int64_t n) {
             SizedGraph g;
             return g.take({g.softmax(g.input({64, n}))});
         }},
        {"MLP and its loss, batch n", 3, 17,
         [](int64_t n) {
             SizedGraph g;
             const auto x = g.input({n, 64});
             const auto h = g.op(Op::Maximum, g.op(Op::Add, g.matmul(x, g.input({64, 128})), g.input({128})),
                                 g.scalar(0));
             const auto p = g.softmax(g.op(Op::Add, g.matmul(h, g.input({128, 10})), g.input({10})));
             const auto off = g.op(Op::Sub, p, g.input({n, 10}));
             const auto loss =
                 g.reduce(Op::ReduceSum, g.reduce(Op::ReduceSum, g.op(Op::Mul, off, off), 1), 0);
             const auto grad = g.matmul(g.permute(h, {1, 0}), off);
             return g.take({p, loss, grad});
         }},
        {"decoder layer, n keys", 5, 27,
         [](int64_t n) {
             SizedGraph g;
             auto x = g.input({1, 64});
             std::vector<ir::ValueId> results;
             decoder_layer(g, x, n, results);
             results.push_back(x);
             return g.take(results);
         }},
        {"four decoder layers, n keys", 5, 27,
         [](int64_t n) {
             SizedGraph g;
             auto x = g.input({1, 64});
             std::vector<ir::ValueId> results;
             for (int layer = 0; layer < 4; ++layer)
                 decoder_layer(g, x, n, results);
             results.push_back(x);
             return g.take(results);
         }},
        {"attention over n tokens", 3, 33,
         [](int64_t n) {
             SizedGraph g;
             const auto heads = [&] {
                 return g.permute(g.reshape(g.matmul(g.input({n, 64}), g.input({64, 64})), {n, 4, 16}),
                                  {1, 0, 2});
             };
             const auto q = heads(), k = heads(), v = heads();
             const auto read = g.batched(g.softmax(g.batched(q, k, true)), v, false);
             return g.take({g.reshape(g.permute(read, {1, 0, 2}), {n, 64})});
         }},
        {"convolution of n images by windows", 1, 10,
         [](int64_t n) {
             SizedGraph g;
             const auto w = g.window(g.window(g.input({n, 3, 18, 18}), 3, 3), 2, 3); // [n,3,16,16,3,3]
             const auto rows = g.reshape(g.permute(w, {0, 2, 3, 1, 4, 5}), {n * 256, 27});
             return g.take({g.op(Op::Maximum, g.matmul(rows, g.input({27, 8})), g.scalar(0))});
         }},
        {"convolution of images of n x n by windows, and the weights' gradient", 2, 42,
         [](int64_t n) {
             SizedGraph g;
             const auto w = g.window(g.window(g.input({2, 3, n + 2, n + 2}), 3, 3), 2, 3); // [2,3,n,n,3,3]
             const auto rows = g.reshape(g.permute(w, {0, 2, 3, 1, 4, 5}), {2 * n * n, 27});
             return g.take({g.matmul(rows, g.input({27, 8})),
                            g.matmul(g.permute(rows, {1, 0}), g.input({2 * n * n, 8}))});
         }},
        {"stencil on a torus of [n,48]", 5, 6,
         [](int64_t n) {
             SizedGraph g;
             const auto u = g.input({n, 48});
             const auto sum = g.op(Op::Add, g.op(Op::Add, g.roll(u, 0, 1), g.roll(u, 1, 1)), u);
             return g.take({g.op(Op::Mul, sum, g.scalar(0.3))});
         }},
        {"padded, sliced [n,n]", 7, 41,
         [](int64_t n) {
             SizedGraph g;
             const auto u = g.pad(g.input({n, n}), 1);
             const auto up = g.slice(u, 0, 0, n), down = g.slice(u, 0, 2, n);
             return g.take({g.op(Op::Add, up, down), g.slice(u, 1, 1, (n + 2) / 2, 2)});
         }},
        {"training step of an MLP by hand, batch n", 4, 17,
         [](int64_t n) {
             SizedGraph g;
             const auto x = g.input({n, 64}), labels = g.input({n}, ir::DType::I64);
             const auto w1 = g.updated({64, 128}, 0), b1 = g.updated({128}, 1);
             const auto w2 = g.updated({128, 10}, 2), b2 = g.updated({10}, 3);
             const auto h = g.op(Op::Maximum, g.op(Op::Add, g.matmul(x, w1), b1), g.scalar(0));
             const auto logits = g.op(Op::Add, g.matmul(h, w2), b2);
             const auto off = g.op(Op::Sub, logits, g.keep(Op::ReduceMax, logits, 1));
             const auto sums = g.keep(Op::ReduceSum, g.op(Op::Exp, off), 1);
             const auto hot = g.one_hot(labels, 10);
             const auto losses =
                 g.op(Op::Sub, g.op(Op::Log, sums), g.keep(Op::ReduceSum, g.op(Op::Mul, off, hot), 1));
             const auto count = g.scalar(static_cast<double>(n));
             const auto loss = g.op(Op::Div, g.reduce(Op::ReduceSum, g.reshape(losses, {n}), 0), count);
             const auto d = g.op(Op::Div, g.op(Op::Sub, g.op(Op::Div, g.op(Op::Exp, off), sums), hot), count);
             const auto dh = g.op(Op::Select, g.op(Op::Gt, h, g.scalar(0)),
                                  g.matmul(d, g.permute(w2, {1, 0})), g.scalar(0));
             const auto step = [&](SizedGraph::Value w, SizedGraph::Value gradient) {
                 return g.op(Op::Sub, w, g.op(Op::Mul, gradient, g.scalar(0.01)));
             };
             return g.take({step(w1, g.matmul(g.permute(x, {1, 0}), dh)),
                            step(b1, g.reduce(Op::ReduceSum, dh, 0)),
                            step(w2, g.matmul(g.permute(h, {1, 0}), d)),
                            step(b2, g.reduce(Op::ReduceSum, d, 0)), loss});
         }},
        {"encoder layer, batch n of 12 tokens", 1, 27, [](int64_t n) { return encoder_layer(n, 12); }},
        {"encoder layer, 2 of n tokens", 3, 29, [](int64_t n) { return encoder_layer(2, n); }},
        {"norm, linear, gelu of [n,64]", 1, 2,
         [](int64_t n) {
             SizedGraph g;
             const auto x = g.layer_norm(g.input({n, 64}), g.input({64}));
             return g.take({g.gelu(g.op(Op::Add, g.linear(x, g.input({64, 256})), g.input({256})))});
         }},
        {"masked mean of [8,n,32] over n", 5, 17,
         [](int64_t n) {
             SizedGraph g;
             const auto x = g.input({8, n, 32}), mask = g.input({8, n});
             const auto sum = g.reduce(Op::ReduceSum, g.op(Op::Mul, x, g.reshape(mask, {8, n, 1})), 1);
             return g.take({g.op(Op::Div, sum, g.keep(Op::ReduceSum, mask, 1))});
         }},
        {"stencil of padded [n,48]", 2, 3,
         [](int64_t n) {
             SizedGraph g;
             const auto u = g.input({n, 48}), p = g.pad(u, 1);
             const auto part = [&](int64_t row, int64_t column) {
                 return g.slice(g.slice(p, 0, row, n), 1, column, 48);
             };
             const auto beside =
                 g.op(Op::Add, g.op(Op::Add, part(0, 1), part(2, 1)), g.op(Op::Add, part(1, 0), part(1, 2)));
             return g.take({g.op(Op::Sub, beside, g.op(Op::Mul, u, g.scalar(4)))});
         }},
        {"k-means of n points", 7, 9,
         [](int64_t n) {
             SizedGraph g;
             const auto points = g.input({n, 3}), centers = g.input({5, 3});
             const auto off = g.op(Op::Sub, g.broadcast(g.reshape(points, {n, 1, 3}), {n, 5, 3}),
                                   g.broadcast(g.reshape(centers, {1, 5, 3}), {n, 5, 3}));
             const auto nearest = g.argmin(g.reduce(Op::ReduceSum, g.op(Op::Mul, off, off), 2), 1);
             const auto hot = g.one_hot(nearest, 5);
             const auto counts = g.reshape(g.reduce(Op::ReduceSum, hot, 0), {5, 1});
             return g.take({nearest, g.op(Op::Div, g.matmul(g.permute(hot, {1, 0}), points),
                                          g.op(Op::Maximum, counts, g.scalar(1)))});
         }},
        {"distances between n points", 7, 11,
         [](int64_t n) {
             SizedGraph g;
             const auto points = g.input({n, 3});
             const auto off = g.op(Op::Sub, g.broadcast(g.reshape(points, {1, n, 3}), {n, n, 3}),
                                   g.broadcast(g.reshape(points, {n, 1, 3}), {n, n, 3}));
             const auto near = g.keep(Op::ReduceSum, g.op(Op::Mul, off, off), 2);
             const auto pull = g.op(Op::Div, off, g.op(Op::Add, near, g.scalar(1)));
             return g.take({g.reduce(Op::ReduceSum, pull, 1)});
         }},
        {"sorted, summed up, put apart: n numbers", 1, 6,
         [](int64_t n) {
             SizedGraph g;
             const auto x = g.input({n}), index = g.input({n}, ir::DType::I64);
             const auto sorted = g.sort(x, 0);
             return g.take({g.cumsum(sorted, 0), g.scatter_add(g.input({7}), index, x, 0),
                            g.op(Op::Add, g.gather(x, sorted + 1, 0), sorted)});
         }},
        {"covariance of [100,n]", 2, 4,
         [](int64_t n) {
             SizedGraph g;
             const auto x = g.input({100, n});
             const auto off = g.op(Op::Sub, x, g.op(Op::Div, g.keep(Op::ReduceSum, x, 0), g.scalar(100)));
             return g.take({g.op(Op::Div, g.matmul(g.permute(off, {1, 0}), off), g.scalar(99))});
         }},
    };
    return families;
}

} // namespace lz::test
