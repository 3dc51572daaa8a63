// DataParallel: one module on several GPUs (S75), and what it is made of.
#include "support.h"

#include <lazuli/autograd/swap.h>
#include <lazuli/nn.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <tuple>

namespace {

using namespace lz::test;
using lz::Device;
using lz::Tensor;
namespace nn = lz::nn;

struct NetImpl : nn::Module {
    NetImpl(int64_t in, int64_t hidden, int64_t out) : in(in), hidden(hidden), out(out) {}
    int64_t in, hidden, out;
    nn::Linear fc1{register_module("fc1", nn::Linear(in, hidden))};
    nn::LayerNorm norm{register_module("norm", nn::LayerNorm(hidden))};
    nn::Linear fc2{register_module("fc2", nn::Linear(hidden, hidden))};
    nn::Linear fc3{register_module("fc3", nn::Linear(hidden, out))};
    Tensor forward(const Tensor &x) { return fc3(lz::tanh(fc2(norm(lz::tanh(fc1(x)))))); }
};
LZ_MODULE(Net);

std::vector<Device> gpus(int count) {
    std::vector<Device> out;
    for (int i = 0; i < count; ++i)
        out.push_back(Device::cuda(i));
    return out;
}

/// The largest difference, relative to the largest element.
double difference(const Tensor &a, const Tensor &b) {
    const std::vector<float> x = floats(a), y = floats(b);
    double most = 0, scale = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        most = std::max<double>(most, std::abs(x[i] - y[i]));
        scale = std::max<double>(scale, std::abs(y[i]));
    }
    return scale == 0 ? most : most / scale;
}

TEST(Semantics, S75_gradients_equal_those_of_one_device) {
    // 37 rows do not divide, 3 are fewer than the devices, and 1 is no batch to speak of.
    for (const int64_t rows : {64, 37, 3, 1})
        for (const int count : {1, 2, 4}) {
            SCOPED_TRACE(std::to_string(rows) + " rows on " + std::to_string(count) + " devices");
            lz::manual_seed(1);
            Net net(12, 24, 5);
            net->to(kGpu0);
            const Tensor x = lz::randn({rows, 12}), y = lz::randint(0, 5, {rows}).to(kGpu0);
            const Tensor alone = net(x.to(kGpu0));
            lz::cross_entropy(alone, y).backward();
            std::vector<Tensor> expected;
            for (const Tensor &p : net->parameters())
                expected.push_back(p.grad().clone());
            lz::sync();
            net->zero_grad();

            nn::DataParallel parallel(net, gpus(count));
            const Tensor together = parallel(x);
            EXPECT_EQ(together.device(), kGpu0);
            EXPECT_LT(difference(together, alone), 1e-6);
            lz::cross_entropy(together, y).backward();
            const std::vector<Tensor> parameters = net->parameters();
            for (size_t i = 0; i < parameters.size(); ++i) {
                EXPECT_TRUE(parameters[i].is_leaf() && parameters[i].requires_grad());
                EXPECT_EQ(parameters[i].grad().device(), kGpu0);
                EXPECT_LT(difference(parameters[i].grad(), expected[i]), 1e-6) << i;
            }
            EXPECT_EQ(parallel->named_parameters().keys()[0], "module.fc1.weight");
        }
}

TEST(Semantics, S75_trains_as_one_device_does) {
    std::vector<std::vector<float>> losses;
    for (const int count : {1, 4}) {
        lz::manual_seed(2);
        Net net(6, 16, 3);
        net->to(kGpu0);
        nn::DataParallel parallel(net, gpus(count));
        const Tensor x = lz::randn({40, 6}), y = lz::randn({40, 3}, {.device = kGpu0});
        losses.emplace_back();
        for (int step = 0; step < 6; ++step) {
            parallel->zero_grad();
            const Tensor loss = lz::mse_loss(parallel(x), y);
            loss.backward();
            const lz::NoGradGuard no_grad;
            for (Tensor &p : parallel->parameters())
                p.sub_(p.grad() * 0.2);
            losses.back().push_back(loss.item<float>());
        }
    }
    for (size_t i = 0; i < losses[0].size(); ++i)
        EXPECT_NEAR(losses[1][i], losses[0][i], 2e-6f * losses[0][0]) << i;
    EXPECT_LT(losses[1].back(), 0.9f * losses[1].front());
}

// --- the clock of a modelled GPU, in a process of its own

