// A user's program against the installed package.
#include <lazuli/lazuli.h>

#include <cstdio>

#if __has_include(<frontend/record/node.h>)
#error "private headers were installed"
#endif

int main() {
    if (lz::version() != "0.1.0" || LAZULI_VERSION_MINOR != 1)
        return 1;
    const lz::Tensor x = lz::arange(6).reshape({2, 3}).to(lz::f32);
    const double sum = lz::matmul(x, x.t()).sum().item<double>(); // (0+1+2)(...) by hand: 5 + 14 + 14 + 50
    std::printf("consumer: %g\n", sum);
    return sum == 83 ? 0 : 1;
}
