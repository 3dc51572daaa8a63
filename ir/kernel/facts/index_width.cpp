#include "ir/kernel/facts/index_width.h"

#include <algorithm>

namespace lz::ir {

namespace {

/// Operations that indices are computed with.
bool is_index_op(KOp op) {
    switch (op) {
    case KOp::Add:
    case KOp::Sub:
    case KOp::Mul:
    case KOp::Div:
    case KOp::Rem:
    case KOp::Neg:
    case KOp::Minimum:
    case KOp::Maximum:
    case KOp::Select:
        return true;
    default:
        return false;
    }
}

/// First operand of an operation that is an i64.
int first_index(KOp op) {
    return op == KOp::Select ? 1 : 0;
}

/// Of everything beyond 2^61 this is the bound, so that two of them can be added.
constexpr int64_t kHuge = int64_t{1} << 61;
/// Half of what there is: blocks and chunks count beyond the last element.
constexpr int64_t kMost = int64_t{1} << 30;

struct Interval {
    int64_t low = -kHuge, high = kHuge;
    bool fits() const { return low >= -kMost && high <= kMost; }
};

Interval interval(int64_t low, int64_t high) {
    return {std::clamp(low, -kHuge, kHuge), std::clamp(high, -kHuge, kHuge)};
}

int64_t product(int64_t x, int64_t y) {
    const int64_t a = x < 0 ? -x : x, b = y < 0 ? -y : y;
    const int64_t bounded = a == 0 || b <= kHuge / a ? a * b : kHuge;
    return (x < 0) == (y < 0) ? bounded : -bounded;
}

Interval product(Interval x, Interval y) {
    const int64_t all[] = {product(x.low, y.low), product(x.low, y.high), product(x.high, y.low),
                           product(x.high, y.high)};
    return {*std::ranges::min_element(all), *std::ranges::max_element(all)};
}

Interval compute(KOp op, Interval x, Interval y) {
    switch (op) {
    case KOp::Add:
        return interval(x.low + y.low, x.high + y.high);
    case KOp::Sub:
        return interval(x.low - y.high, x.high - y.low);
    case KOp::Mul:
        return product(x, y);
    case KOp::Neg:
        return {-x.high, -x.low};
    case KOp::Minimum:
        return {std::min(x.low, y.low), std::min(x.high, y.high)};
    case KOp::Maximum:
        return {std::max(x.low, y.low), std::max(x.high, y.high)};
    default: { // a quotient, a remainder, or one of the two: none is further from 0 than x or, in Select, y
        const int64_t most = std::max({-x.low, x.high, op == KOp::Select ? std::max(-y.low, y.high) : 0});
        return {op == KOp::Select ? std::min(x.low, y.low) : x.low < 0 || y.low < 0 ? -most : 0, most};
    }
    }
}

} // namespace

std::vector<bool> index_values(const Kernel &kernel) {
    std::vector<bool> is_index(kernel.instrs.size(), false);
    for (size_t i = 0; i < kernel.instrs.size(); ++i) {
        // Operands may have larger numbers than what they are used by, in hand-made kernels: then no index.
        const Instr &instr = kernel.instrs[i];
        if (instr.dtype != DType::I64)
            continue;
        if (instr.op == KOp::Axis || instr.op == KOp::Arg) {
            is_index[i] = true;
        } else if (instr.op == KOp::Const) {
            const auto value = static_cast<int64_t>(instr.bits);
            is_index[i] = value >= -kMost && value <= kMost;
        } else if (is_index_op(instr.op)) {
            bool all = true;
            for (int o = first_index(instr.op); o < info(instr.op).operands; ++o)
                all = all && instr.operands[o] < i && is_index[instr.operands[o]];
            is_index[i] = all;
        }
    }
    return is_index;
}

bool fits_32_bits(const Kernel &kernel, std::span<const int64_t> args, const std::vector<bool> &known,
                  std::span<const int64_t> elements) {
    if (std::ranges::any_of(elements, [](int64_t n) { return n > kMost; }))
        return false;
    const auto argument = [&](ArgId a) { return known[a] ? interval(args[a], args[a]) : Interval{}; };
    for (size_t a = 0; a < kernel.args.size(); ++a)
        if (known[a] && !argument(static_cast<ArgId>(a)).fits())
            return false;
    // All points of a phase are counted by one index.
    for (const Phase &phase : kernel.phases) {
        Interval points{1, 1};
        for (const AxisId axis : phase.grid)
            points = product(points, argument(kernel.axes[axis].extent));
        if (!points.fits())
            return false;
    }
    const std::vector<bool> is_index = index_values(kernel);
    std::vector<Interval> values(kernel.instrs.size());
    for (size_t i = 0; i < kernel.instrs.size(); ++i) {
        const Instr &instr = kernel.instrs[i];
        if (!is_index[i])
            continue;
        if (instr.op == KOp::Const) {
            const auto value = static_cast<int64_t>(instr.bits);
            values[i] = {value, value};
        } else if (instr.op == KOp::Arg) {
            values[i] = argument(static_cast<ArgId>(instr.index));
        } else if (instr.op == KOp::Axis) {
            values[i] = {0, argument(kernel.axes[instr.index].extent).high};
        } else {
            const int first = first_index(instr.op);
            const Interval x = values[instr.operands[first]];
            values[i] =
                compute(instr.op, x,
                        info(instr.op).operands > first + 1 ? values[instr.operands[first + 1]] : Interval{});
        }
        if (!values[i].fits())
            return false;
    }
    return true;
}

} // namespace lz::ir
