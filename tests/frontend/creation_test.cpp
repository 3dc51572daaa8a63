#include "tests/support/tensor_values.h"

namespace {

using namespace lz::test;
using lz::Tensor;

TEST(Creation, BracesBecomeTensors) {
    expect_tensor(lz::tensor({{1, 2, 3}, {4, 5, 6}}), {2, 3}, lz::i64, {1, 2, 3, 4, 5, 6});
    expect_tensor(lz::tensor({1, 2.5}), {2}, lz::f32, {1, 2.5});
    expect_tensor(lz::tensor({{{true}}, {{false}}}), {2, 1, 1}, lz::boolean, {1, 0});
    expect_tensor(lz::tensor(3.5), {}, lz::f32, {3.5});
    expect_tensor(lz::tensor({{1, 2}}, {.dtype = lz::f16}), {1, 2}, lz::f16, {1, 2});
    EXPECT_EQ(lz::tensor({7}).sizes(), (Extents{1}));
    expect_error<lz::ShapeError>([] { lz::tensor({{1, 2}, {3}}); }, {"tensor", "1 entries", "2"});
    expect_error<lz::ShapeError>([] { lz::tensor({{1, 2}, 3}); }, {"tensor", "number"});
    expect_error<lz::ShapeError>([] { lz::tensor({1, {2}}); }, {"tensor", "row"});
}

TEST(Creation, VectorsAndSpansAreCopied) {
    std::vector<float> v = {1, 2, 3, 4, 5, 6};
    const Tensor x = lz::tensor(v, {2, 3});
    v[0] = 100;
    expect_tensor(x, {2, 3}, lz::f32, {1, 2, 3, 4, 5, 6});
    expect_tensor(lz::tensor(std::vector<double>{1, 2}), {2}, lz::f64, {1, 2});
    expect_tensor(lz::tensor(std::vector<bool>{true, false}), {2}, lz::boolean, {1, 0});
    expect_tensor(lz::tensor(std::span<const float>(v).first(2), {.dtype = lz::i32}), {2}, lz::i32, {100, 2});
    expect_tensor(lz::from_blob(v.data(), {3, 2}).select(0, 1), {2}, lz::f32, {3, 4});
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    expect_error<lz::ShapeError>([&] { lz::tensor(v, {2, 2}); }, {"tensor", "6", "[2,2]"});
    expect_error<lz::DTypeError>([&] { x.to_vector<double>(); }, {"f32", "f64"});
}

TEST(Creation, AdoptedMemoryIsUsedAsItIsAndGivenBackOnce) {
    int deleted = 0;
    std::vector<int32_t> memory = {1, 2, 3};
    {
        Tensor x = lz::from_blob(memory.data(), {3}, [&](void *p) {
            EXPECT_EQ(p, memory.data());
            ++deleted;
        });
        EXPECT_EQ(static_cast<const void *>(x.data<int32_t>()), memory.data());
        Tensor y = x + 1;
        x.add_(10); // adopted memory is never written
        expect_values(x, {11, 12, 13});
        expect_values(y, {2, 3, 4});
        EXPECT_EQ(memory[0], 1);
    }
    EXPECT_EQ(deleted, 1);
}

TEST(Creation, FilledTensors) {
    expect_tensor(lz::zeros({2, 2}), {2, 2}, lz::f32, {0, 0, 0, 0});
    expect_tensor(lz::ones({2}, {.dtype = lz::i8}), {2}, lz::i8, {1, 1});
    expect_tensor(lz::full({2}, 1.5), {2}, lz::f32, {1.5, 1.5});
    expect_tensor(lz::full({1}, 3), {1}, lz::i64, {3});
    expect_tensor(lz::full({1}, true), {1}, lz::boolean, {1});
    expect_tensor(lz::zeros({}), {}, lz::f32, {0});
    expect_tensor(lz::zeros({0, 3}), {0, 3}, lz::f32, {});
    EXPECT_EQ(lz::empty({4, 5}).sizes(), (Extents{4, 5}));
    expect_tensor(lz::eye(2), {2, 2}, lz::f32, {1, 0, 0, 1});
    expect_tensor(lz::eye(2, 3, {.dtype = lz::i32}), {2, 3}, lz::i32, {1, 0, 0, 0, 1, 0});
}

TEST(Creation, Sequences) {
    expect_tensor(lz::arange(4), {4}, lz::i64, {0, 1, 2, 3});
    expect_tensor(lz::arange(2, 9, 3), {3}, lz::i64, {2, 5, 8});
    expect_tensor(lz::arange(5, 0, -2), {3}, lz::i64, {5, 3, 1});
    expect_tensor(lz::arange(0, 1, 0.25), {4}, lz::f32, {0, 0.25, 0.5, 0.75});
    expect_tensor(lz::arange(3, {.dtype = lz::f64}), {3}, lz::f64, {0, 1, 2});
    expect_tensor(lz::arange(0), {0}, lz::i64, {});
    expect_tensor(lz::linspace(0, 1, 5), {5}, lz::f32, {0, 0.25, 0.5, 0.75, 1});
    expect_tensor(lz::linspace(3, 3, 1), {1}, lz::f32, {3});
    expect_values(lz::linspace(-1, 2, 7, {.dtype = lz::f64}), {-1, -0.5, 0, 0.5, 1, 1.5, 2}, 1e-15);
    expect_error<lz::ShapeError>([] { lz::arange(0, 5, 0); }, {"arange", "step"});
    expect_error<lz::ShapeError>([] { lz::arange(0, 5, -1); }, {"arange", "wrong way"});
    expect_error<lz::ShapeError>([] { lz::linspace(0, 1, -1); }, {"linspace", "-1"});
}

TEST(Creation, ShapesThatCannotBe) {
    expect_error<lz::ShapeError>([] { lz::arange(INT64_MIN, 10); }, {"arange", "64-bit count"});
    expect_error<lz::ShapeError>([] { lz::eye(int64_t{1} << 40); }, {"eye", "dtype f32"});
    expect_error<lz::ShapeError>([] { lz::rand({int64_t{1} << 62}); }, {"rand", "dtype f32"});
    expect_error<lz::ShapeError>([] { lz::eye(-1); }, {"eye: the number of rows is -1"});
    expect_error<lz::ShapeError>([] { lz::eye(2, -3); }, {"eye: the number of columns is -3"});
    expect_error<lz::ShapeError>([] { lz::zeros({2, -3}); }, {"zeros", "[2,-3]", "negative"});
    expect_error<lz::ShapeError>([] { lz::ones({1, 1, 1, 1, 1, 1, 1, 1, 1}); }, {"ones", "9", "8"});
    const int64_t big = int64_t{1} << 40;
    expect_error<lz::ShapeError>([&] { lz::full({big, big}, 1.0); }, {"full", "64-bit"});
    expect_error<lz::ShapeError>([&] { lz::rand({big, big}); }, {"rand", "64-bit"});
}

TEST(Semantics, S61_new_and_like_keep_dtype_and_device_and_take_overrides) {
    const Tensor x = lz::ones({2, 2}, {.dtype = lz::f64});
    EXPECT_EQ(x.new_zeros({3}).dtype(), lz::f64);
    EXPECT_EQ(x.new_zeros({3}).sizes(), (Extents{3}));
    expect_tensor(x.new_full({1}, 2), {1}, lz::f64, {2});
    expect_tensor(x.new_tensor({1, 2}), {2}, lz::f64, {1, 2});
    EXPECT_EQ(x.new_ones({1}, {.dtype = lz::i8}).dtype(), lz::i8);
    EXPECT_EQ(x.new_empty({5}).dtype(), lz::f64);
    expect_tensor(lz::zeros_like(x), {2, 2}, lz::f64, {0, 0, 0, 0});
    expect_tensor(lz::ones_like(x, {.dtype = lz::i32}), {2, 2}, lz::i32, {1, 1, 1, 1});
    expect_tensor(lz::full_like(x, 2.5), {2, 2}, lz::f64, {2.5, 2.5, 2.5, 2.5});
    EXPECT_EQ(lz::empty_like(x).sizes(), x.sizes());
    EXPECT_EQ(lz::rand_like(x).dtype(), lz::f64);
    EXPECT_EQ(lz::randn_like(x, {.dtype = lz::f32}).dtype(), lz::f32);
}

TEST(Semantics, S02_defaults_can_be_changed_for_the_process_and_for_a_scope) {
    EXPECT_EQ(lz::zeros({1}).dtype(), lz::f32);
    EXPECT_EQ(lz::zeros({1}).device(), lz::get_default_device());
    {
        const lz::DefaultDTypeGuard guard(lz::f64);
        EXPECT_EQ(lz::zeros({1}).dtype(), lz::f64);
        EXPECT_EQ(lz::tensor({1.5}).dtype(), lz::f64);
        EXPECT_EQ(lz::arange(0, 1, 0.5).dtype(), lz::f64);
        const lz::DefaultDTypeGuard inner(lz::f16);
        EXPECT_EQ(lz::get_default_dtype(), lz::f16);
    }
    EXPECT_EQ(lz::get_default_dtype(), lz::f32);
    lz::set_default_dtype(lz::bf16);
    EXPECT_EQ(lz::zeros({1}).dtype(), lz::bf16);
    lz::set_default_dtype(lz::f32);
    expect_error<lz::DTypeError>([] { lz::set_default_dtype(lz::i32); }, {"set_default_dtype", "i32"});
    const lz::DefaultDeviceGuard device("cpu");
    EXPECT_EQ(lz::get_default_device(), lz::Device::cpu());
    expect_error<lz::DeviceError>([] { lz::set_default_device("cuda:250"); }, {"cuda:250", "cpu"});
}

TEST(Creation, ADeviceThatIsNotThereIsNamed) {
    expect_error<lz::DeviceError>([] { lz::zeros({2}, {.device = "cuda:200"}); }, {"cuda:200"});
    expect_error<lz::DeviceError>([] { lz::ones({2}).to("cuda:200"); }, {"cuda:200"});
    if (!lz::cuda::is_available())
        expect_error<lz::DeviceError>([] { lz::zeros({2}, {.pinned = true}); }, {"pinned"});
}

TEST(Semantics, S08_to_returns_the_tensor_itself_where_nothing_changes) {
    const Tensor x = lz::ones({2});
    EXPECT_TRUE(x.to(lz::f32).same_tensor(x));
    EXPECT_TRUE(x.to(x.device()).same_tensor(x));
    EXPECT_TRUE(x.contiguous().same_tensor(x));
    EXPECT_FALSE(x.clone().same_tensor(x));
    EXPECT_EQ(x.to(lz::Device::cpu(), lz::i8).dtype(), lz::i8);
}

} // namespace
