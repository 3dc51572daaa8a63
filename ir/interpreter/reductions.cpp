// Reductions, scans, products and sorts. Floats accumulate in double and are rounded once.
#include "ir/diagnostic.h"
#include "ir/interpreter/ref.h"
#include "ir/interpreter/tensor.h"

#include <algorithm>
#include <numeric>

namespace lz::ir {

namespace {

/// A shape folded around one axis.
struct Folded {
    size_t outer = 1, extent = 1, inner = 1;

    Folded(const Shape &shape, int64_t axis) : extent(static_cast<size_t>(shape[static_cast<int>(axis)])) {
        for (int i = 0; i < shape.rank(); ++i)
            if (i != axis)
                (i < axis ? outer : inner) *= static_cast<size_t>(shape[i]);
    }
    /// Calls `visit(row, first)` for each row along the axis; elements of a row lie `inner` apart.
    template <class Visit>
    void rows(Visit visit) const {
        for (size_t o = 0; o < outer; ++o)
            for (size_t i = 0; i < inner; ++i)
                visit(o * inner + i, o * extent * inner + i);
    }
};

int64_t add_words(DType dtype, int64_t x, int64_t y) {
    return is_float(dtype) ? scalar_word(scalar_double(x) + scalar_double(y)) : ref::wrap_add(x, y);
}
int64_t mul_words(DType dtype, int64_t x, int64_t y) {
    return is_float(dtype) ? scalar_word(scalar_double(x) * scalar_double(y)) : ref::wrap_mul(x, y);
}
int64_t max_words(DType dtype, int64_t x, int64_t y) {
    return is_float(dtype) ? scalar_word(ref::maximum(scalar_double(x), scalar_double(y))) : std::max(x, y);
}
int64_t min_words(DType dtype, int64_t x, int64_t y) {
    return is_float(dtype) ? scalar_word(ref::minimum(scalar_double(x), scalar_double(y))) : std::min(x, y);
}
int64_t one(DType dtype) {
    return is_float(dtype) ? scalar_word(1.0) : 1;
}
/// The accumulated word rounded to the dtype.
int64_t rounded(DType dtype, int64_t word) {
    return is_float(dtype) ? scalar_word(round_to(dtype, scalar_double(word))) : wrap_to(dtype, word);
}

using FoldFn = int64_t (*)(DType, int64_t, int64_t);

/// Folds over the axes. The first element begins each fold, so that a maximum needs no identity; `empty` is
/// the result of folds over nothing.
void reduce(const RefNode &node, FoldFn fold, int64_t empty) {
    const DType dtype = node.in().type.dtype;
    RefTensor &out = node.out();
    const auto axes = node.attrs.ints(attr::kAxes);
    const auto out_strides = out.type.shape.dense_strides();
    Affine walk;
    size_t kept = 0;
    for (int axis = 0; axis < node.shape().rank(); ++axis)
        if (std::ranges::find(axes, axis) == axes.end())
            walk.strides[static_cast<size_t>(axis)] = out_strides[kept++];
    std::vector<bool> begun(out.words.size());
    for_each_index(node.shape(), [&](const Coordinates &i, size_t k) {
        const size_t to = walk.at(i, node.shape().rank());
        out.words[to] = begun[to] ? fold(dtype, out.words[to], node.in().words[k]) : node.in().words[k];
        begun[to] = true;
    });
    for (size_t to = 0; to < out.words.size(); ++to)
        out.words[to] = begun[to] ? rounded(dtype, out.words[to]) : empty;
}

/// Whether x comes before y in the order of a sort: NaN is greater than all numbers.
bool less(DType dtype, int64_t x, int64_t y) {
    if (!is_float(dtype))
        return x < y;
    const double a = scalar_double(x), b = scalar_double(y);
    return std::isnan(b) ? !std::isnan(a) : a < b;
}

void arg_reduce(const RefNode &node, bool greatest) {
    const DType dtype = node.in().type.dtype;
    const Folded f(node.shape(), node.attrs.integer(attr::kAxis));
    const auto &words = node.in().words;
    const auto is_nan = [&](int64_t w) { return is_float(dtype) && std::isnan(scalar_double(w)); };
    f.rows([&](size_t row, size_t first) {
        size_t best = 0;
        for (size_t j = 1; j < f.extent; ++j) {
            const int64_t x = words[first + j * f.inner], y = words[first + best * f.inner];
            if (is_nan(y)) // the first NaN is the extreme, whichever is asked for
                break;
            if (is_nan(x) || (greatest ? less(dtype, y, x) : less(dtype, x, y)))
                best = j;
        }
        node.out().words[row] = static_cast<int64_t>(best);
    });
}

void scan(const RefNode &node, FoldFn fold) {
    const DType dtype = node.in().type.dtype;
    const Folded f(node.shape(), node.attrs.integer(attr::kAxis));
    f.rows([&](size_t, size_t first) {
        int64_t sum = 0;
        for (size_t j = 0; j < f.extent; ++j) {
            const size_t at = first + j * f.inner;
            sum = j == 0 ? node.in().words[at] : fold(dtype, sum, node.in().words[at]);
            node.out().words[at] = rounded(dtype, sum);
        }
    });
}

void running_extreme(const RefNode &node, bool greatest) {
    const DType dtype = node.in().type.dtype;
    const Folded f(node.shape(), node.attrs.integer(attr::kAxis));
    const auto &words = node.in().words;
    const auto is_nan = [&](int64_t w) { return is_float(dtype) && std::isnan(scalar_double(w)); };
    f.rows([&](size_t, size_t first) {
        size_t best = 0;
        for (size_t j = 0; j < f.extent; ++j) {
            const int64_t x = words[first + j * f.inner], y = words[first + best * f.inner];
            // What stands later takes over unless it is behind: a number behind a NaN is.
            if (is_nan(x) || (!is_nan(y) && (greatest ? !less(dtype, x, y) : !less(dtype, y, x))))
                best = j;
            const size_t at = first + j * f.inner;
            node.out(0).words[at] = words[first + best * f.inner];
            node.out(1).words[at] = static_cast<int64_t>(best);
        }
    });
}

/// A dot's operand as dense [batch, free, contracted].
struct Side {
    std::vector<int64_t> words;
    size_t batch = 1, free = 1, sum = 1;
};

Side arrange(const RefTensor &x, std::span<const int64_t> batch, std::span<const int64_t> sum) {
    const Shape &shape = x.type.shape;
    const auto strides = shape.dense_strides();
    Side side;
    Shape order;
    Affine walk;
    const auto take = [&](int64_t axis, size_t &group) {
        group *= static_cast<size_t>(shape[static_cast<int>(axis)]);
        walk.strides[static_cast<size_t>(order.rank())] = strides[static_cast<size_t>(axis)];
        order.push_back(shape[static_cast<int>(axis)]);
    };
    const auto listed = [](std::span<const int64_t> axes, int axis) {
        return std::ranges::find(axes, axis) != axes.end();
    };
    for (const int64_t axis : batch)
        take(axis, side.batch);
    for (int axis = 0; axis < shape.rank(); ++axis)
        if (!listed(batch, axis) && !listed(sum, axis))
            take(axis, side.free);
    for (const int64_t axis : sum)
        take(axis, side.sum);
    side.words.resize(x.words.size());
    for_each_index(
        order, [&](const Coordinates &i, size_t k) { side.words[k] = x.words[walk.at(i, order.rank())]; });
    return side;
}

} // namespace

void interpret_ReduceSum(const RefNode &node) {
    reduce(node, add_words, 0);
}
void interpret_ReduceProd(const RefNode &node) {
    reduce(node, mul_words, one(node.in().type.dtype));
}
void interpret_ReduceMax(const RefNode &node) {
    reduce(node, max_words, 0);
}
void interpret_ReduceMin(const RefNode &node) {
    reduce(node, min_words, 0);
}
void interpret_ArgMax(const RefNode &node) {
    arg_reduce(node, true);
}
void interpret_ArgMin(const RefNode &node) {
    arg_reduce(node, false);
}
void interpret_CumSum(const RefNode &node) {
    scan(node, add_words);
}
void interpret_CumProd(const RefNode &node) {
    scan(node, mul_words);
}

void interpret_CumMax(const RefNode &node) {
    running_extreme(node, true);
}
void interpret_CumMin(const RefNode &node) {
    running_extreme(node, false);
}

void interpret_Dot(const RefNode &node) {
    const DType dtype = node.out().type.dtype;
    const Side l =
        arrange(node.in(0), node.attrs.ints(attr::kDotLhsBatch), node.attrs.ints(attr::kDotLhsContract));
    const Side r =
        arrange(node.in(1), node.attrs.ints(attr::kDotRhsBatch), node.attrs.ints(attr::kDotRhsContract));
    size_t k = 0;
    for (size_t b = 0; b < l.batch; ++b)
        for (size_t m = 0; m < l.free; ++m)
            for (size_t n = 0; n < r.free; ++n) {
                const int64_t *x = l.words.data() + (b * l.free + m) * l.sum;
                const int64_t *y = r.words.data() + (b * r.free + n) * r.sum;
                int64_t sum = 0; // the word of zero in either reading
                for (size_t c = 0; c < l.sum; ++c)
                    sum = add_words(dtype, sum, mul_words(dtype, x[c], y[c]));
                node.out().words[k++] = rounded(dtype, sum);
            }
}

namespace {

/// The first `count` of each row.
void interpret_sort(const RefNode &node, size_t count) {
    const DType dtype = node.in().type.dtype;
    const Folded f(node.in().type.shape, node.attrs.integer(attr::kAxis));
    const bool descending = node.attrs.integer(attr::kSortDescending) != 0;
    std::vector<size_t> order(f.extent);
    f.rows([&](size_t row, size_t first) {
        const auto word = [&](size_t j) { return node.in().words[first + j * f.inner]; };
        std::iota(order.begin(), order.end(), size_t{0});
        std::ranges::sort(order, [&](size_t a, size_t b) {
            const int64_t x = word(descending ? b : a), y = word(descending ? a : b);
            return less(dtype, x, y) || (!less(dtype, y, x) && a < b); // equal ones stay in order
        });
        const size_t to = row / f.inner * count * f.inner + row % f.inner;
        for (size_t j = 0; j < count; ++j) {
            node.out(0).words[to + j * f.inner] = word(order[j]);
            node.out(1).words[to + j * f.inner] = static_cast<int64_t>(order[j]);
        }
    });
}

} // namespace

void interpret_Sort(const RefNode &node) {
    interpret_sort(node, Folded(node.in().type.shape, node.attrs.integer(attr::kAxis)).extent);
}

void interpret_TopK(const RefNode &node) {
    interpret_sort(node, static_cast<size_t>(node.attrs.integer(attr::kTopKCount)));
}

} // namespace lz::ir
