// The first call in a new process, from the begin of main to the result: from nothing, also with everything
// compiled before it runs (LAZULI_QUICK=0), and with the kernels that another process has left on disk.
//
//   bench_cold_start
//
// `process_ms` is the whole process, loading of libraries and its end included.
#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

namespace {

namespace fs = std::filesystem;
using lz::Tensor;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

Tensor multiply_add() {
    const Tensor a = lz::ones({1000}), b = lz::ones({1000}), c = lz::ones({1000});
    lz::sync();
    return a * b + c;
}
Tensor softmax() {
    const Tensor x = lz::ones({64, 100});
    lz::sync();
    return lz::softmax(x, -1) * 100;
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
Tensor attention() {
    const Tensor q = lz::ones({8, 64, 64}), k = lz::ones({8, 64, 64}), v = lz::ones({8, 64, 64});
    lz::sync();
    return lz::matmul(lz::softmax(lz::matmul(q, k.transpose(1, 2)) * 0.125, -1), v);
}

struct First {
    Tensor (*call)();
    float result; ///< of every element
};
const std::map<std::string, First> &firsts() {
    static const std::map<std::string, First> all = {{"multiply_add", {multiply_add, 2}},
                                                     {"softmax", {softmax, 1}},
                                                     {"mlp_step", {mlp_step, 1}},
                                                     {"attention", {attention, 1}}};
    return all;
}

/// In a process of its own: prints the seconds since `begin`.
int first_call(const std::string &name, Clock::time_point begin) {
    const First &first = firsts().at(name);
    const float result = first.call().flatten().select(0, 0).item<float>();
    const double took = seconds_since(begin);
    std::printf("%.9f\n", took);
    return std::abs(result - first.result) < 1e-4f ? 0 : 1;
}

/// A folder that is removed.
class Folder {
public:
    Folder() {
        path_ = (fs::temp_directory_path() / "lazuli-bench-XXXXXX").string();
        if (!mkdtemp(path_.data()))
            path_.clear();
    }
    ~Folder() {
        if (!path_.empty())
            fs::remove_all(path_);
    }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;
    const std::string &path() const { return path_; }

private:
    std::string path_;
};

enum class Start { FromNothing, FromNothingCompiled, FromDisk };

/// Runs this program again with `folder` as its cache; false where it fails.
bool run(const std::string &name, const std::string &folder, bool quick, double &seconds) {
    const std::string program = fs::read_symlink("/proc/self/exe").string();
    const std::string command = std::string(quick ? "" : "LAZULI_QUICK=0 ") + "LAZULI_CACHE_DIR='" + folder +
                                "' '" + program + "' --first " + name;
    FILE *const output = popen(command.c_str(), "r");
    if (!output)
        return false;
    const bool read = std::fscanf(output, "%lf", &seconds) == 1;
    return pclose(output) == 0 && read;
}

void cold_start(benchmark::State &state, const std::string &name, Start start) {
    const Folder kept;
    const bool from_disk = start == Start::FromDisk;
    double seconds = 0, all = 0;
    bool good = !from_disk || run(name, kept.path(), false, seconds);
    for (auto _ : state) {
        const Folder fresh;
        const auto begin = Clock::now();
        good = good && run(name, from_disk ? kept.path() : fresh.path(), start != Start::FromNothingCompiled,
                           seconds);
        all += seconds_since(begin);
        state.SetIterationTime(seconds);
    }
    if (!good)
        state.SkipWithError("the other process fails, or its result is wrong");
    state.counters["process_ms"] = all * 1e3 / static_cast<double>(state.iterations());
}

} // namespace

int main(int argc, char **argv) {
    const auto begin = Clock::now();
    if (argc == 3 && std::string(argv[1]) == "--first")
        return first_call(argv[2], begin);
    for (const auto &[name, first] : firsts())
        for (const auto &[start, called] : {std::pair{Start::FromNothing, "/from_nothing"},
                                            {Start::FromNothingCompiled, "/from_nothing_compiled"},
                                            {Start::FromDisk, "/from_disk"}})
            benchmark::RegisterBenchmark(
                (name + called).c_str(),
                [name = name, start = start](benchmark::State &state) { cold_start(state, name, start); })
                ->UseManualTime()
                ->Iterations(5)
                ->Unit(benchmark::kMillisecond);
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
