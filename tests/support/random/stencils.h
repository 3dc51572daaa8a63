#pragma once
/// Stencils of random graphs: sums of a value's rolls along some of its axes, whose borders may be padded
/// anew.

#include "tests/support/random/elementwise.h"

namespace lz::test {

class RandomStencils : protected RandomElementwise {
protected:
    using RandomElementwise::RandomElementwise;

    Item same(Op op, const Item &x, const Words &structural, const Words &runtime = {}) {
        return add(op, {x}, structural, runtime, x.low, x.high, x.error);
    }

    Words shuffled_axes(int rank) {
        Words axes;
        for (int i = 0; i < rank; ++i)
            axes.insert(axes.begin() + r_.below(i + 1), i);
        return axes;
    }

    /// Some axes, sorted; at least one if `one` and there is one.
    Words some_axes(int rank, bool one) {
        Words axes = shuffled_axes(rank);
        axes.resize(static_cast<size_t>(r_.between(one && rank > 0, rank)));
        std::ranges::sort(axes);
        return axes;
    }

    /// Rolls of a value along its axes, both ways, are added up; some borders are cut off and padded anew.
    void draw_stencil() {
        const auto x =
            find([&](const Item &y) { return type(y).dtype != DType::Bool && shape_of(y).rank() > 0; });
        if (!x || shape_of(*x).numel() == 0)
            return;
        const Item center = is_float(type(*x).dtype) ? clamp(*x, -16, 16) : *x;
        try {
            Item sum = center;
            for (const int64_t axis : some_axes(shape_of(center).rank(), true))
                for (int64_t n = r_.between(1, 2); n > 0; --n) {
                    const Item rolled = roll(center, axis);
                    sum = add(Op::Maximum, {sum, rolled}, {}, {}, std::max(sum.low, rolled.low),
                              std::max(sum.high, rolled.high), std::max(sum.error, rolled.error));
                }
            if (r_.chance(50))
                bordered(sum);
        } catch (const TooLarge &) {
        }
    }

    Item roll(const Item &x, int64_t axis) {
        const int64_t extent = shape_of(x)[static_cast<int>(axis)];
        if (extent < 2)
            return x;
        const int64_t shift = r_.chance(70) ? (r_.chance(50) ? 1 : extent - 1) : r_.between(1, extent - 1);
        const Item last = cut(x, axis, extent - shift, shift), first = cut(x, axis, 0, extent - shift);
        return add(Op::Concat, {last, first}, {axis}, {}, x.low, x.high, x.error);
    }

    Item cut(const Item &x, int64_t axis, int64_t start, int64_t size) {
        Words starts(static_cast<size_t>(shape_of(x).rank()), 0), steps(starts.size(), 1), sizes;
        for (const int64_t extent : shape_of(x))
            sizes.push_back(extent);
        starts[static_cast<size_t>(axis)] = start;
        sizes[static_cast<size_t>(axis)] = size;
        return same(Op::Slice, x,
                    joined({{static_cast<int64_t>(starts.size())}, counted(sizes), counted(steps)}), starts);
    }

    void bordered(Item x) {
        Words low, high;
        const Item fill = maker(Op::Constant, type(x).dtype, {});
        for (int axis = 0; axis < shape_of(x).rank(); ++axis) {
            const int64_t extent = shape_of(x)[axis];
            const bool bordered = extent > 2 && r_.chance(80);
            low.push_back(bordered);
            high.push_back(bordered);
            if (bordered)
                x = cut(x, axis, 1, extent - 2);
        }
        add(Op::Pad, {x, fill}, joined({counted(low), counted(high)}), {}, std::min(x.low, fill.low),
            std::max(x.high, fill.high), x.error);
    }
};

} // namespace lz::test
