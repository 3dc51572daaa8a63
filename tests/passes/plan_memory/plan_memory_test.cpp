#include "passes/memory/plan_memory.h"

#include "ir/text/text.h"
#include "passes/memory/arena_layout.h"
#include "passes/pipeline.h"
#include "tests/support/random/graph.h"
#include "tests/support/run_naively.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace lz::passes {
namespace {

using namespace ir;

Program compile_text(const std::string &text) {
    return compile(parse_graph("lazuli 1\n" + text), test_target()).program;
}

// ---- the packing problem

TEST(ArenaLayout, BlocksThatLiveTogetherNeverOverlap) {
    test::Random random(1);
    for (int round = 0; round < 200; ++round) {
        std::vector<ArenaBlock> blocks(static_cast<size_t>(random.between(1, 60)));
        for (ArenaBlock &b : blocks) {
            b.first = static_cast<uint32_t>(random.below(30));
            b.last = b.first + static_cast<uint32_t>(random.below(8));
            b.bytes = random.between(1, 20) * 256;
        }
        std::ranges::sort(blocks, {}, &ArenaBlock::first);
        const ArenaLayout layout = layout_arena(blocks);
        int64_t most = 0;
        for (uint32_t step = 0; step < 40; ++step) {
            int64_t live = 0;
            for (const ArenaBlock &b : blocks)
                live += b.first <= step && step <= b.last ? b.bytes : 0;
            most = std::max(most, live);
        }
        EXPECT_EQ(layout.live_bytes, most);
        EXPECT_GE(layout.bytes, most);
        for (size_t i = 0; i < blocks.size(); ++i) {
            EXPECT_LE(blocks[i].offset + blocks[i].bytes, layout.bytes);
            for (size_t j = 0; j < i; ++j) {
                const bool together = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
                const bool overlap = blocks[i].offset < blocks[j].offset + blocks[j].bytes &&
                                     blocks[j].offset < blocks[i].offset + blocks[i].bytes;
                EXPECT_FALSE(together && overlap) << "round " << round << ", blocks " << i << " and " << j;
            }
        }
    }
}

TEST(ArenaLayout, AChainNeedsItsTwoLargestNeighbours) {
    std::vector<ArenaBlock> blocks;
    for (uint32_t step = 0; step < 100; ++step)
        blocks.push_back({1024, step, step + 1});
    EXPECT_EQ(layout_arena(blocks).bytes, 2048);
}

// ---- plans of random programs, by brute force

/// First and last step that touch each buffer; copies count as steps of the Program.
struct Life {
    size_t first = SIZE_MAX, last = 0;
};

std::vector<Life> lives_of(const Program &program) {
    std::vector<Life> lives(program.buffers.size());
    for (size_t s = 0; s < program.steps.size(); ++s)
        for (const ByteRange &a : program.steps[s].accesses) {
            lives[a.buffer].first = std::min(lives[a.buffer].first, s);
            lives[a.buffer].last = std::max(lives[a.buffer].last, s);
        }
    for (uint32_t r : program.results)
        lives[r].last = program.steps.size();
    return lives;
}

test::RandomGraphOptions options_without_library(uint64_t seed) {
    test::RandomGraphOptions options;
    options.max_nodes = 24;
    options.ops = test::runnable_ops() & ~test::ops_of(OpFamily::Scan) & ~test::ops_of(OpFamily::Sort) &
                  ~test::ops_of({Op::Scatter});
    options.special_values = seed % 3 == 0;
    return options;
}

Graph random_program(uint64_t seed) {
    Graph graph = test::random_graph(seed, options_without_library(seed)).graph;
    test::Random random(seed * 77 + 5);
    for (Param &p : graph.params)
        p.donated = random.chance(40);
    if (random.chance(20) && !graph.params.empty())
        graph.results.push_back(graph.params[0].value);
    if (random.chance(20))
        graph.results.push_back(graph.results[0]);
    for (Param &p : graph.params)
        if (p.donated && !graph.results.empty() && random.chance(30))
            p.donated_to = static_cast<uint32_t>(random.below(graph.results.size()));
    return graph;
}

TEST(PlanMemory, BuffersThatLiveTogetherShareNoBytes) {
    for (uint64_t seed = 0; seed < 300; ++seed)
        for (const bool fuse : {true, false}) {
            Target target = test_target();
            target.modes.fuse = fuse;
            const Program program = compile(random_program(seed), target).program;
            const std::vector<Life> lives = lives_of(program);
            for (uint32_t a = 0; a < program.buffers.size(); ++a)
                for (uint32_t b = 0; b < a; ++b) {
                    const BufferDesc &x = program.buffers[a], &y = program.buffers[b];
                    if (x.kind != BufferKind::Arena || y.kind != BufferKind::Arena || !x.bytes || !y.bytes ||
                        x.offset >= y.offset + y.bytes || y.offset >= x.offset + x.bytes)
                        continue;
                    const Life early =
                        std::min(lives[a], lives[b], [](Life p, Life q) { return p.first < q.first; });
                    const Life late =
                        std::max(lives[a], lives[b], [](Life p, Life q) { return p.first < q.first; });
                    const bool in_place =
                        early.last == late.first && x.offset == y.offset && x.bytes == y.bytes;
                    EXPECT_TRUE(early.last < late.first || in_place)
                        << "seed " << seed << ": buffers " << a << " and " << b << "\n"
                        << print(program);
                }
        }
}

TEST(PlanMemory, ProgramsThatReuseMemoryGiveTheInterpretersResults) {
    for (uint64_t seed = 0; seed < 300; ++seed) {
        const auto options = options_without_library(seed);
        const test::RandomGraph random = test::random_graph(seed, options);
        Graph graph = random_program(seed);
        std::vector<HostTensor> inputs;
        for (const Param &p : graph.params)
            inputs.push_back(materialize_param(graph, p));
        const auto expected = interpret(graph, inputs);
        const CompileResult compiled = compile(graph, test_target());
        const auto actual = test::run_naively(graph, compiled.program, inputs);
        for (size_t r = 0; r < random.tolerance.size(); ++r) {
            const auto x = to_doubles(expected[r]), y = to_doubles(actual[r]);
            for (size_t k = 0; k < x.size(); ++k)
                if (std::isfinite(x[k]) && std::fabs(x[k]) < 1e4) { // see RandomGraphOptions::special_values
                    ASSERT_LE(std::fabs(x[k] - y[k]), random.tolerance[r])
                        << "seed " << seed << ", result " << r << ", element " << k << "\n"
                        << print(graph) << print(compiled.program);
                }
        }
        for (size_t r = random.tolerance.size(); r < expected.size(); ++r) {
            const ValueId v = graph.results[r];
            const auto first =
                static_cast<size_t>(std::ranges::find(graph.results, v) - graph.results.begin());
            EXPECT_EQ(actual[r].bytes, first < r ? actual[first].bytes : expected[r].bytes)
                << "seed " << seed;
        }
    }
}

TEST(PlanMemory, EveryReuseIsAnOrderEdge) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
        PipelineObserver observer;
        Program plan;
        observer.after = [&](const PassOutput &output) {
            if (output.pass == "plan-memory")
                plan = *output.program;
        };
        const Program program = compile(random_program(seed), test_target(), &observer).program;
        const std::vector<Life> lives = lives_of(program);
        // What each buffer comes after, through any number of edges.
        std::vector<std::vector<bool>> after(plan.buffers.size(), std::vector<bool>(plan.buffers.size()));
        for (size_t pass = 0; pass < plan.buffers.size(); ++pass) {
            bool changed = false;
            for (const Reuse &reuse : plan.draft.reuses)
                for (size_t b = 0; b < plan.buffers.size(); ++b)
                    if ((b == reuse.before || after[reuse.before][b]) && !after[reuse.after][b])
                        changed = after[reuse.after][b] = true;
            if (!changed)
                break;
        }
        for (uint32_t a = 0; a < plan.buffers.size(); ++a)
            for (uint32_t b = 0; b < a; ++b) {
                const BufferDesc &x = plan.buffers[a], &y = plan.buffers[b];
                if (x.kind == BufferKind::Arena && y.kind == BufferKind::Arena && x.bytes && y.bytes &&
                    x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes) {
                    EXPECT_TRUE(lives[a].first < lives[b].first ? after[b][a] : after[a][b])
                        << "seed " << seed << ": buffers " << a << " and " << b;
                }
            }
    }
}

