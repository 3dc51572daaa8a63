// cat and stack of any number of tensors: values, and kernels.
#include "tests/support/tensor_values.h"

#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace lz::test;
using lz::Tensor;

/// A dense array of three axes, joined by plain loops.
struct Block {
    std::vector<int64_t> shape;
    std::vector<double> values;
};

Block block_of(const std::vector<int64_t> &shape, int number) {
    Block b{shape, {}};
    for (int64_t i = 0; i < shape[0] * shape[1] * shape[2]; ++i)
        b.values.push_back(static_cast<double>(number * 1000 + i % 997));
    return b;
}

Block joined(const std::vector<Block> &blocks, size_t axis) {
    Block out{blocks[0].shape, {}};
    out.shape[axis] = 0;
    for (const Block &b : blocks)
        out.shape[axis] += b.shape[axis];
    int64_t outer = 1, inner = 1;
    for (size_t d = 0; d < 3; ++d)
        (d < axis ? outer : inner) *= d == axis ? 1 : out.shape[d];
    for (int64_t o = 0; o < outer; ++o)
        for (const Block &b : blocks) {
            const int64_t run = b.shape[axis] * inner;
            out.values.insert(out.values.end(), b.values.begin() + o * run, b.values.begin() + (o + 1) * run);
        }
    return out;
}

Tensor tensor_of(const Block &b) {
    const std::vector<float> values(b.values.begin(), b.values.end());
    return lz::from_blob(values.data(), b.shape, {.dtype = lz::f32}).clone().eval();
}

std::vector<Block> parts(int n, size_t axis, bool ragged) {
    std::vector<Block> blocks;
    for (int k = 0; k < n; ++k) {
        std::vector<int64_t> shape = {5, 3, 4};
        shape[axis] = ragged ? k * 7 % 5 : 2; // some of them empty
        blocks.push_back(block_of(shape, k));
    }
    return blocks;
}

/// Steps of the program that computes it.
int64_t steps_of(const Tensor &t) {
    const std::string text = lz::explain(t);
    int64_t steps = 0;
    for (size_t at = 0; (at = text.find("Step ", at)) != std::string::npos; ++at)
        ++steps;
    return steps;
}

TEST(Joining, AnyNumberOfPartsAlongAnyAxisIsOneKernel) {
    for (const int n : {2, 3, 4, 5, 8, 63, 64, 65, 128, 300})
        for (const size_t axis : {0, 1, 2})
            for (const bool ragged : {false, true}) {
                const std::vector<Block> blocks = parts(n, axis, ragged);
                std::vector<Tensor> tensors;
                for (const Block &b : blocks)
                    tensors.push_back(tensor_of(b));
                const Tensor got = lz::cat(tensors, static_cast<int64_t>(axis));
                EXPECT_EQ(steps_of(got), 1) << n;
                const Block wanted = joined(blocks, axis);
                expect_tensor(got, wanted.shape, lz::f32, wanted.values);
            }
}

TEST(Joining, StacksOfAnyNumberAlongAnyAxis) {
    for (const int n : {2, 5, 64, 130})
        for (const size_t axis : {0, 1, 2}) {
            std::vector<Block> blocks;
            std::vector<Tensor> tensors;
            for (int k = 0; k < n; ++k) {
                std::vector<int64_t> shape = {6, 6, 6};
                shape[axis] = 1;
                blocks.push_back(block_of(shape, k));
                tensors.push_back(tensor_of(blocks.back()).reshape({6, 6}).eval());
            }
            const Tensor got = lz::stack(tensors, static_cast<int64_t>(axis));
            EXPECT_EQ(steps_of(got), 1) << n;
            const Block wanted = joined(blocks, axis);
            expect_tensor(got, wanted.shape, lz::f32, wanted.values);
        }
}

TEST(Joining, LargeOnesTakeTurnsByRows) {
    for (const int n : {3, 40}) // rows of short runs, more than a core's cache
        for (const int64_t run : {1, 2, 33}) {
            std::vector<Block> blocks;
            std::vector<Tensor> tensors;
            for (int k = 0; k < n; ++k) {
                blocks.push_back(block_of({3000, run + k % 2, 3}, k));
                tensors.push_back(tensor_of(blocks.back()));
            }
            const Block wanted = joined(blocks, 1);
            expect_tensor(lz::cat(tensors, 1), wanted.shape, lz::f32, wanted.values);
        }
}

