// More of LibTorch's names: types of parameters, what a tensor tells of itself, functions. Expected values
// are those of PyTorch.
#include "tests/support/caught.h"
#include "tests/support/tensor_values.h"

#include <lazuli/lazuli.h>

#include <cmath>
#include <limits>
#include <sstream>

namespace torch = lz; // NOLINT

namespace {

using namespace lz::test;
using torch::Tensor;

torch::optional<size_t> size_of_a_set() {
    return torch::nullopt;
}
int64_t product_of(torch::IntArrayRef sizes) {
    int64_t product = 1;
    for (const int64_t s : sizes)
        product *= s;
    return product;
}
Tensor sum_of(torch::TensorList list) {
    return torch::stack(list).sum(0);
}
double total_of(torch::ArrayRef<double> values) {
    double total = 0;
    for (const double v : values)
        total += v;
    return total;
}

TEST(LibTorchFurtherNames, TypesOfParametersAndOptionals) {
    EXPECT_FALSE(size_of_a_set().has_value());
    const torch::ScalarType type = torch::kLong;
    const torch::Dtype same = type;
    EXPECT_EQ(torch::zeros({1}, same).scalar_type(), torch::kInt64);
    const Tensor x = torch::ones({2, 3}), y = torch::full({2, 3}, 2);
    const torch::IntArrayRef sizes = x.sizes();
    EXPECT_EQ(sizes, torch::Sizes({2, 3}));
    EXPECT_EQ(product_of(x.sizes()), 6);
    EXPECT_EQ(product_of({2, 3, 4}), 24);
    EXPECT_EQ(x.sizes().vec(), (std::vector<int64_t>{2, 3}));
    EXPECT_TRUE(x.sizes().equals({2, 3}));
    EXPECT_EQ(sizes.slice(1, 1), torch::Sizes({3}));
    expect_values(sum_of({x, x}), {2, 2, 2, 2, 2, 2});
    const std::vector<Tensor> both = {x, y};
    expect_values(sum_of(both), {3, 3, 3, 3, 3, 3});
    EXPECT_EQ(total_of({0.5, 1.5}), 2);
    EXPECT_EQ(total_of(std::vector<double>{1, 2}), 3);
    EXPECT_EQ(torch::ArrayRef<double>({1, 2, 3}).vec().size(), 3U);

    const torch::OrderedDict<std::string, Tensor> dict({{"x", x}, {"y", y}});
    EXPECT_EQ(dict.keys(), (std::vector<std::string>{"x", "y"}));
    EXPECT_EQ(dict.pairs()[1].first, "y");
    const torch::StateDict plain = dict;
    const torch::OrderedDict<std::string, Tensor> again = plain;
    EXPECT_TRUE(again["x"].same_tensor(x));
    std::ostringstream out;
    out << torch::zeros({1}, torch::TensorOptions(torch::kDouble).device(torch::kCPU)).options();
    EXPECT_EQ(out.str(), "TensorOptions(dtype=f64, device=cpu, requires_grad=false, pinned=false)");
}

TEST(LibTorchFurtherNames, DevicesSeedsThreadsAndErrors) {
    EXPECT_FALSE(torch::Device(torch::kCPU).has_index());
    EXPECT_FALSE(torch::Device(torch::kCUDA).has_index());
    EXPECT_TRUE(torch::Device("cuda:1").has_index());
    EXPECT_EQ(torch::get_num_threads(), torch::num_threads());
    torch::cuda::manual_seed(7);
    const Tensor a = torch::rand({4});
    torch::cuda::manual_seed_all(7);
    const Tensor b = torch::rand({4});
    torch::manual_seed(7);
    EXPECT_TRUE(torch::equal(a, b) && torch::equal(a, torch::rand({4})));
    try {
        (void)torch::zeros({2}).size(3);
        FAIL();
    } catch (const torch::Error &error) {
        EXPECT_TRUE(error.msg().starts_with("size: axis 3 is out of range for f32[2]")) << error.msg();
        EXPECT_TRUE(error.msg().ends_with("(rank 1)")) << error.msg();
        EXPECT_STREQ(error.what_without_backtrace(), error.what());
    }
    EXPECT_EQ(lz::StateError("nothing", {}).msg(), "nothing");
}

TEST(LibTorchFurtherNames, WhatATensorTellsOfItself) {
    const Tensor x = torch::zeros({2, 3, 4}, torch::kDouble);
    EXPECT_EQ(x.strides(), torch::Sizes({12, 4, 1}));
    EXPECT_EQ(x.stride(0), 12);
    EXPECT_EQ(x.stride(-1), 1);
    EXPECT_EQ(torch::zeros({2, 0, 3}).strides(), torch::Sizes({3, 3, 1}));
    EXPECT_EQ(torch::tensor(1).strides(), torch::Sizes());
    const Caught error = caught<lz::IndexError>([&] { (void)x.stride(3); });
    EXPECT_TRUE(error.has("stride") && error.line == __LINE__ - 1) << error.what;
    // A view is a value of its own, and so row-major, too.
    EXPECT_TRUE(x.transpose(0, 2).is_contiguous());
    EXPECT_EQ(x.transpose(0, 2).strides(), torch::Sizes({6, 2, 1}));
    EXPECT_EQ(x.nbytes(), 192);
    EXPECT_EQ(x.element_size(), 8);
    EXPECT_EQ(x.itemsize(), 8);
    EXPECT_EQ(x.layout(), torch::kStrided);
    EXPECT_TRUE(x.is_floating_point());
    EXPECT_FALSE(x.toType(torch::kLong).is_floating_point());
    const std::string kind = x.is_cuda() ? "CUDA" : "CPU"; // all of these tests run on a GPU by default, too
    EXPECT_EQ(x.toString(), kind + "DoubleType");
    EXPECT_EQ(x.to(torch::kBFloat16).toString(), kind + "BFloat16Type");
    testing::internal::CaptureStdout();
    torch::ones({2, 3}).print();
    Tensor().print();
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "[" + kind + "FloatType [2, 3]]\n[UndefinedTensor]\n");
}

