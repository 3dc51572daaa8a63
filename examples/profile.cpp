// Profiles a few training steps of a small network and writes what was seen:
//
//   profile [directory]   trace.json for Perfetto or chrome://tracing, timeline.svg, and step.lz for lz-opt
#include <lazuli/lazuli.h>

#include <fstream>
#include <iostream>
#include <string>

int main(int argc, char **argv) try {
    const std::string directory = argc > 1 ? argv[1] : ".";
    lz::manual_seed(1);
    lz::Tensor w1 = lz::randn({256, 512}) * 0.06, w2 = lz::randn({512, 10}) * 0.04;
    const lz::Tensor x = lz::randn({512, 256});
    const lz::Tensor y = lz::one_hot(lz::randint(0, 10, {512}), 10).to(lz::f32);
    lz::sync();

    const auto step = [&] {
        const lz::Tensor h = lz::relu(lz::matmul(x, w1));
        const lz::Tensor p = lz::softmax(lz::matmul(h, w2), 1);
        const lz::Tensor d = (p - y) / 512.0;
        const lz::Tensor dh = lz::where(h > 0, lz::matmul(d, w2.t()), 0.0);
        w2 -= 0.1 * lz::matmul(h.t(), d);
        w1 -= 0.1 * lz::matmul(x.t(), dh);
    };
    step();
    std::ofstream(directory + "/step.lz") << lz::dump();
    lz::sync(); // compiled: the profile shows steps as they are from then on

    lz::Profiler profiler;
    for (int i = 0; i < 3; ++i) {
        step();
        lz::sync();
    }
    profiler.save(directory + "/trace.json");
    profiler.save(directory + "/timeline.svg");
    std::cout << "wrote trace.json, timeline.svg and step.lz to " << directory << '\n';
    return 0;
} catch (const lz::Error &error) {
    std::cerr << "profile: " << error.what() << '\n';
    return 1;
}