/// A trace's events of one kind: begin and end in microseconds, on which device, and named how.
struct Event {
    double begin, end;
    std::string device, lane, name;
};
std::vector<Event> events_of(const std::string &trace) {
    const nlohmann::json all = nlohmann::json::parse(trace);
    std::map<int, std::string> devices;
    std::map<std::pair<int, int>, std::string> lanes;
    std::vector<Event> out;
    for (const auto &e : all.at("traceEvents")) {
        if (e.at("ph") == "M" && e.at("name") == "process_name")
            devices[e.at("pid")] = e.at("args").at("name");
        else if (e.at("ph") == "M" && e.at("name") == "thread_name")
            lanes[{e.at("pid"), e.at("tid")}] = e.at("args").at("name");
    }
    for (const auto &e : all.at("traceEvents"))
        if (e.at("ph") == "X") {
            const double begin = e.at("ts"), length = e.at("dur");
            out.push_back({begin, begin + length, devices[e.at("pid")], lanes[{e.at("pid"), e.at("tid")}],
                           e.at("name")});
        }
    return out;
}

bool kernel_of(const Event &e) {
    return e.lane.starts_with("stream") && !e.name.starts_with("transfer");
}

TEST(Child, DISABLED_ReplicasRunAtTheSameTime) {
    if (!::getenv("LAZULI_VIRTUAL_MODEL"))
        GTEST_SKIP() << "Runs in a process with a modelled GPU: Semantics.S75_replicas_run_at_the_same_time.";
    std::map<int, double> took; // microseconds
    for (const int count : {1, 2, 4}) {
        lz::manual_seed(3);
        Net net(128, 128, 10);
        net->to(kGpu0);
        nn::DataParallel parallel(net, gpus(count));
        const Tensor x = lz::randn({1024, 128}, {.pinned = true}), y = lz::randint(0, 10, {1024}).to(kGpu0);
        lz::eval({x, y});
        std::string trace;
        for (int step = 0; step < 2; ++step) { // the first one compiles
            parallel->zero_grad();
            lz::sync();
            for (const Device &gpu : gpus(4))
                lz::cuda::synchronize(gpu);
            lz::Profiler profiler;
            lz::cross_entropy(parallel(x), y).backward();
            lz::sync();
            trace = profiler.json();
        }
        const std::vector<Event> events = events_of(trace);
        std::map<std::string, std::pair<double, double>> span, kernels; // first begin, last end
        for (const Event &e : events) {
            if (!e.device.starts_with("cuda:"))
                continue;
            for (auto *const of : {&span, kernel_of(e) ? &kernels : nullptr})
                if (of) {
                    const auto &[at, made] = of->try_emplace(e.device, e.begin, e.end);
                    at->second.first = std::min(at->second.first, e.begin);
                    at->second.second = std::max(at->second.second, e.end);
                }
        }
        ASSERT_EQ(kernels.size(), static_cast<size_t>(count)) << trace;
        double begin = 1e30, end = 0;
        for (const auto &[device, of] : span) {
            begin = std::min(begin, of.first);
            end = std::max(end, of.second);
        }
        took[count] = end - begin;
        if (count == 1)
            continue;
        // Gradients are on their way to the first device (the results were there in the first half) while all
        // devices still compute others.
        const double half = begin + (end - begin) / 2;
        double computing = 1e30;
        for (const auto &[device, of] : kernels)
            computing = std::min(computing, of.second);
        const auto early = std::ranges::count_if(events, [&](const Event &e) {
            return e.device == "cuda:0" && e.name.starts_with("transfer: cuda:") &&
                   e.name.ends_with(", in") && e.begin > half && e.end < computing;
        });
        EXPECT_GE(early, 2 * (count - 1))
            << "of " << net->parameters().size() * static_cast<size_t>(count - 1);
    }
    std::printf("times as fast: %.2f on 2 GPUs, %.2f on 4\n", took[1] / took[2], took[1] / took[4]);
    EXPECT_GE(took[1] / took[2], 1.8);
    EXPECT_GE(took[1] / took[4], 3.2);
}

TEST(Semantics, S75_replicas_run_at_the_same_time) {
    // Kernels of milliseconds, so that little has to be computed in earnest.
    const std::string model = testing::TempDir() + "data_parallel_model.json";
    std::ofstream(model) << R"({"name": "slow", "memory_bandwidth": 2e10, "flops": 5e9, "link_bandwidth": 2e9,
                                "pageable_bandwidth": 2e9, "peer_bandwidth": 2e9})";
    const std::string said = run_child("-u LAZULI_TEST_CUDA -u LAZULI_CUDA_DRIVER LAZULI_VIRTUAL_GPUS=4 "
                                       "LAZULI_VIRTUAL_MODEL=" +
                                           model,
                                       "ReplicasRunAtTheSameTime");
    EXPECT_NE(said.find("times as fast"), std::string::npos) << said;
}

// --- modules of other kinds

