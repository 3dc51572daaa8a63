// What the public headers cost those who include them: seconds of the compiler's processor time, user and
// system, for one file at -O2. What it compiles has to be found: a compiler that says anything fails the row.
//
//   bench_headers
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace {

namespace fs = std::filesystem;

/// Of the processes that have ended and that were waited for.
double seconds_of_children() {
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);
    const auto seconds = [](const timeval &t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// A folder that goes when this does.
struct Folder {
    Folder() : path(fs::temp_directory_path() / ("lazuli-headers-" + std::to_string(getpid()))) {
        fs::create_directories(path);
    }
    ~Folder() {
        std::error_code ignored;
        fs::remove_all(path, ignored);
    }
    const fs::path path;
};

void compile(benchmark::State &state, const char *text) {
    const Folder folder;
    const std::string source = (folder.path / "main.cpp").string();
    std::ofstream(source) << text;
    const std::string command = std::string("CCACHE_DISABLE=1 '" LAZULI_BENCH_CXX "' -std=c++20 -O2 -c '-I") +
                                LAZULI_BENCH_HEADERS "' '" + source + "' -o '" + source + ".o' >'" + source +
                                ".log' 2>&1";
    const auto run = [&] { return std::system(command.c_str()) == 0; };
    run(); // reads the files
    for (auto _ : state) {
        const double before = seconds_of_children();
        if (!run() || fs::file_size(source + ".log") != 0) {
            state.SkipWithError("the file does not compile");
            break;
        }
        state.SetIterationTime(seconds_of_children() - before);
    }
}

/// A file that uses tensors only.
BENCHMARK_CAPTURE(compile, lazuli, "#include <lazuli/lazuli.h>\nint main() {}\n")
    ->Name("lazuli.h")
    ->UseManualTime()
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(compile, nn, "#include <lazuli/nn.h>\nint main() {}\n")
    ->Name("nn.h")
    ->UseManualTime()
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

/// A network of the user's and its training.
BENCHMARK_CAPTURE(compile, network, R"(
#include <lazuli/lazuli.h>
#include <lazuli/nn.h>
#include <lazuli/optim.h>
#include <iostream>

struct NetImpl : lz::nn::Module {
    lz::nn::Linear fc1{register_module("fc1", lz::nn::Linear(784, 64))};
    lz::nn::Linear fc2{register_module("fc2", lz::nn::Linear(64, 10))};
    lz::nn::Dropout dropout{register_module("dropout", lz::nn::Dropout(0.2))};
    lz::Tensor forward(const lz::Tensor &x) { return fc2(dropout(lz::relu(fc1(x)))); }
};
LZ_MODULE(Net);

int main() {
    Net net;
    lz::optim::AdamW optimizer(net->parameters(), lz::optim::AdamWOptions(1e-3));
    const lz::Tensor x = lz::randn({64, 784}), y = lz::randint(10, {64});
    for (int step = 0; step < 10; ++step) {
        optimizer.zero_grad();
        const lz::Tensor loss = lz::cross_entropy(net(x), y);
        loss.backward();
        optimizer.step();
        std::cout << loss.item<float>() << "\n";
    }
}
)")
    ->Name("network")
    ->UseManualTime()
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);

} // namespace

BENCHMARK_MAIN();
