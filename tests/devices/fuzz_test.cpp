// Random programs on four virtual GPUs whose streams are held up at random: transfers, 0-dim CPU operands,
// user streams, events, callbacks, updates in place, several runs in flight, several threads. Each is
// compared with the interpreter and its schedule is verified (LAZULI_VERIFY).
//
// LAZULI_FUZZ_PROGRAMS=n  how many (800; 150 in sanitizer builds; 0: without end)
// LAZULI_FUZZ_SEED=s      the first seed (1)
#include "frontend/engine/devices.h"
#include "ir/text/text.h"
#include "tests/support/compare.h"
#include "tests/support/environment.h"
#include "tests/support/losses.h"
#include "tests/support/random/graph.h"
#include "tests/support/shrink.h"
#include "virtual_gpus.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

using namespace lz;
using test::number_from;

#if LAZULI_SANITIZE_ADDRESS || LAZULI_SANITIZE_THREAD
constexpr int64_t kPrograms = 150;
#else
constexpr int64_t kPrograms = 800;
#endif
constexpr int kGpus = 4, kStreams = 2;

/// Four, or those that there are.
int gpus() {
    static const int count =
        std::min(kGpus, static_cast<int>(engine::Engine::get().devices().slots().size()) - 1);
    return count;
}

/// Streams of the user's on each GPU; their numbers are the first ones. Effects name some that have no work.
void make_streams() {
    static const bool made = [] {
        for (uint8_t d = 0; d < gpus(); ++d)
            for (int s = 0; s < 2 * kStreams; ++s)
                engine::open_stream({ir::DeviceKind::Cuda, d}, 0);
        return true;
    }();
    EXPECT_TRUE(made);
}

test::RandomGraphOptions options_of(uint64_t seed) {
    test::RandomGraphOptions options;
    options.gpus = 1 + static_cast<int>(seed % static_cast<uint64_t>(gpus()));
    options.max_nodes = seed % 3 == 0 ? 40 : 16;
    options.cpu_scalars = seed % 2 == 0;
    options.updates = seed % 5 == 1 ? 10 : 0;
    if (seed % 3 != 1) {
        options.streams = kStreams;
        options.first_stream = ir::kFirstUserStream;
        options.effects = seed % 7 == 0 ? 0 : 15;
    }
    if (seed % 8 == 5) { // as under autocast
        options.dtypes = {ir::DType::F32, ir::DType::F16, ir::DType::BF16, ir::DType::I32, ir::DType::Bool};
        options.casts = 40;
    }
    if (seed % 16 == 3) {
        options.max_extent = 2000;
        options.max_elements = 200000;
        options.max_nodes = 10;
    }
    return options;
}

/// "" or what is wrong with any of several runs in flight.
std::string wrong(const ir::Graph &graph, const std::vector<double> &tolerance, int runs) {
    return test::wrong(graph, tolerance, [&](const std::vector<ir::HostTensor> &inputs) {
        std::deque<test::GraphRun> in_flight;
        for (int r = 0; r < runs; ++r)
            in_flight.emplace_back(graph, inputs).launch();
        std::vector<ir::HostTensor> first = in_flight[0].results();
        for (int r = 1; r < runs; ++r)
            if (const std::string difference =
                    test::different_bits(first, in_flight[static_cast<size_t>(r)].results());
                !difference.empty())
                throw std::runtime_error(
                    fmt::format("run {} of one program differs from run 0: {}", r, difference));
        return first;
    });
}

int64_t allocated() {
    int64_t bytes = 0;
    engine::Engine &engine = engine::Engine::get();
    for (const runtime::DeviceSlot &slot : engine.devices().slots())
        bytes += slot.allocator->stats().allocated_bytes[runtime::StatPool::All].current;
    return bytes + engine.pinned_allocator()->stats().allocated_bytes[runtime::StatPool::All].current;
}

/// What a seed's program shows, with the shrunk program.
std::string report(uint64_t seed, const test::RandomGraph &random, const std::string &what) {
    const auto fails = [](const ir::Graph &g) { return !wrong(g, {}, 2).empty(); };
    const ir::Graph small = fails(random.graph) ? test::shrink(random.graph, fails) : random.graph;
    return fmt::format("seed {}: {}\nshrunk: {}\n{}", seed, what, wrong(small, {}, 2), ir::print(small));
}

