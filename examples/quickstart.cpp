// Eager-looking code, compiled when a value is needed. Run it, then again with LAZULI_DUMP=explain.
//
//   quickstart [device]     on the CPU, or, for instance, on cuda:0
#include <lazuli/lazuli.h>

#include <iostream>

int main(int argc, char **argv) {
    if (argc > 1)
        lz::set_default_device(argv[1]);
    lz::manual_seed(7);
    lz::Tensor x = lz::randn({4, 3});
    lz::Tensor w = lz::randn({3, 2});
    lz::Tensor b = lz::zeros({2});

    lz::Tensor y = lz::gelu(lz::matmul(x, w) + b); // recorded: nothing has run yet
    lz::Tensor p = lz::softmax(y, -1);
    std::cout << lz::explain(p) << '\n'; // what will run: one kernel for the product, one for the softmax
    std::cout << p << '\n';              // printing needs the values: compiled, run

    try {
        lz::Tensor wrong = x + w;
    } catch (const lz::ShapeError &error) {
        std::cout << error.what() << '\n'; // names this file and line
    }

    for (int step = 0; step < 100; ++step)
        b += 0.01 * step; // another number is not another program
    std::cout << b << '\n';
    const lz::CompileStats stats = lz::compile_stats();
    std::cout << stats.programs_compiled << " programs compiled, " << stats.programs_reused << " reused\n";
}
