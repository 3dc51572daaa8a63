/// Every stage of a Program has text, and the text is all that the next passes need.

#include "ir/text/text.h"
#include "passes/pipeline.h"
#include "support/random_programs.h"
#include "support/slow_target.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace lz::passes {
namespace {

using namespace ir;

Graph random_program(uint64_t seed) {
    Graph graph = test::random_graph(seed, mixed_options(seed)).graph;
    test::Random draw(seed + 99);
    donate_some(graph, draw);
    if (draw.chance(30)) // wanted twice
        graph.results.push_back(graph.results[draw.below(graph.results.size())]);
    return graph;
}

TEST(Stages, ThePassesGoOnFromTheTextOfAnyStage) {
    std::map<Stage, size_t> seen;
    for (uint64_t seed = 0; seed < 240; ++seed) {
        Target target = slow_target(3, seed % 2 == 0);
        target.modes.fuse = seed % 5 != 0;
        if (seed % 7 == 0)
            for (DeviceInfo &device : target.devices)
                device.memory_bytes = 2000;                     // for fit_memory
        std::vector<std::pair<std::string, std::string>> texts; // pass, its Program
        PipelineObserver observer;
        observer.after = [&](const PassOutput &output) {
            if (output.program)
                texts.emplace_back(output.pass, print(*output.program));
        };
        Program whole = compile(random_program(seed), target, &observer).program;
        EXPECT_FALSE(whole.notes.empty());
        whole.notes.clear();
        // Two, if fused it needed too much memory; then one of them was taken.
        const auto tries =
            std::ranges::count(texts, "lower-clusters", &std::pair<std::string, std::string>::first);
        size_t same = 0;
        for (const auto &[pass, text] : texts) {
            Program program = parse_program(text);
            ASSERT_EQ(print(program), text) << "after " << pass << ", seed " << seed;
            ++seen[program.stage];
            ProgramContext context{target};
            finish(program, context);
            program.notes.clear();
            same += print(program) == print(whole);
            if (tries == 1) {
                ASSERT_EQ(print(program), print(whole))
                    << "from the text after " << pass << ", seed " << seed;
            }
        }
        EXPECT_GE(same, texts.size() / 2) << "seed " << seed;
    }
    for (const Stage stage : {Stage::Lowered, Stage::Streamed, Stage::Planned, Stage::Ordered, Stage::Final})
        EXPECT_GE(seen[stage], 200u) << name(stage);
}

} // namespace
} // namespace lz::passes