TEST(LibTorchFurtherNames, ConversionsWithFlags) {
    const Tensor x = torch::tensor({1.5, 2.5}, torch::kFloat);
    const torch::Device device = x.device();
    expect_tensor(x.to(device, torch::kDouble, /*non_blocking=*/true), {2}, lz::f64, {1.5, 2.5});
    expect_tensor(x.to(torch::kInt, false), {2}, lz::i32, {1, 2});
    EXPECT_TRUE(x.to(device, true).same_tensor(x));
    EXPECT_FALSE(x.to(torch::kFloat, false, /*copy=*/true).same_tensor(x));
    expect_tensor(x.to(torch::zeros({7}, torch::kShort)), {2}, lz::i16, {1, 2});
    EXPECT_TRUE(x.to(device, {.non_blocking = true}).same_tensor(x));
}

TEST(LibTorchFurtherNames, EvalTakesTensorsWithoutBraces) {
    const Tensor a = torch::ones({2}), b = a + 1, c = b * 2;
    torch::eval(a, b, c);
    torch::eval(c);
    expect_values(c, {4, 4});
    const Caught error = caught<lz::StateError>([&] { torch::eval(a, Tensor()); });
    EXPECT_EQ(error.line, __LINE__ - 1U) << error.what;
}

TEST(LibTorchFurtherNames, ShapesChangeInPlace) {
    Tensor x = torch::arange(6, torch::kFloat).view({2, 3});
    const Tensor other = x;
    x.t_();
    expect_tensor(other, {3, 2}, lz::f32, {0, 3, 1, 4, 2, 5});
    EXPECT_EQ(x.unsqueeze_(0).sizes(), torch::Sizes({1, 3, 2}));
    EXPECT_EQ(x.transpose_(0, 1).sizes(), torch::Sizes({3, 1, 2}));
    EXPECT_EQ(x.squeeze_(1).sizes(), torch::Sizes({3, 2}));
    const Caught axis = caught<lz::IndexError>([&] { x.unsqueeze_(7); });
    EXPECT_TRUE(axis.has("unsqueeze_: ") && axis.line == __LINE__ - 1) << axis.what;
    // Of what was computed gradients go on; a leaf is left alone.
    Tensor w = torch::ones({2}).requires_grad_();
    Tensor y = w * 3;
    y.unsqueeze_(1);
    (y * torch::tensor({{1.0}, {2.0}})).sum().backward();
    expect_values(w.grad(), {3, 6});
    const Caught leaf = caught<lz::StateError>([&] { w.unsqueeze_(0); });
    EXPECT_TRUE(leaf.has("unsqueeze_: the tensor is a leaf") && leaf.line == __LINE__ - 1) << leaf.what;
    EXPECT_EQ(w.sizes(), torch::Sizes({2}));
}

