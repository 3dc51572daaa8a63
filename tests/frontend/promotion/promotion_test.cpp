// S62: type promotion is PyTorch's. The expectations are PyTorch's documented table (torch.promote_types, and
// the categories of torch.result_type).
#include "tests/support/tensor_values.h"

namespace {

using namespace lz::test;
using lz::Tensor;

TEST(Semantics, S62_two_tensors_meet_as_in_the_table) {
    using lz::bf16, lz::boolean, lz::f16, lz::f32, lz::f64, lz::i16, lz::i32, lz::i64, lz::i8, lz::u8;
    const lz::DType order[] = {boolean, u8, i8, i16, i32, i64, f16, bf16, f32, f64};
    const lz::DType table[10][10] = {{boolean, u8, i8, i16, i32, i64, f16, bf16, f32, f64},
                                     {u8, u8, i16, i16, i32, i64, f16, bf16, f32, f64},
                                     {i8, i16, i8, i16, i32, i64, f16, bf16, f32, f64},
                                     {i16, i16, i16, i16, i32, i64, f16, bf16, f32, f64},
                                     {i32, i32, i32, i32, i32, i64, f16, bf16, f32, f64},
                                     {i64, i64, i64, i64, i64, i64, f16, bf16, f32, f64},
                                     {f16, f16, f16, f16, f16, f16, f16, f32, f32, f64},
                                     {bf16, bf16, bf16, bf16, bf16, bf16, f32, bf16, f32, f64},
                                     {f32, f32, f32, f32, f32, f32, f32, f32, f32, f64},
                                     {f64, f64, f64, f64, f64, f64, f64, f64, f64, f64}};
    for (size_t i = 0; i < 10; ++i)
        for (size_t j = 0; j < 10; ++j) {
            const Tensor a = lz::ones({2}, {.dtype = order[i]}), b = lz::ones({2}, {.dtype = order[j]});
            EXPECT_EQ((a + b).dtype(), table[i][j]) << order[i] << " + " << order[j];
            EXPECT_EQ(lz::promote_types(order[i], order[j]), table[i][j]);
            EXPECT_EQ((a < b).dtype(), lz::boolean);
        }
}

TEST(Semantics, S62_numbers_and_0_dim_tensors_count_by_category_only) {
    const Tensor ints = lz::ones({2}, {.dtype = lz::i32}), bytes = lz::ones({2}, {.dtype = lz::u8}),
                 halves = lz::ones({2}, {.dtype = lz::f16}), bools = lz::tensor({true, false});
    EXPECT_EQ((ints + 1).dtype(), lz::i32);
    EXPECT_EQ((ints + 1.5).dtype(), lz::f32);
    EXPECT_EQ((ints + true).dtype(), lz::i32);
    EXPECT_EQ((halves * 1.5).dtype(), lz::f16);
    EXPECT_EQ((bools + 1).dtype(), lz::i64);
    EXPECT_EQ((bools * 1.5).dtype(), lz::f32);
    EXPECT_EQ((bytes + lz::tensor(1)).dtype(), lz::u8);
    EXPECT_EQ((ints + lz::tensor(1.5, {.dtype = lz::f64})).dtype(), lz::f64);
    EXPECT_EQ((halves + lz::tensor(1.5, {.dtype = lz::f64})).dtype(), lz::f16);
    EXPECT_EQ((lz::tensor(1, {.dtype = lz::i32}) + lz::tensor(1)).dtype(), lz::i64);
    EXPECT_EQ((lz::tensor(1.0, {.dtype = lz::f16}) + 1.5).dtype(), lz::f16);
    EXPECT_EQ((lz::tensor(1) + 1.5).dtype(), lz::f32);
    const lz::DefaultDTypeGuard guard(lz::f64);
    EXPECT_EQ((ints + 1.5).dtype(), lz::f64);
    EXPECT_EQ((ints / 2).dtype(), lz::f64);
}

TEST(Semantics, S62_half_types_overflow_to_infinity) {
    const Tensor x = lz::full({1}, 60000.0, {.dtype = lz::f16});
    expect_values(x * 2, {INFINITY});
    expect_values((x * 2) / 4, {INFINITY});
    expect_values(lz::full({64}, 60000.0, {.dtype = lz::f16}).mean(), {59994}, 16); // computed in f32
    expect_values(lz::full({3}, 1.0, {.dtype = lz::bf16}) + 0x1p-9, {1, 1, 1});
}

TEST(Promotion, NumbersWrapIntoTheIntegersThatTheyMeet) {
    expect_tensor(lz::tensor({1}, {.dtype = lz::u8}) + 300, {1}, lz::u8, {45});
    expect_tensor(lz::tensor({1}, {.dtype = lz::i8}) + 127, {1}, lz::i8, {-128});
    const int64_t big = (int64_t{1} << 53) + 1;
    EXPECT_EQ((lz::tensor({0}) + big).item<int64_t>(), 0 + big);
}

TEST(Semantics, S66_floats_become_integers_by_saturation) {
    const Tensor x = lz::tensor({1.9, -1.9, 1e30, -1e30, NAN});
    expect_tensor(x.to(lz::i8), {5}, lz::i8, {1, -1, 127, -128, 0});
    expect_tensor(x.to(lz::u8), {5}, lz::u8, {1, 0, 255, 0, 0});
    expect_tensor(x.to(lz::boolean), {5}, lz::boolean, {1, 1, 1, 1, 1});
}

TEST(Promotion, ANumberThatADtypeDoesNotHaveCountsAsItIs) {
    const Tensor u = lz::tensor({0, 5, 9, 255}, {.dtype = lz::u8});
    const Tensor i = lz::tensor({-128, -1, 0, 127}, {.dtype = lz::i8});
    expect_tensor(u.clamp(-1, 5), {4}, lz::u8, {0, 5, 5, 5}); // was 5, 5, 5, 5: -1 became 255
    expect_tensor(u.clamp(0, 300), {4}, lz::u8, {0, 5, 9, 255});
    expect_tensor(i.clamp(-1, 200), {4}, lz::i8, {-1, -1, 0, 127});
    expect_tensor(lz::minimum(300, u), {4}, lz::u8, {0, 5, 9, 255});
    expect_tensor(u.maximum(-1), {4}, lz::u8, {0, 5, 9, 255});
    expect_tensor(u < -1, {4}, lz::boolean, {0, 0, 0, 0});
    expect_tensor(u == 300, {4}, lz::boolean, {0, 0, 0, 0});
    expect_tensor(u != -1, {4}, lz::boolean, {1, 1, 1, 1});
    expect_tensor(300 > u, {4}, lz::boolean, {1, 1, 1, 1});
    expect_tensor(i >= -129, {4}, lz::boolean, {1, 1, 1, 1});
    expect_tensor(lz::tensor({1, 2}, {.dtype = lz::i32}) == (int64_t{1} << 32) + 1, {2}, lz::boolean, {0, 0});
    expect_tensor(u << 256, {4}, lz::u8, {0, 0, 0, 0}); // past the width
    expect_error<lz::DTypeError>([&] { lz::floor_divide(u, 300); }, {"floor_divide", "300", "u8"});
    expect_error<lz::DTypeError>([&] { u % 300; }, {"remainder", "300", "u8"});
    expect_error<lz::DTypeError>([&] { lz::pow(u, 256); }, {"pow", "256", "u8"});
}

TEST(Promotion, ANumberThatIsStoredHasToFit) {
    Tensor u = lz::tensor({0, 5, 9}, {.dtype = lz::u8});
    const Tensor some = u > 3;
    expect_error<lz::DTypeError>([&] { lz::where(some, u, 300); }, {"where", "300", "u8"});
    expect_error<lz::DTypeError>([&] { u.masked_fill(some, 300); }, {"masked_fill", "300", "u8"});
    expect_error<lz::DTypeError>([&] { u.masked_fill(some, NAN); }, {"masked_fill", "nan", "u8"});
    expect_error<lz::DTypeError>([&] { u.fill_(-256); }, {"fill_", "-256", "u8"});
    expect_error<lz::DTypeError>([&] { u.at({0}) = 256; }, {"at", "256", "u8"});
    expect_error<lz::DTypeError>([&] { u.at(some) = 256; }, {"at", "256", "u8"});
    expect_error<lz::DTypeError>([&] { lz::scatter(u, 0, lz::tensor({0}), 256); }, {"scatter", "256"});
    expect_error<lz::DTypeError>([] { lz::full({2}, 300, {.dtype = lz::u8}); }, {"full", "300", "u8"});
    expect_error<lz::DTypeError>([] { lz::full({1}, 1e30, {.dtype = lz::i32}); }, {"full", "i32"});
    expect_error<lz::DTypeError>([] { lz::full({1}, 0x1p63, {.dtype = lz::i64}); }, {"full", "i64"});
    expect_error<lz::DTypeError>([] { lz::tensor({1, 300}, {.dtype = lz::u8}); }, {"tensor", "300", "u8"});
    expect_error<lz::DTypeError>([] { lz::randint(0, 300, {2}, {.dtype = lz::u8}); }, {"randint", "299"});
    expect_tensor(u, {3}, lz::u8, {0, 5, 9});
    expect_tensor(u.masked_fill(some, 2.7), {3}, lz::u8, {0, 2, 2});
    expect_tensor(lz::full({1}, -1, {.dtype = lz::u8}), {1}, lz::u8, {255}); // as PyTorch
    EXPECT_EQ(lz::randint(0, 256, {2}, {.dtype = lz::u8}).dtype(), lz::u8);
}

TEST(Promotion, NothingThatWouldLoseTheCategoryIsPossible) {
    expect_error<lz::DTypeError>([] { lz::add(1, 2); }, {"add", "numbers"});
    expect_error<lz::DTypeError>([] { lz::pow(lz::tensor({2}), -1); }, {"pow", "-1"});
    expect_error<lz::DTypeError>([] { lz::ones({2}) & lz::ones({2}); }, {"and", "f32"});
    expect_error<lz::DTypeError>([] { -lz::tensor({true}); }, {"neg", "bool"});
}

} // namespace
