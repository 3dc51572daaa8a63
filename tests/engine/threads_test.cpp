// The number of threads is part of the Target: Programs are cut for it.
#include "frontend/engine/engine.h"
#include "frontend/engine/executable.h"
#include "ir/text/text.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace {

using namespace lz;

int64_t items_of_the_product(engine::Engine &engine, std::span<const uint64_t> key) {
    const ir::Graph graph = ir::parse_graph(R"(lazuli 1
graph @main(%x: f32[700,700] @cpu, %y: f32[700,700] @cpu) {
  %0 = dot %x, %y {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[700,700] @cpu
  return %0
})");
    engine::ExecutablePtr found = engine.find(key, 7);
    if (!found)
        found = engine.compile(key, 7, graph);
    int64_t items = 0;
    for (const ir::Step &step : found->program->program().steps)
        for (const ir::Segment &segment : step.segments)
            items = std::max(items, segment.items[0]);
    return items;
}

TEST(Threads, ProductsAreCutForTheNumberThatWasSetLast) {
    engine::Engine &engine = engine::Engine::get();
    const int before = engine.num_threads();
    const std::vector<uint64_t> key = {0x7468726561647321};
    engine.set_num_threads(1);
    EXPECT_EQ(engine.target().host().threads, 1);
    const int64_t alone = items_of_the_product(engine, key);
    const engine::CompileStats first = engine.stats();
    engine.set_num_threads(8);
    const int64_t shared = items_of_the_product(engine, key);
    EXPECT_LT(alone, 8);
    EXPECT_GE(shared, 8);
    // Sizes of blocks are arguments: the kernel is the same.
    EXPECT_EQ(engine.stats().kernels_compiled, first.kernels_compiled);
    EXPECT_EQ(engine.stats().programs_compiled, first.programs_compiled + 1);
    // And the Program of before is found again.
    engine.set_num_threads(1);
    EXPECT_EQ(items_of_the_product(engine, key), alone);
    EXPECT_EQ(engine.stats().programs_compiled, first.programs_compiled + 1);
    engine.set_num_threads(before);
}

} // namespace
