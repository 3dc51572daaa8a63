/// The kernels of the corpus are run: as CUDA devices do them, against the interpreter of Kernel IR. What the
/// architectures' assemblers make of them is asked in cubins_test.cpp.

#include "corpus.h"
#include "emitted/emitted.h"
#include "ir/kernel/key.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace lz::test {
namespace {

using namespace ir;

Program program_of(const CorpusEntry &entry, const Graph &graph) {
    Target target = cuda_test_target(1);
    target.modes.reproducible = entry.reproducible;
    CudaLimits &limits = target.devices[1].cuda();
    limits.l2_bytes = limits.l2_bytes * entry.multiprocessors / limits.multiprocessors;
    limits.multiprocessors = entry.multiprocessors;
    return passes::compile(graph, target).program;
}

/// But for the blocks that have parts of a temporary: of two rows there are two, on an H200 264.
std::string key_of(Kernel kernel) {
    for (Phase &phase : kernel.phases)
        if (phase.cuda().most_blocks > 0)
            phase.on_cuda().most_blocks = 1;
    return cache_key(kernel);
}

/// Which quarter of the corpus.
class EmittedCorpus : public testing::TestWithParam<size_t> {
protected:
    void SetUp() override {
        if (!why_not_run().empty())
            GTEST_SKIP() << why_not_run();
    }
};

/// What runs has few elements, and is each kernel that an H200 gets of what users have. Every third runs on
/// addresses that are not aligned, too: NVRTC needs as long again for that entry.
TEST_P(EmittedCorpus, GivesTheInterpretersBitsKernelByKernel) {
    const std::vector<CorpusEntry> users = cuda_corpus(), few = cuda_corpus(CorpusExtents::Few);
    ASSERT_EQ(users.size(), few.size());
    ASSERT_GE(few.size(), 60U);
    for (size_t i = GetParam(); i < few.size(); i += 4) {
        const std::string &name = few[i].name;
        ASSERT_EQ(name, users[i].name);
        const Graph graph = parse_graph(few[i].text);
        const Program program = program_of(few[i], graph),
                      expected = program_of(users[i], parse_graph(users[i].text));
        ASSERT_EQ(program.kernels.size(), expected.kernels.size()) << name;
        ASSERT_FALSE(program.kernels.empty()) << name;
        for (size_t k = 0; k < program.kernels.size(); ++k)
            EXPECT_EQ(key_of(program.kernels[k]), key_of(expected.kernels[k]))
                << name << ": what runs is another kernel.\n"
                << print(program.kernels[k]) << print(expected.kernels[k]);
        for (const int shift : {0, 1})
            if (shift == 0 || i % 3 == 0)
                expect_program(program, graph.runtime_words(), name,
                               {.shift = shift, .most_blocks = 2, .seed = i, .corners = false});
        if (HasFatalFailure())
            return;
    }
}

INSTANTIATE_TEST_SUITE_P(Quarters, EmittedCorpus, testing::Values(0, 1, 2, 3),
                         [](const auto &info) { return std::to_string(info.param); });

} // namespace
} // namespace lz::test
