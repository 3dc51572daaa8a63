// Two streams of a GPU. What one computes and the other needs is waited for, whether the program says so or
// not.
//
//   streams     runs on a virtual GPU
#include <lazuli/lazuli.h>

#include <cmath>
#include <iostream>

namespace {

/// The sum of a matrix that the default stream fills, computed on another stream.
float sum_on(const lz::Stream &s, bool says_so) {
    lz::manual_seed(42);
    const lz::Device cuda("cuda");
    const lz::Tensor A = lz::empty({100, 100}, {.device = cuda}).normal_(0.0, 1.0);
    lz::Tensor B;
    if (says_so)
        s.wait_stream(lz::default_stream(cuda));
    {
        const lz::StreamGuard guard(s);
        B = lz::sum(A); // may not start before normal_() has finished
    }
    return B.item<float>();
}

} // namespace

int main() try {
    lz::use_virtual_gpus(1);
    const lz::Stream s(lz::Device::cuda(0));
    std::cout << "on " << s << '\n';

    const float without = sum_on(s, false), with = sum_on(s, true);
    std::cout << "without wait_stream: " << without << '\n';
    std::cout << "with wait_stream:    " << with << '\n';
    lz::manual_seed(42);
    const float on_cpu = lz::empty({100, 100}).normal_(0.0, 1.0).sum().item<float>();
    std::cout << "the same answer: " << (without == with ? "yes" : "no") << '\n';
    std::cout << "close to the CPU's: " << (std::abs(with - on_cpu) < 1e-2f ? "yes" : "no") << '\n';

    // Events: how long something took on its stream, and a stream that waits for a moment on another.
    const lz::Event begin({.timing = true}), end({.timing = true});
    begin.record(s);
    {
        const lz::StreamGuard guard(s);
        lz::matmul(lz::ones({256, 256}, {.device = "cuda"}), lz::ones({256, 256}, {.device = "cuda"})).eval();
    }
    end.record(s);
    end.synchronize();
    std::cout << "the product took some time: " << (begin.elapsed_time(end) > 0 ? "yes" : "no") << '\n';
    return without == with ? 0 : 1;
} catch (const lz::Error &error) {
    std::cerr << "streams: " << error.what() << '\n';
    return 1;
}
