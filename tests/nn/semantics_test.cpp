// The rows of semantics.md about modules, on virtual GPUs.
#include "support.h"

#include <tuple>

namespace {

using namespace lz::test;
using lz::Device;
using lz::Tensor;
namespace nn = lz::nn;

const Device kGpu0 = Device::cuda(0), kGpu1 = Device::cuda(1);

struct Net : nn::Module {
    nn::Linear fc1{register_module("fc1", nn::Linear(8, 16))};
    nn::BatchNorm1d norm{register_module("norm", nn::BatchNorm1d(16))};
    nn::Linear fc2{register_module("fc2", nn::Linear(16, 4))};
    Tensor forward(const Tensor &x) { return fc2(lz::tanh(norm(fc1(x)))); }
};

/// One step of gradient descent; the loss before it.
double train(nn::Module &net, const Tensor &loss) {
    net.zero_grad();
    loss.backward();
    const lz::NoGradGuard no_grad;
    for (Tensor &parameter : net.parameters())
        parameter.sub_(parameter.grad() * 0.1);
    return loss.item<double>();
}

TEST(Semantics, S60_one_source_runs_on_both) {
    std::vector<double> losses;
    for (const bool disable_cuda : {true, false}) {
        const Device device = lz::cuda::is_available() && !disable_cuda ? Device("cuda") : Device("cpu");
        lz::manual_seed(1);
        Net net;
        net.to(device);
        const Tensor x = lz::randn({32, 8}, {.device = device});
        const Tensor y = lz::randn({32, 4}, {.device = device});
        EXPECT_EQ(net.forward(x).device().type(), device.type());
        for (int step = 0; step < 3; ++step)
            losses.push_back(train(net, lz::mse_loss(net.forward(x), y)));
    }
    ASSERT_EQ(losses.size(), 6u);
    for (size_t i = 0; i < 3; ++i)
        EXPECT_EQ(losses[i], losses[i + 3]); // to the bit, S29
    EXPECT_LT(losses[2], losses[0]);
}

TEST(Semantics, S71_to_moves_everything_in_place_and_returns_the_module) {
    Net net;
    const Tensor weight = net.fc1->weight, mean = net.norm->running_mean;
    const Tensor x = lz::randn({8, 8});
    net.forward(x).sum().backward();
    const std::vector<float> values = floats(weight), gradient = floats(weight.grad());
    EXPECT_EQ(&net.cuda(), &net);
    for (const auto &[name, parameter] : net.named_parameters()) {
        EXPECT_EQ(parameter.device(), kGpu0) << name;
        EXPECT_EQ(parameter.grad().device(), kGpu0) << name;
        EXPECT_TRUE(parameter.requires_grad() && parameter.is_leaf()) << name;
    }
    for (const auto &[name, buffer] : net.named_buffers())
        EXPECT_EQ(buffer.device(), kGpu0) << name;
    EXPECT_EQ(weight.device(), kGpu0); // whoever had a handle
    EXPECT_EQ(mean.device(), kGpu0);
    EXPECT_EQ(floats(weight), values);
    EXPECT_EQ(floats(weight.grad()), gradient);
    EXPECT_EQ(net.forward(x.cuda()).device(), kGpu0);
    EXPECT_EQ(&net.to("cuda:1", lz::f64), &net);
    EXPECT_EQ(net.fc2->bias.device(), kGpu1);
    EXPECT_EQ(weight.dtype(), lz::f64);
    EXPECT_EQ(net.norm->num_batches_tracked.dtype(), lz::i64);
    net.cpu();
    EXPECT_EQ(net.fc2->bias.device(), Device::cpu());
    // A device that is not there: nothing has moved.
    EXPECT_TRUE(caught<lz::DeviceError>([&] { net.to("cuda:7"); }).has("cuda:7"));
    EXPECT_EQ(weight.device(), Device::cpu());
    EXPECT_TRUE(caught<lz::DeviceError>([&] { net.cuda("cpu"); }).has("cpu is no GPU"));
}

TEST(Semantics, S71_a_state_dict_of_a_gpu_loads_on_the_cpu_and_back) {
    Net on_gpu, on_cpu;
    on_gpu.to(kGpu1);
    on_cpu.load_state_dict(on_gpu.state_dict());
    EXPECT_EQ(on_cpu.fc1->weight.device(), Device::cpu());
    EXPECT_EQ(floats(on_cpu.fc1->weight), floats(on_gpu.fc1->weight));
    on_gpu.load_state_dict(on_cpu.state_dict());
    EXPECT_EQ(on_gpu.fc1->weight.device(), kGpu1);
}

TEST(Semantics, S71_a_module_on_another_device_than_its_input_is_rejected) {
    Net net;
    net.cuda();
    const uint32_t line = __LINE__ + 1;
    const Caught error = caught<lz::DeviceError>([&] { net.fc1(lz::ones({2, 8})).eval(); });
    EXPECT_TRUE(error.has("cuda:0") && error.has("cpu")) << error.what;
    EXPECT_EQ(error.line, line);
}

TEST(Semantics, S71_a_module_on_mixed_devices_names_both_and_the_line_of_the_layer) {
    Net net;
    net.eval(); // in training the statistics fail as well, in the next sync (S26)
    net.fc1->to(kGpu0);
    net.norm->to(kGpu1); // and fc2 on the CPU
    const Tensor x = lz::ones({4, 8}, {.device = kGpu0});
    Tensor y = net.fc1(x);
    uint32_t line = __LINE__ + 1;
    Caught error = caught<lz::DeviceError>([&] { net.norm(y).eval(); });
    EXPECT_TRUE(error.has("cuda:0") && error.has("cuda:1")) << error.what;
    EXPECT_EQ(error.line, line);
    y = net.norm(net.fc1(x).to(kGpu1));
    line = __LINE__ + 1;
    error = caught<lz::DeviceError>([&] { net.fc2(y).eval(); });
    EXPECT_TRUE(error.has("linear") && error.has("cuda:1") && error.has("cpu")) << error.what;
    EXPECT_EQ(error.line, line);
    net.to(kGpu0);
    EXPECT_TRUE(net.forward(x).isfinite().all().item<bool>());
}

TEST(Semantics, S06_parameters_were_made_where_the_user_made_their_layer) {
    const auto expect_made_at = [](uint32_t line, const auto &layer) {
        EXPECT_FALSE(layer->parameters().empty());
        for (const auto &[name, parameter] : layer->named_parameters()) {
            const Tensor elsewhere = lz::ones({1}, {.device = kGpu1});
            const Caught error =
                caught<lz::DeviceError>([&] { lz::add(parameter.detach(), elsewhere).eval(); });
            EXPECT_TRUE(error.has("semantics_test.cpp:" + std::to_string(line) + ")"))
                << layer->name() << ", " << name << ": " << error.what;
            Tensor same = parameter;
            const Caught changed = caught<lz::StateError>([&] { same.add_(1); });
            EXPECT_TRUE(changed.has("(since semantics_test.cpp:" + std::to_string(line) + ")"))
                << layer->name() << ", " << name << ": " << changed.what;
        }
    };
    expect_made_at(__LINE__, nn::Linear(3, 2));
    expect_made_at(__LINE__, nn::Embedding(nn::EmbeddingOptions(5, 3).padding_idx(1)));
    expect_made_at(__LINE__, nn::EmbeddingBag(5, 3));
    expect_made_at(__LINE__, nn::LayerNorm(nn::LayerNormOptions({3})));
    expect_made_at(__LINE__, nn::GroupNorm(2, 4));
    expect_made_at(__LINE__, nn::BatchNorm2d(3));
    expect_made_at(__LINE__, nn::LSTM(3, 2));
    expect_made_at(__LINE__, nn::GRUCell(3, 2));
    expect_made_at(__LINE__, nn::MultiheadAttention(nn::MultiheadAttentionOptions(4, 2).add_bias_kv(true)));
    expect_made_at(__LINE__, nn::TransformerEncoderLayer(4, 2));
}

TEST(Semantics, S72_layers_give_the_same_on_every_device) {
    const auto expect_same = [](auto holder, const Tensor &x) {
        SCOPED_TRACE(holder->name());
        holder->eval();
        const auto first = [](const auto &result) -> Tensor {
            if constexpr (requires { std::get<0>(result); })
                return std::get<0>(result);
            else
                return result;
        };
        const Tensor here = first(holder(x));
        holder->to(kGpu1);
        const Tensor there = first(holder(x.to(kGpu1)));
        EXPECT_EQ(there.device(), kGpu1);
        EXPECT_TRUE(here.allclose(there.cpu(), 1e-5, 1e-6));
    };
    const Tensor x = lz::randn({2, 4, 8});
    expect_same(nn::Linear(8, 8), x);
    expect_same(nn::Embedding(5, 3), lz::tensor({1, 4, 0}));
    expect_same(nn::BatchNorm1d(4), x);
    expect_same(nn::LayerNorm(8), x);
    expect_same(nn::RMSNorm(8), x);
    expect_same(nn::GroupNorm(2, 4), x);
    expect_same(nn::Dropout(), x);
    expect_same(nn::GRU(8, 3), x);
    expect_same(nn::LSTM(8, 3), x);
    expect_same(nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16)), x);
    expect_same(nn::Sequential(nn::Flatten(), nn::Linear(32, 2), nn::ReLU()), x);
    // A mask is built where the queries are.
    nn::MultiheadAttention attention(8, 2);
    attention->to(kGpu1);
    const Tensor q = x.to(kGpu1);
    EXPECT_EQ(std::get<0>(attention(q, q, q, Tensor(), true, Tensor(), true, true)).device(), kGpu1);
}