TEST(LibTorchFurtherNames, Joining) {
    const Tensor x = torch::arange(6, torch::kFloat).view({2, 3});
    const Tensor a = torch::tensor({1, 2}), b = torch::tensor({3, 4});
    expect_tensor(torch::hstack({torch::tensor(1), torch::tensor({2, 3})}), {3}, lz::i64, {1, 2, 3});
    expect_tensor(torch::vstack({a, b}), {2, 2}, lz::i64, {1, 2, 3, 4});
    EXPECT_EQ(torch::hstack({x, x}).sizes(), torch::Sizes({2, 6}));
    expect_values(torch::concat({a, b}), {1, 2, 3, 4});
    const auto ij = torch::meshgrid({torch::arange(2), torch::arange(3)}, "ij");
    expect_tensor(ij[0], {2, 3}, lz::i64, {0, 0, 0, 1, 1, 1});
    expect_tensor(ij[1], {2, 3}, lz::i64, {0, 1, 2, 0, 1, 2});
    const auto xy = torch::meshgrid({torch::arange(2), torch::arange(3)}, "xy");
    expect_tensor(xy[0], {3, 2}, lz::i64, {0, 1, 0, 1, 0, 1});
    expect_tensor(xy[1], {3, 2}, lz::i64, {0, 0, 1, 1, 2, 2});
    const Caught empty = caught<lz::StateError>([] { torch::hstack({}); });
    EXPECT_TRUE(empty.has("hstack") && empty.line == __LINE__ - 1) << empty.what;
    const Caught rank = caught<lz::ShapeError>([&] { torch::meshgrid({x}); });
    EXPECT_TRUE(rank.has("meshgrid: tensor 0 is f32[2,3]") && rank.line == __LINE__ - 1) << rank.what;
}

TEST(LibTorchFurtherNames, CopiesBesideEachOther) {
    const Tensor x = torch::arange(6, torch::kFloat).view({2, 3});
    expect_tensor(x.repeat_interleave(2), {12}, lz::f32, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5});
    expect_tensor(torch::repeat_interleave(x, 2, 1), {2, 6}, lz::f32, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5});
    expect_tensor(torch::repeat_interleave(x, torch::tensor({1, 2}), 0), {3, 3}, lz::f32,
                  {0, 1, 2, 3, 4, 5, 3, 4, 5});
    EXPECT_EQ(x.repeat_interleave(0, 1).sizes(), torch::Sizes({2, 0}));
    const Caught negative = caught<lz::ShapeError>([&] { (void)x.repeat_interleave(-1); });
    EXPECT_TRUE(negative.has("-1 is no number of copies") && negative.line == __LINE__ - 1) << negative.what;
    const Caught many = caught<lz::ShapeError>([&] { x.repeat_interleave(torch::tensor({1, 2, 3}), 0); });
    EXPECT_EQ(many.line, __LINE__ - 1U) << many.what;
    expect_tensor(x.tile({2}), {2, 6}, lz::f32, {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5});
    EXPECT_EQ(torch::tile(x, {2, 1, 1}).sizes(), torch::Sizes({2, 2, 3}));
    const Tensor v = torch::tensor({1.0, 2.0});
    expect_tensor(torch::diag(v, 1), {3, 3}, lz::f32, {0, 1, 0, 0, 0, 2, 0, 0, 0});
    expect_tensor(v.diag(-1), {3, 3}, lz::f32, {0, 0, 0, 1, 0, 0, 0, 2, 0});
    expect_tensor(v.diag(), {2, 2}, lz::f32, {1, 0, 0, 2});
    expect_values(x.diag(-1), {3});
    EXPECT_EQ(torch::zeros({2, 3, 4}).movedim({0, 1}, {2, 0}).sizes(), torch::Sizes({3, 4, 2}));
    EXPECT_EQ(torch::zeros({2, 3, 4}).movedim(0, 2).sizes(), torch::Sizes({3, 4, 2}));
    EXPECT_THROW(x.movedim({0, 0}, {0, 1}), lz::IndexError);
    expect_values(v.outer(v), {1, 2, 2, 4});
    expect_values(x.masked_select(x > 3), {4, 5});
}

