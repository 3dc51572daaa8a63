// cat and stack of any number of tensors: values, and kernels.
#include "tests/support/tensor_values.h"

#include <cstdlib>
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

/// Kinds of parts that follow each other: computed in several ways, and views of stored tensors.
TEST(Joining, ManyPartsThatAreComputedWhereTheyAreJoined) {
    for (const int n : {5, 70, 200, 400})
        for (const size_t axis : {0, 1}) {
            std::vector<Block> blocks;
            std::vector<Tensor> tensors;
            for (int k = 0; k < n; ++k) {
                std::vector<int64_t> shape = {3, 7, 40};
                shape[axis] = k % 9 == 4 ? 0 : 2 + k % 3;
                Block b = block_of(shape, k);
                const Tensor x = tensor_of(b);
                const int64_t numel = static_cast<int64_t>(b.values.size()), inner = shape[1] * shape[2];
                const std::vector<double> stored = b.values;
                for (int64_t i = 0; i < numel; ++i) {
                    double &value = b.values[static_cast<size_t>(i)];
                    const int64_t backwards = i / 40 * 40 + 39 - i % 40;
                    const int64_t other = (shape[0] - 1 - i / inner) * inner + i % inner;
                    const double turned = stored[static_cast<size_t>(backwards)];
                    value = k % 7 == 0   ? value * 2
                            : k % 7 == 1 ? value + 1
                            : k % 7 == 2 ? value * 3 - value
                            : k % 7 == 3 ? turned
                            : k % 7 == 4 ? turned - k // a number of its own
                            : k % 7 == 5 ? stored[static_cast<size_t>(other)]
                                         : value;
                }
                const auto part = [&]() -> Tensor {
                    switch (k % 7) {
                    case 0:
                        return x * 2;
                    case 1:
                        return x + 1;
                    case 2:
                        return x * 3 - x;
                    case 3:
                        return lz::flip(x, {2});
                    case 4:
                        return lz::flip(x, {2}) - k;
                    case 5:
                        return lz::flip(x, {0});
                    default:
                        return x;
                    }
                };
                blocks.push_back(b);
                tensors.push_back(part());
            }
            const Block wanted = joined(blocks, axis);
            const Tensor got = lz::cat(tensors, static_cast<int64_t>(axis));
            tensors.clear();
            if (axis == 0) {
                EXPECT_EQ(steps_of(got), 1) << n;
            }
            expect_tensor(got, wanted.shape, lz::f32, wanted.values);
        }
}

/// More kinds of parts than one kernel holds: each 2 to 9 operations in another order.
TEST(Joining, ManyPartsOfManyKinds) {
    std::vector<Block> blocks;
    std::vector<Tensor> tensors;
    for (int k = 0; k < 150; ++k) {
        Block b = block_of({2, 3, 50}, k % 5);
        Tensor x = tensor_of(b);
        for (int bit = 0; bit < 8; ++bit) {
            const bool adds = (k >> bit & 1) != 0;
            x = adds ? x + 3 : x * 0.5;
            for (double &v : b.values)
                v = static_cast<double>(adds ? static_cast<float>(v) + 3.0f : static_cast<float>(v) * 0.5f);
        }
        blocks.push_back(b);
        tensors.push_back(x);
    }
    const Block wanted = joined(blocks, 0);
    const Tensor got = lz::cat(tensors, 0);
    tensors.clear();
    expect_tensor(got, wanted.shape, lz::f32, wanted.values);
}

/// Views with several strides, of every width of elements: against single elements.
TEST(Joining, ViewsOfAnyStridesAreOneLibraryCall) {
    for (const lz::DType dtype : {lz::u8, lz::f16, lz::i32, lz::f64, lz::boolean})
        for (const int n : {1, 2, 3, 7, 20})
            for (const int64_t axis : {0, 1, 2, 3}) {
                std::vector<Tensor> tensors;
                std::vector<std::vector<int64_t>> wanted; // of each part, dense
                for (int k = 0; k < n; ++k) {
                    const int64_t extents[3] = {6, 4, 10};
                    const Tensor whole =
                        (lz::arange(6 * 4 * 10).reshape({6, 4, 10}) + k).remainder(2).to(dtype).eval();
                    const auto at = [&](int64_t a, int64_t b, int64_t c) {
                        return (a * 40 + b * 10 + c + k) % 2;
                    };
                    std::vector<int64_t> values;
                    for (int64_t i = 0; i < 4; ++i)
                        for (int64_t j = 0; j < 5; ++j)
                            for (int64_t l = 0; l < 3; ++l)
                                values.push_back(k % 2 == 0 ? at(5 - 2 * l, i, 2 * j)
                                                            : at(2 * l, 3 - i, extents[2] - 1 - 2 * j));
                    const Tensor part =
                        k % 2 == 0
                            ? lz::flip(whole, {0})
                                  .at({lz::Slice(0, lz::None, 2), lz::Ellipsis, lz::Slice(0, lz::None, 2)})
                            : lz::flip(whole, {1, 2})
                                  .at({lz::Slice(0, lz::None, 2), lz::Ellipsis, lz::Slice(0, lz::None, 2)});
                    tensors.push_back(part.permute({1, 2, 0}));
                    wanted.push_back(values);
                }
                const Tensor got = lz::stack(tensors, axis);
                tensors.clear();
                EXPECT_EQ(steps_of(got), 1);
                std::vector<int64_t> shape = {4, 5, 3};
                shape.insert(shape.begin() + axis, n);
                int64_t inner = 1;
                for (int64_t d = axis; d < 3; ++d)
                    inner *= shape[static_cast<size_t>(d + 1)];
                std::vector<double> values;
                for (int64_t o = 0; o < 60 / inner; ++o)
                    for (const auto &part : wanted)
                        for (int64_t i = 0; i < inner; ++i)
                            values.push_back(static_cast<double>(part[static_cast<size_t>(o * inner + i)]));
                expect_tensor(got, shape, dtype, values);
            }
}

TEST(Joining, NumbersStackIntoARow) {
    for (const int n : {1, 2, 3, 70}) {
        std::vector<Tensor> numbers;
        std::vector<double> wanted;
        for (int k = 0; k < n; ++k) {
            numbers.push_back(k % 2 == 0 ? lz::tensor(static_cast<float>(k)) : lz::tensor(1.5f) * k);
            wanted.push_back(k % 2 == 0 ? k : 1.5 * k);
        }
        for (const int64_t axis : {0, -1})
            expect_tensor(lz::stack(numbers, axis), {n}, lz::f32, wanted);
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
    const bool by_library = !std::getenv("LAZULI_TEST_CUDA"); // a CUDA device has a kernel for it
    for (const int64_t axis : {0, -1}) {
        const std::string explained = lz::explain(lz::stack(tensors, axis));
        EXPECT_NE(explained.find(by_library ? "0 kernels and 1 library call" : "1 kernel"), std::string::npos)
            << explained;
        if (!by_library) {
            EXPECT_EQ(lz::stack(tensors, axis).sum().item<double>(), 50 * 780);
            continue;
        }
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
