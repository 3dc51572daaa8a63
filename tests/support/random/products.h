#pragma once
/// Products in random graphs whose operand is read through views: windows, turned and put together again, as
/// convolutions and the gradients of their weights are.

#include "tests/support/random/pairs.h"

namespace lz::test {

class RandomProducts : protected RandomPairs {
protected:
    using RandomPairs::RandomPairs;

    void draw_product() {
        const auto number = [](DType t) { return t != DType::Bool; };
        const DType dtype = dtype_where(number);
        if (!number(dtype))
            return;
        try {
            const auto old = find([&](const Item &x) {
                return type(x).dtype == dtype && shape_of(x).rank() > 1 && shape_of(x).numel() > 0;
            });
            const int64_t side = r_.between(2, 6);
            Item x = old && r_.chance(50) ? *old : parameter(dtype, {r_.between(1, 3), side, side + 1});
            if (is_float(dtype))
                x = clamp(x, -4, 4);
            for (int64_t n = r_.between(1, 2); n > 0 && shape_of(x).rank() < 6; --n)
                x = window(x);
            x = same(Op::Permute, x, counted(shuffled_axes(shape_of(x).rank())));
            if (r_.chance(30))
                x = same(Op::Flip, x, counted(some_axes(shape_of(x).rank(), true)));
            multiply(matrix(x), dtype);
        } catch (const TooLarge &) {
        }
    }

private:
    Item window(const Item &x) {
        const int64_t axis = r_.below(shape_of(x).rank());
        const int64_t extent = shape_of(x)[static_cast<int>(axis)];
        const int64_t size = r_.between(1, std::min<int64_t>(3, extent)), step = r_.between(1, size);
        return same(Op::Window, x, {axis, 0, (extent - size) / step + 1, size, step});
    }

    /// Neighbouring dimensions become two.
    Item matrix(const Item &x) {
        const Shape s = shape_of(x);
        const int64_t rows = r_.between(1, s.rank() - 1);
        Words to(2, 1);
        for (int d = 0; d < s.rank(); ++d)
            to[d < rows ? 0 : 1] *= s[d];
        return same(Op::Reshape, x, counted(to));
    }

    /// Its rows or its columns are summed, and it is on either side.
    void multiply(const Item &x, DType dtype) {
        const int64_t summed = r_.below(2), terms = shape_of(x)[static_cast<int>(summed)];
        Item y = parameter(dtype, {terms, r_.between(2, o_.max_extent)});
        if (is_float(dtype)) // of special values, too
            y = clamp(y, -4, 4);
        const bool left = r_.chance(50);
        const auto n = static_cast<double>(terms);
        const double far = n * x.magnitude() * y.magnitude();
        const double error = n * (x.magnitude() * y.error + y.magnitude() * x.error + x.error * y.error) +
                             2 * (n * unit(info(dtype).accumulate) + unit(dtype)) * far;
        const Words of_x = {1, summed}, of_y = {1, 0};
        add(Op::Dot, left ? std::vector<Item>{x, y} : std::vector<Item>{y, x},
            joined({{0, 0}, left ? of_x : of_y, left ? of_y : of_x, {static_cast<int64_t>(dtype)}}), {}, -far,
            far, error);
    }
};

} // namespace lz::test