TEST(Joining, WhatFeedsThePartsAndWhatReadsTheResultIsPartOfTheKernel) {
    for (const int n : {3, 6, 20})
        for (const size_t axis : {0, 1, 2}) {
            std::vector<Block> blocks = parts(n, axis, true);
            std::vector<Tensor> tensors;
            for (size_t k = 0; k < blocks.size(); ++k) {
                const Tensor x = tensor_of(blocks[k]);
                tensors.push_back(k % 3 == 0 ? x * 2 : k % 3 == 1 ? x : x.flip({0}).flip({0}) + 1);
                for (double &v : blocks[k].values)
                    v = k % 3 == 0 ? v * 2 : k % 3 == 1 ? v : v + 1;
            }
            Block wanted = joined(blocks, axis);
            const Tensor other = lz::ones(wanted.shape).eval();
            const Tensor got = lz::cat(tensors, static_cast<int64_t>(axis)) * 3 + other;
            for (double &v : wanted.values)
                v = v * 3 + 1;
            tensors.clear(); // nobody holds a part
            EXPECT_EQ(steps_of(got), 1) << n << " along " << axis;
            expect_tensor(got, wanted.shape, lz::f32, wanted.values);
        }
}

TEST(Joining, ReadersThatReduceReshapeAndWriteItElsewhere) {
    for (const int n : {3, 9})
        for (const size_t axis : {0, 1, 2}) {
            const std::vector<Block> blocks = parts(n, axis, false);
            std::vector<Tensor> tensors;
            for (const Block &b : blocks)
                tensors.push_back(tensor_of(b));
            const Block whole = joined(blocks, axis);
            const auto cat = [&] { return lz::cat(tensors, static_cast<int64_t>(axis)); };
            const auto numel = static_cast<int64_t>(whole.values.size());
            expect_tensor(cat().reshape({numel}) + 1, {numel}, lz::f32, [&] {
                std::vector<double> v = whole.values;
                for (double &x : v)
                    x += 1;
                return v;
            }());
            expect_values(lz::sum(cat()), {std::accumulate(whole.values.begin(), whole.values.end(), 0.0)});
            const Tensor stored = cat().eval();
            expect_values(lz::softmax(cat() * 0.001, 2), values(lz::softmax(stored * 0.001, 2)));
            expect_values(cat() - lz::mean(cat(), 2, true), values(stored - lz::mean(stored, 2, true)));
            expect_values(cat().permute({2, 0, 1}) * 2, values(stored.permute({2, 0, 1}) * 2));
            expect_values(lz::cat({cat(), cat() * 2}, 0), values(lz::cat({stored, stored * 2}, 0)));
            expect_values(lz::pad(cat(), {1, 1}), values(lz::pad(stored, {1, 1})));
            Tensor into = lz::zeros(whole.shape).eval();
            into.at({lz::Slice(0, whole.shape[0])}) = cat();
            expect_values(into, whole.values);
        }
}

