// Which of a row's barriers are needed, by what is said of its memory.

#include "codegen/cuda/rows/barriers.h"

#include <gtest/gtest.h>

namespace lz::test {
namespace {

using codegen::cuda::RowBarriers;

enum Rank : int { kEnd, kBefore, kExchange };

/// All threads give a value, and all read all.
void exchange(RowBarriers &row, const char *list, bool of_cluster = false) {
    row.write({.name = list, .of_cluster = of_cluster}, "thread");
    row.place(kExchange, of_cluster);
    row.read({.name = list, .of_cluster = of_cluster});
}

using Needed = std::vector<bool>;

TEST(RowBarriers, OneExchangeNeedsAnotherBarrierBeforeTheNextRow) {
    RowBarriers row;
    exchange(row, "parts0");
    row.place(kEnd);
    EXPECT_EQ(row.needed(false), (Needed{true, true}));
}

TEST(RowBarriers, TwoExchangesKeepEachOtherApart) {
    RowBarriers row;
    exchange(row, "parts0");
    exchange(row, "parts1");
    row.place(kEnd);
    EXPECT_EQ(row.needed(false), (Needed{true, true, false}));
}

TEST(RowBarriers, TwoExchangesThroughOneListNeedABarrierBetween) {
    RowBarriers row;
    exchange(row, "parts");
    row.place(kBefore);
    exchange(row, "parts");
    row.place(kEnd);
    EXPECT_EQ(row.needed(false), (Needed{true, true, true, true}));
}

TEST(RowBarriers, WhatAThreadWroteItselfItMayRead) {
    RowBarriers row;
    row.write({"kept"}, "lanes");
    row.place(kExchange);
    row.read({"kept"}, "lanes");
    row.place(kEnd);
    EXPECT_EQ(row.needed(true), (Needed{false, false}));
}

TEST(RowBarriers, ElementsOfOtherOwnersNeedBarriers) {
    RowBarriers row;
    row.write({"kept"}, "~chunks");
    row.place(kExchange);
    row.read({"kept"}, "turns");
    row.place(kEnd);
    EXPECT_EQ(row.needed(false), (Needed{true, true}));
}

/// Rows of another length have their elements elsewhere.
TEST(RowBarriers, OwnersThatDependOnTheLengthAreOthersInTheNextRow) {
    const auto needed = [](bool lengths_differ) {
        RowBarriers row;
        row.write({"kept"}, "~chunks");
        row.place(kExchange);
        row.read({"kept"}, "~chunks");
        row.place(kEnd);
        return row.needed(lengths_differ);
    };
    EXPECT_EQ(needed(false), (Needed{false, false}));
    EXPECT_EQ(needed(true), (Needed{false, true}));
}

TEST(RowBarriers, MemoryOfTheRowIsNotWrittenAgain) {
    RowBarriers row;
    row.write({.name = "inout0", .of_row = true}, "~chunks");
    row.place(kExchange);
    row.read({.name = "inout0", .of_row = true});
    row.place(kEnd);
    EXPECT_EQ(row.needed(false), (Needed{true, false}));
}

TEST(RowBarriers, ALoopComesToItsBeginAgain) {
    const auto needed = [](bool two) {
        RowBarriers row;
        row.open_loop();
        row.place(kBefore);
        exchange(row, "parts0");
        if (two)
            exchange(row, "parts1");
        row.close();
        row.place(kEnd);
        return row.needed(false);
    };
    EXPECT_EQ(needed(false), (Needed{true, true, false}));
    EXPECT_EQ(needed(true), (Needed{false, true, true, false}));
}

/// A barrier that may not be come to orders nothing.
TEST(RowBarriers, ABranchMayNotBeTaken) {
    RowBarriers row;
    exchange(row, "parts");
    row.open_branch();
    exchange(row, "above");
    row.close();
    row.place(kEnd);
    EXPECT_EQ(row.needed(false), (Needed{true, true, true}));
}

TEST(RowBarriers, OneOfABlockOrdersNothingOfItsCluster) {
    RowBarriers row;
    row.barrier();
    exchange(row, "parts0"); // of the block
    exchange(row, "of_blocks0", true);
    row.place(kEnd);
    EXPECT_EQ(row.needed(false), (Needed{true, true, false}));
    RowBarriers without;
    exchange(without, "of_blocks0", true);
    without.place(kEnd);
    without.place(kEnd, true);
    EXPECT_EQ(without.needed(false), (Needed{true, false, true}));
}

} // namespace
} // namespace lz::test
