#pragma once
/// Random nodes of the elementwise rows, with the domains in which each function is compared. Internal to
/// `random_graph*`.

#include "tests/support/random/values.h"
#include "tests/support/reference.h"

#include <stdexcept>
#include <utility>
#include <vector>

namespace lz::test {

/// A function of floats: the domain to which its operands are clamped, the results, and the greatest slope
/// there.
struct Function {
    Op op;
    double low, high;
    double result_low, result_high, slope;
    enum { Exact, Inexact, Jumps } kind;
};
inline constexpr Function kFunctions[] = {
    {Op::Neg, -kFar, kFar, -kFar, kFar, 1, Function::Exact},
    {Op::Abs, -kFar, kFar, 0, kFar, 1, Function::Exact},
    {Op::Sign, -kFar, kFar, -1, 1, 0, Function::Jumps},
    {Op::Floor, -kFar, kFar, -kFar, kFar, 0, Function::Jumps},
    {Op::Ceil, -kFar, kFar, -kFar, kFar, 0, Function::Jumps},
    {Op::Round, -kFar, kFar, -kFar, kFar, 0, Function::Jumps},
    {Op::Trunc, -kFar, kFar, -kFar, kFar, 0, Function::Jumps},
    {Op::Exp, -6, 4, 0, 55, 55, Function::Inexact},
    {Op::Expm1, -6, 4, -1, 55, 55, Function::Inexact},
    {Op::Log, 0.25, kFar, -2, 7, 4, Function::Inexact},
    {Op::Log1p, -0.75, kFar, -2, 7, 4, Function::Inexact},
    {Op::Log2, 0.25, kFar, -2, 10, 6, Function::Inexact},
    {Op::Log10, 0.25, kFar, -0.7, 3, 2, Function::Inexact},
    {Op::Sqrt, 0.0625, kFar, 0, 32, 2, Function::Exact},
    {Op::Rsqrt, 0.25, kFar, 0, 2, 4, Function::Inexact},
    {Op::Sin, -8, 8, -1, 1, 1, Function::Inexact},
    {Op::Cos, -8, 8, -1, 1, 1, Function::Inexact},
    {Op::Tan, -1, 1, -1.6, 1.6, 4, Function::Inexact},
    {Op::Asin, -0.875, 0.875, -1.1, 1.1, 3, Function::Inexact},
    {Op::Acos, -0.875, 0.875, 0, 2.7, 3, Function::Inexact},
    {Op::Atan, -kFar, kFar, -1.6, 1.6, 1, Function::Inexact},
    {Op::Sinh, -3, 3, -10.1, 10.1, 10.1, Function::Inexact},
    {Op::Cosh, -3, 3, 1, 10.1, 10.1, Function::Inexact},
    {Op::Tanh, -kFar, kFar, -1, 1, 1, Function::Inexact},
    {Op::Erf, -kFar, kFar, -1, 1, 1.2, Function::Inexact},
    {Op::Sigmoid, -kFar, kFar, 0, 1, 0.25, Function::Inexact},
};

/// An op of one or two floats that has no line above and no case below: the first of a few small domains in
/// which its reference column is finite, with bounds and slope of samples. For what is continuous there; what
/// jumps needs a line of its own.
inline Function sampled(Op op) {
    constexpr int kSamples = 64;
    const int across = info(op).min_operands == 2 ? kSamples : 0;
    for (const auto &[low, high] : {std::pair{0.25, 0.875}, {1.25, 4.0}, {-0.875, -0.25}}) {
        const double step = (high - low) / kSamples;
        Function f{op, low, high, kFar, -kFar, 0, Function::Inexact};
        std::vector<double> before(kSamples + 1); // results at the x before
        bool finite = true;
        for (int i = 0; i <= kSamples; ++i)
            for (int j = 0; j <= across; ++j) {
                const double now = reference(op, low + i * step, low + j * step);
                finite = finite && std::fabs(now) < kFar;
                if (i > 0)
                    f.slope = std::max(f.slope, std::fabs(now - before[static_cast<size_t>(j)]) / step);
                if (j > 0)
                    f.slope = std::max(f.slope, std::fabs(now - before[static_cast<size_t>(j - 1)]) / step);
                before[static_cast<size_t>(j)] = now;
                f.result_low = std::min(f.result_low, now);
                f.result_high = std::max(f.result_high, now);
            }
        if (!finite)
            continue;
        f.slope *= 2; // between samples it may be steeper
        f.result_low -= f.slope * step;
        f.result_high += f.slope * step;
        return f;
    }
    throw std::logic_error("The domain of " + std::string(name(op)) +
                           " is none of those that `sampled` tries: give it a line in kFunctions.");
}

class RandomElementwise : protected RandomValues {
protected:
    using RandomValues::RandomValues;

    void elementwise(Op op) {
        const ElementwiseRule rule = info(op).rule;
        const auto allowed = [](ElementwiseRule which) -> bool (*)(DType) {
            switch (which) {
            case ElementwiseRule::Numeric:
                return [](DType t) { return t != DType::Bool; };
            case ElementwiseRule::Float:
            case ElementwiseRule::FloatTest:
                return [](DType t) { return is_float(t); };
            case ElementwiseRule::Integer:
                return [](DType t) { return is_integer(t); };
            case ElementwiseRule::Bits:
                return [](DType t) { return !is_float(t); };
            default:
                return [](DType) { return true; };
            }
        }(rule);
        const DType dtype = dtype_where(allowed);
        if (!allowed(dtype))
            return;
        if (rule == ElementwiseRule::Select)
            return select(dtype);
        if (!is_float(dtype))
            return integers(op, dtype);
        const auto f = std::ranges::find(kFunctions, op, &Function::op);
        if (f != std::end(kFunctions))
            return function(*f, dtype);
        if (info(op).min_operands == 1 && rule != ElementwiseRule::FloatTest)
            return function(sampled(op), dtype);
        floats(op, dtype);
    }

