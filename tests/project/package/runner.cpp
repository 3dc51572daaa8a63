// A user's program against the installed liblazuli-run.so: runs what `consumer save` wrote.
#include <lazuli/run.h>

#include <cstdio>
#include <vector>

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    try {
        lz::run::load_program("there is none.lzp");
        return 1;
    } catch (const lz::IoError &) {
    }
    const lz::run::Program p = lz::run::load_program(argv[1]);
    const std::vector<float> x = {1, 2, 3};
    const std::vector<lz::run::Array> out = p({{x, {3}}});
    const std::span<const float> y = out[0].values<float>();
    std::printf("runner: %g %g %g\n", static_cast<double>(y[0]), static_cast<double>(y[1]),
                static_cast<double>(y[2]));
    return y[0] == 2 && y[1] == 5 && y[2] == 10 ? 0 : 1;
}
