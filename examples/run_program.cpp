// Runs what `program_file save FILE` wrote, with liblazuli-run.so alone: no tensors, no compiler, no LLVM.
//
//   run_program FILE
#include <lazuli/run.h>

#include <cstdio>
#include <vector>

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fprintf(stderr, "run_program: it takes a file that program_file wrote.\n");
        return 2;
    }
    const lz::run::Program classify = lz::run::load_program(argv[1]);
    std::vector<float> x(16);
    for (size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<float>(i) * 0.125f - 1;
    const std::vector<lz::run::Array> out = classify({{x, {4, 4}}});
    for (const float p : out[0].values<float>())
        std::printf("%.9g\n", p);
    try {
        out[1].values<float>();
    } catch (const lz::DTypeError &error) {
        std::printf("%s\n", error.what());
    }
    try {
        classify({{x, {2, 8}}});
    } catch (const lz::ShapeError &error) {
        std::printf("%s\n", error.what());
    }
    try {
        classify({{std::span<const float>(x).first(8), {4, 4}}});
    } catch (const lz::ShapeError &error) {
        std::printf("%s\n", error.what());
    }
}