TEST(LibTorchFurtherNames, Elementwise) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const Tensor x = torch::tensor({-1.0, 0.5, 2.0});
    expect_values(x.clamp_min(0), {0, 0.5, 2});
    expect_values(torch::clamp_max(x, 1), {-1, 0.5, 1});
    // Two roundings of about half an ULP each, of numbers below 4.
    expect_values(torch::tensor({1000.0, 0.01}).log10(), {3, -2}, 5e-7);
    expect_tensor(torch::tensor({3, -1}).exp2(), {2}, lz::f32, {8, 0.5});
    expect_values(torch::logaddexp(torch::tensor({1.0, 2.0}), torch::tensor({2.0, 1.0})),
                  {2.3132617, 2.3132617}, 5e-7);
    expect_values(
        torch::logaddexp(torch::tensor({0.0, -kInf, kInf, 1e5}), torch::tensor({0.0, -kInf, 1.0, 0.0})),
        {0.6931472, -kInf, kInf, 1e5}, 1e-7);
    const Tensor a = torch::tensor({1.0, 1.0}).requires_grad_();
    a.logaddexp(torch::tensor({1.0, 3.0})).sum().backward();
    expect_values(a.grad(), {0.5, 0.11920292}, 1e-7);
    EXPECT_THROW(torch::logaddexp(torch::tensor({1}), torch::tensor({2})), lz::DTypeError);
}

TEST(LibTorchFurtherNames, PositionsOfWhatIsNotZero) {
    const Tensor x = torch::tensor({{0.0, 1.5, 0.0}, {std::nan(""), 0.0, -2.0}});
    expect_tensor(x.nonzero(), {3, 2}, lz::i64, {0, 1, 1, 0, 1, 2});
    expect_tensor(torch::argwhere(x > 1), {1, 2}, lz::i64, {0, 1});
    const std::vector<Tensor> each = x.nonzero_numpy();
    ASSERT_EQ(each.size(), 2U);
    expect_tensor(each[0], {3}, lz::i64, {0, 1, 1});
    expect_tensor(each[1], {3}, lz::i64, {1, 0, 2});
    expect_values(x.at({torch::where(x > 0)[0], torch::where(x > 0)[1]}), {1.5});
    expect_tensor(torch::nonzero(torch::tensor({false, true, true})), {2, 1}, lz::i64, {1, 2});
    // Numbers: PyTorch's shapes.
    EXPECT_EQ(torch::nonzero(torch::tensor(5)).sizes(), torch::Sizes({1, 0}));
    EXPECT_EQ(torch::nonzero(torch::tensor(0)).sizes(), torch::Sizes({0, 0}));
    expect_tensor(torch::nonzero_numpy(torch::tensor(5)).at(0), {1}, lz::i64, {0});
    EXPECT_EQ(torch::nonzero(torch::zeros({2, 0, 3})).sizes(), torch::Sizes({0, 3}));
    EXPECT_EQ(torch::nonzero(torch::zeros({2, 3})).sizes(), torch::Sizes({0, 2}));
    const Tensor cube = torch::arange(24).view({2, 3, 4}) % 5 == 0; // 0, 5, 10, 15, 20
    expect_tensor(cube.nonzero(), {5, 3}, lz::i64, {0, 0, 0, 0, 1, 1, 0, 2, 2, 1, 0, 3, 1, 2, 0});
    const Caught empty = caught<lz::StateError>([] { (void)torch::nonzero(Tensor()); });
    EXPECT_TRUE(empty.has("nonzero") && empty.line == __LINE__ - 1) << empty.what;
}

TEST(LibTorchFurtherNames, ValuesAsText) {
    EXPECT_EQ(torch::str("sample-", 3, ".pt"), "sample-3.pt");
    EXPECT_EQ(torch::str(torch::Sizes({2, 3}), ' ', torch::kFloat, ' ', torch::tensor(1.5)),
              "[2, 3] f32 tensor(1.5000)");
    EXPECT_EQ(torch::str(), "");
}

TEST(LibTorchFurtherNames, OneBoundInPlace) {
    Tensor x = torch::tensor({-1.0, 0.5, 2.0});
    const Tensor same = x;
    x.clamp_min_(0).clamp_max_(1);
    expect_values(same, {0, 0.5, 1});
    x.data().clamp_min_(0.25);
    expect_values(same, {0.25, 0.5, 1});
    expect_values(torch::clamp_max(x, torch::tensor({0.1, 1.0, 0.2})), {0.1, 0.5, 0.2}, 1e-7);
    expect_values(x.clamp_min(torch::tensor(0.5)), {0.5, 0.5, 1});
    const Caught shape = caught<lz::ShapeError>([&] { x.clamp_min_(torch::ones({2})); });
    EXPECT_EQ(shape.line, __LINE__ - 1U) << shape.what;
}