    void select(DType dtype) {
        const Item c = value_of(DType::Bool, true), x = partner(c, dtype, false),
                   y = partner(x, dtype, false);
        Shape out;
        int axis = 0;
        // x and y both fit their partner, not always each other's.
        if (!broadcast_shapes(shape_of(c), shape_of(x), out, axis) ||
            !broadcast_shapes(out, shape_of(y), out, axis) || out.numel() > o_.max_elements)
            return;
        add(Op::Select, {c, x, y}, {}, {}, std::min(x.low, y.low), std::max(x.high, y.high),
            std::max(x.error, y.error));
    }

    void integers(Op op, DType dtype) {
        const Item x = value_of(dtype, true);
        const bool compares = info(op).rule == ElementwiseRule::Compare;
        const double inf = std::numeric_limits<double>::infinity();
        if (info(op).min_operands == 1) {
            add(op, {x}, {}, {}, -inf, inf, 0);
            return;
        }
        Item y = partner(x, dtype, true);
        const bool divides = op == Op::Div || op == Op::FloorDiv || op == Op::Remainder || op == Op::Fmod;
        if (divides && !o_.faults) // x | 1 is not zero
            y = keep(b_.binary(Op::Or, y.id, number(dtype, 1).id), -inf, inf, 0);
        add(op, {x, y}, {}, {}, compares ? 0 : -inf, compares ? 1 : inf, 0);
    }

    void function(const Function &f, DType dtype) {
        Item x = value_of(dtype, f.kind == Function::Jumps);
        x = clamp(x, f.low, f.high);
        const double error = f.kind != Function::Inexact && x.error == 0
                                 ? 0
                                 : f.slope * x.error + rounding(x, std::max(std::fabs(f.result_low),
                                                                            std::fabs(f.result_high)));
        double low = f.result_low, high = f.result_high;
        if (f.result_high == kFar) { // as far as the operand is
            high = std::min(kFar, x.magnitude() + 1);
            low = f.result_low == 0 ? 0 : -high;
        }
        add(f.op, {x}, {}, {}, low, high, error);
    }

    void floats(Op op, DType dtype) {
        const bool jumps = info(op).rule == ElementwiseRule::Compare ||
                           info(op).rule == ElementwiseRule::FloatTest || op == Op::FloorDiv ||
                           op == Op::Remainder || op == Op::Fmod || op == Op::Atan2;
        Item x = value_of(dtype, jumps);
        if (info(op).rule == ElementwiseRule::FloatTest) {
            add(op, {x}, {}, {}, 0, 1, 0);
            return;
        }
        Item y = partner(x, dtype, jumps);
        if (info(op).rule == ElementwiseRule::Compare) {
            add(op, {x, y}, {}, {}, 0, 1, 0);
            return;
        }
        const bool exact = x.error == 0 && y.error == 0;
        switch (op) {
        case Op::Minimum:
        case Op::Maximum:
            add(op, {x, y}, {}, {}, std::min(x.low, y.low), std::max(x.high, y.high),
                std::max(x.error, y.error));
            return;
        case Op::Add:
        case Op::Sub: {
            x = clamp(x, -kFar, kFar);
            y = clamp(y, -kFar, kFar);
            const double m = x.magnitude() + y.magnitude();
            add(op, {x, y}, {}, {}, -m, m, exact ? 0 : x.error + y.error + rounding(x, m));
            return;
        }
        case Op::Mul: {
            x = clamp(x, -64, 64);
            y = clamp(y, -64, 64);
            const double m = x.magnitude() * y.magnitude();
            add(op, {x, y}, {}, {}, -m, m,
                exact
                    ? 0
                    : x.magnitude() * y.error + y.magnitude() * x.error + x.error * y.error + rounding(x, m));
            return;
        }
        case Op::Pow:
            x = clamp(x, 0.5, 2);
            y = clamp(y, -2, 2);
            add(op, {x, y}, {}, {}, 0, 4, 16 * x.error + 3 * y.error + rounding(x, 4));
            return;
        case Op::Atan2: // away from the branch cut, at which the sign of a zero would be seen
            if (r_.chance(50))
                x = clamp(x, 0.125, kFar);
            else
                y = clamp(y, 0.125, kFar);
            add(op, {x, y}, {}, {}, -3.2, 3.2, rounding(x, 3.2));
            return;
        case Op::Div:
        case Op::FloorDiv:
        case Op::Remainder:
        case Op::Fmod: { // divisors of one sign and away from zero
            x = clamp(x, -kFar, kFar);
            y = clamp(y, 0.25, kFar);
            const double m = op == Op::Div || op == Op::FloorDiv ? 4 * x.magnitude() + 1 : y.magnitude();
            const double error = 4 * x.error + 4 * m * y.error + rounding(x, m);
            add(op, {x, y}, {}, {}, -m, m, exact && op != Op::FloorDiv ? 0 : error);
            return;
        }
        default: {
            const Function f = sampled(op);
            x = clamp(x, f.low, f.high);
            y = clamp(y, f.low, f.high);
            const double most = std::max(std::fabs(f.result_low), std::fabs(f.result_high));
            add(op, {x, y}, {}, {}, f.result_low, f.result_high,
                f.slope * (x.error + y.error) + rounding(x, most));
        }
        }
    }
};

} // namespace lz::test