TEST(DevicesFuzz, RandomProgramsOnFourGpusComputeWhatTheInterpreterDoes) {
    LZ_NEEDS_GPUS();
    make_streams();
    const int64_t programs = number_from("LAZULI_FUZZ_PROGRAMS", kPrograms);
    const auto first = static_cast<uint64_t>(number_from("LAZULI_FUZZ_SEED", 1));
    const int64_t before = allocated();
    int failures = 0;
    for (uint64_t seed = first; programs == 0 || seed < first + static_cast<uint64_t>(programs); ++seed) {
        if (seed % 100 == 0)
            engine::Engine::get().clear_caches(); // memory stays bounded in the mode without end
        const test::RandomGraph random = test::random_graph(seed, options_of(seed));
        const std::string what = wrong(random.graph, random.tolerance, 1 + static_cast<int>(seed % 3));
        if (what.empty())
            continue;
        ADD_FAILURE() << report(seed, random, what);
        if (++failures == 5)
            break;
    }
    EXPECT_EQ(allocated(), before) << "everything was given back";
}

/// Divisors that are zero and indices out of range: all and only what depends on an operation that failed is
/// lost, across steps, streams and devices (S26).
TEST(DevicesFuzz, RandomProgramsThatFailLoseWhatTheInterpreterLoses) {
    LZ_NEEDS_GPUS();
    make_streams();
    test::expect_right_losses((number_from("LAZULI_FUZZ_PROGRAMS", kPrograms) + 3) / 4,
                              static_cast<uint64_t>(number_from("LAZULI_FUZZ_SEED", 1)), options_of);
}

/// Programs that were wrong once.
TEST(DevicesFuzz, SeedsThatFoundErrorsStayRight) {
    LZ_NEEDS_GPUS();
    make_streams();
    for (const uint64_t seed : {7u, 9u, 20u, 26u, 36u, 17368u}) {
        const test::RandomGraph random = test::random_graph(seed, options_of(seed));
        EXPECT_EQ(wrong(random.graph, random.tolerance, 2), "") << "seed " << seed;
    }
    test::expect_right_losses(1, 770160, options_of);
}

/// A launch that has nothing to do is not run; what it would have updated in place is lost all the same. The
/// stream keeps it from being simplified away.
TEST(DevicesFuzz, AnUpdateByNothingPassesOnWhatWasLost) {
    LZ_NEEDS_GPUS();
    make_streams();
    const ir::Graph graph = ir::parse_graph(R"(lazuli 1
graph @update(%x: i8[4,1] @cpu = dense<[1, 0, 2, 3]>, %none: i8[0,1] @cuda:0 = random(1)) {
  %0 = div %x, %x : i8[4,1] @cpu rec(6) loc("model.cpp":12)
  %1 = transfer %0 {to=cuda:0} : i8[4,1] @cuda:0 rec(11) loc("model.cpp":15)
  %2 = update_slice %1, %none {starts=[4,0], steps=[2,2]} : i8[4,1] @cuda:0 stream(8) rec(12) loc("model.cpp":18)
  %3 = neg %2 : i8[4,1] @cuda:0 rec(13) loc("model.cpp":19)
  return %2, %3
}
)");
    EXPECT_EQ(test::wrong_losses(graph), "");
}

TEST(DevicesFuzz, FourThreadsRunProgramsOnTheSameGpusAtOnce) {
    LZ_NEEDS_GPUS();
    make_streams();
    constexpr int kThreads = 4;
    const int64_t each = std::max<int64_t>(1, number_from("LAZULI_FUZZ_PROGRAMS", kPrograms) / 40);
    std::vector<std::string> found(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
            for (int64_t i = 0; i < each && found[static_cast<size_t>(t)].empty(); ++i) {
                const auto seed = static_cast<uint64_t>(1000003 + i * kThreads + t);
                const test::RandomGraph random = test::random_graph(seed, options_of(seed));
                if (const std::string what = wrong(random.graph, random.tolerance, 2); !what.empty())
                    found[static_cast<size_t>(t)] = fmt::format("seed {}: {}", seed, what);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    for (const std::string &what : found)
        EXPECT_EQ(what, "");
}

} // namespace
