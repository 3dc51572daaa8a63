// S64: what PyTorch prints, but for the names of dtypes. The expected texts are what
// `print(torch.tensor(...))` gives.
#include "tests/support/tensor_values.h"

#include <sstream>

namespace {

using lz::Tensor;

std::string printed(const Tensor &t) {
    std::ostringstream out;
    out << t;
    return out.str();
}

TEST(Semantics, S64_numbers) {
    EXPECT_EQ(printed(lz::tensor(3.5)), "tensor(3.5000)");
    EXPECT_EQ(printed(lz::tensor(3.0)), "tensor(3.)");
    EXPECT_EQ(printed(lz::tensor(7)), "tensor(7)");
    EXPECT_EQ(printed(lz::tensor(true)), "tensor(True)");
    EXPECT_EQ(printed(lz::tensor(1e-5)), "tensor(1.0000e-05)");
}

TEST(Semantics, S64_rows_are_aligned) {
    EXPECT_EQ(printed(lz::tensor({1, -20, 300})), "tensor([  1, -20, 300])");
    EXPECT_EQ(printed(lz::tensor({1.0, 2.0, 10.0})), "tensor([ 1.,  2., 10.])");
    EXPECT_EQ(printed(lz::tensor({1.0, -2.5, 10.0})), "tensor([ 1.0000, -2.5000, 10.0000])");
    EXPECT_EQ(printed(lz::tensor({true, false})), "tensor([ True, False])");
    EXPECT_EQ(printed(lz::tensor({{1, 2}, {3, 4}})), "tensor([[1, 2],\n        [3, 4]])");
    EXPECT_EQ(printed(lz::zeros({2, 1, 2})), "tensor([[[0., 0.]],\n\n        [[0., 0.]]])");
}

TEST(Semantics, S64_scientific_notation_where_numbers_are_far_apart) {
    EXPECT_EQ(printed(lz::tensor({1e10, 1.0})), "tensor([1.0000e+10, 1.0000e+00])");
    EXPECT_EQ(printed(lz::tensor({0.5, 1000.0})), "tensor([5.0000e-01, 1.0000e+03])");
    EXPECT_EQ(printed(lz::tensor({1e-5, 0.0})), "tensor([1.0000e-05, 0.0000e+00])");
    EXPECT_EQ(printed(lz::tensor({1.0, 1000.0})), "tensor([   1., 1000.])");
}

TEST(Semantics, S64_what_is_not_finite) {
    EXPECT_EQ(printed(lz::tensor({1.5, NAN, INFINITY, -INFINITY})),
              "tensor([1.5000,    nan,    inf,   -inf])");
    EXPECT_EQ(printed(lz::tensor({1.0, INFINITY})), "tensor([1., inf])");
    EXPECT_EQ(printed(lz::tensor({NAN})), "tensor([nan])");
}

TEST(Semantics, S64_dtypes_that_are_not_the_default_are_named) {
    EXPECT_EQ(printed(lz::ones({2}, {.dtype = lz::f16})), "tensor([1., 1.], dtype=f16)");
    EXPECT_EQ(printed(lz::ones({2}, {.dtype = lz::i8})), "tensor([1, 1], dtype=i8)");
    EXPECT_EQ(printed(lz::zeros({0})), "tensor([])");
    EXPECT_EQ(printed(lz::zeros({0, 3})), "tensor([], size=(0, 3))");
    EXPECT_EQ(printed(lz::zeros({2, 0}, {.dtype = lz::i64})), "tensor([], size=(2, 0), dtype=i64)");
    const lz::DefaultDTypeGuard guard(lz::f64);
    EXPECT_EQ(printed(lz::ones({1})), "tensor([1.])");
    EXPECT_EQ(printed(lz::ones({1}, {.dtype = lz::f32})), "tensor([1.], dtype=f32)");
}

TEST(Semantics, S64_lines_end_before_column_80) {
    EXPECT_EQ(printed(lz::arange(30)),
              "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
              "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])");
    EXPECT_EQ(
        printed(lz::ones({17}, {.dtype = lz::f64})),
        "tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.],\n       dtype=f64)");
}

TEST(Semantics, S64_long_tensors_are_summarised) {
    EXPECT_EQ(printed(lz::arange(1001)), "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
    EXPECT_EQ(printed(lz::zeros({1000}).slice(0, 0, 3)), "tensor([0., 0., 0.])");
    EXPECT_EQ(printed(lz::arange(10000).reshape({100, 100})),
              "tensor([[   0,    1,    2,  ...,   97,   98,   99],\n"
              "        [ 100,  101,  102,  ...,  197,  198,  199],\n"
              "        [ 200,  201,  202,  ...,  297,  298,  299],\n"
              "        ...,\n"
              "        [9700, 9701, 9702,  ..., 9797, 9798, 9799],\n"
              "        [9800, 9801, 9802,  ..., 9897, 9898, 9899],\n"
              "        [9900, 9901, 9902,  ..., 9997, 9998, 9999]])");
}

TEST(Semantics, S64_what_backward_knows) {
    const Tensor x = lz::zeros({2, 2}, lz::requires_grad());
    EXPECT_EQ(printed(x), "tensor([[0., 0.],\n        [0., 0.]], requires_grad=True)");
    EXPECT_EQ(printed(x.to(lz::f64) * 2),
              "tensor([[0., 0.],\n        [0., 0.]], dtype=f64, grad_fn=<MulBackward0>)");
    EXPECT_EQ(printed(lz::ones({3}, lz::requires_grad()).log_softmax(0)),
              "tensor([-1.0986, -1.0986, -1.0986], grad_fn=<LogSoftmaxBackward0>)");
    EXPECT_EQ(printed(x.detach()), "tensor([[0., 0.],\n        [0., 0.]])");
    EXPECT_EQ(printed(lz::ones({17}, lz::requires_grad())),
              "tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.],\n"
              "       requires_grad=True)");
    const lz::NoGradGuard no_grad;
    EXPECT_EQ(printed(x.sum()), "tensor(0.)");
}

TEST(Print, AnEmptyHandleSaysSo) {
    EXPECT_EQ(printed(Tensor()), "tensor(<empty handle>)");
}

} // namespace
