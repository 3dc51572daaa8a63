// Random programs: compiled code against the interpreter, and against itself unfused, bit by bit.
//
// LAZULI_FUZZ_PROGRAMS=n  how many (1000; 200 in sanitizer builds; 0: without end)
// LAZULI_FUZZ_SEED=s      the first seed (1)
#include "ir/text/text.h"
#include "tests/support/compare.h"
#include "tests/support/environment.h"
#include "tests/support/losses.h"
#include "tests/support/random/graph.h"
#include "tests/support/shrink.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace {

using namespace lz;
using test::number_from;

#if LAZULI_SANITIZE_ADDRESS || LAZULI_SANITIZE_THREAD
constexpr int64_t kPrograms = 200;
#else
constexpr int64_t kPrograms = 1000;
#endif

/// Seeds choose the kind of program too: most are small; some long, some over large tensors, some over
/// special values.
test::RandomGraphOptions options_of(uint64_t seed) {
    test::RandomGraphOptions options;
    if (seed % 4 == 1)
        options.max_nodes = 30;
    if (seed % 8 == 2) {
        options.max_extent = 80;
        options.max_elements = 20000;
    }
    if (seed % 16 == 3) {
        options.max_extent = 40000;
        options.max_elements = 100000;
        options.max_nodes = 6;
    }
    options.special_values = seed % 8 == 4;
    if (seed % 16 == 10) { // large enough to be cut at their borders
        options.max_extent = 300;
        options.max_elements = 100000;
        options.max_nodes = 8;
    }
    options.borders = seed % 4 == 2 ? 50 : 0;
    options.pairs = seed % 4 == 1 ? 30 : 0;
    options.products = seed % 8 == 5 ? 30 : 0;
    options.updates = seed % 8 == 6 ? 30 : 0;
    return options;
}

/// Modes of the engine for a scope.
class Unfused {
public:
    Unfused() : before_(engine::Engine::get().target().modes) {
        ir::Modes modes = before_;
        modes.fuse = false;
        engine::Engine::get().set_modes(modes);
    }
    ~Unfused() { engine::Engine::get().set_modes(before_); }

private:
    ir::Modes before_;
};

/// "" or what is wrong, fused or not.
std::string wrong(const ir::Graph &graph, const std::vector<double> &tolerance) {
    return test::wrong(graph, tolerance, [&](const std::vector<ir::HostTensor> &inputs) {
        std::vector<ir::HostTensor> fused = test::run_compiled(graph, inputs);
        const Unfused unfused;
        const std::string difference = test::different_bits(fused, test::run_compiled(graph, inputs));
        if (!difference.empty())
            throw std::runtime_error("fused and unfused differ: " + difference);
        return fused;
    });
}

TEST(Fuzz, RandomProgramsComputeWhatTheInterpreterDoes) {
    const int64_t programs = number_from("LAZULI_FUZZ_PROGRAMS", kPrograms);
    const auto first = static_cast<uint64_t>(number_from("LAZULI_FUZZ_SEED", 1));
    int failures = 0;
    for (uint64_t seed = first; programs == 0 || seed < first + static_cast<uint64_t>(programs); ++seed) {
        const test::RandomGraph random = test::random_graph(seed, options_of(seed));
        const std::string what = wrong(random.graph, random.tolerance);
        if (seed % 100 == 0)
            engine::Engine::get().clear_caches(); // memory stays bounded in the mode without end
        if (what.empty())
            continue;
        const ir::Graph small =
            test::shrink(random.graph, [](const ir::Graph &g) { return !wrong(g, {}).empty(); });
        const std::string small_what = wrong(small, {});
        ADD_FAILURE() << "seed " << seed << ": " << what << "\nshrunk: " << small_what
                      << "\nreplay with lz-opt --run=check:\n"
                      << ir::print(small);
        if (++failures == 5)
            break;
    }
}

/// Divisors that are zero and indices out of range: however it is fused, all and only what depends on an
/// operation that failed is lost (S26).
TEST(Fuzz, RandomProgramsThatFailLoseWhatTheInterpreterLoses) {
    test::expect_right_losses((number_from("LAZULI_FUZZ_PROGRAMS", kPrograms) + 4) / 5,
                              static_cast<uint64_t>(number_from("LAZULI_FUZZ_SEED", 1)), options_of);
}

/// Programs that failed wrongly once.
TEST(Fuzz, SeedsThatLostTooLittleStayRight) {
    for (const uint64_t seed : {770300u, 910919u, 920416u})
        test::expect_right_losses(1, seed, options_of);
}

} // namespace
