// A user's program against the installed package.
//
//   consumer           on the CPU
//   consumer cuda:0    there; says so and ends with 77 where there is no such device
//   consumer save F    writes a program for runner.cpp; ends with 77 where there is no compiler
#include <lazuli/lazuli.h>

#include <cstdio>
#include <cstring>

#if __has_include(<frontend/record/node.h>)
#error "private headers were installed"
#endif

int main(int argc, char **argv) {
    if (lz::version() != "0.1.0" || LAZULI_VERSION_MINOR != 1)
        return 1;
    if (argc > 2 && std::strcmp(argv[1], "save") == 0) {
        const auto f = lz::compile([](const lz::Tensor &x) { return x * x + 1; });
        for (int i = 0; i < 3; ++i)
            f(lz::rand({3}));
        try {
            lz::save_program(argv[2], f);
        } catch (const lz::CompileError &error) {
            std::printf("consumer: %s\n", error.what());
            return 77;
        }
        return 0;
    }
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
