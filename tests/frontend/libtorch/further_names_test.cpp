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
    out << torch::zeros({1}, torch::kDouble).options();
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

} // namespace
