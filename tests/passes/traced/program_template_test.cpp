#include "ir/diagnostic.h"
#include "ir/graph/share_words.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"
#include "passes/traced/forms.h"
#include "passes/traced/program_template.h"
#include "passes/traced/read_graph.h"
#include "support/sized_programs.h"
#include "tests/support/random/graph.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lz::traced {
namespace {

using namespace ir;

Program compiled(Graph graph, const Target &target) {
    return passes::compile(std::move(graph), target, nullptr, passes::Explained::No).program;
}

/// What the engine does with graphs of many sizes, with each instance compared with what the passes make.
class Sizes {
public:
    explicit Sizes(const Target &target) : target_(target) {}

    void add(const Graph &graph) {
        const GraphForm form = write_graph(graph);
        const Program program = compiled(graph, target_);
        Structure &known = known_[form.structure];
        if (is_instance(known, form, program))
            return;
        const bool is_first = known.seen.pattern().empty();
        known.seen.add(form.extents);
        if (known.first) { // of which the template is made for the second size
            learn(known, *known.first, compiled(read_graph(*known.first, known.first->extents), target_));
            known.first.reset();
            if (is_instance(known, form, program))
                return;
        }
        ++passes;
        if (is_first)
            known.first = form;
        else
            learn(known, form, program);
    }

    int instances = 0, passes = 0;

private:
    struct Structure {
        SeenExtents seen;
        std::optional<GraphForm> first; ///< until there is a second size
        std::vector<std::unique_ptr<ProgramTemplate>> templates;
    };

    bool is_instance(const Structure &known, const GraphForm &form, const Program &program) {
        for (const std::unique_ptr<ProgramTemplate> &made : known.templates)
            if (const std::optional<Program> instance = made->instantiate(form.extents)) {
                ++instances;
                EXPECT_EQ(print(*instance), print(program));
                return true;
            }
        return false;
    }
    void learn(Structure &known, const GraphForm &form, const Program &program) {
        std::string why;
        if (std::unique_ptr<ProgramTemplate> made =
                ProgramTemplate::make(form, known.seen.pattern(), target_, program, &why))
            known.templates.push_back(std::move(made));
        else
            ADD_FAILURE() << why << print(read_graph(form, form.extents));
    }

    const Target &target_;
    std::map<std::vector<int64_t>, Structure> known_;
};

TEST(ProgramTemplate, TwoHundredAndFiftySixLengthsAreAFewPrograms) {
    const Target target = test_target();
    for (const test::SizedFamily &family : test::sized_families()) {
        SCOPED_TRACE(family.name);
        Sizes sizes(target);
        for (int64_t n = 2; n < 258; ++n)
            sizes.add(family.make(n));
        EXPECT_EQ(sizes.instances + sizes.passes, 256);
        EXPECT_LE(sizes.passes, family.programs);
        EXPECT_LE(family.programs, 8) << "nor may more be asked for";
    }
}

/// The same graph on the first GPU.
Graph on_gpu(const Graph &graph) {
    constexpr std::string_view cpu = "@cpu", gpu = "@cuda:0";
    std::string text = print(graph);
    for (size_t at = 0; (at = text.find(cpu, at)) != std::string::npos; at += gpu.size())
        text.replace(at, cpu.size(), gpu);
    return parse_graph(text);
}

TEST(ProgramTemplate, TwoHundredAndFiftySixLengthsAreAFewProgramsOfCudaDevices) {
    const Target target = cuda_test_target();
    for (const test::SizedFamily &family : test::sized_families()) {
        SCOPED_TRACE(family.name);
        Sizes sizes(target);
        for (int64_t n = 2; n < 258; ++n)
            sizes.add(on_gpu(family.make(n)));
        EXPECT_EQ(sizes.instances + sizes.passes, 256);
        EXPECT_LE(sizes.passes, family.cuda_programs);
    }
}

TEST(ProgramTemplate, RandomGraphsOfOtherSizesAreWhatThePassesMake) {
    int instances = 0, templates = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) {
        SCOPED_TRACE(seed);
        test::RandomGraphOptions options;
        options.max_nodes = 16;
        options.zero_size = seed % 4 == 0;
        options.gpus = seed % 5 == 0 ? 2 : 0;
        const Target target = seed % 2 == 0 ? test_target(options.gpus) : cuda_test_target(options.gpus);
        const Graph graph = test::random_graph(seed, options).graph;
        const GraphForm form = write_graph(graph);
        if (form.extents.empty())
            continue;
        std::string why;
        const auto made =
            ProgramTemplate::make(form, pattern_of_all(form.extents), target, compiled(graph, target), &why);
        ASSERT_TRUE(made) << why << print(graph);
        ++templates;
        test::Random random(seed);
        for (int other = 0; other < 12; ++other) {
            // Mostly all extents by one factor, so that what has to be equal stays equal.
            const int64_t factor = random.between(1, 40);
            std::map<int64_t, int64_t> now;
            std::vector<int64_t> extents;
            for (const int64_t e : form.extents)
                extents.push_back(now.try_emplace(e, other % 3 == 0      ? e * factor
                                                     : random.chance(40) ? random.between(2, 300)
                                                                         : e)
                                      .first->second);
            std::optional<Program> program;
            try {
                program = compiled(read_graph(form, extents), target);
            } catch (const Failure &) { // no graph: extents that do not fit
                continue;
            }
            if (const std::optional<Program> instance = made->instantiate(extents)) {
                ++instances;
                ASSERT_EQ(print(*instance), print(*program)) << print(graph);
            }
        }
    }
    EXPECT_GT(templates, 200);
    EXPECT_GT(instances, 200);
}