TEST(Joining, PartsThatAreViewsOfWhatIsInMemory) {
    for (const size_t axis : {0, 1, 2})
        for (const int64_t rows : {1, 5, 40}) {
            const std::vector<int64_t> shape = {rows, 3, 4};
            std::vector<Block> blocks;
            std::vector<Tensor> tensors;
            const auto add = [&](const Tensor &part, auto element) { // element(i, j, k) of the part
                Block &b = blocks.emplace_back(Block{shape, {}});
                for (int64_t i = 0; i < rows; ++i)
                    for (int64_t j = 0; j < 3; ++j)
                        for (int64_t k = 0; k < 4; ++k)
                            b.values.push_back(element(i, j, k));
                tensors.push_back(part);
            };
            const Tensor wide = lz::arange(rows * 2 * 5 * 9).to(lz::f32).reshape({rows * 2, 5, 9}).eval();
            const auto at = [](int64_t i, int64_t j, int64_t k) {
                return static_cast<double>((i * 5 + j) * 9 + k);
            };
            add(wide.at({lz::Slice(0, rows), lz::Slice(1, 4), lz::Slice(2, 6)}),
                [&](auto i, auto j, auto k) { return at(i, j + 1, k + 2); });
            add(wide.at({lz::Slice(0, 2 * rows, 2), lz::Slice(0, 5, 2), lz::Slice(1, 9, 2)}),
                [&](auto i, auto j, auto k) { return at(2 * i, 2 * j, 2 * k + 1); });
            const Tensor turned = lz::arange(rows * 12).to(lz::f32).reshape({4, 3, rows}).eval();
            add(turned.permute({2, 1, 0}),
                [&](auto i, auto j, auto k) { return static_cast<double>((k * 3 + j) * rows + i); });
            const Tensor row = lz::tensor({7.f, 8.f, 9.f, 10.f}).eval();
            add(row.expand({rows, 3, 4}), [](auto, auto, auto k) { return static_cast<double>(7 + k); });
            add(row.at({lz::Slice(2, 3)}).expand({rows, 3, 4}), [](auto, auto, auto) { return 9.0; });
            add(row.flip({0}).expand({rows, 3, 4}),
                [](auto, auto, auto k) { return static_cast<double>(10 - k); });
            const Tensor whole = lz::arange(rows * 12).reshape({rows, 3, 4}).eval(); // of another dtype
            add(whole, [](auto i, auto j, auto k) { return static_cast<double>((i * 3 + j) * 4 + k); });
            for (const size_t skipped : {0, 1}) // with the other dtype, and of one
                for (size_t first = 0; first + 1 < tensors.size() - skipped; ++first) {
                    const size_t n = tensors.size() - skipped - first;
                    const std::span some = std::span(tensors).subspan(first, n);
                    const Block wanted = joined({blocks.begin() + static_cast<ptrdiff_t>(first),
                                                 blocks.begin() + static_cast<ptrdiff_t>(first + n)},
                                                axis);
                    expect_tensor(lz::cat(some, static_cast<int64_t>(axis)), wanted.shape, lz::f32,
                                  wanted.values);
                }
        }
}

TEST(Joining, StoredTensorsAreCopiedByOneLibraryCall) {
    std::vector<Tensor> tensors;
    for (int k = 0; k < 40; ++k)
        tensors.push_back((lz::ones({50}) * k).eval());
    for (const int64_t axis : {0, -1}) {
        EXPECT_NE(lz::explain(lz::stack(tensors, axis)).find("0 kernels and 1 library call"),
                  std::string::npos);
        const int64_t before = lz::compile_stats().kernels_compiled;
        lz::stack(tensors, axis).eval();
        EXPECT_EQ(lz::compile_stats().kernels_compiled, before);
    }
    // Of a part of one that is in memory, where the part begins is not in the program.
    const Tensor x = lz::arange(100).to(lz::f32).eval();
    for (const int64_t begin : {3, 50, 0})
        expect_values(lz::cat({x.at({lz::Slice(begin, begin + 2)}), x.at({lz::Slice(7, 9)})}),
                      {static_cast<double>(begin), static_cast<double>(begin + 1), 7.0, 8.0});
}

TEST(Joining, AWrittenOverInputKeepsWhatOtherPiecesRead) {
    // The result could take the memory of x; its second half comes from the first of x.
    Tensor x = lz::arange(64).to(lz::f32).eval();
    x = lz::cat({x.at({lz::Slice(32, 64)}) + 0, x.at({lz::Slice(0, 32)}) + 0});
    std::vector<double> wanted(64);
    std::iota(wanted.begin(), wanted.begin() + 32, 32.0);
    std::iota(wanted.begin() + 32, wanted.end(), 0.0);
    expect_values(x, wanted);
}

TEST(Joining, OtherSizesOfOneClassShareTheKernel) {
    const auto join = [](int64_t rows) {
        std::vector<Tensor> tensors;
        for (int64_t k = 0; k < 12; ++k)
            tensors.push_back(lz::ones({rows + k, 40}).eval());
        lz::cat(tensors).eval();
    };
    join(50);
    const int64_t before = lz::compile_stats().kernels_compiled;
    join(70);
    join(91);
    EXPECT_EQ(lz::compile_stats().kernels_compiled, before);
}

} // namespace
