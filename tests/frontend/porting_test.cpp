// What a program ported from PyTorch or LibTorch writes in its first hour.
#include "tests/support/tensor_values.h"

#include <sstream>

using namespace lz; // as programs do; NOLINT

namespace {

using namespace lz::test;

/// f throws E at exactly this line of this file.
template <class E>
void expect_error_at(unsigned line, const std::function<void()> &f, const std::vector<std::string> &words) {
    try {
        f();
        ADD_FAILURE() << "no error";
    } catch (const E &error) {
        EXPECT_EQ(error.line(), line) << error.what();
        EXPECT_NE(std::string(error.what()).find("porting_test.cpp"), std::string::npos) << error.what();
        for (const std::string &word : words)
            EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
}

TEST(Porting, AWrongDeviceInOptionsNamesTheLineWhereItIsWritten) {
    expect_error_at<DeviceError>(__LINE__, [] { zeros({1}, {.device = "gpu:0"}); },
                                 {"gpu:0"}); // was optional:214
    expect_error_at<DeviceError>(__LINE__, [] { rand({1}, {.dtype = f64, .device = std::string("tpu")}); },
                                 {"tpu"});
    expect_error_at<DeviceError>(__LINE__, [] { ones({1}).to("gpu"); }, {"gpu"});
    expect_error_at<DeviceError>(__LINE__, [] { ones({1}).new_zeros({2}, {.device = "cuda:x"}); },
                                 {"cuda:x"});
    EXPECT_EQ(zeros({1}, {.device = Device("cpu")}).device(), Device::cpu());
    EXPECT_EQ(zeros({1}, {.device = DeviceType::Cpu}).device(), Device::cpu());
    EXPECT_EQ(zeros({1}, {.device = std::optional<Device>()}).numel(), 1);
    EXPECT_EQ(zeros({1}, {.device = std::nullopt}).numel(), 1);
}

TEST(Porting, TheCpuMayHaveAnIndex) {
    EXPECT_EQ(Device("cpu:0"), Device("cpu"));
    EXPECT_EQ(Device("cpu:0").str(), "cpu");
    expect_error_at<DeviceError>(__LINE__, [] { Device("cpu:1"); }, {"cpu:1", "one device"});
    for (const char *wrong : {"cpu:", "cpu:-1", "cpu:0x", "cpuu", "cuda:", ":0", ""})
        EXPECT_THROW(Device{wrong}, DeviceError) << wrong;
}

TEST(Porting, CopiesTakeNonBlocking) {
    Tensor a = zeros({2}, {.device = Device::cpu()});
    const Tensor b = ones({2}, {.device = Device::cpu()});
    a.copy_(b, {.non_blocking = true});
    expect_values(a, {1, 1});
    a.at({0}).copy_(zeros({}, {.device = Device::cpu()}), {.non_blocking = true});
    expect_values(a, {0, 1});
    if (!cuda::is_available()) {
        EXPECT_THROW(b.cuda(0, {.non_blocking = true}), DeviceError);
        EXPECT_THROW(b.cuda("cuda:0", {.non_blocking = true}), DeviceError);
        return;
    }
    Tensor there = b.cuda(0, {.non_blocking = true});
    EXPECT_EQ(there.device(), Device("cuda:0"));
    EXPECT_TRUE(there.cuda("cuda:0", {.non_blocking = true}).same_tensor(there));
    a.copy_(there + 1, {.non_blocking = true});
    expect_values(a, {2, 2});
    EXPECT_FALSE(a.is_pinned());
}

TEST(Porting, SizesPrintAndAreAVector) {
    const Tensor x = zeros({2, 3, 4});
    std::ostringstream out;
    out << x.sizes() << ' ' << zeros({}).sizes() << ' ' << Sizes{7};
    EXPECT_EQ(out.str(), "[2, 3, 4] [] [7]");
    const std::vector<int64_t> copy = x.sizes();
    EXPECT_EQ(copy, x.sizes());
    Sizes wider = x.sizes();
    wider.push_back(5);
    EXPECT_EQ(zeros(wider).numel(), 120);
    EXPECT_EQ(x.sizes()[1], 3);
    EXPECT_EQ(x.sizes().back(), 4);
}

TEST(Porting, FunctionsOfPlainNumbersAreThoseOfCpp) {
    EXPECT_EQ(sqrt(4.0), 2.0); // with lazuli.h alone: its functions take tensors
    EXPECT_EQ(pow(2.0, 3), 8.0);
    EXPECT_EQ(pow(2, 3), 8.0);
    EXPECT_EQ(fmod(5.0, 3.0), 2.0);
    EXPECT_EQ(atan2(0.0, 1.0), 0.0);
    EXPECT_EQ(floor(2.5) + round(2.4) + exp(0.0) + sin(0.0), 5.0);
    EXPECT_EQ(full({1}, INFINITY).item<double>(), HUGE_VAL);
    EXPECT_EQ(sqrt(full({1}, 4)).item<double>(), 2.0);
}

TEST(Porting, MasksOfMaskedSelectBroadcast) {
    const Tensor x = arange(6).reshape({2, 3});
    expect_values(masked_select(x, tensor({true, false, true})), {0, 2, 3, 5});
    expect_values(masked_select(x, tensor({{false}, {true}})), {3, 4, 5});
    expect_values(masked_select(tensor({1, 2, 3}), tensor({{true}, {true}})), {1, 2, 3, 1, 2, 3});
    expect_values(masked_select(tensor(5), tensor({true, false, true})), {5, 5});
    expect_error<ShapeError>([&] { masked_select(x, tensor({true, false})); }, {"masked_select", "bool[2]"});
    expect_error<DTypeError>([&] { masked_select(x, x); }, {"masked_select", "i64[2,3]"});
}

TEST(Porting, ANumberHasAnAxisWherePyTorchGivesItOne) {
    const Tensor z = tensor(3.0), i = tensor(0), i1 = tensor({0});
    for (const int64_t axis : {0, -1}) {
        for (const Tensor &same : {z.sum(axis),
                                   z.prod(axis),
                                   z.mean(axis),
                                   z.amax(axis),
                                   z.amin(axis),
                                   z.max(axis).values,
                                   z.min(axis).values,
                                   z.logsumexp(axis),
                                   z.norm(2, axis),
                                   z.cumsum(axis),
                                   z.cumprod(axis),
                                   z.sort(axis).values,
                                   z.topk(1, axis).values,
                                   z.flip(axis),
                                   z.squeeze(axis),
                                   movedim(z, axis, axis),
                                   z.transpose(axis, axis),
                                   z.index_select(axis, i1),
                                   z.index_select(axis, i),
                                   z.gather(axis, i)})
            expect_tensor(same, {}, f32, {3});
        for (const Tensor &none : {z.argmax(axis), z.argmin(axis), z.argsort(axis)})
            expect_tensor(none, {}, i64, {0});
        expect_tensor(z.softmax(axis), {}, f32, {1});
        expect_tensor(z.log_softmax(axis), {}, f32, {0});
        expect_tensor(z.var(axis, 0), {}, f32, {0});
        expect_tensor(z.any(axis), {}, boolean, {1});
        expect_tensor(z.all(axis), {}, boolean, {1});
        expect_tensor(index_add(z, axis, i1, tensor(2.0)), {}, f32, {5});
        expect_tensor(index_add(z, axis, i, tensor(2.0)), {}, f32, {5});
        expect_tensor(z.scatter(axis, i, tensor(2.0)), {}, f32, {2});
        expect_tensor(z.scatter_add(axis, i, z), {}, f32, {6});
        expect_tensor(z.unsqueeze(axis), {1}, f32, {3});
        expect_tensor(z.flatten(axis, axis), {1}, f32, {3});
        expect_tensor(stack({z, z}, axis), {2}, f32, {3, 3});
        // PyTorch refuses these.
        expect_error<IndexError>([&] { z.select(axis, 0); }, {"select", "has no axes"});
        expect_error<IndexError>([&] { z.narrow(axis, 0, 1); }, {"narrow", "has no axes"});
        expect_error<IndexError>([&] { z.unbind(axis); }, {"unbind", "has no axes"});
        expect_error<IndexError>([&] { z.split(1, axis); }, {"split", "has no axes"});
        expect_error<IndexError>([&] { z.chunk(1, axis); }, {"has no axes"});
    }
    expect_error<IndexError>([&] { movedim(z, 1, 0); }, {"movedim", "axis 1", "has no axes"});
    expect_error<IndexError>([&] { z.index_select(1, i1); }, {"index_select", "axis 1"});
    expect_error<IndexError>([&] { index_add(z, -2, i1, z); }, {"index_add", "axis -2"});
    expect_error<IndexError>([&] { z.flatten(1, 1); }, {"flatten", "axis 1"});
    expect_error<ShapeError>([&] { z.index_select(0, tensor({0, 0})); }, {"index_select", "i64[2]"});
    EXPECT_THROW(values(z.index_select(0, tensor({1}))), IndexError);
}

TEST(Porting, BoolIsSummedAsOr) {
    const Tensor x = tensor({true, false, false}), on = tensor({true, true, false});
    expect_tensor(x.scatter_add(0, tensor({1, 1, 2}), on), {3}, boolean, {1, 1, 0});
    expect_tensor(index_add(x, 0, tensor({0, 2, 2}), on), {3}, boolean, {1, 0, 1});
    const Tensor counts = tensor({{2, 0}, {0, 0}});
    expect_tensor(counts.sum({}, false, boolean), {}, boolean, {1});
    expect_tensor(counts.sum({1}, true, boolean), {2, 1}, boolean, {1, 0});
    expect_tensor(counts.prod({0}, false, boolean), {2}, boolean, {0, 0});
    expect_tensor((counts + 1).prod({}, false, boolean), {}, boolean, {1});
    expect_tensor(zeros({0, 2}).sum({0}, false, boolean), {2}, boolean, {0, 0});
    expect_tensor(zeros({0, 2}).prod({0}, false, boolean), {2}, boolean, {1, 1});
    expect_tensor(pow(tensor({true, false}), true), {2}, boolean, {1, 0});
    expect_tensor(pow(tensor({true, false}), false), {2}, boolean, {1, 1});
    Tensor flags = zeros({3}, {.dtype = boolean});
    flags.scatter_add_(0, tensor({1}), tensor({true}));
    flags.index_add_(0, tensor({1}), tensor({true}));
    expect_tensor(flags, {3}, boolean, {0, 1, 0});
}

// A bare `sync()` here would be POSIX's as well.
TEST(Porting, EverythingIsComputedBySynchronize) {
    Tensor x = ones({3}) * 2;
    reset_compile_stats();
    synchronize();
    EXPECT_GT(compile_stats().kernel_launches, 0);
    const auto launches = compile_stats().kernel_launches;
    EXPECT_EQ(x.cpu().to_vector<float>(), std::vector<float>(3, 2));
    EXPECT_LE(compile_stats().kernel_launches, launches + 1) << "a copy, where it is on a GPU";
}

} // namespace