TEST(ProgramTemplate, ScratchOfLibraryFunctionsIsAskedForAgain) {
    static constexpr LibraryRule kSort = {
        "sort", [](std::span<const int64_t> ints, const DeviceInfo &) { return 16 * ints[2] + 8; }};
    static constexpr LibraryRules kRules = {
        "cpu", [](std::string_view symbol) { return symbol == kSort.symbol ? &kSort : nullptr; }};
    Target target = test_target();
    target.devices[0].library = &kRules;
    Sizes sizes(target);
    for (int64_t n = 20; n < 120; ++n) {
        GraphBuilder b;
        const ValueId x = b.param({DType::F32, {3, n}, kCpu}, "x");
        const ValueId sorted = b.add(Op::Sort, {x}, {1, 0});
        b.graph().results = {b.unary(Op::Exp, sorted)};
        sizes.add(b.take());
    }
    EXPECT_EQ(sizes.instances + sizes.passes, 100);
    EXPECT_LE(sizes.passes, 4);
}

TEST(ProgramTemplate, NodesMayHaveTheSameWords) {
    const Target target = test_target();
    Sizes sizes(target);
    for (int64_t n = 20; n < 120; ++n) {
        test::SizedGraph g;
        const auto x = g.input({n, 8}), y = g.input({n, 8});
        const Graph apart = g.take({g.op(Op::Mul, g.slice(x, 0, 3, n - 5), g.slice(y, 0, 3, n - 5))});
        std::vector<NodeId> slices;
        for (NodeId id = 0; id < apart.nodes().size(); ++id)
            if (apart.node(id).op == Op::Slice)
                slices.push_back(id);
        ASSERT_EQ(slices.size(), 2u);
        const Graph graph = share_words(apart, std::vector<SharedWords>{{slices[1], slices[0]}});
        ASSERT_EQ(graph.node(slices[0]).runtime_begin, graph.node(slices[1]).runtime_begin);
        const GraphForm form = write_graph(graph);
        ASSERT_EQ(write_graph(read_graph(form, form.extents)).structure, form.structure);
        sizes.add(graph);
    }
    EXPECT_EQ(sizes.instances + sizes.passes, 100);
    EXPECT_LE(sizes.passes, 4);
}

TEST(ProgramTemplate, GraphsComeBackFromTheirForms) {
    for (uint64_t seed = 0; seed < 100; ++seed) {
        test::RandomGraphOptions options;
        options.streams = seed % 3 == 0 ? 2 : 0;
        const Graph graph = test::random_graph(seed, options).graph;
        const GraphForm form = write_graph(graph);
        EXPECT_EQ(write_graph(read_graph(form, form.extents)).structure, form.structure);
        EXPECT_EQ(print(compiled(read_graph(form, form.extents), test_target())),
                  print(compiled(graph, test_target())));
    }
}

TEST(ProgramTemplate, ExtentsThatWereAlwaysEqualAreOneParameter) {
    const auto extents = [](int64_t m, int64_t n) {
        test::SizedGraph g;
        const auto x = g.input({m, n, 8});
        return write_graph(g.take({g.op(Op::Add, x, g.input({m, n, 8}))})).extents;
    };
    SeenExtents seen;
    seen.add(extents(3, 3));
    seen.add(extents(4, 4));
    EXPECT_EQ(seen.pattern(), (ExtentPattern{0, 0, kFixed, 0, 0, kFixed}));
    seen.add(extents(8, 9));
    EXPECT_EQ(seen.pattern(), (ExtentPattern{0, 1, kFixed, 0, 1, kFixed}));
}

TEST(ProgramTemplate, ExtentsOfOneAreAStructureOfTheirOwn) {
    const auto form = [](int64_t m, int64_t n) {
        test::SizedGraph g;
        return write_graph(g.take({g.op(Op::Exp, g.input({m, n}))}));
    };
    EXPECT_EQ(form(3, 4).structure, form(70, 9).structure);
    EXPECT_EQ(form(3, 4).structure, form(4, 4).structure);
    EXPECT_NE(form(3, 4).structure, form(3, 1).structure);
    EXPECT_NE(form(3, 4).structure, form(0, 4).structure);
    EXPECT_EQ(form(3, 4).extents, (std::vector<int64_t>{3, 4}));
}

TEST(ProgramTemplate, AnotherPatternIsNoInstance) {
    const auto form = [](int64_t m, int64_t n) {
        test::SizedGraph g;
        const auto x = g.input({m});
        return write_graph(g.take({g.op(Op::Exp, x), g.op(Op::Exp, g.input({n}))}));
    };
    const GraphForm equal = form(7, 7);
    test::SizedGraph g;
    const auto x = g.input({7});
    const Graph graph = g.take({g.op(Op::Exp, x), g.op(Op::Exp, g.input({7}))});
    const auto made = ProgramTemplate::make(equal, pattern_of_all(equal.extents), test_target(),
                                            compiled(graph, test_target()));
    ASSERT_TRUE(made);
    EXPECT_TRUE(made->instantiate(form(9, 9).extents));
    EXPECT_FALSE(made->instantiate(form(9, 8).extents));
}

} // namespace
} // namespace lz::traced
