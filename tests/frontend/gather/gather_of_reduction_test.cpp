// Gathers and reductions in one kernel: what is looked up, and where, may be what the kernel has reduced, and
// a gather may stand in another reduction. Values come from plain loops.
#include "tests/support/tensor_values.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>

namespace {

using namespace lz::test;
using lz::Tensor;

struct Matrix {
    int64_t rows, columns;
    std::vector<float> at;
    float operator()(int64_t r, int64_t c) const { return at[static_cast<size_t>(r * columns + c)]; }
};

/// Small whole numbers, so that sums are exact in any order, with repetitions.
Matrix numbers(int64_t rows, int64_t columns) {
    Matrix m{rows, columns, {}};
    for (int64_t k = 0; k < rows * columns; ++k)
        m.at.push_back(static_cast<float>(k * 7919 % 101) - 50);
    return m;
}

/// Where a line of the matrix (a column for axis 0) has its first smallest or largest element.
std::vector<int64_t> places(const Matrix &m, int axis, bool largest) {
    const int64_t lines = axis == 0 ? m.columns : m.rows, length = axis == 0 ? m.rows : m.columns;
    std::vector<int64_t> out;
    for (int64_t line = 0; line < lines; ++line) {
        const auto element = [&](int64_t k) { return axis == 0 ? m(k, line) : m(line, k); };
        int64_t best = 0;
        for (int64_t k = 1; k < length; ++k)
            if (largest ? element(k) > element(best) : element(k) < element(best))
                best = k;
        out.push_back(best);
    }
    return out;
}

struct Search {
    std::string name;
    bool largest;
    std::function<Tensor(const Tensor &x, int axis)> places; ///< without the axis
};
const std::vector<Search> &searches() {
    static const auto &all = *new std::vector<Search>{
        {"argmin", false, [](const Tensor &x, int axis) { return lz::argmin(x, axis); }},
        {"argmax", true, [](const Tensor &x, int axis) { return lz::argmax(x, axis); }},
        {"min", false, [](const Tensor &x, int axis) { return lz::min(x, axis, false).indices; }},
        {"max", true, [](const Tensor &x, int axis) { return lz::max(x, axis, true).indices.squeeze(axis); }},
        {"sort", false, [](const Tensor &x, int axis) { return lz::sort(x, axis).indices.select(axis, 0); }},
    };
    return all;
}

/// Each combination of matrix, axis and search; the matrix pending or ready. On a CUDA device, where each has
/// NVRTC compile, a third of them, with each axis and search.
void each(const std::function<void(const Matrix &, const Tensor &, int, const Search &,
                                   const std::vector<int64_t> &)> &check) {
    const int step = std::getenv("LAZULI_TEST_CUDA") ? 3 : 1;
    int number = 0;
    for (const auto &[rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {1, 2}, {2, 1}, {3, 4}, {40, 3}, {2, 40000}, {40000, 2}})
        for (const int axis : {0, 1})
            for (const Search &search : searches())
                for (const bool ready : {false, true}) {
                    if (number++ % step != 0)
                        continue;
                    const Matrix m = numbers(rows, columns);
                    Tensor x = lz::tensor(m.at, {rows, columns}) * 1;
                    if (ready)
                        x.eval();
                    SCOPED_TRACE(search.name + " over axis " + std::to_string(axis) + " of " +
                                 std::to_string(rows) + " x " + std::to_string(columns));
                    check(m, x, axis, search, places(m, axis, search.largest));
                }
}

TEST(GatherOfReduction, IndicesThatTheSameKernelReduces) {
    each([](const Matrix &m, const Tensor &x, int axis, const Search &search,
            const std::vector<int64_t> &wanted) {
        const Tensor i = search.places(x, axis);
        const int64_t length = axis == 0 ? m.rows : m.columns;
        const Tensor same = lz::index_select(lz::full({length}, 3), 0, i); // does not look at the index
        const Tensor number = lz::index_select(lz::arange(length) * 2, 0, i);
        const Tensor taken = lz::take(x.reshape({-1}), i);
        const Tensor in_line = lz::gather(x, axis, i.unsqueeze(axis));
        const Tensor of_line = lz::gather(x * 2 + 1, axis, i.unsqueeze(axis)).squeeze(axis) + i;
        lz::eval({i, same, number, taken, in_line, of_line});
        EXPECT_EQ(i.to_vector<int64_t>(), wanted);
        std::vector<int64_t> twice;
        std::vector<float> at, found, sums;
        for (size_t line = 0; line < wanted.size(); ++line) {
            const auto l = static_cast<int64_t>(line);
            const float element = axis == 0 ? m(wanted[line], l) : m(l, wanted[line]);
            twice.push_back(2 * wanted[line]);
            at.push_back(m.at[static_cast<size_t>(wanted[line])]);
            found.push_back(element);
            sums.push_back(2 * element + 1 + static_cast<float>(wanted[line]));
        }
        EXPECT_EQ(same.to_vector<int64_t>(), std::vector<int64_t>(wanted.size(), 3));
        EXPECT_EQ(number.to_vector<int64_t>(), twice);
        EXPECT_EQ(taken.to_vector<float>(), at);
        EXPECT_EQ(in_line.to_vector<float>(), found);
        EXPECT_EQ(of_line.to_vector<float>(), sums);
    });
}

/// The results of another reduction, looked up where the same kernel says.
TEST(GatherOfReduction, OperandsThatTheSameKernelReduces) {
    each([](const Matrix &m, const Tensor &x, int axis, const Search &search,
            const std::vector<int64_t> &wanted) {
        const auto lines = static_cast<int64_t>(wanted.size());
        const Tensor i = search.places(x, axis), sums = x.sum(axis);
        const Tensor other = lz::index_select(sums, 0, i % lines);
        const Tensor values = lz::max(x, axis, true).values;
        const Tensor first = lz::gather(values, axis, (i * 0).unsqueeze(axis)); // the axis has one element
        lz::eval({i, sums, other, first});
        std::vector<float> sum, best, found;
        const std::vector<int64_t> largest = places(m, axis, true);
        for (int64_t l = 0; l < lines; ++l) {
            float all = 0;
            for (int64_t k = 0; k < (axis == 0 ? m.rows : m.columns); ++k)
                all += axis == 0 ? m(k, l) : m(l, k);
            sum.push_back(all);
            const int64_t at = largest[static_cast<size_t>(l)];
            best.push_back(axis == 0 ? m(at, l) : m(l, at));
        }
        for (const int64_t at : wanted)
            found.push_back(sum[static_cast<size_t>(at % lines)]);
        EXPECT_EQ(sums.to_vector<float>(), sum);
        EXPECT_EQ(other.to_vector<float>(), found);
        EXPECT_EQ(first.to_vector<float>(), best);
    });
}

/// The check of an index counts in the loop where the index is made, and the gather may stand in another one.
TEST(GatherOfReduction, InsideAnotherReduction) {
    each([](const Matrix &m, const Tensor &x, int axis, const Search &search,
            const std::vector<int64_t> &wanted) {
        const int64_t length = axis == 0 ? m.rows : m.columns;
        const Tensor i = search.places(x, axis);
        const Tensor of_lines = lz::index_select(lz::arange(length), 0, i).sum();
        const Tensor same = lz::index_select(lz::full({length}, 3), 0, i).sum();
        const Tensor best = lz::gather(x, axis, i.unsqueeze(axis));
        const Tensor distance = (x - best).sum(axis);
        const Tensor nearest = lz::argmax(x * 0 + best, axis); // all are equal: the first
        const Tensor again = lz::gather(x, axis, nearest.unsqueeze(axis)).squeeze(axis) + distance;
        lz::eval({of_lines, same, distance, again});
        int64_t sum = 0;
        std::vector<float> distances, firsts;
        for (size_t line = 0; line < wanted.size(); ++line) {
            sum += wanted[line];
            const auto l = static_cast<int64_t>(line);
            const auto element = [&](int64_t k) { return axis == 0 ? m(k, l) : m(l, k); };
            float all = 0;
            for (int64_t k = 0; k < length; ++k)
                all += element(k) - element(wanted[line]);
            distances.push_back(all);
            firsts.push_back(element(0) + all);
        }
        EXPECT_EQ(of_lines.item<int64_t>(), sum);
        EXPECT_EQ(same.item<int64_t>(), 3 * static_cast<int64_t>(wanted.size()));
        EXPECT_EQ(distance.to_vector<float>(), distances);
        EXPECT_EQ(again.to_vector<float>(), firsts);
    });
}

/// An index of the kernel's own that is out of range is an error of the gather, whatever it is looked up in.
TEST(GatherOfReduction, S26_IndicesAreCheckedThere) {
    each([](const Matrix &m, const Tensor &x, int axis, const Search &search,
            const std::vector<int64_t> &wanted) {
        const int64_t length = axis == 0 ? m.rows : m.columns;
        const Tensor i = search.places(x, axis);
        const int64_t least = *std::ranges::min_element(wanted);
        EXPECT_THROW((void)lz::index_select(lz::full({length}, 3), 0, i + (length - least)).str(),
                     lz::IndexError);
        EXPECT_THROW((void)lz::gather(x, axis, (i + (length - least)).unsqueeze(axis)).sum().str(),
                     lz::IndexError);
        EXPECT_THROW((void)lz::index_select(lz::zeros({0}), 0, i).str(), lz::IndexError);
    });
}

TEST(GatherOfReduction, WhatMinGivesLooksUpItsOwnValues) {
    const Tensor x = lz::tensor({2.F, 1.F}).view({1, 2}).eval();
    const auto [values, indices] = lz::min(x, 0, true);
    const Tensor picked = lz::gather(values, 0, indices);
    expect_tensor(picked, {1, 2}, lz::f32, {2, 1});
}

} // namespace
