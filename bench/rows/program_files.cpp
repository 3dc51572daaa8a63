// Functions as files (lz::save_program), in a steady state: calls of what lz::load_program gives, beside the
// compiled function that was saved; and calls by liblazuli-run.so, in a process that has nothing else of
// Lazuli, beside those. bench_cold_start has their first calls.
//
//   bench_program_files
//
// `ratio` is how many times as long the compiled function takes, and for liblazuli-run.so,
// lz::load_program's.
#include "bench/support/burst.h"
#include "bench/support/companion.h"
#include "bench/support/compete.h"
#include "bench/support/folder.h"
#include "bench/support/functions.h"

#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>

#include <exception>
#include <string>
#include <vector>

namespace {

using lz::Tensor;
using lz::bench::burst;
using lz::bench::Function;

/// Of a function, in a folder that goes when the process ends.
std::string file_of(const Function &function) {
    static const lz::bench::Folder folder;
    const std::string path = folder.path() + "/" + function.name + ".lzp";
    lz::bench::save_function(function, path);
    return path;
}

lz::bench::Companion &without_compiler() {
    static lz::bench::Companion process({LAZULI_BENCH_COMPANIONS "/companion_run_file"});
    return process;
}

void call(benchmark::State &state, const Function &function, bool by_run_library) try {
    const std::string path = file_of(function);
    const lz::Program program = lz::load_program(path);
    const std::vector<Tensor> in = function.make_inputs();
    if (!function.is_right(program(in)[0].data<float>()[0])) {
        state.SkipWithError("the result is wrong");
        return;
    }
    const lz::bench::Burst loaded = [&] { return burst([&] { program(in); }); };
    if (by_run_library) {
        lz::bench::two_ways(state, [&] { return without_compiler().number(path); }, loaded);
        return;
    }
    const lz::NoGradGuard guard;
    auto compiled = lz::compile([&](const std::vector<Tensor> &given) { return function.of(given); });
    for (int i = 0; i < 3; ++i)
        compiled(in).eval();
    lz::bench::two_ways(state, loaded, [&] { return burst([&] { compiled(in).eval(); }); });
} catch (const std::exception &error) {
    state.SkipWithError(error.what());
}

} // namespace

int main(int argc, char **argv) {
    for (const Function &function : lz::bench::functions())
        for (const bool by_run_library : {false, true}) {
            const std::string name = function.name + (by_run_library ? "/liblazuli-run" : "/load_program");
            benchmark::RegisterBenchmark(name.c_str(),
                                         [&function, by_run_library](benchmark::State &state) {
                                             call(state, function, by_run_library);
                                         })
                ->Iterations(lz::bench::kBursts)
                ->UseManualTime()
                ->Unit(benchmark::kMicrosecond);
        }
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
