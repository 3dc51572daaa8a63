// Looking up and storing by index, sorting.
#include "tests/support/tensor_values.h"

#include <functional>
#include <vector>

namespace {

using namespace lz::test;
using lz::Tensor;

TEST(Gather, AlongAnAxis) {
    const Tensor x = lz::tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
    expect_tensor(lz::gather(x, 1, lz::tensor({{2, 0}, {1, 1}})), {2, 2}, lz::f32, {3, 1, 5, 5});
    expect_tensor(x.gather(0, lz::tensor({{1, 0}})), {1, 2}, lz::f32, {4, 2});
    expect_tensor(x.index_select(-1, lz::tensor({2, 2})), {2, 2}, lz::f32, {3, 3, 6, 6});
    expect_tensor(lz::index_select(x, 0, lz::tensor({1}, {.dtype = lz::i32})), {1, 3}, lz::f32, {4, 5, 6});
    expect_tensor(x.take(lz::tensor({{0, -1}})), {1, 2}, lz::f32, {1, 6});
    expect_tensor(lz::embedding(x, lz::tensor({{1, 0, 1}})), {1, 3, 3}, lz::f32, {4, 5, 6, 1, 2, 3, 4, 5, 6});
    expect_tensor(lz::masked_select(x, x > 2.5), {4}, lz::f32, {3, 4, 5, 6});
    EXPECT_EQ(lz::masked_select(x, x > 9).numel(), 0);
}

TEST(Gather, ScatterStoresAndAdds) {
    const Tensor x = lz::zeros({2, 3});
    expect_values(lz::scatter(x, 1, lz::tensor({{2}, {0}}), lz::tensor({{5.0}, {6.0}})), {0, 0, 5, 6, 0, 0});
    expect_values(x.scatter(0, lz::tensor({{1, 0}}), 9), {0, 9, 0, 9, 0, 0});
    expect_values(lz::scatter_add(x, 1, lz::tensor({{1, 1}, {0, 2}}), lz::ones({2, 2})), {0, 2, 0, 1, 0, 1});
    expect_values(lz::index_add(x, 0, lz::tensor({1, 1}), lz::ones({2, 3})), {0, 0, 0, 2, 2, 2});
    Tensor y = lz::zeros({3});
    y.scatter_(0, lz::tensor({0}), 4)
        .scatter_add_(0, lz::tensor({0, 2}), lz::ones({2}))
        .index_add_(0, lz::tensor({1}), lz::ones({1}));
    expect_values(y, {5, 1, 1});
}

TEST(Gather, OneHot) {
    expect_tensor(lz::one_hot(lz::tensor({1, 0}), 3), {2, 3}, lz::i64, {0, 1, 0, 1, 0, 0});
    expect_tensor(lz::one_hot(lz::tensor({2, 0})), {2, 3}, lz::i64, {0, 0, 1, 1, 0, 0});
    expect_error<lz::ShapeError>([] { lz::one_hot(lz::tensor({1}), 0); }, {"one_hot", "0"});
    expect_error<lz::IndexError>([] { lz::one_hot(lz::tensor({-1})); }, {"one_hot", "negative"});
}

TEST(Gather, WhatDoesNotFitIsSaid) {
    const Tensor x = lz::ones({2, 3}), index = lz::tensor({{0}});
    expect_error<lz::DTypeError>([&] { lz::gather(x, 0, x); }, {"gather", "i64", "f32"});
    expect_error<lz::ShapeError>([&] { lz::gather(x, 0, lz::tensor({0})); }, {"gather", "[1]", "[2,3]"});
    expect_error<lz::IndexError>([&] { lz::gather(x, 2, index); }, {"gather", "axis 2"});
    expect_error<lz::ShapeError>([&] { lz::index_select(x, 0, index); }, {"index_select", "one axis"});
    expect_error<lz::DTypeError>([&] { lz::scatter(x, 0, index, lz::tensor({{1}})); },
                                 {"scatter", "i64", "f32"});
    expect_error<lz::ShapeError>([&] { lz::scatter_add(x, 0, lz::tensor({{0, 1}}), lz::ones({1, 1})); },
                                 {"scatter_add", "[1,2]", "[1,1]"});
    expect_error<lz::ShapeError>([&] { lz::index_add(x, 0, lz::tensor({0}), lz::ones({2, 3})); },
                                 {"index_add", "[1,3]"});
    expect_error<lz::ShapeError>([&] { lz::embedding(lz::ones({3}), lz::tensor({0})); },
                                 {"embedding", "matrix"});
    expect_error<lz::ShapeError>([&] { lz::masked_select(x, lz::ones({5}, {.dtype = lz::boolean})); },
                                 {"masked_select", "bool[5]"});
}

TEST(Semantics, S26_an_index_out_of_range_is_thrown_at_the_sync_with_the_line_of_the_operation) {
    const Tensor x = lz::arange(6).reshape({2, 3}).to(lz::f32).eval();
    const auto says = [](const Tensor &t, const std::string &message, int line) {
        try {
            t.to_vector<float>();
            ADD_FAILURE() << "no error";
        } catch (const lz::IndexError &error) {
            const std::string what = error.what();
            EXPECT_TRUE(what.starts_with(message)) << what << "\nis not\n" << message;
            EXPECT_TRUE(what.ends_with(", at gather_test.cpp:" + std::to_string(line))) << what;
            EXPECT_EQ(static_cast<int>(error.line()), line);
        }
    };
    says(lz::index_select(x, 0, lz::tensor({0, 2})), "index_select: index 2 is out of range for ",
         __LINE__ - 1);
    says(lz::gather(x, 1, lz::tensor({{-1}})), "gather: index -1 is out of range for ", __LINE__);
    says(lz::scatter(x, 0, lz::tensor({{5}}), 1), "scatter: index 5 is out of range for ", __LINE__);
    says(lz::index_add(x, 0, lz::tensor({0, 2}), x), "index_add: index 2 is out of range for ", __LINE__);
    says(lz::index_add(x.flatten(), 0, lz::full({20000}, 6, {.dtype = lz::i32}), lz::ones({20000})),
         "index_add: index 6 is out of range for ", __LINE__ - 1);
    says(lz::one_hot(lz::tensor({3}), 3).to(lz::f32), "one_hot: index 3 is out of range for ", __LINE__);
    says(x.at({lz::tensor({4})}) + 0, "at: index 4 is out of range for ", __LINE__);
    says(x.at({lz::tensor({-3})}) + 0, "at: index -3 is out of range for ", __LINE__);
    says(lz::take(x, lz::tensor({-7})), "take: index -7 is out of range for ", __LINE__);
    says(lz::embedding(x, lz::tensor({4})), "embedding: index 4 is out of range for ", __LINE__);
    says(lz::take(x, lz::tensor({6})), "take: index 6 is out of range for ", __LINE__);
    says(lz::cross_entropy(x, lz::tensor({0, 3})), "cross_entropy: index 3 is out of range for ",
         __LINE__ - 1);
}

TEST(Semantics, S26_a_division_by_zero_names_the_function) {
    const uint32_t line = __LINE__ + 1;
    const Tensor divided = lz::floor_divide(lz::tensor({1, 2}), lz::tensor({1, 0}));
    try {
        divided.to_vector<int64_t>();
        FAIL() << "nothing was thrown";
    } catch (const lz::StateError &error) {
        EXPECT_EQ(error.what(),
                  "floor_divide: an integer was divided by zero, at gather_test.cpp:" + std::to_string(line));
    }
}

TEST(Semantics, S26_what_a_failed_value_makes_no_difference_to_fails_with_it) {
    const Tensor zero = lz::zeros({2}, {.dtype = lz::i64}), yes = lz::ones({2}, {.dtype = lz::boolean});
    const auto bad = [&] { return lz::tensor({1, 2}) % zero; };
    for (const auto &of : std::vector<std::function<Tensor(Tensor)>>{
             [](const Tensor &x) { return x - x; }, [](const Tensor &x) { return x * 0; },
             [](const Tensor &x) { return lz::pow(x, 0); },
             [&](const Tensor &x) { return lz::where(yes, zero, x); }})
        EXPECT_THROW(of(bad()).to_vector<int64_t>(), lz::StateError);
}

TEST(Semantics, S26_an_index_into_a_tensor_of_one_number_is_checked_too) {
    EXPECT_THROW(lz::index_select(lz::ones({3}), 0, lz::tensor({7})).to_vector<float>(), lz::IndexError);
    EXPECT_THROW(lz::gather(lz::full({3}, 2.0), 0, lz::tensor({0, 3, 1})).to_vector<float>(), lz::IndexError);
    // Values that do not change along the axis, but along others, do not look at the index either.
    const Tensor rows = lz::arange(3).reshape({3, 1}).expand({3, 5}) * 2;
    EXPECT_THROW(lz::gather(rows, 1, lz::arange(3).reshape({3, 1}) + 3).to_vector<int64_t>(), lz::IndexError);
    EXPECT_EQ(lz::gather(rows, 1, lz::arange(3).reshape({3, 1}) + 2).to_vector<int64_t>(),
              (std::vector<int64_t>{0, 2, 4}));
    EXPECT_EQ(lz::gather(lz::full({3}, 2.0), 0, lz::tensor({0, 2})).to_vector<float>(),
              (std::vector<float>{2, 2}));
}

TEST(Sorting, ValuesAndPositions) {
    const Tensor x = lz::tensor({{3.0, NAN, 1.0}, {2.0, 2.0, 5.0}});
    const auto [values, indices] = lz::sort(x);
    expect_tensor(values, {2, 3}, lz::f32, {1, 3, NAN, 2, 2, 5});
    expect_tensor(indices, {2, 3}, lz::i64, {2, 0, 1, 0, 1, 2});
    expect_values(x.sort(1, true).values, {NAN, 3, 1, 5, 2, 2});
    expect_values(x.sort(1, true).indices, {1, 0, 2, 2, 0, 1});
    expect_values(lz::argsort(lz::tensor({5, 1, 3})), {1, 2, 0});
    expect_values(lz::tensor({{2, 1}, {1, 2}}).sort(0).values, {1, 1, 2, 2});
    expect_values(lz::sort(lz::tensor(4.0)).values, {4});
    const auto best = lz::topk(lz::tensor({4, 9, 7, 1}), 2);
    expect_tensor(best.values, {2}, lz::i64, {9, 7});
    expect_tensor(best.indices, {2}, lz::i64, {1, 2});
    expect_values(lz::tensor({4, 9, 7, 1}).topk(3, 0, false).values, {1, 4, 7});
    expect_error<lz::IndexError>([&] { lz::topk(x, 4); }, {"topk", "4", "3"});
    expect_error<lz::IndexError>([&] { lz::sort(x, 2); }, {"sort", "axis 2"});
}

} // namespace
