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
    expect_error<lz::ShapeError>([&] { x.at(x > 1) = lz::ones({2}); }, {"mask"});
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
