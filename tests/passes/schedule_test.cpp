/// Programs on many devices and streams, from random graphs: ordered by their events alone, they give the
/// interpreter's results whichever stream is faster.

#include "support/graph_inputs.h"
#include "support/random_programs.h"
#include "support/slow_target.h"

#include "ir/text/text.h"
#include "passes/pipeline.h"
#include "passes/verify/verify_schedule.h"
#include "tests/support/run_naively.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace lz::passes {
namespace {

using namespace ir;

constexpr uint64_t kSeeds = 400;

test::RandomGraphOptions options_for(uint64_t seed) {
    test::RandomGraphOptions options = mixed_options(seed);
    options.ops = test::runnable_ops() & ~test::ops_of(OpFamily::Scan) & ~test::ops_of(OpFamily::Sort) &
                  ~test::ops_of({Op::Scatter});
    return options;
}

TEST(Schedule, RandomProgramsGiveTheInterpretersResultsWhicheverStreamIsFaster) {
    std::set<int32_t> streams_seen;
    size_t waits = 0;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
        const test::RandomGraph random = test::random_graph(seed, options_for(seed));
        Graph graph = random.graph;
        test::Random draw(seed + 99);
        donate_some(graph, draw);
        const std::vector<HostTensor> inputs = test::inputs_of(graph);
        Target target = slow_target(3, seed % 2 == 0);
        target.modes.fuse = seed % 5 != 0;
        const Program program = compile(graph, target).program;
        EXPECT_NO_THROW(verify_schedule(program)) << "seed " << seed;
        for (const Step &step : program.steps) {
            streams_seen.insert(step.stream);
            waits += step.kind == StepKind::WaitEvent;
        }
        const auto expected = interpret(graph, inputs);
        for (uint64_t order = 0; order < 3; ++order) {
            const auto actual = test::run_in_any_order(graph, program, inputs, seed * 10 + order);
            for (size_t r = 0; r < expected.size(); ++r) {
                const auto x = to_doubles(expected[r]), y = to_doubles(actual[r]);
                for (size_t k = 0; k < x.size(); ++k)
                    if (std::isfinite(x[k])) {
                        ASSERT_LE(std::fabs(x[k] - y[k]), random.tolerance[r])
                            << "seed " << seed << ", result " << r << ", element " << k << "\n"
                            << print(graph) << print(program);
                    }
            }
        }
    }
    EXPECT_GT(waits, 500u);
    for (const int32_t stream : {0, 1, 2, kCopyInStream, kCopyOutStream, kCopyPeerStream, kFirstUserStream})
        EXPECT_TRUE(streams_seen.contains(stream)) << stream;
}

TEST(Schedule, StagedPiecesArriveWholeInAnyOrder) {
    const Graph graph = parse_graph("lazuli 1\ngraph @g(%x: f64[1100,1000] @cuda:0 = random(3)) {\n"
                                    "  %0 = transfer %x {to=cuda:1} : f64[1100,1000] @cuda:1\n"
                                    "  %1 = transfer %0 {to=cuda:2} : f64[1100,1000] @cuda:2\n"
                                    "  return %0, %1\n}\n");
    const Program program = compile(graph, test_target(3)).program;
    const HostTensor input = materialize_param(graph, graph.params[0]);
    size_t copies = 0;
    for (const Step &step : program.steps)
        copies += step.kind == StepKind::Copy;
    EXPECT_EQ(copies, 12u) << "two transfers of three pieces, in and out";
    for (uint64_t seed = 0; seed < 4; ++seed) {
        const auto results = test::run_in_any_order(graph, program, std::span(&input, 1), seed);
        EXPECT_EQ(results[0].bytes, input.bytes) << seed;
        EXPECT_EQ(results[1].bytes, input.bytes) << seed;
    }
}

} // namespace
} // namespace lz::passes