// ---- what may be written over

TEST(PlanMemory, AResultTakesADonatedInputsMemory) {
    const Program program = compile_text("graph @g(%x: f32[64] @cpu donated) {\n"
                                         "  %0 = constant {value=2} : f32[] @cpu\n"
                                         "  %1 = mul %x, %0 : f32[64] @cpu\n"
                                         "  return %1\n}\n");
    EXPECT_EQ(program.buffers[program.results[0]].kind, BufferKind::Result);
    EXPECT_EQ(program.buffers[program.results[0]].donor, 0);
}

TEST(PlanMemory, AnOverwrittenValuesMemoryIsItsHeirsFromTheFirstStepOn) {
    const Program program = compile_text("graph @g(%x: f32[64] @cpu donated to 1, %y: f32[64] @cpu) {\n"
                                         "  %0 = exp %y : f32[64] @cpu\n"
                                         "  %1 = constant {value=2} : f32[64] @cpu\n"
                                         "  return %0, %1\n}\n");
    EXPECT_EQ(program.buffers[program.results[0]].donor, -1);
    EXPECT_EQ(program.buffers[program.results[1]].donor, 0);
}

TEST(PlanMemory, AnInputWithAnHeirIsWrittenOverByNobodyElse) {
    const Program program = compile_text("graph @g(%x: f32[64] @cpu donated to 1) {\n"
                                         "  %0 = exp %x : f32[64] @cpu\n"
                                         "  %1 = constant {value=2} : f32[8] @cpu\n"
                                         "  return %0, %1\n}\n");
    EXPECT_EQ(program.buffers[program.results[0]].donor, -1);
}

