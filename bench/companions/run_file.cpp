// Program files without the rest of Lazuli: this process has liblazuli-run.so, no compiler and no LLVM.
//
//   companion_run_file FILE    loads it and calls it once with ones; prints the seconds since main began,
//                              and the first element of the result
//   companion_run_file         answers `FILE` with the seconds of one call, in a burst (burst.h)
#include "bench/support/burst.h"
#include "bench/support/companion.h"

#include <lazuli/run.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

/// A file of inputs in f32, which are all ones.
class Called {
public:
    explicit Called(const std::string &path) : program_(lz::run::load_program(path)) {
        for (const lz::ProgramTensor &input : program_.signatures().at(0).inputs) {
            size_t count = 1;
            for (const int64_t extent : input.shape)
                count *= static_cast<size_t>(extent);
            memory_.emplace_back(count, 1.0f);
            inputs_.emplace_back(memory_.back(), input.shape);
        }
    }
    float first() const { return program_(inputs_).at(0).values<float>()[0]; }
    void run() const { program_(inputs_); }

private:
    lz::run::Program program_;
    std::vector<std::vector<float>> memory_;
    std::vector<lz::run::View> inputs_;
};

} // namespace

int main(int argc, char **argv) {
    const Clock::time_point begin = Clock::now();
    if (argc == 2) {
        const Called program(argv[1]);
        const float first = program.first();
        std::printf("%.9f %.9g\n", std::chrono::duration<double>(Clock::now() - begin).count(),
                    static_cast<double>(first));
        return 0;
    }
    return lz::bench::serve([](const std::vector<std::string> &words) {
        const Called program(words.at(0));
        char text[32];
        std::snprintf(text, sizeof text, "%.9e", lz::bench::burst([&] { program.run(); }));
        return std::string(text);
    });
}
