// cat and stack: tensors that are stored, computed, transposed or stepped are joined along every axis, few of
// them and many. One thread, CPU time, of recording and sync together; a copy (x * 3 of as many bytes) and
// LibTorch's join, where it is installed, take turns with each round. `copies` is our best round over the
// best copy of as many bytes as have to be read and written (stepped parts: every line of what is stored),
// `ratio` LibTorch's best round over ours. Ends with a table of `copies`, and LibTorch's in brackets.
//
//   bench_joins                                       32 MiB results
//   bench_joins --benchmark_filter='64KiB.*stored'
#include "bench/support/join.h"

#include <lazuli/lazuli.h>

#include <benchmark/benchmark.h>
#if LAZULI_BENCH_TORCH
#include "bench/peers/torch/torch.h"
#endif

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

using lz::Tensor;
using lz::bench::Join;
using Round = std::function<void()>;

constexpr int64_t kCounts[] = {2, 3, 6, 8, 15, 32, 128, 512, 1000};
constexpr const char *kPartNames[] = {"stored", "arithmetic", "transposed", "stepped"};

double cpu_seconds() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}
double seconds_of(const Round &round) {
    const double begin = cpu_seconds();
    round();
    return cpu_seconds() - begin;
}

Tensor ready(Tensor x) {
    x.eval();
    return x;
}

Tensor part(const Join &join, const Tensor &stored, int64_t k) {
    switch (join.of) {
    case Join::Parts::Arithmetic:
        return k % 3 == 0 ? stored * 2 : k % 3 == 1 ? stored + 1 : stored * stored;
    case Join::Parts::Transposed:
        return stored.transpose(-2, -1);
    case Join::Parts::Stepped:
        return stored.at({lz::Ellipsis, lz::Slice(0, lz::None, 2)});
    default:
        return stored;
    }
}

struct Line {
    std::map<int64_t, std::string> cells; ///< by number of parts
};
std::map<std::string, Line> &table() {
    static std::map<std::string, Line> table;
    return table;
}

void run(benchmark::State &state, const Join &join, const std::string &line) {
    std::vector<Tensor> stored;
    for (int64_t k = 0; k < join.parts; ++k)
        stored.push_back(ready(lz::rand(join.stored_shape())));
    const Tensor whole = ready(lz::rand({join.bytes() / 4}));
    const Round copy = [&] { (whole * 3).eval(); };
    const Round ours = [&] {
        std::vector<Tensor> parts;
        for (int64_t k = 0; k < join.parts; ++k)
            parts.push_back(part(join, stored[static_cast<size_t>(k)], k));
        const Tensor joined = join.stack ? lz::stack(parts, join.axis) : lz::cat(parts, join.axis);
        parts.clear(); // who holds them wants them stored
        joined.eval();
    };
#if LAZULI_BENCH_TORCH
    const Round peer = lz::bench::torch::join(join);
#else
    const Round peer;
#endif
    copy();
    ours(); // compiles
    if (peer)
        peer();
    constexpr double kNever = std::numeric_limits<double>::max();
    double best_copy = kNever, best = kNever, best_peer = kNever;
    for (auto _ : state) {
        best_copy = std::min(best_copy, seconds_of(copy));
        const double took = seconds_of(ours);
        state.SetIterationTime(took);
        best = std::min(best, took);
        if (peer)
            best_peer = std::min(best_peer, seconds_of(peer));
    }
    const double moved = join.of == Join::Parts::Stepped ? 1.5 : 1;
    const double copies = best / (best_copy * moved);
    state.counters["best_ms"] = best * 1e3;
    state.counters["copies"] = copies;
    char cell[32];
    if (peer) {
        state.counters["torch_ms"] = best_peer * 1e3;
        state.counters["ratio"] = best_peer / best;
        std::snprintf(cell, sizeof(cell), "%5.2f (%5.2f)", copies, best_peer / (best_copy * moved));
    } else {
        std::snprintf(cell, sizeof(cell), "%5.2f", copies);
    }
    table()[line].cells[join.parts] = cell;
}

