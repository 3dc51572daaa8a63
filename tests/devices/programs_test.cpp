// Program files of virtual GPUs, run here and by a process that has liblazuli-run.so alone.
#include "virtual_gpus.h"

#include "tests/support/caught.h"
#include "tests/support/run_file.h"

#include "ir/saved/saved_program.h"

#include <lazuli/lazuli.h>

#include <gmock/gmock.h>

#include <span>
#include <string>
#include <thread>
#include <vector>

namespace lz::test {
namespace {

using testing::HasSubstr;
using Tensors = std::vector<Tensor>;

class DevicesPrograms : public testing::Test {
protected:
    void SetUp() override {
        LZ_NEEDS_GPUS();
        manual_seed(7);
    }
    const Device first_ = Device::cuda(0), second_ = Device::cuda(1);
    const TestFolder folder_;
    const std::string file_ = folder_ / "f.lzp";
};

TEST_F(DevicesPrograms, GiveTheBitsOfTheFunctionInAnotherProcess) {
    const Tensor w = randn({12, 20}, {.device = first_}), b = randn({20}, {.device = second_});
    expect_same_from_file(
        file_,
        [&](const Tensors &in) {
            const Tensor h = gelu(matmul(in[0], w)), there = h.to(second_) + b;
            const auto [sorted, order] = there.sort(1);
            Tensor changed = there.clone();
            changed.at({0}) *= 3;
            return Tensors{
                softmax(h, -1), h.sum() + in[1], there.cpu() * 2, in[0] + rand({9, 12}, {.device = first_}),
                sorted,         order,           changed,         in[0].index_select(1, in[2]),
                in[2]};
        },
        {randn({9, 12}, {.device = first_}), full({}, 2.5), arange(5).to(first_) * 2});
    const std::string bytes = read_bytes(file_);
    const std::string text = ir::describe(ir::read_saved(std::as_bytes(std::span(bytes))));
    EXPECT_THAT(text, HasSubstr("cuda:0: a virtual GPU\ncuda:1: a virtual GPU\n"));
    EXPECT_THAT(text, HasSubstr("x86-64-v3: "));
}

TEST_F(DevicesPrograms, WithPeersCopiesGoStraight) {
    cuda::enable_peer_access(first_, second_);
    const auto f = [&](const Tensors &in) { return Tensors{(in[0] * 2).to(second_) + in[1]}; };
    const Tensors inputs{randn({70}, {.device = first_}), randn({70}, {.device = second_})};
    expect_same_from_file(file_, f, inputs);
    const Program program = load_program(file_);
    cuda::disable_peer_access(first_, second_);
    const Caught later = caught<DeviceError>([&] { program(inputs); });
    EXPECT_TRUE(later.has("cuda:0 has no access to the memory of cuda:1 any more")) << later.what;
    const Caught now = caught<DeviceError>([&] { load_program(file_); });
    EXPECT_TRUE(now.has("was saved where cuda:0 had access to the memory of cuda:1, and has none here"))
        << now.what;
}

TEST_F(DevicesPrograms, AnIndexOutOfRangeNamesTheLineOfTheFunction) {
    expect_index_error_from_file(file_, first_);
}

/// Such a function is recorded at each call: what is saved is what the last call had.
TEST_F(DevicesPrograms, WhatMayFailLaterIsSavedAsItWasRecordedLast) {
    Tensor w = ones({6, 3}, {.device = first_});
    const auto f = compile([&](const Tensor &at) { return w.index_select(0, at); });
    const Tensor at = arange(2).to(first_);
    for (int call = 0; call < 40; ++call)
        f(at);
    EXPECT_EQ(f.stats().replays, 0);
    EXPECT_THAT(f.stats().why, HasSubstr("may fail on a GPU while it runs (it can be saved), at "));
    w = full({6, 3}, 5, {.device = first_});
    for (int call = 0; call < 3; ++call)
        f(at);
    save_program(file_, f);
    EXPECT_EQ(elements_of(load_program(file_)({at})), elements_of({full({2, 3}, 5)}));
}

TEST_F(DevicesPrograms, NeedTheirDevices) {
    const auto f = compile([&](const Tensor &x) { return x.to(Device::cuda(3)) * 2; });
    for (int call = 0; call < 3; ++call)
        f(ones({5}, {.device = second_}));
    save_program(file_, f, {.name = "twice"});
    const Tensors x{ones({5})};
    EXPECT_EQ(run_file(file_, x, "", "LAZULI_VIRTUAL_GPUS=4").elements, elements_of({ones({5}) * 2}));
    EXPECT_THAT(run_file(file_, x, "", "LAZULI_VIRTUAL_GPUS=3").error,
                HasSubstr("\" was saved for cuda:3, a virtual GPU, and there is none: the devices are cpu, "
                          "cuda:0, cuda:1 and cuda:2"));
    EXPECT_THAT(run_file(file_, x, "", "LAZULI_VIRTUAL_GPUS= LAZULI_CUDA_DRIVER=/nonexistent").error,
                testing::AllOf(testing::StartsWith("DeviceError: load_program: \""),
                               HasSubstr("was saved for cuda:1, a virtual GPU, and there is none: the only "
                                         "device is cpu.")));
    const Program program = load_program(file_);
    EXPECT_EQ(program.inputs()[0].device, "cuda:1");
    EXPECT_EQ(program.outputs()[0].device, "cuda:3");
    const Caught device = caught<DeviceError>([&] { program({ones({5}, {.device = first_})}); });
    EXPECT_TRUE(device.has("is f32[5] @cuda:0, and has to be f32[5] on cuda:1")) << device.what;
}

TEST_F(DevicesPrograms, AnyThreadMayCall) {
    const Tensor w = randn({8, 8}, {.device = first_});
    const auto f = [&](const Tensors &in) { return Tensors{tanh(matmul(in[0], w)).to(second_) + 1}; };
    expect_same_from_file(file_, f, {randn({8, 8}, {.device = first_})});
    const Program program = load_program(file_);
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 10; ++i) {
                const Tensors x{full({8, 8}, t + i * 0.25, {.device = first_})};
                EXPECT_EQ(elements_of(program(x)), elements_of(f(x)));
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

TEST_F(DevicesPrograms, TensorsMayBeWhereNothingIsComputed) {
    const auto f =
        compile([](const Tensor &x, const Tensor &y, const Tensor &) { return Tensors{x * 2, y}; });
    const Tensor x = ones({3}), y = full({2}, 3.0, {.device = first_}), z = ones({1}, {.device = second_});
    for (int call = 0; call < 3; ++call)
        f(x, y, z);
    save_program(file_, f);
    const Tensors results = load_program(file_)({x, y, z});
    EXPECT_EQ(results[0].to_vector<float>(), (std::vector<float>{2, 2, 2}));
    EXPECT_EQ(results[1].cpu().to_vector<float>(), (std::vector<float>{3, 3}));
}

TEST_F(DevicesPrograms, DataOfTheHostIsNobodysWhileARunIsOnItsWay) {
    const auto f = compile(
        [&](const Tensor &x) { return (x * tensor({1.0, 2.0, 3.0}, {.device = first_})).sort().values; });
    const Tensor x = ones({3}, {.device = first_});
    for (int call = 0; call < 40; ++call)
        f(x);
    EXPECT_EQ(f.stats().uncompiled, 0) << f.stats().why;
    Tensor kept;
    const auto keeps = compile([&](const Tensor &in) {
        kept = tensor({1.0, 2.0, 3.0}, {.device = first_});
        return (in * kept).sort().values;
    });
    for (int call = 0; call < 5; ++call)
        keeps(x);
    EXPECT_EQ(keeps.stats().replays, 0);
}

} // namespace
} // namespace lz::test
