/// CUDA C++ reads as a person would write it: nothing is computed that is known, named twice or done in a
/// loop of one.

#include "corpus.h"
#include "emitted/emitted.h"
#include "kernels.h"

#include "codegen/cuda/source.h"
#include "ir/math/expand.h"
#include "ir/target.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"
#include "tests/support/random/graph.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lz::test {
namespace {

using namespace ir;

/// What nobody would write, and why.
const std::vector<std::pair<std::regex, const char *>> &oddities() {
    const auto of = [](const char *pattern) { return std::regex(pattern, std::regex::optimize); };
    static const std::vector<std::pair<std::regex, const char *>> all = {
        {of(R"(for \([^;]*\b(\w+) = 0; \1 < 1;)"), "a loop of one"},
        {of(R"(^\s+[\w<>, ]+ (?!lanes)\w+\[1\]( = |;))"),
         "an array of one"}, // those are an operand of fold_lanes
        {of(R"(<1>|, 1>( |\{))"), "a packet of one"},
        {of(R"( [/%*] 1(?![\w.]))"), "a factor or a divisor of 1"},
        {of(R"([(=,] 1 \* )"), "a factor of 1"},
        {of(R"( [-+^|] 0(?![\w.]))"), "0 is added"},
        {of(R"([(=,] 0 [-+^|*] )"), "0 is computed with"},
        {of(R"(const [\w ]+ \*?\b\w+ = [A-Za-z_]\w*;)"), "a second name"},
        {of(R"(\(int\)\(?(item|u|c|e)\b|\(long long\)item\b)"), "a conversion to the type that it has"},
        {of(R"([(,] ?\(-[\w.]+\)[,)])"), "parentheses around an argument"},
        {of(R"(\b(arg|rest)\d)"), "a name that says nothing"},
    };
    return all;
}

/// The first such line of the text behind the prelude; empty where there is none.
std::string odd_line(std::string_view text) {
    text.remove_prefix(std::min(text.find("phase0"), text.size()));
    for (size_t end = 0; !text.empty(); text.remove_prefix(end)) {
        end = std::min(text.find('\n'), text.size() - 1) + 1;
        const std::string line(text.substr(0, end));
        for (const auto &[pattern, why] : oddities())
            if (std::regex_search(line, pattern))
                return fmt::format("{}: {}", why, line);
    }
    return "";
}

void expect_plain(const Program &program, const std::string &what, size_t &kernels) {
    for (Kernel kernel : program.kernels) {
        expand_math(kernel);
        ++kernels;
        for (const Kernel &k : {kernel, any_address(kernel)})
            EXPECT_EQ(odd_line(codegen::cuda::make_source(k).text), "") << what;
    }
}

TEST(Source, OddLinesAreFound) {
    for (const char *line :
         {"for (int e = 0; e < 1; ++e) {", "    float x0[1] = {};", "x0[u] = load<1>(in0 + i0);",
          "Packet<float, 1> x0;", "const int i0 = row_thread / 1;", "const int k = row_thread * 1 + i;",
          "float *const parts0 = (float *)(row_memory + 0);", "const int k = 0 + lane;",
          "const int begin = packet;", "const int first = (int)item * 256;", "x = maximum(x, (-1.5f));",
          "const int v28 = v19 ^ 0;", "const int v3 = i0 * arg3;"})
        EXPECT_NE(odd_line(fmt::format("phase0_item(\n{}\n", line)), "") << line;
    EXPECT_EQ(
        odd_line("phase0_item(\nconst int k = from + u * 16 + lane;\nx0[u] = in0[1];\nv1 = x + 0.5f;\n"), "");
}

TEST(Source, OfTheCorpusIsWhatAPersonWouldWrite) {
    Target target = cuda_test_target(1);
    size_t kernels = 0;
    for (const CorpusEntry &entry : cuda_corpus()) {
        target.modes.reproducible = entry.reproducible;
        expect_plain(passes::compile(parse_graph(entry.text), target).program, entry.name, kernels);
    }
    EXPECT_GE(kernels, 60U);
}

/// Rows of each tier, from one element on; large tiles of products.
TEST(Source, OfRowsOfEveryLengthIsWhatAPersonWouldWrite) {
    for (const DType t : {DType::F32, DType::BF16, DType::F64, DType::I32})
        for (const int64_t length : {1, 2, 3, 8, 10, 30, 64, 130, 1000, 1024, 3000, 20000, 70000, 300000}) {
            const Launch l = scheduled(row_kernel(t, info(t).accumulate, 900, length, length));
            EXPECT_EQ(odd_line(cuda_text(l)), "") << name(t) << ", rows of " << length;
            EXPECT_EQ(odd_line(cuda_text(unaligned(l))), "") << name(t) << ", rows of " << length;
        }
    for (const int64_t side : {10, 100, 1000, 3000}) {
        const Launch l = scheduled(product(DType::I32, side, side, side, false));
        EXPECT_EQ(odd_line(cuda_text(l)), "") << "a product of " << side;
    }
}

TEST(Source, OfRandomGraphsIsWhatAPersonWouldWrite) {
    const Target target = cuda_test_target(1);
    RandomGraphOptions options;
    options.devices = {{DeviceKind::Cuda, 0}};
    options.max_elements = 3000;
    options.max_extent = 40;
    options.max_nodes = 14;
    size_t kernels = 0;
    const auto expect = [&](uint64_t seed) {
        expect_plain(passes::compile(random_graph(seed, options).graph, target).program,
                     fmt::format("seed {}", seed), kernels);
    };
    for (uint64_t seed = 0; seed < 100; ++seed)
        expect(seed);
    for (const uint64_t found :
         {116, 797, 1743, 2140}) // four axes; tiles among three; checks and limits of negative numbers
        expect(found);
    EXPECT_GT(kernels, 120U);
}

} // namespace
} // namespace lz::test