/// Two parts, each of which has its GPU for itself.
struct VeryBig : nn::Module {
    nn::Sequential first{register_module("first", nn::Sequential(nn::Linear(8, 32), nn::Tanh()))};
    nn::Linear second{register_module("second", nn::Linear(32, 4))};
    VeryBig(const Device &a, const Device &b) : a(a), b(b) {
        first->to(a);
        second->to(b);
    }
    Tensor forward(const Tensor &x) { return second(first(x.to(a)).to(b)); }
    Device a, b;
};

TEST(Semantics, S74_a_module_on_two_gpus_trains) {
    std::vector<std::vector<double>> losses;
    for (const auto &[a, b] : {std::pair(kGpu0, kGpu1), std::pair(Device::cpu(), Device::cpu())}) {
        lz::manual_seed(2);
        VeryBig net(a, b);
        const Tensor x = lz::randn({16, 8}), y = lz::randn({16, 4}).to(b);
        losses.emplace_back();
        for (int step = 0; step < 5; ++step)
            losses.back().push_back(train(net, lz::mse_loss(net.forward(x), y)));
        EXPECT_EQ(net.first->parameters()[0].grad().device(), a);
        EXPECT_EQ(net.second->weight.grad().device(), b);
        EXPECT_EQ(net.second->weight.device(), b);
    }
    EXPECT_LT(losses[0].back(), losses[0].front());
    EXPECT_EQ(losses[0], losses[1]); // to the bit, S29
}

TEST(Semantics, S91_a_module_that_takes_the_place_of_another_one_is_seen) {
    nn::Linear layer(2, 2);
    const std::vector<Tensor> kept = layer->parameters(); // as an optimizer does
    const auto f = lz::compile([&](const Tensor &x) {
        const lz::NoGradGuard no_grad;
        return layer(x);
    });
    const Tensor x = lz::ones({1, 2});
    for (int i = 0; i < 12; ++i) {
        if (i == 4)
            layer = nn::Linear(2, 2);
        if (i == 8) {
            const nn::Linear other(2, 2);
            layer = other;
        }
        const lz::NoGradGuard no_grad;
        EXPECT_TRUE(lz::equal(f(x), layer(x))) << i;
    }
    EXPECT_GT(f.stats().replays, 3) << f.stats().why;
}

} // namespace
