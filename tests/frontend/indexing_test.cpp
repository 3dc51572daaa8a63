#include "tests/support/tensor_values.h"

namespace {

using namespace lz::test;
using lz::Ellipsis, lz::None, lz::Slice, lz::Tensor;

Tensor counting(int64_t rows, int64_t columns) {
    return lz::arange(rows * columns).reshape({rows, columns}).to(lz::f32);
}

TEST(Indexing, ReadsAsPythonDoes) {
    const Tensor x = counting(3, 4);
    expect_tensor(x.at(1), {4}, lz::f32, {4, 5, 6, 7});
    expect_tensor(x[-1], {4}, lz::f32, {8, 9, 10, 11});
    expect_tensor(x[1][2], {}, lz::f32, {6});
    expect_tensor(x.at({0, 3}), {}, lz::f32, {3});
    expect_tensor(x.at({Slice(), Slice(1, 4, 2)}), {3, 2}, lz::f32, {1, 3, 5, 7, 9, 11});
    expect_tensor(x.at({Ellipsis, -1}), {3}, lz::f32, {3, 7, 11});
    expect_tensor(x.at({Slice(None, None, -2), 0}), {2}, lz::f32, {8, 0});
    expect_tensor(x.at({None, 0, None}), {1, 1, 4}, lz::f32, {0, 1, 2, 3});
    expect_tensor(x.at({Slice(-2, None), Slice(None, -3)}), {2, 1}, lz::f32, {4, 8});
    EXPECT_EQ(x.at({Slice(5, 9)}).sizes(), (Extents{0, 4}));
    expect_tensor(x.at({lz::tensor({2, -3}), Slice(0, 2)}), {2, 2}, lz::f32, {8, 9, 0, 1});
    expect_tensor(x.at({0, lz::tensor({{1, 0}})}), {1, 2}, lz::f32, {1, 0});
    EXPECT_EQ((x.at({0}) + x.at({1})).sum().item<double>(), 28);
}

template <class T>
concept WritesToAPartOfAPart = requires(T x) { x[0][2] = 77; };
template <class T>
concept AddsToAPartOfAPart = requires(T x) { x.at({0}).at({1}) += 1; };

TEST(Semantics, S24_writing_to_a_part_of_a_part_does_not_compile) {
    static_assert(!WritesToAPartOfAPart<Tensor> && !AddsToAPartOfAPart<Tensor>);
    const Tensor x = lz::arange(6).reshape({2, 3});
    EXPECT_EQ(x[1][2].item<int>(), 5); // reading is fine
}

TEST(Semantics, S24_writing_to_a_part_changes_the_whole) {
    Tensor x = lz::zeros({3, 4});
    const Tensor alias = x;
    x.at({1}) = 5.0;
    x.at({Slice(), 0}) += lz::tensor({1.0, 2.0, 3.0});
    x.at({2, Slice(1, 3)}) = lz::tensor({8.0, 9.0});
    expect_values(alias, {1, 0, 0, 0, 7, 5, 5, 5, 3, 8, 9, 0});
    x.at({0}) -= 1;
    x.at({0}) *= 3;
    x.at({1}) /= 2;
    x.at({Slice(None, None, -1), 3}) = lz::tensor({30.0, 20.0, 10.0});
    expect_values(alias, {0, -3, -3, 10, 3.5, 2.5, 2.5, 20, 3, 8, 9, 30});
    x.at({Ellipsis, Slice(None, None, 2)}).fill_(0);
    x.at({0}).copy_(x.at({2}));
    x.at({1, None, 3}) = lz::tensor({{6}});
    expect_values(alias, {0, 8, 0, 30, 0, 2.5, 0, 6, 0, 8, 0, 30});
    x[2] = x[1];
    expect_values(alias, {0, 8, 0, 30, 0, 2.5, 0, 6, 0, 2.5, 0, 6});
}

TEST(Indexing, WritesThroughPositionsAndMasks) {
    Tensor x = counting(3, 2);
    x.at(lz::tensor({2, 0})) = lz::tensor({{10.0, 20.0}, {30.0, 40.0}});
    expect_values(x, {30, 40, 2, 3, 10, 20});
    x.at({Slice(1, 3), lz::tensor({-1})}) = 0;
    expect_values(x, {30, 40, 2, 0, 10, 0});
    x.at(x > 25) = -1;
    expect_values(x, {-1, -1, 2, 0, 10, 0});
    x.at(lz::tensor({false, true, false})) = 7;
    expect_values(x, {-1, -1, 7, 7, 10, 0});
    x.at(x == 7) += 1;
    expect_values(x, {-1, -1, 8, 8, 10, 0});
}

TEST(Indexing, ReadsThroughMasks) {
    const Tensor x = counting(3, 2);
    const Tensor chosen = x.at(x > 2); // was an empty handle
    expect_tensor(chosen, {3}, lz::f32, {3, 4, 5});
    EXPECT_EQ(x.at(x > 2).sum().item<int>(), 12);
    EXPECT_EQ((1 + x[x > 2] * 2).to_vector<float>(), (std::vector<float>{7, 9, 11}));
    EXPECT_EQ(x.at(x > 2).str(), "tensor([3., 4., 5.])");
    EXPECT_EQ(x.at(x > 2).sizes(), (Extents{3}));
    EXPECT_TRUE(x.at(x > 2).defined());
    expect_tensor(x.at(lz::tensor({true, false, true})), {2, 2}, lz::f32, {0, 1, 4, 5});
    expect_tensor(x.at(x > 9), {0}, lz::f32, {});
    expect_tensor(x.at(lz::tensor(true)), {1, 3, 2}, lz::f32, {0, 1, 2, 3, 4, 5});
    Tensor later;
    later = x.at(x > 4);
    expect_tensor(later, {1}, lz::f32, {5});
    const Tensor parts[] = {x.at(x > 4), x.at(x < 1)};
    const auto copied = [](const Tensor &t) { return Tensor(t); };
    expect_tensor(copied(x.at(x > 4)), {1}, lz::f32, {5});
    Tensor changed = counting(3, 2);
    const lz::Part &part = changed.at(lz::tensor({true, false, true}));
    expect_values(part, {0, 1, 4, 5});
    part += 1;
    expect_values(part, {1, 2, 5, 6});
    expect_values(lz::cat({parts[0], x.at(x < 1)}), {5, 0});
    expect_values(lz::clamp(x.at(x > 2), lz::tensor({4.0}), lz::Tensor()), {4, 4, 5});
    const Tensor bias = lz::tensor({7.0, 8.0, 9.0});
    expect_values(lz::linear(lz::ones({1, 2}), lz::ones({2, 2}), bias.at(bias > 7)), {10, 11});
}

TEST(Indexing, WritesTensorsThroughMasks) {
    Tensor x = counting(3, 2);
    const Tensor alias = x;
    x.at(x > 2) = lz::tensor({30.0, 40.0, 50.0}); // one for each that the mask selects
    expect_values(alias, {0, 1, 2, 30, 40, 50});
    x.at(lz::tensor({true, false, true})) = lz::tensor({-1.0, -2.0}); // the same to each row
    expect_values(alias, {-1, -2, 2, 30, -1, -2});
    x.at(lz::tensor({true, true, false})) = lz::tensor({{1.0}, {2.0}});
    expect_values(alias, {1, 1, 2, 2, -1, -2});
    x.at(x > 0) += lz::tensor({0.0, 10.0, 20.0, 30.0});
    expect_values(alias, {1, 11, 22, 32, -1, -2});
    const Tensor y = lz::tensor({{1.0, 0.0}, {0.0, 1.0}, {0.0, 0.0}});
    x.at(y > 0) = x.at(y > 0) * 2;
    expect_values(alias, {2, 11, 22, 64, -1, -2});
    x.at(x > 100) = lz::ones({0});
    expect_values(alias, {2, 11, 22, 64, -1, -2});
}

TEST(Indexing, WritingANumberThroughAMaskComputesNothing) {
    Tensor x = counting(3, 2);
    lz::sync();
    const int64_t launches = lz::compile_stats().kernel_launches;
    x.at(x > 2) = 7;
    x.at(x == 7) += 1;
    x.at(x == 8) = lz::tensor({9.0});
    EXPECT_EQ(lz::compile_stats().kernel_launches, launches);
    expect_values(x, {0, 1, 2, 9, 9, 9});
}

TEST(Indexing, AValueTakesTheDtypeOfTheWhole) {
    Tensor x = lz::tensor({1, 2, 3});
    x.at({0}) = 7.9;
    x.at({1}) = lz::tensor(5.5);
    expect_tensor(x, {3}, lz::i64, {7, 5, 3});
}

TEST(Indexing, WhatIsWrongIsSaidAndNothingChanges) {
    Tensor x = counting(2, 3);
    expect_error<lz::IndexError>([&] { x.at({2}); }, {"at", "index 2", "axis 0", "f32[2,3]"});
    expect_error<lz::IndexError>([&] { x.at({-3}); }, {"at", "index -3", "axis 0", "f32[2,3]"});
    expect_error<lz::IndexError>([&] { x[-3] = 1; }, {"at", "index -3", "axis 0", "f32[2,3]"});
    expect_error<lz::IndexError>([&] { x.at({0, 0, 0}); }, {"at", "3 axes"});
    expect_error<lz::IndexError>([&] { x.at({Ellipsis, Ellipsis}); }, {"Ellipsis"});
    expect_error<lz::IndexError>([&] { x.at({Slice(0, 1, 0)}); }, {"step"});
    expect_error<lz::ShapeError>([&] { x.at({0}) = lz::ones({2}); }, {"at", "[2]", "[3]"});
    expect_error<lz::ShapeError>([&] { x.at({0}) = lz::ones({2, 3}); }, {"at", "[2,3]", "[3]"});
    expect_error<lz::DTypeError>([&] { x.at({lz::tensor({0.5})}); }, {"at", "f32[1]"});
    expect_error<lz::IndexError>([&] { x.at(lz::tensor({true})); }, {"mask", "[1]"});
    expect_error<lz::ShapeError>([&] { x.at(x > 1) = lz::ones({2}); }, {"mask", "[2]", "[4]"});
    expect_error<lz::ShapeError>([&] { x.at(x > 1) = lz::ones({2, 3}); }, {"mask", "[2,3]", "[4]"});
    expect_values(x, {0, 1, 2, 3, 4, 5});
}

template <class T>
concept TakesExp = requires(T t) { t.exp_(); };
template <class T>
concept Fills = requires(T t) { t.fill_(1); };

TEST(Indexing, OtherInPlaceFormsOfAPartDoNotCompile) {
    static_assert(TakesExp<Tensor &> && !TakesExp<const lz::Part &> && !TakesExp<lz::Part &>);
    static_assert(Fills<const lz::Part &>);
}

} // namespace
