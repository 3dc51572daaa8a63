#pragma once
/// What graphs are made of that people run with many sizes.

#include "ir/graph/builder.h"

#include <array>
#include <cstdint>
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
    /// One that the Program may overwrite by its result of this number.
    Value updated(const ir::Shape &shape, uint32_t result) {
        const Value v = input(shape);
        b_.graph().params.back().donated = true;
        b_.graph().params.back().donated_to = result;
        return v;
    }
    Value scalar(double value) { return b_.constant(ir::DType::F32, value); }
    Value op(ir::Op op, Value x) { return b_.unary(op, x); }
    Value op(ir::Op op, Value x, Value y) { return b_.binary(op, like(x, y), like(y, x)); }
    Value op(ir::Op op, Value x, Value y, Value z) {
        ir::Shape shape = shape_of(y);
        return b_.add(op, {x, y, b_.broadcast(z, shape)});
    }
    Value broadcast(Value x, const ir::Shape &shape) { return b_.broadcast(x, shape); }
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
    /// Of [..,m,k] and [k,n].
    Value linear(Value x, Value weight) {
        ir::Shape shape = shape_of(x);
        const int last = shape.rank() - 1;
        const Value rows = reshape(x, {shape.numel() / shape[last], shape[last]});
        shape[last] = shape_of(weight)[1];
        return reshape(matmul(rows, weight), shape);
    }
    Value gelu(Value x) {
        const Value half = op(ir::Op::Mul, x, scalar(0.5));
        const Value erf = op(ir::Op::Erf, op(ir::Op::Mul, x, scalar(0.7071)));
        return op(ir::Op::Mul, half, op(ir::Op::Add, erf, scalar(1)));
    }
    /// 1 where a number of [n] is that of the column, of [n, classes].
    Value one_hot(Value numbers, int64_t classes) {
        const Value rows = reshape(numbers, {shape_of(numbers)[0], 1});
        const Value columns = b_.iota(ir::DType::I64, {1, classes}, 1);
        const ir::Shape shape{shape_of(numbers)[0], classes};
        return b_.cast(op(ir::Op::Eq, b_.broadcast(rows, shape), b_.broadcast(columns, shape)),
                       ir::DType::F32);
    }
    Value gather(Value x, Value index, int axis) {
        return b_.add(ir::Op::Gather, {x, index}, {int64_t{axis}});
    }
    Value scatter_add(Value x, Value index, Value source, int axis) {
        return b_.add(ir::Op::Scatter, {x, index, source}, {int64_t{axis}, 1});
    }
    Value cumsum(Value x, int axis) { return b_.add(ir::Op::CumSum, {x}, {int64_t{axis}}); }
    Value argmin(Value x, int axis) { return b_.add(ir::Op::ArgMin, {x}, {int64_t{axis}}); }
    /// Values, and behind them their indices.
    Value sort(Value x, int axis) { return b_.add(ir::Op::Sort, {x}, {int64_t{axis}, 0}); }
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

} // namespace lz::test
