// The first call in a new process, from the begin of main to the result: from nothing, also with everything
// compiled before it runs (LAZULI_QUICK=0), with the kernels that another process has left on disk, and from
// a file that another process has saved (lz::save_program), by lz::load_program and by liblazuli-run.so
// without the rest of Lazuli.
//
//   bench_cold_start
//
// `process_ms` is the whole process, loading of libraries and its end included. `ratio` of the calls from
// files is how many times as long the call with kernels on disk takes, which takes turns with them.
#include "bench/support/burst.h"
#include "bench/support/folder.h"
#include "bench/support/functions.h"

#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using lz::Tensor;
using lz::bench::Function;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Forward and backward of two layers, and both weights after a step.
Tensor mlp_step() {
    Tensor x = lz::ones({64, 64}), w1 = lz::full({64, 128}, 0.01, {.requires_grad = true}),
           w2 = lz::full({128, 10}, 0.01, {.requires_grad = true});
    const Tensor y = lz::zeros({64}, {.dtype = lz::i64});
    lz::sync();
    const Tensor loss = lz::cross_entropy(lz::matmul(lz::relu(lz::matmul(x, w1)), w2), y);
    loss.backward();
    const lz::NoGradGuard no_grad;
    w1 -= 0.1 * w1.grad();
    w2 -= 0.1 * w2.grad();
    w1.eval();
    w2.eval();
    return loss.detach() / std::log(10.0);
}

/// A function that may be a file, or the step, which changes tensors and so cannot.
const Function *function_of(const std::string &name) {
    const auto &all = lz::bench::functions();
    const auto found = std::ranges::find(all, name, &Function::name);
    return found == all.end() ? nullptr : &*found;
}

/// In a process of its own, of the file if there is one: prints the seconds since `begin`.
int first_call(const std::string &name, const std::string &file, Clock::time_point begin) {
    const Function *const function = function_of(name);
    Tensor result;
    if (!function)
        result = mlp_step();
    else if (const std::vector<Tensor> in = function->make_inputs(); file.empty())
        result = function->of(in);
    else
        result = lz::load_program(file)(in)[0];
    const float element = result.data<float>()[0];
    const double took = seconds_since(begin);
    std::printf("%.9f %.9g\n", took, static_cast<double>(element));
    return 0;
}

enum class Start { FromNothing, FromNothingCompiled, FromDisk, FromFile, FromFileByRunLibrary };

/// What a process needs that another one has left: a cache, or a file.
struct Left {
    lz::bench::Folder folder;
    std::string file() const { return folder.path() + "/function.lzp"; }
};

/// Runs a process with `folder` as its cache; false where it fails, or its result is wrong.
bool run(const std::string &name, const std::string &folder, const Left &left, Start start, double &seconds) {
    std::string command = "LAZULI_CACHE_DIR='" + folder + "' ";
    if (start == Start::FromFileByRunLibrary) {
        command += "'" LAZULI_BENCH_COMPANIONS "/companion_run_file' '" + left.file() + "'";
    } else {
        command += start == Start::FromNothingCompiled ? "LAZULI_QUICK=0 '" : "'";
        command += fs::read_symlink("/proc/self/exe").string() + "' --first " + name;
        if (start == Start::FromFile)
            command += " '" + left.file() + "'";
    }
    FILE *const output = popen(command.c_str(), "r");
    if (!output)
        return false;
    float element = 0;
    const bool read = std::fscanf(output, "%lf %f", &seconds, &element) == 2;
    const Function *const function = function_of(name);
    return pclose(output) == 0 && read &&
           (function ? function->is_right(element) : std::abs(element - 1) < 1e-4f);
}

void cold_start(benchmark::State &state, const std::string &name, Start start) {
    const Left left;
    const bool from_file = start == Start::FromFile || start == Start::FromFileByRunLibrary;
    double seconds = 0, all = 0;
    bool good = true;
    if (from_file)
        lz::bench::save_function(*function_of(name), left.file());
    if (from_file || start == Start::FromDisk)
        good = run(name, left.folder.path(), left, Start::FromDisk, seconds);
    std::vector<double> firsts, from_disk;
    for (auto _ : state) {
        if (from_file) {
            good = good && run(name, left.folder.path(), left, Start::FromDisk, seconds);
            from_disk.push_back(seconds);
        }
        const lz::bench::Folder fresh;
        const auto begin = Clock::now();
        good = good &&
               run(name, start == Start::FromDisk ? left.folder.path() : fresh.path(), left, start, seconds);
        all += seconds_since(begin);
        firsts.push_back(seconds);
        state.SetIterationTime(seconds);
    }
    if (!good)
        state.SkipWithError("the other process fails, or its result is wrong");
    state.counters["process_ms"] = all * 1e3 / static_cast<double>(state.iterations());
    if (from_file)
        state.counters["ratio"] = lz::bench::median_of(from_disk) / lz::bench::median_of(firsts);
}

void add(const std::string &name, const char *called, Start start) {
    benchmark::RegisterBenchmark((name + called).c_str(),
                                 [=](benchmark::State &state) { cold_start(state, name, start); })
        ->UseManualTime()
        ->Iterations(5)
        ->Unit(benchmark::kMillisecond);
}

} // namespace

int main(int argc, char **argv) {
    const auto begin = Clock::now();
    if (argc >= 3 && std::string(argv[1]) == "--first")
        return first_call(argv[2], argc == 4 ? argv[3] : "", begin);
    std::vector<std::string> names = {"mlp_step"};
    for (const Function &function : lz::bench::functions())
        names.push_back(function.name);
    for (const std::string &name : names) {
        add(name, "/from_nothing", Start::FromNothing);
        add(name, "/from_nothing_compiled", Start::FromNothingCompiled);
        add(name, "/from_disk", Start::FromDisk);
        if (function_of(name)) {
            add(name, "/from_file", Start::FromFile);
            add(name, "/from_file_by_liblazuli-run", Start::FromFileByRunLibrary);
        }
    }
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