/// A function, an axis, and the part's shape for so many parts that make `elements` in all, or nearly.
struct Kind {
    const char *name;
    bool stack;
    int64_t axis;
    std::vector<int64_t> (*shape)(int64_t elements, int64_t parts);
};
int64_t some(int64_t n) {
    return std::max<int64_t>(n, 1);
}
const Kind kKinds[] = {
    {"cat axis 0", false, 0,
     [](int64_t n, int64_t parts) { return std::vector<int64_t>{some(n / 1024 / parts), 1024}; }},
    {"cat axis 1", false, 1,
     [](int64_t n, int64_t parts) {
         const int64_t columns = some(std::min<int64_t>(4096, n / 16) / parts);
         return std::vector<int64_t>{some(n / columns / parts), columns};
     }},
    {"cat axis 1 of 3", false, 1,
     [](int64_t n, int64_t parts) {
         const int64_t rows = some(std::min<int64_t>(1024, n / 16 / 16) / parts);
         return std::vector<int64_t>{some(n / 16 / rows / parts), rows, 16};
     }},
    {"stack axis 0", true, 0,
     [](int64_t n, int64_t parts) {
         return n / parts >= 4096 ? std::vector<int64_t>{n / parts / 1024, 1024}
                                  : std::vector<int64_t>{some(n / parts / 16), 16};
     }},
    {"stack axis 1", true, 1,
     [](int64_t n, int64_t parts) { return std::vector<int64_t>{some(n / 16 / parts), 16}; }},
    {"stack last", true, -1,
     [](int64_t n, int64_t parts) { return std::vector<int64_t>{some(n / parts / 16), 16}; }},
};

void add(int64_t bytes, const char *size) {
    for (const Kind &kind : kKinds)
        for (size_t of = 0; of < std::size(kPartNames); ++of)
            for (const int64_t parts : kCounts) {
                const Join join = {kind.stack, kind.axis, parts, kind.shape(bytes / 4, parts),
                                   static_cast<Join::Parts>(of)};
                const std::string line = std::string(size) + " " + kind.name + ", " + kPartNames[of];
                std::string name = line;
                std::ranges::replace(name, ' ', '_');
                benchmark::RegisterBenchmark(
                    (name + "/" + std::to_string(parts)).c_str(),
                    [join, line](benchmark::State &state) { run(state, join, line); })
                    ->UseManualTime()
                    ->Unit(benchmark::kMillisecond);
            }
}

void print_table() {
    std::printf("\n%-36s", "");
    for (const int64_t parts : kCounts)
        std::printf(" %13ld", static_cast<long>(parts));
    for (const auto &[name, line] : table()) {
        std::printf("\n%-36s", name.c_str());
        for (const int64_t parts : kCounts) {
            const auto cell = line.cells.find(parts);
            std::printf(" %13s", cell == line.cells.end() ? "" : cell->second.c_str());
        }
    }
    std::printf("\n");
}

/// Results are right before their time is taken.
bool check() {
    const Tensor a = ready(lz::arange(0, 6).reshape({2, 3})), b = ready(lz::arange(6, 12).reshape({2, 3}));
    return lz::cat({a * 2, b.at({lz::Ellipsis, lz::Slice(0, lz::None, 2)})}, 1).to_vector<int64_t>() ==
               std::vector<int64_t>{0, 2, 4, 6, 8, 6, 8, 10, 9, 11} &&
           lz::stack({a.t(), b.t()}, -1).to_vector<int64_t>() ==
               std::vector<int64_t>{0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11};
}

} // namespace

int main(int argc, char **argv) {
    if (!check()) {
        std::fprintf(stderr, "bench_joins: a result is wrong; nothing is timed\n");
        return 1;
    }
    benchmark::Initialize(&argc, argv);
    lz::set_num_threads(1);
#if LAZULI_BENCH_TORCH
    lz::bench::torch::set_threads(1);
#endif
    add(int64_t{32} << 20, "32MiB");
    add(int64_t{64} << 10, "64KiB");
    benchmark::RunSpecifiedBenchmarks();
    print_table();
    return 0;
}
