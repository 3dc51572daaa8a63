// A module that is too big for one GPU, on two: each has one of its parameters, and `forward` moves x between
// them. The weights of a criterion move like a module's.
//
//   very_big_module     runs on two virtual GPUs of 32 MiB
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>
#include <lazuli/optim.h>

#include <iostream>

namespace nn = lz::nn;
using lz::Tensor;

constexpr int64_t kWide = 1536, kClasses = 3;

/// Parameters of 9 MiB: one with its gradient and its next value takes 27 MiB, so that a GPU has room for
/// one.
struct VeryBigModule : nn::Module {
    VeryBigModule(const lz::Device &first, const lz::Device &second) {
        very_big1 = register_parameter("very_big1", lz::randn({kWide, kWide}, {.device = first}) * 0.02);
        very_big2 = register_parameter("very_big2", lz::randn({kWide, kWide}, {.device = second}) * 0.02);
        head->to(second);
    }
    Tensor forward(Tensor x) {
        x = lz::relu(lz::matmul(x.to(very_big1.device()), very_big1));
        x = lz::relu(lz::matmul(x.to(very_big2.device()), very_big2));
        return head(x);
    }
    Tensor very_big1, very_big2;
    nn::Linear head{register_module("head", nn::Linear(kWide, kClasses))};
};

int main() try {
    lz::use_virtual_gpus(2, {.memory_bytes = 32 << 20});
    lz::manual_seed(4);
    const Tensor x = lz::randn({64, kWide});
    const Tensor y = ((x.sum(1) > -15).to(lz::i64) + (x.sum(1) > 15).to(lz::i64)).to("cuda:1");

    VeryBigModule net("cuda:0", "cuda:1");
    nn::CrossEntropyLoss criterion(nn::CrossEntropyLossOptions().weight(lz::tensor({1.0, 2.0, 1.0})));
    try {
        criterion(net.forward(x), y).eval();
    } catch (const lz::DeviceError &error) {
        std::cout << error.what() << '\n';
    }
    criterion->cuda(1); // its weight is a buffer

    lz::optim::SGD optimizer(net.parameters(), 0.1);
    double first = 0, last = 0;
    for (int step = 0; step < 20; ++step) {
        optimizer.zero_grad();
        const Tensor loss = criterion(net.forward(x), y);
        loss.backward();
        optimizer.step();
        (step == 0 ? first : last) = loss.item<double>();
    }
    std::cout << "the loss fell to less than a tenth: " << (last < first / 10 ? "yes" : "no") << '\n';
    for (const auto &[name, parameter] : net.named_parameters())
        std::cout << name << " is on " << parameter.device() << ", its gradient on "
                  << parameter.grad().device() << '\n';

    // On one GPU there is no room for it.
    try {
        net.to("cuda:0");
        lz::sync();
        std::cout << "it fits on one GPU\n";
    } catch (const lz::OutOfMemoryError &error) {
        std::cout << "on one GPU: out of memory\n";
    }
} catch (const lz::Error &error) {
    std::cerr << "very_big_module: " << error.what() << '\n';
    return 1;
}