/// Two inputs, a number, and two results.
struct PairImpl : nn::Module {
    nn::Linear fc{register_module("fc", nn::Linear(3, 3))};
    Tensor steps = register_buffer("steps", lz::zeros({}));
    std::tuple<Tensor, std::vector<Tensor>> forward(const Tensor &a, const std::vector<Tensor> &b,
                                                    double scale) {
        steps.add_(1);
        return {fc(a) * scale + b[0], {b[1].sum(), b[1] * 2}};
    }
};
LZ_MODULE(Pair);

TEST(DataParallel, TakesSeveralInputsAndGivesSeveralResults) {
    LZ_NEEDS_GPUS(3);
    Pair pair;
    pair->to(kGpu0);
    const Tensor a = lz::randn({5, 3}), b = lz::randn({5, 3}, {.device = kGpu1}), c = lz::randn({5});
    nn::DataParallel parallel(pair, gpus(4), kGpu2);
    const auto [first, second] = parallel(a, std::vector<Tensor>{b, c}, 0.5);
    EXPECT_EQ(first.device(), kGpu2);
    EXPECT_LT(difference(first, pair->fc(a.to(kGpu0)) * 0.5 + b.to(kGpu0)), 1e-6);
    ASSERT_EQ(second.size(), 2u);
    EXPECT_EQ(second[0].sizes(), (lz::Sizes{4})); // a number of each
    EXPECT_EQ(floats(second[1]), floats(c * 2));
    EXPECT_EQ(pair->steps.item<float>(), 1) << "the first device's replica is the module, as in PyTorch";
    EXPECT_EQ(pair->fc->weight.device(), kGpu0);
    // Axis 1 as the batch.
    Net net(4, 8, 2);
    net->to(kGpu0);
    nn::DataParallel across(net, gpus(2), std::nullopt, 1);
    const Tensor x = lz::randn({3, 6, 4});
    EXPECT_LT(difference(across(x), net(x.to(kGpu0))), 1e-6);
    // As a function, and without gradients.
    const lz::NoGradGuard no_grad;
    EXPECT_LT(difference(nn::parallel::data_parallel(net, x, gpus(4)), net(x.to(kGpu0))), 1e-6);
    EXPECT_FALSE(nn::parallel::data_parallel(net, x, gpus(4)).requires_grad());
}

TEST(DataParallel, AModuleMayBeOfAnyClassAndHasItsHooks) {
    nn::Sequential net(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2));
    net->to(kGpu0);
    int calls = 0;
    net->at<nn::Linear>(0).register_forward_hook(
        [&](nn::Module &, const Tensor &, const Tensor &) { ++calls; });
    nn::DataParallel parallel(net, gpus(4));
    const Tensor x = lz::randn({8, 4});
    EXPECT_LT(difference(parallel(x), net(x.to(kGpu0))), 1e-6);
    EXPECT_EQ(calls, 5);
    net->eval();
    EXPECT_FALSE(parallel->module()->is_training());
    // The gradient of the input, and gradients of gradients.
    Tensor input = lz::randn({8, 4}, {.requires_grad = true});
    const Tensor slope =
        lz::autograd::grad({parallel(input).square().sum()}, {input}, {}, std::nullopt, true)[0];
    const Tensor expected =
        lz::autograd::grad({net(input.to(kGpu0)).square().sum()}, {input}, {}, std::nullopt, true)[0];
    EXPECT_LT(difference(slope, expected), 1e-6);
    const std::vector<Tensor> parameters = net->parameters();
    const std::vector<Tensor> second = lz::autograd::grad({slope.square().sum()}, {parameters[0]});
    const std::vector<Tensor> wanted = lz::autograd::grad({expected.square().sum()}, {parameters[0]});
    EXPECT_LT(difference(second[0], wanted[0]), 1e-5);
}

TEST(DataParallel, DevicesMayBeWrittenThere) {
    LZ_NEEDS_GPUS(2);
    lz::nn::Linear net(4, 2);
    net->to("cuda:0");
    lz::nn::DataParallel parallel(net, {"cuda:0", "cuda:1"});
    lz::nn::DataParallel same(net, {Device::cuda(0), Device::cuda(1)});
    const Tensor x = lz::ones({6, 4}, {.device = "cuda:0"});
    EXPECT_TRUE(lz::equal(parallel(x), net(x)));
    EXPECT_TRUE(lz::equal(same(x), net(x)));
}

