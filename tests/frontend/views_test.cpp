#include "tests/support/tensor_values.h"

namespace {

using namespace lz::test;
using lz::Tensor;

Tensor counting(std::initializer_list<int64_t> sizes) {
    int64_t n = 1;
    for (const int64_t s : sizes)
        n *= s;
    return lz::arange(n).reshape(lz::Sizes(sizes));
}

TEST(Views, Reshape) {
    const Tensor x = counting({2, 3});
    expect_tensor(x.reshape({3, -1}), {3, 2}, lz::i64, {0, 1, 2, 3, 4, 5});
    expect_tensor(x.view({6}), {6}, lz::i64, {0, 1, 2, 3, 4, 5});
    EXPECT_EQ(counting({2, 3, 4}).flatten(1).sizes(), (Extents{2, 12}));
    EXPECT_EQ(counting({2, 3, 4}).flatten(0, 1).sizes(), (Extents{6, 4}));
    EXPECT_EQ(lz::tensor(1).flatten().sizes(), (Extents{1}));
    EXPECT_EQ(counting({2, 6}).unflatten(1, {2, -1}).sizes(), (Extents{2, 2, 3}));
    EXPECT_EQ(lz::zeros({1, 2, 1}).squeeze().sizes(), (Extents{2}));
    EXPECT_EQ(lz::zeros({1, 2, 1}).squeeze(-1).sizes(), (Extents{1, 2}));
    EXPECT_EQ(lz::zeros({1, 2, 1}).squeeze({0, 1}).sizes(), (Extents{2, 1}));
    EXPECT_EQ(lz::zeros({2}).unsqueeze(-1).sizes(), (Extents{2, 1}));
    EXPECT_EQ(lz::zeros({2}).unsqueeze(0).sizes(), (Extents{1, 2}));
    expect_error<lz::ShapeError>([&] { x.reshape({4, -1}); }, {"reshape", "[4,-1]", "6"});
    expect_error<lz::ShapeError>([&] { x.reshape({4}); }, {"reshape", "6", "[4]"});
    expect_error<lz::ShapeError>([&] { x.reshape({-1, -1}); }, {"reshape", "more than one -1"});
    expect_error<lz::ShapeError>([&] { x.reshape({-2, 3}); }, {"reshape", "-2"});
    expect_error<lz::ShapeError>([&] { x.unflatten(1, {2, 2}); }, {"unflatten", "[2,2]"});
    expect_error<lz::IndexError>([&] { x.unsqueeze(4); }, {"unsqueeze", "axis 4"});
    expect_error<lz::IndexError>([&] { x.flatten(1, 0); }, {"flatten"});
}

TEST(Views, Transposes) {
    const Tensor x = counting({2, 3});
    expect_tensor(x.t(), {3, 2}, lz::i64, {0, 3, 1, 4, 2, 5});
    expect_tensor(x.transpose(0, -1), {3, 2}, lz::i64, {0, 3, 1, 4, 2, 5});
    EXPECT_EQ(counting({2, 3, 4}).mT().sizes(), (Extents{2, 4, 3}));
    EXPECT_EQ(counting({2, 3, 4}).permute({2, 0, -2}).sizes(), (Extents{4, 2, 3}));
    EXPECT_EQ(lz::movedim(counting({2, 3, 4}), 0, -1).sizes(), (Extents{3, 4, 2}));
    expect_error<lz::ShapeError>([&] { x.permute({0}); }, {"permute", "[0]", "2"});
    expect_error<lz::IndexError>([&] { x.permute({0, 0}); }, {"permute", "twice"});
    expect_error<lz::IndexError>([&] { x.transpose(0, 2); }, {"transpose", "axis 2"});
    expect_error<lz::ShapeError>([&] { counting({1, 1, 1}).t(); }, {"t:", "3 axes"});
    expect_error<lz::ShapeError>([&] { counting({3}).mT(); }, {"mT"});
}

TEST(Views, Broadcasts) {
    const Tensor x = lz::tensor({{1}, {2}});
    expect_tensor(x.expand({2, 3}), {2, 3}, lz::i64, {1, 1, 1, 2, 2, 2});
    expect_tensor(x.expand({2, -1, 2}), {2, 2, 2}, lz::i64, {1, 1, 2, 2, 1, 1, 2, 2});
    EXPECT_EQ(x.expand_as(lz::zeros({4, 2, 5})).sizes(), (Extents{4, 2, 5}));
    const std::vector<Tensor> both = lz::broadcast_tensors(std::vector{x, lz::tensor({5, 6, 7})});
    expect_tensor(both[1], {2, 3}, lz::i64, {5, 6, 7, 5, 6, 7});
    expect_error<lz::ShapeError>([&] { x.expand({3, 3}); }, {"[2,1]", "[3,3]"});
}

TEST(Views, Parts) {
    const Tensor x = counting({3, 4});
    expect_tensor(x.slice(1, 1, 4, 2), {3, 2}, lz::i64, {1, 3, 5, 7, 9, 11});
    expect_tensor(x.slice(0, -2), {2, 4}, lz::i64, {4, 5, 6, 7, 8, 9, 10, 11});
    expect_tensor(x.slice(1, std::nullopt, std::nullopt, -3), {3, 2}, lz::i64, {3, 0, 7, 4, 11, 8});
    EXPECT_EQ(x.slice(0, 2, 1).sizes(), (Extents{0, 4}));
    EXPECT_EQ(x.slice(0, -100, 100).sizes(), (Extents{3, 4}));
    expect_tensor(x.narrow(0, 1, 1), {1, 4}, lz::i64, {4, 5, 6, 7});
    expect_tensor(x.narrow(1, -1, 1), {3, 1}, lz::i64, {3, 7, 11});
    expect_tensor(x.select(1, -1), {3}, lz::i64, {3, 7, 11});
    expect_tensor(x.flip({1}), {3, 4}, lz::i64, {3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8});
    expect_tensor(x.diagonal(), {3}, lz::i64, {0, 5, 10});
    expect_tensor(x.diagonal(1), {3}, lz::i64, {1, 6, 11});
    expect_tensor(x.diagonal(-1), {2}, lz::i64, {4, 9});
    EXPECT_EQ(x.diagonal(7).sizes(), (Extents{0}));
    expect_error<lz::IndexError>([&] { x.narrow(0, 2, 2); }, {"narrow", "2 positions from 2"});
    expect_error<lz::IndexError>([&] { x.select(0, 3); }, {"select", "index 3"});
    expect_error<lz::IndexError>([&] { x.slice(0, 0, 1, 0); }, {"slice", "step"});
    expect_error<lz::IndexError>([&] { x.flip({2}); }, {"flip", "axis 2"});
    expect_error<lz::IndexError>([&] { x.diagonal(0, 1, 1); }, {"diagonal"});
}

TEST(Views, Joins) {
    const Tensor x = counting({2, 2}), y = lz::tensor({{9.5, 8.0}});
    expect_tensor(lz::cat({x, y}), {3, 2}, lz::f32, {0, 1, 2, 3, 9.5, 8});
    expect_tensor(lz::cat({x, x}, -1), {2, 4}, lz::i64, {0, 1, 0, 1, 2, 3, 2, 3});
    expect_tensor(lz::cat({lz::zeros({0}), y}), {1, 2}, lz::f32, {9.5, 8});
    expect_tensor(lz::stack({x, x + 4}), {2, 2, 2}, lz::i64, {0, 1, 2, 3, 4, 5, 6, 7});
    expect_tensor(lz::stack({x, x + 4}, -1), {2, 2, 2}, lz::i64, {0, 4, 1, 5, 2, 6, 3, 7});
    expect_error<lz::ShapeError>([&] { lz::cat({x, lz::ones({2, 3})}); },
                                 {"cat", "tensor 1", "[2,3]", "[2,2]"});
    expect_error<lz::ShapeError>([&] { lz::cat({lz::tensor(1), lz::tensor(2)}); }, {"cat", "stack"});
    expect_error<lz::ShapeError>([&] { lz::stack({x, y}); }, {"stack", "[1,2]", "[2,2]"});
    expect_error<lz::StateError>([&] { lz::cat(std::span<const Tensor>()); }, {"cat", "no tensor"});
    expect_error<lz::IndexError>([&] { lz::cat({x, x}, 2); }, {"cat", "axis 2"});
}

TEST(Views, Pieces) {
    const Tensor x = counting({5});
    const std::vector<Tensor> parts = x.split(2);
    ASSERT_EQ(parts.size(), 3u);
    expect_values(parts[2], {4});
    const std::vector<Tensor> two = lz::split(x, {1, 4});
    expect_values(two[1], {1, 2, 3, 4});
    ASSERT_EQ(x.chunk(3).size(), 3u);
    expect_values(x.chunk(3)[0], {0, 1});
    ASSERT_EQ(lz::unbind(counting({2, 2}), 1).size(), 2u);
    expect_values(counting({2, 2}).unbind(1)[1], {1, 3});
    expect_error<lz::ShapeError>([&] { lz::split(x, {1, 1}); }, {"split", "[1,1]", "5"});
    expect_error<lz::ShapeError>([&] { x.split(0); }, {"split", "0"});
    expect_error<lz::ShapeError>([&] { x.chunk(0); }, {"chunk", "0"});
}

TEST(Views, PaddingRollingAndCopies) {
    const Tensor x = counting({2, 2});
    expect_tensor(lz::pad(x, {1, 0}, 7), {2, 3}, lz::i64, {7, 0, 1, 7, 2, 3});
    expect_tensor(lz::pad(x, {0, -1, 1, 0}), {3, 1}, lz::i64, {0, 0, 2});
    expect_tensor(counting({5}).roll(2), {5}, lz::i64, {3, 4, 0, 1, 2});
    expect_tensor(x.roll({1, -1}, {0, 1}), {2, 2}, lz::i64, {3, 2, 1, 0});
    expect_tensor(x.roll({1, 1, -2}, {1, 0, 1}), {2, 2}, lz::i64, {3, 2, 1, 0}); // an axis twice
    expect_tensor(x.roll(1), {2, 2}, lz::i64, {3, 0, 1, 2});
    expect_tensor(x.repeat({2, 1}), {4, 2}, lz::i64, {0, 1, 2, 3, 0, 1, 2, 3});
    expect_tensor(lz::tensor({1, 2}).repeat({2, 2}), {2, 4}, lz::i64, {1, 2, 1, 2, 1, 2, 1, 2});
    EXPECT_EQ(x.repeat({0, 1}).sizes(), (Extents{0, 2}));
    expect_tensor(lz::ones({2, 3}).tril(), {2, 3}, lz::f32, {1, 0, 0, 1, 1, 0});
    expect_tensor(lz::ones({2, 3}).triu(1), {2, 3}, lz::f32, {0, 1, 1, 0, 0, 1});
    expect_error<lz::ShapeError>([&] { lz::pad(x, {1}); }, {"pad", "[1]"});
    expect_error<lz::ShapeError>([&] { lz::pad(x, {-2, -1}); }, {"pad", "-2"});
    expect_error<lz::ShapeError>([&] { x.roll({1, 2}, {0}); }, {"roll", "2 shifts"});
    expect_error<lz::ShapeError>([&] { x.repeat({2}); }, {"repeat", "[2]"});
    expect_error<lz::ShapeError>([&] { lz::ones({2}).tril(); }, {"tril", "matrix"});
}

TEST(Semantics, S24_views_are_values) {
    Tensor x = lz::zeros({2, 2});
    const Tensor row = x.select(0, 0), same = x.reshape({2, 2}), turned = x.t();
    x.add_(1);
    expect_values(row, {0, 0});
    expect_values(same, {0, 0, 0, 0});
    expect_values(turned, {0, 0, 0, 0});
}

} // namespace
