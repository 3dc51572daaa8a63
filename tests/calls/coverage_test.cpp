// That the random programs are what they are said to be: without this they could pass by making nothing.
#include "generate.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace {

using namespace lz::test::calls;

/// Every row is called, and rightly; programs run again with other numbers and extents; with automatic
/// transfers most operands may be anywhere.
TEST(Calls, EveryRowOccursAndRunsVary) {
    constexpr uint64_t programs = 2000; // with half of them a rare row may not occur
    std::map<std::string, int> right, runs;
    int apart = 0; // operands on two devices
    for (const int gpus : {0, 4}) {
        GenerateOptions options;
        options.gpus = gpus;
        for (uint64_t seed = 1; seed <= programs; ++seed) {
            const Program program = generate(seed, options);
            for (const auto &run : runs_of(program))
                ++runs[run.name + std::string(run.compiles ? "" : ", without a compiler")];
            Oracle oracle(program.handles);
            oracle.random_seed = program.random_seed;
            const DefaultMode mode;
            for (const Statement &s : program.statements) {
                std::set<int> devices;
                for (const Arg &arg : s.args)
                    if (arg.handle >= 0 && oracle.defined(arg.handle) && !oracle.value(arg).shape.empty())
                        devices.insert(oracle.value(arg).device);
                if (!perform(oracle, s).empty())
                    continue;
                apart += devices.size() > 1;
                ++right[s.row->text];
            }
        }
    }
    for (const Row &row : table())
        if (!row.text.starts_with("computed(lz::call(")) { // which always throws
            EXPECT_GT(right[row.text], 0) << row.text;
        }
    // A quarter of all programs run again.
    EXPECT_GT(runs["with_other_numbers, without a compiler"], 300);
    EXPECT_GT(runs["with_other_extents"], 150);
    EXPECT_GT(apart, automatic_transfers() ? 200 : 20);
}

} // namespace