TEST(LibTorchFurtherNames, TwoBoundsInPlace) {
    Tensor x = torch::tensor({-1.0, 0.5, 2.0});
    const Tensor same = x;
    x.clamp_(torch::tensor({-2.0, 0.75, 0.0}), torch::tensor({0.0, 1.0, 1.5})).clamp_(-0.5, 1.25);
    expect_values(same, {-0.5, 0.75, 1.25});
    x.clamp_(torch::zeros({3}), Tensor());
    expect_values(same, {0, 0.75, 1.25});
    x.data().clamp_(torch::ones({3}), torch::tensor(1.125));
    expect_values(same, {1, 1, 1.125});
    Tensor whole = torch::tensor({1, 2});
    const Caught dtype = caught<lz::DTypeError>([&] { whole.clamp_(torch::zeros({2}), torch::ones({2})); });
    EXPECT_EQ(dtype.line, __LINE__ - 1U) << dtype.what; // as in PyTorch, floats do not go into integers
}

TEST(LibTorchFurtherNames, OtherNamesOfFunctions) {
    const Tensor a = torch::tensor({4.0, -2.0, 0.0}), b = torch::tensor({2.0, -2.0, 1.0});
    expect_values(torch::subtract(a, b), {2, 0, -1});
    expect_values(torch::multiply(a, 3), {12, -6, 0});
    expect_values(torch::divide(a, b), {2, 1, 0});
    expect_values(torch::true_divide(torch::tensor({1, 2}), 2), {0.5, 1});
    expect_values(torch::not_equal(a, b), {1, 0, 1});
    expect_values(torch::less(a, b), {0, 0, 1});
    expect_values(torch::less_equal(a, b), {0, 1, 1});
    expect_values(torch::greater(a, b), {1, 0, 0});
    expect_values(torch::greater_equal(a, b), {1, 1, 0});
    expect_values(torch::negative(a), {-4, 2, 0});
    expect_values(torch::absolute(a), {4, 2, 0});
    expect_values(torch::clip(a, -1, 1), {1, -1, 0});
    expect_values(a.clip(std::nullopt, 3), {3, -2, 0});
    Tensor c = a.clone();
    expect_values(c.clip_(0), {4, 0, 0});
    const Tensor x = torch::arange(24).view({2, 3, 4});
    EXPECT_EQ(torch::swapaxes(x, 0, 2).sizes(), torch::Sizes({4, 3, 2}));
    EXPECT_EQ(torch::swapdims(x, 0, 1).sizes(), torch::Sizes({3, 2, 4}));
    EXPECT_EQ(torch::moveaxis(x, 0, 2).sizes(), torch::Sizes({3, 4, 2}));
    EXPECT_EQ(torch::ravel(x).sizes(), torch::Sizes({24}));
    EXPECT_EQ(torch::numel(x), 24);
    EXPECT_TRUE(torch::is_floating_point(a) && !torch::is_floating_point(x));
    EXPECT_TRUE(x.cpu().is_cpu() && x.is_same(x) && !x.is_same(x.clone()));
    EXPECT_EQ(x.cpu().const_data_ptr<int64_t>()[5], 5);
    Tensor written = torch::zeros({2}).cpu();
    written.mutable_data_ptr<float>()[1] = 7;
    expect_values(written, {0, 7});
    expect_tensor(torch::count_nonzero(a), torch::Sizes(), lz::i64, {2});
    expect_values((x % 4).count_nonzero({0, 2}), {6, 6, 6});
    const auto [values, indices] = a.topk(2, 0, /*largest=*/false, /*sorted=*/true);
    expect_values(values, {-2, 0});
    expect_values(indices, {1, 2});
    EXPECT_EQ(torch::broadcast_tensors({torch::ones({2, 1}), b})[0].sizes(), torch::Sizes({2, 3}));
    const Caught error = caught<lz::ShapeError>([&] { torch::multiply(a, torch::ones({2})); });
    EXPECT_EQ(error.line, __LINE__ - 1U) << error.what;
}

} // namespace
