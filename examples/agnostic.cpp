// One source for the CPU and for GPUs.
//
//   agnostic [--disable-cuda]     on the first GPU where there is one (LAZULI_VIRTUAL_GPUS=1 makes one)
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>
#include <lazuli/optim.h>

#include <iostream>
#include <string_view>

int main(int argc, char **argv) try {
    bool disable_cuda = false;
    for (int i = 1; i < argc; ++i)
        disable_cuda = disable_cuda || std::string_view(argv[i]) == "--disable-cuda";
    const lz::Device device =
        lz::cuda::is_available() && !disable_cuda ? lz::Device("cuda") : lz::Device("cpu");
    std::cout << "on " << device << '\n';

    lz::manual_seed(1);
    lz::nn::Sequential net(lz::nn::Linear(42, 16), lz::nn::Tanh(), lz::nn::Linear(16, 3));
    net->to(device);
    lz::optim::SGD optimizer(net->parameters(), 0.1);
    const lz::Tensor x = lz::empty({8, 42}, {.device = device}).uniform_();
    const lz::Tensor y = lz::ones({8, 3}, {.device = device});
    const auto loss = [&] { return lz::mse_loss(net(x), y); };
    std::cout << "loss before: " << loss().item<float>() << '\n';
    for (int step = 0; step < 200; ++step) {
        optimizer.zero_grad();
        loss().backward();
        optimizer.step();
        lz::sync();
    }
    std::cout << "loss after 200 steps is small: " << (loss().item<float>() < 0.05f ? "yes" : "no") << '\n';
    return 0;
} catch (const lz::Error &error) {
    std::cerr << "agnostic: " << error.what() << '\n';
    return 1;
}
