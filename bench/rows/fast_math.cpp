// What LAZULI_FAST_MATH=1 gives: functions, chains and rows with it and without, where they are bound by
// memory (16 M elements) and in cache (65,536).
//
//   bench_fast_math
//
// The variable is of the process, so that this program asks itself, started with it
// (bench/support/companion.h), for bursts in turn with its own. The time is with it; `ratio` is how many
// times as long it takes without.
#include "bench/support/burst.h"
#include "bench/support/companion.h"
#include "bench/support/compete.h"

#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

using lz::Tensor;
using Tensors = std::vector<Tensor>;

constexpr int64_t kInCache = 1 << 16, kInMemory = 1 << 24;

Tensor chain(const Tensors &in) {
    Tensor x = in[1];
    for (int i = 0; i < 10; ++i)
        x = x * in[1] + 0.5;
    return x;
}

Tensor rows_of(const Tensor &x) {
    return x.reshape({-1, 256});
}

struct Work {
    const char *name;
    Tensor (*result)(const Tensors &); ///< of two vectors: one from 0.125 to 8.125, one from -1 to 1
};
constexpr Work kWorks[] = {
    {"exp", [](const Tensors &in) { return lz::exp(in[0]); }},
    {"log", [](const Tensors &in) { return lz::log(in[0]); }},
    {"sin", [](const Tensors &in) { return lz::sin(in[0]); }},
    {"cos", [](const Tensors &in) { return lz::cos(in[0]); }},
    {"tanh", [](const Tensors &in) { return lz::tanh(in[0]); }},
    {"erf", [](const Tensors &in) { return lz::erf(in[1]); }},
    {"pow", [](const Tensors &in) { return lz::pow(in[0], in[1]); }},
    {"sigmoid", [](const Tensors &in) { return lz::sigmoid(in[1]); }},
    {"gelu", [](const Tensors &in) { return lz::gelu(in[1]); }},
    {"multiply_add", [](const Tensors &in) { return in[0] * in[1] + in[1]; }},
    {"twenty_operations", chain},
    {"softmax", [](const Tensors &in) { return lz::softmax(rows_of(in[0]), -1); }},
    {"layer_norm", [](const Tensors &in) { return lz::layer_norm(rows_of(in[0]), {256}); }},
    {"sum_of_squares", [](const Tensors &in) { return (in[1] * in[1]).sum(); }},
};

/// A work of one size with its inputs, which are the same in both processes.
class Sized {
public:
    Sized(const std::string &name, int64_t n) {
        for (const Work &work : kWorks)
            if (name == work.name)
                result_ = work.result;
        lz::manual_seed(static_cast<uint64_t>(n));
        inputs_ = {lz::rand({n}) * 8 + 0.125, lz::rand({n}) * 2 - 1};
        for (const Tensor &x : inputs_)
            x.eval();
    }
    void run() const { result_(inputs_).eval(); }
    /// Numbers of the result, from all of it.
    std::vector<float> sample() const {
        const std::vector<float> all = result_(inputs_).flatten().to_vector<float>();
        std::vector<float> some;
        for (size_t at = 0; at < all.size(); at += std::max<size_t>(all.size() / 61, 1))
            some.push_back(all[at]);
        return some;
    }

private:
    Tensor (*result_)(const Tensors &) = nullptr;
    Tensors inputs_;
};

/// `time NAME N` or `sample NAME N`.
std::string answer(const std::vector<std::string> &words) {
    static std::pair<std::string, std::unique_ptr<Sized>> last;
    const std::string key = words.at(1) + "/" + words.at(2);
    if (last.first != key)
        last = {key, std::make_unique<Sized>(words[1], std::stol(words[2]))};
    const Sized &work = *last.second;
    if (words[0] == "time")
        return fmt::format("{:.9e}", lz::bench::burst([&] { work.run(); }));
    return fmt::format("{}", fmt::join(work.sample(), " "));
}

lz::bench::Companion &with_it() {
    static lz::bench::Companion process({std::filesystem::read_symlink("/proc/self/exe"), "--serve"},
                                        {"LAZULI_FAST_MATH=1"});
    return process;
}

/// Fused multiply-adds round once where two operations round twice.
bool near(const std::vector<float> &exact, const std::string &fast) {
    std::istringstream in(fast);
    const std::vector<float> others{std::istream_iterator<float>(in), {}};
    for (size_t i = 0; i < exact.size() && i < others.size(); ++i)
        if (!(std::abs(exact[i] - others[i]) <= 1e-4f * std::max(1.0f, std::abs(exact[i]))))
            return false;
    return exact.size() == others.size();
}

void fast_math(benchmark::State &state, const char *name) try {
    const int64_t n = state.range(0);
    const Sized work(name, n);
    if (!near(work.sample(), with_it().ask(fmt::format("sample {} {}", name, n)))) {
        state.SkipWithError("the result is another one");
        return;
    }
    lz::bench::two_ways(
        state, [&] { return with_it().number(fmt::format("time {} {}", name, n)); },
        [&] { return lz::bench::burst([&] { work.run(); }); });
} catch (const std::exception &error) {
    state.SkipWithError(error.what());
}

} // namespace

int main(int argc, char **argv) {
    if (argc == 2 && std::strcmp(argv[1], "--serve") == 0)
        return lz::bench::serve(answer);
    ::setenv("LAZULI_FAST_MATH", "0", 1);
    for (const Work &work : kWorks)
        benchmark::RegisterBenchmark(work.name, fast_math, work.name)
            ->Arg(kInCache)
            ->Arg(kInMemory)
            ->Iterations(lz::bench::kBursts)
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond);
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
