#pragma once
/// Graphs of programs that people run with many sizes, by one extent.

#include "ir/graph/builder.h"

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace lz::test {

/// GraphBuilder with what these graphs are made of. Nodes are numbered as a recording's are.
class SizedGraph {
public:
    using Value = ir::ValueId;
    using Sizes = std::vector<int64_t>;

    Value input(const ir::Shape &shape, ir::DType dtype = ir::DType::F32) {
        return b_.param({dtype, shape, ir::kCpu}, "p" + std::to_string(params_++));
    }
    Value scalar(double value) { return b_.constant(ir::DType::F32, value); }
    Value op(ir::Op op, Value x) { return b_.unary(op, x); }
    Value op(ir::Op op, Value x, Value y) { return b_.binary(op, like(x, y), like(y, x)); }
    Value reduce(ir::Op op, Value x, int axis) { return b_.reduce(op, x, std::array{int64_t{axis}}); }
    Value keep(ir::Op op, Value x, int axis) {
        ir::Shape shape = shape_of(x);
        shape[axis] = 1;
        return b_.reshape(reduce(op, x, axis), shape);
    }
    Value softmax(Value x) {
        const int axis = shape_of(x).rank() - 1;
        const Value e = op(ir::Op::Exp, op(ir::Op::Sub, x, keep(ir::Op::ReduceMax, x, axis)));
        return op(ir::Op::Div, e, keep(ir::Op::ReduceSum, e, axis));
    }
    Value layer_norm(Value x, Value weight) {
        const int axis = shape_of(x).rank() - 1;
        const Value count = scalar(static_cast<double>(shape_of(x)[axis]));
        const Value off = op(ir::Op::Sub, x, op(ir::Op::Div, keep(ir::Op::ReduceSum, x, axis), count));
        const Value spread = op(ir::Op::Div, keep(ir::Op::ReduceSum, op(ir::Op::Mul, off, off), axis), count);
        return op(ir::Op::Mul, op(ir::Op::Mul, off, op(ir::Op::Rsqrt, op(ir::Op::Add, spread, scalar(1e-5)))),
                  weight);
    }
    /// 0 to n - 1
    Value numbers(int64_t n) { return b_.iota(ir::DType::I64, {n}, 0); }
    Value matmul(Value a, Value b) { return b_.matmul(a, b); }
    /// Products of [b,m,k] and [b,k,n], or [b,n,k] if `turned`.
    Value batched(Value a, Value b, bool turned) {
        return b_.add(ir::Op::Dot, {a, b},
                      {1, 0, 1, 0, 1, 2, 1, turned ? 2 : 1, static_cast<int64_t>(ir::DType::F32)});
    }
    Value permute(Value x, const Sizes &axes) { return b_.permute(x, axes); }
    Value reshape(Value x, const ir::Shape &shape) { return b_.reshape(x, shape); }
    Value cat(const Sizes &, int axis, const std::vector<Value> &parts) {
        return b_.add(ir::Op::Concat, parts, std::array{int64_t{axis}});
    }
    Value slice(Value x, int axis, int64_t begin, int64_t size, int64_t step = 1) {
        const auto rank = static_cast<size_t>(shape_of(x).rank());
        Sizes starts(rank, 0), sizes(shape_of(x).begin(), shape_of(x).end()), steps(rank, 1);
        starts[static_cast<size_t>(axis)] = begin;
        sizes[static_cast<size_t>(axis)] = size;
        steps[static_cast<size_t>(axis)] = step;
        return b_.slice(x, starts, sizes, steps);
    }
    Value roll(Value x, int axis, int64_t by) {
        const int64_t n = shape_of(x)[axis];
        return cat({}, axis, {slice(x, axis, n - by, by), slice(x, axis, 0, n - by)});
    }
    Value pad(Value x, int64_t by) {
        const auto rank = static_cast<size_t>(shape_of(x).rank());
        Sizes words{static_cast<int64_t>(rank)};
        words.insert(words.end(), rank, by);
        words.insert(words.end(), words.begin(), words.begin() + 1 + static_cast<std::ptrdiff_t>(rank));
        return b_.add(ir::Op::Pad, std::array{x, scalar(0)}, words);
    }
    Value window(Value x, int axis, int64_t size) {
        return b_.add(ir::Op::Window, {x}, {axis, 0, shape_of(x)[axis] - size + 1, size, 1});
    }
    const ir::Shape &shape_of(Value v) { return b_.graph().type(v).shape; }

    ir::Graph take(std::vector<Value> results) {
        b_.graph().results = std::move(results);
        ir::Graph graph = b_.take();
        for (ir::NodeId id = 0; id < graph.nodes().size(); ++id)
            graph.set_recorded(id, id);
        return graph;
    }

private:
    Value like(Value x, Value other) {
        const ir::Shape &a = shape_of(x), &b = shape_of(other);
        ir::Shape shape;
        int axis = 0;
        ir::broadcast_shapes(a, b, shape, axis);
        return a == shape ? x : b_.broadcast(x, shape);
    }

    ir::GraphBuilder b_;
    int params_ = 0;
};

struct SizedFamily {
    std::string name;
    int programs; ///< as often at most the passes run for lengths 2 to 257
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

inline const std::vector<SizedFamily> &sized_families() {
    using ir::Op;
    static const std::vector<SizedFamily> families = {
        {"chain and sum of [n,256]", 6,
         [](int64_t n) {
             SizedGraph g;
             const auto x = g.input({n, 256}), y = g.input({n, 256});
             const auto z = g.op(Op::Exp, g.op(Op::Mul, g.op(Op::Add, x, y), g.scalar(0.5)));
             return g.take({z, g.reduce(Op::ReduceSum, g.reduce(Op::ReduceSum, z, 1), 0)});
         }},
        {"columns of [n,256]", 5,
         [](int64_t n) {
             SizedGraph g;
             const auto x = g.input({n, 256});
             return g.take({g.reduce(Op::ReduceSum, g.op(Op::Mul, x, x), 0)});
         }},
        {"vector of n", 4,
         [](int64_t n) {
             SizedGraph g;
             const auto x = g.input({n});
             return g.take({g.reduce(Op::ReduceSum, g.op(Op::Mul, x, x), 0), g.op(Op::Add, x, g.scalar(1))});
         }},
        {"sum of numbers to n", 9,
         [](int64_t n) {
             SizedGraph g;
             const auto x = g.numbers(n);
             return g.take({g.reduce(Op::ReduceSum, g.op(Op::Add, x, x), 0)});
         }},
        {"softmax of rows of [n,512]", 4,
         [](int64_t n) {
             SizedGraph g;
             return g.take({g.softmax(g.input({n, 512}))});
         }},
        {"softmax of rows of [64,n]", 4,
         [](int64_t n) {
             SizedGraph g;
             return g.take({g.softmax(g.input({64, n}))});
         }},
        {"MLP and its loss, batch n", 11,
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
        {"decoder layer, n keys", 13,
         [](int64_t n) {
             SizedGraph g;
             auto x = g.input({1, 64});
             std::vector<ir::ValueId> results;
             decoder_layer(g, x, n, results);
             results.push_back(x);
             return g.take(results);
         }},
        {"four decoder layers, n keys", 14,
         [](int64_t n) {
             SizedGraph g;
             auto x = g.input({1, 64});
             std::vector<ir::ValueId> results;
             for (int layer = 0; layer < 4; ++layer)
                 decoder_layer(g, x, n, results);
             results.push_back(x);
             return g.take(results);
         }},
        {"attention over n tokens", 12,
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
        {"convolution of n images by windows", 10,
         [](int64_t n) {
             SizedGraph g;
             const auto w = g.window(g.window(g.input({n, 3, 18, 18}), 3, 3), 2, 3); // [n,3,16,16,3,3]
             const auto rows = g.reshape(g.permute(w, {0, 2, 3, 1, 4, 5}), {n * 256, 27});
             return g.take({g.op(Op::Maximum, g.matmul(rows, g.input({27, 8})), g.scalar(0))});
         }},
        {"convolution of images of n x n by windows, and the weights' gradient", 13,
         [](int64_t n) {
             SizedGraph g;
             const auto w = g.window(g.window(g.input({2, 3, n + 2, n + 2}), 3, 3), 2, 3); // [2,3,n,n,3,3]
             const auto rows = g.reshape(g.permute(w, {0, 2, 3, 1, 4, 5}), {2 * n * n, 27});
             return g.take({g.matmul(rows, g.input({27, 8})),
                            g.matmul(g.permute(rows, {1, 0}), g.input({2 * n * n, 8}))});
         }},
        {"stencil on a torus of [n,48]", 6,
         [](int64_t n) {
             SizedGraph g;
             const auto u = g.input({n, 48});
             const auto sum = g.op(Op::Add, g.op(Op::Add, g.roll(u, 0, 1), g.roll(u, 1, 1)), u);
             return g.take({g.op(Op::Mul, sum, g.scalar(0.3))});
         }},
        {"padded, sliced [n,n]", 9,
         [](int64_t n) {
             SizedGraph g;
             const auto u = g.pad(g.input({n, n}), 1);
             const auto up = g.slice(u, 0, 0, n), down = g.slice(u, 0, 2, n);
             return g.take({g.op(Op::Add, up, down), g.slice(u, 1, 1, (n + 2) / 2, 2)});
         }},
    };
    return families;
}

} // namespace lz::test
