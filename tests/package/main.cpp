// A user's program against the installed package.
//
//   consumer           on the CPU
//   consumer cuda:0    there; says so and ends with 77 where there is no such device
#include <lazuli/lazuli.h>

#include <cstdio>

#if __has_include(<frontend/record/node.h>)
#error "private headers were installed"
#endif

int main(int argc, char **argv) {
    if (lz::version() != "0.1.0" || LAZULI_VERSION_MINOR != 1)
        return 1;
    const lz::Device device = argc > 1 ? argv[1] : "cpu";
    if (device.is_cuda() && !lz::cuda::is_available()) {
        std::printf("consumer: %s\n", lz::cuda::availability().c_str());
        return 77;
    }
    const lz::Tensor x = lz::arange(6).reshape({2, 3}).to(device).to(lz::f32);
    const double sum = lz::matmul(x, x.t()).sum().item<double>(); // (0+1+2)(...) by hand: 5 + 14 + 14 + 50
    std::printf("consumer: %g on %s\n", sum, device.str().c_str());
    return sum == 83 ? 0 : 1;
}
