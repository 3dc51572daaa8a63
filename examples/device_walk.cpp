// Choosing devices: the current GPU, a guard that changes it, and tensors that name theirs.
//
//   device_walk     runs on virtual GPUs
#include <lazuli/lazuli.h>

#include <iostream>

namespace {

void show(const char *name, const lz::Tensor &tensor) {
    std::cout << name << ".device is " << tensor.device() << '\n';
}

} // namespace

int main() try {
    lz::use_virtual_gpus(3);

    const lz::Device cuda("cuda"); // the current GPU
    const lz::Device cuda0("cuda:0");
    const lz::Device cuda2("cuda:2"); // that one, whatever the current GPU is

    const lz::Tensor x = lz::tensor({1.0, 2.0}, {.device = cuda0});
    const lz::Tensor y = lz::tensor({1.0, 2.0}).cuda();
    show("x", x);
    show("y", y);
    {
        const lz::cuda::DeviceGuard guard(1);

        // Made on GPU 1, and moved to it.
        const lz::Tensor a = lz::tensor({1.0, 2.0}, {.device = cuda});
        const lz::Tensor b = lz::tensor({1.0, 2.0}).cuda();
        const lz::Tensor b2 = lz::tensor({1.0, 2.0}).to(cuda);
        show("a", a);
        show("b", b);
        show("b2", b2);

        // A result lives where its operands live.
        const lz::Tensor c = a + b;
        const lz::Tensor z = x + y;
        show("c", c);
        show("z", z);

        // An index that is named counts, the guard does not.
        lz::manual_seed(0);
        const lz::Tensor d = lz::randn({2}, {.device = cuda2});
        const lz::Tensor e = lz::randn({2}).to(cuda2);
        const lz::Tensor f = lz::randn({2}).cuda(cuda2);
        show("d", d);
        show("e", e);
        show("f", f);

        std::cout << "c = " << c << "\nz = " << z << '\n';
        std::cout << "d + e + f = " << d + e + f << '\n';
    }
    std::cout << "the current GPU is " << lz::cuda::current_device() << " again\n";
    return 0;
} catch (const lz::Error &error) {
    std::cerr << "device_walk: " << error.what() << '\n';
    return 1;
}
