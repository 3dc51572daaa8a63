// Computing on GPUs, step by step: which there are, tensors on them, operations, copies, and a network.
//
//   use_gpu     runs on two virtual GPUs
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>

#include <iostream>

int main() try {
    lz::use_virtual_gpus(2);

    std::cout << "GPUs: " << lz::cuda::device_count() << '\n';
    std::cout << "try_gpu() is " << lz::try_gpu() << ", try_gpu(10) is " << lz::try_gpu(10) << '\n';
    std::cout << "try_all_gpus():";
    for (const lz::Device &device : lz::try_all_gpus())
        std::cout << ' ' << device;
    std::cout << "\n\n";

    // Tensors are made in main memory unless they are told otherwise.
    const lz::Tensor x = lz::tensor({1, 2, 3});
    std::cout << "x.device is " << x.device() << '\n';
    const lz::Tensor X = lz::ones({2, 3}, {.device = lz::try_gpu()});
    std::cout << "X = " << X << '\n';
    lz::manual_seed(0);
    const lz::Tensor Y = lz::rand({2, 3}, {.device = lz::try_gpu(1)});
    std::cout << "Y = " << Y << "\n\n";

    // X and Y are on different devices: they cannot be added as they are.
    try {
        std::cout << X + Y << '\n';
    } catch (const lz::DeviceError &error) {
        std::cout << error.what() << "\n\n";
    }
    const lz::Tensor Z = X.cuda(1);
    std::cout << "X = " << X << "\nZ = " << Z << '\n';
    std::cout << "Y + Z = " << Y + Z << '\n';
    std::cout << "Z.cuda(1) is Z itself: " << (Z.cuda(1).same_tensor(Z) ? "yes" : "no") << "\n\n";

    // A network: its parameters go to the device, its result is where they and the input are.
    lz::nn::Sequential net(lz::nn::Linear(3, 1));
    net->to(lz::try_gpu());
    std::cout << "net(X) = " << net(X).detach() << '\n';
    std::cout << "its parameters are on " << net->parameters()[0].device() << '\n';
    return 0;
} catch (const lz::Error &error) {
    std::cerr << "use_gpu: " << error.what() << '\n';
    return 1;
}
