#include "passes/lower/products/epilogue.h"

#include "passes/lower/products/dot.h"
#include "passes/simplify/fold.h"

#include <cmath>
#include <numbers>

namespace lz::passes {

using namespace ir;

namespace {

class EpilogueMatch {
public:
    EpilogueMatch(const Graph &graph, const Node &dot, const std::function<bool(ValueId)> &inside,
                  bool fast_math)
        : graph_(graph), dot_(dot), inside_(inside), fast_math_(fast_math) {}

    std::optional<ProductEpilogue> run(ValueId stored) {
        ValueId v = through_reshapes(stored);
        const DType dtype = graph_.type(graph_.result(dot_)).dtype;
        if (const auto x = relu(v)) {
            found_.what |= kEpilogueRelu;
            v = through_reshapes(*x);
        } else if (const auto y = fast_math_ ? gelu(v) : std::nullopt) {
            found_.what |= kEpilogueGelu;
            v = through_reshapes(*y);
        }
        if (v != graph_.result(dot_) && (dtype == DType::F32 || fast_math_))
            if (const auto sum = plus_bias(v))
                v = through_reshapes(*sum);
        if (v != graph_.result(dot_) || (found_.what != kNoEpilogue && dtype == DType::F64))
            return std::nullopt;
        return found_;
    }

private:
    /// The operation that makes v here, if it is this one.
    const Node *made_by(ValueId v, Op op) const {
        const Node *node = inside_(v) ? graph_.producer(v) : nullptr;
        return node && node->op == op ? node : nullptr;
    }
    ValueId operand(const Node &node, size_t k) const { return graph_.operands(node)[k]; }

    ValueId through_reshapes(ValueId v) const {
        while (const Node *node = made_by(v, Op::Reshape))
            v = operand(*node, 0);
        return v;
    }

    bool is_number(ValueId v, double number) const {
        const Node *node = graph_.producer(v);
        if (!node || node->op != Op::Literal)
            return false;
        const DType dtype = graph_.type(v).dtype;
        if (!is_float(dtype))
            return false;
        const double value =
            round_to(dtype, scalar_double(graph_.attrs(*node).scalar_word(attr::kMakerValue)));
        return value == round_to(dtype, number) && std::signbit(value) == std::signbit(number);
    }

    /// The other operand of `op` beside one for which f holds.
    template <class F>
    std::optional<ValueId> beside(ValueId v, Op op, F &&f) {
        const Node *node = made_by(v, op);
        if (!node)
            return std::nullopt;
        for (size_t k = 0; k < 2; ++k)
            if (f(operand(*node, k))) {
                ++found_.nodes;
                return operand(*node, 1 - k);
            }
        return std::nullopt;
    }
    std::optional<ValueId> beside_number(ValueId v, Op op, double number) {
        return beside(v, op, [&](ValueId x) { return is_number(x, number); });
    }

    std::optional<ValueId> relu(ValueId v) { return beside_number(v, Op::Maximum, 0); }

    /// x / 2 (1 + erf(x / sqrt(2))), or what approximates it, x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715
    /// x^3))), computed in f32. The library has the latter, which is at most 0.0005 beside the former.
    std::optional<ValueId> gelu(ValueId v) {
        const ProductEpilogue before = found_;
        const auto x = gelu_of(v);
        if (!x)
            found_ = before;
        return x;
    }
    std::optional<ValueId> gelu_of(ValueId v) {
        const bool narrow = size_of(graph_.type(v).dtype) < 4;
        if (narrow) {
            const Node *back = made_by(v, Op::Cast);
            if (!back)
                return std::nullopt;
            ++found_.nodes;
            v = operand(*back, 0);
        }
        ValueId x = kNone;
        const auto half = beside(v, Op::Mul, [&](ValueId other) {
            const int nodes = found_.nodes;
            x = tanh_part(other);
            if (x == kNone) {
                found_.nodes = nodes;
                x = erf_part(other);
            }
            if (x == kNone)
                found_.nodes = nodes;
            return x != kNone;
        });
        const auto whole = half ? beside_number(*half, Op::Mul, 0.5) : std::nullopt;
        if (!whole || *whole != x)
            return std::nullopt;
        if (!narrow)
            return x;
        const Node *wide = made_by(x, Op::Cast);
        if (!wide)
            return std::nullopt;
        ++found_.nodes;
        return operand(*wide, 0);
    }
    /// x of 1 + erf(x / sqrt(2)), or kNone.
    ValueId erf_part(ValueId v) {
        const auto erf = beside_number(v, Op::Add, 1);
        const Node *function = erf ? made_by(*erf, Op::Erf) : nullptr;
        if (!function)
            return kNone;
        ++found_.nodes;
        return beside_number(operand(*function, 0), Op::Mul, std::numbers::sqrt2 / 2).value_or(kNone);
    }
    /// x of 1 + tanh(sqrt(2 / pi) (x + 0.044715 x x x)), or kNone.
    ValueId tanh_part(ValueId v) {
        const auto tanh = beside_number(v, Op::Add, 1);
        const Node *function = tanh ? made_by(*tanh, Op::Tanh) : nullptr;
        if (!function)
            return kNone;
        ++found_.nodes;
        const auto scaled =
            beside_number(operand(*function, 0), Op::Mul, std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
        const Node *sum = scaled ? made_by(*scaled, Op::Add) : nullptr;
        if (!sum)
            return kNone;
        ++found_.nodes;
        const bool cube_first = is_scaled(operand(*sum, 0), 0.044715);
        const ValueId x = operand(*sum, cube_first ? 1 : 0);
        const auto cube = beside_number(operand(*sum, cube_first ? 0 : 1), Op::Mul, 0.044715);
        const auto square =
            cube ? beside(*cube, Op::Mul, [&](ValueId other) { return other == x; }) : std::nullopt;
        const Node *twice = square ? made_by(*square, Op::Mul) : nullptr;
        if (!twice || operand(*twice, 0) != x || operand(*twice, 1) != x)
            return kNone;
        ++found_.nodes;
        return x;
    }

    bool is_scaled(ValueId v, double number) const {
        const Node *node = made_by(v, Op::Mul);
        return node && (is_number(operand(*node, 0), number) || is_number(operand(*node, 1), number));
    }

    /// The sum's other operand beside a vector in memory along the columns of the product.
    std::optional<ValueId> plus_bias(ValueId v) {
        const DotDims dims = dot_dims(graph_, dot_);
        if (dims.n.size() != 1)
            return std::nullopt;
        return beside(v, Op::Add, [&](ValueId b) {
            const TensorType &type = graph_.type(b);
            const int last = type.shape.rank() - 1;
            if (last < 0 || type.numel() != dims.columns() || type.shape[last] != dims.columns() ||
                graph_.type(v).shape[graph_.type(v).shape.rank() - 1] != dims.columns())
                return false;
            const ValueId base = through_reshapes(b);
            if (inside_(base) || graph_.type(base).device != type.device)
                return false;
            found_.what |= kEpilogueBias;
            found_.bias = base;
            return true;
        });
    }

    const Graph &graph_;
    const Node &dot_;
    const std::function<bool(ValueId)> &inside_;
    const bool fast_math_;
    ProductEpilogue found_;
};

} // namespace

std::optional<ProductEpilogue> product_epilogue(const Graph &graph, const Node &dot, ValueId stored,
                                                const std::function<bool(ValueId)> &inside, bool fast_math) {
    return EpilogueMatch(graph, dot, inside, fast_math).run(stored);
}

} // namespace lz::passes
