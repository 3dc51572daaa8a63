#include "tests/support/losses.h"

#include "ir/text/text.h"
#include "tests/support/compare.h"
#include "tests/support/shrink.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace lz::test {
namespace {

std::vector<uint32_t> culprits_of(const ir::Interpreted &run, uint32_t result) {
    std::vector<uint32_t> nodes;
    for (const ir::Interpreted::Failed &f : run.failures)
        if (std::ranges::find(f.results, result) != f.results.end())
            nodes.push_back(f.failure.node());
    return nodes;
}

/// Runs graphs by the engine, and counts those in which something fails.
class Losses {
public:
    /// "" or what is wrong: a result that is lost and should not be, or the other way round; a failure of an
    /// operation that did not fail; a result that is there and wrong.
    std::string wrong(const ir::Graph &graph, const std::vector<double> &tolerance) {
        const std::vector<ir::HostTensor> inputs = inputs_of(graph);
        const ir::Interpreted want = ir::interpret_all(graph, inputs);
        ir::Interpreted got;
        try {
            GraphRun run(graph, inputs);
            run.launch();
            got = run.outcome();
        } catch (const std::exception &error) {
            return error.what();
        }
        failed_ += !want.failures.empty();
        for (uint32_t r = 0; r < want.results.size(); ++r) {
            const std::vector<uint32_t> why = culprits_of(got, r);
            if (why.empty() && want.results[r].type.numel() == 0)
                continue; // there is nothing to lose; the failure itself is told
            if (why.size() > 1)
                return fmt::format("result {} is lost twice", r);
            if (why.size() != culprits_of(want, r).size())
                return fmt::format("result {} ({}) is {}: {}", r, ir::to_string(want.results[r].type),
                                   why.empty() ? "not lost"
                                               : "lost, though it depends on nothing that failed",
                                   (why.empty() ? want : got).failures[0].failure.message());
            const std::string what =
                why.empty() ? wrong_result(r, got.results[r], want.results[r], tolerance)
                : std::ranges::any_of(want.failures,
                                      [&](const auto &f) { return f.failure.node() == why[0]; })
                    ? ""
                    : fmt::format("result {} is lost by operation {}, which did not fail", r, why[0]);
            if (!what.empty())
                return what;
        }
        return "";
    }

    int failed() const { return failed_; }

private:
    int failed_ = 0;
};

} // namespace

std::string wrong_losses(const ir::Graph &graph) {
    return Losses().wrong(graph, {});
}

void expect_right_losses(int64_t programs, uint64_t first,
                         const std::function<RandomGraphOptions(uint64_t seed)> &options_of) {
    Losses losses;
    int found = 0;
    for (int64_t i = 0; (i < programs || !programs) && found < 5; ++i) {
        const uint64_t seed = first + static_cast<uint64_t>(i);
        RandomGraphOptions options = options_of(seed);
        options.special_values = options.zero_size = false;
        options.faults = true;
        const RandomGraph random = random_graph(seed, options);
        const std::string what = losses.wrong(random.graph, random.tolerance);
        if (seed % 100 == 0)
            engine::Engine::get().clear_caches();
        if (what.empty())
            continue;
        const ir::Graph small =
            shrink(random.graph, [&](const ir::Graph &g) { return !losses.wrong(g, {}).empty(); });
        ADD_FAILURE() << "seed " << seed << ": " << what << "\nshrunk: " << losses.wrong(small, {}) << "\n"
                      << ir::print(small);
        ++found;
    }
    EXPECT_GE(losses.failed(), programs / 20) << "too few of the programs fail";
}

} // namespace lz::test