TEST(PlanMemory, EqualValuesOfOverwrittenOnesAreInTheMemoryOfEach) {
    const Program program =
        compile_text("graph @g(%x: f32[64] @cpu donated to 0, %y: f32[64] @cpu donated to 1) {\n"
                     "  %0 = constant {value=2} : f32[64] @cpu\n"
                     "  return %0, %0\n}\n");
    EXPECT_EQ(program.buffers[program.results[0]].donor, 0);
    EXPECT_EQ(program.buffers[program.results[1]].donor, 1);
}

TEST(PlanMemory, AnInputThatIsNotDonatedIsLeftAlone) {
    const Program program = compile_text("graph @g(%x: f32[64] @cpu) {\n"
                                         "  %0 = neg %x : f32[64] @cpu\n"
                                         "  return %0\n}\n");
    EXPECT_EQ(program.buffers[program.results[0]].donor, -1);
}

TEST(PlanMemory, AnInputReadInAnotherOrderIsNotWrittenOver) {
    for (const char *view :
         {"flip %x {axes=[0]} : f32[8,8] @cpu", "permute %x {axes=[1,0]} : f32[8,8] @cpu"}) {
        const Program program =
            compile_text("graph @g(%x: f32[8,8] @cpu donated) {\n  %0 = " + std::string(view) +
                         "\n  %1 = add %0, %x : f32[8,8] @cpu\n  return %1\n}\n");
        EXPECT_EQ(program.buffers[program.results[0]].donor, -1) << view;
    }
}

TEST(PlanMemory, InputsThatShareMemoryAreDonatedOnlyTogether) {
    const char *text = "  %0 = add %x, %y : f32[64] @cpu\n  %1 = neg %x : f32[64] @cpu\n  return %0, %1\n}\n";
    const Program both = compile_text(
        "graph @g(%x: f32[64] @cpu donated storage(1), %y: f32[64] @cpu storage(1)) {\n" + std::string(text));
    for (uint32_t r : both.results)
        EXPECT_EQ(both.buffers[r].donor, -1);
}

TEST(PlanMemory, AStepThatCanFailLeavesItsDonorWhole) {
    const Program program = compile_text("graph @g(%x: i32[8] @cpu donated, %y: i32[8] @cpu) {\n"
                                         "  %0 = div %x, %y : i32[8] @cpu\n  return %0\n}\n");
    EXPECT_EQ(program.buffers[program.results[0]].donor, -1);
}

TEST(PlanMemory, AResultThatIsAnInputIsACopy) {
    const Program program = compile_text("graph @g(%x: f32[4] @cpu) {\n  return %x, %x\n}\n");
    ASSERT_EQ(program.steps.size(), 2u);
    EXPECT_EQ(program.steps[0].kind, StepKind::Copy);
    EXPECT_NE(program.results[0], program.results[1]);
}

} // namespace
} // namespace lz::passes