TEST(DataParallel, ThrowsWhatWouldBeWrong) {
    LZ_NEEDS_GPUS(2);
    Net net(4, 8, 2);
    net->to(kGpu0);
    const auto devices = [](std::vector<Device> list) { return std::optional(std::move(list)); };
    EXPECT_TRUE(
        caught<lz::StateError>([&] { nn::DataParallel(net, devices({})); }).has("no devices are given"));
    EXPECT_TRUE(caught<lz::DeviceError>([&] {
                    nn::DataParallel(net, devices({kGpu0, kGpu1, kGpu0}));
                }).has("cuda:0 is given twice"));
    EXPECT_TRUE(caught<lz::DeviceError>([&] {
                    nn::DataParallel(net, devices({kGpu0, Device::cuda(9)}));
                }).has("cuda:9"));
    nn::DataParallel elsewhere(net, devices({kGpu1, kGpu0}));
    const uint32_t line = __LINE__ + 1;
    const Caught where = caught<lz::DeviceError>([&] { elsewhere(lz::ones({4, 4})); });
    EXPECT_TRUE(where.has("parameter fc1.weight is on cuda:0") && where.has("first device, cuda:1"))
        << where.what;
    EXPECT_EQ(where.line, line);
    Pair pair;
    pair->to(kGpu0);
    nn::DataParallel parallel(pair, gpus(2));
    EXPECT_TRUE(caught<lz::ShapeError>([&] {
                    parallel(lz::ones({4, 3}), std::vector<Tensor>{lz::ones({5, 3}), lz::ones({4})}, 1.0);
                }).has("batches of 4, 5, 4 rows along axis 0"));
    EXPECT_TRUE(caught<lz::StateError>([&] {
                    nn::DataParallel(net, gpus(2))(lz::ones({}));
                }).has("no argument is a tensor with a batch"));
    // What forward throws is thrown, and the module is what it was.
    EXPECT_THROW(nn::DataParallel(net, gpus(2))(lz::ones({4, 7})), lz::ShapeError);
    EXPECT_TRUE(net->fc1->weight.is_leaf());
    EXPECT_EQ(net->fc1->weight.device(), kGpu0);
}

TEST(FunctionalCall, GivesGradientsToWhatStandsForTheParameters) {
    nn::Linear linear(3, 2);
    const std::vector<float> before = floats(linear->weight);
    Tensor weight = lz::randn({2, 3}, {.requires_grad = true});
    const Tensor x = lz::randn({4, 3});
    const Tensor y = nn::functional_call(linear, {{"weight", weight}}, x);
    EXPECT_LT(difference(y, lz::linear(x, weight, linear->bias)), 1e-6);
    y.sum().backward();
    EXPECT_EQ(floats(weight.grad()), floats(lz::ones({2, 1}) * x.sum(0)));
    EXPECT_TRUE(linear->bias.grad().defined());
    EXPECT_FALSE(linear->weight.grad().defined());
    EXPECT_EQ(floats(linear->weight), before);
    // The input is the tensor that stands for the parameter, too.
    nn::Linear square(3, 3);
    Tensor both = lz::eye(3) * 2;
    EXPECT_EQ(floats(nn::functional_call(square, {{"weight", both}, {"bias", lz::zeros({3})}}, both)),
              floats(lz::eye(3) * 4));
    uint32_t line = __LINE__ + 2;
    Caught error =
        caught<lz::StateError>([&] { nn::functional_call(linear, {{"wait", weight}, {"bias", x}}, x); });
    EXPECT_TRUE(error.has("Linear has no parameter or buffer \"wait\"")) << error.what;
    EXPECT_EQ(error.line, line) << error.what;
    line = __LINE__ + 1;
    error = caught<lz::StateError>([&] { nn::functional_call(linear, {{"weight", Tensor()}}, x); });
    EXPECT_TRUE(error.has("to stand for \"weight\" is empty")) << error.what;
    EXPECT_EQ(error.line, line) << error.what;
    const lz::StateDict unknown = {{"wait", weight}};
    line = __LINE__ + 1;
    error = caught<lz::StateError>([&] { nn::functional_call(*linear, unknown, x); });
    EXPECT_EQ(error.line, line) << error.what;
}

TEST(SwapTensors, ExchangesWhatEveryHandleSees) {
    Tensor a = lz::tensor({1.0, 2.0}, {.requires_grad = true}), b = lz::tensor({{3.0}}) * 2;
    const Tensor handle = a;
    const Tensor recorded = (a * a).sum();
    lz::swap_tensors(a, b);
    EXPECT_EQ(floats(handle), (std::vector<float>{6}));
    EXPECT_FALSE(handle.requires_grad());
    EXPECT_TRUE(b.requires_grad() && b.is_leaf());
    recorded.backward();
    EXPECT_EQ(floats(b.grad()), (std::vector<float>{2, 4}));
    lz::swap_tensors(b, b);
    lz::swap_tensors(a, b);
    EXPECT_EQ(floats(handle.grad()), (std::vector<float>{2, 4}));
    Tensor none;
    EXPECT_THROW(lz::swap_tensors(a, none), lz::StateError);
    const Tensor other = lz::autograd::alias(a);
    EXPECT_FALSE(other.same_tensor(a));
    (other * 3).sum().backward();
    EXPECT_EQ(floats(a.grad()), (std::vector<float>{5, 7}));
}

} // namespace
