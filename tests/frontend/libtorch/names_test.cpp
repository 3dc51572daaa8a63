// LibTorch's spellings of what has another one here, too. Expected values are those of PyTorch, or of plain
// loops.
#include "tests/support/caught.h"
#include "tests/support/tensor_values.h"

#include <tuple>

namespace torch = lz; // as one who ports a program may write; NOLINT

namespace {

using namespace lz::test;
using torch::Tensor;

TEST(LibTorchNames, OptionsAreSetOneAfterTheOther) {
    const auto options = torch::TensorOptions()
                             .dtype(torch::kFloat64)
                             .layout(torch::kStrided)
                             .device(torch::kCPU)
                             .requires_grad(true);
    const Tensor x = torch::full({3, 4}, /*value=*/123, options);
    EXPECT_EQ(x.dtype(), lz::f64);
    EXPECT_EQ(x.device(), lz::Device::cpu());
    EXPECT_TRUE(x.requires_grad());
    EXPECT_EQ(torch::zeros({2}, torch::dtype(torch::kInt32)).dtype(), lz::i32);
    EXPECT_TRUE(torch::randn({2}, torch::requires_grad()).requires_grad());
    EXPECT_TRUE(torch::ones({2}, torch::dtype(torch::kFloat16).requires_grad(true)).requires_grad());
    const Tensor y = torch::ones({2}, torch::device(torch::kCPU).dtype(torch::kBool));
    EXPECT_EQ(y.dtype(), lz::boolean);
    // Each call gives other options and leaves these as they are.
    const torch::TensorOptions plain;
    EXPECT_EQ(plain.dtype(lz::i8).dtype, lz::i8);
    EXPECT_FALSE(plain.dtype.has_value());
    EXPECT_EQ(x.options().dtype(torch::kLong).dtype, lz::i64);
    EXPECT_EQ(torch::zeros({2}, x.options()).dtype(), lz::f64);
    EXPECT_FALSE(torch::zeros({2}, x.options()).requires_grad()); // as in LibTorch
    // Named fields do what they did.
    EXPECT_EQ(torch::zeros({2}, {.dtype = lz::u8, .device = "cpu"}).dtype(), lz::u8);
    EXPECT_EQ(plain.device(torch::kCUDA, 1).device->str(), "cuda:1");
    EXPECT_TRUE(plain.pinned_memory(true).pinned);
}

TEST(LibTorchNames, ADTypeOrADeviceMayStandInPlaceOfOptions) {
    const torch::Device device(torch::kCPU);
    EXPECT_EQ(torch::zeros({2}, torch::kDouble).dtype(), lz::f64);
    EXPECT_EQ(torch::ones({2, 3}, device).device(), lz::Device::cpu());
    EXPECT_EQ(torch::empty({1}, torch::kCPU).device(), lz::Device::cpu());
    EXPECT_EQ(torch::rand({2}, "cpu").numel(), 2);
    EXPECT_EQ(torch::randn({2}, torch::kBFloat16).dtype(), lz::bf16);
    EXPECT_EQ(torch::full({2}, 1, torch::kFloat).dtype(), lz::f32);
    EXPECT_EQ(torch::randint(10, {3}, torch::kInt).dtype(), lz::i32);
    EXPECT_EQ(torch::eye(3, torch::kLong).dtype(), lz::i64);
    expect_tensor(torch::arange(0, 3, torch::kFloat), {3}, lz::f32, {0, 1, 2});
    expect_tensor(torch::arange(5, torch::kShort), {5}, lz::i16, {0, 1, 2, 3, 4});
    expect_tensor(torch::linspace(0, 1, 3, torch::kDouble), {3}, lz::f64, {0, 0.5, 1});
    expect_tensor(torch::tensor({0.5, 1.0}, torch::kFloat), {2}, lz::f32, {0.5, 1});
    expect_tensor(torch::tensor({{1, 2}, {3, 4}}, torch::kByte), {2, 2}, lz::u8, {1, 2, 3, 4});
    expect_tensor(torch::tensor(std::vector<float>{1, 2}, torch::kDouble), {2}, lz::f64, {1, 2});
    expect_tensor(torch::zeros_like(torch::ones({2}), torch::kChar), {2}, lz::i8, {0, 0});
    const float numbers[] = {1, 2, 3, 4};
    expect_tensor(torch::from_blob(numbers, {2, 2}, torch::kFloat32), {2, 2}, lz::f32, {1, 2, 3, 4});
    const Caught error = caught<lz::DeviceError>([] { torch::zeros({2}, "gpu"); });
    EXPECT_TRUE(error.has("gpu") && error.line == __LINE__ - 1) << error.what;
    expect_tensor(torch::ones({2}).to(torch::dtype(torch::kHalf)), {2}, lz::f16, {1, 1});
}

TEST(LibTorchNames, NumbersComeOutAsInLibTorch) {
    const Tensor x = torch::tensor({{1.5, 2.5}, {3.5, 4.5}});
    EXPECT_EQ(x.sum().item().toDouble(), 12);
    EXPECT_EQ(x.sum().item().to<int>(), 12);
    EXPECT_EQ(torch::tensor(true).item().toBool(), true);
    EXPECT_EQ(torch::tensor(1.75).item().toFloat(), 1.75f);
    EXPECT_EQ(torch::tensor(7).item().toLong(), 7);
    EXPECT_THROW((void)x.item(), lz::StateError);
    Tensor y = x.cpu().clone();
    EXPECT_EQ(std::as_const(y).data_ptr<float>()[3], 4.5f);
    y.data_ptr<float>()[0] = 9;
    expect_values(y, {9, 2.5, 3.5, 4.5});
    expect_values(x, {1.5, 2.5, 3.5, 4.5});
    EXPECT_EQ(x.scalar_type(), torch::kFloat);
    EXPECT_EQ(x.ndimension(), 2);
    EXPECT_EQ(torch::arange(4).view_as(x).type_as(x).dtype(), lz::f32);
}

TEST(LibTorchNames, ElementsAreAccessedByIndex) {
    torch::Tensor foo = torch::arange(12).reshape({3, 4}).to(torch::kFloat).cpu();
    const torch::Tensor before = foo.clone();
    auto foo_a = foo.accessor<float, 2>();
    float trace = 0;
    for (int i = 0; i < foo_a.size(0); i++)
        trace += foo_a[i][i]; // use the accessor foo_a to get tensor data
    EXPECT_EQ(trace, 0 + 5 + 10);
    foo_a[2][3] = -1;
    EXPECT_EQ(foo.index({2, 3}).item<float>(), -1);
    expect_values(before[2], {8, 9, 10, 11});
    EXPECT_EQ((before.accessor<float, 2>()[1][2]), 6);
    EXPECT_EQ((std::as_const(foo).accessor<float, 2>()[2].sizes()[0]), 4);
    const Caught axes = caught<lz::ShapeError>([&] { (void)foo.accessor<float, 3>(); });
    EXPECT_TRUE(axes.has("has 2 axes, and 3 are asked for") && axes.line == __LINE__ - 1) << axes.what;
    EXPECT_THROW((void)(foo.accessor<double, 2>()), lz::DTypeError);
    if (torch::cuda::is_available()) {
        const torch::Tensor there = foo.to("cuda:0");
        EXPECT_TRUE(caught<lz::DeviceError>([&] { (void)there.accessor<float, 2>(); }).has("cuda:0"));
    }
}

// The table of LibTorch's page "Tensor indexing API".
TEST(LibTorchNames, IndicesAreWrittenInIndex) {
    using namespace torch::indexing;
    const Tensor x = torch::arange(24).reshape({2, 3, 4});
    EXPECT_EQ(x.index({None}).sizes(), (lz::Sizes{1, 2, 3, 4}));
    EXPECT_EQ(x.index({Ellipsis, 0}).sizes(), (lz::Sizes{2, 3}));
    expect_values(x.index({"...", 0}), {0, 4, 8, 12, 16, 20});
    expect_values(x.index({1, 2}), {20, 21, 22, 23});
    expect_values(x.index({0, 0, Slice(1, None, 2)}), {1, 3});
    expect_values(x.index({0, torch::tensor({1, 2}), 0}), {4, 8});
    EXPECT_EQ(x.index({true}).sizes(), (lz::Sizes{1, 2, 3, 4}));
    EXPECT_EQ(x.index({false}).sizes(), (lz::Sizes{0, 2, 3, 4}));
    EXPECT_EQ(x.index({true, torch::tensor({0, 1})}).sizes(), (lz::Sizes{2, 3, 4}));
    EXPECT_EQ(x.index({Ellipsis, 0, true}).sizes(), (lz::Sizes{2, 3, 1}));
    const Tensor y = torch::arange(120).reshape({5, 2, 3, 4});
    EXPECT_EQ(y.index({Ellipsis, 0, true, Slice(1, None, 2), torch::tensor({1, 2})}).sizes(),
              (lz::Sizes{2, 5, 1})); // as torch gives
}

TEST(LibTorchNames, IndexPutWritesAndAdds) {
    using namespace torch::indexing;
    Tensor x = torch::zeros({3, 4});
    x.index_put_({1, Slice(1, 3)}, torch::tensor({1.0, 2.0}));
    x.index_put_({Ellipsis, 0}, 5);
    expect_values(x, {5, 0, 0, 0, 5, 1, 2, 0, 5, 0, 0, 0});
    x.index_put_({x == 5}, -1);
    expect_values(x, {-1, 0, 0, 0, -1, 1, 2, 0, -1, 0, 0, 0});
    const Tensor rows = torch::tensor({0, 2, 0}), columns = torch::tensor({3, 1, 3});
    x.index_put_({rows, columns}, torch::tensor({10.0, 20.0, 30.0}), /*accumulate=*/true);
    expect_values(x, {-1, 0, 0, 40, -1, 1, 2, 0, -1, 20, 0, 0});
    x.index_put_({0}, 1, true);
    expect_values(x, {0, 1, 1, 41, -1, 1, 2, 0, -1, 20, 0, 0});
    x.index_put_({x > 30}, 2, true);
    EXPECT_EQ(x.at({0, 3}).item<float>(), 43);
    Tensor flags = torch::zeros({3}, torch::kBool);
    flags.index_put_({torch::tensor({1, 1})}, true, true);
    expect_values(flags, {0, 1, 0});
    // Gradients go where the values come from.
    const Tensor value = torch::ones({2}, torch::requires_grad());
    Tensor sum = torch::zeros({3});
    sum.index_put_({torch::tensor({2, 2})}, value, true);
    (sum * torch::tensor({1.0, 2.0, 3.0})).sum().backward();
    expect_values(value.grad(), {3, 3});
    const Caught leaf = caught<lz::StateError>([&] {
        Tensor v = value;
        v.index_put_({0}, 1);
    });
    EXPECT_TRUE(leaf.has("leaf")) << leaf.what;
    const Caught wrong = caught<lz::ShapeError>([&] { x.index_put_({0}, torch::ones({3})); });
    EXPECT_EQ(wrong.line, static_cast<uint32_t>(__LINE__) - 1);
    EXPECT_TRUE(caught<lz::IndexError>([&] { x.index({"..", 0}); }).has("\"..\""));
}

TEST(LibTorchNames, ValuesAndIndicesAreATuple) {
    const Tensor x = torch::tensor({{3.0, 1.0, 2.0}, {0.0, 5.0, 5.0}});
    expect_values(std::get<0>(x.max(1)), {3, 5});
    expect_values(std::get<1>(torch::max(x, 1)), {0, 1});
    Tensor values, indices;
    std::tie(values, indices) = x.sort(1, /*descending=*/true);
    expect_values(values, {3, 2, 1, 5, 5, 0});
    expect_values(indices, {0, 2, 1, 1, 2, 0});
    auto [smallest, where] = x.min(0);
    expect_values(smallest, {0, 1, 2});
    expect_values(where, {1, 0, 0});
    const std::tuple<Tensor, Tensor> top = x.topk(2);
    expect_values(std::get<0>(top), {3, 2, 5, 5});
    torch::ValuesIndices one = x.max(1), other = one;
    other = x.min(1);
    expect_values(one.values, {3, 5}); // a copy has tensors of its own
    expect_values(other.values, {1, 0});
    other.values = torch::zeros({1});
    expect_values(std::get<0>(other), {0});
    one = std::move(other);
    expect_values(one.values, {0});
}

TEST(LibTorchNames, DataIsWrittenPastBackward) {
    torch::Tensor w = torch::tensor({1.0, 2.0}, torch::requires_grad());
    const Tensor loss = (w * w).sum();
    w.data().mul_(10);
    expect_values(w, {10, 20});
    EXPECT_TRUE(w.requires_grad() && w.is_leaf());
    loss.backward(); // what was saved keeps its value
    expect_values(w.grad(), {2, 4});
    w.data() -= 0.5 * w.grad();
    expect_values(w, {9, 18});
    w.data().copy_(torch::tensor({1.0, 1.0}));
    w.data() = torch::tensor({3.0, 4.0});
    expect_values(w, {3, 4});
    w.data().index_put_({0}, 7);
    w.data().clamp_(0, 5).add_(1);
    expect_values(w, {6, 5});
    EXPECT_FALSE(w.data().requires_grad());
    EXPECT_FALSE((w.data() * 2).requires_grad());
    expect_values(w.data()[1], {5});
    const torch::Tensor kept = w.data();
    w.data().zero_();
    expect_values(kept, {6, 5}); // different: a tensor of its own, as of detach
    // Of what was computed, too: what backward knows of it stays.
    const Tensor y = w.exp();
    y.data().fill_(3);
    expect_values(y, {3, 3});
    y.sum().backward();
    expect_values(w.grad(), {3, 5});
    torch::manual_seed(3);
    w.data().normal_(0, 0.02);
    EXPECT_LT(w.abs().max().item<float>(), 0.2f);
    EXPECT_TRUE(w.is_leaf());
}

TEST(LibTorchNames, GradFnsHavePyTorchsNames) {
    const Tensor x = torch::ones({2, 2}, torch::requires_grad());
    EXPECT_EQ(x.grad_fn(), nullptr);
    EXPECT_EQ((x + 2).grad_fn()->name(), "AddBackward0");
    EXPECT_EQ((x * x).mean().grad_fn()->name(), "MeanBackward0");
    EXPECT_EQ(x.log_softmax(0).grad_fn()->name(), "LogSoftmaxBackward0");
    EXPECT_EQ((x.exp() / 2).grad_fn()->name(), "DivBackward0");
    EXPECT_EQ(x.detach().grad_fn(), nullptr);
}

TEST(LibTorchNames, AddmmIsAProductAndASum) {
    const Tensor a = torch::tensor({{1.0, 2.0}}), b = torch::tensor({{3.0}, {4.0}}), c = torch::tensor({0.5});
    expect_tensor(torch::addmm(c, a, b), {1, 1}, lz::f32, {11.5});
    expect_tensor(c.addmm(a, b, /*beta=*/2, /*alpha=*/10), {1, 1}, lz::f32, {111});
    expect_values(torch::addmm(torch::full({1}, NAN), a, b, 0), {11});
    const Caught error = caught<lz::ShapeError>([&] { torch::addmm(torch::ones({3}), a, b); });
    EXPECT_TRUE(error.has("addmm: shape [3] does not broadcast")) << error.what;
}

} // namespace
